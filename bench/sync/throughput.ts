/** A run of many items: ours beside graphile-worker, as it comes and tuned, and an activity per item. */
import { randomUUID } from 'node:crypto'
import type { Contender, Figure } from '../frame.ts'
import { inTurn } from '../frame.ts'
import { PROVIDER } from './ours.ts'
import type { Job } from './settle-job.ts'
import { TASK } from './settle-job.ts'
import type { Stage } from './stage.ts'
import { runSync, secondsOf } from './stage.ts'

/** Schemas of graphile-worker's jobs, one for each of its two processes. */
export const SCHEMA = { asItComes: 'graphile_default', tuned: 'graphile_tuned' } as const
export const ACTIVITY_QUEUE = 'an-activity-per-item'
const ACTIVITIES_AT_ONCE = 100

export interface ThroughputFigures {
  readonly ours: Figure
  readonly asItComes: Figure
  readonly tuned: Figure
  readonly activities: Figure
}

export async function measureThroughput(stage: Stage): Promise<ThroughputFigures> {
  const { tables, temporal, peerIntegrationId, lengths } = stage
  const { sql } = tables

  /** Items a second from the start until the last row has ended. */
  const peerRate = async (rows: number, start: (ids: readonly number[]) => Promise<unknown>): Promise<number> => {
    await tables.clear()
    const ids = await tables.fillPeer(peerIntegrationId, rows)
    const startedAt = Date.now()
    await start(ids)
    await tables.untilPeerDone(rows)
    return rows / (((await tables.lastPeerItemAt()) - startedAt) / 1_000)
  }
  const graphile = (name: string, schema: string): Contender => ({
    name,
    measure: () =>
      peerRate(
        lengths.items,
        () => sql`
          select count(*) from ${sql(schema)}.add_jobs(array(
            select json_populate_record(null::${sql(schema)}.job_spec, json_build_object(
              'identifier', ${TASK}::text,
              'payload', json_build_object(
                ${'itemId' satisfies keyof Job}::text, id, ${'contact' satisfies keyof Job}::text, payload)))
            from peer_sync_items order by id))`,
      ),
  })
  const contenders: Contender[] = [
    {
      name: 'ours',
      async measure() {
        await tables.clear()
        return lengths.items / secondsOf(await runSync(stage, PROVIDER.quick, lengths.items))
      },
    },
    graphile('as it comes', SCHEMA.asItComes),
    graphile('tuned', SCHEMA.tuned),
    {
      name: 'activities',
      measure: () =>
        peerRate(lengths.activityItems, (ids) =>
          temporal.workflow.execute('activityPerItem', {
            workflowId: `activity-per-item:${randomUUID()}`,
            taskQueue: ACTIVITY_QUEUE,
            args: [ids, ACTIVITIES_AT_ONCE],
          }),
        ),
    },
  ]
  stage.say(`${lengths.items} items: ${contenders.map(({ name }) => name).join(', ')}`)
  const medians = await inTurn(contenders, lengths.rounds)
  const figure = (name: string, contender: string): Figure => ({
    name: `${lengths.items.toLocaleString('en-US')} items: ${name}`,
    value: medians.get(contender) as number,
    unit: 'items/s',
  })
  return {
    ours: figure('ours', 'ours'),
    asItComes: figure('graphile-worker', 'as it comes'),
    tuned: figure('graphile-worker, tuned', 'tuned'),
    activities: figure('an activity per item', 'activities'),
  }
}
