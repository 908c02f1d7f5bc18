/** Syncs by hand: run, hold, end, set the cursor, finalise late. Rules: docs/behaviour/sync-scheduling.md and docs/behaviour/sync-cursor.md, "By hand". */

import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { CheckpointsNotReduced, IntegrationBusy, IntegrationNotFound, SyncRunNotFound } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { requireActive } from '../integrations/enabled.ts'
import { requireIntegration } from '../integrations/queries.ts'
import { findLog, runsToAdvance } from '../observability/log-queries.ts'
import { canSync, streamMeant, streamsMeant, streamsOf } from '../providers/streams.ts'
import { announceRun } from './announcement.ts'
import type { StartSync, SyncStart, Wait } from './ask-rules.ts'
import { waitOf } from './ask-rules.ts'
import type { CursorChange } from './cursor.ts'
import { changeCursor, checkedCursor, cursorOf } from './cursor.ts'
import { endLivingRun } from './cut-short.ts'
import { finaliseRun } from './finalisation.ts'
import { reclaimAbandonedItems } from './leftovers.ts'
import { forgetStarts, rememberLater, rememberStart } from './remembered-starts.ts'
import type { AdvanceCursorInput, AdvanceCursorResult, SyncOf, SyncProgress } from './sync-jobs.ts'
import { findSyncRow, namedStream } from './sync-rows.ts'

const DEFAULT_RUNS = 100

/**
 * Starts a run, due or not. While one lives it is remembered that another one follows; one that has just noted its end may
 * still be telling its listeners, and lives until then.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, IntegrationInactive, InvalidArgumentException;
 *   BackendUnreachable: nothing is remembered
 */
export async function startSyncNow(
  framework: Framework,
  id: number,
  ask: StartSync & OnEachStream = {},
): Promise<SyncStart> {
  const wait = waitOf(ask, framework.clock.now())
  const row = await requireIntegration(framework, id)
  requireActive(row)
  const [first, ...others] = await inTurn(
    streamsMeant(row.provider, framework.providers.get(row.provider), ask.stream),
    async (stream) => {
      const start = await startStream(framework, row, stream, wait)
      ask.onEach?.(stream)
      return start
    },
  )
  const named = [first, ...others].flatMap((start) => (start?.stream === undefined ? [] : [start]))
  const start = first as SyncStart
  return ask.stream != null || named.length === 0 ? start : { ...start, streams: named }
}

async function startStream(
  { db, tables, workflows }: Framework,
  { id, provider }: IntegrationRow,
  stream: string | null,
  wait: Wait | null,
): Promise<SyncStart> {
  const of = { integrationId: id, stream }
  if (wait !== null) return { kind: 'later', ...namedStream(stream), at: await rememberLater(db, tables, of, wait) }
  const run = await workflows.startSync(id, provider, namedStream(stream))
  if (run !== 'already running') return { kind: 'started', ...namedStream(stream), ...run }
  await rememberStart(db, tables, of)
  return { kind: 'remembered', ...namedStream(stream) }
}

/** Which of its provider's streams is meant. Not given: all of them; where one is asked for, the provider must have one only. */
export interface OfStream {
  readonly stream?: string | undefined
}

/** Of an act on streams, one after the other: broken off, it is done with the first of them. */
export interface OnEachStream {
  /** Takes each that it is done with. Null: the integration's own sync. */
  readonly onEach?: ((stream: string | null) => void) | undefined
}

/**
 * Takes nothing new in; what runs goes on. Without a run it keeps one from starting. A run that is being cancelled takes the pause
 * with it.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, BackendUnreachable; InvalidArgumentException for a
 *   stream that its provider does not have, here and below
 */
export async function pauseSync(
  framework: Framework,
  id: number,
  { stream, onEach }: OfStream & OnEachStream = {},
): Promise<void> {
  const row = await requireIntegration(framework, id)
  await inTurn(streamsMeant(row.provider, framework.providers.get(row.provider), stream), async (one) => {
    await framework.workflows.pauseSync({ integrationId: id, stream: one }, row.provider)
    onEach?.(one)
  })
}

/** Ends a pause. @throws IntegrationNotFound, BackendUnreachable */
export async function resumeSync(
  framework: Framework,
  id: number,
  { stream, onEach }: OfStream & OnEachStream = {},
): Promise<'resumed' | 'not running'> {
  const row = await requireIntegration(framework, id)
  const resumed = await inTurn(await streamsLeft(framework, row, stream), async (one) => {
    const isResumed = await framework.workflows.resumeSync({ integrationId: id, stream: one })
    if (isResumed) onEach?.(one)
    return isResumed
  })
  return resumed.includes(true) ? 'resumed' : 'not running'
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
  { stream, forget = false, onEach }: OfStream & OnEachStream & { readonly forget?: boolean } = {},
): Promise<'cancelled' | 'not running'> {
  const row = await requireIntegration(framework, id)
  const cancelled = await inTurn(await streamsLeft(framework, row, stream), async (one) => {
    const of = { integrationId: id, stream: one }
    if (forget) await forgetStarts(framework.db, framework.tables, of)
    if (!(await framework.workflows.isSyncRunning(of))) return false
    await endLivingRun(framework, of)
    onEach?.(one)
    return true
  })
  return cancelled.includes(true) ? 'cancelled' : 'not running'
}

