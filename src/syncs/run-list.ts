/** Sync runs as they are listed and shown. Rule: docs/behaviour/operator-api.md, "Syncs". */

import type { SQL } from 'drizzle-orm'
import { and, count, desc, eq, getTableColumns, gte, isNotNull, lt, min, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { IntegrationLabels } from '../db/integrations-of.ts'
import { belongsToThem, integrationColumns } from '../db/integrations-of.ts'
import type { LogRow, SyncItemRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { SyncRunNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { Page } from '../framework/list-filter.ts'
import { checkChoice, checkIds, checkPeriod, checkTexts, newestFirst } from '../framework/list-filter.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import { countItems } from './end-queries.ts'
import { RUN_STATUSES } from './run-rules.ts'

/** What a run's row in the operation logs may be of. */
const RUN_OPERATIONS = ['sync', 'backfill'] as const

interface SyncRunFilter {
  readonly integrationId?: number | undefined
  readonly provider?: string | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  readonly status?: string | undefined
  readonly stream?: string | undefined
  /** Begun at this moment or after it. */
  readonly since?: Date | undefined
  /** Begun before this moment. */
  readonly until?: Date | undefined
}

/** All but what only other operations write, and the direction, which is always `inbound`. */
export interface SyncRunSummary
  extends Omit<LogRow, 'resultData' | 'attempt' | 'maxAttempts' | 'direction'>,
    IntegrationLabels {}

export interface ListSyncRuns extends SyncRunFilter {
  readonly status?: (typeof RUN_STATUSES)[number] | undefined
  /** Only those of a lower id. */
  readonly after?: number | undefined
  /** At least 1. */
  readonly limit?: number | undefined
}

/** Newest first; backfills, too. @throws InvalidArgumentException at once, before anything is read */
export function listSyncRuns(framework: Framework, given: ListSyncRuns = {}): AsyncIterable<SyncRunSummary> {
  const { after, limit, ...filter } = given
  checkIds({ integrationId: filter.integrationId, after, limit })
  checkTexts({ provider: filter.provider, stream: filter.stream })
  checkOwnerFilter(filter.owner)
  checkChoice('status', filter.status, RUN_STATUSES)
  checkPeriod(filter.since, filter.until)
  const { db, tables } = framework
  return newestFirst((page) => pageOfSyncRuns(db, tables, filter, page), { after, limit })
}

export interface SyncRunDetail extends SyncRunSummary {
  /** As they are now: a retry or a skip changes them after the end, too. */
  readonly items: Readonly<Record<SyncItemRow['status'], number>>
  /** Items that wait for another attempt. */
  readonly waiting: number
  /** When the first of them is tried again; null: none waits. */
  readonly nextAttemptAt: Date | null
  /** What the failed and the waiting ones ended with: the three most frequent errors. */
  readonly errors: readonly { readonly error: string; readonly items: number }[]
}

const MAX_ERRORS = 3

/** @throws SyncRunNotFound */
export async function getSyncRun({ db, tables }: Framework, id: number): Promise<SyncRunDetail> {
  const run = isId(id) ? await findSyncRun(db, tables, id) : null
  if (run === null) throw new SyncRunNotFound(id)
  return { ...run, items: await countItems(db, tables, id), ...(await itemTroubles(db, tables, id, MAX_ERRORS)) }
}

/** What the failed and waiting items of a run ended with, the most frequent first, and when the next of them is tried. */
async function itemTroubles(
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

/** Newest id first; of the metadata without the request ids, which may be a thousand, and the bookmark. */
async function pageOfSyncRuns(
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
  tables: Tables,
  ofRuns: SQL,
  { integrationId, provider, owner, status, stream, since, until }: SyncRunFilter,
  { below, limit }: Page,
) {
  const { logs } = tables
  return db
    .select({ ...runColumns(tables), metadata: metadataWithout(logs, 'request_ids', 'bookmark') })
    .from(logs)
    .where(
      and(
        integrationId === undefined ? undefined : eq(logs.integrationId, integrationId),
        belongsToThem(tables, sql`${logs.integrationId}`, { provider, owner }),
        ofRuns,
        status === undefined ? undefined : eq(logs.status, status),
        stream === undefined ? undefined : eq(logs.stream, stream),
        since === undefined ? undefined : gte(logs.createdAt, since),
        until === undefined ? undefined : lt(logs.createdAt, until),
        below === undefined ? undefined : lt(logs.id, below),
      ),
    )
    .orderBy(desc(logs.id))
    .limit(limit)
}

async function findSyncRun(db: Database, tables: Tables, id: number): Promise<SyncRunSummary | null> {
  const { logs } = tables
  const [row] = await db
    .select({ ...runColumns(tables), metadata: metadataWithoutPosition(logs) })
    .from(logs)
    .where(and(eq(logs.id, id), sql`${logs.operation} in ('sync', 'backfill')`))
  return row ?? null
}

/** With how far a listing is. The position of its bookmark is the provider's text, such as the address of its next page. */
function metadataWithoutPosition(logs: Tables['logs']) {
  const bookmark = sql`${logs.metadata} -> 'bookmark'`
  const figures = sql`'count', ${bookmark} -> 'count', 'duplicates', ${bookmark} -> 'duplicates', 'began_at', ${bookmark} -> 'began_at'`
  return sql<unknown>`case when jsonb_typeof(${bookmark}) = 'object'
    then ${logs.metadata} || jsonb_build_object('bookmark', jsonb_strip_nulls(jsonb_build_object(${figures})))
    else ${metadataWithout(logs, 'bookmark')} end`
}

function metadataWithout({ metadata }: Tables['logs'], ...keys: readonly string[]) {
  const left = keys.reduce((rest, key) => sql`${rest} - ${key}`, sql`${metadata}`)
  return sql<unknown>`case when jsonb_typeof(${metadata}) = 'object' then ${left} else ${metadata} end`
}

function runColumns(tables: Tables) {
  const { logs } = tables
  const {
    resultData: _resultData,
    attempt: _attempt,
    maxAttempts: _maxAttempts,
    direction: _direction,
    ...columns
  } = getTableColumns(logs)
  return { ...columns, ...integrationColumns(tables, sql`${logs}.integration_id`) }
}
