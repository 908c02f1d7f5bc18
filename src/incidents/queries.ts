/** Statements over the incidents. The rules that need a lock are functions (drizzle/functions/). */

import type { SQL } from 'drizzle-orm'
import { and, desc, eq, isNull, lt, or, sql } from 'drizzle-orm'
import type { CallEvent } from '../calls/admission/call-queries.ts'
import { aroundCallStateId } from '../calls/call-target.ts'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { IncidentRow, Tables } from '../db/schema/tables.ts'
import { functionNamed } from '../db/sql-functions.ts'
import { settlementEventNames } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'
import type { HealthStatus } from '../integrations/rules.ts'
import type { IncidentSight } from './incident-jobs.ts'
import type { IncidentSource } from './rules.ts'

/** What an event says of an incident. */
export type IncidentFacts = Pick<
  IncidentRow,
  'id' | 'integrationId' | 'status' | 'source' | 'reason' | 'peakSeverity' | 'openedAt' | 'lastErrorAt' | 'closedAt'
>

export type IncidentEvent = Extract<CallEvent, { readonly incidentId: number }>

/** The columns of {@link IncidentFacts}. */
export function incidentColumns(incidents: Tables['incidents']) {
  const { id, integrationId, status, source, reason, peakSeverity, openedAt, lastErrorAt, closedAt } = incidents
  return { id, integrationId, status, source, reason, peakSeverity, openedAt, lastErrorAt, closedAt }
}

export async function findIncident(db: Database, { incidents }: Tables, id: number): Promise<IncidentFacts | null> {
  const [row] = await db.select(incidentColumns(incidents)).from(incidents).where(eq(incidents.id, id))
  return row ?? null
}

/** Why an incident is opened, or the open one made worse. */
export interface IncidentCause {
  readonly source: IncidentSource
  readonly reason: string
  readonly severity: HealthStatus
}

/**
 * Opens or escalates the incident of each of these integrations, in the transaction of what has gone wrong and under the locks of
 * their rows. Durable events are written with it. Nothing happens where `observability.incidents_enabled` is off.
 *
 * @returns the events by integration, to be announced after the commit
 */
export async function openIncidents(
  framework: Framework,
  tx: Transaction,
  { source, reason, severity }: IncidentCause,
  integrations: readonly { readonly id: number; readonly lastErrorAt: Date | null }[],
): Promise<Map<number, IncidentEvent[]>> {
  const { tables, config } = framework
  if (integrations.length === 0 || !config.observability.incidents_enabled) return new Map()
  const given = integrations.map(({ id, lastErrorAt }) => ({ id, error: lastErrorAt?.toISOString() ?? null }))
  const rows = await tx.execute<Answer>(sql`
    select given.id, ${functionNamed(tables, 'open_incident')}(
      given.id, 0, ${source}, ${reason}, ${severity}, given.error, ${momentOf(sql`${givenNowMs(framework)}::bigint`)}) as events
    from jsonb_to_recordset(${jsonText(given)}::jsonb) as given (id bigint, error timestamptz)
    order by given.id`)
  return recorded(framework, tx, rows)
}

/**
 * Closes the open incident of each of these integrations that is well: healthy, its breaker closed, and no other cause of an incident
 * lasts. It judges under the lock of the integration's row, which it takes, in the transaction of what has healed. Durable events are
 * written with it. Rule: docs/behaviour/incidents.md, "The end".
 *
 * @param olderThanSeconds only those that are strictly older, where a breaker may be open whose cooldown is over; null: of any
 *   age
 * @returns the events by integration, to be announced after the commit
 */
export async function closeIncidents(
  framework: Framework,
  tx: Transaction,
  ids: readonly number[],
  olderThanSeconds: number | null = null,
): Promise<Map<number, IncidentEvent[]>> {
  const { tables, config } = framework
  if (ids.length === 0) return new Map()
  const { enabled, cooldown_seconds: cooldownSeconds } = config.circuit_breaker
  const [before, after] = aroundCallStateId(framework)
  const rows = await tx.execute<Answer>(sql`
    select given.id, ${functionNamed(tables, 'close_incident_if_well')}(
      given.id, ${before}::text || given.id || ${after}::text, ${enabled}, ${cooldownSeconds}::bigint,
      ${olderThanSeconds}::bigint, ${givenNowMs(framework)}::bigint) as events
    from (select value::bigint as id from jsonb_array_elements_text(${jsonText(ids)}::jsonb)) as given
    order by given.id`)
  return recorded(framework, tx, rows)
}

