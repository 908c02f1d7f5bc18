/** BullMQ's worker, in one process as all contenders are. A job is one prepared statement, the same as with the other peers. */
import { Worker } from 'bullmq'
import { pino } from 'pino'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { answerParent } from '../child.ts'
import type { DeliveredJob, StoredJob } from './jobs.ts'
import { BULLMQ_QUEUE, TASK } from './jobs.ts'
import { settle, store } from './peer-statements.ts'

/** Its documentation's own example; docs/performance.md has the others that were tried. */
const CONCURRENCY = 50
/** As many as graphile-worker has. */
const POOL_SIZE = 26

let sql: Sql | undefined
let worker: Worker | undefined

const offered = {
  async start({ databaseUrl, redisPort }: { databaseUrl: string; redisPort: number }): Promise<void> {
    const log = pino({ base: null }, pino.destination({ fd: process.stdout.fd, sync: true }))
    const pool = postgres(databaseUrl, { max: POOL_SIZE, onnotice: () => {} })
    sql = pool
    worker = new Worker<StoredJob | DeliveredJob>(
      BULLMQ_QUEUE,
      async ({ id, name, data }) => {
        const startedAt = performance.now()
        await (name === TASK.stored
          ? settle(pool, data as StoredJob, startedAt)
          : store(pool, data as DeliveredJob, startedAt))
        log.info({ job: id }, 'webhook processed')
      },
      { connection: { host: '127.0.0.1', port: redisPort }, concurrency: CONCURRENCY },
    )
    worker.on('error', (error) => log.error({ err: error }, 'worker failed'))
    await worker.waitUntilReady()
  },
}
export type BullmqCommands = typeof offered

answerParent(offered, async () => {
  await worker?.close()
  await sql?.end({ timeout: 5 })
})
