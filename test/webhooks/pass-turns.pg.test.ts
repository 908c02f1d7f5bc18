/** Each rule of the SQL function `pass_turns`, called as it is: rows by SQL, exact keys, the exact result and what is left. */
import type { Sql } from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { DirectSql } from '../support/direct-sql.ts'
import { directSql, lockIsAwaited } from '../support/direct-sql.ts'

interface Row {
  readonly id: number
  /** Integration. Default: 1. */
  readonly of?: number
  /** Default: a. */
  readonly key?: string
  readonly coalesces?: boolean
  /** Default: it waits. */
  readonly turn?: true
  readonly hasHadIt?: true
}

type Key = readonly [integrationId: number, key: string]

/** Ids: `turn`: they have it now; `settled`: without a run. */
interface Left {
  readonly turn: readonly number[]
  readonly waits: readonly number[]
  readonly settled: readonly number[]
}

const A: Key = [1, 'a']

let direct: DirectSql
let sql: Sql

beforeAll(async () => {
  direct = await directSql(3)
  ;({ sql } = direct)
  await sql`
    insert into integrations (id, provider, name, credentials) select id, 'acme', 'of a test', '' from generate_series(1, 2) id`
})
afterAll(() => direct.end())
beforeEach(async () => {
  await sql`truncate integration_webhooks, integration_deliveries`
  await sql`delete from integration_logs`
})

const store = (...rows: Row[]) => sql`
  insert into integration_webhooks
    (id, integration_id, delivery_id, payload, headers, ordering_key, coalesces, key_turn, updated_at)
  select id, coalesce("of", 1), 'delivery ' || id, '', '{}', coalesce(key, 'a'), coalesce(coalesces, false),
    case when not "hasHadIt" is true then coalesce(turn, false) end, 'epoch'
  from jsonb_to_recordset(${sql.json(rows as never)}) as r (
    id int, "of" int, key text, coalesces boolean, turn boolean, "hasHadIt" boolean)`

/** Rows of a key that coalesce and wait, `step` apart. */
const storeMany = ([of, key]: Key, count: number, from: number, step = 1) => sql`
  insert into integration_webhooks (id, integration_id, delivery_id, payload, headers, ordering_key, coalesces, key_turn)
  select id, ${of}, ${key} || id, '', '{}', ${key}, true, false
  from generate_series(${from}::int, ${from + (count - 1) * step}::int, ${step}::int) id`

async function pass(...keys: Key[]): Promise<number> {
  const [row] = await sql`select integration_pass_turns(${sql.json(keys)}) as given`
  return row?.given
}

async function left(): Promise<Left> {
  const rows = await sql`select id::int, key_turn, status from integration_webhooks order by id`
  const ids = (is: (row: (typeof rows)[number]) => boolean) => rows.filter(is).map(({ id }) => id as number)
  return {
    turn: ids(({ key_turn }) => key_turn === true),
    waits: ids(({ key_turn }) => key_turn === false),
    settled: ids(({ status }) => status === 'processed'),
  }
}

/** How many rows are settled, and what has the turn. */
async function settledAndTurns(): Promise<[settled: number, turns: number]> {
  const { settled, turn } = await left()
  return [settled.length, turn.length]
}

type Case = readonly [rule: string, rows: readonly Row[], keys: readonly Key[], given: number, left: Left]

const check = async (_: string, rows: readonly Row[], keys: readonly Key[], given: number, then: Left) => {
  await store(...rows)
  expect(await pass(...keys)).toBe(given)
  expect(await left()).toEqual(then)
}

/** Waiting rows of other keys, and one of the key that has had its turn: ids of `tens` and 1 to 3 more. */
const others = (tens: number, coalesces: boolean): Row[] => [
  { id: tens + 1, of: 2, coalesces },
  { id: tens + 2, key: 'b', coalesces },
  { id: tens + 3, hasHadIt: true, coalesces },
]

