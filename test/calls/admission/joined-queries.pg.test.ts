/** Admission and settlement for many integrations in one statement, on a real Postgres. */
import fc from 'fast-check'
import type { Sql } from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CallOutcome, CallRules, CallTarget } from '../../../src/calls/admission/call-queries.ts'
import { admitCalls, settleCalls } from '../../../src/calls/admission/call-queries.ts'
import type { Asked, Ended } from '../../../src/calls/admission/joined-queries.ts'
import { admitJoined, canJoin, joinable, settleJoined } from '../../../src/calls/admission/joined-queries.ts'
import type { StoredCallState } from '../../../src/calls/admission/state-queries.ts'
import { callStates, lockCallState, storeCallState } from '../../../src/calls/admission/state-queries.ts'
import type { CallState, Limit } from '../../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER } from '../../../src/calls/admission/state-rules.ts'
import type { Connection } from '../../../src/db/client.ts'
import { createTables } from '../../../src/db/schema/tables.ts'
import { NO_CALLS } from '../../model/call-state.ts'
import { connectTestDatabase } from '../../support/database.ts'
import { commitsAround } from '../../support/direct-sql.ts'
import { requestValues } from '../../support/request-values.ts'

let connection: Connection
const tables = createTables('integration')
beforeAll(async () => {
  connection = await connectTestDatabase()
})
afterAll(() => connection?.close())

/** The start of windows and slices of a minute and less. */
const START = 1_800_000_000_000
const MINUTE_MS = 60_000
const RULES: CallRules = {
  breaker: {
    enabled: true,
    strategy: 'rate',
    windowSeconds: 60,
    ratePercent: 50,
    minimum: 10,
    threshold: 5,
    cooldownSeconds: 30,
  },
  limit: null,
  circuitOverrides: true,
  limitOverrides: true,
  health: { degradedAfter: 1, failingAfter: 3, disabledAfter: 5 },
  incidents: true,
}
const perMinute = (limit: number): Limit => ({ limit, seconds: 60, window: 'fixed' })
const counting = (rules: CallRules = RULES): CallRules => ({
  ...rules,
  breaker: { ...rules.breaker, strategy: 'count' },
})
const ROW = requestValues()
const OUTCOME: CallOutcome = {
  owner: 'somebody',
  generation: 0,
  class: null,
  quietForMs: null,
  quietUntil: null,
  row: ROW,
}

const admit = (asked: readonly Asked[]) => admitJoined(connection.db, tables, asked)
const settle = (ended: readonly Ended[]) => settleJoined(connection.db, tables, ended)

async function integration(rules: CallRules = RULES): Promise<CallTarget> {
  const values = { provider: 'plain', name: 'of a test', credentials: 'sealed' }
  const [row] = await connection.db.insert(tables.integrations).values(values).returning()
  const { id } = row as { id: number }
  return { integrationId: id, key: `joined:integration:${id}:calls`, rules, nowMs: START, eventNames: null }
}

/** With a state as the integration's own statements leave it. */
async function called(rules: CallRules = RULES): Promise<CallTarget> {
  const target = await integration(rules)
  await settleCalls(connection.db, tables, target, [{ ...OUTCOME, row: null }])
  return target
}

async function stored({ integrationId, key }: CallTarget, change: Partial<CallState>): Promise<void> {
  await connection.db.transaction(async (tx) => {
    const state = await lockCallState(tx, tables, integrationId, key)
    await storeCallState(tx, tables, key, { ...NO_CALLS, ...state, ...change })
  })
}

async function stateOf({ key }: CallTarget): Promise<StoredCallState | undefined> {
  const { states } = await callStates(connection.db, tables, [key])
  return states[key]
}

const rowsOf = (...targets: readonly CallTarget[]) =>
  connection.sql`
    select id, integration_id, endpoint from integration_requests
    where integration_id in (select jsonb_array_elements_text(${JSON.stringify(targets.map(({ integrationId }) => integrationId))}::text::jsonb)::bigint)
    order by id`
const keysOf = ({ key }: CallTarget) =>
  connection.sql`select key from integration_cache where starts_with(key, ${key}) order by key`

