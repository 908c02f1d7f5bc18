/** Each rule of the SQL function `take_shared`, called as it is: a stored state, an exact report, the exact answer and next state. */
import type { ISql, Sql } from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { SharedAnswer, SharedAsk, SharedState } from '../../../src/calls/admission/shared-queries.ts'
import { NO_BUDGET } from '../../model/shared-budget.ts'
import type { DirectSql } from '../../support/direct-sql.ts'
import { directSql } from '../../support/direct-sql.ts'
import { SOON } from '../../support/soon.ts'

/** Where a slot begins, for windows of 10 s and of 60 s. */
const SLOT = 1_800_000_000_000
const NOW = SLOT + 50
const NOW_US = NOW * 1_000
/** Of the slot of `NOW`, with a window of 10 s. */
const SLOT_END = SLOT + 99
const KEY = 'budget:own'
const OTHER_KEY = 'budget:other'

let direct: DirectSql
let sql: Sql

beforeAll(async () => {
  direct = await directSql(4, 5_000)
  ;({ sql } = direct)
})
afterAll(() => direct.end())
beforeEach(async () => {
  await sql`delete from integration_cache`
  await store(OTHERS, OTHER_KEY)
})

/** A hundred units in 10 s: a unit each 100 ms, and slots of 100 ms. */
const ASK: SharedAsk = {
  process: 'me',
  limit: 100,
  seconds: 10,
  obeysOverride: true,
  done: 0,
  out: 0,
  more: 0,
  ids: [],
  wants: [],
}
const ANSWER: SharedAnswer = {
  gave: [],
  more: 0,
  waiting: 0,
  retryMs: 0,
  used: 0,
  limit: 100,
  seconds: 10,
  quietMs: null,
}
const STATE: SharedState = { ...NO_BUDGET, at: NOW, limit: 100, seconds: 10 }
/** Another budget, which has the first row. */
const OTHERS: SharedState = { ...STATE, held: { x: [50, NOW] } }

const store = (state: Partial<SharedState>, key = KEY, db: ISql = sql) =>
  db`insert into integration_cache (key, value) values (${key}, ${sql.json(state as never)})`

async function take(ask: Partial<SharedAsk> = {}, now: number | null = NOW): Promise<SharedAnswer> {
  const asked = sql.json({ ...ASK, ...ask } as never)
  return (await sql`select integration_take_shared(${KEY}, ${asked}, ${now}) as answer`)[0]?.answer
}

const stateOf = async (key = KEY): Promise<SharedState> =>
  (await sql`select value from integration_cache where key = ${key}`)[0]?.value

type Case = readonly [
  rule: string,
  stored: Partial<SharedState>,
  ask: Partial<SharedAsk>,
  /** What differs from an answer and a state of no units. */
  answer: Partial<SharedAnswer>,
  next: Partial<SharedState>,
]

const check = async (...[, stored, ask, answer, next]: Case): Promise<void> => {
  await store({ ...STATE, ...stored })
  expect(await take(ask)).toEqual({ ...ANSWER, ...answer })
  expect(await stateOf()).toEqual({ ...STATE, ...next })
  expect(await stateOf(OTHER_KEY)).toEqual(OTHERS)
}

/** A line of another process: its integrations that wait, and the units that they want together. */
const line = (wants: number, ...ids: number[]) => ({ at: NOW, wants, ids })

describe('the first report', () => {
  it('stores the budget', async () => {
    expect(await take()).toEqual(ANSWER)
    expect(await stateOf()).toEqual(STATE)
    expect(await stateOf(OTHER_KEY)).toEqual(OTHERS)
  })

  it('gets units as any other', async () => {
    expect(await take({ ids: [1], wants: [2], done: 3 })).toEqual({ ...ANSWER, gave: [2], used: 5 })
    expect(await stateOf()).toEqual({ ...STATE, ends: [SLOT_END], counts: [3], held: { me: [2, NOW] } })
  })

  it.each<[string, Partial<SharedState>, Partial<SharedAnswer>]>([
    ['a quiet', { quietUntil: NOW + 5_000 }, { quietMs: 5_000 }],
    ['an override', { override: { limit: 50, seconds: 20, until: null } }, { limit: 50, seconds: 20 }],
  ])('finds %s that was there before it', async (_, stored, answer) => {
    await store(stored)
    expect(await take()).toEqual({ ...ANSWER, ...answer })
  })
})