type Answer = Record<'id', string> & { readonly events: readonly IncidentEvent[] }

/** Writes durable events for those that have a name. @returns without the integrations for which nothing has changed */
async function recorded(
  framework: Framework,
  tx: Transaction,
  rows: readonly Answer[],
): Promise<Map<number, IncidentEvent[]>> {
  const changed = rows.filter(({ events }) => events.length > 0)
  const names = settlementEventNames(framework)
  if (changed.length > 0 && names !== null)
    await tx.execute(sql`
      select ${functionNamed(framework.tables, 'record_events')}(given.id, given.events, ${jsonText(names)}::jsonb)
      from jsonb_to_recordset(${jsonText(changed)}::jsonb) as given (id bigint, events jsonb)
      order by given.id`)
  return new Map(changed.map(({ id, events }) => [Number(id), [...events]]))
}

/**
 * Notes that the workflow of an integration's incidents has seen them, and reads the newest; null: it has none. A change that
 * comes in between takes the note away, so it counts as unseen.
 *
 * @param autoCloseSeconds age from which an open one may be closed by itself
 * @param nowMs null: the database's clock
 */
export async function seeIncident(
  db: Database,
  { incidents }: Tables,
  integrationId: number,
  { autoCloseSeconds, nowMs }: { readonly autoCloseSeconds: number; readonly nowMs: number | null },
): Promise<IncidentSight | null> {
  const now = momentOf(sql`${nowMs}::bigint`)
  const own = eq(incidents.integrationId, integrationId)
  const isUnseen = or(isNull(incidents.followedAt), lt(incidents.followedAt, incidents.updatedAt))
  await db
    .update(incidents)
    .set({
      followedAt: sql`greatest(${now}, ${incidents.updatedAt})`,
      // Looking changes nothing.
      updatedAt: sql`${incidents.updatedAt}`,
    })
    .where(and(own, or(eq(incidents.status, 'open'), isUnseen)))
  const [row] = await db
    .select({
      ...incidentColumns(incidents),
      // Strictly older: at the very second it may not be closed yet.
      leftSeconds: sql<number>`greatest(0, floor(
        ${autoCloseSeconds}::float8 - extract(epoch from ${now} - ${incidents.openedAt})::float8) + 1)::float8`,
    })
    .from(incidents)
    .where(own)
    .orderBy(sql`${incidents.status} = 'open' desc`, desc(incidents.openedAt), desc(incidents.id))
    .limit(1)
  if (row === undefined) return null
  return {
    incidentId: row.id,
    status: row.status,
    source: row.source,
    reason: row.reason,
    peakSeverity: row.peakSeverity,
    openedAt: row.openedAt.toISOString(),
    lastErrorAt: row.lastErrorAt?.toISOString() ?? null,
    closedAt: row.closedAt?.toISOString() ?? null,
    autoCloseInSeconds: row.status === 'open' ? Number(row.leftSeconds) : null,
  }
}

/**
 * Integrations whose workflow has not seen a change of an incident, or has not looked at an open one for `sinceSeconds`.
 *
 * @param nowMs null: the database's clock
 */
export async function unfollowedIncidents(
  db: Database,
  { incidents }: Tables,
  {
    sinceSeconds,
    limit,
    nowMs,
  }: { readonly sinceSeconds: number; readonly limit: number; readonly nowMs: number | null },
): Promise<{ readonly integrationId: number; readonly isOpen: boolean }[]> {
  const rows = await db.execute<{ id: string; open: boolean }>(sql`
    select found.integration_id as id, bool_or(found.status = 'open') as open
    from (
      (select integration_id, status from ${incidents} where followed_at is null or followed_at < updated_at
       order by id limit ${limit})
      union all
      (select integration_id, status from ${incidents}
       where status = 'open' and followed_at < ${momentOf(sql`${nowMs}::bigint`)} - make_interval(secs => ${sinceSeconds})
       order by id limit ${limit})
    ) found
    group by found.integration_id order by found.integration_id`)
  return rows.map(({ id, open }) => ({ integrationId: Number(id), isOpen: open }))
}

/** The database's clock unless milliseconds since the epoch are given. */
function momentOf(nowMs: SQL): SQL {
  return sql`coalesce(to_timestamp(${nowMs} / 1000.0), clock_timestamp())`
}
