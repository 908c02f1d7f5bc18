/** A worker with one workflow and one activity per webhook; the activity's statement is that of the other peers. */
import { pino } from 'pino'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { answerParent } from '../child.ts'
import type { PeerWorker } from '../peer-worker.ts'
import { startPeerWorker } from '../peer-worker.ts'
import { settle } from './peer-statements.ts'

export interface WorkflowPeerOptions {
  readonly databaseUrl: string
  readonly poolSize: number
  readonly temporalAddress: string
  readonly taskQueue: string
}

export interface OneWebhookActivities {
  settleWebhook(webhookId: number): Promise<void>
}

let sql: Sql | undefined
let worker: PeerWorker | undefined

const offered = {
  async start({ databaseUrl, poolSize, temporalAddress, taskQueue }: WorkflowPeerOptions): Promise<void> {
    const log = pino({ base: null }, pino.destination({ fd: process.stdout.fd, sync: true }))
    const pool = postgres(databaseUrl, { max: poolSize, onnotice: () => {} })
    sql = pool
    const activities: OneWebhookActivities = {
      async settleWebhook(webhookId) {
        await settle(pool, { webhookId }, performance.now())
        log.info({ webhook: webhookId }, 'webhook processed')
      },
    }
    const workflows = new URL('./one-webhook.ts', import.meta.url)
    worker = await startPeerWorker({ temporalAddress, taskQueue }, { workflows, activities }, log)
  },
}
export type WorkflowPeerCommands = typeof offered

answerParent(offered, async () => {
  await worker?.stop()
  await sql?.end({ timeout: 5 })
})
