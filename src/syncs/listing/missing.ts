/** What is gone at the provider, as two full listings in a row tell. Rule: docs/behaviour/sync-backfills.md, "Deletions". */

import type { LogRow } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import type { Json } from '../../framework/json.ts'
import { boundLogger, integrationLogger } from '../../framework/logger.ts'
import { untilAborted } from '../../framework/waiting.ts'
import { integrationHandle } from '../../integrations/handle.ts'
import { findIntegration } from '../../integrations/queries.ts'
import type { RunMetadata } from '../../observability/log-queries.ts'
import { findLog, mergeLogMetadata } from '../../observability/log-queries.ts'
import type { HandlesMissing } from '../../providers/contracts.ts'
import { handlesMissing } from '../../providers/contracts.ts'
import type { Integration } from '../../providers/integration.ts'
import type { RunIds } from '../run-rules.ts'
import type { TwoListings } from './missing-queries.ts'
import { fullListingBefore, itemsLeft, mappedPage } from './missing-queries.ts'

/** Ids in one call of the provider. */
const CHUNK = 500
/** Mapped ids compared by one statement: memory stays flat, however many there are. */
const PAGE = 5_000
/** Beyond this share it is more likely that the listing was wrong than that so much is gone. */
const MAX_SHARE = 0.5

export interface MissingItems {
  readonly integration: Integration
  readonly provider: HandlesMissing
  readonly syncLogId: number
  readonly listings: TwoListings
  /** How many items each of the two listed. Pruning may take some at any moment. */
  readonly listed: readonly [number, number]
}

/** The two listings that may be compared. Null: there are none, or the provider is not to be told. */
export async function missingItemsOf(
  framework: Framework,
  { integrationId, syncLogId }: RunIds,
): Promise<MissingItems | null> {
  const { db, tables } = framework
  const [log, row] = await Promise.all([findLog(db, tables, syncLogId), findIntegration(db, tables, integrationId)])
  if (log === null || row === null || !row.isActive) return null
  const provider = framework.providers.find(row.provider)
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
      internalType: kind.internalType,
      syncLogIds: [before.id, log.id],
      mappedBy: before.createdAt,
      fromItemId: Math.min(...firstIds, Number.MAX_SAFE_INTEGER),
    },
  }
}

/**
 * Tells the provider the missing ids, 500 at a time, and notes it in the run's log. It tells none when more than half of all
 * mapped ids are missing.
 *
 * @param signal aborted when the worker stops or the run is cancelled: no further call begins
 * @param enough aborted when the provider's running call is given up; default: at once
 * @returns the number of ids that were told
 * @throws a signal's reason: nothing is noted then, and all ids are told again
 */
export async function handleMissing(
  framework: Framework,
  { integration, provider, syncLogId, listings, listed }: MissingItems,
  signal: AbortSignal,
  enough = signal,
): Promise<number> {
  const { db, tables, clock } = framework
  const logger = boundLogger(integrationLogger(framework, integration), { sync_log: syncLogId })
  const found = await countMissing(framework, listings, signal)
  if (found.missing > found.mapped * MAX_SHARE) {
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
  const tell = async (atLeast: number) => {
    while (isWhole && waiting.length >= atLeast) {
      signal.throwIfAborted()
      // Rows only go: if all are there now, they were there when the page was read.
      isWhole = await areWhole(framework, listings, listed)
      if (!isWhole) return
      const chunk = waiting.slice(0, CHUNK)
      await untilAborted(provider.handleMissing(integration, chunk), enough)
      waiting = waiting.slice(chunk.length)
      told += chunk.length
    }
  }
  if (found.missing > 0)
    for await (const { missing } of mappedPages(framework, listings, signal)) {
      waiting.push(...missing)
      await tell(CHUNK)
      if (!isWhole) break
    }
  await tell(1)
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
  const sum = { missing: 0, mapped: 0 }
  for await (const page of mappedPages(framework, listings, signal)) {
    sum.missing += page.missing.length
    sum.mapped += page.mapped
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

function listedBy({ metadata }: LogRow): number {
  return Number((metadata as RunMetadata).listed ?? 0)
}
