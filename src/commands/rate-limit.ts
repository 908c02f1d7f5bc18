import type { Command } from 'commander'
import { Argument } from 'commander'
import { count, instant, integrationId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'
import { Refused } from './refused.ts'

type Action = 'set' | 'clear' | 'status'

interface Options {
  readonly limit?: number
  readonly window?: number
  readonly sliding?: boolean
  readonly until?: Date
}

/** `integrations rate-limit <id> <action>`: shows or overrides the rate limit of an integration. */
export function rateLimitCommand(frame: Frame): Command {
  return frame
    .command('rate-limit', 'Shows or overrides the rate limit of an integration.', [
      'integrations rate-limit 7 status',
      'integrations rate-limit 7 set --limit 100 --window 60 --sliding',
      'integrations rate-limit 7 set --limit 5 --window 1 --until 2031-06-01T12:00:00Z',
      'integrations rate-limit 7 clear',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .addArgument(
      new Argument(
        '<action>',
        "set: this limit instead of the provider's; clear: the provider's again; status: only look",
      ).choices(['set', 'clear', 'status']),
    )
    .option('--limit <calls>', 'with set: calls in a window', count)
    .option('--window <seconds>', 'with set: length of a window', count)
    .option('--sliding', 'with set: a rolling window; else windows follow each other')
    .option('--until <instant>', 'with set: when it ends by itself', instant)
    .action(
      frame.action(async ({ integrations, by }, id: number, action: Action, options: Options) => {
        const limit = limitOf(action, options)
        const integration = await integrations.get(id)
        if (limit !== undefined) {
          await integration.overrideRateLimit(limit, options.until)
          const done = limit === null ? 'clear' : `set ${limit.limit} in ${limit.seconds} s, ${limit.window}`
          await integrations.admin.operator.note(id, {
            token: by,
            action: `rate-limit ${done}`,
            target: `integration:${id}`,
          })
        }
        const view = await integration.rateLimit()
        const document = {
          integration_id: id,
          source: view.source,
          limit: view.limit,
          window_seconds: view.windowSeconds,
          window: view.window,
          used: view.used,
          override_until: view.overrideUntil?.toISOString() ?? null,
          suppressed_until: view.suppressedUntil?.toISOString() ?? null,
        }
        return { document, text: table(['Field', 'Value'], Object.entries(document)) }
      }),
    )
}

/** Null clears it; undefined: nothing is to be changed. */
function limitOf(action: Action, { limit, window, sliding = false, until }: Options) {
  if (action !== 'set') {
    const given = Object.entries({ limit, window, sliding: sliding || undefined, until }).find(
      ([, value]) => value !== undefined,
    )
    if (given !== undefined) throw new Refused('usage', `--${given[0]} goes with set, it was given with ${action}.`)
    return action === 'clear' ? null : undefined
  }
  if (limit === undefined || window === undefined)
    throw new Refused('usage', 'rate-limit set needs --limit and --window: so many calls in so many seconds.')
  return { limit, seconds: window, window: sliding ? 'sliding' : 'fixed' } as const
}