describe('while no integration waits', () => {
  it.each<Case>([
    [
      'each gets what it wants',
      {},
      { ids: [1, 2], wants: [3, 1] },
      { gave: [3, 1], used: 4 },
      { held: { me: [4, NOW] } },
    ],
    ['a unit in hand counts', {}, { out: 1 }, { used: 1 }, { held: { me: [1, NOW] } }],
    [
      'the process gets an eighth of the free units for later calls',
      { held: { b: [4, NOW] } },
      { ids: [1], wants: [12], done: 10, out: 10, more: 50 },
      { gave: [12], more: 8, used: 44 },
      { ends: [SLOT_END], counts: [10], held: { b: [4, NOW], me: [30, NOW] } },
    ],
    ['it gets no more of them than it asks for', {}, { more: 3 }, { more: 3, used: 3 }, { held: { me: [3, NOW] } }],
    [
      'it gets none of a used-up limit',
      { held: { b: [150, NOW] } },
      { more: 5 },
      { used: 150 },
      { held: { b: [150, NOW] } },
    ],
    [
      'turns and pace of those that waited are over; the pace counts a last time',
      { served: [1], share: 3, pacedUs: NOW_US - 1_600_000, lines: { me: line(1, 9) } },
      { more: 50 },
      { more: 1, used: 1 },
      { held: { me: [1, NOW] } },
    ],
  ])('%s', check)
})

describe('units', () => {
  it.each<Case>([
    [
      'of the process are those that it says, not those that were stored',
      { held: { me: [50, NOW - 1] } },
      { out: 10 },
      { used: 10 },
      { held: { me: [10, NOW] } },
    ],
    [
      'of a process that was silent for 15 s are used, beside those that have come back',
      { held: { b: [5, NOW - 15_000], c: [7, NOW - 14_999] } },
      { done: 3 },
      { used: 15 },
      { ends: [SLOT_END], counts: [8], held: { c: [7, NOW - 14_999] } },
    ],
    ['that have come back count in their slot', {}, { done: 1 }, { used: 1 }, { ends: [SLOT_END], counts: [1] }],
    [
      'count until the last millisecond of their slot is a window old',
      { ends: [NOW - 10_000, NOW - 9_999, SLOT_END], counts: [5, 6, 7] },
      { done: 2 },
      { used: 15 },
      { ends: [NOW - 9_999, SLOT_END], counts: [6, 9] },
    ],
    [
      'of an older slot stay there',
      { ends: [SLOT - 1], counts: [6] },
      { done: 2 },
      { used: 8 },
      { ends: [SLOT - 1, SLOT_END], counts: [6, 2] },
    ],
    [
      'go into the last slot where that ends later',
      { ends: [SLOT + 5_000], counts: [6] },
      { done: 2 },
      { used: 8 },
      { ends: [SLOT + 5_000], counts: [8] },
    ],
    [
      'are counted in slots of a hundredth of the window',
      {},
      { seconds: 60, done: 1 },
      { used: 1, seconds: 60 },
      { ends: [SLOT + 599], counts: [1], seconds: 60 },
    ],
    [
      'are free that are neither used nor out; the next comes when the oldest slot is a window old',
      { ends: [SLOT - 1, SLOT_END], counts: [10, 20], held: { b: [20, NOW] } },
      { out: 10, ids: [1], wants: [41] },
      { gave: [40], waiting: 1, retryMs: 9_949, used: 100 },
      {
        ...{ ends: [SLOT - 1, SLOT_END], counts: [10, 20], held: { b: [20, NOW], me: [50, NOW] } },
        ...{ lines: { me: line(1, 1) }, served: [1], share: 40, pacedUs: NOW_US },
      },
    ],
    [
      'come back at a moment that is not known where all are out',
      { held: { b: [100, NOW] } },
      { ids: [1], wants: [1] },
      { gave: [0], waiting: 1, used: 100 },
      { held: { b: [100, NOW] }, lines: { me: line(1, 1) }, pacedUs: NOW_US },
    ],
  ])('%s', check)
})

describe('the clock', () => {
  it.each<Case>([
    [
      'stands still where it was set back',
      { at: NOW + 5_000 },
      { done: 1 },
      { used: 1 },
      { at: NOW + 5_000, ends: [SLOT + 5_099], counts: [1] },
    ],
  ])('%s', check)

  it('is the database’s where none is given', async () => {
    await take({}, null)
    const { at } = await stateOf()
    expect(Math.abs(at - Date.now())).toBeLessThan(60_000)
  })
})

