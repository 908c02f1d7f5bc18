/**
 * Tells how a run ended: in its transaction the rows for durable listeners, after the commit the listeners of this process.
 *
 * Rule: docs/behaviour/sync-cursor.md, "Announcement". Why no durable event takes its place: docs/decisions/0049-the-announcement-of-a-run.md.
 */
import { randomUUID } from 'node:crypto'
import { announceChanges } from '../calls/call-events.ts'
import type { Database, Transaction } from '../db/client.ts'
import type { LogRow, Tables } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { IntegrationEvents, SyncResult } from '../events/events.ts'
import { tellingAgain } from '../events/listening-until.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { asPartOf } from '../framework/origin.ts'
import { closeIncidents } from '../incidents/queries.ts'
import { integrationHandle } from '../integrations/handle.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { findLog, mergeLogMetadata } from '../observability/log-queries.ts'
import type { StuckItem } from './end-queries.ts'
import { holdAnnouncement, noteAnnouncement } from './end-queries.ts'
import { itemRecords } from './items/item-queries.ts'
import { runLogger } from './run-logger.ts'
import type { RunIds, RunStatus } from './run-rules.ts'
import type { SyncRow } from './sync-rows.ts'
import { findSyncRow, namedStream } from './sync-rows.ts'

/**
 * Records what durable listeners are told, in the order of the announcement. Called once the times of the run's end are written.
 *
 * A run that ended the staleness of its integration closes its incident, if all else is well. The run's log names the
 * incident, so that the announcement tells it.
 *
 * @param metadata of the run's log, as its end writes it
 */
export async function recordRunEnd(
  framework: Framework,
  tx: Transaction,
  row: SyncRow,
  { syncLogId, status, metadata, stuck }: EndedRun,
): Promise<void> {
  const { listeners, tables } = framework
  if (metadata.staleness_recovered === true) {
    await recordEvents(framework, tx, row.id, [{ name: 'SyncStalenessRecovered', payload: namedStream(row.stream) }])
    for (const { incidentId } of (await closeIncidents(framework, tx, [row.id])).get(row.id) ?? [])
      await mergeLogMetadata(tx, tables, syncLogId, { closed_incident: incidentId })
  }
  if (listeners.isDurable('SyncItemStuck')) {
    const payloads = await stuckPayloads(tx, tables, stuck)
    await recordEvents(
      framework,
      tx,
      row.id,
      payloads.map((payload) => ({ name: 'SyncItemStuck', payload }) as const),
    )
  }
  if (!listeners.isDurable('SyncCompleted')) return
  const of = { integrationId: row.id, stream: row.stream }
  const lastSyncedAt = (await findSyncRow(tx, tables, of))?.lastSyncedAt ?? null
  const result = resultOf(status, metadata, lastSyncedAt)
  await asPartOf(tables, 'run', syncLogId, () =>
    recordEvents(framework, tx, row.id, [{ name: 'SyncCompleted', payload: { ...namedStream(row.stream), result } }]),
  )
}

interface EndedRun {
  readonly syncLogId: number
  readonly status: RunStatus
  readonly metadata: Readonly<Record<string, Json>>
  /** The stuck items that are told. */
  readonly stuck: readonly StuckItem[]
}

/**
 * Tells the listeners of a finalised run, and notes it in the run's log. At least once: a process may die between the two. Two
 * processes at the same moment tell it once, however long the listeners take.
 *
 * @returns `elsewhere`: another process announces it. `nothing`: it was announced before, or there is nothing to tell: the
 *   run is not over, was cancelled, its listing failed, or it is a backfill's
 * @throws why a listener was given up: this worker ends. Nothing is noted then, so the next call announces the run again at once
 */
export async function announceRun(
  framework: Framework,
  { syncLogId }: RunIds,
): Promise<'announced' | 'elsewhere' | 'nothing'> {
  const { db, tables, clock } = framework
  const announcer = randomUUID()
  const log = await holdAnnouncement(db, tables, syncLogId, { announcer, seconds: LEASE_SECONDS })
  if (log === null) return (await isAnnouncedElsewhere(framework, syncLogId)) ? 'elsewhere' : 'nothing'
  const lease = keepLease(framework, log, announcer)
  const givenUp = new AbortController()
  try {
    await tellingAgain(givenUp, () => tell(framework, log, () => lease.isLost() || givenUp.signal.aborted))
  } finally {
    await lease.end()
  }
  if (givenUp.signal.aborted) await holdAnnouncement(db, tables, syncLogId, { announcer, seconds: 0 })
  givenUp.signal.throwIfAborted()
  const isNoted = await noteAnnouncement(db, tables, syncLogId, { announcer, at: clock.now() })
  return isNoted ? 'announced' : 'elsewhere'
}

