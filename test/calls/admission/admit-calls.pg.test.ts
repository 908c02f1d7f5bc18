/** Each rule of the SQL function `admit_calls`, called as it is: state by SQL, exact arguments, the exact verdicts and state. */
import type { Sql } from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BreakerSettings, BreakerState, CallState, Limit } from '../../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER } from '../../../src/calls/admission/state-rules.ts'
import { NO_CALLS } from '../../model/call-state.ts'
import type { DirectSql } from '../../support/direct-sql.ts'
import { commitsAround, directSql, lockIsAwaited } from '../../support/direct-sql.ts'

/** The start of a minute, and of windows of a minute and of two. */
const NOW = 1_800_000_000_000
const MINUTE_MS = 60_000
const KEY = 'direct:calls'
/** The integration that asks. Its neighbours, 1 and 3, have overrides of their own. */
const ID = 2
const moment = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString())

interface Override {
  readonly circuit?: string
  readonly circuitUntil?: number
  readonly limit?: unknown
  readonly limitUntil?: number
}

interface Call {
  /** What is stored. Null: no row yet. */
  readonly state?: Partial<CallState> | null
  readonly override?: Override
  readonly breaker?: Partial<BreakerSettings>
  readonly limit?: Limit
  readonly circuitOverrides?: boolean
  readonly limitOverrides?: boolean
  readonly owners?: readonly string[]
  readonly now?: number | null
}

interface Answer {
  readonly verdicts: readonly unknown[]
  /** The parts of the state that change. Without it, no row is written. */
  readonly next?: Partial<CallState>
  /** What else the answer says. */
  readonly says?: Record<string, unknown>
  /** Override columns after the call, where they change. */
  readonly cleared?: Record<string, unknown>
}

let direct: DirectSql
let sql: Sql

beforeAll(async () => {
  direct = await directSql(3)
  ;({ sql } = direct)
})
afterAll(() => direct.end())
beforeEach(async () => {
  await sql`delete from integration_cache`
  await sql`delete from integrations`
})

const UNLIKE: Override = { circuit: 'forced_open', limit: { limit: 1, windowSeconds: 1, window: 'fixed' } }

async function setUp({ state = {}, override }: Call): Promise<void> {
  const integrations = [1, ID, 3].map((id) => {
    const { circuit, circuitUntil, limit, limitUntil } = override ?? (id === ID ? {} : UNLIKE)
    return { id, circuit, circuitUntil: moment(circuitUntil), limit, limitUntil: moment(limitUntil) }
  })
  await sql`
    insert into integrations (id, provider, name, credentials, circuit_override, circuit_override_until,
      rate_limit_override, rate_limit_override_until, updated_at)
    select id, 'acme', 'of a test', '', circuit, "circuitUntil", "limit", "limitUntil", 'epoch'
    from jsonb_to_recordset(${sql.json(integrations as never)}) as r (
      id int, circuit text, "circuitUntil" timestamptz, "limit" jsonb, "limitUntil" timestamptz)`
  if (state === null) return
  const { breaker, suppressedUntil, window } = { ...NO_CALLS, ...state }
  const generation = breaker.state === 'closed' ? breaker.generation : null
  const { strategy, streak } = breaker
  await store({
    '': { breaker, suppressedUntil },
    ':ended': { generation, strategy, streak, slices: [] },
    ':window': { generation, strategy, suppressedUntil, window },
  })
}

/** By part of the key. */
type Rows = Record<string, Record<string, unknown>>

const store = (values: Rows) => sql`
  insert into integration_cache (key, value)
  select ${KEY} || key, value from jsonb_each(${sql.json(values as never)})
  on conflict (key) do update set value = excluded.value`

async function admit(call: Call, db: Sql = sql) {
  const { breaker, limit = null, circuitOverrides = true, limitOverrides = true, owners = ['a'], now = NOW } = call
  const settings = {
    breaker: { enabled: true, strategy: 'rate', cooldownSeconds: 30, ...breaker },
    limit,
    circuitOverrides,
    limitOverrides,
  }
  const [row] = await db`
    select integration_admit_calls(${ID}, ${KEY}, ${db.json(settings)}, ${db.json(owners)}, ${now}) as answer`
  return row?.answer
}

