/**
 * pg-boss 10, in one process as all contenders are. A job is one prepared statement, the same as with the other peers.
 *
 * Its worker takes a batch and sleeps for the rest of its interval. So it gets the shortest interval that it allows, batches, and a
 * notice after each full one, which is what it documents for work that is known to be there.
 */
import PgBoss from 'pg-boss'
import { pino } from 'pino'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { answerParent } from '../child.ts'
import type { DeliveredJob, StoredJob } from './jobs.ts'
import { TASK } from './jobs.ts'
import { settle, store } from './peer-statements.ts'

/** The best of those that were tried; docs/performance.md has them. */
const BATCH_SIZE = 500
const WORKERS = 2
const INTERVAL_SECONDS = 0.5
/** As many as graphile-worker has. */
const POOL_SIZE = 26

let sql: Sql | undefined
let boss: PgBoss | undefined
const workers: string[] = []

const offered = {
  async start({ databaseUrl }: { databaseUrl: string }): Promise<void> {
    const log = pino({ base: null }, pino.destination({ fd: process.stdout.fd, sync: true }))
    const pool = postgres(databaseUrl, { max: POOL_SIZE, onnotice: () => {} })
    sql = pool
    const queues = new PgBoss({ connectionString: databaseUrl })
    boss = queues
    queues.on('error', (error) => log.error({ err: error }, 'pg-boss failed'))
    await queues.start()
    const work = async <Job extends object>(name: string, one: (job: Job, startedAt: number) => Promise<void>) => {
      const id = await queues.work<Job>(
        name,
        { batchSize: BATCH_SIZE, pollingIntervalSeconds: INTERVAL_SECONDS },
        async (jobs) => {
          await Promise.all(
            jobs.map(async (job) => {
              await one(job.data, performance.now())
              log.info({ job: job.id }, 'webhook processed')
            }),
          )
          if (jobs.length === BATCH_SIZE) queues.notifyWorker(id)
        },
      )
      workers.push(id)
    }
    for (let n = 0; n < WORKERS; n += 1) {
      await work<StoredJob>(TASK.stored, (job, startedAt) => settle(pool, job, startedAt))
      await work<DeliveredJob>(TASK.delivered, (job, startedAt) => store(pool, job, startedAt))
    }
  },

  /** There is work: no worker sleeps for the rest of an interval. */
  async notify(_: null): Promise<void> {
    for (const id of workers) boss?.notifyWorker(id)
  },
}
export type PgBossCommands = typeof offered

answerParent(offered, async () => {
  await boss?.stop({ graceful: false })
  await sql?.end({ timeout: 5 })
})
