/** What is read of sync runs and their items for people: pages without payloads, and counts. */
import type { SQL } from 'drizzle-orm'
import { and, count, desc, eq, getTableColumns, gte, isNotNull, isNull, lt, min, sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { LogRow, SyncItemRow, Tables } from '../../db/schema/tables.ts'
import { madeUpForBy } from './item-queries.ts'

/** Which rows are meant; what is given adds up. */
export interface SyncItemFilter {
  readonly integrationId?: number | undefined
  /** The log of the run. */
  readonly syncLogId?: number | undefined
  readonly status?: SyncItemRow['status'] | undefined
  /** Items that wait for another attempt. */
  readonly waiting?: boolean | undefined
  /** Of failed ones: whether a later run made up for them. */
  readonly madeUpFor?: boolean | undefined
  /** The event's type, as stored. */
  readonly eventClass?: string | undefined
  readonly externalId?: string | undefined
  /** Created at this moment or after it. */
  readonly since?: Date | undefined
  /** Created before this moment. */
  readonly until?: Date | undefined
}

/** Without what may hold a credential: the payload and the checkpoint. */
export type SyncItemSummary = Omit<SyncItemRow, 'payload' | 'checkpointValue' | 'claim'> & ItemStanding

export interface ItemStanding {
  /** Of a failed item: the one of a later run that made up for it. Null: none did, or it has not failed. */
  readonly madeUpForBy: number | null
  /** Whether its integration's cursor stays because of it: it has not ended well, and nothing made up for it. */
  readonly holdsCursor: boolean
}

interface Page {
  /** Only ids below this one. */
  readonly below: number | undefined
  readonly limit: number
}

/** Newest id first. */
export function pageOfSyncItems(db: Database, tables: Tables, filter: SyncItemFilter, { below, limit }: Page) {
  const { syncItems } = tables
  const { payload: _payload, checkpointValue: _checkpointValue, claim: _claim, ...columns } = getTableColumns(syncItems)
  const { integrationId, syncLogId, status, waiting, madeUpFor, eventClass, externalId, since, until } = filter
  return db
    .select({ ...columns, ...standing(tables) })
    .from(syncItems)
    .where(
      and(
        integrationId === undefined ? undefined : eq(syncItems.integrationId, integrationId),
        syncLogId === undefined ? undefined : eq(syncItems.syncLogId, syncLogId),
        status === undefined ? undefined : eq(syncItems.status, status),
        waiting === undefined
          ? undefined
          : waiting
            ? isNotNull(syncItems.nextAttemptAt)
            : isNull(syncItems.nextAttemptAt),
        madeUpFor === undefined
          ? undefined
          : sql`${syncItems.status} = 'failed' and ${madeUpForBy(syncItems)} is ${sql.raw(madeUpFor ? 'not null' : 'null')}`,
        eventClass === undefined ? undefined : eq(syncItems.eventClass, eventClass),
        externalId === undefined ? undefined : eq(syncItems.externalId, externalId),
        since === undefined ? undefined : gte(syncItems.createdAt, since),
        until === undefined ? undefined : lt(syncItems.createdAt, until),
        below === undefined ? undefined : lt(syncItems.id, below),
      ),
    )
    .orderBy(desc(syncItems.id))
    .limit(limit)
}

export async function findSyncItem(
  db: Database,
  tables: Tables,
  id: number,
): Promise<(Omit<SyncItemRow, 'claim'> & ItemStanding) | null> {
  const { syncItems } = tables
  const { claim: _claim, ...columns } = getTableColumns(syncItems)
  const [row] = await db
    .select({ ...columns, ...standing(tables) })
    .from(syncItems)
    .where(eq(syncItems.id, id))
  return row ?? null
}

/** Rule: docs/behaviour/sync-cursor.md, "The cursor". Asked of failed rows alone: the others have nothing to make up for. */
function standing({ syncItems, logs }: Tables) {
  const by = madeUpForBy(syncItems)
  return {
    madeUpForBy: sql<number | null>`case when ${syncItems}.status = 'failed' then ${by} end`.mapWith((id: unknown) =>
      id === null ? null : Number(id),
    ),
    // Scalars, so that each is asked by its index for the rows of the page alone.
    holdsCursor: sql<boolean>`(${syncItems}.status in ('pending', 'processing', 'failed') and ${by} is null
      and coalesce((select run.operation from ${logs} run where run.id = ${syncItems}.sync_log_id), '') <> 'backfill')`,
  }
}

/** What the failed and waiting items of a run ended with, the most frequent first, and when the next of them is tried. */
export async function itemTroubles(
  db: Database,
  { syncItems }: Tables,
  syncLogId: number,
  limit: number,
): Promise<{ waiting: number; nextAttemptAt: Date | null; errors: { error: string; items: number }[] }> {
  const ofRun = and(eq(syncItems.syncLogId, syncLogId), sql`${syncItems.status} in ('processing', 'failed')`)
  const error = sql<string>`coalesce(${syncItems.error}, ${syncItems.lastError})`
  const [waiting] = await db
    .select({ items: count(), nextAttemptAt: min(syncItems.nextAttemptAt) })
    .from(syncItems)
    .where(and(ofRun, isNotNull(syncItems.nextAttemptAt)))
  const errors = await db
    .select({ error, items: count() })
    .from(syncItems)
    .where(and(ofRun, sql`${error} is not null`))
    .groupBy(error)
    .orderBy(desc(count()), error)
    .limit(limit)
  return { waiting: waiting?.items ?? 0, nextAttemptAt: waiting?.nextAttemptAt ?? null, errors }
}

/** What a run's row in the operation logs may be of. */
export const RUN_OPERATIONS = ['sync', 'backfill'] as const

export interface SyncRunFilter {
  readonly integrationId?: number | undefined
  readonly status?: string | undefined
  /** Begun at this moment or after it. */
  readonly since?: Date | undefined
  /** Begun before this moment. */
  readonly until?: Date | undefined
}

/** All but what only other operations write, and the direction, which is always `inbound`. */
export type SyncRunSummary = Omit<LogRow, 'resultData' | 'attempt' | 'maxAttempts' | 'direction'>

/** Newest id first; of the metadata without the request ids, which may be a thousand, and the bookmark. */
export async function pageOfSyncRuns(
  db: Database,
  tables: Tables,
  filter: SyncRunFilter,
  page: Page,
): Promise<SyncRunSummary[]> {
  const { operation } = tables.logs
  if (filter.integrationId === undefined)
    // Written out, so that an index on the rows of runs can serve it.
    return runsWhere(db, tables, sql`${operation} in ('sync', 'backfill')`, filter, page)
  // One question each: the index leads with integration and operation, and has the newest of each at its end.
  const pages = await Promise.all(RUN_OPERATIONS.map((one) => runsWhere(db, tables, eq(operation, one), filter, page)))
  return pages
    .flat()
    .sort((a, b) => b.id - a.id)
    .slice(0, page.limit)
}

/** One of the statements of {@link pageOfSyncRuns}. */
export function runsWhere(
  db: Database,
  { logs }: Tables,
  ofRuns: SQL,
  { integrationId, status, since, until }: SyncRunFilter,
  { below, limit }: Page,
) {
  return db
    .select({ ...runColumns(logs), metadata: metadataWithout(logs, 'request_ids', 'bookmark') })
    .from(logs)
    .where(
      and(
        integrationId === undefined ? undefined : eq(logs.integrationId, integrationId),
        ofRuns,
        status === undefined ? undefined : eq(logs.status, status),
        since === undefined ? undefined : gte(logs.createdAt, since),
        until === undefined ? undefined : lt(logs.createdAt, until),
        below === undefined ? undefined : lt(logs.id, below),
      ),
    )
    .orderBy(desc(logs.id))
    .limit(limit)
}

export async function findSyncRun(db: Database, { logs }: Tables, id: number): Promise<SyncRunSummary | null> {
  const [row] = await db
    // A bookmark is a provider's text, such as the address of its next page.
    .select({ ...runColumns(logs), metadata: metadataWithout(logs, 'bookmark') })
    .from(logs)
    .where(and(eq(logs.id, id), sql`${logs.operation} in ('sync', 'backfill')`))
  return row ?? null
}

/** How many items of a run are in each status; a status without any is left out. */
export async function countRunItems(
  db: Database,
  { syncItems }: Tables,
  syncLogId: number,
): Promise<{ status: SyncItemRow['status']; items: number }[]> {
  return db
    .select({ status: syncItems.status, items: count() })
    .from(syncItems)
    .where(eq(syncItems.syncLogId, syncLogId))
    .groupBy(syncItems.status)
}

function metadataWithout({ metadata }: Tables['logs'], ...keys: readonly string[]) {
  const left = keys.reduce((rest, key) => sql`${rest} - ${key}`, sql`${metadata}`)
  return sql<unknown>`case when jsonb_typeof(${metadata}) = 'object' then ${left} else ${metadata} end`
}

function runColumns(logs: Tables['logs']) {
  const {
    resultData: _resultData,
    attempt: _attempt,
    maxAttempts: _maxAttempts,
    direction: _direction,
    ...columns
  } = getTableColumns(logs)
  return columns
}
