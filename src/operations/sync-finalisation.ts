/**
 * Ends a sync run: its status, the cursor, and when the next one is due.
 *
 * Rule: docs/behaviour/syncs.md, "Finalisation" and "The cursor".
 */
import { delayAfter } from '../core/backoff.ts'
import { nextCursor } from '../core/checkpoint.ts'
import type { Json } from '../core/json.ts'
import { errorLine } from '../core/logger.ts'
import type { RunStatus } from '../core/sync-run.ts'
import { effectiveIntervalMinutes, intervalMultiplier, runStatus } from '../core/sync-run.ts'
import type { Transaction } from '../db/client.ts'
import { lockIntegration, recordRunTimes } from '../db/queries/integrations.ts'
import type { RunMetadata } from '../db/queries/logs.ts'
import { cursorWasSetAfter, lockLog, updateLog } from '../db/queries/logs.ts'
import type { ItemCounts } from '../db/queries/sync-items.ts'
import {
  countItems,
  deleteUnstartedItems,
  finishedCheckpoints,
  hasUnresolvedFailure,
  waitingItems,
} from '../db/queries/sync-items.ts'
import type { IntegrationRow, LogRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import type { HasScheduledSync } from '../providers/provider.ts'
import { hasScheduledSync } from '../providers/provider.ts'

const CHECKPOINT_PAGE = 5_000
/** As many rows as a run's list of waiting items holds. */
const MAX_WAITING = 1_000
const MAX_ERROR_LENGTH = 1_000

export type Finalisation =
  | {
      readonly kind: 'finalised'
      readonly status: RunStatus
      readonly succeeded: number
      readonly failed: number
      readonly skipped: number
    }
  | { readonly kind: 'unfinished'; readonly pending: number; readonly waiting: { id: number; seconds: number }[] }
  /** The provider's `reduceCheckpoints()` threw: nothing was changed, it may be tried again. */
  | { readonly kind: 'reducer threw'; readonly reason: string }
  | { readonly kind: 'not this time'; readonly reason: string }

interface RunIds {
  readonly integrationId: number
  readonly syncLogId: number
}

/**
 * One transaction, under the locks of the integration and of the run's log. Once only: the log must still be
 * `processing`, and no item may be unfinished.
 *
 * @returns what became of it, and the cursor after it
 */
export async function finaliseRun(framework: Framework, run: RunIds): Promise<{ result: Finalisation; cursor: Json }> {
  try {
    return await framework.db.transaction((tx) => finalise(framework, tx, run))
  } catch (error) {
    if (!(error instanceof ReducerThrew)) throw error
    return { result: { kind: 'reducer threw', reason: errorLine(error.cause, MAX_ERROR_LENGTH) }, cursor: null }
  }
}

/** The run is given up: what had not started goes, the cursor stays, the next run is planned as after a failure. */
export async function failRun(
  framework: Framework,
  { integrationId, syncLogId }: RunIds,
  reason: string,
): Promise<void> {
  const { db, tables } = framework
  await db.transaction(async (tx) => {
    const row = await lockIntegration(tx, tables, integrationId)
    const log = await lockLog(tx, tables, syncLogId)
    if (row === null || log === null || log.status !== 'processing') return
    await deleteUnstartedItems(tx, tables, syncLogId)
    await updateLog(tx, tables, syncLogId, {
      status: 'failed',
      error: reason.slice(0, MAX_ERROR_LENGTH),
      durationMs: ageOf(framework, log),
    })
    await planNext(framework, tx, row, { clean: false })
  })
}

/** Minutes between runs; null: only by hand. */
export function intervalOf(row: IntegrationRow, provider: HasScheduledSync): number | null {
  return effectiveIntervalMinutes(row.syncIntervalMinutes, provider.defaultSyncInterval?.() ?? null)
}

/** Rolls the transaction back; never leaves this file. */
class ReducerThrew extends Error {}

async function finalise(
  framework: Framework,
  tx: Transaction,
  { integrationId, syncLogId }: RunIds,
): Promise<{ result: Finalisation; cursor: Json }> {
  const { tables } = framework
  const row = await lockIntegration(tx, tables, integrationId)
  const log = await lockLog(tx, tables, syncLogId)
  if (row === null || log === null) return notNow('the run or its integration is gone')
  const metadata = log.metadata as RunMetadata
  if (!metadata.enumerated) return notNow('the listing is not complete')
  const counts = await countItems(tx, tables, syncLogId)
  const before = (row.syncCursor ?? null) as Json
  if (log.status !== 'processing') return { result: finalised(log.status as RunStatus, counts), cursor: before }
  if (counts.pending + counts.processing > 0) {
    const waiting = await waitingItems(tx, tables, syncLogId, MAX_WAITING)
    const again = waiting.map((item) => ({ id: item.id, seconds: remainingWait(framework, item) }))
    return { result: { kind: 'unfinished', pending: counts.pending, waiting: again }, cursor: before }
  }

  const status = runStatus({ succeeded: counts.success, failed: counts.failed, skipped: counts.skipped })
  const advanced = counts.failed === 0 ? await advancedCursor(framework, tx, row, log) : null
  const cursor = advanced === null ? before : advanced.to
  await updateLog(tx, tables, syncLogId, {
    status,
    durationMs: ageOf(framework, log),
    summary: `${counts.success} succeeded, ${counts.failed} failed, ${counts.skipped} skipped`,
    metadata: {
      ...metadata,
      success_count: counts.success,
      failure_count: counts.failed,
      skipped_count: counts.skipped,
      cursor_after: cursor,
    },
  })
  await planNext(framework, tx, row, { clean: counts.failed === 0, ...(advanced === null ? {} : { cursor }) })
  return { result: finalised(status, counts), cursor }
}

/** The cursor after this clean run; null when it stays. An unresolved failure of an earlier run holds it too. */
async function advancedCursor(
  { providers, tables }: Framework,
  tx: Transaction,
  row: IntegrationRow,
  log: LogRow,
): Promise<{ to: Json } | null> {
  const provider = providers.get(row.provider) as HasScheduledSync
  const reduce = (checkpoints: readonly Json[]): Json => {
    try {
      return provider.reduceCheckpoints(checkpoints)
    } catch (cause) {
      throw new ReducerThrew('reduceCheckpoints() threw', { cause })
    }
  }
  if (await hasUnresolvedFailure(tx, tables, row.id, log.id)) return null
  if (await cursorWasSetAfter(tx, tables, row.id, log.id)) return null
  let reduced: Json = null
  for await (const page of finishedCheckpoints(tx, tables, log.id, CHECKPOINT_PAGE))
    reduced = reduce(reduced === null ? page : [reduced, ...page])
  const step = nextCursor((row.syncCursor ?? null) as Json, [reduced], reduce)
  return step.kind === 'advance' ? { to: step.to } : null
}

async function planNext(
  { config, providers, tables }: Framework,
  tx: Transaction,
  row: IntegrationRow,
  run: { clean: boolean; cursor?: Json },
): Promise<void> {
  const provider = providers.find(row.provider)
  const interval = provider !== null && hasScheduledSync(provider) ? intervalOf(row, provider) : row.syncIntervalMinutes
  const consecutiveFailures = run.clean ? 0 : row.consecutiveSyncFailures + 1
  const multiplier = intervalMultiplier(consecutiveFailures, config.sync.failure_backoff_max_multiplier)
  await recordRunTimes(tx, tables, row.id, {
    ...run,
    consecutiveFailures,
    intervalMinutes: interval === null ? null : interval * multiplier,
  })
}

function remainingWait({ clock, config }: Framework, item: { attempts: number; updatedAt: Date }): number {
  const waited = (clock.now().getTime() - item.updatedAt.getTime()) / 1_000
  return Math.max(0, Math.ceil(delayAfter(Math.max(item.attempts, 1), config.sync.item_backoff) - waited))
}

function ageOf({ clock }: Framework, log: LogRow): number {
  return Math.max(0, clock.now().getTime() - log.createdAt.getTime())
}

function finalised(status: RunStatus, counts: ItemCounts): Extract<Finalisation, { kind: 'finalised' }> {
  return { kind: 'finalised', status, succeeded: counts.success, failed: counts.failed, skipped: counts.skipped }
}

function notNow(reason: string): { result: Finalisation; cursor: Json } {
  return { result: { kind: 'not this time', reason }, cursor: null }
}
