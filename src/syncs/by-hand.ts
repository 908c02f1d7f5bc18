/** Syncs by hand: run, hold, end, set the cursor, finalise late. Rules: docs/behaviour/sync-scheduling.md and docs/behaviour/sync-cursor.md, "By hand". */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { CheckpointsNotReduced, IntegrationBusy, SyncRunNotFound } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { requireActive } from '../integrations/enabled.ts'
import { requireIntegration } from '../integrations/queries.ts'
import { findLog, runsToAdvance } from '../observability/log-queries.ts'
import { hasScheduledSync, requireContract } from '../providers/contracts.ts'
import { announceRun } from './announcement.ts'
import type { StartSync, SyncStart } from './ask-rules.ts'
import { waitOf } from './ask-rules.ts'
import type { CursorChange } from './cursor.ts'
import { changeCursor, checkedCursor, cursorOf } from './cursor.ts'
import { endLivingRun } from './cut-short.ts'
import { finaliseRun } from './finalisation.ts'
import { reclaimAbandonedItems } from './leftovers.ts'
import { forgetStarts, rememberLater, rememberStart } from './remembered-starts.ts'
import type { AdvanceCursorInput, AdvanceCursorResult, SyncProgress } from './sync-jobs.ts'

const DEFAULT_RUNS = 100

/**
 * Starts a run, due or not. While one lives it is remembered that another one follows; one that has just noted its end may
 * still be telling its listeners, and lives until then.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, IntegrationInactive, InvalidArgumentException;
 *   BackendUnreachable: nothing is remembered
 */
export async function startSyncNow(framework: Framework, id: number, ask: StartSync = {}): Promise<SyncStart> {
  const { db, tables, clock, workflows } = framework
  const wait = waitOf(ask, clock.now())
  const row = await requireIntegration(framework, id)
  requireActive(row)
  requireContract(row.provider, framework.providers.get(row.provider), hasScheduledSync, 'HasScheduledSync')
  if (wait !== null) return { kind: 'later', at: await rememberLater(db, tables, id, wait) }
  const run = await workflows.startSync(id, row.provider)
  if (run !== 'already running') return { kind: 'started', ...run }
  await rememberStart(db, tables, id)
  return { kind: 'remembered' }
}

/**
 * Takes nothing new in; what runs goes on. Without a run it keeps one from starting.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, BackendUnreachable
 */
export async function pauseSync(framework: Framework, id: number): Promise<void> {
  const row = await requireIntegration(framework, id)
  requireContract(row.provider, framework.providers.get(row.provider), hasScheduledSync, 'HasScheduledSync')
  await framework.workflows.pauseSync(id, row.provider)
}

/** Ends a pause. @throws IntegrationNotFound, BackendUnreachable */
export async function resumeSync(framework: Framework, id: number): Promise<'resumed' | 'not running'> {
  await requireIntegration(framework, id)
  return (await framework.workflows.resumeSync(id)) ? 'resumed' : 'not running'
}

/**
 * Ends the run and waits until it is over. A remembered start follows it all the same.
 *
 * @param forget remembered and waiting starts are forgotten first
 * @throws IntegrationNotFound, BackendUnreachable
 */
export async function cancelSyncNow(
  framework: Framework,
  id: number,
  { forget = false }: { readonly forget?: boolean } = {},
): Promise<'cancelled' | 'not running'> {
  await requireIntegration(framework, id)
  if (forget) await forgetStarts(framework.db, framework.tables, id)
  if (!(await framework.workflows.isSyncRunning(id))) return 'not running'
  await endLivingRun(framework, id)
  return 'cancelled'
}

/** How far the run is; null: none lives. @throws IntegrationNotFound, BackendUnreachable, also when no worker answers */
export async function progressOfSync(framework: Framework, id: number): Promise<SyncProgress | null> {
  await requireIntegration(framework, id)
  return framework.workflows.syncProgress(id)
}

/**
 * Sets the cursor; null: the next run lists everything. A run that began before never touches it again.
 *
 * @param force ends a living run first
 * @throws IntegrationNotFound, InvalidArgumentException; IntegrationBusy while a run lives, unless forced
 */
export async function setSyncCursor(
  framework: Framework,
  id: number,
  cursor: Json,
  { force = false }: { readonly force?: boolean } = {},
): Promise<CursorChange> {
  // Judged first: a living run is not ended for what can't be stored.
  checkedCursor(cursor)
  await requireIntegration(framework, id)
  if (await framework.workflows.isSyncRunning(id)) {
    if (!force) throw new IntegrationBusy(id)
    await endLivingRun(framework, id)
  }
  return changeCursor(framework, id, cursor, 'operator')
}

/**
 * Finalises runs whose items have all ended, and moves the cursor where a retry or a skip came late. Oldest first; each is
 * announced, if it was not.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, CheckpointsNotReduced
 */
export async function advanceCursor(
  framework: Framework,
  { integrationId, reclaimStale = false, limit = DEFAULT_RUNS }: AdvanceCursorInput,
): Promise<AdvanceCursorResult> {
  const { db, tables, providers } = framework
  const row = await requireIntegration(framework, integrationId)
  requireContract(row.provider, providers.get(row.provider), hasScheduledSync, 'HasScheduledSync')
  const reclaimed = reclaimStale ? (await reclaimAbandonedItems(framework, integrationId, null)).items : 0
  const oldestFirst = (await runsToAdvance(db, tables, integrationId, limit)).reverse()
  return { ...(await finaliseEach(framework, row, oldestFirst)), reclaimed }
}

/** Finalises one run. @throws SyncRunNotFound, CheckpointsNotReduced */
export async function finaliseOneRun(framework: Framework, syncLogId: number): Promise<AdvanceCursorResult> {
  const log = await findLog(framework.db, framework.tables, syncLogId)
  if (log === null || !['sync', 'backfill'].includes(log.operation)) throw new SyncRunNotFound(syncLogId)
  const row = await requireIntegration(framework, log.integrationId)
  return { ...(await finaliseEach(framework, row, [syncLogId])), reclaimed: 0 }
}

/** @param row as it was before */
async function finaliseEach(
  framework: Framework,
  row: IntegrationRow,
  syncLogIds: readonly number[],
): Promise<Omit<AdvanceCursorResult, 'reclaimed'>> {
  let runs = 0
  for (const syncLogId of syncLogIds) {
    const run = { integrationId: row.id, syncLogId }
    const { result, isFinalisedNow } = await finaliseRun(framework, run)
    if (result.kind === 'reducer threw') throw new CheckpointsNotReduced(syncLogId, result.reason)
    if (isFinalisedNow) runs += 1
    // Also one that was finalised by a process that died before it told its listeners.
    if (result.kind === 'finalised') await announceRun(framework, run)
  }
  return { runs, from: cursorOf(row), to: cursorOf(await requireIntegration(framework, row.id)) }
}
