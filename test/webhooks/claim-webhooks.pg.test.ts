/** Each rule of the SQL function `claim_webhooks`, called as it is: rows by SQL, exact arguments, the exact result. */
import type { Sql } from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { DirectSql } from '../support/direct-sql.ts'
import { directSql } from '../support/direct-sql.ts'

interface Row {
  readonly id: number
  /** Integration. 9 is disabled by its health. */
  readonly of: number
  readonly status?: 'pending' | 'processing' | 'processed' | 'failed'
  /** Left out: it has no ordering key. */
  readonly hasTurn?: boolean
  readonly lost?: number
  readonly attempts?: number
}

interface Call {
  readonly after: number
  readonly integrations: number
  readonly rows: number
  readonly room: number
  readonly rooms: Record<string, number>
}

/** What a call took, how many integrations it walked over, and the last one. */
type Taken = readonly [ids: readonly number[], walked: number, upto: number]

let direct: DirectSql
let sql: Sql

beforeAll(async () => {
  direct = await directSql(2)
  ;({ sql } = direct)
  // One statement each: integrations of one transaction have one version.
  for (const id of [1, 2, 3, 4, 5, 9])
    await sql`
      insert into integrations (id, provider, name, credentials, health_status)
      values (${id}, 'acme', 'of a test', '', ${id === 9 ? 'disabled' : 'failing'})`
})
afterAll(() => direct.end())
beforeEach(() => sql`truncate integration_webhooks, integration_deliveries`)

async function store(rows: readonly Row[]): Promise<void> {
  for (const { id, of, status = 'pending', hasTurn, lost = 0, attempts = 0 } of rows)
    await sql`
      insert into integration_webhooks
        (id, integration_id, delivery_id, payload, headers, status, ordering_key, key_turn, lost_workers, attempts)
      values (${id}, ${of}, ${id}, '', '{}', ${status}, ${hasTurn === undefined ? null : `key ${id}`}, ${hasTurn ?? null},
        ${lost}, ${attempts})`
}

const FULL: Call = { after: 0, integrations: 100, rows: 100, room: 100, rooms: {} }

/** The function's rows, those of webhooks by id. */
async function claim(given: Partial<Call> = {}) {
  const { after, integrations, rows, room, rooms } = { ...FULL, ...given }
  const found = await sql`
    select (webhook).id::int, to_jsonb(webhook) as webhook, version, walked, upto::int
    from integration_claim_webhooks('mine', ${after}, ${integrations}, ${rows}, ${room}, ${sql.json(rooms)})`
  const end = found.at(-1)
  expect(end).toMatchObject({ id: null, version: null })
  const webhooks = found.slice(0, -1).sort((a, b) => a.id - b.id)
  return { webhooks, taken: [webhooks.map(({ id }) => id), end?.walked, end?.upto] as unknown as Taken }
}

type Case = readonly [rule: string, rows: readonly Row[], call: Partial<Call>, taken: Taken]

const check = async (_: string, rows: readonly Row[], call: Partial<Call>, taken: Taken): Promise<void> => {
  await store(rows)
  expect((await claim(call)).taken).toEqual(taken)
  const held = await sql`select id::int from integration_webhooks where claim = 'mine' order by id`
  expect(held.map(({ id }) => id)).toEqual(taken[0])
}

describe('the walk', () => {
  const PENDING = [1, 2, 3, 4].map((of) => ({ id: of * 10, of }))

  it.each<Case>([
    ['takes of each integration, and says how far it came', PENDING, {}, [[10, 20, 30, 40], 4, 4]],
    ['ends after one where no more are asked for', PENDING, { integrations: 1 }, [[10], 1, 1]],
    ['ends after two where two are asked for', PENDING, { integrations: 2 }, [[10, 20], 2, 2]],
    ['ends after three where three are asked for', PENDING, { integrations: 3 }, [[10, 20, 30], 3, 3]],
    ['goes on behind the one at which the last walk ended', PENDING, { after: 2 }, [[30, 40], 2, 4]],
    ['finds nothing behind the last one', PENDING, { after: 4 }, [[], 0, 0]],
    ['finds nothing where nothing is', [], {}, [[], 0, 0]],
    [
      'begins at the first one with a pending row that waits for no other one',
      [
        { id: 1, of: 1, status: 'processing' },
        { id: 2, of: 2, status: 'failed' },
        { id: 3, of: 3, hasTurn: false },
        { id: 4, of: 4, hasTurn: true },
        { id: 5, of: 5 },
      ],
      { integrations: 1 },
      [[4], 1, 4],
    ],
    [
      'goes on to the next one with a pending row that waits for no other one',
      [
        { id: 1, of: 1 },
        { id: 2, of: 2, status: 'processed' },
        { id: 3, of: 3, hasTurn: false },
        { id: 4, of: 4, hasTurn: true },
        { id: 5, of: 5 },
      ],
      { integrations: 2 },
      [[1, 4], 2, 4],
    ],
    [
      'passes over one that its health disabled, and counts it',
      [
        { id: 1, of: 5 },
        { id: 2, of: 9 },
      ],
      {},
      [[1], 2, 9],
    ],
    ['passes over one whose rows have all lost a worker, and counts it', [{ id: 1, of: 1, lost: 1 }], {}, [[], 1, 1]],
    [
      'has taken of the first ones where the limit of rows cuts it',
      [4, 3, 2, 1].flatMap((of) => [1, 2].map((n) => ({ id: (5 - of) * 10 + n, of }))),
      { rows: 3 },
      [[31, 41, 42], 4, 4],
    ],
  ])('%s', check)
})