async function rows(): Promise<Rows> {
  const found = await sql`select key, value from integration_cache`
  return Object.fromEntries(found.map(({ key, value }) => [key.slice(KEY.length), value]))
}

const stateOf = ({ '': whole, ':window': spent }: Rows) => ({ ...whole, window: spent?.window })

/** The override columns of the three integrations. */
const columns = () => sql`
  select circuit_override, circuit_override_until, rate_limit_override, rate_limit_override_until, updated_at
  from integrations order by id`

const admitted = (generation: number | null = 0, probe = false) => ({ kind: 'admitted', generation, probe })
const open = (openedAt: number | null, retryAfterMs: number | null) => ({ kind: 'open', openedAt, retryAfterMs })
const suppressed = (retryAfterMs: number) => ({ kind: 'suppressed', retryAfterMs })
const limited = (retryAfterMs: number, limit: Limit) => ({ kind: 'limited', retryAfterMs, limit })

type Case = readonly [rule: string, call: Call, answer: Answer]

const check = async (_: string, call: Call, { verdicts, next, says, cleared }: Answer): Promise<void> => {
  await setUp(call)
  const [rowsBefore, [left, own, right]] = [await rows(), await columns()]
  expect(await admit(call)).toEqual({
    override: null,
    overrideMalformed: false,
    limitSource: call.limit === undefined ? 'none' : 'provider',
    limitMalformed: false,
    ...says,
    verdicts,
  })
  const after = await rows()
  if (next !== undefined) expect(stateOf(after)).toEqual({ ...NO_CALLS, ...call.state, ...next })
  else if (call.state !== null) expect(after).toEqual(rowsBefore)
  expect([...(await columns())]).toEqual([left, { ...own, ...cleared }, right])
}

const OPEN: BreakerState = { ...CLOSED_BREAKER, state: 'open', generation: 4, openedAt: NOW }
const HALF_OPEN: BreakerState = { ...OPEN, state: 'half_open', openedAt: NOW - 40_000 }
const probing = (until: number): BreakerState => ({ ...HALF_OPEN, probe: { owner: 'b', until } })
const COUNTED: BreakerState = { ...CLOSED_BREAKER, generation: 4, slices: [[NOW, 2, 1]], streak: 3 }
const RESET: BreakerState = { ...CLOSED_BREAKER, generation: 5 }

