/** Statements over the incidents. The rules that need a lock are functions (drizzle/functions/). */

import type { SQL } from 'drizzle-orm'
import { and, desc, eq, isNull, lt, or, sql } from 'drizzle-orm'
import type { CallEvent, CallTarget } from '../calls/admission/call-queries.ts'
import { functionNamed } from '../calls/admission/call-queries.ts'
import { callTarget } from '../calls/call-target.ts'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { IncidentRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Integration } from '../providers/integration.ts'
import type { IncidentSight } from './incident-jobs.ts'

/** What an event says of an incident. */
export type IncidentFacts = Omit<IncidentRow, 'integrationId' | 'followedAt' | 'createdAt' | 'updatedAt'>

export type IncidentEvent = Extract<CallEvent, { readonly incidentId: number }>

/** The columns of {@link IncidentFacts}. */
export function incidentColumns(incidents: Tables['incidents']) {
  const { id, status, source, reason, peakSeverity, openedAt, lastErrorAt, closedAt } = incidents
  return { id, status, source, reason, peakSeverity, openedAt, lastErrorAt, closedAt }
}

export async function findIncident(db: Database, { incidents }: Tables, id: number): Promise<IncidentFacts | null> {
  const [row] = await db.select(incidentColumns(incidents)).from(incidents).where(eq(incidents.id, id))
  return row ?? null
}

export interface StaleOpening {
  readonly target: Pick<CallTarget, 'integrationId' | 'nowMs'>
  readonly lastErrorAt: Date | null
}

/** Opens or escalates the incident of each integration that became stale, under the locks of their rows. @returns events by integration */
export async function openStaleIncidents(
  tx: Transaction,
  tables: Tables,
  openings: readonly StaleOpening[],
): Promise<Map<number, IncidentEvent[]>> {
  const given = openings.map(({ target, lastErrorAt }) => ({
    id: target.integrationId,
    now: target.nowMs,
    error: lastErrorAt?.toISOString() ?? null,
  }))
  return byIntegration(
    await tx.execute<Answer>(sql`
      select given.id, ${functionNamed(tables, 'open_incident')}(
        given.id, 0, 'sync', 'sync_stale', 'failing', given.error, ${momentOf(sql`given.now`)}) as events
      from jsonb_to_recordset(${jsonText(given)}::jsonb) as given (id bigint, now bigint, error timestamptz)
      order by given.id`),
  )
}

/**
 * Closes the open incident of each of these integrations that is healthy, not stale, and whose breaker is closed. It judges
 * under the lock of the integration's row, which it takes, in the transaction of what has healed. Durable events are written
 * with it. Rule: docs/behaviour/incidents.md, "The end".
 *
 * @param olderThanSeconds only those that are strictly older, where a breaker may be open whose cooldown is over; null: of any
 *   age
 * @returns the events by integration, to be announced after the commit
 */
export async function closeIncidents(
  framework: Framework,
  tx: Transaction,
  integrations: readonly Pick<Integration, 'id' | 'provider'>[],
  olderThanSeconds: number | null = null,
): Promise<Map<number, IncidentEvent[]>> {
  const { tables } = framework
  const targets = integrations.map((integration) => callTarget(framework, integration))
  const [first] = targets
  if (first === undefined) return new Map()
  const given = targets.map(({ integrationId, key, rules, nowMs }) => ({
    id: integrationId,
    key,
    breaker: rules.breaker.enabled,
    cooldown: rules.breaker.cooldownSeconds,
    now: nowMs,
  }))
  const events = byIntegration(
    await tx.execute<Answer>(sql`
      select given.id, ${functionNamed(tables, 'close_incident_if_well')}(
        given.id, given.key, given.breaker, given.cooldown, ${olderThanSeconds}::bigint, given.now) as events
      from jsonb_to_recordset(${jsonText(given)}::jsonb)
        as given (id bigint, key text, breaker boolean, cooldown bigint, now bigint)
      order by given.id`),
  )
  if (first.eventNames !== null) await recordIncidentEvents(tx, tables, first.eventNames, events)
  return events
}

type Answer = Record<'id', string> & { readonly events: readonly IncidentEvent[] }

/** Without the integrations for which nothing has changed. */
function byIntegration(rows: readonly Answer[]): Map<number, IncidentEvent[]> {
  return new Map(rows.filter(({ events }) => events.length > 0).map(({ id, events }) => [Number(id), [...events]]))
}

/** Writes durable events for those that have a name. */
export async function recordIncidentEvents(
  tx: Transaction,
  tables: Tables,
  names: NonNullable<CallTarget['eventNames']>,
  events: ReadonlyMap<number, readonly IncidentEvent[]>,
): Promise<void> {
  if (events.size === 0) return
  const given = [...events].map(([id, list]) => ({ id, list }))
  await tx.execute(sql`
    select ${functionNamed(tables, 'record_events')}(given.id, given.list, ${jsonText(names)}::jsonb)
    from jsonb_to_recordset(${jsonText(given)}::jsonb) as given (id bigint, list jsonb)
    order by given.id`)
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
