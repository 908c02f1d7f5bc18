/**
 * The same rule twice: the functions of drizzle/functions/ decide in Postgres, the model beside this file decides in TypeScript. Over random
 * histories (clocks that jump and are set back, settings and overrides that change) both give the same verdicts, events and state.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { CallOutcome, CallTarget } from '../../src/calls/admission/call-queries.ts'
import { admitCalls, settleCalls } from '../../src/calls/admission/call-queries.ts'
import { admitJoined, canJoin, joinable, settleJoined } from '../../src/calls/admission/joined-queries.ts'
import { callStates } from '../../src/calls/admission/state-queries.ts'
import type {
  Admission,
  BreakerSettings,
  BreakerState,
  CallState,
  CircuitOverride,
  Limit,
} from '../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER, resetBreaker } from '../../src/calls/admission/state-rules.ts'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import type { Connection } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import type { HealthThresholds } from '../../src/integrations/rules.ts'
import { connectTestDatabase } from '../support/database.ts'
import { requestValues } from '../support/request-values.ts'
import type { Quiet } from './call-state.ts'
import { admit, NO_CALLS, settle } from './call-state.ts'
import type { HealthState } from './health-transition.ts'
import { healthAfter, isWorse } from './health-transition.ts'

let connection: Connection
const tables = createTables('integration')
beforeAll(async () => {
  connection = await connectTestDatabase()
})
afterAll(() => connection?.close())

/** The start of windows and slices of many lengths, so that round steps meet their boundaries. */
const START = 1_800_000_000_000

interface Rules {
  readonly breaker: BreakerSettings
  readonly limit: Limit | null
  readonly circuitOverrides: boolean
  readonly limitOverrides: boolean
  readonly health: HealthThresholds
  readonly incidents: boolean
}

/** `joined`: the statement for many integrations is asked first, and the integration's own only where that leaves it undecided. */
type Step =
  | { readonly kind: 'admit'; readonly owners: number; readonly joined?: boolean }
  | { readonly kind: 'settle'; readonly outcomes: readonly Ended[]; readonly joined?: boolean }
  | { readonly kind: 'rules'; readonly rules: Rules }
  | { readonly kind: 'override'; readonly to: string | null; readonly forMs: number | null }
  | { readonly kind: 'limit override'; readonly value: unknown; readonly forMs: number | null }

interface Ended {
  /** Which of the calls under way; beyond them: one that the breaker does not know. */
  readonly call: number
  readonly class: FailureClass | null
  readonly quietForMs: number | null
  /** Ahead of the moment of the settlement. */
  readonly quietInMs: number | null
}