describe('the breaker', () => {
  const trying = (now: number, leaseMs = MINUTE_MS): Answer => ({
    verdicts: [admitted(5, true)],
    next: { breaker: { ...OPEN, state: 'half_open', generation: 5, probe: { owner: 'a', until: now + leaseMs } } },
  })

  it.each<Case>([
    ['admits while it is closed', { state: { breaker: COUNTED } }, { verdicts: [admitted(4)] }],
    ['admits where there is no state yet', { state: null }, { verdicts: [admitted()] }],
    [
      'refuses until the cooldown is over',
      { state: { breaker: OPEN }, now: NOW + 29_999 },
      { verdicts: [open(NOW, 1)] },
    ],
    ['admits a probe at that moment', { state: { breaker: OPEN }, now: NOW + 30_000 }, trying(NOW + 30_000)],
    [
      'refuses where the clock is behind by less than a cooldown',
      { state: { breaker: OPEN }, now: NOW - 29_999 },
      { verdicts: [open(NOW, 59_999)] },
    ],
    [
      'admits a probe where it was opened by a clock that had jumped ahead',
      { state: { breaker: OPEN }, now: NOW - 30_000 },
      trying(NOW - 30_000),
    ],
    [
      'keeps the probe’s slot for a cooldown where that is longer than a minute',
      { state: { breaker: OPEN }, breaker: { cooldownSeconds: 61 }, now: NOW + 61_000 },
      trying(NOW + 61_000, 61_000),
    ],
    [
      'admits one probe of all that ask',
      { state: { breaker: OPEN }, owners: ['a', 'b', 'c'], now: NOW + 30_000 },
      { ...trying(NOW + 30_000), verdicts: [admitted(5, true), open(NOW, null), open(NOW, null)] },
    ],
    [
      'refuses while the probe is under way',
      { state: { breaker: probing(NOW + 1) } },
      { verdicts: [open(NOW - 40_000, null)] },
    ],
    [
      'admits another probe at the end of its slot',
      { state: { breaker: probing(NOW) } },
      {
        verdicts: [admitted(4, true)],
        next: { breaker: { ...HALF_OPEN, probe: { owner: 'a', until: NOW + MINUTE_MS } } },
      },
    ],
    [
      'admits another probe where the last one said nothing',
      { state: { breaker: HALF_OPEN } },
      {
        verdicts: [admitted(4, true)],
        next: { breaker: { ...HALF_OPEN, probe: { owner: 'a', until: NOW + MINUTE_MS } } },
      },
    ],
    [
      'admits a probe where it is not known since when it is open',
      { state: { breaker: { ...OPEN, openedAt: null } } },
      {
        verdicts: [admitted(5, true)],
        next: {
          breaker: { ...HALF_OPEN, generation: 5, openedAt: null, probe: { owner: 'a', until: NOW + MINUTE_MS } },
        },
      },
    ],
    [
      'that is switched off admits, counts nothing and stays as it is',
      { state: { breaker: OPEN }, breaker: { enabled: false } },
      { verdicts: [admitted(null)] },
    ],
  ])('%s', check)

  const LIMIT: Limit = { limit: 10, seconds: 60, window: 'fixed' }
  const window = { kind: 'fixed', seconds: 60, startsAt: NOW, count: 1 } as const
  it.each<Case>([
    [
      'starts empty',
      { state: { breaker: COUNTED }, breaker: { strategy: 'count' } },
      { verdicts: [admitted(4)], next: { breaker: { ...COUNTED, strategy: 'count', slices: [], streak: 0 } } },
    ],
    [
      'starts empty where there is no state yet',
      { state: null, breaker: { strategy: 'count' } },
      { verdicts: [admitted()], next: { breaker: { ...CLOSED_BREAKER, strategy: 'count' } } },
    ],
    [
      'stays open',
      { state: { breaker: OPEN }, breaker: { strategy: 'count' }, now: NOW + 1 },
      { verdicts: [open(NOW, 29_999)] },
    ],
    [
      'keeps its counts while it is switched off',
      { state: { breaker: COUNTED }, breaker: { strategy: 'count', enabled: false }, limit: LIMIT },
      { verdicts: [admitted(null)], next: { window } },
    ],
    [
      'keeps its counts while it is overridden',
      {
        state: { breaker: COUNTED },
        breaker: { strategy: 'count' },
        limit: LIMIT,
        override: { circuit: 'forced_closed' },
      },
      { verdicts: [admitted(null)], next: { window }, says: { override: 'forced_closed' } },
    ],
  ])('under another strategy %s', check)

  it.each<Case>([
    [
      'under the same strategy keeps its counts',
      { state: { breaker: COUNTED }, limit: LIMIT },
      { verdicts: [admitted(4)], next: { window } },
    ],
  ])('%s', check)
})