const asks = (target: CallTarget, callers = 1, more = 0): Asked => ({ target, callers, more })
function ends(target: CallTarget, endpoints: readonly string[] = ['/things'], generation: number | null = 0): Ended {
  const outcomes = endpoints.map((endpoint) => ({ ...OUTCOME, generation, row: { ...ROW, endpoint } }))
  const ended = joinable(target, outcomes)
  if (ended === null) throw new Error('these can not be joined')
  return ended
}
const between = (least: number, most: number, value = Number.NaN): boolean => least <= value && value <= most
const at = (target: CallTarget, nowMs: number): CallTarget => ({ ...target, nowMs })

describe('several integrations in one statement', () => {
  it('are each counted in their own window', async () => {
    const first = await called({ ...RULES, limit: perMinute(10) })
    const second = await called({ ...RULES, limit: perMinute(20) })
    const third = await called()
    expect(await admit([asks(second, 3), asks(third, 2), asks(first, 5)])).toEqual([
      { generation: 0, more: 0, leftMs: MINUTE_MS },
      { generation: 0, more: 0, leftMs: 2_147_483_647 },
      { generation: 0, more: 0, leftMs: MINUTE_MS },
    ])
    const window = { kind: 'fixed', seconds: 60, startsAt: START }
    expect((await stateOf(first))?.window).toEqual({ ...window, count: 5 })
    expect((await stateOf(second))?.window).toEqual({ ...window, count: 3 })
    expect((await stateOf(third))?.window).toBeNull()
  })

  it('are each given the generation of their own breaker; none where it does not count', async () => {
    const changed = await called()
    await stored(changed, { breaker: { ...CLOSED_BREAKER, generation: 7 } })
    const off = await called({ ...RULES, breaker: { ...RULES.breaker, enabled: false } })
    const answers = await admit([asks(changed), asks(off)])
    expect(answers.map((answer) => answer?.generation)).toEqual([7, null])
  })

  it('have each their own rows, with ids in the order given, and their own count', async () => {
    const [first, second, third] = [await called(), await called(), await called()]
    const ids = await settle([ends(second, ['/a', '/b', '/c']), ends(third, ['/d']), ends(first, ['/e', '/f'])])
    expect(ids.map((of) => of?.length)).toEqual([3, 1, 2])
    const endpoints = [['/a', '/b', '/c'], ['/d'], ['/e', '/f']]
    for (const [index, target] of [second, third, first].entries())
      expect([...(await rowsOf(target))]).toEqual(
        endpoints[index]?.map((endpoint, nth) => ({
          id: ids[index]?.[nth],
          integration_id: target.integrationId,
          endpoint,
        })),
      )
    // With the one that each had before.
    const totals = [first, second, third].map(async (target) => (await stateOf(target))?.breaker?.slices)
    expect(await Promise.all(totals)).toEqual([[[START, 3, 0]], [[START, 4, 0]], [[START, 2, 0]]])
  })

  it('write rows as they are, whatever is in them', async () => {
    const target = await called()
    const row = {
      ...ROW,
      endpoint: `/it's "quoted" \\ and \\u0041 $1 ; --`,
      response_data: '{"text":"\\u0000 \\n"}',
      expires_in_ms: 1_500,
      error: 'line\nbreak',
    }
    const ended = joinable(target, [{ ...OUTCOME, row }]) as Ended
    const [ids] = await settle([ended])
    const [written] = await connection.sql`
      select endpoint, response_data, error, expires_at, created_at from integration_requests where id = ${ids?.[0] as number}`
    expect(written).toEqual({
      endpoint: row.endpoint,
      response_data: row.response_data,
      error: row.error,
      expires_at: new Date(START + 1_500),
      created_at: new Date(START),
    })
  })

  it('write a row no earlier than its own key was spent', async () => {
    const [target, other] = [await called(), await called()]
    const spentAt = START + 5_000
    const key = async ({ integrationId }: CallTarget, name: string, at: number) =>
      connection.sql`insert into integration_idempotency_keys (integration_id, key, created_at)
        values (${integrationId}, ${name}, ${new Date(at)})`
    await key(target, 'spent', spentAt)
    await key(target, 'old', START - 5_000)
    await key(target, 'of a later call', START + 9_000)
    await key(other, 'spent', START + 9_000)
    await key(other, 'of the other', START + 9_000)
    const names = ['spent', 'old', 'of the other', null]
    const rows = names.map((name) => ({ ...ROW, idempotency_key: name }))
    const [ids] = await settle([
      joinable(
        target,
        rows.map((row) => ({ ...OUTCOME, row })),
      ) as Ended,
    ])
    const written = await connection.sql`
      select created_at from integration_requests where id between ${ids?.[0] as number} and ${ids?.at(-1) as number}
      order by id`
    expect(written.map(({ created_at }) => created_at.getTime() - START)).toEqual([5_000, 0, 0, 0])
  })

  it('are judged and written at the database’s moment where the process has no clock of its own', async () => {
    const target = { ...(await called({ ...RULES, limit: perMinute(10) })), nowMs: null }
    const earliest = Date.now()
    const [ids] = await settle([ends(target)])
    await connection.sql`update integration_cache set value = value #- '{window,window}' where key = ${`${target.key}:window`}`
    const [admission] = await admit([asks(target)])
    const latest = Date.now()
    const [row] = await connection.sql`select created_at from integration_requests where id = ${ids?.[0] as number}`
    const { breaker, window } = (await stateOf(target)) ?? {}
    expect(between(earliest, latest, row?.created_at.getTime())).toBe(true)
    // One a second: the breaker's window has sixty.
    expect(between(earliest - 1_000, latest, breaker?.slices[0]?.[0])).toBe(true)
    expect(between(earliest - MINUTE_MS, latest, window?.kind === 'fixed' ? window.startsAt : undefined)).toBe(true)
    expect(between(1, MINUTE_MS, admission?.leftMs)).toBe(true)
  })

  it('of none are none', async () => {
    expect(await admit([])).toEqual([])
    expect(await settle([])).toEqual([])
    const [row] = await connection.sql`select integration_settle_joined('[]', '[]', null) as answer`
    expect(row?.answer).toEqual({ ids: [], decided: [] })
  })

  it('are admitted in a transaction that is not flushed; the next one of the session is', async () => {
    const call = (session: Sql) => session`select integration_admit_joined('[]', null)`
    expect(await commitsAround(connection.sql, call)).toEqual(['off', 'on'])
  })
})

