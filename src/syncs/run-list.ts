/** Sync runs as they are listed and shown. Rule: docs/behaviour/operator-api.md, "Syncs". */

import { and, count, desc, eq, getTableColumns, gte, isNotNull, lt, min, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { IntegrationLabels } from '../db/integrations-of.ts'
import { belongsToThem, fewIntegrations, integrationColumns } from '../db/integrations-of.ts'
import { asFew, newestOfEach } from '../db/newest-of-each.ts'
import type { LogRow, SyncItemRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { SyncRunNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { Page } from '../framework/list-filter.ts'
import { checkChoice, checkIds, checkPeriod, checkTexts, newestFirst } from '../framework/list-filter.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import { countItems } from './end-queries.ts'
import { RUN_STATUSES } from './run-rules.ts'

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
  return syncRunsOf(framework, filter, { after, limit })
}

async function* syncRunsOf(
  { db, tables }: Framework,
  filter: SyncRunFilter,
  range: Pick<ListSyncRuns, 'after' | 'limit'>,
): AsyncGenerator<SyncRunSummary> {
  const few = await fewIntegrations(db, tables, filter)
  yield* newestFirst((page) => pageOfSyncRuns(db, tables, filter, few, page), range)
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

/**
 * Newest id first; of the metadata without the request ids, which may be a thousand, and the bookmark. Of few integrations: the newest
 * of each and of both operations: an index leads with them, and another one with the stream between.
 *
 * @param few ids of the integrations; null: many, or all
 */
export function pageOfSyncRuns(
  db: Database,
  tables: Tables,
  filter: SyncRunFilter,
  few: readonly number[] | null,
  page: Page,
) {
  const { logs } = tables
  const { provider, owner, status, stream, since, until } = filter
  const conditions = and(
    status === undefined ? undefined : eq(logs.status, status),
    since === undefined ? undefined : gte(logs.createdAt, since),
    until === undefined ? undefined : lt(logs.createdAt, until),
  )
  const ofAll = and(
    belongsToThem(tables, sql`${logs.integrationId}`, { provider, owner }),
    // Written out, so that an index on the rows of runs can serve it.
    sql`${logs.operation} in ('sync', 'backfill')`,
    stream === undefined ? undefined : eq(logs.stream, stream),
    conditions,
    page.below === undefined ? undefined : lt(logs.id, page.below),
  )
  const ofEach = (ids: readonly number[]) =>
    newestOfEach(
      logs,
      {
        from: sql`${asFew(ids)} cross join (values ('sync'), ('backfill')) run (operation)`,
        led: [
          [logs.integrationId, sql`few.integration_id`],
          ...(stream === undefined ? [] : [[logs.stream, sql`${stream}`] as const]),
          [logs.operation, sql`run.operation`],
        ],
        // Said for the index of streams.
        where: and(stream === undefined ? undefined : isNotNull(logs.stream), conditions),
      },
      'id',
      page,
    )
  return db
    .select({ ...runColumns(tables), metadata: metadataWithout(logs, 'request_ids', 'bookmark') })
    .from(logs)
    .where(few === null ? ofAll : sql`${logs.id} in (${ofEach(few)})`)
    .orderBy(desc(logs.id))
    .limit(page.limit)
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
