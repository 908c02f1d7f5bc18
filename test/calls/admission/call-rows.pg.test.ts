/** The three rows that an integration's calls share: the SQL functions `lock_calls`, `merged_calls` and `store_calls`, called as they are. */
import type { Sql } from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BreakerState } from '../../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER } from '../../../src/calls/admission/state-rules.ts'
import type { DirectSql } from '../../support/direct-sql.ts'
import { directSql, lockIsAwaited } from '../../support/direct-sql.ts'

const KEY = 'direct:calls'
const ID = 2
const PARTS = ['', ':ended', ':window']
/** What belongs to others: it stays as it is. */
const OTHERS = { 'direct:other': { a: 1 }, 'direct:calls:ended:other': { a: 2 } }
const BREAKER: BreakerState = { ...CLOSED_BREAKER, generation: 4, slices: [[1_000, 2, 1]], streak: 3 }
const WINDOW = { kind: 'fixed', seconds: 60, startsAt: 60_000, count: 3 }
const STATE = { breaker: BREAKER, suppressedUntil: 7_000 }
const ENDED = { generation: 4, strategy: 'rate', streak: 3, slices: [] }
const SPENT = { generation: 4, strategy: 'rate', suppressedUntil: 7_000, window: WINDOW }

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
  await sql`insert into integrations (id, provider, name, credentials)
    select id, 'acme', 'of a test', '' from generate_series(1, 3) id`
  await store(OTHERS)
})

type Rows = Record<string, unknown>

const store = (rows: Rows) =>
  sql`insert into integration_cache (key, value, updated_at)
    select key, value, 'epoch' from jsonb_each(${sql.json(rows as never)})`

/** By key, those of others left out while they are as they were. */
async function rows(): Promise<Rows> {
  const found = await sql`select key, value from integration_cache`
  const {
    'direct:other': one,
    'direct:calls:ended:other': two,
    ...own
  } = Object.fromEntries(found.map(({ key, value }) => [key, value]))
  expect({ 'direct:other': one, 'direct:calls:ended:other': two }).toEqual(OTHERS)
  return own
}

const three = (whole: unknown, ended: unknown, spent: unknown): Rows => ({
  [KEY]: whole,
  [`${KEY}:ended`]: ended,
  [`${KEY}:window`]: spent,
})
const empty = three({}, {}, {})

describe('the state that the rows make', () => {
  const merged = async (whole: unknown, ended: unknown, spent: unknown) =>
    (
      await sql`select integration_merged_calls(${sql.json(whole as never)}, ${sql.json(ended as never)}, ${sql.json(spent as never)}) as state`
    )[0]?.state

  it('has no part where no call has been', async () => {
    expect(await merged({}, {}, {})).toEqual({ window: null })
  })

  it('has the window, without the units that were given out', async () => {
    expect(await merged(STATE, ENDED, SPENT)).toEqual({ ...STATE, window: WINDOW })
    expect(await merged(STATE, ENDED, { ...SPENT, window: { ...WINDOW, given: 5 } })).toEqual({
      ...STATE,
      window: WINDOW,
    })
    expect(await merged(STATE, ENDED, { ...SPENT, window: null })).toEqual({ ...STATE, window: null })
  })

  it('has a breaker without slices where none is counted', async () => {
    expect(await merged({ ...STATE, breaker: CLOSED_BREAKER }, ENDED, SPENT)).toEqual({
      ...STATE,
      breaker: CLOSED_BREAKER,
      window: WINDOW,
    })
  })

  it('has the slices with the later counts added, in order', async () => {
    const slices = [
      [2_000, 5],
      [1_000, 1],
      [3_000, 1, 1],
      [2_000, 1],
    ]
    const whole = {
      ...STATE,
      breaker: {
        ...BREAKER,
        slices: [
          [1_000, 2, 1],
          [4_000, 9, 3],
        ],
      },
    }
    expect(await merged(whole, { ...ENDED, slices }, SPENT)).toEqual({
      ...STATE,
      breaker: {
        ...BREAKER,
        slices: [
          [1_000, 3, 1],
          [2_000, 6, 0],
          [3_000, 1, 1],
          [4_000, 9, 3],
        ],
      },
      window: WINDOW,
    })
  })

  it('has a single later count', async () => {
    expect(await merged(STATE, { ...ENDED, slices: [[1_000, 1]] }, SPENT)).toEqual({
      ...STATE,
      breaker: { ...BREAKER, slices: [[1_000, 3, 1]] },
      window: WINDOW,
    })
  })
})

