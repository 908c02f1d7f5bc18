/** Statements over the staleness marker. They are conditional: of two evaluations at once one sees an edge. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { DeclaredStream } from './due.ts'
import { longestSeconds, streamRows } from './due.ts'
import { sumUp } from './sync-rows.ts'

export interface ScheduledProvider {
  readonly provider: string
  /** The provider's default interval; null: it has none. */
  readonly minutes: number | null
  /** False: the provider fails to say, so an integration without an interval of its own is neither late nor recovered. */
  readonly isKnown: boolean
}

export interface StalenessRule {
  readonly providers: readonly ScheduledProvider[]
  readonly staleAfterIntervals: number
  /** Of edges. */
  readonly limit: number
}

/** An integration that crossed an edge. */
export interface StaleEdge {
  readonly id: number
  readonly provider: string
  /** Null: the integration's own. */
  readonly stream: string | null
  /** Since its last clean run, or its creation. */
  readonly secondsSinceSync: number
  /** 0: it has no interval any more, or is not declared any more, and so recovered. */
  readonly intervalMinutes: number
  readonly lastErrorAt: Date | null
}

/**
 * `stale`: sets the marker of active integrations that are late and do not have it. `recovered`: clears the marker of those
 * that are late no more, or run only by hand now; an inactive one keeps it. The rows are locked until the transaction ends.
 */
export async function crossEdge(
  tx: Transaction,
  { integrations }: Tables,
  { providers, staleAfterIntervals, limit }: StalenessRule,
  edge: 'stale' | 'recovered',
): Promise<StaleEdge[]> {
  // Null without an interval.
  const isLate = sql`(since.seconds > since.minutes::float8 * 60 * ${staleAfterIntervals}::float8)`
  const crosses = {
    stale: sql`i.sync_stale_alerted_at is null and ${isLate}`,
    recovered: sql`i.sync_stale_alerted_at is not null and ${isLate} is not true`,
  }
  const marker = { stale: sql`clock_timestamp()`, recovered: sql`null` }
  const rows = await tx.execute<EdgeRow>(sql`
    with crossed as (
      select i.id, since.seconds, since.minutes
      from ${integrations} i
      join jsonb_to_recordset(${jsonText(providers)}::jsonb) as p (provider text, minutes double precision, "isKnown" boolean) on p.provider = i.provider
      cross join lateral (
        select coalesce(i.sync_interval_minutes, p.minutes) as minutes,
               extract(epoch from clock_timestamp() - coalesce(i.last_synced_at, i.created_at))::float8 as seconds
      ) since
      where i.is_active and i.health_status <> 'disabled' and (p."isKnown" or i.sync_interval_minutes is not null)
        and ${crosses[edge]}
      order by i.id limit ${limit}
      for no key update of i skip locked
    )
    update ${integrations} i set sync_stale_alerted_at = ${marker[edge]}
    from crossed where i.id = crossed.id
    returning i.id, i.provider, null as stream, crossed.seconds, crossed.minutes, i.last_error_at as error_at`)
  return edgesOf(rows)
}

/** The same of named streams; what the integrations' own columns sum up follows. */
export async function crossStreamEdge(
  tx: Transaction,
  tables: Tables,
  { declared, staleAfterIntervals, limit }: Omit<StalenessRule, 'providers'> & { declared: readonly DeclaredStream[] },
  edge: 'stale' | 'recovered',
): Promise<StaleEdge[]> {
  if (declared.length === 0) return []
  const { integrations, streams } = tables
  const isLate = sql`(since.seconds > since.allowed)`
  const crosses = {
    stale: sql`s.sync_stale_alerted_at is null and ${isLate}`,
    recovered: sql`s.sync_stale_alerted_at is not null and ${isLate} is not true`,
  }
  const marker = { stale: sql`clock_timestamp()`, recovered: sql`null` }
  const rows = await tx.execute<EdgeRow>(sql`
    with crossed as (
      select i.id, i.provider, i.last_error_at, s.stream, since.seconds, since.interval / 60 as minutes
      from ${streams} s join ${integrations} i on i.id = s.integration_id
      join ${streamRows(declared)} on d.provider = i.provider and d.stream = s.stream
      cross join lateral (
        select ${longestSeconds} as interval,
               case when ${longestSeconds} is not null
                    then coalesce(d."staleSeconds", ${longestSeconds} * ${staleAfterIntervals}::float8) end as allowed,
               extract(epoch from clock_timestamp() - coalesce(s.last_synced_at, s.created_at))::float8 as seconds
      ) since
      where i.is_active and i.health_status <> 'disabled' and ${crosses[edge]}
      order by i.id, s.stream limit ${limit}
      for no key update of i skip locked
    )
    update ${streams} s set sync_stale_alerted_at = ${marker[edge]}
    from crossed where s.integration_id = crossed.id and s.stream = crossed.stream
    returning crossed.id, crossed.provider, s.stream, crossed.seconds, crossed.minutes, crossed.last_error_at as error_at`)
  for (const provider of new Set(rows.map((row) => row.provider))) {
    const ids = new Set(rows.filter((row) => row.provider === provider).map((row) => Number(row.id)))
    const names = declared.filter((stream) => stream.provider === provider).map(({ stream }) => stream)
    await sumUp(tx, tables, [...ids], names)
  }
  return edgesOf(rows)
}

