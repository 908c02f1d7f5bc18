/** Each rule of the SQL function `claim_events`, called as it is: rows by SQL, exact arguments, the exact result. */
import type { ISql, Sql } from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { DirectSql } from '../support/direct-sql.ts'
import { directSql } from '../support/direct-sql.ts'

/** A clock that is ahead of the database's. Each row is judged by it. */
const NOON = '2100-01-01T12:00:00.000Z'
const NOON_MS = Date.parse(NOON)
const EARLIER = '2100-01-01T11:00:00.000Z'
const JUST_AFTER = '2100-01-01T12:00:00.001Z'
/** A clock that is behind the database's, and a moment between the two. */
const LONG_AGO = '2000-01-01T12:00:00.000Z'
const BETWEEN = '2000-01-02T12:00:00.000Z'

interface Row {
  readonly id: number
  /** Integration: its first tries wait in queue `2 × of`, its later ones in the next queue. */
  readonly of: number
  readonly isLater?: boolean
  readonly due?: string
  readonly lost?: number
  readonly claim?: string
  readonly isDelivered?: boolean
  readonly attempts?: number
}

interface Call {
  readonly after: number
  readonly queues: number
  readonly rows: number
  readonly room: number
  readonly rooms: Record<string, number>
  readonly now: string | null
}

/** What a call took, how many queues it walked over, and the last one. */
type Taken = readonly [ids: readonly number[], walked: number, upto: number]

const NOTHING: Taken = [[], 0, 0]

let direct: DirectSql
let sql: Sql

beforeAll(async () => {
  direct = await directSql(2)
  ;({ sql } = direct)
  // One statement each: integrations of one transaction have one version.
  for (let id = 1; id <= 5; id += 1)
    await sql`insert into integrations (id, provider, name, credentials) values (${id}, 'acme', 'of a test', '')`
})
afterAll(() => direct.end())
beforeEach(() => sql`truncate integration_events`)

/** Rows that have no moment are long due. */
const store = (rows: readonly Row[]) => sql`
  insert into integration_events
    (id, integration_id, name, payload, outcomes, due_at, lost_workers, claim, delivered_at, attempts, updated_at)
  select id, "of", 'E', '{}', case when "isLater" then '{"listener:a": {}}' else '{}' end::jsonb,
    coalesce(due, ${EARLIER}), coalesce(lost, 0), claim, case when "isDelivered" then now() end, coalesce(attempts, 0), 'epoch'
  from jsonb_to_recordset(${sql.json(rows as never)}) as r (
    id int, "of" int, "isLater" boolean, due timestamptz, lost int, claim text, "isDelivered" boolean, attempts int)`

const FULL: Call = { after: 0, queues: 100, rows: 100, room: 100, rooms: {}, now: NOON }

/** The function's rows, those of events by id. */
async function claim(given: Partial<Call> = {}, db: ISql = sql) {
  const { after, queues, rows, room, rooms, now } = { ...FULL, ...given }
  const found = await db`
    select (event).id::int, (event).integration_id::int as of, to_jsonb(event) as event, version, judged_at_ms,
      walked, upto::int
    from integration_claim_events('mine', ${after}, ${queues}, ${rows}, ${room}, ${sql.json(rooms)}, ${now})`
  const end = found.at(-1)
  expect(end).toMatchObject({ id: null, version: null, judged_at_ms: null })
  const events = found.slice(0, -1).sort((a, b) => a.id - b.id)
  return { events, taken: [events.map(({ id }) => id), end?.walked, end?.upto] as unknown as Taken }
}

/** By id. */
const held = async () =>
  (await sql`select id::int from integration_events where claim = 'mine' order by id`).map(({ id }) => id as number)

type Case = readonly [rule: string, rows: readonly Row[], call: Partial<Call>, taken: Taken]

const check = async (_: string, rows: readonly Row[], call: Partial<Call>, taken: Taken): Promise<void> => {
  await store(rows)
  const before = await held()
  expect((await claim(call)).taken).toEqual(taken)
  expect(await held()).toEqual([...before, ...taken[0]].sort((a, b) => a - b))
}