interface Undecided {
  readonly name: string
  readonly rules?: CallRules
  /** What the integration was called under before. */
  readonly before?: CallRules
  readonly without?: 'state'
  readonly set?: (target: CallTarget) => Promise<unknown>
}
const OPEN = { ...CLOSED_BREAKER, state: 'open' as const, openedAt: START }
const HALF_OPEN = { ...OPEN, state: 'half_open' as const, probe: { owner: 'somebody', until: START + 1_000 } }
const COMMON: readonly Undecided[] = [
  { name: 'there is no state yet', without: 'state' },
  { name: 'the breaker is open', set: (target) => stored(target, { breaker: OPEN }) },
  { name: 'the breaker is half open', set: (target) => stored(target, { breaker: HALF_OPEN }) },
  { name: 'the breaker counts by another strategy', rules: counting(), before: RULES },
  { name: 'the breaker has counted by another strategy', rules: RULES, before: counting() },
]
const withColumn = (column: string, value: string) => (target: CallTarget) =>
  connection.sql.unsafe(`update integrations set ${column} = ${value} where id = ${target.integrationId}`)

describe('an admission is undecided, and takes nothing, when', () => {
  it.each<Undecided>([
    ...COMMON,
    { name: 'the circuit has an override', set: withColumn('circuit_override', `'forced_closed'`) },
    { name: 'the circuit has an override that is none', set: withColumn('circuit_override', `'nonsense'`) },
    { name: 'the limit has an override', set: withColumn('rate_limit_override', `'7'`) },
    { name: 'the provider has asked for quiet', set: (target) => stored(target, { suppressedUntil: START + 1 }) },
    {
      name: 'the limit is reached',
      rules: { ...RULES, limit: perMinute(10) },
      set: (target) => admit([asks(target, 9)]),
    },
    {
      name: 'there is a window of a limit that is no more',
      set: (target) => admit([asks({ ...target, rules: { ...RULES, limit: perMinute(10) } })]),
    },
    ...[null, perMinute(10)].map((limit) => ({
      name: `its row is empty, and its breaker does not count (${limit === null ? 'no limit' : 'a limit'})`,
      rules: { ...RULES, breaker: { ...RULES.breaker, enabled: false }, limit },
      set: ({ key }: CallTarget) =>
        connection.sql`update integration_cache set value = '{}' where key = ${`${key}:window`}`,
    })),
    {
      name: 'the integration is deleted',
      set: ({ integrationId }) => connection.sql`delete from integrations where id = ${integrationId}`,
    },
  ])('$name', async ({ rules = RULES, before = rules, without, set }) => {
    const limited = { ...RULES, limit: perMinute(10) }
    const [left, right] = [await called(limited), await called(limited)]
    const made = without === 'state' ? await integration(before) : await called(before)
    const target = { ...made, rules }
    await set?.(target)
    const state = await stateOf(target)
    const answers = await admit([asks(left, 2), asks(target, 2), asks(right, 4)])
    expect(answers).toEqual([
      { generation: 0, more: 0, leftMs: MINUTE_MS },
      null,
      { generation: 0, more: 0, leftMs: MINUTE_MS },
    ])
    expect((await stateOf(left))?.window).toMatchObject({ count: 2 })
    expect((await stateOf(right))?.window).toMatchObject({ count: 4 })
    expect(await stateOf(target)).toEqual(state)
  })

  it.each([null, perMinute(10)])(
    'decides again when the quiet is over, and obeys no override that is switched off: %j',
    async (limit) => {
      const rules = { ...RULES, limit, circuitOverrides: false, limitOverrides: false }
      const target = await called(rules)
      await stored(target, { suppressedUntil: START })
      await withColumn('circuit_override', `'forced_open'`)(target)
      await withColumn('rate_limit_override', `'7'`)(target)
      expect((await admit([asks(target)]))[0]).toMatchObject({ generation: 0 })
    },
  )

  it('admits all of a group or none', async () => {
    const target = await called({ ...RULES, limit: perMinute(10) })
    expect(await admit([asks(target, 11)])).toEqual([null])
    expect(await admit([asks(target, 10)])).not.toEqual([null])
    expect(await admit([asks(target, 1)])).toEqual([null])
    expect(await admit([asks(at(target, START + MINUTE_MS), 10)])).not.toEqual([null])
  })

  it('decides for no sliding window', async () => {
    expect(canJoin(await integration({ ...RULES, limit: { ...perMinute(5), window: 'sliding' } }))).toBe(false)
    expect(canJoin(await integration({ ...RULES, limit: perMinute(5) }))).toBe(true)
    expect(canJoin(await integration())).toBe(true)
  })
})