describe('a quiet', () => {
  it.each<Case>([
    [
      'gives no unit out, and tells those that wait when it ends',
      { quietUntil: NOW + 5_000, ends: [SLOT_END], counts: [1] },
      { ids: [1], wants: [1] },
      { gave: [0], waiting: 1, retryMs: 5_000, quietMs: 5_000, used: 1 },
      {
        ...{ quietUntil: NOW + 5_000, ends: [SLOT_END], counts: [1] },
        ...{ lines: { me: line(1, 1) }, pacedUs: NOW_US },
      },
    ],
    ['gives none for later calls', { quietUntil: NOW + 1 }, { more: 50 }, { quietMs: 1 }, { quietUntil: NOW + 1 }],
    [
      'ends at its very moment',
      { quietUntil: NOW, pacedUs: NOW_US - 300_000 },
      { ids: [1], wants: [4] },
      { gave: [3], waiting: 1, retryMs: 100, used: 3 },
      {
        ...{ quietUntil: NOW, held: { me: [3, NOW] }, lines: { me: line(1, 1) } },
        ...{ served: [1], share: 3, pacedUs: NOW_US },
      },
    ],
  ])('%s', check)
})

describe('an override', () => {
  const UNTIL = { limit: 50, seconds: 20, until: NOW + 1 }
  const FOREVER = { limit: 50, seconds: 20, until: null }

  it.each<Case>([
    [
      'is in force until its end, with its own window',
      { override: UNTIL, ends: [NOW - 20_000, NOW - 19_999], counts: [1, 2] },
      {},
      { limit: 50, seconds: 20, used: 2 },
      { override: UNTIL, ends: [NOW - 19_999], counts: [2], limit: 50, seconds: 20 },
    ],
    [
      'without an end stays in force',
      { override: FOREVER },
      {},
      { limit: 50, seconds: 20 },
      { override: FOREVER, limit: 50, seconds: 20 },
    ],
    ['is over at its very end', { override: { ...UNTIL, until: NOW } }, {}, {}, {}],
    [
      'is kept by a process that does not obey it',
      { override: UNTIL },
      { obeysOverride: false },
      {},
      { override: UNTIL },
    ],
  ])('%s', check)
})

describe('lines of other processes', () => {
  const B = { at: NOW - 1_999, wants: 1, ids: [8] }

  it.each<Case>([
    [
      'are gone after 2 s',
      { lines: { a: { at: NOW - 2_000, wants: 1, ids: [7] }, b: B } },
      {},
      { waiting: 1, retryMs: 100 },
      { lines: { b: B }, pacedUs: NOW_US },
    ],
    ['have no place for the own one of before', { lines: { me: line(1, 9) } }, {}, {}, {}],
    [
      'count an integration once',
      { lines: { b: line(1, 7), c: line(2, 8, 7) } },
      {},
      { waiting: 2, retryMs: 100 },
      { lines: { b: line(1, 7), c: line(2, 8, 7) }, pacedUs: NOW_US },
    ],
    [
      'take nothing where there are units for all',
      { lines: { b: line(1, 7), c: line(1, 8) }, served: [1], share: 4 },
      { limit: 5, ids: [1], wants: [3] },
      { limit: 5, gave: [3], waiting: 2, retryMs: 2_000, used: 3 },
      {
        ...{ limit: 5, held: { me: [3, NOW] }, lines: { b: line(1, 7), c: line(1, 8) } },
        ...{ served: [1], share: 4, pacedUs: NOW_US },
      },
    ],
    [
      'keep their shares of the round where there is a unit less',
      { lines: { b: line(1, 7), c: line(1, 8) }, served: [1], share: 4 },
      { limit: 4, ids: [1], wants: [3] },
      { limit: 4, gave: [0], waiting: 3, retryMs: 2_500 },
      {
        ...{ limit: 4, lines: { b: line(1, 7), c: line(1, 8), me: line(3, 1) } },
        ...{ served: [1], share: 4, pacedUs: NOW_US },
      },
    ],
  ])('%s', check)
})

