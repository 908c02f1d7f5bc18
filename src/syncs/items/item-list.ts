/** Sync items as they are listed and shown. Rule: docs/behaviour/operator-api.md, "Syncs". */

import { and, eq, getTableColumns, gte, isNotNull, isNull, lt, sql } from 'drizzle-orm'
import { storedSecrets } from '../../credentials/integration-secrets.ts'
import type { Database } from '../../db/client.ts'
import type { IntegrationLabels } from '../../db/integrations-of.ts'
import { belongsToThem, fewIntegrations, integrationColumns, newestSince } from '../../db/integrations-of.ts'
import { newestBy, newestOfEach, ofFew } from '../../db/newest-of-each.ts'
import type { SyncItemRow, Tables } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import { InvalidArgumentException, SyncItemNotFound } from '../../framework/errors.ts'
import { isId } from '../../framework/id.ts'
import { INSTANT_OR_AGO, instantOrAgo } from '../../framework/instant.ts'
import type { Page } from '../../framework/list-filter.ts'
import {
  checkChoice,
  checkIds,
  checkPeriod,
  checkTexts,
  newestFirst,
  searchedSince,
} from '../../framework/list-filter.ts'
import { REDACTED } from '../../framework/redaction.ts'
import { redacted } from '../../framework/redaction-thread.ts'
import { checkOwnerFilter } from '../../integrations/rules.ts'
import type { FailedItem, ListFailedItemsInput } from '../sync-jobs.ts'
import { itemsOf } from '../sync-rows.ts'
import { madeUpForBy } from './item-queries.ts'
import { SYNC_ITEM_STATUSES } from './item-rules.ts'

const DEFAULT_FAILED = 50

