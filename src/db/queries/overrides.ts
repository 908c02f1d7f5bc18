/** The override columns of an integration. */
import { and, eq } from 'drizzle-orm'
import type { Database } from '../client.ts'
import type { Tables } from '../schema/tables.ts'

/** Clears an override that is over, unless somebody has set another one since. */
export async function clearExpiredCircuitOverride(
  db: Database,
  { integrations }: Tables,
  id: number,
  until: Date,
): Promise<void> {
  await db
    .update(integrations)
    .set({ circuitOverride: null, circuitOverrideUntil: null })
    .where(and(eq(integrations.id, id), eq(integrations.circuitOverrideUntil, until)))
}

/** As {@link clearExpiredCircuitOverride}, of the rate limit. */
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
