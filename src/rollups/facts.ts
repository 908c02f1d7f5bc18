/** The rows that are counted, as facts: whose, when, which counter. Rule: docs/behaviour/charts.md, "What is counted". */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Tables } from '../db/schema/tables.ts'
import { CLASS_OF_REQUEST } from '../observability/traffic-queries.ts'
import type { Span } from './rollup-rules.ts'
import { BOUNDS_MS, COUNTER } from './rollup-rules.ts'

/** `updated_at` may be rounded to another millisecond than the moment that was written with it. */
const ROUNDING_MS = 1_000

/** Written out, so that a planner sees constants. All of them are numbers of ours. */
const number = (value: number): SQL => sql.raw(String(value))
const bounds = sql.raw(`'{${BOUNDS_MS.join(',')}}'::int[]`)

export const momentOf = (atMs: number): SQL => sql.raw(`'${new Date(atMs).toISOString()}'::timestamptz`)

/** Of a number of milliseconds, which is null where it is not known. */
const stepOf = (base: number, ms: SQL): SQL => sql`${number(base)} + width_bucket(${ms}, ${bounds})`

/** Begin of the bucket of a moment. */
export const bucketOf = (at: SQL, seconds: number): SQL =>
  sql`date_bin(${sql.raw(`'${seconds} seconds'::interval`)}, ${at}, 'epoch'::timestamptz)`

/** Which integrations: a condition on the column, such as `= 7`. */
export type OfIntegrations = (column: SQL) => SQL

/**
 * A select of `integration_id`, `at` and `counter`: two of a call (its outcome, its duration), up to three of a webhook.
 *
 * Webhooks are found by when they were last changed, which is never before they came or were settled. So no index is written for
 * charts alone.
 */
export function factsOf(
  { requests, webhooks, syncItems }: Tables,
  { fromMs, toMs }: Span,
  of: OfIntegrations = () => sql`true`,
): SQL {
  const [from, to] = [momentOf(fromMs), momentOf(toMs)]
  const within = (column: SQL): SQL => sql`${column} >= ${from} and ${column} < ${to}`
  const classes = sql.join(
    (['upstream', 'throttle', 'client', 'unknown'] as const).map(
      (name) => sql`when ${sql.raw(`'${name}'`)} then ${number(COUNTER[name])}`,
    ),
    sql` `,
  )
  return sql`
    select r.integration_id, r.created_at as at, fact.counter
    from ${requests} r cross join lateral (values
      (coalesce(case ${CLASS_OF_REQUEST} ${classes} end, ${number(COUNTER.called)})),
      (${stepOf(COUNTER.duration, sql`r.duration_ms`)})
    ) fact (counter)
    where ${within(sql`r.created_at`)} and ${of(sql`r.integration_id`)} and fact.counter is not null
    union all
    select w.integration_id, fact.at, fact.counter
    from ${webhooks} w cross join lateral (values
      (w.created_at, ${number(COUNTER.received)}),
      (w.processed_at, case w.status when 'processed' then ${number(COUNTER.processed)} when 'failed' then ${number(COUNTER.failed)} end),
      (w.processed_at, ${stepOf(COUNTER.lag, sql`least(greatest(extract(epoch from w.processed_at - w.created_at) * 1000, 0), ${number(2_000_000_000)})::int`)})
    ) fact (at, counter)
    where w.status in ('pending', 'processing', 'processed', 'failed') and w.updated_at >= ${momentOf(fromMs - ROUNDING_MS)}
      and ${of(sql`w.integration_id`)} and ${within(sql`fact.at`)} and fact.counter is not null
    union all
    select s.integration_id, s.completed_at as at,
      case s.status when 'success' then ${number(COUNTER.itemsSucceeded)} else ${number(COUNTER.itemsSkipped)} end as counter
    from ${syncItems} s
    where s.status in ('success', 'skipped') and ${within(sql`s.completed_at`)} and ${of(sql`s.integration_id`)}
    union all
    select s.integration_id, s.completed_at as at, ${number(COUNTER.itemsFailed)} as counter
    from ${syncItems} s
    where s.status = 'failed' and ${within(sql`s.completed_at`)} and ${of(sql`s.integration_id`)}`
}

const CALLS = sql.raw(`counter between ${COUNTER.called} and ${COUNTER.unknown}`)
const FAILURES = sql.raw(`counter between ${COUNTER.upstream} and ${COUNTER.unknown}`)

/** The two sums that a row has in columns of their own, of rows with a `counter` and its `n`. */
export const sumOfCalls = sql`coalesce(sum(n) filter (where ${CALLS}), 0)::int`
export const sumOfFailures = sql`coalesce(sum(n) filter (where ${FAILURES}), 0)::int`
