/** What charts show: figures by point of time, the busiest integrations, sparklines. Rule: docs/behaviour/charts.md, "Figures". */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { FailureClass } from '../calls/failure-class-rules.ts'
import { databaseNowMs } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { checkChoice, checkIds, checkTexts } from '../framework/list-filter.ts'
import { givenNowMs } from '../framework/logger.ts'
import type { Owner } from '../integrations/rules.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import { CLASS_OF_REQUEST } from '../observability/traffic-queries.ts'
import type { OfIntegrations } from './facts.ts'
import { bucketOf, factsOf, momentOf } from './facts.ts'
import { rollUpProgress } from './roll-up.ts'
import type { ChartWindow, Histogram, Points, Sources } from './rollup-rules.ts'
import {
  ALL_PROVIDERS,
  busiestSpanOf,
  CHART_WINDOWS,
  COUNTER,
  percentileOf,
  pointsOf,
  pointsOfSparkline,
  sourcesOf,
} from './rollup-rules.ts'

/** Whose figures; all that is given must hold, and nothing given is all integrations. */
export interface ChartFilter {
  readonly provider?: string | undefined
  readonly integrationId?: number | undefined
  readonly owner?: Owner | undefined
}

/** Milliseconds, within 7 %; null: there was none to measure. */
export interface Percentiles {
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
}

export interface Figures {
  /** Outbound calls: attempts that reached a provider, or tried to. */
  readonly calls: number
  readonly failures: number
  readonly byClass: Readonly<Record<FailureClass, number>>
  /** From 0 to 1; null: there was no call. */
  readonly failureRate: number | null
  readonly durationMs: Percentiles
  readonly webhooks: { readonly received: number; readonly processed: number; readonly failed: number }
  /** From the arrival of a webhook to its settlement. */
  readonly lagMs: Percentiles
  readonly items: { readonly succeeded: number; readonly failed: number; readonly skipped: number }
}

export interface ChartPoint extends Figures {
  readonly at: Date
  /** Length: the last point's is what has passed of it. */
  readonly seconds: number
  readonly itemsAMinute: number
}

export interface ChartSeries {
  readonly window: ChartWindow
  readonly from: Date
  /** Now. */
  readonly to: Date
  readonly pointSeconds: number
  /** Oldest first, one for each part of the window, also where nothing happened. */
  readonly points: readonly ChartPoint[]
  readonly total: Figures
  /** Not counted yet: no worker has run for long, or the deployment is being counted for the first time. */
  readonly missing: { readonly from: Date; readonly to: Date } | null
}

export interface BusiestIntegration {
  readonly integrationId: number
  readonly name: string
  readonly provider: string
  readonly calls: number
  readonly failures: number
}

/** Of one integration, the last 24 hours by the hour, oldest first. */
export interface Sparkline {
  readonly calls: readonly number[]
  readonly failures: readonly number[]
}

const BUSIEST_BY = ['calls', 'failures', 'either'] as const
export type BusiestBy = (typeof BUSIEST_BY)[number]

/** As many as the longest page of a list has rows. */
const MOST_SPARKLINES = 200
const MOST_BUSIEST = 100

/** @throws InvalidArgumentException */
export async function chartSeries(
  framework: Framework,
  { window, ...filter }: ChartFilter & { readonly window: ChartWindow },
): Promise<ChartSeries> {
  checkChoice('window', window, CHART_WINDOWS)
  checkFilter(filter)
  const { points, sources, nowMs } = await read(framework, (nowMs) => pointsOf(window, nowMs))
  const { pointSeconds } = points
  const rows = await framework.db.execute<{ at: string; counters: Record<string, number> }>(sql`
    select extract(epoch from at) * 1000 as at, jsonb_object_agg(counter, n) as counters
    from (
      select at, counter, sum(n) as n from (${sql.join(partsOf(framework, sources, filter, pointSeconds), sql` union all `)}) part
      group by at, counter
    ) summed
    group by at`)
  const counted = new Map(rows.map(({ at, counters }) => [Number(at), countersOf(counters)]))
  const total = new Map<number, number>()
  const all: ChartPoint[] = []
  for (let atMs = points.fromMs; atMs < points.toMs; atMs += pointSeconds * 1_000) {
    const counters = counted.get(atMs) ?? new Map<number, number>()
    for (const [counter, n] of counters) total.set(counter, (total.get(counter) ?? 0) + n)
    const seconds = Math.min(pointSeconds, Math.max(1, (nowMs - atMs) / 1_000))
    const figures = figuresOf(counters)
    const { succeeded, failed, skipped } = figures.items
    const itemsAMinute = ((succeeded + failed + skipped) * 60) / seconds
    all.push({ at: new Date(atMs), seconds, ...figures, itemsAMinute })
  }
  return {
    window,
    from: new Date(points.fromMs),
    to: new Date(nowMs),
    pointSeconds,
    points: all,
    total: figuresOf(total),
    missing: missingOf(sources),
  }
}

