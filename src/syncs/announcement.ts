/** Tells the listeners how a run ended. Rule: docs/behaviour/sync-cursor.md, "Announcement". */
import { randomUUID } from 'node:crypto'
import { announceChanges } from '../calls/call-events.ts'
import type { LogRow } from '../db/schema/tables.ts'
import { tellingAgain } from '../events/listening-until.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { getIntegration } from '../integrations/handle.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import { claimAnnouncement, findLog, noteAnnouncement, renewAnnouncement } from '../observability/log-queries.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import type { Integration } from '../providers/integration.ts'
import { itemsById } from './end-queries.ts'
import { itemRecord } from './items/run-item.ts'
import type { RunIds, RunStatus } from './run-rules.ts'

/** Rows read at once. */
const STUCK_PAGE = 500

/**
 * Tells `SyncStalenessRecovered` and `IncidentClosed` if the run ended them, `SyncItemStuck` for each stuck item, then `SyncCompleted`, and notes
 * it in the run's log. At least once: a process may die between telling and noting. Two at the same moment tell it once,
 * however long the listeners take.
 *
 * @returns `elsewhere`: another process announces it. `nothing`: it was announced before, or there is nothing to tell: the
 *   run is not over, was cancelled, its listing failed, or it is a backfill's
 * @throws why a listener was given up: this worker ends. It is noted nowhere then, and whoever announces the run next may do so
 *   at once, and tells all of it again
 */
export async function announceRun(
  framework: Framework,
  { syncLogId }: RunIds,
): Promise<'announced' | 'elsewhere' | 'nothing'> {
  const lease = await leaseAnnouncement(framework, syncLogId)
  if (lease === null) return (await isAnnouncedElsewhere(framework, syncLogId)) ? 'elsewhere' : 'nothing'
  const givenUp = new AbortController()
  try {
    await tellingAgain(givenUp, () => tell(framework, lease, givenUp.signal))
  } finally {
    await lease.end()
  }
  if (givenUp.signal.aborted) await lease.giveBack()
  givenUp.signal.throwIfAborted()
  return !lease.isLost() && (await lease.note()) ? 'announced' : 'elsewhere'
}

async function tell(framework: Framework, lease: AnnouncementLease, givenUp: AbortSignal): Promise<void> {
  const { listeners } = framework
  const isOver = (): boolean => lease.isLost() || givenUp.aborted
  const integration = await getIntegration(framework, lease.log.integrationId)
  const metadata = lease.log.metadata as RunMetadata
  if (metadata.staleness_recovered === true) await listeners.emit('SyncStalenessRecovered', { integration })
  const closed = metadata.closed_incident
  if (typeof closed === 'number' && !isOver())
    await announceChanges(framework, integration, [{ at: 0, kind: 'incident_closed', incidentId: closed }])
  await tellStuckItems(framework, lease, integration, metadata, isOver)
  if (isOver()) return
  const status = lease.log.status as RunStatus
  await listeners.emit('SyncCompleted', {
    integration,
    result: {
      kind: status,
      successCount: Number(metadata.success_count),
      failureCount: Number(metadata.failure_count),
      skippedCount: Number(metadata.skipped_count),
      safeSyncedAt: status === 'success' ? integration.lastSyncedAt : null,
      cursor: metadata.cursor_after ?? null,
    },
  })
}

async function tellStuckItems(
  { db, tables, listeners, logger }: Framework,
  lease: AnnouncementLease,
  integration: Integration,
  { stuck: noted, stuck_untold: untold }: RunMetadata,
  isOver: () => boolean,
): Promise<void> {
  const stuck = (noted ?? []) as readonly { readonly item_id: number; readonly runs: number }[]
  if (untold !== undefined)
    logger.warn(
      {
        event: 'sync.stuck_untold',
        integration: integration.id,
        provider: integration.provider,
        sync_log: lease.log.id,
        told: stuck.length,
        untold,
      },
      'more items of a sync run are stuck than one run tells of',
    )
  for (let from = 0; from < stuck.length; from += STUCK_PAGE) {
    const page = stuck.slice(from, from + STUCK_PAGE)
    const ids = page.map(({ item_id }) => item_id)
    const rows = await itemsById(db, tables, ids)
    for (const { item_id, runs } of page) {
      if (isOver()) return
      const row = rows.get(item_id)
      if (row !== undefined)
        await listeners.emit('SyncItemStuck', {
          integration,
          item: itemRecord(row, row.error),
          consecutiveFailedRuns: runs,
        })
    }
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

interface AnnouncementLease {
  readonly log: LogRow
  /** Somebody else announces the run: this process stood still for longer than the lease. */
  isLost(): boolean
  /** Renews no more, and waits for a renewal that is under way. */
  end(): Promise<void>
  /** Once it is ended: whoever asks next announces the run at once. */
  giveBack(): Promise<void>
  /** Notes the announcement, once it is ended. False: somebody else has it now, and notes it. */
  note(): Promise<boolean>
}

/**
 * Claims the announcement of a run, and keeps it while its listeners run.
 *
 * @returns null: there is nothing to announce, or another process has it
 */
async function leaseAnnouncement(framework: Framework, syncLogId: number): Promise<AnnouncementLease | null> {
  const { db, tables, logger } = framework
  const claim = { announcer: randomUUID(), leaseSeconds: LEASE_SECONDS }
  const log = await claimAnnouncement(db, tables, syncLogId, claim)
  if (log === null) return null
  let isLost = false
  let renewal: Promise<void> = Promise.resolve()
  const renew = async (): Promise<void> => {
    try {
      if (!(await renewAnnouncement(db, tables, syncLogId, claim))) isLost = true
    } catch (error) {
      logger.warn(
        {
          event: 'sync.announcement_not_renewed',
          integration: log.integrationId,
          provider: (await subjectOf(framework, log.integrationId)).provider,
          sync_log: syncLogId,
          error: errorLine(error, 300),
        },
        'the announcement of a sync run could not be kept; unless that succeeds soon, another process may tell the listeners again',
      )
    }
  }
  const timer = setInterval(() => {
    renewal = renewal.then(renew)
  }, RENEW_EVERY_MS)
  return {
    log,
    isLost: () => isLost,
    async end() {
      clearInterval(timer)
      await renewal
    },
    async giveBack() {
      await renewAnnouncement(db, tables, syncLogId, { ...claim, leaseSeconds: 0 })
    },
    note: () => noteAnnouncement(db, tables, syncLogId, { announcer: claim.announcer, at: framework.clock.now() }),
  }
}
