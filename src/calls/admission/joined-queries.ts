/** Admission and settlement for many integrations in one statement, where nothing is the matter: drizzle/functions/*_joined.sql. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { functionName } from '../../db/sql-functions.ts'
import type { CallOutcome, CallTarget, RequestValues } from './call-queries.ts'
import { jsonLiteral } from './call-queries.ts'

/** Callers of one integration that ask for admission. */
export interface Asked {
  readonly target: CallTarget
  readonly callers: number
  /** Units that are wanted beyond those. */
  readonly more: number
}

/** Calls of one integration that have ended: none failed upstream or asked for quiet. */
export interface Ended {
  readonly target: CallTarget
  /** As admission gave it to all of them. */
  readonly generation: number | null
  /** Whether one succeeded. */
  readonly succeeded: boolean
  readonly rows: readonly RequestValues[]
}

export interface Joined {
  readonly generation: number | null
  /** Units given out beyond those of the callers: all that were wanted, or 0. */
  readonly more: number
  /** How long their window lasts. */
  readonly leftMs: number
}

/** Of one integration. A hundred such are a statement of 1.6 MB; larger ones would keep all others waiting. */
const MAX_JOINED_BYTES = 16_384
/** The breaker counts no call: the SQL has no other number for it. */
const NOT_COUNTED = -1

/** Whether the joined statement can decide for these rules at all. Without breaker and limit there is no state to go by. */
export function canJoin({ rules: { breaker, limit } }: CallTarget): boolean {
  return limit === null ? breaker.enabled : limit.window === 'fixed'
}

/** Null: the integration's own statement must settle these. Health, breaker or suppression may change, or the rows are too large. */
export function joinable(target: CallTarget, outcomes: readonly CallOutcome[]): Ended | null {
  const rows: RequestValues[] = []
  let bytes = 0
  let succeeded = false
  const generation = outcomes[0]?.generation ?? null
  for (const outcome of outcomes) {
    const { row } = outcome
    const isQuiet = outcome.quietForMs === null && outcome.quietUntil === null
    if (outcome.class === 'upstream' || !isQuiet || outcome.generation !== generation || row === null) return null
    bytes += (row.request_data?.length ?? 0) + (row.response_data?.length ?? 0)
    if (bytes > MAX_JOINED_BYTES) return null
    succeeded ||= outcome.class === null
    rows.push(row)
  }
  return { target, generation, succeeded, rows }
}

/** For each integration, the admission of all its callers; null: undecided. Does not wait for the disk. */
export async function admitJoined(db: Database, tables: Tables, asked: readonly Asked[]): Promise<(Joined | null)[]> {
  const [row] = await db.execute<{ answer: readonly (readonly [number, number, number] | null)[] }>(
    call(tables, 'admit_joined', jsonLiteral(asked.map(askedOf)), clock(asked)),
  )
  return asked.map((_, at) => {
    const decided = row?.answer[at] ?? null
    if (decided === null) return null
    const [generation, more, leftMs] = decided
    return { generation: generation === NOT_COUNTED ? null : generation, more, leftMs }
  })
}

/** For each integration, the ids of its rows in order; null: undecided, and no row is written. */
export async function settleJoined(
  db: Database,
  tables: Tables,
  ended: readonly Ended[],
): Promise<(readonly number[] | null)[]> {
  const rows = ended.flatMap(({ target, rows }, at) =>
    rows.map((row) => ({ of: at + 1, integration_id: target.integrationId, ...row })),
  )
  const [row] = await db.execute<{ answer: { decided: readonly boolean[]; ids: readonly number[] } }>(
    call(tables, 'settle_joined', jsonLiteral(ended.map(endedOf)), jsonLiteral(rows), clock(ended)),
  )
  let taken = 0
  return ended.map(({ rows: { length } }, at) => {
    if (row?.answer.decided[at] !== true) return null
    taken += length
    return row.answer.ids.slice(taken - length, taken)
  })
}

/** A text without parameters, as in call-queries.ts: one round trip. */
function call(tables: Tables, name: string, ...given: readonly string[]): SQL {
  return sql.raw(`select ${functionName(tables, name)}(${given.join(', ')}) as answer`)
}

/** A process has one clock. */
function clock([first]: readonly { readonly target: CallTarget }[]): string {
  return first === undefined || first.target.nowMs === null ? 'null' : String(Number(first.target.nowMs))
}

function askedOf({ target: { integrationId, key, rules }, callers, more }: Asked) {
  const { breaker, limit, circuitOverrides, limitOverrides } = rules
  return {
    id: integrationId,
    key: `${key}:window`,
    callers,
    more,
    counts: breaker.enabled,
    strategy: breaker.strategy,
    circuitOverrides,
    limitOverrides,
    limit: limit?.limit ?? null,
    seconds: limit?.seconds ?? null,
  }
}

function endedOf({ target: { integrationId, key, rules }, generation, succeeded, rows }: Ended) {
  const { strategy, windowSeconds } = rules.breaker
  return {
    id: integrationId,
    key: `${key}:ended`,
    counted: rows.length,
    generation,
    succeeded,
    strategy,
    // A window has 60 slices at most (docs/behaviour/requests.md, "Circuit breaker").
    slice: Math.ceil(windowSeconds / 60) * 1_000,
  }
}