describe('a settlement is undecided, and writes nothing, when', () => {
  it.each<Undecided>([
    ...COMMON,
    {
      name: 'the breaker has another generation',
      set: (target) => stored(target, { breaker: { ...CLOSED_BREAKER, generation: 1 } }),
    },
    {
      name: 'the breaker that counts a streak has another generation',
      rules: counting(),
      set: (target) => stored(target, { breaker: { ...CLOSED_BREAKER, strategy: 'count', generation: 1 } }),
    },
    { name: 'the health is not healthy', set: withColumn('health_status', `'degraded'`) },
    { name: 'there were failures', set: withColumn('consecutive_failures', '1') },
    {
      name: 'a success ends a streak of failures',
      rules: counting(),
      set: (target) => stored(target, { breaker: { ...CLOSED_BREAKER, strategy: 'count', streak: 1 } }),
    },
    {
      name: 'the integration is deleted',
      set: ({ integrationId }) => connection.sql`delete from integrations where id = ${integrationId}`,
    },
  ])('$name', async ({ rules = RULES, before = rules, without, set }) => {
    const [left, right] = [await called(), await called()]
    const made = without === 'state' ? await integration(before) : await called(before)
    const target = { ...made, rules }
    await set?.(target)
    const state = await stateOf(target)
    const ids = await settle([ends(left, ['/a']), ends(target, ['/b', '/c']), ends(right, ['/d', '/e'])])
    expect(ids).toEqual([[expect.any(Number)], null, [expect.any(Number), expect.any(Number)]])
    const flat = ids.flatMap((of) => of ?? [])
    expect([...(await rowsOf(left, target, right))]).toEqual(
      [left, right, right].map(({ integrationId }, index) => ({
        id: flat[index],
        integration_id: integrationId,
        endpoint: `/${'ade'[index]}`,
      })),
    )
    expect((await stateOf(left))?.breaker?.slices).toEqual([[START, 2, 0]])
    expect((await stateOf(right))?.breaker?.slices).toEqual([[START, 3, 0]])
    expect(await stateOf(target)).toEqual(state)
  })

  it.each<{ name: string; outcomes: readonly CallOutcome[] }>([
    { name: 'failed upstream', outcomes: [OUTCOME, { ...OUTCOME, class: 'upstream' }] },
    { name: 'asks for quiet', outcomes: [{ ...OUTCOME, class: 'throttle', quietForMs: 1 }] },
    { name: 'asks for quiet until a moment', outcomes: [{ ...OUTCOME, quietUntil: START + 1 }] },
    { name: 'has no row', outcomes: [OUTCOME, { ...OUTCOME, row: null }] },
    { name: 'was admitted under another generation', outcomes: [OUTCOME, { ...OUTCOME, generation: 1 }] },
    { name: 'is not counted', outcomes: [OUTCOME, { ...OUTCOME, generation: null }] },
    { name: 'is large', outcomes: [{ ...OUTCOME, row: { ...ROW, response_data: 'x'.repeat(65_537) } }] },
    {
      name: 'is large with the others',
      outcomes: Array.from({ length: 2 }, () => ({ ...OUTCOME, row: { ...ROW, request_data: 'x'.repeat(40_000) } })),
    },
  ])('one of its calls $name', async ({ outcomes }) => {
    expect(joinable(await integration(), outcomes)).toBeNull()
  })

  it('writes what the breaker does not count, whatever its state', async () => {
    const open = await called()
    await stored(open, { breaker: OPEN })
    const fresh = await integration()
    const ids = await settle([ends(open, ['/a'], null), ends(fresh, ['/b'], null)])
    expect(ids).toEqual([[expect.any(Number)], [expect.any(Number)]])
    expect((await stateOf(open))?.breaker).toEqual(OPEN)
    expect([...(await keysOf(fresh))]).toEqual([])
  })

  it('leaves a streak alone where nothing succeeded', async () => {
    const target = await called(counting())
    const breaker = { ...CLOSED_BREAKER, strategy: 'count' as const, streak: 2 }
    await stored(target, { breaker })
    const ended = joinable(target, [{ ...OUTCOME, class: 'client' }]) as Ended
    expect(await settle([ended])).toEqual([[expect.any(Number)]])
    expect((await stateOf(target))?.breaker).toEqual(breaker)
  })
})