describe('a row is due', () => {
  it.each<Case>([
    ['at its very moment', [{ id: 1, of: 1, due: NOON }], {}, [[1], 1, 2]],
    ['at its very moment, a later try', [{ id: 1, of: 1, isLater: true, due: NOON }], {}, [[1], 1, 3]],
    ['not a millisecond before', [{ id: 1, of: 1, due: JUST_AFTER }], {}, NOTHING],
    [
      'at its very moment, behind another queue',
      [
        { id: 1, of: 1 },
        { id: 2, of: 2, due: NOON },
        { id: 3, of: 2, isLater: true, due: NOON },
        { id: 4, of: 3, due: JUST_AFTER },
      ],
      {},
      [[1, 2, 3], 3, 6],
    ],
    [
      'at its very moment, behind another row of its queue',
      [
        { id: 1, of: 1 },
        { id: 2, of: 1, due: NOON },
        { id: 3, of: 1, due: JUST_AFTER },
      ],
      {},
      [[1, 2], 1, 2],
    ],
  ])('%s', check)

  // The clock of a test need not have reached the moment at which the database stored a row.
  it.each<Case>([
    ['a first try', [{ id: 1, of: 1, due: BETWEEN }], { now: LONG_AGO }, [[1], 1, 2]],
    ['not a later one', [{ id: 1, of: 1, isLater: true, due: BETWEEN }], { now: LONG_AGO }, [[], 0, 3]],
    [
      'a first try behind another queue, not a later one',
      [
        { id: 1, of: 1, due: LONG_AGO },
        { id: 2, of: 2, due: BETWEEN },
        { id: 3, of: 2, isLater: true, due: BETWEEN },
      ],
      { now: LONG_AGO },
      [[1, 2], 2, 5],
    ],
    [
      'a first try behind another row of its queue, not a later one',
      [
        { id: 1, of: 1, due: LONG_AGO },
        { id: 2, of: 1, due: BETWEEN },
        { id: 3, of: 1, isLater: true, due: LONG_AGO },
        { id: 4, of: 1, isLater: true, due: BETWEEN },
      ],
      { now: LONG_AGO },
      [[1, 2, 3], 2, 3],
    ],
  ])('by the database’s clock where the given one is behind it: %s', check)
})

describe('the walk', () => {
  const DUE = [1, 2, 3, 4].map((of) => ({ id: of, of }))

  it.each<Case>([
    ['takes of each queue, and says how far it came', DUE, {}, [[1, 2, 3, 4], 4, 8]],
    ['ends after one queue where no more are asked for', DUE, { queues: 1 }, [[1], 1, 2]],
    ['ends after as many queues as are asked for', DUE, { queues: 2 }, [[1, 2], 2, 4]],
    ['goes on behind the queue at which the last one ended', DUE, { after: 4, queues: 1 }, [[3], 1, 6]],
    ['finds nothing behind the last queue', DUE, { after: 8 }, NOTHING],
    [
      'is not made while nothing is due',
      [
        { id: 1, of: 1, due: JUST_AFTER },
        { id: 2, of: 2, isDelivered: true },
        { id: 3, of: 3, claim: 'other' },
      ],
      {},
      NOTHING,
    ],
    [
      'does not count a queue without due rows',
      [
        { id: 1, of: 1, due: JUST_AFTER },
        { id: 2, of: 2 },
        { id: 3, of: 3, due: JUST_AFTER },
        { id: 4, of: 4 },
        { id: 5, of: 5 },
      ],
      { queues: 2 },
      [[2, 4], 2, 8],
    ],
    [
      'says how far it came where only queues without due rows are left',
      [
        { id: 1, of: 1 },
        { id: 2, of: 2, due: JUST_AFTER },
      ],
      { after: 2 },
      [[], 0, 4],
    ],
    ['comes upon no queue whose rows have all lost a worker', [{ id: 1, of: 1, lost: 1 }], {}, [[1], 0, 0]],
    [
      'begins at the first queue that has a row to give',
      [
        { id: 1, of: 1, isDelivered: true },
        { id: 2, of: 2, claim: 'other' },
        { id: 3, of: 3, lost: 1 },
        { id: 4, of: 4 },
        { id: 5, of: 5 },
      ],
      { queues: 1 },
      [[3, 4], 1, 8],
    ],
    [
      'goes on to the next queue that has a row to give',
      [
        { id: 1, of: 1 },
        { id: 2, of: 2, isDelivered: true },
        { id: 3, of: 3, claim: 'other' },
        { id: 4, of: 4, lost: 1 },
        { id: 5, of: 5 },
      ],
      { queues: 2 },
      [[1, 4, 5], 2, 10],
    ],
  ])('%s', check)
})