/** Announces a run. @throws when another process announces it at this moment: to be looked at again */
export async function announceOnce(framework: Framework, run: RunIds): Promise<void> {
  if ((await announceRun(framework, run)) === 'elsewhere')
    throw new Error(`another process is announcing run ${run.syncLogId}; looked at again until that is noted`)
}

/** Tells `SyncStalenessRecovered`, `IncidentClosed`, `SyncItemStuck` for each stuck item, and `SyncCompleted`: what there is of them. */
async function tell(framework: Framework, log: LogRow, isOver: () => boolean): Promise<void> {
  const { db, tables, listeners } = framework
  const row = await findSyncRow(db, tables, log)
  if (row === null) throw new IntegrationNotFound(log.integrationId)
  const integration = integrationHandle(framework, row)
  const metadata = log.metadata as RunMetadata
  if (metadata.staleness_recovered === true)
    await listeners.emit('SyncStalenessRecovered', { integration, ...namedStream(log.stream) })
  const closed = metadata.closed_incident
  if (typeof closed === 'number' && !isOver())
    await announceChanges(framework, integration, [{ at: 0, kind: 'incident_closed', incidentId: closed }])
  const noted = (metadata.stuck ?? []) as readonly { readonly item_id: number; readonly runs: number }[]
  if (metadata.stuck_untold !== undefined)
    integrationLogger(framework, row).warn(
      { event: 'sync.stuck_untold', sync_log: log.id, told: noted.length, untold: metadata.stuck_untold },
      'more items of a sync run are stuck than one run tells of',
    )
  const stuck = noted.map(({ item_id, runs }) => ({ itemId: item_id, runs }))
  for (const payload of await stuckPayloads(db, tables, stuck)) {
    if (isOver()) return
    await listeners.emit('SyncItemStuck', { integration, ...payload })
  }
  if (isOver()) return
  const result = resultOf(log.status as RunStatus, metadata, integration.lastSyncedAt)
  await listeners.emit('SyncCompleted', { integration, ...namedStream(log.stream), result })
}

async function stuckPayloads(
  db: Database | Transaction,
  tables: Tables,
  stuck: readonly StuckItem[],
): Promise<Omit<IntegrationEvents['SyncItemStuck'], 'integration'>[]> {
  if (stuck.length === 0) return []
  const ids = stuck.map(({ itemId }) => itemId)
  const items = await itemRecords(db, tables, ids)
  return stuck.flatMap(({ itemId, runs }) => {
    const item = items.get(itemId)
    return item === undefined ? [] : [{ item, consecutiveFailedRuns: runs }]
  })
}

function resultOf(status: RunStatus, metadata: Readonly<Record<string, Json>>, lastSyncedAt: Date | null): SyncResult {
  return {
    kind: status,
    successCount: Number(metadata.success_count),
    failureCount: Number(metadata.failure_count),
    skippedCount: Number(metadata.skipped_count),
    unchangedCount: Number(metadata.unchanged ?? 0),
    safeSyncedAt: status === 'success' ? lastSyncedAt : null,
    cursor: metadata.cursor_after ?? null,
  }
}

async function isAnnouncedElsewhere({ db, tables }: Framework, syncLogId: number): Promise<boolean> {
  const log = await findLog(db, tables, syncLogId)
  const metadata = (log?.metadata ?? {}) as Partial<RunMetadata>
  return metadata.announcing_until !== undefined && metadata.announced_at === undefined
}

/** A process that dies while it announces a run keeps the others from it for this time. */
const LEASE_SECONDS = 15
/** One renewal may be late or fail: the next one still comes in time. */
const RENEW_EVERY_MS = 5_000

/** Renews the announcement's lease while its listeners run. */
function keepLease(framework: Framework, { id, integrationId }: LogRow, announcer: string) {
  const { db, tables } = framework
  let isLost = false
  let renewal: Promise<void> = Promise.resolve()
  const renew = async (): Promise<void> => {
    try {
      if ((await holdAnnouncement(db, tables, id, { announcer, seconds: LEASE_SECONDS })) === null) isLost = true
    } catch (error) {
      const logger = await runLogger(framework, { integrationId, syncLogId: id })
      logger.warn(
        { event: 'sync.announcement_not_renewed', error: errorLine(error, 300) },
        'the announcement of a sync run could not be kept; unless that succeeds soon, another process may tell the listeners again',
      )
    }
  }
  const timer = setInterval(() => {
    renewal = renewal.then(renew)
  }, RENEW_EVERY_MS)
  return {
    /** Another process announces the run: this one stood still for longer than the lease. */
    isLost: () => isLost,
    /** Renews no more, and waits for a renewal that is under way. */
    async end(): Promise<void> {
      clearInterval(timer)
      await renewal
    },
  }
}
