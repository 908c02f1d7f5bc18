/**
 * Opens a run, once what an earlier one left behind is settled.
 *
 * Rule: docs/behaviour/sync-listing.md, "Opening a run".
 */

import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import { switchedOffBy } from '../integrations/rules.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { HasScheduledSync } from '../providers/contracts.ts'
import { hasIncrementalSync } from '../providers/contracts.ts'
import { declaredStream, syncSource } from '../providers/streams.ts'
import { cursorOf } from './cursor.ts'
import { failRun } from './cut-short.ts'
import { finaliseRun } from './finalisation.ts'
import { itemsHeldByOwnWorkflow, reclaimAbandonedItems } from './leftovers.ts'
import { beginFullIfDue } from './listing/full-listings.ts'
import type { BegunListing } from './listing/listing-queries.ts'
import { insertListingLog } from './listing/listing-queries.ts'
import type { Opening, RecentRun } from './opening-queries.ts'
import { noteOpenRun, readOpening, recentRuns, secondsSinceLastClaim } from './opening-queries.ts'
import { rememberStart, takeStarts } from './remembered-starts.ts'
import type { SyncOf } from './sync-jobs.ts'
import type { SyncRow } from './sync-rows.ts'
import { lockSyncRow } from './sync-rows.ts'

/** A batch of a dead workflow learns within this time that its result is not awaited any more. */
const ADOPTION_WAIT_SECONDS = 60
/** For reclaiming: the run that asks lives, and has no log yet. */
const NO_LOG_YET = 0

export type RunStart =
  | {
      readonly kind: 'open'
      readonly syncLogId: number
      /** Absent: the listing has not begun. */
      readonly listing?: BegunListing & { readonly row: SyncRow }
    }
  /** The run of a dead workflow, with a complete listing: it is resumed after `waitSeconds`. */
  | { readonly kind: 'adopted'; readonly syncLogId: number; readonly waitSeconds: number }
  | { readonly kind: 'reclaimed'; readonly syncLogIds: readonly number[] }
  | { readonly kind: 'nothing to do'; readonly reason: string }

interface StartInput {
  /** Of the workflow that asks. */
  readonly runId: string
  /** Leftovers are settled either way; a new run is opened only when it is due. */
  readonly onlyIfDue?: boolean
  /** The same for a remembered start: a new run is opened only if it is still remembered. */
  readonly onlyIfAsked?: boolean
  /** Begins the listing of a run that is opened now. */
  readonly lists?: boolean
}

/** A second call for the same workflow gives the same answer. */
export async function startRun(framework: Framework, of: SyncOf, input: StartInput): Promise<RunStart> {
  const { db, tables, providers } = framework
  const { runId } = input
  const opening = await readOpening(db, tables, of)
  if (opening === null) return nothingToDo(`there is no integration ${of.integrationId}`)
  const { row, runs, isInWork } = opening
  const offBy = switchedOffBy(row)
  if (offBy !== null)
    return nothingToDo(`the integration is switched off${offBy === 'its health' ? ': its health is disabled' : ''}`)
  const provider = providers.find(row.provider)
  if (provider === null) return nothingToDo(`the provider "${row.provider}" is not registered`)
  const source = syncSource(provider, row.stream)
  if (source === null)
    return nothingToDo(
      `the provider "${row.provider}" has no ${row.stream === null ? 'sync()' : `stream "${row.stream}"`}`,
    )

  const found = await foundBefore(framework, runs, runId)
  if (found?.kind === 'open') return found
  const reclaimed = found === null && isInWork ? await reclaim(framework, row, runId) : []
  const left =
    found ??
    (reclaimed.length > 0
      ? ({ kind: 'reclaimed', syncLogIds: reclaimed } as const)
      : await settleLeftovers(framework, opening, runId))
  if (left !== null && left.kind !== 'failed') {
    // No listing begins now, so what this start asks for is still to be done. A remembered ask is still a row, or is forgotten.
    if (input.onlyIfDue !== true && input.onlyIfAsked !== true) await rememberStart(framework.db, framework.tables, of)
    return left
  }
  // The plan that a failed run leaves is not meant for the run that takes its place.
  const onlyIfDue = input.onlyIfDue === true && !(left?.kind === 'failed' && opening.isDue)
  return open(framework, row, source, { ...input, onlyIfDue }, input.onlyIfDue === true)
}

