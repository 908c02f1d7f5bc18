/** The outbox's work without Temporal: tells whoever is due until nobody is. */
import { randomUUID } from 'node:crypto'
import { eventActivities } from '../activities/events.ts'
import { claimOf } from '../core/claim.ts'
import type { Framework } from '../framework.ts'

const BATCH_ROWS = 200

export interface DeliveredEvents {
  /** Events that are done with: everybody had them, or was given up. */
  readonly processed: number
  /** Tries after which an event waits for another one. */
  readonly failed: number
  /** Until the next one is due: move the clock on by so much and deliver again. Null: none waits. */
  readonly nextInSeconds: number | null
}

export async function deliverDueEvents(framework: Framework): Promise<DeliveredEvents> {
  const surroundings = { cancellationSignal: new AbortController().signal, info: { attempt: 1 } }
  const { deliverEvents } = eventActivities(framework, () => surroundings)
  const runId = randomUUID()
  const total = { processed: 0, failed: 0 }
  for (let batch = 1; ; batch += 1) {
    const result = await deliverEvents({ claim: claimOf(runId, batch), limit: BATCH_ROWS })
    total.processed += result.processed
    total.failed += result.failed
    // Retries fill a part of a batch only.
    if (result.claimed === BATCH_ROWS || (result.claimed > 0 && result.nextDueInMs === 0)) continue
    return { ...total, nextInSeconds: result.nextDueInMs === null ? null : result.nextDueInMs / 1_000 }
  }
}