/** What a process does not declare stays stale this long: perhaps another release does, which is being rolled out. */
const UNDECLARED_STALE = sql.raw("interval '1 day'")

/**
 * Clears the markers of what a release has removed, also of integrations that are switched off: a stream that its provider no longer
 * declares, and the integration's own where neither a sync of its own nor a stream is stale. No run would ever clear them.
 * Young markers stay: while a release rolls out, workers of two releases would set and clear them in turn.
 *
 * @param registered providers of this process; rows of others stay as they are
 */
export async function clearRemoved(
  tx: Transaction,
  { integrations, streams }: Tables,
  {
    registered,
    providers,
    declared,
    limit,
  }: Omit<StalenessRule, 'staleAfterIntervals'> & {
    readonly registered: readonly string[]
    readonly declared: readonly DeclaredStream[]
  },
): Promise<StaleEdge[]> {
  const isOf = (names: readonly string[]) =>
    sql`i.provider in (select jsonb_array_elements_text(${jsonText(names)}::jsonb))`
  const rolledOut = sql`clock_timestamp() - ${UNDECLARED_STALE}`
  const withoutSync = registered.filter((name) => !providers.some(({ provider }) => provider === name))
  const removedStreams = await tx.execute<EdgeRow>(sql`
    with removed as (
      select i.id, i.provider, i.last_error_at, s.stream, coalesce(s.last_synced_at, s.created_at) as since
      from ${streams} s join ${integrations} i on i.id = s.integration_id
      where greatest(s.sync_stale_alerted_at, s.last_run_at) < ${rolledOut} and s.sync_stale_alerted_at is not null
        and ${isOf(registered)}
        and not exists (select from ${streamRows(declared)} where d.provider = i.provider and d.stream = s.stream)
      order by i.id, s.stream limit ${limit}
      for no key update of i skip locked
    )
    update ${streams} s set sync_stale_alerted_at = null
    from removed where s.integration_id = removed.id and s.stream = removed.stream
    returning removed.id, removed.provider, s.stream, ${secondsSince(sql`removed.since`)}, null as minutes,
      removed.last_error_at as error_at`)
  const removedOwn = await tx.execute<EdgeRow>(sql`
    with removed as (
      select i.id, coalesce(i.last_synced_at, i.created_at) as since from ${integrations} i
      where i.sync_stale_alerted_at < ${rolledOut} and ${isOf(withoutSync)}
        and not exists (
          select from ${streams} s where s.integration_id = i.id and s.sync_stale_alerted_at is not null)
      order by i.id limit ${limit}
      for no key update of i skip locked
    )
    update ${integrations} i set sync_stale_alerted_at = null
    from removed where i.id = removed.id
    returning i.id, i.provider, null as stream, ${secondsSince(sql`removed.since`)}, null as minutes, i.last_error_at as error_at`)
  const told = new Set(removedStreams.map(({ id }) => id))
  // What sums up a removed stream is no edge of its own.
  return edgesOf([...removedStreams, ...removedOwn.filter(({ id }) => !told.has(id))])
}

const secondsSince = (moment: SQL): SQL => sql`extract(epoch from clock_timestamp() - ${moment})::float8 as seconds`

interface EdgeRow extends Record<string, unknown> {
  id: string
  provider: string
  stream: string | null
  seconds: number
  minutes: number | null
  error_at: string | null
}

function edgesOf(rows: readonly EdgeRow[]): StaleEdge[] {
  return rows
    .map((row) => ({
      id: Number(row.id),
      provider: row.provider,
      stream: row.stream,
      secondsSinceSync: Math.floor(Number(row.seconds)),
      intervalMinutes: Number(row.minutes ?? 0),
      lastErrorAt: row.error_at === null ? null : new Date(row.error_at),
    }))
    .sort((a, b) => a.id - b.id)
}
