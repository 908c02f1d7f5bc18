import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { RecoverWebhooksResult } from '../core/webhook-jobs.ts'
import { step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { recoverStuckWebhooks } = proxyActivities<Activities>(step)

/**
 * Takes up webhooks that are stranded, and tries failed ones again.
 *
 * Durable promise: each row that is due gets a job, or its inbox is woken for it. Runs may overlap, the Schedule's with a
 * command's: a row is taken up by one.
 */
export async function recoverWebhooks(): Promise<RecoverWebhooksResult> {
  return readably(() => recoverStuckWebhooks())
}
