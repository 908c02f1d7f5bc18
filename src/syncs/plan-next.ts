/**
 * When the next run of a stream is.
 *
 * Rule: docs/behaviour/sync-cursor.md, "Finalisation", and docs/behaviour/sync-adaptive.md.
 */
import type { SQL } from 'drizzle-orm'
import { and, desc, eq, inArray, sql } from 'drizzle-orm'
import { declaredQuota } from '../calls/call-target.ts'
import { limitNow } from '../calls/limit-overrides.ts'
import type { Database, Transaction } from '../db/client.ts'
import { MAX_INTEGER } from '../db/schema/columns.ts'
import type { LogRow, StreamRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import type { RunMetadata } from '../observability/log-queries.ts'
import type { SyncStream } from '../providers/contracts.ts'
import { adaptiveBounds, declaredStream } from '../providers/streams.ts'
import type { Demand, IntervalBounds, ObservedRun, StreamFigures } from './adaptive-rules.ts'
import {
  adaptiveInterval,
  callsOf,
  changesPerSecond,
  limitBudget,
  NO_FIGURES,
  observed,
  PRIOR_CHANGES,
  priceFor,
  quotaBudget,
} from './adaptive-rules.ts'
import { nextCursor } from './checkpoint-rules.ts'
import { cursorOf } from './cursor.ts'
import { declaredStreams, defaultIntervals, roundSeconds, setSeconds, streamRows } from './due.ts'
import { intervalMultiplier } from './run-rules.ts'
import type { RunEnding, SyncRow } from './sync-rows.ts'
import { recordRunTimes } from './sync-rows.ts'

interface EndedRun {
  /** Of a run that was finalised. */
  readonly log?: LogRow | undefined
  /** Undefined: it stays. */
  readonly cursor?: Json | undefined
}

/**
 * Writes the times and the counter of a run that ends, under the lock of its integration.
 *
 * @param row as it was locked
 */
export async function planNext(
  framework: Framework,
  tx: Transaction,
  row: SyncRow,
  ending: RunEnding,
  { log, cursor }: EndedRun = {},
): Promise<void> {
  const interval = await readIntervalMinutes(framework, tx, row, { log: ending === 'clean' ? log : undefined, cursor })
  const before = row.consecutiveSyncFailures
  const counted = { clean: 0, 'with failures': Math.min(before + 1, MAX_INTEGER), cancelled: before }
  const consecutiveFailures = counted[ending]
  const multiplier =
    ending === 'cancelled'
      ? 1
      : intervalMultiplier(consecutiveFailures, framework.config.sync.failure_backoff_max_multiplier)
  await recordRunTimes(framework, tx, row, {
    ending,
    consecutiveFailures,
    intervalMinutes: interval === null ? null : interval * multiplier,
    ...(cursor === undefined ? {} : { cursor }),
  })
}

/** Null: it runs only by hand. */
async function readIntervalMinutes(
  framework: Framework,
  tx: Transaction,
  row: SyncRow,
  run: EndedRun,
): Promise<number | null> {
  if (row.stream === null) return row.syncIntervalMinutes ?? defaultIntervals(framework).get(row.provider) ?? null
  const provider = framework.providers.find(row.provider)
  const declared = provider === null ? null : declaredStream(provider, row.stream)
  const bounds = declared === null ? null : adaptiveBounds(declared)
  // Its figures are kept also while another interval is set by hand.
  const adaptive =
    declared === null || bounds === null ? null : await adapt(framework, tx, row, { declared, bounds, run })
  const seconds = adaptive ?? (typeof declared?.everySeconds === 'number' ? declared.everySeconds : null)
  return row.syncIntervalMinutes ?? (seconds === null ? null : seconds / 60)
}

interface AdaptiveStream {
  readonly declared: SyncStream
  readonly bounds: IntervalBounds
  readonly run: EndedRun
}

/** Notes what the run has shown, and the interval that follows. @returns its seconds */
async function adapt(framework: Framework, tx: Transaction, row: SyncRow, adaptive: AdaptiveStream): Promise<number> {
  const { streams } = framework.tables
  const isOwn = and(eq(streams.integrationId, row.id), eq(streams.stream, row.stream as string))
  const [stored = null] = await tx.select().from(streams).where(isOwn)
  const figures = await figuresAfter(framework, tx, row, stored, adaptive)
  const demand = {
    ...adaptive.bounds,
    changesPerSecond: changesPerSecond(figures, adaptive.bounds),
    callsPerRun: callsOf(figures),
  }
  const { seconds, reason } = adaptiveInterval(demand, {
    limit: await limitPrice(framework, tx, row, demand),
    quota: await quotaPrice(framework, tx, row.provider),
  })
  await tx
    .update(streams)
    .set({ ...figures, adaptiveSeconds: seconds, adaptiveReason: reason })
    .where(isOwn)
  return seconds
}

/** A first run lists what there is: it says nothing about changes, and its calls are not those of later ones. */
async function figuresAfter(
  framework: Framework,
  tx: Transaction,
  row: SyncRow,
  stored: StreamRow | null,
  { declared, bounds, run: { log, cursor } }: AdaptiveStream,
): Promise<StreamFigures & { readonly observedAt: Date | null }> {
  // NaN, which an earlier release wrote for one change in no time, would stay for good.
  const { changesSeen, secondsSeen, callsPerRun } =
    stored === null || Number.isNaN(stored.changesSeen) ? NO_FIGURES : stored
  const kept = { changesSeen, secondsSeen, callsPerRun, observedAt: stored?.observedAt ?? null }
  // A full listing by `fullEvery` says nothing about what a run costs otherwise.
  if (log === undefined || (log.metadata as RunMetadata).full === true) return kept
  if (kept.observedAt === null) return { ...kept, observedAt: log.createdAt }
  const changes = await changesOf(framework, tx, row, { declared, log, isCursorMoved: cursor !== undefined })
  if (changes === null) return kept
  const { request_ids: requests } = log.metadata as RunMetadata
  const run: ObservedRun = {
    changes,
    seconds: Math.max(0, (log.createdAt.getTime() - kept.observedAt.getTime()) / 1_000),
    calls: Array.isArray(requests) ? requests.length : 0,
  }
  return { ...observed(kept, run, bounds), observedAt: log.createdAt }
}

/** At most this many items of a run are asked whether they had changed; the others count by their share. */
const ITEMS_ASKED = 1_000

/**
 * Records of a run that had changed since the run before: their checkpoint lies beyond the cursor, or they have none. A listing that
 * names all records, or an hour more than it needs, names others, too. Null: it can not be told, since the cursor is held and the
 * next run lists the same again, or the provider's reducer throws.
 */
async function changesOf(
  { tables: { syncItems } }: Framework,
  tx: Transaction,
  row: SyncRow,
  run: { readonly declared: SyncStream; readonly log: LogRow; readonly isCursorMoved: boolean },
): Promise<number | null> {
  const items = await tx
    .select({ checkpoint: syncItems.checkpointValue, total: sql<number>`(count(*) over ())::int` })
    .from(syncItems)
    .where(and(eq(syncItems.syncLogId, run.log.id), inArray(syncItems.status, ['success', 'skipped'])))
    // `+ 0`: as in finishedCheckpoints().
    .orderBy(desc(sql`${syncItems.id} + 0`))
    .limit(ITEMS_ASKED)
  // What has not changed has no row there.
  if (run.declared.skipUnchanged !== undefined) return items[0]?.total ?? 0
  const reduce = (checkpoints: readonly Json[]) => run.declared.reduceCheckpoints(checkpoints)
  const isBeyond = (checkpoint: Json) => nextCursor(cursorOf(row), [checkpoint], reduce).kind === 'advance'
  try {
    const changed = items.filter(({ checkpoint }) => checkpoint === null || isBeyond(checkpoint as Json))
    if (!run.isCursorMoved && changed.some(({ checkpoint }) => checkpoint !== null)) return null
    return items.length === 0 ? 0 : Math.round((changed.length / items.length) * (items[0]?.total ?? 0))
  } catch {
    return null
  }
}

/** Of the calls that the integration's limit allows. @param demand of the stream whose run ends */
async function limitPrice(
  framework: Framework,
  tx: Transaction,
  row: SyncRow,
  demand: Omit<Demand, 'streams'>,
): Promise<number> {
  const limit = limitNow(framework, row)
  if (limit === null) return 0
  const others = await demands(framework, tx, row.provider, sql`i.id = ${row.id} and s.stream <> ${row.stream}`)
  return priceFor([{ streams: 1, ...demand }, ...others], limitBudget(limit))
}

/** What each process computed last, by provider. */
const QUOTA_PRICES = new WeakMap<Framework, Map<string, { readonly atMs: number; readonly price: number }>>()
/** Rates change slowly, and many runs end in a minute. */
const QUOTA_PRICE_MS = 60_000

/** Of the calls that the syncs of all integrations may make together. Null: the provider does not say. */
export async function quotaPrice(
  framework: Framework,
  tx: Database | Transaction,
  key: string,
): Promise<number | null> {
  const quota = declaredQuota(framework, key) ?? null
  if (quota === null) return null
  const known = QUOTA_PRICES.get(framework) ?? new Map<string, { atMs: number; price: number }>()
  QUOTA_PRICES.set(framework, known)
  const atMs = framework.clock.now().getTime()
  const last = known.get(key)
  if (last !== undefined && atMs - last.atMs < QUOTA_PRICE_MS) return last.price
  const all = await demands(framework, tx, key, sql`true`)
  const price = priceFor(all, quotaBudget(quota, all, roundSeconds(framework)))
  known.set(key, { atMs, price })
  return price
}

/** Streams whose rates differ by less than an e-th root of this share are one kind: an answer of some hundred rows at most. */
const KINDS_A_FACTOR_E = 4

/** What the streams of active integrations use of a limit, by kind. Those with a set or a declared interval use what they use. */
async function demands(framework: Framework, tx: Database | Transaction, key: string, which: SQL): Promise<Demand[]> {
  const { integrations, streams } = framework.tables
  const declared = declaredStreams(framework).filter(({ provider }) => provider === key)
  const kind = (value: SQL) => sql`round(ln(${value}) * ${KINDS_A_FACTOR_E}::float8)`
  const rows = await tx.execute<{ [Column in keyof Demand]: number }>(sql`
    select coalesce(fixed, least) as least, coalesce(fixed, most) as most, count(*)::int as streams,
           avg(rate) as "changesPerSecond", avg(calls) as "callsPerRun"
    from (
      select d.least, d.seconds as most, coalesce(${setSeconds}, case when d.least is null then d.seconds end) as fixed,
             (s.changes_seen + ${PRIOR_CHANGES}::float8) / (s.seconds_seen + coalesce(d.least, 1)) as rate,
             greatest(1, s.calls_per_run) as calls
      from ${streams} s join ${integrations} i on i.id = s.integration_id
      join ${streamRows(declared)} on d.provider = i.provider and d.stream = s.stream
      where i.is_active and i.health_status <> 'disabled' and coalesce(${setSeconds}, d.seconds) is not null and ${which}
    ) each
    group by fixed, least, most, ${kind(sql`rate`)}, ${kind(sql`calls`)}`)
  return [...rows]
}
