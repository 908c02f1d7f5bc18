import { intervalText, LEAST_SECONDS, MOST_SECONDS, streamOption } from '../../syncs/stream-rules.ts'
import { streamLines } from '../cli/stream-lines.ts'
import { table } from '../cli/table.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, route } from '../command.ts'
import { flag, id, optional, stream, whole } from '../fields.ts'
import { Refused } from '../refused.ts'
import { IntegrationShape, streams } from '../shapes.ts'

const integration = id('of the integration')
const output = IntegrationShape.extend({ streams })
/** Rule: docs/behaviour/sync-scheduling.md, "Due". */
const minutes = whole(
  'from the end of one run to the next, which begins with the next dispatch, each minute: 1 gives a run every other minute',
  { max: 2_147_483_647, placeholder: 'minutes' },
)
const seconds = whole('from the end of one run of the stream to the next, which begins with the next dispatch', {
  min: LEAST_SECONDS,
  max: MOST_SECONDS,
})

export const syncInterval = command({
  name: 'sync-interval',
  topic: 'Syncs',
  summary: 'Sets how often an integration, or one stream of it, is synced, or leaves it to its provider.',
  examples: [
    'integrations sync-interval 7 15',
    'integrations sync-interval 7 --stream contacts --seconds 30',
    'integrations sync-interval 7 --reset',
  ],
  places: ['id', 'minutes'],
  fields: {
    id: integration,
    minutes: optional(minutes),
    stream: stream(),
    seconds: optional({ ...seconds, about: `with --stream: ${seconds.about}` }),
    reset: flag("go by the provider's own interval again"),
  },
  reach: 'integration',
  output,
  routes: [
    route({
      method: 'put',
      path: '/integrations/:id/interval',
      summary: 'Sets how often an integration, or one stream of it, is synced.',
      fields: { id: integration, minutes: optional(minutes), stream: stream(), seconds: optional(seconds) },
      output,
      check: fitting,
      run: changed,
    }),
    route({
      method: 'delete',
      path: '/integrations/:id/interval',
      summary: "Has an integration go by its provider's own interval again.",
      fields: { id: integration, stream: stream() },
      output,
      run: changed,
    }),
  ],
  check: fitting,
  run: changed,
  show: ({ id, sync_interval_minutes: every, next_sync_at: next, streams }) =>
    streams.length > 0
      ? table(['Stream', 'Standing'], streamLines(streams))
      : `Integration ${id} is synced ${every === null ? "as often as its provider's own interval says" : intervalText(every)}. The next run is due at ${next?.toISOString() ?? 'no time that is known'}.`,
})

interface Interval {
  readonly minutes?: number | undefined
  readonly stream: string | undefined
  readonly seconds?: number | undefined
  /** Over HTTP a method of its own. */
  readonly reset?: boolean
}

/** An integration goes by minutes, as its column does, and a stream by seconds. */
function fitting({ minutes, stream, seconds, reset }: Interval): void {
  const name = stream === undefined ? 'minutes' : 'seconds'
  const [given, other] = stream === undefined ? [minutes, seconds] : [seconds, minutes]
  if (other !== undefined)
    throw new Refused('usage', `An integration goes by minutes, a stream that is named by seconds: give ${name}.`, name)
  if ((given === undefined) !== (reset ?? false))
    throw new Refused('usage', `Give ${reset === undefined ? name : `either ${name} or --reset`}.`, name)
}

async function changed(
  { integrations, note }: CommandContext,
  { id, minutes, stream, seconds }: Interval & { id: number },
) {
  if (stream === undefined) await integrations.update(id, { syncIntervalMinutes: minutes ?? null })
  else await integrations.syncs.setInterval(id, seconds ?? null, { stream })
  const act = (minutes ?? seconds) === undefined ? 'interval reset' : 'interval set'
  await note(id, `${act}${streamOption(stream)}`)
  const { operator } = integrations.admin
  return { ...columns(await operator.detail(id)), streams: (await operator.streams(id)).map(columns) }
}
