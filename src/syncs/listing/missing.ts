/** What is gone at the provider, as two full listings in a row tell. Rule: docs/behaviour/sync-backfills.md, "Deletions". */

import type { SQL } from 'drizzle-orm'
import { eq, gt, lt, sql } from 'drizzle-orm'
import { insideSync } from '../../calls/inside-sync.ts'
import type { Database } from '../../db/client.ts'
import type { LogRow, Tables } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import { MissingNotWithheld, SyncRunNotFound } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { boundLogger, integrationLogger } from '../../framework/logger.ts'
import { asPartOf } from '../../framework/origin.ts'
import { untilAborted } from '../../framework/waiting.ts'
import { integrationHandle } from '../../integrations/handle.ts'
import { findIntegration } from '../../integrations/queries.ts'
import type { RunMetadata } from '../../observability/log-queries.ts'
import { findLog, mergeLogMetadata, newestLog } from '../../observability/log-queries.ts'
import type { HandlesMissing } from '../../providers/contracts.ts'
import { handlesMissing } from '../../providers/contracts.ts'
import type { Integration } from '../../providers/integration.ts'
import { syncSource } from '../../providers/streams.ts'
import { isFullListing, noteDeleted, unchangedIn } from '../record-queries.ts'
import type { RunIds } from '../run-rules.ts'
import { pendingOf } from '../sync-jobs.ts'

/** Ids in one call of the provider. */
const CHUNK = 500
/** Missing ids that are told after one look at both listings, which counts all their items: seconds for millions. */
const TOLD_AFTER_A_LOOK = 50_000
/** Mapped ids compared by one statement: memory stays flat, however many there are. */
const PAGE = 5_000
/** Beyond this share it is more likely that the listing was wrong than that so much is gone. */
const MAX_SHARE = 0.5

/** Two full listings, and what is asked about them. */
export interface TwoListings {
  readonly integrationId: number
  readonly stream: string | null
  /** Null: all of the integration. */
  readonly internalType: string | null
  readonly syncLogIds: readonly [number, number]
  /** When the earlier one began: what was mapped later, it could not know. */
  readonly mappedBy: Date
  /** The lowest id of their items: a year of earlier ones lies below it. */
  readonly fromItemId: number
  /** An id counts as named, too, when any run or backfill has named it since the earlier one. */
  readonly andSince: boolean
}

export interface MissingItems {
  readonly integration: Integration
  readonly provider: HandlesMissing
  readonly syncLogId: number
  readonly listings: TwoListings
  /** How many items each of the two listed. Pruning may take some at any moment. */
  readonly listed: readonly [number, number]
  /** A person has confirmed that more than half of all mapped ids are gone. Default false. */
  readonly isConfirmed?: boolean
}

/** The two listings that may be compared. Null: there are none, or the provider is not to be told. */
export async function missingItemsOf(
  framework: Framework,
  { integrationId, syncLogId }: RunIds,
): Promise<MissingItems | null> {
  const { db, tables } = framework
  const [log, row] = await Promise.all([findLog(db, tables, syncLogId), findIntegration(db, tables, integrationId)])
  if (log === null || row === null || !row.isActive) return null
  const registered = framework.providers.find(row.provider)
  const provider = registered === null ? null : syncSource(registered, log.stream)
  if (provider === null || !handlesMissing(provider)) return null
  const kind = fullListingOf(log)
  if (kind === null || log.operation !== 'sync' || log.status !== 'success') return null
  if ((log.metadata as RunMetadata).missing_handled_at !== undefined) return null
  const before = await fullListingBefore(db, tables, log, kind.internalType)
  if (before === null || before.status !== 'success') return null

  const [earlier, later] = [await itemsLeft(db, tables, before.id), await itemsLeft(db, tables, log.id)]
  if (earlier.count < listedBy(before) || later.count < listedBy(log)) {
    warnOfPruned(framework, row, [before.id, log.id])
    return null
  }
  const firstIds = [earlier.firstId, later.firstId].filter((id) => id !== null)
  return {
    integration: integrationHandle(framework, row),
    provider,
    syncLogId,
    listed: [listedBy(before), listedBy(log)],
    listings: {
      integrationId,
      stream: log.stream,
      internalType: kind.internalType,
      syncLogIds: [before.id, log.id],
      mappedBy: before.createdAt,
      fromItemId: Math.min(...firstIds, Number.MAX_SAFE_INTEGER),
      andSince: false,
    },
  }
}

/**
 * Tells the provider the missing ids, 500 at a time, and notes it in the run's log. It tells none when more than half of all
 * mapped ids are missing, unless a person has confirmed it.
 *
 * @param signal aborted when the worker stops or the run is cancelled: no further call begins
 * @param enough aborted when the provider's running call is given up; default: at once
 * @returns the number of ids that were told
 * @throws a signal's reason: nothing is noted then, and all ids are told again
 */