describe('an override of the breaker', () => {
  const over: Override = { circuit: 'forced_open', circuitUntil: NOW }
  const cleared = { circuit_override: null, circuit_override_until: null, updated_at: new Date(NOW) }
  const OLD = { kind: 'fixed', seconds: 60, startsAt: NOW - MINUTE_MS, count: 5 } as const

  it.each<Case>([
    [
      'that forces it open refuses each call',
      { override: { circuit: 'forced_open' }, owners: ['a', 'b'] },
      { verdicts: [open(null, null), open(null, null)], says: { override: 'forced_open' } },
    ],
    [
      'that forces it open says when it had opened by itself',
      { override: { circuit: 'forced_open' }, state: { breaker: OPEN }, now: NOW + 30_000 },
      { verdicts: [open(NOW, null)], says: { override: 'forced_open' } },
    ],
    ...['forced_closed', 'disabled'].map(
      (circuit): Case => [
        `(${circuit}) admits, and counts nothing`,
        { override: { circuit }, state: { breaker: OPEN } },
        { verdicts: [admitted(null)], says: { override: circuit } },
      ],
    ),
    [
      'of another name is ignored, and said to be malformed',
      { override: { circuit: 'nonsense', circuitUntil: NOW }, state: { breaker: OPEN } },
      { verdicts: [open(NOW, 30_000)], says: { overrideMalformed: true } },
    ],
    [
      'is not obeyed where overrides are switched off',
      { override: over, circuitOverrides: false },
      { verdicts: [admitted()] },
    ],
    [
      'holds until its moment',
      { override: { ...over, circuitUntil: NOW + 1 } },
      { verdicts: [open(null, null)], says: { override: 'forced_open' } },
    ],
    [
      'is over at its moment: the breaker is closed and empty',
      { override: over, state: { breaker: { ...probing(NOW + 1), slices: [[NOW, 2, 1]], streak: 3 } } },
      { verdicts: [admitted(5)], next: { breaker: RESET }, cleared },
    ],
    [
      'that is over is gone though the call is refused, and the window stays as it was',
      {
        override: over,
        state: { breaker: COUNTED, suppressedUntil: NOW + 1, window: OLD },
        limit: { limit: 5, seconds: 60, window: 'fixed' },
      },
      { verdicts: [suppressed(1)], next: { breaker: RESET }, cleared },
    ],
    [
      'that is over is gone though the call is refused, and the window moves with a clock that was set back',
      {
        override: over,
        state: { breaker: COUNTED, window: { ...OLD, startsAt: NOW + MINUTE_MS } },
        limit: { limit: 5, seconds: 60, window: 'fixed' },
      },
      {
        verdicts: [limited(MINUTE_MS, { limit: 5, seconds: 60, window: 'fixed' })],
        next: { breaker: RESET, window: { ...OLD, startsAt: NOW } },
        cleared,
      },
    ],
    [
      'that is over is gone, and the call takes its unit',
      { override: over, state: { breaker: COUNTED }, limit: { limit: 5, seconds: 60, window: 'fixed' } },
      {
        verdicts: [admitted(5)],
        next: { breaker: RESET, window: { ...OLD, startsAt: NOW, count: 1 } },
        cleared,
      },
    ],
  ])('%s', check)
})

describe('an override of the limit', () => {
  const PROVIDERS: Limit = { limit: 7, seconds: 60, window: 'fixed' }
  const OWN = { limit: 1, windowSeconds: 120, window: 'sliding' }
  const limit: Limit = { limit: 1, seconds: 120, window: 'sliding' }
  const window = { kind: 'sliding', seconds: 120, quantum: 1, slots: [NOW], counts: [1] } as const
  const owners = ['a', 'b']
  const obeyed: Answer = {
    verdicts: [admitted(), limited(120_000, limit)],
    next: { window },
    says: { limitSource: 'override' },
  }
  const ignored: Answer = {
    verdicts: [admitted(), admitted()],
    next: { window: { kind: 'fixed', seconds: 60, startsAt: NOW, count: 2 } },
  }
  const cleared = { rate_limit_override: null, rate_limit_override_until: null, updated_at: new Date(NOW) }

  it.each<Case>([
    ['goes before the provider’s', { override: { limit: OWN }, limit: PROVIDERS, owners }, obeyed],
    ['is one where the provider has none', { override: { limit: OWN }, owners }, obeyed],
    ['holds until its moment', { override: { limit: OWN, limitUntil: NOW + 1 }, limit: PROVIDERS, owners }, obeyed],
    [
      'is over at its moment',
      { override: { limit: OWN, limitUntil: NOW }, limit: PROVIDERS, owners },
      { ...ignored, cleared },
    ],
    [
      'is not obeyed where overrides are switched off',
      { override: { limit: OWN, limitUntil: NOW }, limitOverrides: false, limit: PROVIDERS, owners },
      ignored,
    ],
    ...[
      { ...OWN, limit: '1' },
      { ...OWN, limit: 0 },
      { ...OWN, limit: 1.5 },
      { ...OWN, limit: 10_000_000_000 },
      { ...OWN, windowSeconds: '120' },
      { ...OWN, windowSeconds: 0 },
      { ...OWN, windowSeconds: 1.5 },
      { ...OWN, windowSeconds: 10_000_000_000 },
      { ...OWN, window: 'rolling' },
      { limit: 1 },
      {},
      [],
      7,
    ].map(
      (malformed): Case => [
        `is ignored, and said to be malformed: ${JSON.stringify(malformed)}`,
        { override: { limit: malformed }, limit: PROVIDERS, owners },
        { ...ignored, says: { limitMalformed: true } },
      ],
    ),
    [
      'of the greatest numbers is one',
      { override: { limit: { limit: 9_999_999_999, windowSeconds: 9_999_999_999, window: 'fixed' } } },
      {
        verdicts: [admitted()],
        next: { window: { kind: 'fixed', seconds: 9_999_999_999, startsAt: 0, count: 1 } },
        says: { limitSource: 'override' },
      },
    ],
  ])('%s', check)
})