describe('the turn', () => {
  it.each<Case>([
    [
      'goes to the first row of its key that waits',
      [...others(0, false), { id: 10 }, { id: 20 }],
      [A],
      1,
      { turn: [10], waits: [1, 2, 20], settled: [] },
    ],
    [
      'stays where it is',
      [{ id: 10 }, { id: 20, turn: true }, { id: 30 }],
      [A],
      0,
      { turn: [20], waits: [10, 30], settled: [] },
    ],
    [
      'of another key is no hindrance',
      [{ id: 1, of: 2, turn: true }, { id: 2, key: 'b', turn: true }, { id: 10 }],
      [A],
      1,
      { turn: [1, 2, 10], waits: [], settled: [] },
    ],
    [
      'is given once for each key, however often the key is named',
      [{ id: 1, of: 2 }, { id: 2, key: 'b' }, { id: 10 }, { id: 20 }],
      [A, [2, 'a'], A, [1, 'b']],
      3,
      { turn: [1, 2, 10], waits: [20], settled: [] },
    ],
    [
      'goes to none where none waits',
      [
        { id: 10, hasHadIt: true },
        { id: 20, key: 'b' },
      ],
      [A],
      0,
      { turn: [], waits: [20], settled: [] },
    ],
    ['goes to none without a key', [{ id: 10 }], [], 0, { turn: [], waits: [10], settled: [] }],
  ])('%s', check)
})

describe('of rows that coalesce', () => {
  const at = (...ids: number[]): Row[] => ids.map((id) => ({ id, coalesces: true }))

  it.each<Case>([
    [
      'the newest gets the turn, and those before it are settled',
      [...at(10, 20, 30), ...[0, 10, 20, 30].flatMap((tens) => others(tens, true))],
      [A],
      1,
      { turn: [30], waits: [1, 2, 11, 12, 21, 22, 31, 32], settled: [10, 20] },
    ],
    [
      'it is the newest before the first one that does not',
      [...at(10, 20), { id: 30 }, { id: 40 }, ...at(50), ...[0, 10].flatMap((tens) => others(tens, false))],
      [A],
      1,
      { turn: [20], waits: [1, 2, 11, 12, 30, 40, 50], settled: [10] },
    ],
    [
      'none passes one before it that does not',
      [{ id: 10 }, ...at(20, 30)],
      [A],
      1,
      { turn: [10], waits: [20, 30], settled: [] },
    ],
    ['a single one gets the turn', at(10), [A], 1, { turn: [10], waits: [], settled: [] }],
    [
      'none is settled while another row has the turn',
      [{ id: 10, turn: true }, ...at(20, 30)],
      [A],
      0,
      { turn: [10], waits: [20, 30], settled: [] },
    ],
  ])('%s', check)

  it('those settled are processed without a run, each with a log row', async () => {
    await store(...at(10, 20, 30))
    await sql`update integration_webhooks set attempts = 2, error = 'bad', claim = 'old', is_own = true`
    await sql`update integration_webhooks set replay_attempt = 2 where id = 20`
    await pass(A)
    const rows = await sql`
      select id::int, status, attempts, error, claim, processed_at > 'yesterday' as is_processed, updated_at = 'epoch' as is_old
      from integration_webhooks where id < 30 order by id`
    const settled = { status: 'processed', attempts: 2, error: null, claim: null, is_processed: true, is_old: false }
    expect(rows).toEqual([10, 20].map((id) => ({ id, ...settled })))
    const logs = await sql`
      select integration_id::int, operation, direction, status, external_id, result_data, duration_ms, origin
      from integration_logs order by id`
    const log = { integration_id: 1, direction: 'inbound', status: 'success', duration_ms: 0 }
    const result_data = { status: 'coalesced' }
    expect(logs).toEqual([
      { ...log, result_data, operation: 'webhook', external_id: 'delivery 10', origin: 'webhook:10' },
      { ...log, result_data, operation: 'webhook_replay', external_id: 'delivery 20', origin: 'webhook:20' },
    ])
  })

  it.each([
    ['the newest of several is no echo: those settled may have been changes by others', at(10, 20), 20, false],
    ['a single one stays the echo that it was', at(10), 10, true],
  ])('%s', async (_, rows, id, isOwn) => {
    await store(...rows)
    await sql`update integration_webhooks set attempts = 1, is_own = true`
    await pass(A)
    const [row] = await sql`
      select status, attempts, is_own, updated_at = 'epoch' as is_old from integration_webhooks where id = ${id}`
    expect(row).toEqual({ status: 'pending', attempts: 1, is_own: isOwn, is_old: false })
  })

  it('one that leaves the order meanwhile is not settled', async () => {
    await store(...at(10, 20, 30))
    const { passing } = await sql.begin(async (holder) => {
      await holder`update integration_webhooks set status = 'failed', key_turn = null where id = 10`
      const passing = pass(A)
      await lockIsAwaited(sql)
      return { passing }
    })
    expect(await passing).toBe(1)
    expect(await left()).toEqual({ turn: [30], waits: [], settled: [20] })
    expect(await sql`select origin from integration_logs`).toEqual([{ origin: 'webhook:20' }])
  })
})