export async function handleMissing(
  framework: Framework,
  { integration, provider, syncLogId, listings, listed, isConfirmed = false }: MissingItems,
  signal: AbortSignal,
  enough = signal,
): Promise<number> {
  const { db, tables, clock } = framework
  const logger = boundLogger(integrationLogger(framework, integration), { sync_log: syncLogId })
  const { examples: _examples, ...found } = await countMissing(framework, listings, signal)
  if (!isConfirmed && found.missing > found.mapped * MAX_SHARE) {
    logger.warn(
      { event: 'sync.missing_withheld', ...found },
      'more than half of the mapped ids are missing from two full listings; the provider is not told, since a wrong listing is likelier',
    )
    await mergeLogMetadata(db, tables, syncLogId, { missing_withheld: found })
    return 0
  }
  let told = 0
  let waiting: string[] = []
  let isWhole = true
  const tell = async () => {
    // Rows only go: if all are there now, they were there when the pages were read.
    isWhole = await areWhole(framework, listings, listed)
    for (let from = 0; isWhole && from < waiting.length; from += CHUNK) {
      signal.throwIfAborted()
      const chunk = waiting.slice(from, from + CHUNK)
      await untilAborted(provider.handleMissing(integration, chunk), enough)
      await noteDeleted(db, tables, listings, chunk)
      told += chunk.length
    }
    waiting = []
  }
  if (found.missing > 0)
    for await (const { missing } of mappedPages(framework, listings, signal)) {
      waiting.push(...missing)
      if (waiting.length >= TOLD_AFTER_A_LOOK) await tell()
      if (!isWhole) break
    }
  if (waiting.length > 0) await tell()
  if (!isWhole) {
    warnOfPruned(framework, integration, listings.syncLogIds)
    await mergeLogMetadata(db, tables, syncLogId, { missing_withheld: found, missing: told })
    return told
  }
  await mergeLogMetadata(db, tables, syncLogId, { missing_handled_at: clock.now().toISOString(), missing: told })
  logger.info(
    { event: 'sync.missing_handled', missing: told },
    'the provider was told what two full listings did not name',
  )
  return told
}

export interface ConfirmMissing {
  /** Only says what would be told. Default false. */
  readonly dryRun?: boolean
}

/** What was withheld after a full listing. Ids that some run has named since are not among them. */
export interface ConfirmedMissing {
  readonly integrationId: number
  readonly missing: number
  readonly mapped: number
  /** The first ones, in order. */
  readonly examples: readonly string[]
  /** Ids that the provider was told now. */
  readonly told: number
}

const MAX_EXAMPLES = 10

/**
 * Tells the provider, in this process, what was withheld after a full listing: a person has confirmed that it is gone.
 *
 * @throws SyncRunNotFound; MissingNotWithheld when nothing was, when it can't be known any more, or when a later full listing says more;
 *   what the provider's `handleMissing()` throws: called again, all ids are told again
 */
export async function confirmMissing(
  framework: Framework,
  syncLogId: number,
  { dryRun = false }: ConfirmMissing = {},
): Promise<ConfirmedMissing> {
  const { db, tables } = framework
  const log = await findLog(db, tables, syncLogId)
  const kind = log === null ? null : fullListingOf(log)
  if (log?.operation !== 'sync') throw new SyncRunNotFound(syncLogId)
  const { missing_withheld: withheld, missing_handled_at: handledAt } = log.metadata as RunMetadata
  if (kind === null || withheld === undefined || handledAt !== undefined)
    throw new MissingNotWithheld(syncLogId, handledAt === undefined ? 'nothing was withheld after it' : 'it was told')
  const later = await newestLog(
    db,
    tables,
    { ...log, operation: 'sync' },
    gt(tables.logs.id, log.id),
    ...isOfKind(tables, kind),
  )
  if (later !== null) throw new MissingNotWithheld(syncLogId, `the full listing of run ${later.id} is newer`)
  const target = await missingItemsOf(framework, { integrationId: log.integrationId, syncLogId })
  if (target === null)
    throw new MissingNotWithheld(
      syncLogId,
      'its listings can not be compared any more, or the integration is switched off',
    )
  const confirmed = { ...target, listings: { ...target.listings, andSince: true }, isConfirmed: true }
  const { signal } = new AbortController()
  const found = await countMissing(framework, confirmed.listings, signal)
  const tell = () => insideSync({ signal }, () => handleMissing(framework, confirmed, signal))
  const told = dryRun ? 0 : await asPartOf(tables, 'run', syncLogId, tell)
  return { integrationId: log.integrationId, ...found, told }
}

async function areWhole(
  { db, tables }: Framework,
  { syncLogIds }: TwoListings,
  listed: readonly [number, number],
): Promise<boolean> {
  for (const [at, id] of syncLogIds.entries())
    if ((await itemsLeft(db, tables, id)).count < (listed[at] ?? 0)) return false
  return true
}

function warnOfPruned(
  framework: Framework,
  integration: Pick<Integration, 'id' | 'provider'>,
  [earlier, later]: readonly [earlier: number, later: number],
): void {
  integrationLogger(framework, integration).warn(
    { event: 'sync.missing_withheld', sync_log: later, earlier_sync_log: earlier },
    'two full listings can not be compared: items of theirs have been pruned',
  )
}