describe('the provider’s quiet', () => {
  it.each<Case>([
    [
      'holds until its moment',
      { state: { suppressedUntil: NOW + 1 }, owners: ['a', 'b'] },
      { verdicts: [suppressed(1), suppressed(1)] },
    ],
    ['is over at its moment', { state: { suppressedUntil: NOW } }, { verdicts: [admitted()] }],
    [
      'leaves the probe’s slot to a later call, and takes no unit',
      {
        state: { breaker: OPEN, suppressedUntil: NOW + 30_001 },
        limit: { limit: 5, seconds: 60, window: 'fixed' },
        now: NOW + 30_000,
      },
      { verdicts: [suppressed(1)] },
    ],
  ])('%s', check)
})

describe('a fixed window', () => {
  const limit: Limit = { limit: 3, seconds: 60, window: 'fixed' }
  const fixed = (startsAt: number, count: number, seconds = 60) =>
    ({ kind: 'fixed', seconds, startsAt, count }) as const

  it.each<Case>([
    [
      'begins at a multiple of its length, and is full at the limit',
      { state: null, limit, owners: ['a', 'b', 'c', 'd'], now: NOW + 61_000 },
      {
        verdicts: [admitted(), admitted(), admitted(), limited(59_000, limit)],
        next: { window: fixed(NOW + MINUTE_MS, 3) },
      },
    ],
    [
      'goes on to its last millisecond',
      { state: { window: fixed(NOW, 2) }, limit, owners: ['a', 'b'], now: NOW + 59_999 },
      { verdicts: [admitted(), limited(1, limit)], next: { window: fixed(NOW, 3) } },
    ],
    [
      'that is full refuses, and is not written',
      { state: { window: fixed(NOW, 3) }, limit, now: NOW + 1_000 },
      { verdicts: [limited(59_000, limit)] },
    ],
    [
      'is followed by an empty one',
      { state: { window: fixed(NOW, 3) }, limit, now: NOW + MINUTE_MS },
      { verdicts: [admitted()], next: { window: fixed(NOW + MINUTE_MS, 1) } },
    ],
    [
      'starts empty where the last one had another length',
      { state: { window: fixed(NOW, 3, 120) }, limit },
      { verdicts: [admitted()], next: { window: fixed(NOW, 1) } },
    ],
    [
      'starts empty where the last one had another length, and began later',
      { state: { window: fixed(NOW + 120_000, 3, 120) }, limit },
      { verdicts: [admitted()], next: { window: fixed(NOW, 1) } },
    ],
    [
      'starts empty where the last one was a sliding one',
      { state: { window: { kind: 'sliding', seconds: 60, quantum: 1, slots: [NOW], counts: [3] } }, limit },
      { verdicts: [admitted()], next: { window: fixed(NOW, 1) } },
    ],
    [
      'is kept by a clock that was set back by a second',
      { state: { window: fixed(NOW + MINUTE_MS, 2) }, limit, owners: ['a', 'b'], now: NOW + 59_000 },
      { verdicts: [admitted(), limited(61_000, limit)], next: { window: fixed(NOW + MINUTE_MS, 3) } },
    ],
    [
      'gives its count to the window of now where a clock was set back further',
      { state: { window: fixed(NOW + MINUTE_MS, 2) }, limit, owners: ['a', 'b'], now: NOW + 58_999 },
      { verdicts: [admitted(), limited(1_001, limit)], next: { window: fixed(NOW, 3) } },
    ],
    [
      'does so though all are refused',
      { state: { window: fixed(NOW + MINUTE_MS, 3) }, limit },
      { verdicts: [limited(MINUTE_MS, limit)], next: { window: fixed(NOW, 3) } },
    ],
    [
      'does not, where all are refused by the clock that was set back by a second',
      { state: { window: fixed(NOW + MINUTE_MS, 3) }, limit, now: NOW + 59_000 },
      { verdicts: [limited(61_000, limit)] },
    ],
    [
      'is gone with its limit',
      { state: { window: fixed(NOW, 3) } },
      { verdicts: [admitted()], next: { window: null } },
    ],
    [
      'stays while the breaker refuses',
      { state: { breaker: OPEN, window: fixed(NOW, 1) }, limit },
      { verdicts: [open(NOW, 30_000)] },
    ],
    [
      'that is full leaves the probe’s slot to a later call',
      { state: { breaker: OPEN, window: fixed(NOW, 3) }, limit, now: NOW + 30_000 },
      { verdicts: [limited(30_000, limit)] },
    ],
  ])('%s', check)
})

