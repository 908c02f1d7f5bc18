/** The override columns of an integration. */
import { and, eq } from 'drizzle-orm'
import type { Database, Transaction } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'

/** Clears an override that is over. False: somebody has set another one since, or cleared it. */
export async function clearExpiredCircuitOverride(
  tx: Transaction,
  { integrations }: Tables,
  id: number,
  until: Date,
): Promise<boolean> {
  const cleared = await tx
    .update(integrations)
    .set({ circuitOverride: null, circuitOverrideUntil: null })
    .where(and(eq(integrations.id, id), eq(integrations.circuitOverrideUntil, until)))
    .returning({ id: integrations.id })
  return cleared.length > 0
}

/** Clears an override of the rate limit that is over, unless somebody has set another one since. */
export async function clearExpiredRateLimitOverride(
  db: Database,
  { integrations }: Tables,
  id: number,
  until: Date,
): Promise<void> {
  await db
    .update(integrations)
    .set({ rateLimitOverride: null, rateLimitOverrideUntil: null })
    .where(and(eq(integrations.id, id), eq(integrations.rateLimitOverrideUntil, until)))
}
