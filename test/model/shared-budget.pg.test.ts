/**
 * The same rule twice: drizzle/functions/take_shared.sql decides in Postgres, the model beside this file decides in TypeScript. Over
 * random histories of several processes (clocks that jump and are set back, limits and overrides that change, processes that fall
 * silent) both give the same answers and state. And whatever happens, no span of a window holds more calls than the limit.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { SharedAnswer, SharedAsk, SharedState } from '../../src/calls/admission/shared-queries.ts'
import { overrideShared, quietShared, sharedState, takeShared } from '../../src/calls/admission/shared-queries.ts'
import type { Connection } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import { connectTestDatabase } from '../support/database.ts'
import { takeShared as modelled, NO_BUDGET } from './shared-budget.ts'

let connection: Connection
const tables = createTables('integration')
beforeAll(async () => {
  connection = await connectTestDatabase()
})
afterAll(() => connection?.close())

it('the end of its entry moves once a day: else each call would write it to the index', async () => {
  const rules = { limit: 10, seconds: 60, obeysOverride: true }
  const take = () => {
    const ask = { process: 'a', ...rules, done: 0, out: 0, more: 0, ids: [1], wants: [1] }
    return takeShared(connection.db, tables, 'hot', ask, null)
  }
  const endsAt = async () => {
    const [row] = await connection.sql<{ ends: number }[]>`
      select extract(epoch from expires_at)::float8 as ends from integration_cache where key = 'hot'`
    return row?.ends
  }
  await take()
  const first = await endsAt()
  await take()
  expect(await endsAt()).toBe(first)
  await connection.sql`update integration_cache set expires_at = expires_at - interval '25 hours' where key = 'hot'`
  await take()
  expect(await endsAt()).toBeGreaterThanOrEqual(first ?? Number.POSITIVE_INFINITY)
})

const START = 1_800_000_000_000
const PROCESSES = ['a', 'b', 'c']

interface Rules {
  readonly limit: number
  readonly seconds: number
  readonly obeysOverride: boolean
}

type Step =
  | {
      readonly kind: 'take'
      readonly process: number
      /** By the integration's id, from 1: how many units it wants. */
      readonly wants: readonly number[]
      readonly more: number
      /** Shares of what is out. */
      readonly done: number
      readonly unused: number
    }
  | { readonly kind: 'quiet'; readonly forMs: number | null; readonly inMs: number | null }
  | {
      readonly kind: 'override'
      readonly limit: number | null
      readonly seconds: number
      readonly forMs: number | null
    }
  | { readonly kind: 'rules'; readonly rules: Rules }

const small = (min: number, max: number) => fc.integer({ min, max })
const limits = fc.oneof(small(1, 12), fc.constantFrom(100, 5_000))
const seconds = fc.constantFrom(1, 2, 10, 60)
const rules = fc.record({ limit: limits, seconds, obeysOverride: fc.constantFrom(true, true, false) })
const take: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('take' as const),
  process: small(0, PROCESSES.length - 1),
  wants: fc.array(fc.oneof(small(0, 3), fc.constantFrom(0, 0, 40)), { minLength: 1, maxLength: 6 }),
  more: fc.constantFrom(0, 0, 5),
  done: fc.constantFrom(0, 0.5, 1, 1),
  unused: fc.constantFrom(0, 0, 0.5, 1),
})
const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 20, arbitrary: take },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('quiet' as const),
      forMs: fc.option(small(0, 5_000)),
      inMs: fc.option(fc.constantFrom(-1_000, 1, 4_000, 90_000_000)),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      ...{ kind: fc.constant('override' as const), limit: fc.option(limits), seconds },
      forMs: fc.option(fc.constantFrom(1, 3_000, 20_000)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('rules' as const), rules }) },
)
const waits = fc.constantFrom(0, 0, 1, 20, 50, 250, 999, 1_000, 2_000, 3_000, 14_999, 15_000, 61_000, -3, -1_500)
const histories = fc.record({
  rules,
  steps: fc.array(fc.record({ afterMs: waits, step: steps }), { minLength: 20, maxLength: 60, size: 'max' }),
})

let budgets = 0

/** What a process has out. */
type Out = Record<string, number>

function askOf(
  { process, wants, more, done, unused }: Extract<Step, { kind: 'take' }>,
  rules: Rules,
  out: Out,
): SharedAsk {
  const name = PROCESSES[process] as string
  const ended = Math.floor((out[name] ?? 0) * done)
  const back = Math.floor(((out[name] ?? 0) - ended) * unused)
  const asking = wants.map((units, at) => ({ id: at + 1, units })).filter(({ units }) => units > 0)
  return {
    ...{ process: name, ...rules, done: ended, out: (out[name] ?? 0) - ended - back, more },
    ids: asking.map(({ id }) => id),
    wants: asking.map(({ units }) => units),
  }
}