describe('a sliding window', () => {
  const limit: Limit = { limit: 3, seconds: 60, window: 'sliding' }
  const sliding = (slots: Record<number, number>, quantum = 1, seconds = 60) =>
    ({
      kind: 'sliding',
      seconds,
      quantum,
      slots: Object.keys(slots).map(Number),
      counts: Object.values(slots),
    }) as const
  const AGO = NOW - MINUTE_MS
  /** More calls than it has milliseconds to tell apart: a slot of 1,001 ms. */
  const many: Limit = { limit: 1_025, seconds: 1_025, window: 'sliding' }
  const few: Limit = { ...many, limit: 1_024 }
  const SLOT = Math.floor(NOW / 1_001) * 1_001
  const LENGTH_MS = 1_025_000

  it.each<Case>([
    [
      'begins with the first call, and is full at the limit',
      { state: null, limit, owners: ['a', 'b', 'c', 'd'], now: NOW + 7 },
      {
        verdicts: [admitted(), admitted(), admitted(), limited(MINUTE_MS, limit)],
        next: { window: sliding({ [NOW + 7]: 3 }) },
      },
    ],
    [
      'counts what was taken in it, to the millisecond',
      { state: { window: sliding({ [AGO]: 5, [AGO + 1]: 1, [NOW - 5]: 1 }) }, limit, owners: ['a', 'b'] },
      {
        verdicts: [admitted(), limited(1, limit)],
        next: { window: sliding({ [AGO + 1]: 1, [NOW - 5]: 1, [NOW]: 1 }) },
      },
    ],
    [
      'adds a call to the slot of the same moment',
      { state: { window: sliding({ [NOW - 5]: 1, [NOW]: 1 }) }, limit },
      { verdicts: [admitted()], next: { window: sliding({ [NOW - 5]: 1, [NOW]: 2 }) } },
    ],
    [
      'that is full refuses until one has left, and is not written',
      { state: { window: sliding({ [AGO]: 5, [AGO + 10]: 2, [AGO + 20]: 1 }) }, limit },
      { verdicts: [limited(10, limit)] },
    ],
    [
      'that is over a lower limit refuses until as many have left as are too many',
      { state: { window: sliding({ [AGO + 10]: 2, [AGO + 20]: 1 }) }, limit: { ...limit, limit: 2 } },
      { verdicts: [limited(10, { ...limit, limit: 2 })] },
    ],
    [
      'that is further over refuses until the next slot has left',
      { state: { window: sliding({ [AGO + 10]: 2, [AGO + 20]: 1, [AGO + 30]: 1 }) }, limit: { ...limit, limit: 2 } },
      { verdicts: [limited(20, { ...limit, limit: 2 })] },
    ],
    [
      'that holds one call refuses until the last of all has left',
      { state: { window: sliding({ [AGO + 10]: 2, [AGO + 20]: 1 }) }, limit: { ...limit, limit: 1 } },
      { verdicts: [limited(20, { ...limit, limit: 1 })] },
    ],
    [
      'starts empty where the last one had another length',
      { state: { window: sliding({ [NOW - 5]: 3 }, 1, 120) }, limit },
      { verdicts: [admitted()], next: { window: sliding({ [NOW]: 1 }) } },
    ],
    [
      'starts empty where the last one was a fixed one',
      { state: { window: { kind: 'fixed', seconds: 60, startsAt: NOW, count: 3 } }, limit },
      { verdicts: [admitted()], next: { window: sliding({ [NOW]: 1 }) } },
    ],
    [
      'adds to its newest slot where a clock was set back by a second',
      { state: { window: sliding({ [NOW - 5]: 1, [NOW + 1_000]: 1 }) }, limit },
      { verdicts: [admitted()], next: { window: sliding({ [NOW - 5]: 1, [NOW + 1_000]: 2 }) } },
    ],
    [
      'takes what is further ahead for taken now',
      { state: { window: sliding({ [NOW - 5]: 1, [NOW + 1_001]: 1 }) }, limit },
      { verdicts: [admitted()], next: { window: sliding({ [NOW - 5]: 1, [NOW]: 2 }) } },
    ],
    [
      'does so though all are refused',
      { state: { window: sliding({ [AGO]: 5, [NOW - 5]: 1, [NOW + 1_001]: 2 }) }, limit },
      { verdicts: [limited(59_995, limit)], next: { window: sliding({ [NOW - 5]: 1, [NOW]: 2 }) } },
    ],
    [
      'does not, where all are refused by the clock that was set back by a second',
      { state: { window: sliding({ [AGO]: 5, [NOW - 5]: 1, [NOW + 1_000]: 2 }) }, limit },
      { verdicts: [limited(59_995, limit)] },
    ],
    [
      'is gone with its limit',
      { state: { window: sliding({ [NOW]: 1 }) } },
      { verdicts: [admitted()], next: { window: null } },
    ],
    [
      'of 1,024 calls has a slot for each millisecond',
      { limit: few },
      { verdicts: [admitted()], next: { window: sliding({ [NOW]: 1 }, 1, 1_025) } },
    ],
    [
      'of more calls has 1,024 slots at most',
      { limit: many },
      { verdicts: [admitted()], next: { window: sliding({ [SLOT]: 1 }, 1_001, 1_025) } },
    ],
    [
      'of more calls in a minute has slots of 59 ms',
      { limit: { ...limit, limit: 1_025 } },
      { verdicts: [admitted()], next: { window: sliding({ [Math.floor(NOW / 59) * 59]: 1 }, 59) } },
    ],
    [
      'counts a slot until its last millisecond has left',
      {
        state: { window: sliding({ [SLOT]: 1_025 }, 1_001, 1_025) },
        limit: many,
        now: SLOT + 1_000 + LENGTH_MS - 1,
      },
      { verdicts: [limited(1, many)] },
    ],
    [
      'no longer counts it at that moment',
      {
        state: { window: sliding({ [SLOT]: 1_025 }, 1_001, 1_025) },
        limit: many,
        now: SLOT + 1_000 + LENGTH_MS,
      },
      {
        verdicts: [admitted()],
        next: { window: sliding({ [SLOT + 1_024 * 1_001]: 1 }, 1_001, 1_025) },
      },
    ],
    [
      'under a lower limit takes each slot for its last millisecond',
      { state: { window: sliding({ [SLOT - 1_001]: 4 }, 1_001, 1_025) }, limit: few },
      { verdicts: [admitted()], next: { window: sliding({ [SLOT - 1]: 4, [NOW]: 1 }, 1, 1_025) } },
    ],
    [
      'under a higher limit puts together what is in one slot',
      {
        state: { window: sliding({ [SLOT - 2_002]: 1, [SLOT - 1_001]: 2, [SLOT - 1]: 3, [SLOT]: 4 }, 1, 1_025) },
        limit: many,
      },
      {
        verdicts: [admitted()],
        next: { window: sliding({ [SLOT - 2_002]: 1, [SLOT - 1_001]: 5, [SLOT]: 5 }, 1_001, 1_025) },
      },
    ],
    [
      'takes what is far ahead for taken in the slot of now',
      { state: { window: sliding({ [SLOT + 1_001_000]: 2 }, 1_001, 1_025) }, limit: many },
      { verdicts: [admitted()], next: { window: sliding({ [SLOT]: 3 }, 1_001, 1_025) } },
    ],
  ])('%s', check)
})