/** How far the run is; null: none lives. @throws IntegrationNotFound, BackendUnreachable, NoWorkerAnswered */
export async function progressOfSync(
  framework: Framework,
  id: number,
  { stream }: OfStream = {},
): Promise<SyncProgress | null> {
  const row = await requireIntegration(framework, id)
  const of = { integrationId: id, stream: oneStream(framework, row, stream) }
  const progress = await framework.workflows.syncProgress(of)
  // A worker of an earlier release does not say it.
  return progress && { ...progress, unchanged: progress.unchanged ?? 0 }
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
  { stream, force = false }: OfStream & { readonly force?: boolean } = {},
): Promise<CursorChange> {
  // Judged first: a living run is not ended for what can't be stored.
  checkedCursor(cursor)
  const row = await requireIntegration(framework, id)
  const of = { integrationId: id, stream: oneStream(framework, row, stream) }
  if (await framework.workflows.isSyncRunning(of)) {
    if (!force) throw new IntegrationBusy(id)
    await endLivingRun(framework, of)
  }
  return changeCursor(framework, of, cursor, 'operator')
}

/**
 * Finalises runs whose items have all ended, and moves the cursor where a retry or a skip came late. Oldest first; each is
 * announced, if it was not.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, CheckpointsNotReduced
 */
export async function advanceCursor(
  framework: Framework,
  { integrationId, stream, reclaimStale = false, limit = DEFAULT_RUNS }: AdvanceCursorInput,
): Promise<AdvanceCursorResult> {
  const { db, tables } = framework
  const row = await requireIntegration(framework, integrationId)
  const of = { integrationId, stream: streamMeant(row.provider, framework.providers.get(row.provider), stream) }
  const reclaimed = reclaimStale ? (await reclaimAbandonedItems(framework, of, null)).items : 0
  const oldestFirst = (await runsToAdvance(db, tables, of, limit)).reverse()
  return { ...(await finaliseEach(framework, of, oldestFirst)), reclaimed }
}

/** Finalises one run. @throws SyncRunNotFound, CheckpointsNotReduced */
export async function finaliseOneRun(framework: Framework, syncLogId: number): Promise<AdvanceCursorResult> {
  const log = await findLog(framework.db, framework.tables, syncLogId)
  if (log === null || !['sync', 'backfill'].includes(log.operation)) throw new SyncRunNotFound(syncLogId)
  return { ...(await finaliseEach(framework, log, [syncLogId])), reclaimed: 0 }
}

async function finaliseEach(
  framework: Framework,
  of: SyncOf,
  syncLogIds: readonly number[],
): Promise<Omit<AdvanceCursorResult, 'reclaimed'>> {
  const { integrationId } = of
  const from = await storedCursor(framework, of)
  let runs = 0
  for (const syncLogId of syncLogIds) {
    const run = { integrationId, syncLogId }
    const { result, isFinalisedNow } = await finaliseRun(framework, run)
    if (result.kind === 'reducer threw') throw new CheckpointsNotReduced(syncLogId, result.reason)
    if (isFinalisedNow) runs += 1
    // Also one that was finalised by a process that died before it told its listeners.
    if (result.kind === 'finalised') await announceRun(framework, run)
  }
  return { runs, from, to: await storedCursor(framework, of) }
}

async function storedCursor({ db, tables }: Framework, of: SyncOf): Promise<Json> {
  const row = await findSyncRow(db, tables, of)
  if (row === null) throw new IntegrationNotFound(of.integrationId)
  return cursorOf(row)
}

/**
 * What lives, or was asked for, may be of a provider that is not registered any more or has no sync now, or of a stream
 * that it no longer declares.
 */
async function streamsLeft(
  { db, tables, providers }: Framework,
  { id, provider: key }: IntegrationRow,
  stream: string | undefined,
): Promise<readonly (string | null)[]> {
  const provider = providers.find(key)
  const declared = provider === null ? [] : streamsOf(provider)
  if (stream != null && declared.length === 0) return [stream]
  const stored = await storedStreamsOf(db, tables, id)
  if (stream == null) return [...new Set([...declared, ...stored, null])]
  return provider === null || stored.includes(stream) ? [stream] : streamsMeant(key, provider, stream)
}

/** Streams that have a row, or a start that was asked for: also those that no release declares any more. */
async function storedStreamsOf(db: Database, { streams, syncStarts }: Tables, id: number): Promise<string[]> {
  const rows = await db.execute<{ stream: string }>(sql`
    select stream from ${streams} where integration_id = ${id}
    union select stream from ${syncStarts} where integration_id = ${id} and stream <> '' order by stream`)
  return rows.map((row) => row.stream)
}

function oneStream({ providers }: Framework, { provider: key }: IntegrationRow, stream: string | undefined) {
  const provider = providers.find(key)
  return provider === null || !canSync(provider) ? (stream ?? null) : streamMeant(key, provider, stream)
}

async function inTurn<T, R>(values: readonly T[], work: (value: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (const value of values) results.push(await work(value))
  return results
}
