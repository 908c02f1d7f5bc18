/** Figures over the request log. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { FailureClass } from '../calls/failure-class-rules.ts'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'

/**
 * Class of a row's failure; null: it succeeded. A row with an error and no class (the framework writes none, a host may)
 * is `unknown`. Every figure over the log counts by it.
 */
export const CLASS_OF_REQUEST = sql`coalesce(failure_class, case when error is not null then 'unknown' end)`

export interface Traffic {
  readonly requests: number
  readonly failed: number
}

/**
 * Rows of the last 24 hours, retries included, of these integrations: one statement for all of them, so that at worst the
 * day's rows are read once, by the index on the time. (A count for each integration read them once for each of the busy
 * ones.)
 */
export async function trafficOfLastDay(
  framework: Framework,
  integrationIds: readonly number[],
): Promise<Map<number, Traffic>> {
  const { db, tables } = framework
  const since = beginningOf({ hours: 24, nowMs: givenNowMs(framework) })
  const ids = sql.join(
    integrationIds.map((id) => sql`${id}`),
    sql`, `,
  )
  const rows = await db.execute<{ integration_id: string; requests: number; failed: number }>(sql`
    select integration_id, count(*)::int as requests, count(${CLASS_OF_REQUEST})::int as failed
    from ${tables.requests}
    where integration_id in (${ids}) and created_at > ${since}
    group by integration_id`)
  return new Map(rows.map((row) => [Number(row.integration_id), { requests: row.requests, failed: row.failed }]))
}

/** How a set of requests went. */
export interface TrafficFigures {
  readonly requests: number
  readonly failures: Readonly<Record<FailureClass, number>>
  /** Of those whose duration is known; null without one, as the next. */
  readonly meanMs: number | null
  readonly p95Ms: number | null
  /** How often their answers were served again. */
  readonly cacheHits: number
}

/** A length of time that ends at the given moment. Rows are chosen by it. */
export interface Period {
  readonly hours: number
  /** Its end; null: the database's clock. */
  readonly nowMs: number | null
}

/** Of one integration, or of a provider's, or of all. */
export type TrafficOf = { readonly integrationId: number } | { readonly provider: string } | 'all'

/**
 * Counted by duration first: of millions of rows only the different durations are sorted, some thousands, and the
 * percentile is exact all the same.
 */
export async function trafficFigures(
  db: Database,
  tables: Tables,
  of: TrafficOf,
  period: Period,
): Promise<TrafficFigures> {
  const [row] = await db.execute<{
    requests: number
    upstream: number
    throttle: number
    client: number
    unknown: number
    mean_ms: number | null
    p95_ms: number | null
    cache_hits: number
  }>(sql`
    with counted as (
      select duration_ms, failure_class, count(*) as requests, sum(cache_hits) as hits
      from (${requestsOf(tables, of, period)}) r
      group by duration_ms, failure_class
    ), ranked as (
      select duration_ms, sum(requests) over (order by duration_ms) as upto, sum(requests) over () as timed
      from counted where duration_ms is not null
    )
    select coalesce(sum(requests), 0)::float8 as requests, coalesce(sum(hits), 0)::float8 as cache_hits,
           coalesce(sum(requests) filter (where failure_class = 'upstream'), 0)::float8 as upstream,
           coalesce(sum(requests) filter (where failure_class = 'throttle'), 0)::float8 as throttle,
           coalesce(sum(requests) filter (where failure_class = 'client'), 0)::float8 as client,
           coalesce(sum(requests) filter (where failure_class = 'unknown'), 0)::float8 as unknown,
           (sum(duration_ms * requests) / sum(requests) filter (where duration_ms is not null))::float8 as mean_ms,
           (select min(duration_ms) from ranked where upto >= timed * 0.95) as p95_ms
    from counted`)
  const { requests = 0, upstream = 0, throttle = 0, client = 0, unknown = 0 } = row ?? {}
  return {
    requests,
    failures: { upstream, throttle, client, unknown },
    meanMs: row?.mean_ms ?? null,
    p95Ms: row?.p95_ms ?? null,
    cacheHits: row?.cache_hits ?? 0,
  }
}

/** The errors that its failed requests had most often, the most frequent first. */
export async function mostFrequentErrors(
  db: Database,
  tables: Tables,
  integrationId: number,
  { limit, ...period }: Period & { readonly limit: number },
): Promise<{ error: string; requests: number }[]> {
  return db.execute<{ error: string; requests: number }>(sql`
    select error, count(*)::int as requests
    from (${requestsOf(tables, { integrationId }, period)}) r
    where error is not null
    group by error order by count(*) desc, error limit ${limit}`)
}

/** Runs of syncs by the status of their log, without backfills. */
export async function syncRunsByStatus(
  db: Database,
  tables: Tables,
  provider: string | null,
  period: Period,
): Promise<Map<string, number>> {
  const rows = await db.execute<{ status: string; runs: number }>(sql`
    select status, count(*)::float8 as runs
    from ${tables.logs}
    where operation = 'sync' and created_at > ${beginningOf(period)} ${ofProvider(tables, provider)}
    group by status`)
  return new Map(rows.map(({ status, runs }) => [status, runs]))
}

/** One question for each integration: their index begins with the integration, and none is on the time alone. */
export async function webhooksByStatus(
  db: Database,
  { integrations, webhooks }: Tables,
  provider: string | null,
  period: Period,
): Promise<Map<string, number>> {
  const rows = await db.execute<{ status: string; webhooks: number }>(sql`
    select w.status, sum(w.webhooks)::float8 as webhooks
    from ${integrations} i cross join lateral (
      select status, count(*) as webhooks
      from ${webhooks}
      where integration_id = i.id and created_at > ${beginningOf(period)}
      group by status
    ) w
    ${provider === null ? sql`` : sql`where i.provider = ${provider}`}
    group by w.status`)
  return new Map(rows.map((row) => [row.status, row.webhooks]))
}

/**
 * Of one integration by its index, whose second column is the stored class: so the conditions name that one, and each of the
 * two parts is a range of the index.
 */
function requestsOf(tables: Tables, of: TrafficOf, period: Period): SQL {
  const since = sql`created_at > ${beginningOf(period)}`
  const chosen = sql`select duration_ms, ${CLASS_OF_REQUEST} as failure_class, cache_hits, error from ${tables.requests} where ${since}`
  if (of === 'all') return chosen
  if ('provider' in of) return sql`${chosen} ${ofProvider(tables, of.provider)}`
  return sql`
    ${chosen} and integration_id = ${of.integrationId} and failure_class is null
    union all
    ${chosen} and integration_id = ${of.integrationId} and failure_class in ('upstream', 'throttle', 'client', 'unknown')`
}

function ofProvider({ integrations }: Tables, provider: string | null): SQL {
  return provider === null
    ? sql``
    : sql`and integration_id in (select id from ${integrations} where provider = ${provider})`
}

function beginningOf({ hours, nowMs }: Period): SQL {
  const end = nowMs === null ? sql`now()` : sql`to_timestamp(${nowMs}::double precision / 1000)`
  return sql`${end} - make_interval(hours => ${hours}::int)`
}
