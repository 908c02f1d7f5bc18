/**
 * Counts rows into buckets of time, so that a chart of 30 days reads some hundred rows of them. Rule: docs/behaviour/charts.md, "Counting".
 */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Transaction } from '../db/client.ts'
import { despiteDeadlocks } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import { quotedName } from '../db/sql-functions.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'
import { bucketOf, factsOf, momentOf, sumOfCalls, sumOfFailures } from './facts.ts'
import { noteRelease } from './releases.ts'
import type { CountingStep, Progress, Span } from './rollup-rules.ts'
import { ALL_PROVIDERS, completedBy, floorTo, nextStep, WIDEST_SECONDS, WIDTHS } from './rollup-rules.ts'

/** The first width. */
const MINUTE_SECONDS = WIDTHS[0].seconds
const HOUR_SECONDS = 3_600
const DAY_MS = 86_400_000
/** A row's moment may be read before its transaction locks the table: by a statement, which takes milliseconds, or waits in between. */
const BEFORE_ITS_LOCK_MS = 60_000
/** A transaction that is open for longer holds nothing up. Our own transactions end much sooner. */
const LONGEST_WAIT_MS = 3_600_000
/** If more than this of the time to come is noted as counted, Postgres' clock was ahead. Smaller steps are corrections. */
const CLOCK_AHEAD_MS = 60_000
/** A pass ends after this time, and the next one goes on: the first one of an old deployment has much to count. */
const PASS_MS = 20_000
/** Of a pass' sorts and sums. */
const WORK_MEMORY = '64MB'

/** A moment, and the transactions that were writing then. */
interface Fence {
  readonly atMs: number
  readonly writers: readonly string[]
}

interface State extends Progress {
  /** Once its transactions have ended, what lies before it is settled. */
  readonly fence: Fence
}

export type RollUpResult =
  | { readonly kind: 'done' | 'more'; readonly steps: number; readonly settledAt: Date; readonly rolledAt: Date }
  /** Another process does it. */
  | { readonly kind: 'busy' }

/**
 * One pass. It may be run at any time and by several processes: each step is a transaction that locks the one row of the progress,
 * and replaces the buckets that it counts.
 *
 * @returns `more`: the time was over before all was counted
 */
export async function rollUp(framework: Framework, { forMs = PASS_MS } = {}): Promise<RollUpResult> {
  const beganAt = performance.now()
  for (let steps = 1; ; steps += 1) {
    const step = await despiteDeadlocks(() => framework.db.transaction((tx) => countStep(framework, tx)))
    if (step === 'busy') return { kind: 'busy' }
    const { settledMs, rolledMs } = step.state
    const isOver = performance.now() - beganAt >= forMs
    if (step.isLast || isOver)
      return {
        kind: step.isLast ? 'done' : 'more',
        steps,
        settledAt: new Date(settledMs),
        rolledAt: new Date(rolledMs),
      }
  }
}

/** Passes of one worker. The first one that reaches Postgres notes its release: a worker begins without Postgres, too. */
export function passesOfWorker(framework: Framework): () => Promise<RollUpResult> {
  let isNoted = false
  return async () => {
    if (!isNoted) await noteRelease(framework)
    isNoted = true
    return rollUp(framework)
  }
}

/** How far the rows are counted; null: no pass has run yet. */
export async function rollUpProgress(framework: Framework): Promise<Progress | null> {
  const [row] = await framework.db.execute<{ value: State }>(
    sql`select value from ${framework.tables.cache} where key = ${rollupsKey(framework)}`,
  )
  return row?.value ?? null
}

const rollupsKey = ({ config }: Framework): string => `${config.cache_prefix}:rollups`