/**
 * The integrations with the most calls or failures in a window, the most first; none without any. By either: the most of each, the
 * most calls first, from one pass over the buckets.
 *
 * @throws InvalidArgumentException
 */
export async function busiestIntegrations(
  framework: Framework,
  {
    window,
    by,
    limit = 10,
    ...filter
  }: ChartFilter & {
    readonly window: ChartWindow
    readonly by: BusiestBy
    readonly limit?: number | undefined
  },
): Promise<BusiestIntegration[]> {
  checkChoice('window', window, CHART_WINDOWS)
  checkChoice('by', by, BUSIEST_BY)
  checkFilter(filter)
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_BUSIEST)
    throw new InvalidArgumentException('limit', `1 to ${MOST_BUSIEST} are allowed, ${String(limit)} was given`)
  const { sources } = await read(framework, (nowMs) => busiestSpanOf(window, nowMs))
  const { rollups, integrations } = framework.tables
  const of = isOf(framework, filter)
  const buckets = sources.buckets.map(
    (bucket) => sql`
      select integration_id, sum(calls) as calls, sum(failures) as failures from ${rollups}
      where ${within(bucket)} and integration_id is not null and ${of(sql`integration_id`)} group by integration_id`,
  )
  const parts = [...buckets, ...tailSums(framework, sources, of)]
  const most = (figure: SQL): SQL =>
    sql`(select * from summed where ${figure} > 0 order by ${figure} desc, integration_id limit ${limit})`
  const chosen = { calls: [sql`calls`], failures: [sql`failures`], either: [sql`calls`, sql`failures`] }[by]
  const rows = await framework.db.execute<{
    id: string
    name: string
    provider: string
    calls: number
    failures: number
  }>(sql`
    with summed as materialized (
      select integration_id, sum(calls)::float8 as calls, sum(failures)::float8 as failures
      from (${sql.join(parts, sql` union all `)}) part
      group by integration_id
    )
    select i.id, i.name, i.provider, busiest.calls, busiest.failures
    from (${sql.join(chosen.map(most), sql` union `)}) busiest join ${integrations} i on i.id = busiest.integration_id
    order by ${by === 'failures' ? sql`busiest.failures` : sql`busiest.calls`} desc, i.id`)
  return rows.map(({ id, ...row }) => ({ integrationId: Number(id), ...row }))
}

/** One statement for all of them, also those without a call. @throws InvalidArgumentException for more than 200 */
export async function sparklines(
  framework: Framework,
  integrationIds: readonly number[],
): Promise<Map<number, Sparkline>> {
  if (integrationIds.length > MOST_SPARKLINES)
    throw new InvalidArgumentException(
      'integrationIds',
      `at most ${MOST_SPARKLINES} are allowed, ${integrationIds.length} were given`,
    )
  for (const [at, id] of integrationIds.entries()) checkIds({ [`integrationIds[${at}]`]: id })
  if (integrationIds.length === 0) return new Map()
  const { points, sources } = await read(framework, pointsOfSparkline)
  const ids = sql.raw(`in (${integrationIds.join(', ')})`)
  const of: OfIntegrations = (column) => sql`${column} ${ids}`
  const buckets = sources.buckets.map(
    (bucket) => sql`
      select integration_id, ${bucketOf(sql`starts_at`, points.pointSeconds)} as at, calls, failures from ${framework.tables.rollups}
      where ${within(bucket)} and ${of(sql`integration_id`)}`,
  )
  const parts = [...buckets, ...tailSums(framework, sources, of, points.pointSeconds)]
  const rows = await framework.db.execute<{ id: string; at: string; calls: number; failures: number }>(sql`
    select integration_id as id, extract(epoch from at) * 1000 as at, sum(calls)::float8 as calls, sum(failures)::float8 as failures
    from (${sql.join(parts, sql` union all `)}) part group by 1, 2`)
  const length = (points.toMs - points.fromMs) / (points.pointSeconds * 1_000)
  const empty = () => Array.from({ length }, () => 0)
  const found = new Map(integrationIds.map((id) => [id, { calls: empty(), failures: empty() }]))
  for (const { id, at, calls, failures } of rows) {
    const line = found.get(Number(id))
    const place = (Number(at) - points.fromMs) / (points.pointSeconds * 1_000)
    // One that came while this was read may lie beyond the last point.
    if (line === undefined || place >= length) continue
    line.calls[place] = calls
    line.failures[place] = failures
  }
  return found
}

export function checkFilter({ provider, integrationId, owner }: ChartFilter): void {
  checkTexts({ provider })
  checkIds({ integrationId })
  checkOwnerFilter(owner)
}

async function read(framework: Framework, choose: (nowMs: number) => Points) {
  const [progress, nowMs] = await Promise.all([rollUpProgress(framework), now(framework)])
  const points = choose(nowMs)
  return { points, sources: sourcesOf(points, progress, nowMs), nowMs }
}