async function countMissing(framework: Framework, listings: TwoListings, signal: AbortSignal) {
  const sum = { missing: 0, mapped: 0, examples: [] as string[] }
  for await (const page of mappedPages(framework, listings, signal)) {
    sum.missing += page.missing.length
    sum.mapped += page.mapped
    sum.examples.push(...page.missing.slice(0, MAX_EXAMPLES - sum.examples.length))
  }
  return sum
}

async function* mappedPages({ db, tables }: Framework, listings: TwoListings, signal: AbortSignal) {
  let after: string | null = null
  do {
    signal.throwIfAborted()
    const page = await mappedPage(db, tables, listings, after, PAGE)
    yield page
    after = page.last
  } while (after !== null)
}

function fullListingOf({ metadata }: LogRow): { internalType: string | null } | null {
  const kind = (metadata as RunMetadata).full_listing as { internal_type?: Json } | null | undefined
  if (kind === null || typeof kind !== 'object') return null
  return { internalType: typeof kind.internal_type === 'string' ? kind.internal_type : null }
}

/** Items that were stored for a listing. */
function listedBy({ metadata }: LogRow): number {
  const { listed, unchanged } = metadata as RunMetadata
  return pendingOf({ listed: Number(listed ?? 0), unchanged: Number(unchanged ?? 0) })
}

/** The last run before this one that listed everything of the same kind, whatever became of it. */
function fullListingBefore(
  db: Database,
  tables: Tables,
  { id, integrationId, stream }: LogRow,
  internalType: string | null,
): Promise<LogRow | null> {
  const { logs } = tables
  return newestLog(
    db,
    tables,
    { integrationId, stream, operation: 'sync' },
    lt(logs.id, id),
    ...isOfKind(tables, { internalType }),
  )
}

/** The conditions that a run has listed everything of this kind. */
function isOfKind({ logs }: Tables, { internalType }: { readonly internalType: string | null }): SQL[] {
  return [
    isFullListing(sql`${logs.metadata}`),
    sql`${logs.metadata} #>> '{full_listing,internal_type}' is not distinct from ${internalType}::text`,
  ]
}

/** Rows of a run, and the lowest id among them; null: it has none any more. */
async function itemsLeft(
  db: Database,
  { syncItems }: Tables,
  syncLogId: number,
): Promise<{ count: number; firstId: number | null }> {
  const [row] = await db
    .select({ count: sql<string>`count(*)`, firstId: sql<string | null>`min(${syncItems.id})` })
    .from(syncItems)
    .where(eq(syncItems.syncLogId, syncLogId))
  return { count: Number(row?.count ?? 0), firstId: row?.firstId == null ? null : Number(row.firstId) }
}

interface MappedPage {
  /** In order; what neither listing named. */
  readonly missing: readonly string[]
  readonly mapped: number
  /** Where to go on; null: this was the last page. */
  readonly last: string | null
}

/**
 * One page of an integration's mapped external ids, in order, and which of them are missing. An id that several models are
 * mapped to counts once.
 */
async function mappedPage(
  db: Database,
  tables: Tables,
  listings: TwoListings,
  after: string | null,
  limit: number,
): Promise<MappedPage> {
  const { mappings } = tables
  const { integrationId, internalType, mappedBy } = listings
  const [row] = await db.execute<{ mapped: number; last: string | null; missing: string[] | null }>(sql`
    with page as (
      select m.external_id, min(m.created_at) as created_at
      from ${mappings} m
      where m.integration_id = ${integrationId}
        and (${internalType}::text is null or m.internal_type = ${internalType})
        and (${after}::text is null or m.external_id > ${after})
      group by m.external_id
      order by m.external_id
      limit ${limit}
    ), judged as (
      select page.external_id, page.created_at <= ${mappedBy.toISOString()}::timestamptz
        and ${itemOfEither(tables, listings, sql`page.external_id`)} is null
        and ${unchangedIn(tables, listings, sql`page.external_id`)} is null as is_missing
      from page
    )
    select count(*)::int as mapped, max(external_id) as last,
           jsonb_agg(external_id order by external_id) filter (where is_missing) as missing
    from judged`)
  const { mapped = 0, last = null, missing = null } = row ?? {}
  return { missing: missing ?? [], mapped, last: mapped < limit ? null : last }
}

/**
 * A scalar query with a limit is asked once per row, by the index over the external ids. As `not exists` it would become a
 * join, which reads all items of both runs again for every page.
 */
function itemOfEither({ syncItems }: Tables, listings: TwoListings, externalId: SQL): SQL {
  const [earlier, later] = listings.syncLogIds
  const isNamed = listings.andSince
    ? sql`i.sync_log_id >= ${earlier}`
    : sql`i.id >= ${listings.fromItemId} and i.sync_log_id in (${earlier}, ${later})`
  return sql`(
    select i.id from ${syncItems} i
    where i.integration_id = ${listings.integrationId} and i.external_id = ${externalId} and ${isNamed}
    limit 1)`
}