const small = (min: number, max: number) => fc.integer({ min, max })
const limits = fc.record({
  // Both sides of the limit up to which each call has a millisecond of its own.
  limit: fc.oneof(small(1, 6), fc.constantFrom(1_024, 1_025, 2_000)),
  seconds: fc.oneof(small(1, 3), fc.constantFrom(60, 3_600)),
  window: fc.constantFrom('fixed' as const, 'sliding' as const),
})
const rules: fc.Arbitrary<Rules> = fc.record({
  breaker: fc.record({
    enabled: fc.constantFrom(true, true, true, false),
    strategy: fc.constantFrom('rate' as const, 'count' as const),
    windowSeconds: fc.constantFrom(1, 10, 60, 61, 300),
    ratePercent: fc.constantFrom(1, 34, 50, 100),
    minimum: small(1, 5),
    threshold: small(1, 4),
    cooldownSeconds: fc.constantFrom(1, 30, 90),
  }),
  limit: fc.option(limits),
  circuitOverrides: fc.boolean(),
  limitOverrides: fc.boolean(),
  health: fc.constantFrom(
    { degradedAfter: 1, failingAfter: 3, disabledAfter: 5 },
    { degradedAfter: 2, failingAfter: 2, disabledAfter: null },
  ),
  incidents: fc.boolean(),
})
const classes = fc.constantFrom<(FailureClass | null)[]>(
  null,
  null,
  'upstream',
  'upstream',
  'upstream',
  'throttle',
  'client',
  'unknown',
)
const outcomes = fc.array(
  fc.record({
    call: small(0, 12),
    class: classes,
    quietForMs: fc.option(small(0, 5_000), { freq: 6 }),
    quietInMs: fc.option(fc.constantFrom(-1_000, 0, 1, 4_000, 90_000_000), { freq: 8 }),
  }),
  { minLength: 1, maxLength: 5 },
)
const lasting = fc.option(fc.constantFrom(1, 1_000, 20_000))
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('admit' as const), owners: small(1, 6), joined: fc.boolean() }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('settle' as const), outcomes, joined: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('rules' as const), rules }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('override' as const),
      to: fc.constantFrom('forced_open', 'forced_closed', 'disabled', 'nonsense', null),
      forMs: lasting,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('limit override' as const),
      value: fc.oneof(
        limits.map(({ limit, seconds, window }) => ({ limit, windowSeconds: seconds, window })),
        fc.constantFrom(
          null,
          7,
          [],
          {},
          { limit: 0, windowSeconds: 1, window: 'fixed' },
          { limit: 1.5, windowSeconds: 1, window: 'fixed' },
          { limit: '5', windowSeconds: 1, window: 'fixed' },
          { limit: 5, windowSeconds: -1, window: 'fixed' },
          { limit: 5, windowSeconds: 1, window: 'rolling' },
          { limit: 5, windowSeconds: 1 },
        ),
      ),
      forMs: lasting,
    }),
  },
)
const waits = fc.constantFrom(
  0,
  0,
  1,
  7,
  250,
  999,
  1_000,
  3_000,
  30_000,
  59_999,
  60_000,
  61_000,
  4_000_000,
  -3,
  -1_500,
  -4_000_000,
)
const histories = fc.record({
  rules,
  steps: fc.array(fc.record({ afterMs: waits, step: steps }), { minLength: 20, maxLength: 50, size: 'max' }),
})

/** Where little goes wrong, so that the joined statements decide most of it. */
const calmRules = (windowSeconds: number): fc.Arbitrary<Rules> =>
  rules.map((given) => ({
    ...given,
    breaker: { ...given.breaker, windowSeconds, enabled: true, ratePercent: 100, minimum: 5, threshold: 4 },
    limit:
      given.limit === null ? null : { limit: given.limit.limit + 12, seconds: given.limit.seconds, window: 'fixed' },
    health: { degradedAfter: 2, failingAfter: 3, disabledAfter: null },
  }))
const calmOutcomes = fc.array(
  fc.record({
    call: small(0, 12),
    class: fc.constantFrom<(FailureClass | null)[]>(null, null, null, null, null, null, null, 'client', 'upstream'),
    quietForMs: fc.constantFrom(...Array.from({ length: 20 }, () => null), 3_000),
    quietInMs: fc.constant(null),
  }),
  { minLength: 1, maxLength: 4 },
)
const calmSteps = (windowSeconds: number): fc.Arbitrary<Step> =>
  fc.oneof(
    {
      weight: 12,
      arbitrary: fc.record({ kind: fc.constant('admit' as const), owners: small(1, 4), joined: fc.constant(true) }),
    },
    {
      weight: 12,
      arbitrary: fc.record({
        kind: fc.constant('settle' as const),
        outcomes: calmOutcomes,
        joined: fc.constantFrom(true, true, true, false),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('rules' as const), rules: calmRules(windowSeconds) }) },
  )
const forwards = waits.map((ms) => Math.max(0, ms))
/** One window, and a clock that goes forwards: else a slice that was over counts again if only joined statements came between. */
const calmHistories = fc.constantFrom(1, 10, 60, 61, 300).chain((windowSeconds) =>
  fc.record({
    rules: calmRules(windowSeconds),
    steps: fc.array(fc.record({ afterMs: forwards, step: calmSteps(windowSeconds) }), {
      minLength: 20,
      maxLength: 50,
      size: 'max',
    }),
  }),
)

