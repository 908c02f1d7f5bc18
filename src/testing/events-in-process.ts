/** The outbox's work without Temporal: tells whoever is due until nobody is. */
import { randomUUID } from 'node:crypto'
import { eventPumping } from '../activities/event-activities.ts'
import { pumpUntilEmpty } from '../activities/pumping.ts'
import { pumpClaimOf } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import { surroundings } from './jobs-in-process.ts'

export interface DeliveredEvents {
  /** Events that are done with: everybody had them, or was given up. */
  readonly processed: number
  /** Tries after which an event waits for another one. */
  readonly failed: number
  /** Until the next one is due: move the clock on by so much and deliver again. Null: none waits. */
  readonly nextInSeconds: number | null
}

export async function deliverDueEvents(framework: Framework): Promise<DeliveredEvents> {
  const claim = pumpClaimOf(randomUUID(), 1)
  const pumped = await pumpUntilEmpty(framework, eventPumping(framework), surroundings(), claim)
  const { processed, failed, nextDueInMs } = pumped
  return { processed, failed, nextInSeconds: nextDueInMs === null ? null : nextDueInMs / 1_000 }
}