async function countStep(framework: Framework, tx: Transaction): Promise<{ state: State; isLast: boolean } | 'busy'> {
  const { tables } = framework
  const key = rollupsKey(framework)
  const locked = sql`select value from ${tables.cache} where key = ${key} for update skip locked`
  let [row] = await tx.execute<{ value: State | null }>(locked)
  if (row === undefined) {
    // The first pass of all; of two at once one waits here, and finds the other's row.
    await tx.execute(sql`insert into ${tables.cache} (key, value) values (${key}, 'null') on conflict do nothing`)
    ;[row] = await tx.execute<{ value: State | null }>(locked)
    if (row === undefined) return 'busy'
  }
  const { nowMs, writers } = await clockAndWriters(framework, tx)
  const fence: Fence = { atMs: nowMs, writers }
  const before = unlessAhead(framework, row.value ?? { ...(await beginning(framework, tx, nowMs)), fence }, fence)
  const minuteMs = floorTo(nowMs, MINUTE_SECONDS)
  const horizonMs = horizonOf(before, { nowMs, writers })
  const step = nextStep(before.settledMs, horizonMs, nowMs)
  // This minute's pass has been.
  if (step === null && before.rolledMs >= minuteMs) return { state: before, isLast: true }

  await tx.execute(sql`select set_config('work_mem', ${WORK_MEMORY}, true), set_config('jit', 'off', true)`)
  if (step !== null) await count(tx, tables, step)
  const settledMs = step?.toMs ?? before.settledMs
  const isLast = nextStep(settledMs, horizonMs, nowMs) === null
  let rolledMs = Math.max(before.rolledMs, settledMs)
  if (isLast && minuteMs > settledMs) {
    await replace(tx, tables, { seconds: MINUTE_SECONDS, fromMs: settledMs, toMs: minuteMs })
    rolledMs = minuteMs
  }
  const hasPassed = horizonMs >= floorTo(before.fence.atMs - BEFORE_ITS_LOCK_MS, MINUTE_SECONDS)
  const state = { settledMs, rolledMs, fence: isLast && hasPassed ? fence : before.fence }
  await tx.execute(
    sql`update ${tables.cache} set value = ${jsonText(state)}::jsonb, updated_at = clock_timestamp() where key = ${key}`,
  )
  return { state, isLast }
}

/**
 * The progress, unless the clock was ahead when it was noted: what counts as counted was not there yet. Then the day is
 * counted again, not the last hour alone: the pass ahead has deleted narrow buckets as too old, and wider ones are made
 * from narrow ones.
 */
function unlessAhead({ logger }: Framework, state: State, now: Fence): State {
  if (state.rolledMs <= now.atMs + CLOCK_AHEAD_MS) return state
  const fromMs = Math.min(state.settledMs, floorTo(now.atMs - LONGEST_WAIT_MS, WIDEST_SECONDS))
  logger.warn(
    {
      event: 'charts.clock_was_ahead',
      counted_until: new Date(state.rolledMs).toISOString(),
      again_from: new Date(fromMs).toISOString(),
    },
    'the clock of Postgres was ahead when rows were counted for the charts; they are counted again',
  )
  return { settledMs: fromMs, rolledMs: fromMs, fence: now }
}

/**
 * The clock, and the transactions that have written rows to be counted and are open: each holds a lock of its table until it ends.
 * Each role may read the locks. (A snapshot's xmin would wait for the transactions of all databases of the server.)
 */
async function clockAndWriters(framework: Framework, tx: Transaction) {
  const { requests, webhooks, syncItems } = framework.tables
  const oids = sql.join(
    [requests, webhooks, syncItems].map((table) => sql`${quotedName(table)}::regclass::oid`),
    sql`, `,
  )
  const [row] = await tx.execute<{ now: string; writers: string[] }>(sql`
    select extract(epoch from clock_timestamp()) * 1000 as now, (
      select coalesce(jsonb_agg(distinct virtualtransaction), '[]') from pg_locks
      where locktype = 'relation' and mode = 'RowExclusiveLock' and relation in (${oids})
        and database = (select oid from pg_database where datname = current_database())) as writers`)
  const { now, writers } = row as { now: string; writers: string[] }
  return { nowMs: givenNowMs(framework) ?? Number(now), writers }
}

