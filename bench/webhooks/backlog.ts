/** (b), (c), (e), (f) A backlog is worked off: ours beside graphile-worker, BullMQ, pg-boss and a workflow per webhook. */
import { randomUUID } from 'node:crypto'
import type { Contender, Figure } from '../frame.ts'
import { inTurn } from '../frame.ts'
import type { StoredJob } from './jobs.ts'
import { TASK } from './jobs.ts'
import type { Queues, Stage } from './stage.ts'
import { createIntegration, inboxCost, wallClock } from './stage.ts'

/** Schemas of graphile-worker's jobs, one for each of its two processes. */
export const SCHEMA = { asItComes: 'graphile_default', tuned: 'graphile_tuned' } as const
export const WORKFLOW_QUEUE = 'one-workflow-a-webhook'
/** Workflows are started so many at a time: more makes none of it faster. */
const STARTS_AT_ONCE = 100
/** A workflow per webhook is slower by so much that fewer rows tell as much. */
const WORKFLOW_SHARE = 25

/** As figures name them. */
const QUEUE_NAMES = ['BullMQ', 'BullMQ, each write on disk', 'pg-boss'] as const
const JOBS_AT_ONCE = 1_000

export interface BacklogFigures {
  readonly ours: Figure
  readonly asItComes: Figure
  readonly tuned: Figure
  /** Null when it is left out. */
  readonly workflows: Figure | null
  readonly actions: Figure
  readonly figures: readonly Figure[]
}

export async function measureBacklog(stage: Stage): Promise<BacklogFigures> {
  const { tables, integrations, temporal, peerIntegrationId, lengths, queues } = stage
  const { sql } = tables
  const integration = await createIntegration(integrations)
  let ours = 0

  /** Rows a second from the start until the last row was processed. */
  const rate = async (side: 'ours' | 'peer', rows: number, start: () => Promise<number>): Promise<number> => {
    await tables.clear()
    await tables.fill(side, [side === 'ours' ? integration.id : peerIntegrationId], rows)
    const startedAt = await start()
    await tables.untilProcessed(side, rows)
    return rows / (((await tables.lastProcessedAtMs(side)) - startedAt) / 1_000)
  }
  const graphile = (name: string, schema: string): Contender => ({
    name,
    measure: () =>
      rate('peer', lengths.backlog, async () => {
        // All in one transaction: its worker hears of them when they are committed.
        await sql`
          select count(*) from ${sql(schema)}.add_jobs(array(
            select json_populate_record(null::${sql(schema)}.job_spec, json_build_object(
              'identifier', ${TASK.stored}::text,
              'payload', json_build_object(
                ${'webhookId' satisfies keyof StoredJob}::text, id, ${'body' satisfies keyof StoredJob}::text, payload)))
            from peer_webhooks order by id))`
        return wallClock()
      }),
  })
  const contenders: Contender[] = [
    {
      name: 'ours',
      measure: () =>
        rate('ours', lengths.backlog, async () => {
          ours += lengths.backlog
          const startedAt = wallClock()
          await integrations.webhooks.wakePending()
          return startedAt
        }),
    },
    graphile('as it comes', SCHEMA.asItComes),
    graphile('tuned', SCHEMA.tuned),
  ]
  if (queues !== null)
    contenders.push(...queueContenders(queues, stage, (start) => rate('peer', lengths.backlog, start)), {
      name: 'workflows',
      measure: () =>
        rate('peer', Math.ceil(lengths.backlog / WORKFLOW_SHARE), async () => {
          const ids = (await sql<{ id: number }[]>`select id from peer_webhooks order by id`).map(({ id }) => id)
          const startedAt = wallClock()
          const starter = async () => {
            for (let id = ids.shift(); id !== undefined; id = ids.shift())
              await temporal.workflow.start('oneWebhook', {
                workflowId: `one-webhook:${randomUUID()}`,
                taskQueue: WORKFLOW_QUEUE,
                args: [id],
              })
          }
          await Promise.all(Array.from({ length: STARTS_AT_ONCE }, starter))
          return startedAt
        }),
    })

  stage.say(`backlog of ${lengths.backlog}: ${contenders.map(({ name }) => name).join(', ')}`)
  const before = await inboxCost(stage)
  const medians = await inTurn(contenders, lengths.rounds)
  const actions = (await inboxCost(stage)).actions - before.actions
  const figure = (name: string, contender: string): Figure => ({
    name: `process: ${name}`,
    value: medians.get(contender) as number,
    unit: 'webhooks/s',
  })
  const measured = {
    ours: figure('ours', 'ours'),
    asItComes: figure('graphile-worker', 'as it comes'),
    tuned: figure('graphile-worker, tuned', 'tuned'),
    actions: { name: 'backlog: Temporal actions per 1,000', value: (actions / ours) * 1_000, unit: 'actions' },
  }
  const workflows = queues === null ? null : figure('a workflow per webhook', 'workflows')
  const others = queues === null ? [] : [...QUEUE_NAMES.map((name) => figure(name, name)), workflows as Figure]
  return { ...measured, workflows, figures: [...Object.values(measured), ...others] }
}

/** Jobs are there before the time runs, as with graphile-worker: BullMQ's queue stands still meanwhile, pg-boss gets one statement. */
function queueContenders(
  { fsyncRedis, bullmq, pgBoss }: Queues,
  { tables: { sql } }: Stage,
  rate: (start: () => Promise<number>) => Promise<number>,
): Contender[] {
  const throughRedis = (name: string, fsync: 'everysec' | 'always'): Contender => ({
    name,
    measure: () =>
      rate(async () => {
        await fsyncRedis(fsync)
        await bullmq.pause()
        const rows = await sql<StoredJob[]>`select id as "webhookId", payload as body from peer_webhooks order by id`
        while (rows.length > 0)
          await bullmq.addBulk(
            rows.splice(0, JOBS_AT_ONCE).map((data) => ({ name: TASK.stored, data, opts: { removeOnComplete: true } })),
          )
        const startedAt = wallClock()
        await bullmq.resume()
        return startedAt
      }),
  })
  return [
    throughRedis(QUEUE_NAMES[0], 'everysec'),
    throughRedis(QUEUE_NAMES[1], 'always'),
    {
      name: QUEUE_NAMES[2],
      measure: () =>
        rate(async () => {
          await sql`truncate pgboss.job`
          await sql`
            insert into pgboss.job (name, data)
            select ${TASK.stored}, jsonb_build_object(
              ${'webhookId' satisfies keyof StoredJob}::text, id, ${'body' satisfies keyof StoredJob}::text, payload)
            from peer_webhooks order by id`
          await pgBoss.ask('notify', null)
          return wallClock()
        }),
    },
  ]
}