describe('of a queue', () => {
  it.each<Case>([
    [
      'the longest due rows are taken, of two the lower id, as many as there is room for',
      [
        { id: 1, of: 1, due: NOON },
        { id: 2, of: 1, due: EARLIER },
        { id: 3, of: 1, due: LONG_AGO },
        { id: 4, of: 1, due: EARLIER },
      ],
      { room: 2 },
      [[2, 3], 1, 2],
    ],
    [
      'a room of its own goes before that of any other',
      [1, 2, 3].flatMap((of) => [1, 2, 3].map((n) => ({ id: of * 10 + n, of }))),
      { room: 1, rooms: { 4: 2, 6: 0 } },
      [[11, 21, 22], 3, 6],
    ],
    [
      'no row is taken that is delivered, that a claim holds or that another queue has',
      [
        { id: 1, of: 1, due: LONG_AGO, isDelivered: true },
        { id: 2, of: 1, due: LONG_AGO, claim: 'other' },
        { id: 3, of: 2, due: LONG_AGO },
        { id: 4, of: 1 },
      ],
      { queues: 1, room: 1 },
      [[4], 1, 2],
    ],
    [
      'rows that have lost a worker take no room',
      [
        { id: 1, of: 1, due: LONG_AGO, lost: 1 },
        { id: 2, of: 1 },
      ],
      { room: 1 },
      [[1, 2], 1, 2],
    ],
  ])('%s', check)

  it('no more rows are taken than a call may have, those that have lost a worker first', async () => {
    await store([
      { id: 1, of: 1 },
      { id: 2, of: 1 },
      { id: 3, of: 1, lost: 1 },
    ])
    const { taken } = await claim({ rows: 2 })
    expect(taken).toEqual([[expect.any(Number), 3], 1, 2])
    expect(await held()).toHaveLength(2)
  })
})

describe('rows that have lost a worker', () => {
  const NOT_YET = { due: JUST_AFTER }

  it.each<Case>([
    [
      'come before they are due, as many that have lost one as there is room for, by id',
      [1, 2, 3].map((id) => ({ id, of: 1, lost: 1, ...NOT_YET })),
      { room: 2 },
      [[1, 2], 0, 0],
    ],
    [
      'come alone when they have lost more',
      [
        { id: 1, of: 1, lost: 3 },
        { id: 2, of: 1, lost: 2 },
        { id: 3, of: 1, lost: 2 },
      ],
      {},
      [[2], 0, 0],
    ],
    [
      'come after those that have lost fewer',
      [
        { id: 1, of: 1, lost: 2 },
        { id: 2, of: 1, lost: 1 },
        { id: 3, of: 1, lost: 1 },
        { id: 4, of: 1 },
      ],
      {},
      [[2, 3, 4], 1, 2],
    ],
    [
      'are not those that are delivered or that another claim holds',
      [
        { id: 1, of: 1, lost: 1, isDelivered: true },
        { id: 2, of: 1, lost: 2, isDelivered: true },
        { id: 3, of: 1, lost: 1, claim: 'other' },
        { id: 4, of: 1, lost: 2, claim: 'other' },
        { id: 5, of: 1, lost: 2 },
        { id: 6, of: 1 },
      ],
      {},
      [[5, 6], 1, 2],
    ],
    [
      'are not those that are delivered or that another claim holds, where one is lost',
      [
        { id: 1, of: 1, lost: 1, isDelivered: true },
        { id: 2, of: 1, lost: 1, claim: 'other' },
        { id: 3, of: 1, lost: 1 },
        { id: 4, of: 1, lost: 1 },
      ],
      { room: 1 },
      [[3], 0, 0],
    ],
    [
      'wait while the claim still holds one, and others go on',
      [
        { id: 1, of: 1, lost: 1, claim: 'mine' },
        { id: 2, of: 1, lost: 1 },
        { id: 3, of: 1 },
      ],
      {},
      [[3], 1, 2],
    ],
    [
      'do not wait for what the claim holds beside them, nor for what it has delivered',
      [
        { id: 1, of: 1, claim: 'mine' },
        { id: 2, of: 1, lost: 1, claim: 'mine', isDelivered: true },
        { id: 3, of: 1, lost: 1 },
      ],
      {},
      [[3], 0, 0],
    ],
  ])('%s', check)
})