/** Before it each row that will ever be there is seen. */
function horizonOf(
  { settledMs, fence }: State,
  { nowMs, writers }: { nowMs: number; writers: readonly string[] },
): number {
  const hasPassed = !fence.writers.some((writer) => writers.includes(writer))
  const fenceMs = hasPassed ? fence.atMs - BEFORE_ITS_LOCK_MS : 0
  return Math.max(settledMs, floorTo(Math.max(fenceMs, nowMs - LONGEST_WAIT_MS), MINUTE_SECONDS))
}

/** The hour of the oldest row, and no earlier than buckets are kept. */
async function beginning({ config, tables }: Framework, tx: Transaction, nowMs: number): Promise<Progress> {
  const { requests, webhooks, syncItems } = tables
  // Webhooks have no index on the time alone; their ids are drawn as they come.
  const [row] = await tx.execute<{ oldest: string | null }>(sql`
    select extract(epoch from least(
      (select min(created_at) from ${requests}),
      (select created_at from ${webhooks} order by id limit 1),
      (select min(completed_at) from ${syncItems} where status in ('success', 'skipped')),
      (select min(completed_at) from ${syncItems} where status = 'failed'))) * 1000 as oldest`)
  const keptMs = nowMs - config.pruning.rollups_days * DAY_MS
  const atMs = floorTo(Math.max(Math.min(Number(row?.oldest ?? nowMs), nowMs), keptMs), HOUR_SECONDS)
  return { settledMs: atMs, rolledMs: atMs }
}

/** For good: the buckets of a step, the wider ones that it completes; narrow ones that are no longer read go. */
async function count(tx: Transaction, tables: Tables, step: CountingStep): Promise<void> {
  await replace(tx, tables, step)
  for (const wider of completedBy(step)) await replace(tx, tables, wider, wider.sourceSeconds)
  for (const { seconds, keptSeconds } of WIDTHS)
    if (keptSeconds !== null)
      await tx.execute(sql`
        delete from ${tables.rollups}
        where seconds = ${seconds} and starts_at < ${momentOf(step.toMs - keptSeconds * 1_000)}`)
}

/** @param sourceSeconds made from buckets of this width; not given: from the rows themselves */
async function replace(
  tx: Transaction,
  tables: Tables,
  { seconds, fromMs, toMs }: CountingStep,
  sourceSeconds?: number,
): Promise<void> {
  const { rollups } = tables
  const counted =
    sourceSeconds === undefined
      ? countedRows(tables, seconds, { fromMs, toMs })
      : sql`
        select integration_id, provider, ${bucketOf(sql`starts_at`, seconds)} as bucket, counter, sum(n)::int as n
        from ${rollups} cross join unnest(counters, counts) each (counter, n)
        where seconds = ${sourceSeconds} and starts_at >= ${momentOf(fromMs)} and starts_at < ${momentOf(toMs)}
        group by 1, 2, 3, 4`
  await tx.execute(sql`
    delete from ${rollups}
    where seconds = ${seconds} and starts_at >= ${momentOf(fromMs)} and starts_at < ${momentOf(toMs)}`)
  await tx.execute(sql`
    insert into ${rollups} (seconds, starts_at, integration_id, provider, calls, failures, counters, counts)
    select ${seconds}, bucket, integration_id, case when integration_id is null then coalesce(provider, ${ALL_PROVIDERS}) end, ${sumOfCalls}, ${sumOfFailures},
      array_agg(counter order by counter), array_agg(n order by counter)
    from (${counted}) counted group by integration_id, provider, bucket`)
}

/** Each fact three times: for its integration, for its provider, and for all of them. */
function countedRows(tables: Tables, seconds: number, span: Span): SQL {
  return sql`
    select integration_id, provider, bucket, counter, count(*)::int as n
    from (
      select i.id as integration_id, i.provider, ${bucketOf(sql`fact.at`, seconds)} as bucket, fact.counter
      from (${factsOf(tables, span)}) fact join ${tables.integrations} i on i.id = fact.integration_id
    ) fact
    group by grouping sets ((integration_id, bucket, counter), (provider, bucket, counter), (bucket, counter))`
}