describe('a round', () => {
  const B = line(9, 7)

  it.each<Case>([
    [
      'gives each as many, and the next one what is left to those that want more',
      {},
      { limit: 7, ids: [1, 2], wants: [1, 9] },
      { limit: 7, gave: [1, 6], waiting: 1, used: 7 },
      { limit: 7, held: { me: [7, NOW] }, lines: { me: line(3, 2) }, served: [2], share: 3, pacedUs: NOW_US },
    ],
    [
      'gives each one, as far as they go',
      {},
      { limit: 2, ids: [1, 2, 3], wants: [2, 2, 2] },
      { limit: 2, gave: [1, 1, 0], waiting: 3, used: 2 },
      { limit: 2, held: { me: [2, NOW] }, lines: { me: line(4, 1, 2, 3) }, served: [1, 2], share: 1, pacedUs: NOW_US },
    ],
    [
      'goes on with those that have not had their turn',
      { served: [1, 2], share: 1 },
      { limit: 2, ids: [1, 2, 3], wants: [2, 2, 2] },
      { limit: 2, gave: [1, 0, 1], waiting: 3, used: 2 },
      { limit: 2, held: { me: [2, NOW] }, lines: { me: line(4, 1, 2, 3) }, served: [1], share: 1, pacedUs: NOW_US },
    ],
    [
      'is over when those of other processes have had theirs, too; of the next one their shares are kept',
      { served: [1, 7], share: 1, lines: { b: B } },
      { limit: 4, ids: [1], wants: [9] },
      { limit: 4, gave: [2], waiting: 2, retryMs: 2_500, used: 2 },
      {
        ...{ limit: 4, held: { me: [2, NOW] }, lines: { b: B, me: line(7, 1) } },
        ...{ served: [1], share: 2, pacedUs: NOW_US },
      },
    ],
    [
      'ends for a process whose integrations have what they want',
      { share: 1, lines: { b: B } },
      { limit: 5, ids: [1], wants: [1] },
      { limit: 5, gave: [1], waiting: 1, retryMs: 2_000, used: 1 },
      { limit: 5, held: { me: [1, NOW] }, lines: { b: B }, served: [1], share: 1, pacedUs: NOW_US },
    ],
    [
      'counts an integration once that waits here and elsewhere',
      { lines: { b: line(9, 1) } },
      { limit: 2, ids: [1], wants: [9] },
      { limit: 2, gave: [2], waiting: 1, used: 2 },
      {
        ...{ limit: 2, held: { me: [2, NOW] }, lines: { b: line(9, 1), me: line(7, 1) } },
        ...{ served: [1], share: 2, pacedUs: NOW_US },
      },
    ],
    [
      'gives in turn what is beyond the shares of others',
      { served: [1, 2], share: 1, lines: { b: B } },
      { limit: 5, ids: [1, 2], wants: [1, 9] },
      { limit: 5, gave: [1, 3], waiting: 2, retryMs: 2_000, used: 4 },
      {
        ...{ limit: 5, held: { me: [4, NOW] }, lines: { b: B, me: line(6, 2) } },
        ...{ served: [1, 2], share: 1, pacedUs: NOW_US },
      },
    ],
    [
      'gives no unit of theirs where not each gets one more',
      { served: [1, 2, 3], share: 1, lines: { b: B } },
      { limit: 5, ids: [1, 2, 3], wants: [9, 9, 9] },
      { limit: 5, gave: [2, 1, 1], waiting: 4, retryMs: 2_000, used: 4 },
      {
        ...{ limit: 5, held: { me: [4, NOW] }, lines: { b: B, me: line(23, 1, 2, 3) } },
        ...{ served: [1, 2, 3], share: 1, pacedUs: NOW_US },
      },
    ],
  ])('%s', check)
})

