/** Statements over the incidents. */
import { eq } from 'drizzle-orm'
import type { Database } from '../client.ts'
import type { IncidentRow, Tables } from '../schema/tables.ts'

/** What a host is told of an incident. */
export type IncidentFacts = Omit<IncidentRow, 'integrationId' | 'createdAt' | 'updatedAt'>

export async function findIncident(db: Database, { incidents }: Tables, id: number): Promise<IncidentFacts | null> {
  const [row] = await db
    .select({
      id: incidents.id,
      status: incidents.status,
      source: incidents.source,
      reason: incidents.reason,
      peakSeverity: incidents.peakSeverity,
      openedAt: incidents.openedAt,
      lastErrorAt: incidents.lastErrorAt,
      closedAt: incidents.closedAt,
    })
    .from(incidents)
    .where(eq(incidents.id, id))
  return row ?? null
}
