/** Statements over the integrations table. */
import type { SQL } from 'drizzle-orm'
import { and, asc, count, eq, inArray, isNotNull, isNull, notInArray, sql } from 'drizzle-orm'
import { getTableConfig } from 'drizzle-orm/pg-core'
import type { Database, Transaction } from '../db/client.ts'
import { intervalOf } from '../db/schema/columns.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Json } from '../framework/json.ts'

/** Postgres would refuse a fraction or a text with an error of its own, and a number beyond 2^53 may be another row's. */
export function canBeId(id: number): boolean {
  return Number.isSafeInteger(id) && id > 0
}

/** Null when there is none: of what can't be an id there never is one. */
export async function findIntegration(
  db: Database | Transaction,
  { integrations }: Tables,
  id: number,
): Promise<IntegrationRow | null> {
  if (!canBeId(id)) return null
  const [row] = await db.select().from(integrations).where(eq(integrations.id, id))
  return row ?? null
}

/**
 * The row, locked until the transaction ends: cursor and run state are decided under it.
 *
 * @param strength `update` is for who is about to delete it: rows that refer to it can't be inserted meanwhile. With the
 *   weaker one they can (manual, 13.3.2), so that no delivery waits for the end of a sync run.
 */
export async function lockIntegration(
  tx: Transaction,
  { integrations }: Tables,
  id: number,
  strength: 'no key update' | 'update' = 'no key update',
): Promise<IntegrationRow | null> {
  if (!canBeId(id)) return null
  const [row] = await tx.select().from(integrations).where(eq(integrations.id, id)).for(strength)
  return row ?? null
}

/** Those of the ids that there are. */
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

/** The same, each with its `xmin`: every update gives a row another one, whoever makes it. */
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
  const { schema = 'public', name: table } = getTableConfig(integrations)
  const name = `"${schema}"."${table}"`
  const [row] = await db.execute<{ id: string }>(sql`select nextval(pg_get_serial_sequence(${name}, 'id')) as id`)
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

/** Changes what is given, nothing else. Null when the row is gone. */
export async function updateIntegration(
  db: Database | Transaction,
  { integrations }: Tables,
  id: number,
  patch: Partial<typeof integrations.$inferInsert>,
): Promise<IntegrationRow | null> {
  if (!canBeId(id)) return null
  const [row] = await db.update(integrations).set(patch).where(eq(integrations.id, id)).returning()
  return row ?? null
}

/** Moves `updated_at`, also where nothing else is changed. */
export const TOUCHED = { updatedAt: sql`clock_timestamp()` as never }

/** Makes the next run due at once, by the clock that says what is due: the database's. */
export const DUE_NOW = { nextSyncAt: sql`clock_timestamp()` as never }

export interface IntegrationFilter {
  readonly provider?: string
  readonly active?: boolean
  readonly health?: IntegrationRow['healthStatus']
  readonly stale?: boolean
  readonly owner?: { readonly type: string; readonly id: number }
}

/** One page by ascending id, after the id given. */
export async function pageOfIntegrations(
  db: Database,
  { integrations }: Tables,
  filter: IntegrationFilter,
  afterId: number,
  limit: number,
): Promise<IntegrationRow[]> {
  const conditions: SQL[] = [sql`${integrations.id} > ${afterId}`]
  if (filter.provider !== undefined) conditions.push(eq(integrations.provider, filter.provider))
  if (filter.active !== undefined) conditions.push(eq(integrations.isActive, filter.active))
  if (filter.health !== undefined) conditions.push(eq(integrations.healthStatus, filter.health))
  if (filter.stale !== undefined)
    conditions.push(filter.stale ? isNotNull(integrations.syncStaleAlertedAt) : isNull(integrations.syncStaleAlertedAt))
  if (filter.owner !== undefined)
    conditions.push(eq(integrations.ownerType, filter.owner.type), eq(integrations.ownerId, filter.owner.id))
  return db
    .select()
    .from(integrations)
    .where(and(...conditions))
    .orderBy(asc(integrations.id))
    .limit(limit)
}

/**
 * Not switched off by a person. One that its health disabled goes on accepting, so that nothing is lost until an operator
 * enables it again.
 *
 * The function `isSwitchedOffByPerson()` of integrations/switched-off-rules.ts holds the same rule.
 */
export function acceptsWebhooks({ integrations }: Tables): SQL {
  return sql`(${integrations.switchedOffAt} is null and (${integrations.isActive} or ${integrations.healthStatus} = 'disabled'))`
}

/** What a person's switch writes. The first moment stays. */
export const switchedOff = ({ integrations }: Tables) => ({
  isActive: false,
  switchedOffAt: sql`coalesce(${integrations.switchedOffAt}, clock_timestamp())` as never,
})

/** Columns that end a clean or unclean run. */
export interface RunTimes {
  readonly clean: boolean
  /** Null: runs only by hand, nothing is planned. */
  readonly intervalMinutes: number | null
  readonly consecutiveFailures: number
  readonly cursor?: Json
}

export async function recordRunTimes(
  tx: Transaction,
  { integrations }: Tables,
  id: number,
  times: RunTimes,
): Promise<void> {
  const next =
    times.intervalMinutes === null ? null : sql`clock_timestamp() + ${intervalOf(sql`${times.intervalMinutes * 60}`)}`
  await tx
    .update(integrations)
    .set({
      consecutiveSyncFailures: times.consecutiveFailures,
      nextSyncAt: next as never,
      ...(times.clean ? { lastSyncedAt: sql`clock_timestamp()` as never, syncStaleAlertedAt: null } : {}),
      ...(times.cursor === undefined ? {} : { syncCursor: times.cursor }),
    })
    .where(eq(integrations.id, id))
}

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
