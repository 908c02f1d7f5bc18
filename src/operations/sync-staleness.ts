/** Which integrations have not ended a run clean for too long. Rule: docs/behaviour/sync-cursor.md, "Stale". */
import type { DispatchResult } from '../core/sync-jobs.ts'
import { integrationsById } from '../db/queries/integrations.ts'
import { clearRecovered, markStale } from '../db/queries/sync-staleness.ts'
import type { Framework } from '../framework.ts'
import { defaultIntervals } from './due-rule.ts'
import { integrationHandle } from './integration.ts'

/** Of either edge in one evaluation: the next one, a minute later, takes the rest. */
const MAX_EDGES = 1_000

/**
 * Sets and clears the markers; each edge is told once, after its commit. A process that dies in between leaves the marker
 * set and the rest untold.
 */
export async function evaluateStaleSyncs(framework: Framework): Promise<Pick<DispatchResult, 'stale' | 'recovered'>> {
  const { db, tables, listeners, config } = framework
  const providers = [...defaultIntervals(framework)].map(([provider, minutes]) => ({ provider, minutes }))
  if (providers.length === 0) return { stale: [], recovered: [] }
  const rule = {
    providers,
    staleAfterIntervals: config.sync.stale_after_intervals,
    limit: MAX_EDGES,
  }
  const late = await markStale(db, tables, rule)
  const recovered = await clearRecovered(db, tables, rule)
  const rows = await integrationsById(db, tables, [...late.map(({ id }) => id), ...recovered])
  const stale: DispatchResult['stale'][number][] = []
  for (const { id, secondsSinceSync, intervalMinutes } of late) {
    const row = rows.get(id)
    // Deleted since: there is nobody to tell about.
    if (row === undefined) continue
    stale.push({ integrationId: id, lastSyncedAt: row.lastSyncedAt?.toISOString() ?? null })
    framework.logger.warn({ event: 'sync.stale', integration: id, seconds: secondsSinceSync }, 'sync became stale')
    const integration = integrationHandle(framework, row)
    await listeners.emit('SyncBecameStale', { integration, secondsSinceSync, intervalMinutes })
  }
  for (const id of recovered) {
    const row = rows.get(id)
    if (row !== undefined)
      await listeners.emit('SyncStalenessRecovered', { integration: integrationHandle(framework, row) })
  }
  return { stale, recovered }
}
