/** Reading incidents. Rule: docs/behaviour/incidents.md, "Looking". */

import { INCIDENT_SOURCES, INCIDENT_STATUSES } from '../db/schema/incidents-table.ts'
import type { Framework } from '../framework/context.ts'
import { IncidentNotFound, InvalidArgumentException } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import { checkChoice, checkIds, checkPeriod, newestFirst } from '../framework/list-filter.ts'
import { checkOwner } from '../integrations/owner.ts'
import type { IncidentFilter, IncidentSummary } from './incident-list-queries.ts'
import { findIncidentSummary, pageOfIncidents } from './incident-list-queries.ts'

export type { IncidentSummary }

export interface ListIncidents extends IncidentFilter {
  /** Older than the one of this id. */
  readonly after?: number | undefined
  /** At most so many; at least 1. */
  readonly limit?: number | undefined
}

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listIncidents(framework: Framework, given: ListIncidents = {}): AsyncIterable<IncidentSummary> {
  const { after, limit, ...filter } = given
  checkIds({ integrationId: filter.integrationId, after, limit })
  checkChoice('status', filter.status, INCIDENT_STATUSES)
  checkChoice('source', filter.source, INCIDENT_SOURCES)
  if (filter.owner !== undefined && checkOwner(filter.owner) === null)
    throw new InvalidArgumentException('owner', 'a type and an id are needed')
  checkPeriod(filter.since, filter.until)
  const { db, tables } = framework
  return newestFirst((page) => pageOfIncidents(db, tables, filter, page), { after, limit })
}

/** @throws IncidentNotFound */
export async function getIncident({ db, tables }: Framework, id: number): Promise<IncidentSummary> {
  const incident = isId(id) ? await findIncidentSummary(db, tables, id) : null
  if (incident === null) throw new IncidentNotFound(id)
  return incident
}