describe('a state that is stored', () => {
  const storeState = (state: unknown) => sql`select integration_store_calls(${KEY}, ${sql.json(state as never)})`
  const versions = async () =>
    Object.fromEntries((await sql`select key, xmin::text from integration_cache`).map(({ key, xmin }) => [key, xmin]))
  const given = { ...STATE, window: WINDOW }

  it('is three rows, each with what its readers need', async () => {
    await store(empty)
    await storeState(given)
    expect(await rows()).toEqual(three(STATE, ENDED, SPENT))
    const written = await sql`select key from integration_cache where updated_at > 'epoch' order by key`
    expect(written.map(({ key }) => key)).toEqual(Object.keys(empty))
  })

  it.each(['open', 'half_open'] as const)(
    'has no generation for the joined statements while it is %s',
    async (state) => {
      await store(empty)
      const breaker = { ...BREAKER, state }
      await storeState({ ...given, breaker })
      expect(await rows()).toEqual(
        three({ ...STATE, breaker }, { ...ENDED, generation: null }, { ...SPENT, generation: null }),
      )
    },
  )

  it.each([
    ['', { ...STATE, breaker: { ...BREAKER, openedAt: 1 } }, WINDOW],
    [':ended', STATE, WINDOW],
    [':window', STATE, { ...WINDOW, count: 4 }],
  ])('is written in the row that changes, and in no other: "%s"', async (part, state, window) => {
    await store(three(STATE, part === ':ended' ? { ...ENDED, slices: [[1_000, 1]] } : ENDED, SPENT))
    const before = await versions()
    await storeState({ ...state, window })
    const after = await versions()
    expect(Object.keys(before).filter((key) => before[key] !== after[key])).toEqual([KEY + part])
    expect(await rows()).toEqual(three(state, ENDED, { ...SPENT, window }))
  })
})

describe('locked', () => {
  const lock = async (db: Sql = sql) => (await db`select integration_lock_calls(${ID}, ${KEY}) as state`)[0]?.state
  /** What another session holds, found without a wait. */
  const held = async () => {
    const free = await sql`select key from integration_cache for update skip locked`
    return PARTS.filter((part) => !free.some(({ key }) => key === KEY + part))
  }

  /** The lock is asked for while `holder` holds something, and waits until that is committed. */
  async function lockBehind(change: (holder: Sql) => Promise<unknown>) {
    let answer: Promise<unknown> | undefined
    await sql.begin(async (holder) => {
      await change(holder as unknown as Sql)
      answer = lock()
      await lockIsAwaited(sql)
    })
    return answer
  }

  it('the rows are made, and the state is empty, before the first call', async () => {
    expect(await lock()).toEqual({ window: null })
    expect(await rows()).toEqual(empty)
  })

  it.each(PARTS)('a row that is missing is made, the others stay: "%s"', async (part) => {
    const all = three(STATE, ENDED, SPENT)
    const { [KEY + part]: _, ...others } = all
    await store(others)
    await lock()
    expect(await rows()).toEqual({ ...all, [KEY + part]: {} })
  })

  it('the state is that of the three rows', async () => {
    await store(three(STATE, { ...ENDED, slices: [[1_000, 1]] }, SPENT))
    expect(await lock()).toEqual({
      breaker: { ...BREAKER, slices: [[1_000, 3, 1]] },
      suppressedUntil: 7_000,
      window: WINDOW,
    })
  })

  it.each([
    ['that are there', three(STATE, ENDED, SPENT)],
    ['that are new', {}],
  ])('rows %s are held until the transaction ends', async (_, before) => {
    await store(before)
    await sql.begin(async (holder) => {
      await lock(holder as unknown as Sql)
      expect(await held()).toEqual(PARTS)
    })
    expect(await held()).toEqual([])
  })

  it.each(PARTS)('a row that another session holds is waited for, and read afterwards: "%s"', async (part) => {
    await store(three(STATE, ENDED, SPENT))
    const state = await lockBehind(
      (holder) => holder`
        update integration_cache set value = value || ${sql.json({
          suppressedUntil: 8_000,
          slices: [[1_000, 1]],
          window: { ...WINDOW, count: 4 },
        })}
        where key = ${KEY + part}`,
    )
    expect(state).toMatchObject(
      [{ suppressedUntil: 8_000 }, { breaker: { slices: [[1_000, 3, 1]] } }, { window: { count: 4 } }][
        PARTS.indexOf(part)
      ] as object,
    )
  })

  it('the integration is not asked for where its rows are there', async () => {
    await store(three(STATE, ENDED, SPENT))
    await sql`delete from integrations where id = ${ID}`
    expect(await lock()).toEqual({ ...STATE, window: WINDOW })
    expect(await rows()).toEqual(three(STATE, ENDED, SPENT))
  })

  it('an integration that is gone has no state, and no row is left behind for it', async () => {
    await sql`delete from integrations where id = ${ID}`
    await store({ [`${KEY}:window`]: SPENT })
    expect(await lock()).toBeNull()
    expect(await rows()).toEqual({})
  })

  it('an integration that another session is deleting is waited for', async () => {
    expect(await lockBehind((holder) => holder`delete from integrations where id = ${ID}`)).toBeNull()
    expect(await rows()).toEqual({})
  })
})
