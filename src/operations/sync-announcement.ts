/** Tells the listeners how a run ended. Rule: docs/behaviour/sync-cursor.md, "Announcement". */
import type { Json } from '../core/json.ts'
import type { RunStatus } from '../core/sync-run.ts'
import type { RunMetadata } from '../db/queries/logs.ts'
import { claimAnnouncement, findLog, noteAnnouncement } from '../db/queries/logs.ts'
import { itemsById } from '../db/queries/sync-ends.ts'
import type { Framework } from '../framework.ts'
import type { Integration } from '../providers/integration.ts'
import { getIntegration } from './integration.ts'
import { itemRecord } from './sync-items.ts'
import type { RunIds } from './sync-run-ids.ts'

/** Whoever began to announce a run and died keeps the others from it for so long. */
const LEASE_SECONDS = 15
/** Rows read at once. */
const STUCK_PAGE = 500

/**
 * Tells `SyncStalenessRecovered` if the run ended it, `SyncItemStuck` for each stuck item, then `SyncCompleted`, and notes
 * it in the run's log. At least once: a process may die between telling and noting. Two at the same moment tell it once.
 *
 * @returns `elsewhere`: somebody has just begun to announce it. `nothing`: it was announced before, or there is nothing to
 *   tell: the run is not over, was cancelled, its listing failed, or it is a backfill's
 */
export async function announceRun(
  framework: Framework,
  { syncLogId }: RunIds,
): Promise<'announced' | 'elsewhere' | 'nothing'> {
  const { db, tables, listeners } = framework
  const log = await claimAnnouncement(db, tables, syncLogId, LEASE_SECONDS)
  if (log === null) return (await isAnnouncedElsewhere(framework, syncLogId)) ? 'elsewhere' : 'nothing'
  const integration = await getIntegration(framework, log.integrationId)
  const metadata = log.metadata as RunMetadata
  if (metadata.staleness_recovered === true) await listeners.emit('SyncStalenessRecovered', { integration })
  await tellStuckItems(framework, integration, metadata.stuck)
  const status = log.status as RunStatus
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
  await noteAnnouncement(db, tables, syncLogId, framework.clock.now())
  return 'announced'
}

async function tellStuckItems(
  { db, tables, listeners }: Framework,
  integration: Integration,
  noted: Json | undefined,
): Promise<void> {
  const stuck = (noted ?? []) as readonly { readonly item_id: number; readonly runs: number }[]
  for (let from = 0; from < stuck.length; from += STUCK_PAGE) {
    const page = stuck.slice(from, from + STUCK_PAGE)
    const ids = page.map(({ item_id }) => item_id)
    const rows = await itemsById(db, tables, ids)
    for (const { item_id, runs } of page) {
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
