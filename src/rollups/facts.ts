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

/** When the rows that are counted came or ended. */
export interface FactSpan extends Span {
  /** It ended a day ago or more: the webhooks that changed since are too many to look through. */
  readonly isOld?: boolean
}

/**
 * A select of `integration_id`, `at` and `counter`: two of a call (its outcome, its duration), up to three of a webhook.
 *
 * No index is written for charts alone.
 */
export function factsOf(
  tables: Tables,
  { fromMs, toMs, isOld = false }: FactSpan,
  of: OfIntegrations = () => sql`true`,
): SQL {
  const { requests, syncItems } = tables
  const within = (column: SQL): SQL => sql`${column} >= ${momentOf(fromMs)} and ${column} < ${momentOf(toMs)}`
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
    ${(isOld ? oldWebhookFacts : webhookFacts)(tables, { fromMs, toMs }, within, of)}
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

const LAG = stepOf(
  COUNTER.lag,
  sql`least(greatest(extract(epoch from w.processed_at - w.created_at) * 1000, 0), ${number(2_000_000_000)})::int`,
)

/** Found by when they were last changed, which is never before they came or were settled. */
function webhookFacts({ webhooks }: Tables, { fromMs }: Span, within: (column: SQL) => SQL, of: OfIntegrations): SQL {
  return sql`
    select w.integration_id, fact.at, fact.counter
    from ${webhooks} w cross join lateral (values
      (w.created_at, ${number(COUNTER.received)}),
      (w.processed_at, case w.status when 'processed' then ${number(COUNTER.processed)} when 'failed' then ${number(COUNTER.failed)} end),
      (w.processed_at, ${LAG})
    ) fact (at, counter)
    where w.status in ('pending', 'processing', 'processed', 'failed') and w.updated_at >= ${momentOf(fromMs - ROUNDING_MS)}
      and ${of(sql`w.integration_id`)} and ${within(sql`fact.at`)} and fact.counter is not null`
}

/**
 * The same of long ago: what came by the index of each integration, what was settled by its last change. A processed
 * one is changed by an erasure only; a failed one may be dismissed at any later time.
 */
function oldWebhookFacts(
  { webhooks, integrations }: Tables,
  { fromMs, toMs }: Span,
  within: (column: SQL) => SQL,
  of: OfIntegrations,
): SQL {
  const settled = (status: 'processed' | 'failed', until: SQL): SQL => sql`
    select w.integration_id, w.processed_at as at, fact.counter
    from ${webhooks} w cross join lateral (values (${number(COUNTER[status])}), (${LAG})) fact (counter)
    where w.status = ${sql.raw(`'${status}'`)} and w.updated_at >= ${momentOf(fromMs - ROUNDING_MS)} ${until}
      and ${of(sql`w.integration_id`)} and ${within(sql`w.processed_at`)}`
  // With its offset no join: a planner that joined might read all webhooks.
  return sql`
    select w.integration_id, w.created_at as at, ${number(COUNTER.received)} as counter
    from ${integrations} i cross join lateral (
      select w.integration_id, w.created_at from ${webhooks} w
      where w.integration_id = i.id and ${within(sql`w.created_at`)} offset 0
    ) w
    where ${of(sql`i.id`)}
    union all
    ${settled('processed', sql`and w.updated_at < ${momentOf(toMs + ROUNDING_MS)}`)}
    union all
    ${settled('failed', sql``)}`
}

const CALLS = sql.raw(`counter between ${COUNTER.called} and ${COUNTER.unknown}`)
const FAILURES = sql.raw(`counter between ${COUNTER.upstream} and ${COUNTER.unknown}`)

/** The two sums that a row has in columns of their own, of rows with a `counter` and its `n`. */
export const sumOfCalls = sql`coalesce(sum(n) filter (where ${CALLS}), 0)::int`
export const sumOfFailures = sql`coalesce(sum(n) filter (where ${FAILURES}), 0)::int`