describe('a row that somebody holds', () => {
  it.each([
    {
      part: ':window',
      name: 'admit_joined',
      by: (target: CallTarget, other: CallTarget) => admit([asks(other), asks(target)]),
    },
    {
      part: ':ended',
      name: 'settle_joined',
      by: (target: CallTarget, other: CallTarget) => settle([ends(other), ends(target)]),
    },
  ])('$part is waited for 100 ms, and nothing is written', async ({ part, name, by }) => {
    const rules = { ...RULES, limit: perMinute(10) }
    const [target, other] = [await called(rules), await called(rules)]
    const before = await stateOf(other)
    await connection.sql.begin(async (holder) => {
      await holder`select from integration_cache where key = ${target.key + part} for update`
      // It is held all the while.
      await expect(by(target, other)).rejects.toMatchObject({ code: '55P03' })
    })
    // What would be measured instead is the machine as well.
    const [own] = await connection.sql`select proconfig from pg_proc where proname = ${`integration_${name}`}`
    expect(own?.proconfig).toContain('lock_timeout=100')
    expect(await stateOf(other)).toEqual(before)
    expect([...(await rowsOf(target, other))]).toEqual([])
    expect(await by(target, other)).not.toContain(null)
  })

  it('holds up neither an admission nor a settlement when it is that of the other, or the breaker', async () => {
    const target = await called({ ...RULES, limit: perMinute(10) })
    await connection.sql.begin(async (holder) => {
      await holder`select from integration_cache where key in (${target.key}, ${`${target.key}:ended`}) for update`
      expect(await admit([asks(target)])).not.toContain(null)
    })
    await connection.sql.begin(async (holder) => {
      await holder`select from integration_cache where key in (${target.key}, ${`${target.key}:window`}) for update`
      expect(await settle([ends(target)])).not.toContain(null)
    })
  })
})

