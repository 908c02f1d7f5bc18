import { z } from 'zod'
import { STORED_EVENT_STATUSES } from '../../events/durable-event-rules.ts'
import { table } from '../cli/table.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, route } from '../command.ts'
import { choice, id, optional, whole } from '../fields.ts'
import { Refused } from '../refused.ts'
import { all, moment, rowId } from '../shapes.ts'

const DEFAULT_LIMIT = 20
/** Each option goes with one action. */
const ACTION_OF = { target: 'test', limit: 'status', event: 'retry' } as const
const NOTHING_GIVEN_UP = 'Nothing was given up within seven days.'

const Sent = z.object({
  ...all(z.int(), 'target', 'duration_ms'),
  ...all(z.string(), 'listener', 'host'),
  ok: z.boolean(),
  status: z.int().nullable(),
  error: z.string().nullable(),
})
const GivenUp = z.object({
  ...all(rowId, 'event_id', 'integration_id'),
  ...all(z.string(), 'name', 'listener', 'error'),
  created_at: moment,
})
const Status = z.object({
  ...all(z.int(), 'waiting', 'retrying'),
  oldest_at: moment.nullable(),
  given_up: z.array(GivenUp),
})
const Retried = z.object({
  retried: z.int(),
  status: z.enum(STORED_EVENT_STATUSES).nullable().describe('Of the event that was asked for; null: all were.'),
})
export type NotificationsStatus = z.infer<typeof Status>
type Result = z.infer<typeof Sent>[] | NotificationsStatus | z.infer<typeof Retried>

export const notifications = command({
  name: 'notifications',
  topic: 'Trouble',
  summary: 'Tests the notification targets; shows what waits or was given up, and tries it again.',
  examples: [
    'integrations notifications test',
    'integrations notifications test --target 2 --json',
    'integrations notifications status',
    'integrations notifications retry --event 17',
  ],
  places: ['action'],
  // A test reads and writes nothing: it also says whether a target is reached where Postgres is not.
  needs: 'host',
  fields: {
    action: choice(
      'test: send a test to the targets; status: what waits, and what was given up within seven days; retry: try again what was given up',
      ['test', 'status', 'retry'],
      'action',
    ),
    target: optional(
      whole('with test: only the one at this place in notifications.targets, from 1', { max: 2_147_483_647 }),
    ),
    limit: optional(
      whole(`with status: the most given-up deliveries to list, up to 500 (default: ${DEFAULT_LIMIT})`, { max: 500 }),
    ),
    event: optional(id('with retry: only this event')),
  },
  output: z.union([z.array(Sent), Status, Retried]),
  routes: [
    route({
      method: 'get',
      path: '/notifications',
      summary: 'Shows what waits for listeners and targets, and what was given up within seven days.',
      fields: { limit: optional(whole('the most given-up deliveries to list', { max: 500 })) },
      output: Status,
      run: (context, { limit }) => statusOf(context, limit),
    }),
    route({
      method: 'post',
      path: '/notifications/test',
      summary: 'Sends a test to the notification targets.',
      fields: {
        target: optional(whole('only the one at this place in notifications.targets, from 1', { max: 1_000 })),
      },
      output: z.object({ data: z.array(Sent) }),
      run: async ({ integrations }, { target }) => ({
        data: [...(await integrations.admin.notifications.test(target === undefined ? {} : { target }))],
      }),
    }),
    route({
      method: 'post',
      path: '/notifications/retry',
      summary: 'Has what was given up within seven days tried again.',
      fields: { event: optional(id('only this event')) },
      output: Retried,
      run: (context, { event }) => retried(context, event),
    }),
  ],
  check({ action, ...options }) {
    for (const [name, goesWith] of Object.entries(ACTION_OF))
      if (options[name as keyof typeof options] !== undefined && goesWith !== action)
        throw new Refused('usage', `--${name} goes with ${goesWith}, it was given with ${action}.`)
  },
  async run(context, { action, target, limit, event }): Promise<Result> {
    const { integrations } = context
    if (action === 'test')
      return [...(await integrations.admin.notifications.test(target === undefined ? {} : { target }))]
    await integrations.ready()
    if (action === 'status') return statusOf(context, limit)
    return retried(context, event)
  },
  show(result) {
    if ('retried' in result)
      return result.retried === 0 ? notRetried(result.status) : `Will be tried again by a worker: ${result.retried}.`
    if ('given_up' in result) return statusText(result)
    if (result.length === 0) return 'There is no target to notify: notifications.targets is empty.'
    return table(
      ['Target', 'Listener', 'Host', 'OK', 'Status', 'ms', 'Error'],
      result.map((one) => [one.target, one.listener, one.host, one.ok, one.status, one.duration_ms, one.error]),
    )
  },
  hasFailed: (result) => Array.isArray(result) && result.some(({ ok }) => !ok),
})

async function retried({ integrations, note }: CommandContext, event: number | undefined) {
  const retried = await integrations.admin.notifications.retry(event === undefined ? {} : { eventId: event })
  const one = event === undefined ? null : await integrations.admin.storedEvents.get(event)
  const status = one?.status ?? null
  if (retried === 0) return { retried, status }
  // Noted with its integration, an act on one event is in the event's life.
  const acted = one === null ? 'notifications' : `event:${one.id}`
  await note(one?.integrationId ?? null, 'notifications retry', acted)
  return { retried, status }
}

export function notRetried(status: z.infer<typeof Retried>['status']): string {
  return status === null
    ? NOTHING_GIVEN_UP
    : `Nothing of this event, which is ${status}, is tried again: only what was given up within seven days is, unless a worker is delivering the event right now.`
}

async function statusOf({ integrations, warn }: CommandContext, limit = DEFAULT_LIMIT) {
  // One more than asked for says whether there is more.
  const { givenUp, ...counts } = await integrations.admin.notifications.status({ limit: limit + 1 })
  if (givenUp.length > limit) warn(`There are more than ${limit}; --limit shows more.`)
  return { ...columns(counts), given_up: givenUp.slice(0, limit).map(columns) }
}

function statusText({ waiting, retrying, oldest_at: oldest, given_up: givenUp }: NotificationsStatus): string {
  const since = oldest === null ? '' : ` The oldest: ${oldest.toISOString()}.`
  const rows = givenUp.map((one) => [
    one.event_id,
    one.name,
    one.integration_id,
    one.listener,
    one.created_at,
    one.error,
  ])
  return [
    `Waiting: ${waiting}, of which failed at least once: ${retrying}.${since}`,
    rows.length === 0 ? NOTHING_GIVEN_UP : table(['Event', 'Name', 'Integration', 'Listener', 'Since', 'Error'], rows),
  ].join('\n')
}