describe('of an integration', () => {
  it.each<Case>([
    [
      'the lowest ids are taken, as many as there is room for',
      [3, 1, 2].map((id) => ({ id, of: 1 })),
      { room: 2 },
      [[1, 2], 1, 1],
    ],
    [
      'a room of its own goes before that of any other',
      [1, 2, 3].flatMap((of) => [1, 2, 3].map((n) => ({ id: of * 10 + n, of }))),
      { room: 1, rooms: { 2: 2, 3: 0 } },
      [[11, 21, 22], 3, 3],
    ],
    [
      'no row is taken that is not pending, waits for another one, has lost a worker or is another one’s',
      [
        { id: 1, of: 1, status: 'processing' },
        { id: 2, of: 1, status: 'processed' },
        { id: 3, of: 1, status: 'failed' },
        { id: 4, of: 1, hasTurn: false },
        { id: 5, of: 1, lost: 1 },
        { id: 6, of: 1, lost: 2 },
        { id: 7, of: 2 },
        { id: 8, of: 1, hasTurn: true },
        { id: 9, of: 1 },
      ],
      { integrations: 1, room: 1 },
      [[8], 1, 1],
    ],
  ])('%s', check)

  it('a row that another statement is taking is passed over, without a wait', async () => {
    await store([1, 2, 3].map((id) => ({ id, of: 1 })))
    await sql.begin(async (holder) => {
      await holder`select from integration_webhooks where id = 1 for update`
      expect((await claim({ room: 1 })).taken[0]).toEqual([2])
    })
  })
})

describe('a row that is taken', () => {
  it('is processing under the claim, with one attempt more and nothing of the attempt before', async () => {
    await store([{ id: 1, of: 1, attempts: 3, hasTurn: true }])
    await sql`
      update integration_webhooks
      set error = 'bad', processed_at = now(), dismissed_at = now(), updated_at = 'epoch', headers = '{"a": ["1"]}'`
    const { webhooks } = await claim()
    const [row] = await sql`select to_jsonb(w) as webhook from integration_webhooks w`
    expect(row?.webhook).toMatchObject({
      ...{ id: 1, status: 'processing', claim: 'mine', attempts: 4, key_turn: true, headers: { a: ['1'] } },
      ...{ error: null, processed_at: null, dismissed_at: null },
    })
    expect(row?.webhook.updated_at).not.toMatch(/^1970/)
    expect(webhooks).toEqual([expect.objectContaining({ webhook: row?.webhook, walked: 0, upto: 0 })])
  })

  it('counts no attempt beyond what the column holds', async () => {
    await store([{ id: 1, of: 1, attempts: 32_767 }])
    expect((await claim()).webhooks).toMatchObject([{ webhook: { attempts: 32_767 } }])
  })

  it('comes with the version of its own integration', async () => {
    await store([1, 2, 3].map((of) => ({ id: of, of })))
    const versions = await sql`select xmin::text as version from integrations where id <= 3 order by id`
    expect(new Set(versions.map(({ version }) => version)).size).toBe(3)
    const { webhooks } = await claim()
    expect(webhooks.map(({ version }) => version)).toEqual(versions.map(({ version }) => version))
  })

  it('and is a part comes with the headers of its whole, its own ones first; the table keeps its own alone', async () => {
    await store([1, 2, 3].map((id) => ({ id, of: 1 })))
    await sql`
      insert into integration_deliveries (id, integration_id, delivery_id, payload, headers, parts)
      select id, 1, id, '', jsonb_build_object('from', jsonb_build_array('whole ' || id), 'kept', '[]'::jsonb), 1
      from generate_series(1, 2) id`
    await sql`
      update integration_webhooks set headers = '{"from": ["part"], "own": []}', part_of = case when id < 3 then id end`
    await sql`update integration_webhooks set headers = '{"own": []}' where id = 2`
    const { webhooks } = await claim()
    expect(webhooks.map(({ webhook }) => webhook.headers)).toEqual([
      { from: ['part'], kept: [], own: [] },
      { from: ['whole 2'], kept: [], own: [] },
      { from: ['part'], own: [] },
    ])
    const [kept] = await sql`select headers from integration_webhooks where id = 2`
    expect(kept?.headers).toEqual({ own: [] })
  })
})