describe('the pace, while some wait,', () => {
  /** Of one integration that wants a unit more than it gets. */
  const left = (given: number, pacedUs: number) => ({
    ...{ held: { me: [given, NOW] as const }, lines: { me: line(1, 1) } },
    ...{ served: [1], share: given, pacedUs },
  })

  it.each<Case>([
    [
      'gives what the time since the last unit allows, and keeps the rest of it',
      { pacedUs: NOW_US - 350_000 },
      { ids: [1], wants: [4] },
      { gave: [3], waiting: 1, retryMs: 50, used: 3 },
      left(3, NOW_US - 50_000),
    ],
    [
      'gives no more than is free',
      { pacedUs: NOW_US - 1_000_000, held: { b: [98, NOW] } },
      { ids: [1], wants: [3] },
      { gave: [2], waiting: 1, used: 100 },
      { ...left(2, NOW_US - 800_000), held: { b: [98, NOW], me: [2, NOW] } },
    ],
    [
      'makes up for no more than a second',
      { pacedUs: NOW_US - 60_000_000 },
      { limit: 600, seconds: 60, ids: [1], wants: [11] },
      { limit: 600, seconds: 60, gave: [10], waiting: 1, retryMs: 100, used: 10 },
      { limit: 600, seconds: 60, ...left(10, NOW_US) },
    ],
    [
      'makes up for no more than a tenth of the window',
      { pacedUs: NOW_US - 60_000_000 },
      { seconds: 1, ids: [1], wants: [11] },
      { seconds: 1, gave: [10], waiting: 1, retryMs: 10, used: 10 },
      { seconds: 1, ...left(10, NOW_US) },
    ],
    [
      'makes up for one unit, however long it takes',
      { pacedUs: NOW_US - 60_000_000 },
      { limit: 1, ids: [1], wants: [2] },
      { limit: 1, gave: [1], waiting: 1, used: 1 },
      { limit: 1, ...left(1, NOW_US) },
    ],
  ])('%s', check)
})

describe('the end of the entry', () => {
  /** A thousandth of it is longer than the test. */
  const LONG = { seconds: 864_000 }
  const DAY_SECONDS = 86_400

  const endsIn = async () =>
    (
      await sql`select extract(epoch from expires_at - clock_timestamp())::float8 as seconds
      from integration_cache where key = ${KEY}`
    )[0]?.seconds as number
  const setEnd = (seconds: number) => sql`
    update integration_cache set expires_at = clock_timestamp() + make_interval(secs => ${seconds}) where key = ${KEY}`

  it('comes 31 days after the window of the last report', async () => {
    expect(await take(LONG)).toEqual({ ...ANSWER, ...LONG })
    expect(await stateOf()).toEqual({ ...STATE, ...LONG })
    expect(Math.abs((await endsIn()) - 41 * DAY_SECONDS)).toBeLessThan(60)
  })

  it.each([
    ['moves when it is less than 30 days away', -300, 41 * DAY_SECONDS],
    ['else stays', 300, 40 * DAY_SECONDS + 300],
  ])('%s', async (_, seconds, ends) => {
    await store(STATE)
    await setEnd(40 * DAY_SECONDS + seconds)
    await take(LONG)
    expect(Math.abs((await endsIn()) - ends)).toBeLessThan(60)
  })
})

describe('two processes at the same moment', () => {
  const HELD = { b: [60, NOW] as const }
  const hold = (tx: ISql) =>
    tx`update integration_cache set value = value || ${sql.json({ held: HELD } as never)} where key = ${KEY}`
  /** @param lock kind of the lock that the call waits for */
  const waits = (lock: string) =>
    vi.waitFor(async () => {
      const found = await sql`
        select from pg_locks l join pg_stat_activity a using (pid)
        where not l.granted and l.locktype = ${lock} and a.datname = current_database()`
      expect(found).not.toEqual([])
    }, SOON)

  it('come one after the other', async () => {
    await store(STATE)
    let answer: Promise<SharedAnswer> | undefined
    await sql.begin(async (tx) => {
      await hold(tx)
      answer = take()
      await waits('transactionid')
    })
    expect(await answer).toEqual({ ...ANSWER, used: 60 })
    expect(await stateOf()).toEqual({ ...STATE, held: HELD })
  })

  it('come one after the other where neither has found the budget’s row', async () => {
    // The call stops after it has looked for the row, before it stores one.
    await sql`
      create function stop() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(1); return new; end $$`
    await sql`
      create trigger stop before insert on integration_cache for each row when (new.value = '{}') execute function stop()`
    let answer: Promise<SharedAnswer> | undefined
    await sql.begin(async (tx) => {
      await tx`select pg_advisory_lock(1)`
      answer = take()
      await waits('advisory')
      await store(STATE)
      await tx`select from integration_cache where key = ${KEY} for update`
      await tx`select pg_advisory_unlock(1)`
      await waits('transactionid')
      await hold(tx)
    })
    expect(await answer).toEqual({ ...ANSWER, used: 60 })
    await sql`drop function stop() cascade`
  })
})