/** The run that a workflow has opened, or has taken over; null: it has none. */
export async function openedBy({ db, tables }: Framework, of: SyncOf, runId: string): Promise<number | null> {
  const runs = await recentRuns(db, tables, of)
  return runs.find((run) => run.runId === runId || run.adoptedBy === runId)?.syncLogId ?? null
}

/** The result of an earlier try for the same workflow. */
async function foundBefore(framework: Framework, runs: readonly RecentRun[], runId: string): Promise<RunStart | null> {
  const own = runs.find((run) => run.runId === runId)
  if (own !== undefined) return { kind: 'open', syncLogId: own.syncLogId }
  const taken = runs.find((run) => run.isOpen && run.adoptedBy === runId)
  if (taken !== undefined) return adopted(framework, taken)
  const reclaimed = runs.filter((run) => run.reclaimedBy === runId)
  return reclaimed.length === 0 ? null : { kind: 'reclaimed', syncLogIds: reclaimed.map(({ syncLogId }) => syncLogId) }
}

/** Fails items that were in flight for too long, and ends their runs. @returns those runs */
async function reclaim(framework: Framework, row: SyncRow, runId: string): Promise<readonly number[]> {
  const { syncLogIds } = await reclaimAbandonedItems(framework, ofRow(row), NO_LOG_YET)
  for (const syncLogId of syncLogIds) {
    // Noted first: a second try of the opening still knows which runs to announce.
    await noteOpenRun(framework.db, framework.tables, syncLogId, { reclaimed_by: runId })
    const { result } = await finaliseRun(framework, { integrationId: row.id, syncLogId })
    integrationLogger(framework, row).warn(
      { event: 'sync.reclaimed', sync_log: syncLogId, outcome: result.kind },
      'abandoned items of a sync run were failed',
    )
  }
  return syncLogIds
}

/**
 * Ends or adopts runs whose workflow is gone: a workflow's id is its lock, so every open run belongs to a dead one.
 *
 * @returns null: there is none; `failed`: the way is free now
 */
async function settleLeftovers(
  framework: Framework,
  { row, runs, isInWork }: Opening,
  runId: string,
): Promise<RunStart | { readonly kind: 'failed' } | null> {
  const { db, tables } = framework
  const { id: integrationId } = row
  const retried = isInWork ? await itemsHeldByOwnWorkflow(framework, ofRow(row)) : []
  if (retried.length > 0)
    return nothingToDo(`failed items are being retried by hand: ${retried.slice(0, 10).join(', ')}`)
  const logger = integrationLogger(framework, row)
  const left = runs.filter((run) => run.isOpen).reverse()
  let isFreed = false
  for (const { syncLogId } of left.filter(({ isEnumerated }) => !isEnumerated)) {
    const reason = 'the workflow of the run ended before its listing was complete'
    if (!(await failRun(framework, { integrationId, syncLogId }, reason))) continue
    isFreed = true
    logger.warn({ event: 'sync.failed', sync_log: syncLogId, error: reason }, 'sync run failed')
  }
  for (const run of left.filter(({ isEnumerated }) => isEnumerated)) {
    if (!(await noteOpenRun(db, tables, run.syncLogId, { adopted_by: runId }))) continue
    logger.warn(
      { event: 'sync.adopted', sync_log: run.syncLogId },
      'the workflow of a sync run is gone; another one resumes its items',
    )
    return adopted(framework, run)
  }
  return isFreed ? { kind: 'failed' } : null
}