it.each<readonly [string, Call]>([
  ['an admission that changes nothing', {}],
  ['a refusal', { limit: { limit: 2, seconds: 60, window: 'fixed' } }],
])('%s leaves what the joined statements have counted where it is', async (_, call) => {
  await setUp(call)
  const window = { kind: 'fixed', seconds: 60, startsAt: NOW, count: 2, given: 1 }
  await store({
    ':ended': { generation: 0, strategy: 'rate', streak: 0, slices: [[NOW, 2]] },
    ':window': {
      generation: 0,
      strategy: 'rate',
      suppressedUntil: null,
      window: call.limit === undefined ? null : window,
    },
  })
  const before = await rows()
  await admit(call)
  expect(await rows()).toEqual(before)
})

describe('an integration that is gone', () => {
  it('has no verdict, and no row is left behind for it', async () => {
    expect(await admit({})).toBeNull()
    expect(await rows()).toEqual({})
  })

  it('has none either while its rows are still there', async () => {
    await setUp({})
    await sql`delete from integrations where id = ${ID}`
    expect(await admit({})).toBeNull()
  })
})

it('its transaction is not flushed, and the next one of the session is', async () => {
  await setUp({})
  expect(await commitsAround(sql, (session) => admit({}, session))).toEqual(['off', 'on'])
})