async function now(framework: Framework): Promise<number> {
  return givenNowMs(framework) ?? databaseNowMs(framework.db)
}

function missingOf({ missing }: Sources): ChartSeries['missing'] {
  return missing && { from: new Date(missing.fromMs), to: new Date(missing.toMs) }
}

const within = ({ seconds, fromMs, toMs }: Sources['buckets'][number]): SQL =>
  sql`seconds = ${sql.raw(String(seconds))} and starts_at >= ${momentOf(fromMs)} and starts_at < ${momentOf(toMs)}`

/** Of one provider, or of all integrations, there is one row a bucket. */
function partsOf(
  framework: Framework,
  { buckets, tailFromMs }: Sources,
  filter: ChartFilter,
  pointSeconds: number,
): SQL[] {
  const { rollups } = framework.tables
  const { provider, integrationId, owner } = filter
  const isOfProviders = integrationId === undefined && owner === undefined
  const of = isOf(framework, filter)
  const scope = isOfProviders
    ? sql`provider = ${provider ?? ALL_PROVIDERS}`
    : sql`integration_id is not null and ${of(sql`integration_id`)}`
  const parts = buckets.map(
    (bucket) => sql`
      select ${bucketOf(sql`starts_at`, pointSeconds)} as at, counter, n
      from ${rollups} cross join unnest(counters, counts) each (counter, n) where ${within(bucket)} and ${scope}`,
  )
  if (tailFromMs !== null)
    parts.push(sql`
      select ${bucketOf(sql`at`, pointSeconds)} as at, counter, count(*) as n
      from (${factsOf(framework.tables, { fromMs: tailFromMs, toMs: FOREVER_MS }, of)}) fact group by 1, 2`)
  return parts
}

/** A row that is stored while the statement runs may be later than the moment asked before. */
const FOREVER_MS = Date.UTC(9999, 0)

/** Calls and failures of the rows themselves. @param pointSeconds by point; not given: of the whole tail */
function tailSums(
  { tables: { requests } }: Framework,
  { tailFromMs }: Sources,
  of: OfIntegrations,
  pointSeconds?: number,
): SQL[] {
  if (tailFromMs === null) return []
  const at = pointSeconds === undefined ? sql`` : sql`${bucketOf(sql`created_at`, pointSeconds)} as at,`
  return [
    sql`
      select integration_id, ${at} count(*) as calls, count(${CLASS_OF_REQUEST}) as failures
      from ${requests} where created_at >= ${momentOf(tailFromMs)} and ${of(sql`integration_id`)}
      group by ${pointSeconds === undefined ? sql`integration_id` : sql`1, 2`}`,
  ]
}

function isOf(
  { tables: { integrations } }: Framework,
  { provider, integrationId, owner }: ChartFilter,
): OfIntegrations {
  const conditions: SQL[] = []
  if (provider !== undefined) conditions.push(sql`provider = ${provider}`)
  if (owner !== undefined) conditions.push(sql`owner_type = ${owner.type} and owner_id = ${owner.id}`)
  if (integrationId !== undefined && conditions.length === 0) return (column) => sql`${column} = ${integrationId}`
  if (integrationId !== undefined) conditions.push(sql`id = ${integrationId}`)
  if (conditions.length === 0) return () => sql`true`
  return (column) => sql`${column} in (select id from ${integrations} where ${sql.join(conditions, sql` and `)})`
}

const countersOf = (counters: Readonly<Record<string, number>>): Map<number, number> =>
  new Map(Object.entries(counters).map(([counter, n]) => [Number(counter), n]))

function figuresOf(counters: ReadonlyMap<number, number>): Figures {
  const of = (name: keyof typeof COUNTER): number => counters.get(COUNTER[name]) ?? 0
  const byClass = {
    upstream: of('upstream'),
    throttle: of('throttle'),
    client: of('client'),
    unknown: of('unknown'),
  }
  const failures = Object.values(byClass).reduce((sum, n) => sum + n, 0)
  const calls = of('called') + failures
  return {
    calls,
    failures,
    byClass,
    failureRate: calls === 0 ? null : failures / calls,
    durationMs: percentilesOf(counters, COUNTER.duration, COUNTER.lag),
    webhooks: { received: of('received'), processed: of('processed'), failed: of('failed') },
    lagMs: percentilesOf(counters, COUNTER.lag, Number.POSITIVE_INFINITY),
    items: { succeeded: of('itemsSucceeded'), failed: of('itemsFailed'), skipped: of('itemsSkipped') },
  }
}

/** Of the counters from `base` on and below `end`. */
function percentilesOf(counters: ReadonlyMap<number, number>, base: number, end: number): Percentiles {
  const histogram: Histogram = new Map(
    [...counters].filter(([counter]) => counter >= base && counter < end).map(([counter, n]) => [counter - base, n]),
  )
  return {
    p50: percentileOf(histogram, 0.5),
    p95: percentileOf(histogram, 0.95),
    p99: percentileOf(histogram, 0.99),
  }
}