async function adopted({ db, tables }: Framework, { syncLogId }: RecentRun): Promise<RunStart> {
  const age = await secondsSinceLastClaim(db, tables, syncLogId)
  const waitSeconds = age === null ? 0 : Math.max(0, Math.ceil(ADOPTION_WAIT_SECONDS - age))
  return { kind: 'adopted', syncLogId, waitSeconds }
}

async function open(
  framework: Framework,
  before: SyncRow,
  source: HasScheduledSync,
  { runId, onlyIfDue, onlyIfAsked, lists = false }: StartInput,
  isDispatched: boolean,
): Promise<RunStart> {
  const { db, tables } = framework
  const of = ofRow(before)
  return db.transaction(async (tx) => {
    // Two tries that overlap open one log.
    const row = await lockSyncRow(tx, tables, of)
    if (row === null) return nothingToDo('the integration is gone')
    const now = await readOpening(tx, tables, of)
    const own = now?.runs.find((run) => run.runId === runId)
    if (own !== undefined) return { kind: 'open', syncLogId: own.syncLogId }
    // Another run may have ended since the dispatch read the due ones: by the id alone a second one would start.
    if (onlyIfDue && now?.isDue === false) return nothingToDo('it is not due any more')
    const isAsked = await takeStarts(tx, tables, of)
    if (onlyIfAsked && !isAsked) return nothingToDo('another run has taken what was asked')
    const fullEvery = declaredStream(framework.providers.get(row.provider), row.stream)?.fullEvery
    const isFull = fullEvery !== undefined && (await beginFullIfDue(tx, tables, of, fullEvery))
    const metadata: RunMetadata = {
      run_id: runId,
      incremental: hasIncrementalSync(source) && !isFull,
      ...(isFull ? { full: true } : {}),
      cursor_before: cursorOf(row),
      enumerated: false,
      // It was due; else a person or the host has asked for it.
      ...(isDispatched ? { dispatched: true } : {}),
    }
    const opened = { operation: 'sync', direction: 'inbound', status: 'processing' } as const
    const values = { ...of, ...opened, metadata }
    const listing = lists ? { row, ...(await insertListingLog(tx, tables, values)) } : null
    const syncLogId = listing?.log.id ?? (await insertLog(tx, tables, values))
    const { incremental, cursor_before: cursor } = metadata
    integrationLogger(framework, row).info(
      { event: 'sync.started', sync_log: syncLogId, incremental, cursor },
      'sync run started',
    )
    return { kind: 'open', syncLogId, ...(listing === null ? {} : { listing }) }
  })
}

const ofRow = ({ id, stream }: SyncRow) => ({ integrationId: id, stream })

export function nothingToDo(reason: string): Extract<RunStart, { kind: 'nothing to do' }> {
  return { kind: 'nothing to do', reason }
}

/** The settings that a run's workflow needs. They travel with the run as data, so that a replay sees what the run saw. */
export interface RunSettings {
  readonly listingTimeoutSeconds: number
  readonly listingTotalSeconds: number
  /** Task queue of the item batches, prefix included. */
  readonly itemTaskQueue: string
  /** Listeners wait for the end of runs, and may take any time. */
  readonly isListenedTo: boolean
}

/** Events that a run's announcement may tell. */
const END_EVENTS = ['SyncStalenessRecovered', 'IncidentClosed', 'SyncItemStuck', 'SyncCompleted'] as const

/** As of now: read when a run opens. */
export function runSettings({ config, listeners }: Framework): RunSettings {
  return {
    listingTimeoutSeconds: config.sync.job_timeout,
    listingTotalSeconds: config.sync.lock_ttl,
    itemTaskQueue: `${config.cache_prefix}-${config.sync.item_queue ?? config.sync.queue}`,
    isListenedTo: END_EVENTS.some((name) => listeners.has(name)),
  }
}