/** What the model says, one call after the other. */
class Model {
  state: CallState = NO_CALLS
  health: HealthState = { status: 'healthy', consecutiveFailures: 0 }
  incident: HealthState['status'] | null = null
  override: { readonly to: string; readonly until: number | null } | null = null
  limitOverride: { readonly value: unknown; readonly until: number | null } | null = null

  constructor(public rules: Rules) {}

  admit(owners: readonly string[], now: number): Admission[] {
    const settings = { breaker: this.rules.breaker, override: this.#override(now), limit: this.#limit(now) }
    return owners.map((owner) => {
      const { next, admission } = admit(this.state, settings, owner, now)
      this.state = next
      return admission
    })
  }

  #override(now: number): CircuitOverride | null {
    if (!this.rules.circuitOverrides || this.override === null || this.override.to === 'nonsense') return null
    const { to, until } = this.override
    if (until === null || now < until) return to as CircuitOverride
    this.override = null
    this.state = { ...this.state, breaker: resetBreaker(this.state.breaker) }
    return null
  }

  #limit(now: number): Limit | null {
    if (!this.rules.limitOverrides || this.limitOverride === null) return this.rules.limit
    const { value, until } = this.limitOverride
    if (until !== null && now >= until) {
      this.limitOverride = null
      return this.rules.limit
    }
    const given = value as { limit: number; windowSeconds: number; window: 'fixed' | 'sliding' } | null
    const isLimit =
      Number.isInteger(given?.limit) &&
      Number.isInteger(given?.windowSeconds) &&
      (given?.limit ?? 0) > 0 &&
      (given?.windowSeconds ?? 0) > 0 &&
      ['fixed', 'sliding'].includes(given?.window ?? '')
    return isLimit && given !== null
      ? { limit: given.limit, seconds: given.windowSeconds, window: given.window }
      : this.rules.limit
  }

  settle(ended: readonly CallOutcome[], now: number): unknown[] {
    const events: unknown[] = []
    for (const [at, outcome] of ended.entries()) {
      const quiet: Quiet = { forMs: outcome.quietForMs, until: outcome.quietUntil }
      const { owner, generation, class: failureClass } = outcome
      const { next, change } = settle(this.state, this.rules.breaker, { owner, generation, failureClass }, quiet, now)
      this.state = next
      if (change?.kind === 'opened') {
        events.push({ at, kind: 'circuit_opened', reason: change.reason, openedAt: now })
        events.push(...this.#trouble(at, 'failing'))
      }
      if (change?.kind === 'closed') events.push({ at, kind: 'circuit_closed', reason: change.reason })
      const before = this.health.status
      this.health = healthAfter(this.health, failureClass, this.rules.health)
      const { status } = this.health
      if (status !== before) {
        if (status === 'disabled') events.push({ at, kind: 'disabled' })
        events.push({ at, kind: 'health', previous: before, new: status })
        if (status !== 'healthy') events.push(...this.#trouble(at, status))
      }
      const heals = change?.kind === 'closed' || (status === 'healthy' && before !== 'healthy')
      // Where a breaker stood when it was switched off says nothing.
      const isQuiet = !this.rules.breaker.enabled || this.state.breaker.state === 'closed'
      if (heals && status === 'healthy' && isQuiet && this.incident !== null) {
        this.incident = null
        events.push({ at, kind: 'incident_closed' })
      }
    }
    return events
  }

  #trouble(at: number, severity: HealthState['status']): unknown[] {
    if (!this.rules.incidents) return []
    if (this.incident === null) {
      this.incident = severity
      return [{ at, kind: 'incident_opened' }]
    }
    const rises = isWorse(severity, this.incident)
    if (rises) this.incident = severity
    return [{ at, kind: 'incident_escalated', rises }]
  }
}

