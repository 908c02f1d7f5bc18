/**
 * The state of a budget that many integrations share: one row of the cache. Its units are given out by take_shared, which holds the
 * whole rule (drizzle/functions/take_shared.sql). Moments are milliseconds since the epoch, by the database's clock.
 *
 * Rule: docs/behaviour/shared-budgets.md.
 */
import { sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { functionName } from '../../db/sql-functions.ts'
import { jsonLiteral, literal } from './call-queries.ts'
import type { Limit } from './state-rules.ts'

/** A process's report and question. */
export interface SharedAsk {
  readonly process: string
  readonly limit: number
  readonly seconds: number
  readonly obeysOverride: boolean
  /** Units whose calls have ended since the last report. */
  readonly done: number
  /** Units that it still has: in hand, or of calls under way. Not what a lost answer has given. */
  readonly out: number
  /** Integrations with waiting callers, and how many units each wants. */
  readonly ids: readonly number[]
  readonly wants: readonly number[]
  /** Units for calls to come; given only while no integration waits. */
  readonly more: number
}

export interface SharedAnswer {
  /** In the order of the ids. */
  readonly gave: readonly number[]
  readonly more: number
  /** Integrations that still wait, of all processes. */
  readonly waiting: number
  /** When a unit may be free, at the earliest; 0: no integration waits, or it is not known. */
  readonly retryMs: number
  /** Units that are out, and those that came back within the window. */
  readonly used: number
  /** In force. */
  readonly limit: number
  readonly seconds: number
  /** How long the provider has asked for quiet; null: it has not. */
  readonly quietMs: number | null
}

export interface SharedOverride {
  readonly limit: number
  readonly seconds: number
  readonly until: number | null
}

export interface SharedState {
  /** Of the last statement: a clock that is set back stands still. */
  readonly at: number
  readonly limit: number
  readonly seconds: number
  /** Calls that have ended, by the last millisecond of the slot that they ended in. */
  readonly ends: readonly number[]
  readonly counts: readonly number[]
  /** Units that a process has out, and when it reported last. */
  readonly held: Readonly<Record<string, readonly [units: number, at: number]>>
  /** Integrations that wait in a process, and the units that they want together. */
  readonly lines: Readonly<
    Record<string, { readonly at: number; readonly wants: number; readonly ids: readonly number[] }>
  >
  /** Integrations that have had their share of this round. */
  readonly served: readonly number[]
  /** Units of one integration in a round; null: there is no round. */
  readonly share: number | null
  /** The moment up to which units were given out, in microseconds; null: no integration waits. */
  readonly pacedUs: number | null
  readonly quietUntil: number | null
  readonly override: SharedOverride | null
}

/** A text without parameters, as in call-queries.ts: one round trip. */
export async function takeShared(
  db: Database,
  tables: Tables,
  key: string,
  asked: SharedAsk,
  nowMs: number | null,
): Promise<SharedAnswer> {
  const given = [literal(key), jsonLiteral(asked), nowMs === null ? 'null' : String(Number(nowMs))]
  const [row] = await db.execute<{ answer: SharedAnswer }>(
    sql.raw(`select ${functionName(tables, 'take_shared')}(${given.join(', ')}) as answer`),
  )
  return (row as { answer: SharedAnswer }).answer
}

/** No unit is given out before the later of these moments. It only ever moves later. */
export async function quietShared(
  db: Database,
  { cache }: Tables,
  key: string,
  { forMs, until }: { readonly forMs: number | null; readonly until: number | null },
  nowMs: number | null,
): Promise<void> {
  const now = sql`coalesce(${nowMs}::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)`
  // A provider's clock may be wrong: no reset further ahead than a day is believed.
  const at = sql`greatest(${now} + ${forMs}::bigint, case when ${until}::bigint > ${now} then least(${until}::bigint, ${now} + 86400000) end)`
  await db.execute(sql`
    insert into ${cache} as c (key, value) values (${key}, jsonb_build_object('quietUntil', ${at}))
    on conflict (key) do update set updated_at = clock_timestamp(), value = c.value
      || jsonb_build_object('quietUntil', greatest((c.value ->> 'quietUntil')::bigint, (excluded.value ->> 'quietUntil')::bigint))`)
}

/** @param override null: the provider's limit again */
export async function overrideShared(
  db: Database,
  { cache }: Tables,
  key: string,
  override: (Pick<Limit, 'limit' | 'seconds'> & { readonly until: number | null }) | null,
): Promise<void> {
  const value = JSON.stringify({ override })
  await db.execute(sql`
    insert into ${cache} as c (key, value) values (${key}, ${value}::jsonb)
    on conflict (key) do update set updated_at = clock_timestamp(), value = c.value || excluded.value`)
}

/** Null: no unit was asked for yet. */
export async function sharedState(
  db: Database,
  { cache }: Tables,
  key: string,
): Promise<{ readonly nowMs: number; readonly state: Partial<SharedState> | null }> {
  const [row] = await db.execute<{ now_ms: string; value: Partial<SharedState> | null }>(sql`
    select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
      (select value from ${cache} where key = ${key}) as value`)
  return { nowMs: Number(row?.now_ms), state: row?.value ?? null }
}

/** Units that are out, and those that came back within the window. */
export function sharedUnits(
  { ends = [], counts = [], held = {} }: Partial<SharedState>,
  seconds: number,
  nowMs: number,
): number {
  const back = counts.filter((_, place) => (ends[place] ?? 0) + seconds * 1_000 > nowMs)
  return [...back, ...Object.values(held).map(([units]) => units)].reduce((sum, units) => sum + units, 0)
}