describe('units beyond those asked for', () => {
  const given = async (limit: number | null, used: number, callers: number, more: number) => {
    const target = await called({ ...RULES, limit: limit === null ? null : perMinute(limit) })
    if (used > 0) expect(await admit([asks(target, used)])).not.toContain(null)
    const [answer] = await admit([asks(target, callers, more)])
    const { window } = (await stateOf(target)) ?? {}
    return { more: answer?.more, count: window?.kind === 'fixed' ? window.count : null }
  }

  it.each([
    { limit: 1_000, used: 0, callers: 1, more: 100, gives: 100 },
    // Up to an eighth of the window.
    { limit: 1_000, used: 24, callers: 1, more: 100, gives: 100 },
    { limit: 1_000, used: 24, callers: 1, more: 101, gives: 0 },
    { limit: 1_000, used: 24, callers: 2, more: 100, gives: 0 },
    { limit: 1_000, used: 25, callers: 1, more: 100, gives: 0 },
    { limit: 1_000, used: 999, callers: 1, more: 4, gives: 0 },
    { limit: 999, used: 0, callers: 1, more: 4, gives: 0 },
    { limit: 1_007, used: 25, callers: 1, more: 100, gives: 0 },
    { limit: 1_008, used: 25, callers: 1, more: 100, gives: 100 },
    { limit: 50_000, used: 0, callers: 1, more: 0, gives: 0 },
  ])('of $limit with $used used, $callers callers and $more wanted: $gives', async (row) => {
    expect(await given(row.limit, row.used, row.callers, row.more)).toEqual({
      more: row.gives,
      count: row.used + row.callers + row.gives,
    })
  })

  it('are all that are wanted where there is no limit', async () => {
    expect(await given(null, 0, 1, 100)).toEqual({ more: 100, count: null })
  })

  it('last as long as their window, and are no part of the state', async () => {
    const target = await called({ ...RULES, limit: perMinute(1_000) })
    const left = async (nowMs: number) => (await admit([asks(at(target, nowMs), 1, 5)]))[0]?.leftMs
    expect(await left(START)).toBe(MINUTE_MS)
    expect(await left(START + 1)).toBe(MINUTE_MS - 1)
    expect(await left(START + MINUTE_MS - 1)).toBe(1)
    expect(await left(START + MINUTE_MS)).toBe(MINUTE_MS)
    // A clock that was set back stays in the window that it had reached.
    expect(await left(START + MINUTE_MS - 1)).toBe(MINUTE_MS + 1)
    expect((await stateOf(target))?.window).toEqual({
      kind: 'fixed',
      seconds: 60,
      startsAt: START + MINUTE_MS,
      count: 12,
    })
  })

  it('count in the window of now after the clock had jumped ahead: no call waits for the moment to which it jumped', async () => {
    const target = await called({ ...RULES, limit: perMinute(10) })
    const hour = START + 60 * MINUTE_MS
    expect(await admit([asks(at(target, hour), 4)])).not.toContain(null)
    expect(await admit([asks(at(target, hour - 1_000), 1)])).not.toContain(null)
    expect((await stateOf(target))?.window).toMatchObject({ startsAt: hour, count: 5 })
    // A millisecond more is a jump.
    expect(await admit([asks(at(target, hour - 1_001), 1)])).toMatchObject([{ leftMs: 1_001 }])
    expect((await stateOf(target))?.window).toMatchObject({ startsAt: hour - MINUTE_MS, count: 6 })
    expect(await admit([asks(at(target, START), 1)])).toMatchObject([{ leftMs: MINUTE_MS }])
    expect((await stateOf(target))?.window).toMatchObject({ startsAt: START, count: 7 })
    expect(await admit([asks(at(target, START + MINUTE_MS), 10)])).not.toContain(null)
  })
})

