/** Which integrations have not ended a run clean for too long. Rule: docs/behaviour/sync-cursor.md, "Stale". */

import { announceChanges } from '../calls/call-events.ts'
import { recordOwnedEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import type { IncidentCause, IncidentEvent } from '../incidents/queries.ts'
import { closeIncidents, openIncidents } from '../incidents/queries.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { integrationsById } from '../integrations/queries.ts'
import { declaredIntervals } from './due.ts'
import type { StaleEdge, StalenessRule } from './staleness-queries.ts'
import { crossEdge } from './staleness-queries.ts'
import type { DispatchResult, StaleSync } from './sync-jobs.ts'

/** Of either edge in one evaluation: the next one, a minute later, takes the rest. */
const MAX_EDGES = 1_000
const SYNC_STALE: IncidentCause = { source: 'sync', reason: 'sync_stale', severity: 'failing' }

/** The integrations that crossed one edge, and what that did to their incidents. */
interface Crossed {
  readonly edges: readonly StaleEdge[]
  readonly incidents: ReadonlyMap<number, readonly IncidentEvent[]>
}

/**
 * Sets and clears the markers, opens and closes the incidents and records the durable events: one transaction for each kind
 * of edge. The listeners are told once, after the commit; a process that dies in between leaves the rest of them untold.
 */
export async function evaluateStaleSyncs(framework: Framework): Promise<Pick<DispatchResult, 'stale' | 'recovered'>> {
  const providers = [...declaredIntervals(framework)].map(([provider, minutes]) => ({
    provider,
    minutes: minutes ?? null,
    isKnown: minutes !== undefined,
  }))
  if (providers.length === 0) return { stale: [], recovered: [] }
  const { stale_after_intervals: staleAfterIntervals } = framework.config.sync
  const rule = { providers, staleAfterIntervals, limit: MAX_EDGES }
  const late = await becomeStale(framework, rule)
  const recovered = await recover(framework, rule)
  return { stale: await announceLate(framework, late), recovered: await announceRecovered(framework, recovered) }
}

function becomeStale(framework: Framework, rule: StalenessRule): Promise<Crossed> {
  return framework.db.transaction(async (tx) => {
    const edges = await crossEdge(tx, framework.tables, rule, 'stale')
    await recordOwnedEvents(
      framework,
      tx,
      edges.map(({ id, secondsSinceSync, intervalMinutes }) => ({
        integrationId: id,
        name: 'SyncBecameStale',
        payload: { secondsSinceSync, intervalMinutes },
      })),
    )
    return { edges, incidents: await openIncidents(framework, tx, SYNC_STALE, edges) }
  })
}

function recover(framework: Framework, rule: StalenessRule): Promise<Crossed> {
  return framework.db.transaction(async (tx) => {
    const edges = await crossEdge(tx, framework.tables, rule, 'recovered')
    await recordOwnedEvents(
      framework,
      tx,
      edges.map(({ id }) => ({ integrationId: id, name: 'SyncStalenessRecovered', payload: {} })),
    )
    const ids = edges.map(({ id }) => id)
    return { edges, incidents: await closeIncidents(framework, tx, ids) }
  })
}

async function announceLate(framework: Framework, late: Crossed): Promise<StaleSync[]> {
  const stale: StaleSync[] = []
  for await (const { edge, row, integration, tellIncidents } of crossedRows(framework, late)) {
    const { secondsSinceSync, intervalMinutes } = edge
    stale.push({ integrationId: row.id, lastSyncedAt: row.lastSyncedAt?.toISOString() ?? null })
    integrationLogger(framework, row).warn({ event: 'sync.stale', seconds: secondsSinceSync }, 'sync became stale')
    await framework.listeners.emit('SyncBecameStale', { integration, secondsSinceSync, intervalMinutes })
    await tellIncidents()
  }
  return stale
}

async function announceRecovered(framework: Framework, recovered: Crossed): Promise<number[]> {
  for await (const { integration, tellIncidents } of crossedRows(framework, recovered)) {
    await framework.listeners.emit('SyncStalenessRecovered', { integration })
    await tellIncidents()
  }
  return recovered.edges.map(({ id }) => id)
}

/** Integrations that were deleted since are left out. */
async function* crossedRows(framework: Framework, { edges, incidents }: Crossed) {
  const ids = edges.map(({ id }) => id)
  const rows = await integrationsById(framework.db, framework.tables, ids)
  for (const edge of edges) {
    const row = rows.get(edge.id)
    if (row === undefined) continue
    const integration = integrationHandle(framework, row)
    const tellIncidents = () => announceChanges(framework, integration, incidents.get(edge.id) ?? [])
    yield { edge, row, integration, tellIncidents }
  }
}
