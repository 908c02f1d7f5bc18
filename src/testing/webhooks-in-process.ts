/** The inbox's work without Temporal: claims and runs what is pending until nothing is. */
import { randomUUID } from 'node:crypto'
import { pumpUntilEmpty } from '../activities/pumping.ts'
import { webhookPumping } from '../activities/webhook-activities.ts'
import { pumpClaimOf } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import type { ProcessWebhookInput } from '../webhooks/webhook-jobs.ts'
import { processOne, surroundings } from './jobs-in-process.ts'

export interface ProcessedWebhooks {
  readonly processed: number
  readonly failed: number
}

/** @param jobs of single webhooks: run, and taken from the list */
export async function processPending(
  framework: Framework,
  jobs: ProcessWebhookInput[] = [],
): Promise<ProcessedWebhooks> {
  const total = { processed: 0, failed: 0 }
  for (const job of jobs.splice(0)) {
    const { outcome } = await processOne(framework, job)
    if (outcome !== 'not claimed') total[outcome] += 1
  }
  const pumped = await pumpUntilEmpty(
    framework,
    webhookPumping(framework),
    surroundings(),
    pumpClaimOf(randomUUID(), 1),
  )
  return { processed: total.processed + pumped.processed, failed: total.failed + pumped.failed }
}
