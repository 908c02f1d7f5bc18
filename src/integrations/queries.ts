/** Statements over the integrations table. */
import type { SQL } from 'drizzle-orm'
import { and, asc, count, desc, eq, gt, inArray, isNotNull, isNull, lt, notInArray, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import { quotedName } from '../db/sql-functions.ts'
import { IntegrationNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { HealthStatus, Owner } from './rules.ts'

/** Null when there is none. Postgres would refuse a fraction with an error of its own, and a number beyond 2^53 may be another row's. */
export async function findIntegration(
  db: Database | Transaction,
  { integrations }: Tables,
  id: number,
): Promise<IntegrationRow | null> {
  if (!isId(id)) return null
  const [row] = await db.select().from(integrations).where(eq(integrations.id, id))
  return row ?? null
}

/** @throws IntegrationNotFound */
export async function requireIntegration(
  { db, tables }: { readonly db: Database; readonly tables: Tables },
  id: number,
): Promise<IntegrationRow> {
  return found(await findIntegration(db, tables, id), id)
}

/**
 * The row, locked until the transaction ends: cursor and run state are decided under it.
 *
 * @param strength `update` before a deletion: rows that refer to it can't be inserted meanwhile. With the weaker one they can
 *   (manual, 13.3.2), so that no delivery waits for the end of a sync run.
 */
export async function lockIntegration(
  tx: Transaction,
  { integrations }: Tables,
  id: number,
  strength: 'no key update' | 'update' = 'no key update',
): Promise<IntegrationRow | null> {
  if (!isId(id)) return null
  const [row] = await tx.select().from(integrations).where(eq(integrations.id, id)).for(strength)
  return row ?? null
}

/** The same. @throws IntegrationNotFound */
export async function requireLocked(tx: Transaction, tables: Tables, id: number): Promise<IntegrationRow> {
  return found(await lockIntegration(tx, tables, id), id)
}

function found(row: IntegrationRow | null, id: number): IntegrationRow {
  if (row === null) throw new IntegrationNotFound(id)
  return row
}

/** The rows of these ids that exist. */
export async function integrationsById(
  db: Database,
  { integrations }: Tables,
  ids: readonly number[],
): Promise<Map<number, IntegrationRow>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .select()
    .from(integrations)
    .where(inArray(integrations.id, [...ids]))
  return new Map(rows.map((row) => [row.id, row]))
}

/** The same, each with its `xmin`: every update gives a row another one. */
export async function integrationsWithVersion(
  db: Database,
  { integrations }: Tables,
  ids: readonly number[],
): Promise<Map<number, { row: IntegrationRow; version: string }>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .select({ row: integrations, version: sql<string>`${integrations}.xmin::text` })
    .from(integrations)
    .where(inArray(integrations.id, [...ids]))
  return new Map(rows.map((found) => [found.row.id, found]))
}

/** Draws the id of a new row: its credentials are bound to the id, so it must be known before they are encrypted. */
export async function nextIntegrationId(db: Database, { integrations }: Tables): Promise<number> {
  const table = quotedName(integrations)
  const [row] = await db.execute<{ id: string }>(sql`select nextval(pg_get_serial_sequence(${table}, 'id')) as id`)
  return Number(row?.id)
}

export async function insertIntegration(
  db: Database | Transaction,
  { integrations }: Tables,
  values: typeof integrations.$inferInsert,
): Promise<IntegrationRow> {
  const [row] = await db.insert(integrations).values(values).returning()
  return row as IntegrationRow
}

/** Changes the given columns. Null when the row is gone. */
export async function updateIntegration(
  db: Database | Transaction,
  { integrations }: Tables,
  id: number,
  patch: Partial<typeof integrations.$inferInsert>,
): Promise<IntegrationRow | null> {
  if (!isId(id)) return null
  const [row] = await db.update(integrations).set(patch).where(eq(integrations.id, id)).returning()
  return row ?? null
}

/** Moves `updated_at`, also where nothing else is changed. */
export const TOUCHED = { updatedAt: sql`clock_timestamp()` as never }

/** Makes the next run due at once, by the clock that says what is due: the database's. */
export const DUE_NOW = { nextSyncAt: sql`clock_timestamp()` as never }

export interface IntegrationFilter {
  readonly provider?: string | undefined
  readonly active?: boolean | undefined
  readonly health?: HealthStatus | undefined
  /** Whether the integration counts as stale (`sync_stale_alerted_at` is set). */
  readonly stale?: boolean | undefined
  readonly owner?: Owner | undefined
}

/** One page by id: ascending after the id given, or the newest first below it. */
export async function pageOfIntegrations(
  db: Database,
  { integrations }: Tables,
  { provider, active, health, stale, owner }: IntegrationFilter,
  { order, after, limit }: { order: 'ascending' | 'newest first'; after: number | undefined; limit: number },
): Promise<IntegrationRow[]> {
  const { id, syncStaleAlertedAt } = integrations
  const [isBehind, by] = order === 'ascending' ? [gt, asc] : [lt, desc]
  const conditions: SQL[] = []
  if (after !== undefined) conditions.push(isBehind(id, after))
  if (provider !== undefined) conditions.push(eq(integrations.provider, provider))
  if (active !== undefined) conditions.push(eq(integrations.isActive, active))
  if (health !== undefined) conditions.push(eq(integrations.healthStatus, health))
  if (stale !== undefined) conditions.push(stale ? isNotNull(syncStaleAlertedAt) : isNull(syncStaleAlertedAt))
  if (owner !== undefined) conditions.push(eq(integrations.ownerType, owner.type), eq(integrations.ownerId, owner.id))
  return db
    .select()
    .from(integrations)
    .where(and(...conditions))
    .orderBy(by(id))
    .limit(limit)
}

/**
 * Not switched off by a person. One that its health disabled still accepts, so that nothing is lost until an operator enables
 * it again. The function `isSwitchedOffByPerson()` of rules.ts holds the same rule.
 */
export function acceptsWebhooks({ integrations }: Tables): SQL {
  return sql`(${integrations.switchedOffAt} is null and (${integrations.isActive} or ${integrations.healthStatus} = 'disabled'))`
}

/** What a person's switch writes. The first moment stays. */
export const switchedOff = ({ integrations }: Tables) => ({
  isActive: false,
  switchedOffAt: sql`coalesce(${integrations.switchedOffAt}, clock_timestamp())` as never,
})

/** The provider alone: a row holds credentials, and may hold 64 KiB of metadata. Null when there is no such integration. */
export async function findProvider(db: Database, { integrations }: Tables, id: number): Promise<string | null> {
  if (!isId(id)) return null
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
