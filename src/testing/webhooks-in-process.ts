/** The inboxes' work without Temporal: claims and runs what is pending until nothing is. */
import { randomUUID } from 'node:crypto'
import { webhookActivities } from '../activities/webhooks.ts'
import { claimOf } from '../core/claim.ts'
import { integrationsToWake } from '../db/queries/webhook-arrivals.ts'
import type { Framework } from '../framework.ts'

const BATCH_ROWS = 200

export interface ProcessedWebhooks {
  readonly processed: number
  readonly failed: number
}

export async function processPending(framework: Framework): Promise<ProcessedWebhooks> {
  const surroundings = { cancellationSignal: new AbortController().signal, info: { attempt: 1 } }
  const { processPendingWebhooks } = webhookActivities(framework, () => surroundings)
  const total = { processed: 0, failed: 0 }
  for (const integrationId of await integrationsToWake(framework.db, framework.tables)) {
    const runId = randomUUID()
    for (let batch = 1; ; batch += 1) {
      const claim = claimOf(runId, batch)
      const result = await processPendingWebhooks({ integrationId, claim, limit: BATCH_ROWS })
      total.processed += result.processed
      total.failed += result.failed
      if (result.claimed < BATCH_ROWS) break
    }
  }
  return total
}
