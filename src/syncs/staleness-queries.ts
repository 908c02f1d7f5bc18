/** Statements over the staleness marker. Each is conditional: of two evaluations at once one sees an edge. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'

export interface ScheduledProvider {
  readonly provider: string
  /** The provider's default interval; null: it has none. */
  readonly minutes: number | null
  /** False: the provider fails to say; who has no interval of their own is neither late nor recovered. */
  readonly isKnown: boolean
}

export interface StalenessRule {
  readonly providers: readonly ScheduledProvider[]
  readonly staleAfterIntervals: number
  readonly limit: number
}

export interface StaleEdge {
  readonly id: number
  readonly provider: string
}

export interface LateSync extends StaleEdge {
  readonly secondsSinceSync: number
  readonly intervalMinutes: number
  readonly lastErrorAt: Date | null
}

/** Sets the marker of those that are late and don't have it; their rows are locked until the transaction ends. */
export async function markStale(tx: Transaction, { integrations }: Tables, rule: StalenessRule): Promise<LateSync[]> {
  const rows = await tx.execute<{
    id: string
    provider: string
    seconds: number
    minutes: number
    error_at: string | null
  }>(sql`
    with late as (
      ${active(integrations, rule)} and i.sync_stale_alerted_at is null and ${isLate(rule)}
      order by i.id limit ${rule.limit}
      for no key update of i skip locked
    )
    update ${integrations} i set sync_stale_alerted_at = clock_timestamp()
    from late where i.id = late.id
    returning i.id, i.provider, late.seconds, late.minutes, i.last_error_at as error_at`)
  return rows
    .map((row) => ({
      id: Number(row.id),
      provider: row.provider,
      secondsSinceSync: Math.floor(Number(row.seconds)),
      intervalMinutes: Number(row.minutes),
      lastErrorAt: row.error_at === null ? null : new Date(row.error_at),
    }))
    .sort((a, b) => a.id - b.id)
}

/**
 * Clears the marker of those that are late no more, or run only by hand now; their rows are locked until the transaction ends. An
 * inactive one keeps it.
 */
export async function clearRecovered(
  tx: Transaction,
  { integrations }: Tables,
  rule: StalenessRule,
): Promise<StaleEdge[]> {
  const rows = await tx.execute<{ id: string; provider: string }>(sql`
    with recovered as (
      ${active(integrations, rule)} and i.sync_stale_alerted_at is not null and ${isLate(rule)} is not true
      order by i.id limit ${rule.limit}
      for no key update of i skip locked
    )
    update ${integrations} i set sync_stale_alerted_at = null
    from recovered where i.id = recovered.id
    returning i.id, i.provider`)
  return rows.map(({ id, provider }) => ({ id: Number(id), provider })).sort((a, b) => a.id - b.id)
}

/** Active integrations of these providers, with their interval and the seconds since their last clean run. */
function active(integrations: Tables['integrations'], { providers }: StalenessRule): SQL {
  return sql`
    select i.id, since.seconds, since.minutes
    from ${integrations} i
    join jsonb_to_recordset(${jsonText(providers)}::jsonb) as p (provider text, minutes double precision, "isKnown" boolean) on p.provider = i.provider
    cross join lateral (
      select coalesce(i.sync_interval_minutes, p.minutes) as minutes,
             extract(epoch from clock_timestamp() - coalesce(i.last_synced_at, i.created_at))::float8 as seconds
    ) since
    where i.is_active and i.health_status <> 'disabled' and (p."isKnown" or i.sync_interval_minutes is not null)`
}

/** Null without an interval. */
function isLate({ staleAfterIntervals }: StalenessRule): SQL {
  return sql`(since.seconds > since.minutes::float8 * 60 * ${staleAfterIntervals}::float8)`
}
