import { z } from 'zod'
import { actOfOverride, idleOverride } from '../../calls/limit-act-rules.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, route } from '../command.ts'
import type { Field } from '../fields.ts'
import { choice, flag, id, instant, optional, whole, withDefault } from '../fields.ts'
import { Refused } from '../refused.ts'
import { all, moment, rowId } from '../shapes.ts'

const RateLimitState = z.object({
  integration_id: rowId,
  source: z.enum(['override', 'provider', 'none']),
  ...all(z.int().nullable(), 'limit', 'window_seconds'),
  window: z.enum(['fixed', 'sliding']).nullable(),
  used: z.int(),
  set_by: z.string().nullable().describe("Who set the override; null: no one did, or a host's code."),
  ...all(moment.nullable(), 'override_until', 'set_at', 'suppressed_until'),
  shared: z
    .object({
      budget: z.string(),
      source: z.enum(['override', 'provider']),
      ...all(z.int(), 'limit', 'window_seconds', 'used', 'waiting'),
      ...all(moment.nullable(), 'override_until', 'quiet_until'),
    })
    .nullable(),
})

/** Of an integer column. */
const count = (about: string, placeholder: string): Field<number> => whole(about, { max: 2_147_483_647, placeholder })
const ofIntegration = id('of the integration')

export const rateLimit = command({
  name: 'rate-limit',
  topic: 'Trouble',
  summary: 'Shows or overrides the rate limit of an integration.',
  examples: [
    'integrations rate-limit 7 status',
    'integrations rate-limit 7 set --limit 100 --window 60 --sliding',
    'integrations rate-limit 7 set --limit 5 --window 1 --until 2031-06-01T12:00:00Z',
    'integrations rate-limit 7 clear',
    'integrations rate-limit 7 set --limit 1000 --window 60 --shared',
  ],
  places: ['id', 'action'],
  fields: {
    id: ofIntegration,
    action: choice(
      "set: this limit instead of the provider's; clear: the provider's again; status: only look",
      ['set', 'clear', 'status'],
      'action',
    ),
    limit: optional(count('with set: calls in a window', 'calls')),
    window: optional(count('with set: length of a window', 'seconds')),
    sliding: flag('with set: a rolling window; else windows follow each other'),
    until: optional(instant('with set: when it ends by itself')),
    shared: flag('the limit that this integration shares with others, for all of them'),
  },
  reach: 'integration',
  output: RateLimitState,
  routes: [
    route({
      method: 'get',
      path: '/integrations/:id/rate-limit-override',
      summary: 'Shows the rate limit of an integration.',
      version: ['source', 'limit', 'window_seconds', 'window', 'override_until'],
      fields: { id: ofIntegration },
      run: ({ integrations }, { id }) => shown(integrations, id),
    }),
    route({
      method: 'put',
      path: '/integrations/:id/rate-limit-override',
      summary: 'Overrides the rate limit of an integration.',
      fields: {
        id: ofIntegration,
        limit: count('calls in a window', 'calls'),
        windowSeconds: count('length of a window', 'seconds'),
        window: withDefault(
          choice('sliding: a rolling window; fixed: windows follow each other', ['fixed', 'sliding']),
          'fixed',
        ),
        until: optional(instant('when it ends by itself')),
      },
      run: (context, { id, limit, windowSeconds: seconds, window, until }) =>
        overridden(context, id, { limit, seconds, window }, { until }),
    }),
    route({
      method: 'delete',
      path: '/integrations/:id/rate-limit-override',
      summary: "Gives an integration the provider's rate limit again.",
      fields: { id: ofIntegration },
      run: (context, { id }) => overridden(context, id, null),
    }),
  ],
  check({ action, limit, window, sliding, until, shared }) {
    const given = Object.entries({ limit, window, sliding: sliding || undefined, until }).find(
      ([, value]) => value !== undefined,
    )
    if (action !== 'set' && given !== undefined)
      throw new Refused('usage', `--${given[0]} goes with set, it was given with ${action}.`)
    if (action === 'status' && shared)
      throw new Refused('usage', '--shared goes with set and clear; status shows the shared limit anyway.')
    if (action === 'set' && shared && sliding)
      throw new Refused('usage', '--sliding does not go with --shared: a shared limit is always sliding.')
    if (action === 'set' && (limit === undefined || window === undefined))
      throw new Refused('usage', 'rate-limit set needs --limit (calls) and --window (seconds).')
  },
  run(context, { id, action, limit = 0, window: seconds = 0, sliding, until, shared }) {
    if (action === 'status') return shown(context.integrations, id)
    const override = { limit, seconds, window: sliding ? 'sliding' : 'fixed' } as const
    return overridden(context, id, action === 'set' ? override : null, { until, isShared: shared })
  },
})

async function shown(integrations: CommandContext['integrations'], id: number) {
  const { shared, ...own } = await (await integrations.get(id)).rateLimit()
  return { integration_id: id, ...columns(own), shared: shared === null ? null : columns(shared) }
}

interface Override {
  readonly limit: number
  readonly seconds: number
  readonly window: 'fixed' | 'sliding'
}

/** @param override null: the provider's again */
async function overridden(
  { integrations, note, warn }: CommandContext,
  id: number,
  override: Override | null,
  { until, isShared = false }: { readonly until?: Date | undefined; readonly isShared?: boolean } = {},
) {
  const integration = await integrations.get(id)
  if (isShared) await integration.overrideSharedRateLimit(override, until)
  else await integration.overrideRateLimit(override, until)
  const cleared = `rate-limit clear${isShared ? ' shared' : ''}`
  await note(id, override === null ? cleared : actOfOverride(override, isShared ? 'shared' : override.window))
  if (override !== null && !integrations.config.rate_limiting.overrides_enabled) warn(idleOverride('rate_limiting'))
  return shown(integrations, id)
}