const LOCKED = '55P03'
const questions = (limit: number) => {
  const most = Math.ceil(limit / 5)
  return fc.record({
    callers: fc.integer({ min: 1, max: Math.min(most, 100) }),
    more: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: Math.min(most, 100) })),
    isJoined: fc.constantFrom(true, true, true, false),
  })
}
const windows = fc.constantFrom(1, 3, 12, 999, 1_000, 1_001, 1_300).chain((limit) =>
  fc.record({
    limit: fc.constant(limit),
    steps: fc.array(
      fc.record({
        afterMs: fc.constantFrom(0, 0, 0, 1, 100, 499, 999, 1_000, -1, -700),
        asked: fc.array(questions(limit), { minLength: 1, maxLength: 5 }),
      }),
      { minLength: 8, maxLength: 20, size: 'max' },
    ),
  }),
)

it('a window is never over its limit, whoever asks for what at the same moment', { timeout: 120_000 }, async () => {
  const seen = { more: 0, full: 0 }
  await fc.assert(
    fc.asyncProperty(windows, async ({ limit, steps }) => {
      const target = await called({ ...RULES, limit: { limit, seconds: 1, window: 'fixed' } })
      let nowMs = START
      let start = Number.NEGATIVE_INFINITY
      let units = 0
      const decide = async ({ callers, more, isJoined }: { callers: number; more: number; isJoined: boolean }) => {
        const now = at(target, nowMs)
        if (!isJoined) {
          const owners = Array.from({ length: callers }, (_, index) => `owner ${index}`)
          const answer = await admitCalls(connection.db, tables, now, owners)
          return (answer?.verdicts ?? []).filter(({ kind }) => kind === 'admitted').length
        }
        try {
          const [answer] = await admit([asks(now, callers, more)])
          if (answer === null || answer === undefined) return 0
          expect([0, more]).toContain(answer.more)
          seen.more += answer.more
          return callers + answer.more
        } catch (error) {
          // Those beside it can hold its row for long only on a machine that stands still; then nothing is taken.
          if ((error as { code?: unknown }).code === LOCKED) return 0
          throw error
        }
      }
      for (const { afterMs, asked } of steps) {
        nowMs += afterMs
        const taken = await Promise.all(asked.map(decide))
        const sum = taken.reduce((total, count) => total + count, 0)
        // A clock that was set back by up to a second stays in the window that it had reached; one is reached when a unit of it is taken.
        const reached = Math.floor(nowMs / 1_000) * 1_000
        // By more, the count moves: with a unit, or with the refusal of the integration's own statement.
        const isStored = sum > 0 || asked.some(({ isJoined }) => !isJoined)
        if (isStored && start > nowMs + 1_000) start = reached
        if (sum > 0 && reached > start) {
          start = reached
          units = 0
        }
        units += sum
        expect(units).toBeLessThanOrEqual(limit)
        if (units === limit) seen.full += 1
        const { window } = (await stateOf(target)) ?? {}
        if (sum > 0) expect(window).toEqual({ kind: 'fixed', seconds: 1, startsAt: start, count: units })
      }
    }),
    { numRuns: 30 },
  )
  expect(seen.more).toBeGreaterThan(0)
  expect(seen.full).toBeGreaterThan(0)
})

