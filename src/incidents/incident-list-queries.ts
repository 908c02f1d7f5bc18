/** What is read of incidents for people. */
import { and, desc, eq, gte, lt } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { IncidentRow, IntegrationRow, Tables } from '../db/schema/tables.ts'
import { incidentColumns } from './queries.ts'

/** Which rows are meant; what is given adds up. */
export interface IncidentFilter {
  readonly integrationId?: number | undefined
  readonly status?: IncidentRow['status'] | undefined
  readonly source?: IncidentRow['source'] | undefined
  /** Opened at this moment or after it. */
  readonly since?: Date | undefined
  /** Opened before this moment. */
  readonly until?: Date | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
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
}

/** Newest id first, below the id given. */
export function pageOfIncidents(
  db: Database,
  tables: Tables,
  filter: IncidentFilter,
  { below, limit }: { below: number | undefined; limit: number },
) {
  const { incidents, integrations } = tables
  const { integrationId, status, source, since, until, owner } = filter
  return summaries(db, tables)
    .where(
      and(
        integrationId === undefined ? undefined : eq(incidents.integrationId, integrationId),
        status === undefined ? undefined : eq(incidents.status, status),
        source === undefined ? undefined : eq(incidents.source, source),
        since === undefined ? undefined : gte(incidents.openedAt, since),
        until === undefined ? undefined : lt(incidents.openedAt, until),
        owner === undefined ? undefined : eq(integrations.ownerType, owner.type),
        owner === undefined ? undefined : eq(integrations.ownerId, owner.id),
        below === undefined ? undefined : lt(incidents.id, below),
      ),
    )
    .orderBy(desc(incidents.id))
    .limit(limit)
}

export async function findIncidentSummary(db: Database, tables: Tables, id: number): Promise<IncidentSummary | null> {
  const [row] = await summaries(db, tables).where(eq(tables.incidents.id, id))
  return row ?? null
}

function summaries(db: Database, { incidents, integrations }: Tables) {
  return db
    .select({
      ...incidentColumns(incidents),
      integrationId: incidents.integrationId,
      provider: integrations.provider,
      integrationName: integrations.name,
    })
    .from(incidents)
    .innerJoin(integrations, eq(integrations.id, incidents.integrationId))
}