describe('a row that is taken', () => {
  it('has the claim and one attempt more, and is given as it then is', async () => {
    await store([{ id: 1, of: 1, attempts: 3 }])
    const { events } = await claim()
    const [row] = await sql`select to_jsonb(e) as event from integration_events e`
    expect(row?.event).toMatchObject({ id: 1, claim: 'mine', attempts: 4, delivered_at: null, lost_workers: 0 })
    expect(row?.event.updated_at).not.toMatch(/^1970/)
    expect(events).toEqual([expect.objectContaining({ event: row?.event, judged_at_ms: NOON_MS, walked: 0, upto: 0 })])
  })

  it('counts no attempt beyond what the column holds', async () => {
    await store([{ id: 1, of: 1, attempts: 32_767 }])
    expect((await claim()).events).toMatchObject([{ event: { attempts: 32_767 } }])
  })

  it('comes with the version of its own integration', async () => {
    await store([1, 2, 3].map((of) => ({ id: of, of })))
    const versions = await sql`select xmin::text as version from integrations where id <= 3 order by id`
    expect(new Set(versions.map(({ version }) => version)).size).toBe(3)
    const { events } = await claim()
    expect(events.map(({ version }) => version)).toEqual(versions.map(({ version }) => version))
  })
})

it.each([
  ['due rows', { lost: 0 }, [2, 3]],
  ['rows that have lost a worker', { lost: 1 }, [2, 3]],
  ['rows that come alone', { lost: 2 }, [2]],
])('%s that another statement is taking are passed over, without a wait', async (_, values, ids) => {
  await store([1, 2, 3].map((id) => ({ id, of: 1, ...values })))
  await sql.begin(async (holder) => {
    await holder`select from integration_events where id = 1 for update`
    expect((await claim({ room: 2 })).taken[0]).toEqual(ids)
  })
})

it('a row is due in the millisecond in which the database stored it, whatever part of it has passed', async () => {
  for (let n = 0; n < 30; n += 1) {
    await sql.begin(async (tx) => {
      await tx`delete from integration_events`
      await tx`
        insert into integration_events (id, integration_id, name, payload, outcomes, due_at)
        select id, id, 'E', '{}', case id when 2 then '{"listener:a": {}}' else '{}' end::jsonb,
          now()::timestamptz(3) + case id when 3 then interval '1 ms' else '0' end
        from generate_series(1, 3) id`
      const [moment] = await tx`select extract(epoch from now()::timestamptz(3))::float8 * 1000 as ms`
      expect((await claim({ now: LONG_AGO }, tx)).taken).toEqual([[1], 1, 6])
      await tx`update integration_events set claim = null`
      const { taken, events } = await claim({ now: null }, tx)
      expect(taken).toEqual([[1, 2], 2, 6])
      expect(events.map(({ judged_at_ms }) => judged_at_ms)).toEqual([moment?.ms, moment?.ms])
    })
  }
})
