/** Which integrations have not ended a run clean for too long. Rule: docs/behaviour/sync-cursor.md, "Stale". */

import { announceChanges } from '../calls/call-events.ts'
import type { Transaction } from '../db/client.ts'
import { recordOwnedEvents } from '../events/durable-events.ts'
import { listeningBriefly } from '../events/listening-until.ts'
import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import type { IncidentCause, IncidentEvent } from '../incidents/queries.ts'
import { closeIncidents, openIncidents } from '../incidents/queries.ts'
import { integrationHandle } from '../integrations/handle.ts'
import type { DeclaredStream } from './due.ts'
import { declaredIntervals, declaredStreams } from './due.ts'
import type { StaleEdge, StalenessRule } from './staleness-queries.ts'
import { clearRemoved, crossEdge, crossStreamEdge } from './staleness-queries.ts'
import type { DispatchResult, StaleSync } from './sync-jobs.ts'
import { findSyncRow, namedStream } from './sync-rows.ts'

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
 * of edge. The listeners are told once, after the commit, and waited for 30 s; a process that dies in between leaves the
 * rest of them untold.
 */
export async function evaluateStaleSyncs(framework: Framework): Promise<Pick<DispatchResult, 'stale' | 'recovered'>> {
  const providers = [...declaredIntervals(framework)].map(([provider, minutes]) => ({
    provider,
    minutes: minutes ?? null,
    isKnown: minutes !== undefined,
  }))
  const declared = declaredStreams(framework)
  const registered = framework.providers.entries().map(([provider]) => provider)
  const { stale_after_intervals: staleAfterIntervals } = framework.config.sync
  const rule = { registered, providers, declared, staleAfterIntervals, limit: MAX_EDGES }
  const late = await becomeStale(framework, rule)
  const recovered = await recover(framework, rule)
  return listeningBriefly(async () => ({
    stale: await announceLate(framework, late),
    recovered: await announceRecovered(framework, recovered),
  }))
}

type Rule = StalenessRule & { readonly registered: readonly string[]; readonly declared: readonly DeclaredStream[] }

/** Of the integrations' own streams, and of named ones. */
async function crossEdges({ tables }: Framework, tx: Transaction, rule: Rule, edge: 'stale' | 'recovered') {
  const own = rule.providers.length === 0 ? [] : await crossEdge(tx, tables, rule, edge)
  return [...own, ...(await crossStreamEdge(tx, tables, rule, edge))]
}

/** An integration has one incident, however many of its streams are late. */
function oneEach(edges: readonly StaleEdge[]): StaleEdge[] {
  return [...new Map(edges.map((edge) => [edge.id, edge])).values()]
}

function becomeStale(framework: Framework, rule: Rule): Promise<Crossed> {
  return framework.db.transaction(async (tx) => {
    const edges = await crossEdges(framework, tx, rule, 'stale')
    await recordOwnedEvents(
      framework,
      tx,
      edges.map(({ id, stream, secondsSinceSync, intervalMinutes }) => ({
        integrationId: id,
        name: 'SyncBecameStale',
        payload: { ...namedStream(stream), secondsSinceSync, intervalMinutes },
      })),
    )
    return { edges, incidents: await openIncidents(framework, tx, SYNC_STALE, oneEach(edges)) }
  })
}

function recover(framework: Framework, rule: Rule): Promise<Crossed> {
  return framework.db.transaction(async (tx) => {
    const edges = [
      ...(await crossEdges(framework, tx, rule, 'recovered')),
      ...(await clearRemoved(tx, framework.tables, rule)),
    ]
    await recordOwnedEvents(
      framework,
      tx,
      edges.map(({ id, stream }) => ({
        integrationId: id,
        name: 'SyncStalenessRecovered',
        payload: namedStream(stream),
      })),
    )
    const ids = oneEach(edges).map(({ id }) => id)
    return { edges, incidents: await closeIncidents(framework, tx, ids) }
  })
}

async function announceLate(framework: Framework, late: Crossed): Promise<StaleSync[]> {
  const stale: StaleSync[] = []
  for await (const { edge, row, integration, tellIncidents } of crossedRows(framework, late)) {
    const { stream, secondsSinceSync, intervalMinutes } = edge
    const named = namedStream(stream)
    stale.push({ integrationId: row.id, ...named, lastSyncedAt: row.lastSyncedAt?.toISOString() ?? null })
    integrationLogger(framework, row).warn({ event: 'sync.stale', seconds: secondsSinceSync }, 'sync became stale')
    await framework.listeners.emit('SyncBecameStale', { integration, ...named, secondsSinceSync, intervalMinutes })
    await tellIncidents()
  }
  return stale
}

async function announceRecovered(framework: Framework, recovered: Crossed): Promise<number[]> {
  for await (const { edge, integration, tellIncidents } of crossedRows(framework, recovered)) {
    await framework.listeners.emit('SyncStalenessRecovered', { integration, ...namedStream(edge.stream) })
    await tellIncidents()
  }
  return oneEach(recovered.edges).map(({ id }) => id)
}

/** Integrations that were deleted since are left out. */
async function* crossedRows(framework: Framework, { edges, incidents }: Crossed) {
  const told = new Set<number>()
  for (const edge of edges) {
    const row = await findSyncRow(framework.db, framework.tables, { integrationId: edge.id, stream: edge.stream })
    if (row === null) continue
    const integration = integrationHandle(framework, row)
    const changes = told.has(edge.id) ? [] : (incidents.get(edge.id) ?? [])
    told.add(edge.id)
    const tellIncidents = () => announceChanges(framework, integration, changes)
    yield { edge, row, integration, tellIncidents }
  }
}
