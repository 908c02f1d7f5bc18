/**
 * What a user would put in front: bare Hono, an HMAC, and either one INSERT or one job for the queue. As light as can honestly be:
 * no limit of the body's size, one secret, no decryption, no log line, one prepared statement.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Queue } from 'bullmq'
import type { WorkerUtils } from 'graphile-worker'
import { makeWorkerUtils } from 'graphile-worker'
import type { Context } from 'hono'
import { Hono } from 'hono'
import PgBoss from 'pg-boss'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { answerParent } from '../child.ts'
import { SECRET, SIGNATURE_HEADER } from './delivery.ts'
import type { DeliveredJob } from './jobs.ts'
import { BULLMQ_QUEUE, TASK } from './jobs.ts'

export interface PeerApiOptions {
  readonly databaseUrl: string
  readonly poolSize: number
  readonly integrationId: number
  /** Schema of the jobs. */
  readonly schema: string
  /** Null: without BullMQ and pg-boss. */
  readonly redisPort: number | null
}

let sql: Sql | undefined
let utils: WorkerUtils | undefined
let bullmq: Queue | undefined
let boss: PgBoss | undefined

const offered = {
  async start(options: PeerApiOptions): Promise<{ port: number }> {
    const { databaseUrl, poolSize, integrationId, schema, redisPort } = options
    const pool = postgres(databaseUrl, { max: poolSize, onnotice: () => {} })
    sql = pool
    const jobs = await makeWorkerUtils({ connectionString: databaseUrl, maxPoolSize: poolSize, schema })
    utils = jobs
    const app = new Hono()
    app.post('/insert', async (context) => {
      const body = await verifiedBody(context)
      if (body === null) return context.json({ error: 'bad signature' }, 403)
      const { id, type } = JSON.parse(body) as { id: string; type: string }
      const rows = await pool`
        insert into peer_webhooks (integration_id, delivery_id, event_type, payload, headers)
        values (${integrationId}, ${id}, ${type}, ${body}, ${JSON.stringify(context.req.header())}::text::jsonb)
        on conflict (integration_id, delivery_id) do nothing returning id`
      return context.json({ status: rows.length === 1 ? 'queued' : 'duplicate' })
    })
    const door = (path: string, add: (job: DeliveredJob) => Promise<unknown>) =>
      app.post(path, async (context) => {
        const body = await verifiedBody(context)
        if (body === null) return context.json({ error: 'bad signature' }, 403)
        const { id, type } = JSON.parse(body) as { id: string; type: string }
        await add({ integrationId, deliveryId: id, eventType: type, body, headers: context.req.header() })
        return context.json({ status: 'queued' })
      })
    door('/job', (job) => jobs.addJob(TASK.delivered, job))
    if (redisPort !== null) {
      const toBullmq = new Queue(BULLMQ_QUEUE, { connection: { host: '127.0.0.1', port: redisPort } })
      bullmq = toBullmq
      door('/bullmq', (job) => toBullmq.add(TASK.delivered, job, { removeOnComplete: true }))
      // It only sends: its worker's process keeps the house.
      const toPgBoss = new PgBoss({ connectionString: databaseUrl, max: poolSize, supervise: false, schedule: false })
      boss = toPgBoss
      toPgBoss.on('error', (error) => console.error(error))
      await toPgBoss.start()
      for (const queue of Object.values(TASK)) await toPgBoss.createQueue(queue)
      door('/pg-boss', (job) => toPgBoss.send(TASK.delivered, job))
    }
    return new Promise((resolve) => {
      serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }: AddressInfo) => resolve({ port }))
    })
  },
}
export type PeerApiCommands = typeof offered

async function verifiedBody(context: Context): Promise<string | null> {
  const bytes = Buffer.from(await context.req.arrayBuffer())
  const given = Buffer.from(context.req.header(SIGNATURE_HEADER) ?? '', 'hex')
  const expected = createHmac('sha256', SECRET).update(bytes).digest()
  return given.length === expected.length && timingSafeEqual(given, expected) ? bytes.toString('utf8') : null
}

answerParent(offered, async () => {
  await bullmq?.close()
  await boss?.stop({ graceful: false })
  await utils?.release()
  await sql?.end({ timeout: 5 })
})
