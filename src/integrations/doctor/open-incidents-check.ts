/** Incidents that wait for a person to look at them. Rule: docs/behaviour/incidents.md. */
import { and, asc, eq, isNull, lte, or, sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { errorsOfIncident } from '../../explain/incident-errors.ts'
import type { Framework } from '../../framework/context.ts'
import { incidentColumns } from '../../incidents/queries.ts'
import { causeWords } from '../../incidents/rules.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, MAX_FINDINGS, MAX_LOOKED_AT, moment, ok, warning } from './doctor-check.ts'

export const openIncidents: Check = {
  name: 'incidents.open',
  needs: ['database.migrations'],
  async look(framework) {
    const { incidents } = framework.tables
    const found: Observation[] = []
    for (const incident of await unattendedIncidents(framework.db, framework.tables)) {
      const { id, integrationId, reason, source, peakSeverity, openedAt } = incident
      // No one reads the errors of those that are only counted.
      const error = found.length < MAX_FINDINGS ? await newestError(framework, incident) : null
      found.push(
        warning(
          `Incident ${id} of integration ${integrationId} is open since ${moment(openedAt)}: ${causeWords(reason)} (${reason}, by ${source}); at worst ${peakSeverity}.${error === null ? '' : ` The newest error: ${error}.`} Once a person has seen it: \`integrations acknowledge-incident ${id}\`.`,
          `integrations explain incident:${id}`,
          { integrationId, since: openedAt },
        ),
      )
    }
    if (found.length > 0) return capped(found, '')
    const open = await framework.db.$count(incidents, eq(incidents.status, 'open'))
    return [ok(open === 0 ? 'No incident is open.' : `${open} open, each acknowledged or snoozed by a person.`)]
  },
}

/** Open, and neither acknowledged nor snoozed; the longest first. */
function unattendedIncidents(db: Database, { incidents }: Tables) {
  const { id, status, openedAt, acknowledgedAt, snoozedUntil } = incidents
  return db
    .select(incidentColumns(incidents))
    .from(incidents)
    .where(
      and(
        eq(status, 'open'),
        isNull(acknowledgedAt),
        or(isNull(snoozedUntil), lte(snoozedUntil, sql`clock_timestamp()`)),
      ),
    )
    .orderBy(asc(openedAt), asc(id))
    .limit(MAX_LOOKED_AT)
}

/** Without backquotes: what stands between two is a command (local-commands.ts). */
async function newestError(
  framework: Framework,
  incident: Parameters<typeof errorsOfIncident>[1],
): Promise<string | null> {
  const errors = await errorsOfIncident(framework, incident)
  const [newest] = errors.sort((a, b) => b.at.getTime() - a.at.getTime())
  return newest === undefined ? null : newest.text.replace(/\.$/, '').replaceAll('`', "'")
}