describe('the slices of a breaker', () => {
  const SLICE_MS = 1_000
  const SLICES = 8

  it('are eight beside the state; the next is for the integration’s own settlement, which adds them to it', async () => {
    const target = await called()
    const settleAt = async (slice: number) => (await settle([ends(at(target, START + slice * SLICE_MS))]))[0]
    for (let slice = 0; slice < SLICES; slice += 1) expect(await settleAt(slice)).toEqual([expect.any(Number)])
    expect(await settleAt(SLICES)).toBeNull()
    // The one that is there already goes on.
    expect(await settleAt(SLICES - 1)).toEqual([expect.any(Number)])
    const all = [2, 1, 1, 1, 1, 1, 1, 2].map((total, slice) => [START + slice * SLICE_MS, total, 0])
    expect((await stateOf(target))?.breaker?.slices).toEqual(all)

    await settleCalls(connection.db, tables, at(target, START + SLICES * SLICE_MS), [OUTCOME])
    const [own] = await connection.sql`select value from integration_cache where key = ${target.key}`
    const [beside] = await connection.sql`select value from integration_cache where key = ${`${target.key}:ended`}`
    const merged = [...all, [START + SLICES * SLICE_MS, 1, 0]]
    expect(own?.value.breaker.slices).toEqual(merged)
    expect(beside?.value).toEqual({ generation: 0, strategy: 'rate', streak: 0, slices: [] })
    expect(await settleAt(SLICES)).toEqual([expect.any(Number)])
    expect((await stateOf(target))?.breaker?.slices).toEqual([...all, [START + SLICES * SLICE_MS, 2, 0]])
  })

  it('of joined successes count against failures', async () => {
    const target = await called()
    // With the one before ten, which is the minimum; the next failures make five of ten, of fourteen.
    expect(
      await settle([
        ends(
          target,
          Array.from({ length: 9 }, () => '/a'),
        ),
      ]),
    ).not.toContain(null)
    const failures = Array.from({ length: 9 }, (): CallOutcome => ({ ...OUTCOME, class: 'upstream' }))
    const answer = await settleCalls(connection.db, tables, target, failures)
    expect(answer?.events.filter(({ kind }) => kind === 'circuit_opened')).toEqual([])
    const last = await settleCalls(connection.db, tables, target, [{ ...OUTCOME, class: 'upstream' }])
    expect(last?.events.filter(({ kind }) => kind === 'circuit_opened')).toMatchObject([
      { reason: 'threshold_reached', openedAt: START },
    ])
    expect(await admit([asks(target)])).toEqual([null])
  })
})

describe('a state of which a row is missing', () => {
  it.each([':ended', ':window'])('%s is limited all the same, and whole again', async (part) => {
    const target = await called({ ...RULES, limit: perMinute(2) })
    const all = [...(await keysOf(target))]
    expect(all).toHaveLength(3)
    await connection.sql`delete from integration_cache where key = ${target.key + part}`
    const kinds: (string | undefined)[] = []
    for (let call = 0; call < 3; call += 1)
      kinds.push((await admitCalls(connection.db, tables, target, ['somebody']))?.verdicts[0]?.kind)
    expect(kinds).toEqual(['admitted', 'admitted', 'limited'])
    expect([...(await keysOf(target))]).toEqual(all)
  })
})

it('a row of the state that stays as it was is not written', async () => {
  const target = await called({ ...RULES, limit: perMinute(10) })
  expect(await admit([asks(target)])).not.toContain(null)
  await stored(target, {})
  const versions = async () =>
    Object.fromEntries(
      (await connection.sql`select key, xmin::text from integration_cache where starts_with(key, ${target.key})`).map(
        ({ key, xmin }) => [key.slice(target.key.length), xmin],
      ),
    )
  const before = await versions()
  await stored(target, {})
  expect(await versions()).toEqual(before)
  await stored(target, { window: { kind: 'fixed', seconds: 60, startsAt: START, count: 7 } })
  expect(await versions()).toEqual({ ...before, ':window': expect.not.stringMatching(`^${before[':window']}$`) })
})

describe('an integration that is deleted', () => {
  it('leaves no row of its state behind', async () => {
    const rules = { ...RULES, limit: perMinute(10) }
    const [target, other] = [await called(rules), await called(rules)]
    await connection.sql.begin(async (tx) => {
      await tx`delete from integration_cache where starts_with(key, ${target.key})`
      await tx`delete from integrations where id = ${target.integrationId}`
    })
    expect(await admit([asks(target), asks(other)])).toEqual([null, expect.objectContaining({ generation: 0 })])
    expect(await settle([ends(target), ends(other)])).toEqual([null, [expect.any(Number)]])
    expect(await settle([ends(target, ['/a'], null)])).toEqual([null])
    expect(await admitCalls(connection.db, tables, target, ['somebody'])).toBeNull()
    expect(await settleCalls(connection.db, tables, target, [OUTCOME])).toBeNull()
    expect([...(await keysOf(target))]).toEqual([])
  })
})
