/** A worker with one workflow and one activity per webhook; the activity's statement is that of the other peers. */
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { pino } from 'pino'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { answerParent } from '../child.ts'
import { SETTLE } from './peer-statements.ts'

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
let connection: NativeConnection | undefined
let worker: Worker | undefined
let running: Promise<void> = Promise.resolve()

const offered = {
  async start({ databaseUrl, poolSize, temporalAddress, taskQueue }: WorkflowPeerOptions): Promise<void> {
    const log = pino({ base: null }, pino.destination({ fd: process.stdout.fd, sync: true }))
    Runtime.install({ logger: new DefaultLogger('WARN', ({ message }) => log.warn({}, message)) })
    const pool = postgres(databaseUrl, { max: poolSize, onnotice: () => {} })
    sql = pool
    const activities: OneWebhookActivities = {
      async settleWebhook(webhookId) {
        const startedAt = performance.now()
        const durationMs = Math.round(performance.now() - startedAt)
        const { count } = await pool.unsafe(SETTLE, [webhookId, durationMs], { prepare: true })
        if (count !== 1) throw new Error(`webhook ${webhookId} was not pending`)
        log.info({ webhook: webhookId }, 'webhook processed')
      },
    }
    connection = await NativeConnection.connect({ address: temporalAddress })
    worker = await Worker.create({
      connection,
      taskQueue,
      workflowBundle: await bundleWorkflowCode({
        workflowsPath: fileURLToPath(new URL('./one-webhook.ts', import.meta.url)),
        logger: new DefaultLogger('WARN'),
      }),
      activities,
    })
    running = worker.run()
  },
}
export type WorkflowPeerCommands = typeof offered

answerParent(offered, async () => {
  worker?.shutdown()
  await running
  await connection?.close()
  await sql?.end({ timeout: 5 })
})
