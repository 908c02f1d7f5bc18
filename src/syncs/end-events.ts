/** What follows from a run's end, in its transaction. Rule: docs/behaviour/events.md, "Durable events". */

import type { Transaction } from '../db/client.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { closeIncidents } from '../incidents/queries.ts'
import { findIntegration } from '../integrations/queries.ts'
import { mergeLogMetadata } from '../observability/log-queries.ts'
import type { ItemCounts, StuckItem } from './end-queries.ts'
import { itemsById } from './end-queries.ts'
import { itemRecord } from './items/run-item.ts'
import type { RunStatus } from './run-rules.ts'

interface OrdinaryRunEnd {
  readonly status: RunStatus
  readonly counts: ItemCounts
  /** After the run. */
  readonly cursor: Json
  /** Those that are told of. */
  readonly stuck: readonly StuckItem[]
}

/**
 * The run was the clean one that a stale integration waited for, and its marker is cleared: an incident ends if all else is
 * well. The run's log names it, so that its listeners are told with those of the run.
 */
export async function endStaleness(
  framework: Framework,
  tx: Transaction,
  row: IntegrationRow,
  syncLogId: number,
): Promise<void> {
  await recordEvents(framework, tx, row.id, [{ name: 'SyncStalenessRecovered', payload: {} }])
  const closed = (await closeIncidents(framework, tx, [row])).get(row.id) ?? []
  for (const { incidentId } of closed)
    await mergeLogMetadata(tx, framework.tables, syncLogId, { closed_incident: incidentId })
}

/** In the order in which the run is announced. Once the times of the run's end are written. */
export async function recordRunEnd(
  framework: Framework,
  tx: Transaction,
  integrationId: number,
  { status, counts, cursor, stuck }: OrdinaryRunEnd,
): Promise<void> {
  const { listeners, tables } = framework
  if (stuck.length > 0 && listeners.isDurable('SyncItemStuck')) {
    const rows = await itemsById(
      tx,
      tables,
      stuck.map(({ itemId }) => itemId),
    )
    await recordEvents(
      framework,
      tx,
      integrationId,
      stuck.flatMap(({ itemId, runs }) => {
        const row = rows.get(itemId)
        if (row === undefined) return []
        return [
          {
            name: 'SyncItemStuck',
            payload: { item: itemRecord(row, row.error), consecutiveFailedRuns: runs },
          } as const,
        ]
      }),
    )
  }
  if (!listeners.isDurable('SyncCompleted')) return
  const lastSyncedAt = (await findIntegration(tx, tables, integrationId))?.lastSyncedAt ?? null
  const result = {
    kind: status,
    successCount: counts.success,
    failureCount: counts.failed,
    skippedCount: counts.skipped,
    safeSyncedAt: status === 'success' ? lastSyncedAt : null,
    cursor,
  }
  await recordEvents(framework, tx, integrationId, [{ name: 'SyncCompleted', payload: { result } }])
}