/** Which strategy a breaker without counts last had says nothing; nor does a slice that is over, or the order of the slices. */
function comparable(state: CallState, { breaker: { windowSeconds } }: Rules, now: number): unknown {
  const { strategy, ...breaker }: BreakerState = state.breaker
  const slices = breaker.slices.filter(([startsAt]) => startsAt > now - windowSeconds * 1_000).sort(([a], [b]) => a - b)
  const isEmpty = slices.length === 0 && breaker.streak === 0
  return { ...state, breaker: { ...breaker, slices, ...(!isEmpty && { strategy }) } }
}

async function storedState({ key }: CallTarget): Promise<CallState> {
  const { states } = await callStates(connection.db, tables, [key])
  const { breaker, suppressedUntil, window } = states[key] ?? {}
  return { breaker: breaker ?? CLOSED_BREAKER, suppressedUntil: suppressedUntil ?? null, window: window ?? null }
}

const ROW = requestValues({ endpoint: '/a', duration_ms: 1 })

/** How often the joined statements decided, so that the test can't pass without them. */
const decided = { admissions: 0, settlements: 0 }

async function verdictsOf(target: CallTarget, owners: readonly string[], isJoined: boolean | undefined) {
  const { db } = connection
  const [joined] =
    isJoined === true && canJoin(target)
      ? await admitJoined(db, tables, [{ target, callers: owners.length, more: 0 }])
      : [null]
  if (joined === null || joined === undefined) return (await admitCalls(db, tables, target, owners))?.verdicts
  decided.admissions += 1
  expect(joined.more).toBe(0)
  return owners.map(() => ({ kind: 'admitted', probe: false, generation: joined.generation }))
}

async function settlementOf(target: CallTarget, outcomes: readonly CallOutcome[], isJoined: boolean | undefined) {
  const { db } = connection
  const rows = outcomes.map((outcome) => ({ ...outcome, row: isJoined === true ? ROW : null }))
  const ended = joinable(target, rows)
  const [ids] = ended === null ? [null] : await settleJoined(db, tables, [ended])
  if (ids === null || ids === undefined) return settleCalls(db, tables, target, rows)
  decided.settlements += 1
  return { ids, events: [] }
}

