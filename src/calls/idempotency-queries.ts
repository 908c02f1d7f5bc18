/** Statements over the ledger of spent idempotency keys. */
import { and, desc, eq, gte, isNull, or, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'

export interface LedgerKey {
  readonly integrationId: number
  readonly key: string
}

/** What the ledger and the request log say of a key. */
export interface LedgerEntry {
  readonly id: number
  readonly reservedAt: Date
  /** By the same clock as `reservedAt`. */
  readonly ageSeconds: number
  /** The newest call under this reservation that succeeded, or that the provider answered with a 2xx. */
  readonly prior: { readonly requestId: number; readonly responseData: string | null } | null
}

/**
 * Spends the key. Null: it is spent already.
 *
 * @param now null: the database's clock
 */
export async function insertIdempotencyKey(
  db: Database,
  { idempotencyKeys }: Tables,
  key: LedgerKey,
  now: Date | null,
): Promise<{ id: number; reservedAt: Date } | null> {
  const [row] = await db
    .insert(idempotencyKeys)
    // Whole milliseconds, rounded down as a settlement's are: else an answer in the same one would seem older than its key.
    .values({ ...key, createdAt: now ?? sql`date_trunc('milliseconds', clock_timestamp())` })
    .onConflictDoNothing({ target: [idempotencyKeys.integrationId, idempotencyKeys.key] })
    .returning({ id: idempotencyKeys.id, reservedAt: idempotencyKeys.createdAt })
  return row ?? null
}

/**
 * Null: the key is not spent.
 *
 * A call from before the reservation does not count: its own reservation was forgotten or pruned.
 */
export async function findIdempotencyKey(
  db: Database,
  { idempotencyKeys, requests }: Tables,
  { integrationId, key }: LedgerKey,
  now: Date | null,
): Promise<LedgerEntry | null> {
  const at = now === null ? sql`clock_timestamp()` : sql`${now.toISOString()}::timestamp with time zone`
  const [row] = await db
    .select({
      id: idempotencyKeys.id,
      reservedAt: idempotencyKeys.createdAt,
      ageSeconds: sql<number>`extract(epoch from ${at} - ${idempotencyKeys.createdAt})::double precision`,
      requestId: requests.id,
      responseData: requests.responseData,
    })
    .from(idempotencyKeys)
    .leftJoin(
      requests,
      and(
        eq(requests.integrationId, idempotencyKeys.integrationId),
        eq(requests.idempotencyKey, idempotencyKeys.key),
        gte(requests.createdAt, idempotencyKeys.createdAt),
        or(isNull(requests.failureClass), sql`${requests.statusCode} between 200 and 299`),
      ),
    )
    .where(and(eq(idempotencyKeys.integrationId, integrationId), eq(idempotencyKeys.key, key)))
    .orderBy(desc(requests.id))
    .limit(1)
  if (row === undefined) return null
  const { requestId, responseData, ...entry } = row
  return { ...entry, prior: requestId === null ? null : { requestId, responseData } }
}

/** Gives back this very reservation, not one of the same key made since. */
export async function deleteReservation(db: Database, { idempotencyKeys }: Tables, id: number): Promise<void> {
  await db.delete(idempotencyKeys).where(eq(idempotencyKeys.id, id))
}

/** When it was spent; null: it was not. */
export async function deleteIdempotencyKey(
  tx: Transaction,
  { idempotencyKeys }: Tables,
  { integrationId, key }: LedgerKey,
): Promise<Date | null> {
  const [row] = await tx
    .delete(idempotencyKeys)
    .where(and(eq(idempotencyKeys.integrationId, integrationId), eq(idempotencyKeys.key, key)))
    .returning({ reservedAt: idempotencyKeys.createdAt })
  return row?.reservedAt ?? null
}
