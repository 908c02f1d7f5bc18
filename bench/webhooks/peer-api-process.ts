/**
 * What a user would put in front: bare Hono, an HMAC, and either one INSERT or one `addJob()`. As light as can honestly be:
 * no limit of the body's size, one secret, no decryption, no log line, one prepared statement.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import type { WorkerUtils } from 'graphile-worker'
import { makeWorkerUtils } from 'graphile-worker'
import type { Context } from 'hono'
import { Hono } from 'hono'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { answerParent } from '../child.ts'
import { SECRET, SIGNATURE_HEADER } from './delivery.ts'
import type { DeliveredJob } from './graphile-jobs.ts'
import { TASK } from './graphile-jobs.ts'

export interface PeerApiOptions {
  readonly databaseUrl: string
  readonly poolSize: number
  readonly integrationId: number
  /** Schema of the jobs. */
  readonly schema: string
}

let sql: Sql | undefined
let utils: WorkerUtils | undefined

const offered = {
  async start({ databaseUrl, poolSize, integrationId, schema }: PeerApiOptions): Promise<{ port: number }> {
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
    app.post('/job', async (context) => {
      const body = await verifiedBody(context)
      if (body === null) return context.json({ error: 'bad signature' }, 403)
      const { id, type } = JSON.parse(body) as { id: string; type: string }
      const job: DeliveredJob = { integrationId, deliveryId: id, eventType: type, body, headers: context.req.header() }
      await jobs.addJob(TASK.delivered, job)
      return context.json({ status: 'queued' })
    })
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
  await utils?.release()
  await sql?.end({ timeout: 5 })
})