async function agree({
  rules: first,
  steps: history,
}: {
  rules: Rules
  steps: readonly { afterMs: number; step: Step }[]
}) {
  const { db } = connection
  const values = { provider: 'plain', name: 'of a test', credentials: 'sealed' }
  const [integration] = await db.insert(tables.integrations).values(values).returning()
  const { id } = integration as { id: number }
  const model = new Model(first)
  const windows = history.flatMap(({ step }) => (step.kind === 'rules' ? [step.rules.breaker.windowSeconds] : []))
  const mayJoin =
    history.every(({ afterMs }) => afterMs >= 0) && windows.every((seconds) => seconds === first.breaker.windowSeconds)
  const underWay: { owner: string; generation: number | null }[] = []
  let now = START
  let names = 0
  for (const { afterMs, step } of history) {
    now += afterMs
    const target: CallTarget = {
      integrationId: id,
      key: `agree:integration:${id}:calls`,
      eventNames: null,
      rules: model.rules,
      nowMs: now,
    }
    const until = 'forMs' in step && step.forMs !== null ? now + step.forMs : null
    const untilAt = until === null ? null : new Date(until).toISOString()
    switch (step.kind) {
      case 'admit': {
        const owners = Array.from({ length: step.owners }, () => {
          names += 1
          return `owner ${names}`
        })
        const expected = model.admit(owners, now)
        expect(await verdictsOf(target, owners, mayJoin && step.joined)).toEqual(expected)
        for (const [index, verdict] of expected.entries())
          if (verdict.kind === 'admitted')
            underWay.push({ owner: owners[index] as string, generation: verdict.generation })
        break
      }
      case 'settle': {
        const ended = step.outcomes.map(({ call, class: failureClass, quietForMs, quietInMs }): CallOutcome => {
          const { owner, generation } = underWay.at(-1 - call) ?? { owner: 'a stranger', generation: null }
          const quietUntil = quietInMs === null ? null : now + quietInMs
          return { owner, generation, class: failureClass, quietForMs, quietUntil, row: null }
        })
        const settled = new Set(step.outcomes.map(({ call }) => underWay.at(-1 - call)))
        underWay.splice(0, Infinity, ...underWay.filter((call) => !settled.has(call)))
        const expected = model.settle(ended, now)
        const answer = await settlementOf(target, ended, mayJoin && step.joined)
        expect(answer?.events.map(({ incidentId: _, ...event }: Record<string, unknown>) => event)).toEqual(expected)
        expect(answer?.ids).toEqual(ended.map(() => (mayJoin && step.joined === true ? expect.any(Number) : null)))
        const [row] =
          await connection.sql`select health_status, consecutive_failures, is_active from integrations where id = ${id}`
        expect(row).toEqual({
          health_status: model.health.status,
          consecutive_failures: model.health.consecutiveFailures,
          is_active: model.health.status !== 'disabled',
        })
        break
      }
      case 'rules':
        model.rules = step.rules
        break
      case 'override':
        model.override = step.to === null ? null : { to: step.to, until }
        await connection.sql`update integrations set circuit_override = ${step.to}, circuit_override_until = ${untilAt} where id = ${id}`
        break
      case 'limit override':
        model.limitOverride = { value: step.value, until }
        await connection.sql`update integrations set rate_limit_override = ${JSON.stringify(step.value)}::text::jsonb, rate_limit_override_until = ${untilAt} where id = ${id}`
    }
    expect(comparable(await storedState(target), model.rules, now)).toEqual(comparable(model.state, model.rules, now))
  }
  const [row] = await connection.sql`
    select circuit_override is null as circuit, rate_limit_override is null as rate from integrations where id = ${id}`
  expect(row).toEqual({ circuit: model.override === null, rate: model.limitOverride === null })
  const open =
    await connection.sql`select peak_severity from integration_incidents where integration_id = ${id} and status = 'open'`
  expect(open.map((incident) => incident.peak_severity)).toEqual(model.incident === null ? [] : [model.incident])
}

const TABLE: Rules = {
  breaker: {
    enabled: true,
    strategy: 'count',
    windowSeconds: 60,
    ratePercent: 50,
    minimum: 2,
    threshold: 1,
    cooldownSeconds: 30,
  },
  limit: null,
  circuitOverrides: true,
  limitOverrides: true,
  health: { degradedAfter: 2, failingAfter: 3, disabledAfter: 5 },
  incidents: true,
}
const asks = (afterMs: number, owners = 1) => ({ afterMs, step: { kind: 'admit' as const, owners } })
const ends = (afterMs: number, failureClass: FailureClass | null) => ({
  afterMs,
  step: { kind: 'settle' as const, outcomes: [{ call: 0, class: failureClass, quietForMs: null, quietInMs: null }] },
})
const under = (given: Rules) => ({ afterMs: 0, step: { kind: 'rules' as const, rules: given } })
const byRate = (windowSeconds: number): Rules => ({
  ...TABLE,
  breaker: { ...TABLE.breaker, strategy: 'rate', windowSeconds },
})

const HOURLY = { limit: 1, seconds: 3_600, window: 'fixed' } as const

