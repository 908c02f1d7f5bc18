/**
 * Ends a sync run: its status, the cursor, and when the next one is due.
 *
 * Rule: docs/behaviour/sync-cursor.md, "Finalisation" and "The cursor".
 */
import { sha256Hex } from '../access/rules.ts'
import type { Transaction } from '../db/client.ts'
import type { LogRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { lockIntegration } from '../integrations/queries.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { endRunLog, mergeLogMetadata } from '../observability/log-queries.ts'
import { syncSource } from '../providers/streams.ts'
import { announceOnce, recordRunEnd } from './announcement.ts'
import { cursorNotAfter, hasInstant, nextCursor } from './checkpoint-rules.ts'
import { checkedCursor, cursorOf } from './cursor.ts'
import type { ItemCounts, StuckItem } from './end-queries.ts'
import { finishedCheckpoints, isCursorHeld, lockRun, stuckItems, waitingItems } from './end-queries.ts'
import { noteFullEnd } from './listing/full-listings.ts'
import { planNext } from './plan-next.ts'
import type { RunIds, RunStatus } from './run-rules.ts'
import { runStatus } from './run-rules.ts'
import type { FinalisedRun } from './sync-jobs.ts'
import type { SyncRow } from './sync-rows.ts'
import { ofLocked, updateCursor } from './sync-rows.ts'

const CHECKPOINT_PAGE = 5_000
/** Most stuck items that one run notes and tells. More of them say nothing new. */
const MAX_STUCK = 1_000
const MAX_ERROR_LENGTH = 1_000

export type Finalisation =
  /** `fullListing`: it is clean, and its listing named everything that the provider has. */
  | (FinalisedRun & { readonly fullListing: boolean })
  | { readonly kind: 'unfinished'; readonly pending: number; readonly waiting: { id: number; seconds: number }[] }
  /** The provider's `reduceCheckpoints()` threw. Nothing was changed; the call may be repeated. */
  | { readonly kind: 'reducer threw'; readonly reason: string }
  | { readonly kind: 'not this time'; readonly reason: string }

interface RunEnd {
  readonly result: Finalisation
  /** After the run. Null also when nothing was read. */
  readonly cursor: Json
  /** By this very call, which has the run announced. */
  readonly isFinalisedNow: boolean
  /** The run had nothing to announce, and its log says so. */
  readonly isAnnounced: boolean
  readonly cursorMoved: boolean
}

interface Finalising {
  /** Notes that the run is announced where there is nothing to tell, or no listener. Default false. */
  readonly announces?: boolean
}

/** A run under the locks of its integration and its log. */
interface LockedRun {
  readonly framework: Framework
  readonly tx: Transaction
  readonly row: SyncRow
  readonly log: LogRow
  readonly counts: ItemCounts
}

/**
 * Finalises a run for its workflow, with the log line of its end. A second call finds it finalised.
 *
 * @param announces announces it, too
 * @throws when another process announces it at this moment
 */
export async function endRun(
  framework: Framework,
  run: RunIds,
  { announces = false }: Finalising = {},
): Promise<Finalisation> {
  const { row, result, cursor, isFinalisedNow, isAnnounced } = await finaliseRun(framework, run, { announces })
  if (result.kind !== 'finalised') return result
  const { status, succeeded, failed, skipped, unchanged } = result
  if (isFinalisedNow && row !== null)
    integrationLogger(framework, row).info(
      {
        event: 'sync.finished',
        sync_log: run.syncLogId,
        status,
        succeeded,
        failed,
        skipped,
        ...(unchanged === undefined ? {} : { unchanged }),
        cursor,
      },
      'sync run finished',
    )
  if (announces && !isAnnounced) await announceOnce(framework, run)
  return result
}

/**
 * One transaction, under the locks of the integration and of the run's log. Once only: the log must still be
 * `processing`, and every item must have ended. If the run is finalised already, only its cursor may still move: a failed
 * item has succeeded or was skipped since.
 */
export async function finaliseRun(
  framework: Framework,
  run: RunIds,
  { announces = false }: Finalising = {},
): Promise<RunEnd & { readonly row: SyncRow | null }> {
  const { db, tables, metrics } = framework
  try {
    const end = await db.transaction(async (tx) => {
      const integration = await lockIntegration(tx, tables, run.integrationId)
      const locked = await lockRun(tx, tables, run.syncLogId)
      if (integration === null || locked?.log.integrationId !== integration.id)
        return { row: null, ...unchanged({ kind: 'not this time', reason: 'the run or its integration is gone' }) }
      const row = await ofLocked(tx, tables, integration, locked.log.stream)
      return { row, ...(await finalise({ framework, tx, row, ...locked }, announces)) }
    })
    if (end.row !== null && end.isFinalisedNow && end.result.kind === 'finalised')
      metrics.syncRunEnded(end.row, end.result.status)
    return end
  } catch (error) {
    if (!(error instanceof ReducerThrew)) throw error
    return { row: null, ...unchanged({ kind: 'reducer threw', reason: errorLine(error.cause, MAX_ERROR_LENGTH) }) }
  }
}

/** Rolls the transaction back; never leaves this file. */
class ReducerThrew extends Error {}

async function finalise(run: LockedRun, announces: boolean): Promise<RunEnd> {
  const { framework, tx, row, log, counts } = run
  if (log.status === 'cancelled') return unchanged({ kind: 'not this time', reason: 'the run was cancelled' })
  // Null: an erasure by an earlier release blanked the notes of a backfill.
  if ((log.metadata as RunMetadata | null)?.enumerated !== true)
    return unchanged({ kind: 'not this time', reason: 'the listing is not complete' })
  if (log.status !== 'processing') return finaliseLate(run)
  if (counts.pending + counts.processing > 0) {
    const waiting = await waitingItems(tx, framework.tables, log.id, framework.config.sync.item_backoff)
    return unchanged({ kind: 'unfinished', pending: counts.pending, waiting }, cursorOf(row))
  }
  return finaliseOpen(run, announces)
}

/** All its items have ended, and it is not finalised yet. */
async function finaliseOpen(run: LockedRun, announces: boolean): Promise<RunEnd> {
  const { framework, tx, row, log, counts } = run
  const { config, tables, listeners, clock } = framework
  const { success: succeeded, failed, skipped } = counts
  const unchanged = unchangedIn(log)
  const status = runStatus({ succeeded: succeeded + unchanged, failed, skipped })
  const isClean = failed === 0
  // A backfill covers what lies behind the cursor: neither the cursor nor the plan of the ordinary runs is its own.
  const isOrdinary = log.operation === 'sync'
  const advanced = isOrdinary ? await advancedCursor(run) : null
  const cursor = advanced === null ? cursorOf(row) : advanced.to
  const { stuck_item_after_runs: threshold } = config.sync
  const stuck = isOrdinary && !isClean ? await stuckItems(tx, tables, log, threshold) : []
  const toldStuck = stuckToTell(stuck, log.id)
  const stalenessRecovered = isOrdinary && isClean && row.syncStaleAlertedAt !== null
  const isAnnounced =
    announces && isOrdinary && stuck.length === 0 && !stalenessRecovered && !listeners.has('SyncCompleted')
  const metadata: Record<string, Json> = {
    success_count: succeeded,
    failure_count: failed,
    skipped_count: skipped,
    ...(unchanged === 0 ? {} : { unchanged }),
    ...(isOrdinary ? { cursor_after: cursor } : {}),
    ...(stuck.length === 0 ? {} : { stuck: toldStuck.map(({ itemId, runs }) => ({ item_id: itemId, runs })) }),
    ...(stuck.length > toldStuck.length ? { stuck_untold: stuck.length - toldStuck.length } : {}),
    ...(stalenessRecovered ? { staleness_recovered: true } : {}),
    ...(isAnnounced ? { announced_at: clock.now().toISOString() } : {}),
  }
  const summary = `${succeeded} succeeded, ${failed} failed, ${skipped} skipped${unchanged === 0 ? '' : `, ${unchanged} unchanged`}`
  await endRunLog(tx, tables, log.id, { status, summary, metadata })
  if (isOrdinary) {
    await planNext(framework, tx, row, isClean ? 'clean' : 'with failures', { log, cursor: advanced?.to })
    if (isClean && (log.metadata as RunMetadata).full === true) await noteFullEnd(tx, tables, log)
    await recordRunEnd(framework, tx, row, { syncLogId: log.id, status, metadata, stuck: toldStuck })
  }
  const result = finalised(status, log, counts)
  return { result, cursor, isFinalisedNow: true, isAnnounced, cursorMoved: advanced !== null }
}

/**
 * Beyond the limit it leaves out the items that were told the most often. Of items that became stuck together each run tells
 * another part: a digest that differs from run to run orders them.
 */
function stuckToTell(stuck: readonly StuckItem[], syncLogId: number): StuckItem[] {
  const turn = new Map(stuck.map(({ itemId }) => [itemId, sha256Hex(`${syncLogId}:${itemId}`)]))
  const turnOf = ({ itemId }: StuckItem): string => turn.get(itemId) ?? ''
  return [...stuck]
    .sort((a, b) => a.runs - b.runs || (turnOf(a) < turnOf(b) ? -1 : 1))
    .slice(0, MAX_STUCK)
    .sort((a, b) => a.itemId - b.itemId)
}

/** Status, counts, times and events stay as they were at its end; only the cursor may move. */
async function finaliseLate(run: LockedRun): Promise<RunEnd> {
  const { framework, tx, row, log, counts } = run
  const result = finalised(log.status as RunStatus, log, counts)
  const isDone = counts.pending + counts.processing === 0 && log.operation === 'sync'
  const advanced = isDone ? await advancedCursor(run) : null
  if (advanced === null) return unchanged(result, cursorOf(row))
  await updateCursor(tx, framework.tables, row, advanced.to)
  await mergeLogMetadata(tx, framework.tables, log.id, { cursor_after: advanced.to })
  return { result, cursor: advanced.to, isFinalisedNow: false, isAnnounced: false, cursorMoved: true }
}

/** The cursor after this run; null: it stays. */
async function advancedCursor({ framework, tx, row, log, counts }: LockedRun): Promise<{ to: Json } | null> {
  const { providers, tables } = framework
  if (counts.failed > 0 || counts.success + counts.skipped + unchangedIn(log) === 0) return null
  if (await isCursorHeld(tx, tables, log)) return null
  const registered = providers.find(row.provider)
  const provider = registered === null ? null : syncSource(registered, row.stream)
  // A provider or stream that this release does not have: its cursor stays for one that does.
  if (provider === null) return null
  const reduce = (checkpoints: readonly Json[]): Json => {
    try {
      return checkedCursor(provider.reduceCheckpoints(checkpoints))
    } catch (cause) {
      throw new ReducerThrew('reduceCheckpoints() threw', { cause })
    }
  }
  const metadata = log.metadata as RunMetadata
  // The checkpoints of unchanged records count, too.
  let reduced: Json = metadata.unchanged_checkpoint ?? null
  const pages = { pageSize: CHECKPOINT_PAGE, finishedItems: counts.success + counts.skipped }
  for await (const page of finishedCheckpoints(tx, tables, log.id, pages))
    reduced = reduce(reduced === null ? page : [reduced, ...page])
  const { listing_began_at: beganAt } = metadata
  const isBounded = provider.listsByCheckpoint !== true && typeof beganAt === 'string'
  const candidate = isBounded ? cursorNotAfter(reduced, new Date(beganAt)) : reduced
  const step = nextCursor(cursorOf(row), [candidate], reduce)
  if (step.kind === 'keep') return null
  if (isBounded && !hasInstant(candidate))
    integrationLogger(framework, row).warn(
      { event: 'sync.cursor_without_time', sync_log: log.id },
      'the cursor holds no ISO 8601 time with a zone, so it may pass what changed while it was listed: the provider declares listsByCheckpoint, or gives times',
    )
  return { to: step.to }
}

function unchangedIn({ metadata }: LogRow): number {
  return Number((metadata as RunMetadata).unchanged ?? 0)
}

function finalised(status: RunStatus, log: LogRow, counts: ItemCounts): Extract<Finalisation, { kind: 'finalised' }> {
  const fullListing = (log.metadata as RunMetadata).full_listing ?? null
  const unchanged = unchangedIn(log)
  return {
    kind: 'finalised',
    status,
    succeeded: counts.success,
    failed: counts.failed,
    skipped: counts.skipped,
    ...(unchanged === 0 ? {} : { unchanged }),
    fullListing: log.operation === 'sync' && status === 'success' && fullListing !== null,
  }
}

function unchanged(result: Finalisation, cursor: Json = null): RunEnd {
  return { result, cursor, isFinalisedNow: false, isAnnounced: false, cursorMoved: false }
}
