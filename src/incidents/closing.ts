/** Ends an incident where all is well again. Rule: docs/behaviour/incidents.md, "The end". */

import { callTarget } from '../calls/call-target.ts'
import type { Transaction } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import type { Integration } from '../providers/integration.ts'
import type { IncidentEvent } from './queries.ts'
import { closeIncidentsIfWell, recordIncidentEvents } from './queries.ts'

/**
 * Closes the open incident of each of these integrations that is healthy, not stale, and whose breaker is closed. In the
 * transaction of what has healed, after it; what is told later is written down with it.
 *
 * @param olderThanSeconds only those that are strictly older; null: of any age
 * @returns the events by integration, to be announced after the commit
 */
export async function closeIncidents(
  framework: Framework,
  tx: Transaction,
  integrations: readonly Pick<Integration, 'id' | 'provider'>[],
  olderThanSeconds: number | null = null,
): Promise<Map<number, IncidentEvent[]>> {
  if (integrations.length === 0) return new Map()
  const { tables } = framework
  const targets = integrations.map((integration) => callTarget(framework, integration))
  const events = await closeIncidentsIfWell(tx, tables, targets, olderThanSeconds)
  const names = targets[0]?.eventNames ?? null
  if (names !== null) await recordIncidentEvents(tx, tables, names, events)
  return events
}