/** Edges that random histories seldom meet. */
const EDGES: readonly { name: string; rules: Rules; steps: readonly { afterMs: number; step: Step }[] }[] = [
  {
    name: 'a probe whose lease is over says nothing; within it, it closes',
    rules: TABLE,
    steps: [
      ...[asks(0), ends(0, 'upstream'), asks(29_999), asks(1), asks(59_999), ends(1, null)],
      ...[asks(0), ends(59_999, null), asks(0)],
    ],
  },
  {
    name: 'the late outcome of an earlier probe is not that of the next one',
    rules: TABLE,
    steps: [
      ...[asks(0), ends(0, 'upstream'), asks(30_000), asks(60_000)],
      {
        afterMs: 0,
        step: { kind: 'settle', outcomes: [{ call: 1, class: null, quietForMs: null, quietInMs: null }] },
      },
      ends(0, null),
    ],
  },
  {
    name: 'a breaker that a clock ahead has opened is tried once the clock is back, one of a moment ago is not',
    rules: TABLE,
    steps: [...[asks(4_000_000), ends(0, 'upstream'), asks(-4_000_000), ends(0, 'upstream'), asks(-29_999), asks(-1)]],
  },
  {
    name: 'a change of strategy empties the counters, also when no outcome comes between',
    rules: byRate(60),
    steps: [asks(0), ends(0, 'upstream'), under(TABLE), asks(0), under(byRate(60)), asks(0), ends(0, 'upstream')],
  },
  {
    name: 'a slice counts until it is a window old, not then',
    rules: byRate(1),
    steps: [asks(0, 4), ends(0, 'client'), ends(999, 'client'), ends(1, 'upstream'), ends(0, 'upstream')],
  },
  {
    name: 'a limit that was lowered refuses until enough has left',
    rules: { ...TABLE, limit: { limit: 3, seconds: 10, window: 'sliding' } },
    steps: [
      ...[asks(0), asks(1_000), asks(1_000)],
      ...[under({ ...TABLE, limit: { limit: 2, seconds: 10, window: 'sliding' } }), asks(500), asks(8_500), asks(1)],
    ],
  },
  ...(['fixed', 'sliding'] as const).map((window) => ({
    name: `after a jump of the clock a refusal, too, moves the ${window} window to now, and its end is a window away`,
    rules: { ...TABLE, limit: { limit: 2, seconds: 60, window } },
    steps: [asks(4_000_000, 2), asks(-4_000_000), asks(59_999), asks(1, 2), asks(60_000, 3)],
  })),
  {
    name: 'a refusal after a jump of the clock stores a new strategy with empty counters, too',
    rules: { ...TABLE, breaker: { ...TABLE.breaker, threshold: 5 }, limit: HOURLY },
    steps: [asks(4_000_000), ends(0, 'upstream'), under({ ...byRate(60), limit: HOURLY }), asks(-4_000_000)],
  },
  {
    name: 'a clock that was set back by a second stays in the window, by more it leaves',
    rules: { ...TABLE, limit: { limit: 3, seconds: 60, window: 'fixed' } },
    steps: [asks(60_000), asks(-1_000), asks(-1), asks(0), asks(1_001, 3)],
  },
  {
    name: 'a slot of several milliseconds leaves with its last one',
    rules: { ...TABLE, limit: { limit: 1_025, seconds: 60, window: 'sliding' } },
    steps: [asks(7), asks(60_000), asks(1), asks(57), asks(1), asks(1)],
  },
]

it.each(EDGES)('gives the same as the model: $name', agree)

/** Where it takes longer, a failure is being made small: what is found by then is told. */
const RANDOM = { numRuns: 60, interruptAfterTimeLimit: 100_000, markInterruptAsFailure: true }

it('gives the same verdicts, events and state as the model, over random histories', { timeout: 120_000 }, async () => {
  await fc.assert(fc.asyncProperty(histories, agree), RANDOM)
})

it('gives the same where little goes wrong and joined statements decide', { timeout: 120_000 }, async () => {
  const before = { ...decided }
  await fc.assert(fc.asyncProperty(calmHistories, agree), RANDOM)
  expect(decided.admissions - before.admissions).toBeGreaterThan(200)
  expect(decided.settlements - before.settlements).toBeGreaterThan(200)
})
