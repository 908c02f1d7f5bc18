/** Which integrations have not ended a run clean for too long. Rule: docs/behaviour/sync-cursor.md, "Stale". */

import { announceChanges } from '../calls/call-events.ts'
import { callTarget } from '../calls/call-target.ts'
import { recordOwnedEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import type { IncidentEvent } from '../incidents/queries.ts'
import { closeIncidents, openStaleIncidents, recordIncidentEvents } from '../incidents/queries.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { integrationsById } from '../integrations/queries.ts'
import { declaredIntervals } from './due.ts'
import type { LateSync, StaleEdge, StalenessRule } from './staleness-queries.ts'
import { clearRecovered, markStale } from './staleness-queries.ts'
import type { DispatchResult } from './sync-jobs.ts'

/** Of either edge in one evaluation: the next one, a minute later, takes the rest. */
const MAX_EDGES = 1_000

/** What one kind of edge has changed: who crossed it, and what that did to their incidents. */
interface Crossed<Edge extends StaleEdge> {
  readonly edges: readonly Edge[]
  readonly incidents: ReadonlyMap<number, readonly IncidentEvent[]>
}

/**
 * Sets and clears the markers, opens and closes the incidents and writes down what is told later: one transaction for each kind
 * of edge. The listeners are told once, after the commit; a process that dies in between leaves the rest of them untold.
 */
export async function evaluateStaleSyncs(framework: Framework): Promise<Pick<DispatchResult, 'stale' | 'recovered'>> {
  const providers = [...declaredIntervals(framework)].map(([provider, minutes]) => ({
    provider,
    minutes: minutes ?? null,
    isKnown: minutes !== undefined,
  }))
  if (providers.length === 0) return { stale: [], recovered: [] }
  const rule = {
    providers,
    staleAfterIntervals: framework.config.sync.stale_after_intervals,
    limit: MAX_EDGES,
  }
  const late = await becomeStale(framework, rule)
  const recovered = await recover(framework, rule)
  return { stale: await announceLate(framework, late), recovered: await announceRecovered(framework, recovered) }
}

function becomeStale(framework: Framework, rule: StalenessRule): Promise<Crossed<LateSync>> {
  const { db, tables, config } = framework
  return db.transaction(async (tx) => {
    const edges = await markStale(tx, tables, rule)
    await recordOwnedEvents(
      framework,
      tx,
      edges.map(({ id, secondsSinceSync, intervalMinutes }) => ({
        integrationId: id,
        name: 'SyncBecameStale',
        payload: { secondsSinceSync, intervalMinutes },
      })),
    )
    if (edges.length === 0 || !config.observability.incidents_enabled) return { edges, incidents: new Map() }
    const openings = edges.map((edge) => ({ target: callTarget(framework, edge), lastErrorAt: edge.lastErrorAt }))
    const incidents = await openStaleIncidents(tx, tables, openings)
    const names = openings[0]?.target.eventNames ?? null
    if (names !== null) await recordIncidentEvents(tx, tables, names, incidents)
    return { edges, incidents }
  })
}

function recover(framework: Framework, rule: StalenessRule): Promise<Crossed<StaleEdge>> {
  const { db, tables } = framework
  return db.transaction(async (tx) => {
    const edges = await clearRecovered(tx, tables, rule)
    await recordOwnedEvents(
      framework,
      tx,
      edges.map(({ id }) => ({ integrationId: id, name: 'SyncStalenessRecovered', payload: {} })),
    )
    return { edges, incidents: await closeIncidents(framework, tx, edges) }
  })
}

async function announceLate(
  framework: Framework,
  { edges, incidents }: Crossed<LateSync>,
): Promise<DispatchResult['stale']> {
  const { db, tables, listeners, logger } = framework
  const rows = await integrationsById(
    db,
    tables,
    edges.map(({ id }) => id),
  )
  const stale: DispatchResult['stale'][number][] = []
  for (const { id, secondsSinceSync, intervalMinutes } of edges) {
    const row = rows.get(id)
    // Deleted since: there is nobody to tell about.
    if (row === undefined) continue
    stale.push({ integrationId: id, lastSyncedAt: row.lastSyncedAt?.toISOString() ?? null })
    logger.warn(
      { event: 'sync.stale', integration: id, provider: row.provider, seconds: secondsSinceSync },
      'sync became stale',
    )
    const integration = integrationHandle(framework, row)
    await listeners.emit('SyncBecameStale', { integration, secondsSinceSync, intervalMinutes })
    await announceChanges(framework, integration, incidents.get(id) ?? [])
  }
  return stale
}

async function announceRecovered(
  framework: Framework,
  { edges, incidents }: Crossed<StaleEdge>,
): Promise<DispatchResult['recovered']> {
  const { db, tables, listeners } = framework
  const ids = edges.map(({ id }) => id)
  const rows = await integrationsById(db, tables, ids)
  for (const id of ids) {
    const row = rows.get(id)
    if (row === undefined) continue
    const integration = integrationHandle(framework, row)
    await listeners.emit('SyncStalenessRecovered', { integration })
    await announceChanges(framework, integration, incidents.get(id) ?? [])
  }
  return ids
}
