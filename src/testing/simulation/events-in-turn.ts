/** The outbox's work, one event after the other, so that what listeners do has one order. */
import { randomUUID } from 'node:crypto'
import { eventPumping } from '../../activities/event-activities.ts'
import { pumpClaims, setApart } from '../../claims/lease-queries.ts'
import { pumpClaimOf } from '../../claims/rules.ts'
import type { Framework } from '../../framework/context.ts'

/** A single row: a new event, or one whose wait is over. */
const ONE = { after: 0, integrations: 2, rows: 1, room: 1, rooms: {} }

/** Events that a dead process holds wait again. No other process lives, so each claim is a dead one's. */
export async function rescueEvents(framework: Framework): Promise<void> {
  const { db, tables, config } = framework
  const { rows } = eventPumping(framework)
  for (const { claim } of await pumpClaims(db, tables, rows, config.cache_prefix))
    await setApart(db, tables, rows, { prefix: config.cache_prefix, claim })
}

/** Delivers the next event that is due. @returns what happened, for the story; null: none is due */
export async function deliverNextEvent(framework: Framework): Promise<string | null> {
  const { db, logger } = framework
  const { signal } = new AbortController()
  const work = eventPumping(framework).workOf({ db, logger, signal }, pumpClaimOf(randomUUID(), 1))
  const [taken] = (await work.claim(ONE)).rows
  if (taken === undefined) return null
  const outcome = await work.run(taken.row, signal)
  if (outcome !== null) await work.settle([outcome])
  return `event ${taken.row.id} (${taken.row.name}): ${work.tally.processed > 0 ? 'delivered' : 'failed'}`
}