async function agree({
  rules: first,
  steps: history,
}: {
  rules: Rules
  steps: readonly { afterMs: number; step: Step }[]
}) {
  const { db } = connection
  budgets += 1
  const key = `agree:shared:${budgets}`
  let state: SharedState = NO_BUDGET
  let given = first
  let now = START
  const out: Out = {}
  for (const { afterMs, step } of history) {
    now += afterMs
    switch (step.kind) {
      case 'take': {
        const ask = askOf(step, given, out)
        const { next, answer } = modelled(state, ask, now)
        state = next
        expect(await takeShared(db, tables, key, ask, now)).toEqual(answer)
        const units = answer.gave.reduce((sum, each) => sum + each, answer.more)
        out[ask.process] = ask.out + units
        expect((await sharedState(db, tables, key)).state).toEqual(state)
        break
      }
      case 'quiet': {
        const until = step.inMs === null ? null : now + step.inMs
        await quietShared(db, tables, key, { forMs: step.forMs, until }, now)
        const candidates = [state.quietUntil, step.forMs === null ? null : now + step.forMs]
        if (until !== null && until > now) candidates.push(Math.min(until, now + 86_400_000))
        const known = candidates.filter((moment) => moment !== null)
        state = { ...state, quietUntil: known.length === 0 ? null : Math.max(...known) }
        break
      }
      case 'override': {
        const until = step.forMs === null ? null : now + step.forMs
        const override = step.limit === null ? null : { limit: step.limit, seconds: step.seconds, until }
        await overrideShared(db, tables, key, override)
        state = { ...state, override }
        break
      }
      case 'rules':
        given = step.rules
    }
  }
}

it('gives the same answers and state as the model, over random histories', { timeout: 120_000 }, async () => {
  await fc.assert(fc.asyncProperty(histories, agree), { numRuns: 60 })
})

/** A provider that counts calls when they arrive: at any moment between the unit's giving and the report of its end. */
it('never lets a span of a window hold more calls than the limit, whenever they arrive', () => {
  const worlds = fc.record({
    limit: small(1, 8),
    steps: fc.array(
      fc.record({
        afterMs: fc.constantFrom(0, 7, 50, 300, 990, 1_000),
        step: take,
        late: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      {
        ...{ minLength: 30, maxLength: 80, size: 'max' as const },
      },
    ),
  })
  fc.assert(
    fc.property(worlds, ({ limit, steps: history }) => {
      const fixed = { limit, seconds: 1, obeysOverride: true }
      let state = NO_BUDGET
      let now = START
      const givenAt: Record<string, number[]> = {}
      const arrivals: number[] = []
      for (const { afterMs, step, late } of history) {
        if (step.kind !== 'take') continue
        now += afterMs
        const mine = givenAt[PROCESSES[step.process] as string] ?? []
        const ask = askOf(step, fixed, { [PROCESSES[step.process] as string]: mine.length })
        for (const at of mine.splice(0, ask.done)) arrivals.push(at + (now - at) * late)
        mine.splice(0, mine.length - ask.out)
        const { next, answer } = modelled(state, ask, now)
        state = next
        const units = answer.gave.reduce((sum, each) => sum + each, answer.more)
        givenAt[ask.process] = [...mine, ...Array.from({ length: units }, () => now)]
      }
      const sorted = arrivals.sort((a, b) => a - b)
      for (const [at, moment] of sorted.entries())
        expect(sorted.filter((other, place) => place >= at && other < moment + 1_000).length).toBeLessThanOrEqual(limit)
    }),
    { numRuns: 500 },
  )
})

/** Two processes that ask in turn, a tenth of a second apart. */
function played(
  tenants: { readonly a: readonly number[]; readonly b: readonly number[] },
  rounds: number,
): Map<number, number> {
  const wants = (process: 'a' | 'b'): SharedAsk => ({
    ...{ process, limit: 20, seconds: 1, obeysOverride: true, done: 0, out: 0, more: 0 },
    ids: tenants[process],
    wants: tenants[process].map(() => 50),
  })
  const had = new Map<number, number>()
  const out = { a: 0, b: 0 }
  let state = NO_BUDGET
  for (let round = 0; round < rounds; round += 1)
    for (const process of ['a', 'b'] as const) {
      const ask = { ...wants(process), done: out[process] }
      const { next, answer } = modelled(state, ask, START + round * 100 + (process === 'a' ? 0 : 50))
      state = next
      out[process] = answer.gave.reduce((sum: number, each: number) => sum + each, 0)
      for (const [at, units] of (answer as SharedAnswer).gave.entries())
        had.set(ask.ids[at] as number, (had.get(ask.ids[at] as number) ?? 0) + units)
    }
  return had
}

it.each([
  { name: 'as many in each process', a: [1, 2, 3], b: [4, 5, 6] },
  { name: 'one beside many', a: [1], b: [2, 3, 4, 5, 6, 7] },
  { name: 'one that waits in both', a: [1, 2], b: [1, 3] },
])('gives each tenant the same while all wait: $name', ({ a, b }) => {
  const had = [...played({ a, b }, 300).values()]
  expect(Math.min(...had)).toBeGreaterThanOrEqual(0.9 * (had.reduce((sum, each) => sum + each, 0) / had.length))
})
