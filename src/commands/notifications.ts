import type { Command } from 'commander'
import { Argument } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { count, eventId, givenUpLimit } from './cli/arguments.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { table } from './cli/table.ts'
import { Refused } from './refused.ts'

const DEFAULT_LIMIT = 20

interface Options {
  readonly target?: number
  readonly limit?: number
  readonly event?: number
}

/** Each option goes with one action. */
const ACTION_OF: Readonly<Record<keyof Options, Action>> = { target: 'test', limit: 'status', event: 'retry' }
type Action = 'test' | 'status' | 'retry'

/** `integrations notifications test|status|retry`. */
export function notificationsCommand(frame: Frame): Command {
  const run = {
    // Nothing is read or written: it also says whether a target is reached where Postgres is not.
    test: frame.action(test, { needs: 'nothing' }),
    status: frame.action(showStatus),
    retry: frame.action(retry),
  }
  return frame
    .command('notifications', 'Tests the notification targets; shows what waits or was given up, and tries it again.', [
      'integrations notifications test',
      'integrations notifications test --target 2 --json',
      'integrations notifications status',
      'integrations notifications retry --event 17',
    ])
    .addArgument(
      new Argument(
        '<action>',
        'test: send a test to the targets; status: what waits, and what was given up within seven days; retry: try again what was given up',
      ).choices(['test', 'status', 'retry']),
    )
    .option('--target <n>', 'with test: only the one at this place in notifications.targets, from 1', count)
    .option(
      '--limit <n>',
      `with status: at most so many that were given up, up to 500 (default: ${DEFAULT_LIMIT})`,
      givenUpLimit,
    )
    .option('--event <id>', 'with retry: only this event', eventId)
    .action((action: Action, options: Options, command: Command) => {
      for (const [name, goesWith] of Object.entries(ACTION_OF))
        if (options[name as keyof Options] !== undefined && goesWith !== action)
          throw new Refused('usage', `--${name} goes with ${goesWith}, it was given with ${action}.`)
      return run[action](options, command)
    })
}

async function test({ integrations }: CommandContext, { target }: Options): Promise<Outcome> {
  const sent = await integrations.admin.notifications.test(target === undefined ? {} : { target })
  return {
    document: sent,
    text:
      sent.length === 0
        ? 'Nobody to tell: notifications.targets is empty.'
        : table(
            ['Target', 'Listener', 'Host', 'OK', 'Status', 'ms', 'Error'],
            sent.map((one) => [one.target, one.listener, one.host, one.ok, one.status, one.duration_ms, one.error]),
          ),
    exitCode: sent.every(({ ok }) => ok) ? 0 : 1,
  }
}

async function showStatus(
  { integrations, warn }: CommandContext,
  { limit = DEFAULT_LIMIT }: Options,
): Promise<Outcome> {
  // One more than asked for says whether there is more.
  const { waiting, retrying, oldestAt, givenUp } = await integrations.admin.notifications.status({ limit: limit + 1 })
  if (givenUp.length > limit) warn(`There are more than ${limit}; --limit shows more.`)
  const shown = givenUp.slice(0, limit)
  return {
    document: {
      waiting,
      retrying,
      oldest_at: oldestAt?.toISOString() ?? null,
      given_up: shown.map(documentOf),
    },
    text: [
      `Waiting: ${waiting}, of which failed at least once: ${retrying}.${oldestAt === null ? '' : ` The oldest: ${oldestAt.toISOString()}.`}`,
      shown.length === 0 ? 'Nothing was given up within seven days.' : textOf(shown),
    ].join('\n'),
  }
}

async function retry({ integrations }: CommandContext, { event }: Options): Promise<Outcome> {
  const retried = await integrations.admin.notifications.retry(event === undefined ? {} : { eventId: event })
  return {
    document: { retried },
    text: retried === 0 ? 'Nothing was given up within seven days.' : `Will be tried again by a worker: ${retried}.`,
  }
}

type GivenUp = Awaited<ReturnType<Integrations['admin']['notifications']['status']>>['givenUp'][number]

function documentOf({ eventId, name, integrationId, listener, error, createdAt }: GivenUp) {
  return {
    event_id: eventId,
    name,
    integration_id: integrationId,
    listener,
    error,
    created_at: createdAt.toISOString(),
  }
}

function textOf(givenUp: readonly GivenUp[]): string {
  return table(
    ['Event', 'Name', 'Integration', 'Listener', 'Since', 'Error'],
    givenUp.map(({ eventId, name, integrationId, listener, createdAt, error }) => [
      eventId,
      name,
      integrationId,
      listener,
      createdAt,
      error,
    ]),
  )
}