describe('a call settles a thousand rows at most', () => {
  it('and a key with so many has its turn then', async () => {
    await storeMany(A, 1_001, 1, 2)
    await store({ id: 500, hasHadIt: true })
    expect(await pass(A)).toBe(1)
    expect(await settledAndTurns()).toEqual([1_000, 1])
  })

  it('and a key with more gets its turn from a later call; other keys get theirs', async () => {
    await storeMany(A, 1_002, 1)
    await store({ id: 5_000, key: 'b' })
    expect(await pass(A, [1, 'b'])).toBe(-1 - 1)
    expect(await left()).toMatchObject({ turn: [5_000], waits: [1_001, 1_002] })
    expect(await pass(A, [1, 'b'])).toBe(1)
    expect(await left()).toMatchObject({ turn: [1_002, 5_000], waits: [] })
  })

  it('of all its keys', async () => {
    await storeMany(A, 501, 1)
    await storeMany([1, 'b'], 501, 5_001)
    expect(await pass(A, [1, 'b'])).toBe(2)
    expect(await settledAndTurns()).toEqual([1_000, 2])
  })

  // Which of the keys comes first is Postgres' choice.
  it.each([
    ['keys of one integration', A, [1, 'b']],
    ['keys of one integration, the other way round', [1, 'b'], A],
    ['the same key of two integrations', A, [2, 'a']],
    ['the same key of two integrations, the other way round', [2, 'a'], A],
  ] satisfies [string, Key, Key][])('the rest of one of two is left: %s', async (_, one, other) => {
    await storeMany(one, 601, 1)
    await storeMany(other, 601, 5_001)
    expect(await pass(A, one, other)).toBe(-1 - 1)
    expect(await settledAndTurns()).toEqual([1_000, 1])
    expect(await pass(A, one, other)).toBe(1)
    expect(await settledAndTurns()).toEqual([1_200, 2])
  })

  it('and a key of which none could be settled has no turn yet', async () => {
    const keys = Array.from({ length: 1_001 }, (_, n): Key => [1, `key ${n}`])
    await sql`
      insert into integration_webhooks (id, integration_id, delivery_id, payload, headers, ordering_key, coalesces, key_turn)
      select n * 2 + each, 1, n * 2 + each, '', '{}', 'key ' || n, true, false
      from generate_series(0, 1000) n, generate_series(1, 2) each`
    expect(await pass(...keys)).toBe(-1 - 1_000)
    expect(await settledAndTurns()).toEqual([1_000, 1_000])
    expect(await pass(...keys)).toBe(1)
    expect(await settledAndTurns()).toEqual([1_001, 1_001])
  })
})
