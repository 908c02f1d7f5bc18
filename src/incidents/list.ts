/** Reading incidents. Rule: docs/behaviour/incidents.md, "Looking". */

import { and, desc, eq, gte, lt } from 'drizzle-orm'
import { z } from 'zod'
import type { Database } from '../db/client.ts'
import type { IntegrationSelection } from '../db/integrations-of.ts'
import { isOneOfThem } from '../db/integrations-of.ts'
import type { IncidentRow, IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IncidentNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { Page } from '../framework/list-filter.ts'
import { checkChoice, checkIds, checkPeriod, checkTexts, newestFirst } from '../framework/list-filter.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import { incidentColumns } from './queries.ts'
import { INCIDENT_SOURCES, INCIDENT_STATUSES } from './rules.ts'

/** Selects rows; all that is given must hold. */
export interface IncidentFilter extends IntegrationSelection {
  readonly status?: IncidentRow['status'] | undefined
  readonly source?: IncidentRow['source'] | undefined
  /** Opened at this moment or after it. */
  readonly since?: Date | undefined
  /** Opened before this moment. */
  readonly until?: Date | undefined
}

export interface IncidentSummary {
  readonly id: number
  readonly integrationId: number
  readonly provider: IntegrationRow['provider']
  readonly integrationName: IntegrationRow['name']
  readonly status: IncidentRow['status']
  readonly source: IncidentRow['source']
  /** What opened it: `health_degraded`, `threshold_reached`, `sync_stale`, ... */
  readonly reason: string
  /** The worst health reached. */
  readonly peakSeverity: IncidentRow['peakSeverity']
  readonly openedAt: Date
  readonly lastErrorAt: Date | null
  readonly closedAt: Date | null
  /** A person has seen it, and it has not got worse since. */
  readonly acknowledgedAt: Date | null
  readonly acknowledgedBy: string | null
  /** Its repeats are not notified until then; may be over. */
  readonly snoozedUntil: Date | null
  readonly snoozedBy: string | null
  /** What people have written, oldest first. */
  readonly annotations: readonly IncidentAnnotation[]
}

export interface IncidentAnnotation {
  readonly at: Date
  readonly by: string
  readonly text: string
}

const StoredAnnotations = z.array(z.object({ at: z.iso.datetime(), by: z.string(), text: z.string() }))

/** What cannot be read is not shown. */
export function annotationsOf(stored: unknown): IncidentAnnotation[] {
  const { data = [] } = StoredAnnotations.safeParse(stored)
  return data.map(({ at, ...annotation }) => ({ ...annotation, at: new Date(at) }))
}

export interface ListIncidents extends IncidentFilter {
  /** Older than the one of this id. */
  readonly after?: number | undefined
  /** The most that are listed, at least 1. */
  readonly limit?: number | undefined
}

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listIncidents(framework: Framework, given: ListIncidents = {}): AsyncIterable<IncidentSummary> {
  const { after, limit, ...filter } = given
  checkIds({ integrationId: filter.integrationId, after, limit })
  checkChoice('status', filter.status, INCIDENT_STATUSES)
  checkChoice('source', filter.source, INCIDENT_SOURCES)
  checkTexts({ provider: filter.provider })
  checkOwnerFilter(filter.owner)
  checkPeriod(filter.since, filter.until)
  const { db, tables } = framework
  const read = async (page: Page) => (await pageOfIncidents(db, tables, filter, page)).map(summaryOf)
  return newestFirst(read, { after, limit })
}

/** @throws IncidentNotFound */
export async function getIncident({ db, tables }: Framework, id: number): Promise<IncidentSummary> {
  const [incident] = isId(id) ? await summaries(db, tables).where(eq(tables.incidents.id, id)) : []
  if (incident === undefined) throw new IncidentNotFound(id)
  return summaryOf(incident)
}

function summaryOf(row: Omit<IncidentSummary, 'annotations'> & { readonly annotations: unknown }): IncidentSummary {
  return { ...row, annotations: annotationsOf(row.annotations) }
}

/** Newest id first, below the id given. */
export function pageOfIncidents(db: Database, tables: Tables, filter: IncidentFilter, { below, limit }: Page) {
  const { incidents } = tables
  const { status, source, since, until } = filter
  return summaries(db, tables)
    .where(
      and(
        isOneOfThem(tables, filter),
        status === undefined ? undefined : eq(incidents.status, status),
        source === undefined ? undefined : eq(incidents.source, source),
        since === undefined ? undefined : gte(incidents.openedAt, since),
        until === undefined ? undefined : lt(incidents.openedAt, until),
        below === undefined ? undefined : lt(incidents.id, below),
      ),
    )
    .orderBy(desc(incidents.id))
    .limit(limit)
}

function summaries(db: Database, { incidents, integrations }: Tables) {
  return db
    .select({
      ...incidentColumns(incidents),
      acknowledgedAt: incidents.acknowledgedAt,
      acknowledgedBy: incidents.acknowledgedBy,
      snoozedUntil: incidents.snoozedUntil,
      snoozedBy: incidents.snoozedBy,
      annotations: incidents.annotations,
      provider: integrations.provider,
      integrationName: integrations.name,
    })
    .from(incidents)
    .innerJoin(integrations, eq(integrations.id, incidents.integrationId))
}
