/** The workflow of whoever gives each webhook one of its own, with one activity. */
import { proxyActivities } from '@temporalio/workflow'
import type { OneWebhookActivities } from './workflow-process.ts'

const { settleWebhook } = proxyActivities<OneWebhookActivities>({ startToCloseTimeout: '1 minute' })

export async function oneWebhook(webhookId: number): Promise<void> {
  await settleWebhook(webhookId)
}