/** Which rows are meant; what is given adds up. */
export interface SyncItemFilter {
  readonly integrationId?: number | undefined
  readonly provider?: string | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  /** The log of the run. */
  readonly syncLogId?: number | undefined
  readonly status?: SyncItemRow['status'] | undefined
  readonly stream?: string | undefined
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
export interface SyncItemSummary
  extends Omit<SyncItemRow, 'payload' | 'checkpointValue' | 'claim'>,
    IntegrationLabels,
    ItemStanding {}

export interface ItemStanding {
  /** Of a failed item: the one of a later run that made up for it. Null: none did, or it has not failed. */
  readonly madeUpForBy: number | null
  /** Whether its integration's cursor stays because of it: it has not ended well, and nothing made up for it. */
  readonly holdsCursor: boolean
}

/**
 * Failed items that no later run made up for, newest first: those are what is left to do. Or, asked for, all failed ones, or those
 * that wait for another attempt. @throws InvalidArgumentException
 */
export async function listFailedItems(
  framework: Framework,
  { integrationId, stream, since, limit = DEFAULT_FAILED, all = false, waiting = false }: ListFailedItemsInput,
): Promise<FailedItem[]> {
  if (all && waiting)
    throw new InvalidArgumentException(
      'all',
      'it is of failed items, and those that wait were asked for: give one of both',
    )
  const kind = waiting ? { waiting } : all ? { status: 'failed' as const } : { madeUpFor: false }
  const failed: FailedItem[] = []
  for await (const row of listSyncItems(framework, { ...kind, integrationId, stream, since: sinceDate(since), limit }))
    failed.push({
      id: row.id,
      integrationId: row.integrationId,
      stream: row.stream,
      eventClass: row.eventClass,
      externalId: row.externalId,
      error: row.error ?? row.lastError,
      attempts: row.attempts,
      createdAt: row.createdAt.toISOString(),
      holdsCursor: row.holdsCursor,
      madeUpForBy: row.madeUpForBy,
      nextAttemptAt: row.nextAttemptAt?.toISOString() ?? null,
    })
  return failed
}

function sinceDate(since: string | undefined): Date | undefined {
  if (since === undefined) return undefined
  const moment = instantOrAgo().safeParse(since)
  if (moment.success) return moment.data
  throw new InvalidArgumentException('since', `${INSTANT_OR_AGO}, is allowed; ${String(since)} was given`)
}

export interface ListSyncItems extends SyncItemFilter {
  /** Listed behind the one of this id. */
  readonly after?: number | undefined
  /** At least 1. */
  readonly limit?: number | undefined
}

/** Newest first, without payloads. @throws InvalidArgumentException at once, before anything is read */
export function listSyncItems(framework: Framework, given: ListSyncItems = {}): AsyncIterable<SyncItemSummary> {
  const { after, limit, ...filter } = given
  const { integrationId, provider, owner, syncLogId, status, stream, eventClass, externalId, since, until } = filter
  checkIds({ integrationId, syncLogId, after, limit })
  checkTexts({ provider, stream, eventClass, externalId })
  checkOwnerFilter(owner)
  checkChoice('status', status, SYNC_ITEM_STATUSES)
  checkPeriod(since, until)
  // What one provider calls 7 has nothing to do with another's, and no index leads with it.
  if (externalId !== undefined && integrationId === undefined && syncLogId === undefined)
    throw new InvalidArgumentException('externalId', 'it is looked for in one integration or one run: give either, too')
  return syncItemsOf(framework, filter, { after, limit })
}

async function* syncItemsOf(
  { db, tables, clock }: Framework,
  filter: SyncItemFilter,
  range: Pick<ListSyncItems, 'after' | 'limit'>,
): AsyncGenerator<SyncItemSummary> {
  const isOfOne = (filter.integrationId ?? filter.syncLogId) !== undefined
  const since = filter.since ?? (isSearched(filter) ? searchedSince(filter.until, clock.now()) : undefined)
  const few = hasOwnIndex({ ...filter, since }) ? null : await fewIntegrations(db, tables, filter)
  if (few === null)
    yield* newestSince({ db, tables }, tables.syncItems, isOfOne ? undefined : since, range, (page, from) =>
      pageOfSyncItems(db, tables, { ...filter, since }, null, page, from),
    )
  else yield* newestFirst((page) => pageOfSyncItems(db, tables, { ...filter, since }, few, page), range)
}

/** Whether an index has the rows of the run, those that wait, or those of the integration's stream, which are few beside others. */
function hasOwnIndex({ integrationId, syncLogId, stream, waiting, externalId, since }: SyncItemFilter): boolean {
  const isOfStream =
    stream !== undefined && integrationId !== undefined && externalId === undefined && since === undefined
  return syncLogId !== undefined || waiting === true || isOfStream
}

/**
 * Whether no index leads to the rows: of an event class or a stream, over all integrations and runs, and in any status or one that
 * most rows have.
 */
function isSearched(filter: SyncItemFilter): boolean {
  const { integrationId, syncLogId, status, stream, waiting, madeUpFor, eventClass } = filter
  const isOfMany = status === undefined || status === 'success' || status === 'skipped'
  return (
    (eventClass ?? stream) !== undefined &&
    (integrationId ?? syncLogId) === undefined &&
    isOfMany &&
    waiting !== true &&
    madeUpFor === undefined
  )
}

/** With its payload as stored; null once it is erased. */
export interface SyncItemDetail extends Omit<SyncItemRow, 'claim'>, IntegrationLabels, ItemStanding {}

/** The row with what was listed: for code, and not for a screen. @throws SyncItemNotFound */
export async function getSyncItem({ db, tables }: Framework, id: number): Promise<SyncItemDetail> {
  const row = isId(id) ? await findSyncItem(db, tables, id) : null
  if (row === null) throw new SyncItemNotFound(id)
  return row
}

/**
 * The same for people: what the integration's credentials hold is redacted. If they cannot be read, nothing that was listed is
 * shown.
 *
 * @throws SyncItemNotFound
 */
export async function showSyncItem(framework: Framework, id: number): Promise<SyncItemDetail> {
  const item = await getSyncItem(framework, id)
  const secrets = await storedSecrets(framework, item.integrationId)
  const shown = async (value: unknown): Promise<unknown> => {
    if (value === null || value === undefined) return null
    if (secrets === null) return REDACTED
    const text = JSON.stringify(value)
    return JSON.parse(await redacted(text, 'redactBody', text, secrets))
  }
  return { ...item, payload: await shown(item.payload), checkpointValue: await shown(item.checkpointValue) }
}

/**
 * Of few integrations: the newest of each, by the time, or by the id where an index has the failed ones or those of an external id.
 * Of all: by the id.
 *
 * @param few ids of the integrations; null: many, or all, or another index leads to the rows
 * @param from of all: no id below this one
 */
export function pageOfSyncItems(
  db: Database,
  tables: Tables,
  filter: SyncItemFilter,
  few: readonly number[] | null,
  page: Page,
  from?: number,
) {
  const { syncItems } = tables
  const { payload: _payload, checkpointValue: _checkpointValue, claim: _claim, ...columns } = getTableColumns(syncItems)
  const {
    integrationId,
    provider,
    owner,
    syncLogId,
    status,
    stream,
    waiting,
    madeUpFor,
    eventClass,
    externalId,
    since,
    until,
  } = filter
  const conditions = and(
    syncLogId === undefined ? undefined : eq(syncItems.syncLogId, syncLogId),
    status === undefined ? undefined : eq(syncItems.status, status),
    waiting === undefined ? undefined : waiting ? isNotNull(syncItems.nextAttemptAt) : isNull(syncItems.nextAttemptAt),
    madeUpFor === undefined
      ? undefined
      : sql`${syncItems.status} = 'failed' and ${madeUpForBy(syncItems)} is ${sql.raw(madeUpFor ? 'not null' : 'null')}`,
    eventClass === undefined ? undefined : eq(syncItems.eventClass, eventClass),
    externalId === undefined ? undefined : eq(syncItems.externalId, externalId),
    since === undefined ? undefined : gte(syncItems.createdAt, since),
    until === undefined ? undefined : lt(syncItems.createdAt, until),
  )
  // Of these there are indexes of an integration, which are better than that of its streams and want its bare column.
  const isFew = externalId !== undefined || since !== undefined || syncLogId !== undefined
  const ofStream =
    stream !== undefined && integrationId !== undefined && !isFew
      ? itemsOf(sql`${syncItems}`, { integrationId, stream })
      : undefined
  const ofAll = and(
    integrationId === undefined ? undefined : eq(syncItems.integrationId, integrationId),
    stream === undefined ? undefined : (ofStream ?? eq(syncItems.stream, stream)),
    belongsToThem(tables, sql`${syncItems.integrationId}`, { provider, owner }),
    conditions,
    page.below === undefined ? undefined : lt(syncItems.id, page.below),
    from === undefined ? undefined : gte(syncItems.id, from),
  )
  const ofEach = and(stream === undefined ? undefined : eq(syncItems.stream, stream), conditions)
  const isById = status === 'failed' || madeUpFor !== undefined || externalId !== undefined
  const by = few === null || isById ? 'id' : 'time'
  return db
    .select({ ...columns, ...beside(tables) })
    .from(syncItems)
    .where(
      few === null
        ? ofAll
        : sql`${syncItems.id} in (${newestOfEach(syncItems, ofFew(few, syncItems.integrationId, ofEach), by, page)})`,
    )
    .orderBy(...newestBy(syncItems, by))
    .limit(page.limit)
}

async function findSyncItem(db: Database, tables: Tables, id: number): Promise<SyncItemDetail | null> {
  const { syncItems } = tables
  const { claim: _claim, ...columns } = getTableColumns(syncItems)
  const [row] = await db
    .select({ ...columns, ...beside(tables) })
    .from(syncItems)
    .where(eq(syncItems.id, id))
  return row ?? null
}

function beside(tables: Tables) {
  return { ...integrationColumns(tables, sql`${tables.syncItems}.integration_id`), ...standing(tables) }
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
