import { and, count, eq, notInArray } from 'drizzle-orm'
import type { Database } from '../client.ts'
import type { Tables } from '../schema/tables.ts'
import { canBeId } from './integrations.ts'

/** The provider alone: a row holds credentials, and may hold 64 KiB of metadata. Null when there is no such integration. */
export async function findProvider(db: Database, { integrations }: Tables, id: number): Promise<string | null> {
  if (!canBeId(id)) return null
  const [row] = await db.select({ provider: integrations.provider }).from(integrations).where(eq(integrations.id, id))
  return row?.provider ?? null
}

/** Providers of active integrations that are none of these, each with the number of its integrations. */
export async function unregisteredProviders(
  db: Database,
  { integrations }: Tables,
  known: readonly string[],
): Promise<{ provider: string; integrations: number }[]> {
  return db
    .select({ provider: integrations.provider, integrations: count() })
    .from(integrations)
    .where(and(eq(integrations.isActive, true), notInArray(integrations.provider, [...known])))
    .groupBy(integrations.provider)
    .orderBy(integrations.provider)
}
