/** Statements about which key wrote which credentials. The envelope: docs/behaviour/credentials.md, "At rest". */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, gt, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'

/** 12 bytes of IV and 16 of tag are 16 and 22 characters of base64url. */
const ENVELOPE = '^v1[.][A-Za-z0-9_-]{1,32}[.][A-Za-z0-9_-]{16}[.][A-Za-z0-9_-]*[.][A-Za-z0-9_-]{22}$'

/** The id of the key that wrote the credentials; null where the text is no envelope: plain or damaged. */
const writtenBy = ({ integrations }: Tables) =>
  sql<string | null>`case when ${integrations.credentials} ~ ${sql.raw(`'${ENVELOPE}'`)}
    then split_part(${integrations.credentials}, '.', 2) end`

export async function countRowsByKey(
  db: Database,
  tables: Tables,
): Promise<{ readonly kid: string | null; readonly rows: number }[]> {
  return db
    .select({ kid: writtenBy(tables), rows: sql<number>`count(*)`.mapWith(Number) })
    .from(tables.integrations)
    .groupBy(sql`1`)
    .orderBy(sql`1`)
}

export interface WrittenCredentials {
  readonly id: number
  readonly credentials: string
}

/** One page by ascending id, after the id given, of what another key than this one wrote. */
export async function pageNotWrittenBy(
  db: Database,
  tables: Tables,
  kid: string,
  afterId: number,
  limit: number,
): Promise<WrittenCredentials[]> {
  const isLater = gt(tables.integrations.id, afterId)
  return oldest(db, tables, and(isLater, sql`${writtenBy(tables)} is distinct from ${kid}`), limit)
}

/** Some rows that this key wrote, the oldest. */
export async function sampleWrittenBy(
  db: Database,
  tables: Tables,
  kid: string,
  limit: number,
): Promise<WrittenCredentials[]> {
  return oldest(db, tables, sql`${writtenBy(tables)} = ${kid}`, limit)
}

async function oldest(
  db: Database,
  { integrations }: Tables,
  which: SQL | undefined,
  limit: number,
): Promise<WrittenCredentials[]> {
  return db
    .select({ id: integrations.id, credentials: integrations.credentials })
    .from(integrations)
    .where(which)
    .orderBy(asc(integrations.id))
    .limit(limit)
}

export async function credentialsOf(db: Database, { integrations }: Tables, id: number): Promise<string | null> {
  const [row] = await db
    .select({ credentials: integrations.credentials })
    .from(integrations)
    .where(eq(integrations.id, id))
  return row?.credentials ?? null
}

/**
 * Puts a text in the place of the one that was read. False: somebody changed it meanwhile, or the row is gone.
 *
 * `updated_at` stays: the credentials are the same, so nobody who looks for changed integrations has anything to see.
 */
export async function swapCredentials(
  db: Database,
  { integrations }: Tables,
  { id, credentials: expected }: WrittenCredentials,
  credentials: string,
): Promise<boolean> {
  const rows = await db
    .update(integrations)
    .set({ credentials, updatedAt: sql`${integrations.updatedAt}` as never })
    .where(and(eq(integrations.id, id), eq(integrations.credentials, expected)))
    .returning({ id: integrations.id })
  return rows.length === 1
}
