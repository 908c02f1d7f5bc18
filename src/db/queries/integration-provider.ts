import { eq } from 'drizzle-orm'
import type { Database } from '../client.ts'
import type { Tables } from '../schema/tables.ts'
import { canBeId } from './integrations.ts'

/** The provider alone: a row holds credentials, and may hold 64 KiB of metadata. Null when there is no such integration. */
export async function findProvider(db: Database, { integrations }: Tables, id: number): Promise<string | null> {
  if (!canBeId(id)) return null
  const [row] = await db.select({ provider: integrations.provider }).from(integrations).where(eq(integrations.id, id))
  return row?.provider ?? null
}
