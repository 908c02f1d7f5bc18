/**
 * Statements of the evaluation of failure rates.
 *
 * The count is a statement of its own: one that also writes, or locks rows, is never run in parallel by Postgres (manual,
 * 15.2), and it may read a million rows.
 */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import { CLASS_OF_REQUEST } from '../observability/traffic-queries.ts'
import type { ObservedRequests } from './anomaly-rules.ts'

export interface ObservedIntegration extends ObservedRequests {
  readonly id: number
  /** Whether its marker is set. */
  readonly isMarked: boolean
}

export interface ObservedWindow {
  /** Active integrations. */
  readonly active: number
  /** Those of them whose marker may have to change, by id: marked, or with enough requests. */
  readonly integrations: readonly ObservedIntegration[]
}

/** @param nowMs the window's end; null: the database's clock */
export async function observeWindow(
  db: Database,
  { integrations, requests }: Tables,
  { windowMinutes, minimumRequests, nowMs }: { windowMinutes: number; minimumRequests: number; nowMs: number | null },
): Promise<ObservedWindow> {
  const end = nowMs === null ? sql`now()` : sql`to_timestamp(${nowMs}::double precision / 1000)`
  const rows = await db.execute<{
    active: number
    id: string | null
    is_marked: boolean
    requests: number
    upstream: number
    throttle: number
    client: number
    unknown: number
  }>(sql`
    with observed as (
      select integration_id, count(*)::int as requests,
             count(*) filter (where failure_class = 'upstream')::int as upstream,
             count(*) filter (where failure_class = 'throttle')::int as throttle,
             count(*) filter (where failure_class = 'client')::int as client,
             count(*) filter (where ${CLASS_OF_REQUEST} = 'unknown')::int as unknown
      from ${requests}
      where created_at >= ${end} - make_interval(mins => ${windowMinutes}::int)
      group by integration_id
    )
    select counted.active, of.*
    from (select count(*)::int as active from ${integrations} where is_active) counted
    left join (
      select i.id, i.anomaly_alerted_at is not null as is_marked, coalesce(o.requests, 0) as requests,
             coalesce(o.upstream, 0) as upstream, coalesce(o.throttle, 0) as throttle,
             coalesce(o.client, 0) as client, coalesce(o.unknown, 0) as unknown
      from ${integrations} i left join observed o on o.integration_id = i.id
      where i.is_active and (i.anomaly_alerted_at is not null or o.requests >= ${minimumRequests}::int)
    ) of on true
    order by of.id`)
  return {
    active: rows[0]?.active ?? 0,
    integrations: rows.flatMap(({ id, is_marked, requests, upstream, throttle, client, unknown }) =>
      id === null
        ? []
        : [{ id: Number(id), isMarked: is_marked, requests, failures: { upstream, throttle, client, unknown } }],
    ),
  }
}

/**
 * Sets the markers of those that have none. Of two evaluations at once one gets each; a row that somebody holds is left to
 * the next evaluation.
 *
 * @returns whose marker was set
 */
export function markElevated(tx: Transaction, { integrations }: Tables, ids: readonly number[]): Promise<Set<number>> {
  return changedBy(
    tx,
    integrations,
    sql`anomaly_alerted_at = clock_timestamp()`,
    sql`i.is_active and i.anomaly_alerted_at is null`,
    ids,
  )
}

/** Clears the markers of those that have one; as {@link markElevated}. */
export function clearElevated(tx: Transaction, { integrations }: Tables, ids: readonly number[]): Promise<Set<number>> {
  return changedBy(
    tx,
    integrations,
    sql`anomaly_alerted_at = null`,
    sql`i.is_active and i.anomaly_alerted_at is not null`,
    ids,
  )
}

async function changedBy(
  tx: Transaction,
  integrations: Tables['integrations'],
  change: SQL,
  condition: SQL,
  ids: readonly number[],
): Promise<Set<number>> {
  const rows = await tx.execute<{ id: string }>(sql`
    with held as (
      select i.id from ${integrations} i
      where i.id in (select value::bigint from jsonb_array_elements_text(${jsonText(ids)}::jsonb)) and ${condition}
      order by i.id
      for no key update of i skip locked
    )
    update ${integrations} i set ${change} from held where i.id = held.id
    returning i.id`)
  return new Set(rows.map(({ id }) => Number(id)))
}