describe('a call that waits for a lock', () => {
  /** The call waits for what `change` has locked, until that is committed. */
  async function admitBehind(change: (holder: Sql) => Promise<unknown>, call: Call) {
    let answer: Promise<unknown> | undefined
    await sql.begin(async (holder) => {
      await change(holder as unknown as Sql)
      answer = admit(call)
      await lockIsAwaited(sql)
    })
    return answer
  }

  it('reads the clock after it', async () => {
    const until = Date.now() + 3_600_000
    await setUp({ state: { suppressedUntil: until } })
    let earliest = 0
    const answer = (await admitBehind(
      async (holder) => {
        await holder`select from integration_cache where key = ${KEY} for update`
        earliest = Date.now() + 20
        await holder`select pg_sleep(0.03)`
      },
      { now: null },
    )) as { verdicts: { retryAfterMs: number }[] }
    const readAt = until - (answer.verdicts[0]?.retryAfterMs ?? 0)
    expect(readAt).toBeGreaterThanOrEqual(earliest)
    expect(readAt).toBeLessThanOrEqual(Date.now())
  })

  const LIMIT = { limit: 1, windowSeconds: 60, window: 'fixed' }
  const OTHER = { limit: 2, windowSeconds: 60, window: 'fixed' }
  const circuit: Override = { circuit: 'forced_open', circuitUntil: NOW }
  const limit: Override = { limit: LIMIT, limitUntil: NOW }

  it.each<readonly [string, Override, Override]>([
    ['circuit_override', circuit, { ...circuit, circuit: 'disabled' }],
    ['circuit_override_until', circuit, { ...circuit, circuitUntil: NOW + 1 }],
    ['rate_limit_override', limit, { ...limit, limit: OTHER }],
    ['rate_limit_override_until', limit, { ...limit, limitUntil: NOW + 1 }],
  ])('keeps the %s that was set meanwhile, where the last override is over', async (_, override, set) => {
    await setUp({ override, state: { breaker: COUNTED } })
    const answer = await admitBehind(
      (holder) => holder`
        update integrations set circuit_override = ${set.circuit ?? null}, circuit_override_until = ${moment(set.circuitUntil)},
          rate_limit_override = ${set.limit === undefined ? null : sql.json(set.limit as never)},
          rate_limit_override_until = ${moment(set.limitUntil)}
        where id = ${ID}`,
      { override },
    )
    expect(answer).toMatchObject({ verdicts: [admitted(4)], override: null })
    expect((await columns())[ID - 1]).toEqual({
      circuit_override: set.circuit ?? null,
      circuit_override_until: set.circuitUntil === undefined ? null : new Date(set.circuitUntil),
      rate_limit_override: set.limit ?? null,
      rate_limit_override_until: set.limitUntil === undefined ? null : new Date(set.limitUntil),
      updated_at: new Date(0),
    })
    expect(stateOf(await rows())).toMatchObject({ breaker: COUNTED })
  })
})
