/** Each rule of the SQL function `settle_calls`, called as it is: rows by SQL, exact arguments, the exact result and rows. */
import type { ISql, Sql } from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CallEvent, CallOutcome, RequestValues } from '../../../src/calls/admission/call-queries.ts'
import type { BreakerSettings, BreakerState } from '../../../src/calls/admission/state-rules.ts'
import { CLOSED_BREAKER } from '../../../src/calls/admission/state-rules.ts'
import type { DirectSql } from '../../support/direct-sql.ts'
import { directSql, lockIsAwaited } from '../../support/direct-sql.ts'
import { requestValues } from '../../support/request-values.ts'

/** Not the start of a slice. */
const NOW = 1_800_000_031_123
/** Slices of a window of 60 s last a second. */
const SLICE = 1_800_000_031_000
const DAY_MS = 86_400_000

interface Settings {
  readonly breaker: Omit<BreakerSettings, 'cooldownSeconds'>
  readonly health: {
    readonly degradedAfter: number
    readonly failingAfter: number
    readonly disabledAfter: number | null
  }
  readonly incidents: boolean
}

const SETTINGS: Settings = {
  breaker: { enabled: true, strategy: 'count', windowSeconds: 60, ratePercent: 50, minimum: 100, threshold: 3 },
  health: { degradedAfter: 2, failingAfter: 4, disabledAfter: 6 },
  incidents: true,
}
const breaker = (given: Partial<Settings['breaker']>): Partial<Settings> => ({
  breaker: { ...SETTINGS.breaker, ...given },
})
const byRate = (given: Partial<Settings['breaker']> = {}) => breaker({ strategy: 'rate', ...given })

/** Of a call that the breaker of generation 5 has admitted. */
const ended = (failure: CallOutcome['class'], given: Partial<CallOutcome> = {}): CallOutcome => ({
  owner: 'caller',
  generation: 5,
  class: failure,
  quietForMs: null,
  quietUntil: null,
  row: null,
  ...given,
})
/** Of a call that the breaker does not know. */
const unknown = (failure: CallOutcome['class'], given: Partial<CallOutcome> = {}) =>
  ended(failure, { generation: null, ...given })

const CLOSED: BreakerState = { ...CLOSED_BREAKER, generation: 5, strategy: 'count' }
const OPEN: BreakerState = { ...CLOSED, state: 'open', openedAt: NOW - 1_000 }
const OLD_COUNTS: BreakerState['slices'] = [
  [SLICE - 1_000, 4, 2],
  [SLICE, 2, 1],
]
const HALF_OPEN: BreakerState = {
  ...CLOSED,
  state: 'half_open',
  openedAt: NOW - 60_000,
  probe: { owner: 'prober', until: NOW + 1 },
  slices: OLD_COUNTS,
  streak: 2,
}
const OPENED = { ...CLOSED, state: 'open', generation: 6, openedAt: NOW } as const

interface Integration {
  readonly status: 'healthy' | 'degraded' | 'failing' | 'disabled'
  readonly failures: number
  readonly isActive: boolean
  readonly lastErrorAt: number | null
  readonly updatedAt: number
}
const HEALTHY: Integration = { status: 'healthy', failures: 0, isActive: true, lastErrorAt: 1_000, updatedAt: 0 }
/** The first row of its table: no settlement here is its own. */
const ANOTHER: Integration = { status: 'disabled', failures: 9, isActive: false, lastErrorAt: 2_000, updatedAt: 0 }

let direct: DirectSql
let sql: Sql
let ids = 1

beforeAll(async () => {
  direct = await directSql(3)
  ;({ sql } = direct)
  await store(1, { health: ANOTHER, breaker: OPEN })
})
afterAll(() => direct.end())

interface Given {
  readonly health?: Partial<Integration>
  /** Absent: no call has needed the state yet. */
  readonly breaker?: BreakerState
  readonly suppressedUntil?: number
  readonly hasIncident?: boolean
  readonly isStale?: boolean
}

const keyOf = (id: number) => `calls:${id}`

async function store(id: number, given: Given): Promise<number> {
  const { status, failures, isActive, lastErrorAt, updatedAt } = { ...HEALTHY, ...given.health }
  await sql`
    insert into integrations (id, provider, name, credentials, health_status, consecutive_failures, is_active, last_error_at,
      updated_at, sync_stale_alerted_at)
    values (${id}, 'acme', 'of a test', '', ${status}, ${failures}, ${isActive}, to_timestamp(${lastErrorAt}::float8 / 1000),
      to_timestamp(${updatedAt}::float8 / 1000), case when ${given.isStale ?? false} then now() end)`
  if (given.breaker !== undefined) {
    const state = { breaker: given.breaker, suppressedUntil: given.suppressedUntil ?? null }
    await sql`insert into integration_cache (key, value) values (${keyOf(id)}, ${sql.json(state as never)})`
  }
  if (given.hasIncident === true)
    await sql`insert into integration_incidents (integration_id, source, reason, peak_severity, opened_at)
      values (${id}, 'sync', 'stale', 'degraded', 'epoch')`
  return id
}

/** Another integration for each test. */
const integration = (given: Given = {}): Promise<number> => {
  ids += 1
  return store(ids, given)
}

interface Answer {
  readonly ids: readonly (number | null)[]
  readonly events: readonly CallEvent[]
}

async function settle(
  id: number,
  outcomes: readonly object[],
  { settings = {}, now = NOW, db = sql }: { settings?: Partial<Settings>; now?: number | null; db?: ISql } = {},
): Promise<Answer | null> {
  const [row] = await db`select integration_settle_calls(${id}, ${keyOf(id)},
    ${sql.json({ ...SETTINGS, ...settings } as never)}, ${sql.json(outcomes as never)}, ${now}) as answer`
  return row?.answer
}

/** Null: there is no row. */
const stateOf = async (id: number) =>
  (await sql`select value from integration_cache where key = ${keyOf(id)}`)[0]?.value ?? null
const healthOf = async (id: number): Promise<Integration> =>
  (
    await sql<Integration[]>`
      select health_status as status, consecutive_failures as failures, is_active as "isActive",
        round(extract(epoch from last_error_at) * 1000)::float8 as "lastErrorAt",
        round(extract(epoch from updated_at) * 1000)::float8 as "updatedAt"
      from integrations where id = ${id}`
  )[0] as Integration
const incidentsOf = (id: number) => sql`
  select status, source, reason, peak_severity as peak, round(extract(epoch from last_error_at) * 1000)::float8 as "lastErrorAt",
    round(extract(epoch from opened_at) * 1000)::float8 as "openedAt",
    round(extract(epoch from closed_at) * 1000)::float8 as "closedAt"
  from integration_incidents where integration_id = ${id} order by id`

const opened = (at: number, reason: string) => [{ at, kind: 'circuit_opened', reason, openedAt: NOW }, incident(at)]
const closed = (at: number) => ({ at, kind: 'circuit_closed', reason: 'half_open_probe_succeeded' })
const incident = (at: number) => ({ at, kind: 'incident_opened', incidentId: expect.any(Number) })
const incidentClosed = (at: number) => ({ at, kind: 'incident_closed', incidentId: expect.any(Number) })
const health = (at: number, previous: string, status: string) => ({ at, kind: 'health', previous, new: status })

describe('the breaker', () => {
  type Case = [
    rule: string,
    before: BreakerState,
    outcomes: readonly CallOutcome[],
    after: BreakerState,
    events?: readonly unknown[],
    settings?: Partial<Settings>,
  ]

  /** Health of its own would open an incident, too. */
  const check = async (...[, before, outcomes, after, events = [], settings = {}]: Case): Promise<void> => {
    const id = await integration({ breaker: before })
    const sturdy = { degradedAfter: 100, failingAfter: 100, disabledAfter: null }
    expect(await settle(id, outcomes, { settings: { health: sturdy, ...settings } })).toEqual({
      ids: outcomes.map(() => null),
      events,
    })
    expect(await stateOf(id)).toEqual({ breaker: after, suppressedUntil: null })
  }

  const streak = (n: number): BreakerState => ({ ...CLOSED, streak: n })

  describe('by count', () => {
    it.each<Case>([
      ['an upstream failure is counted', streak(1), [ended('upstream')], streak(2)],
      ['a success ends the streak', streak(2), [ended(null)], streak(0)],
      ['another failure leaves it', streak(2), [ended('client'), ended('throttle'), ended('unknown')], streak(2)],
      ['the threshold opens it', streak(2), [ended('upstream')], OPENED, opened(0, 'threshold_reached')],
      ['a threshold that is exceeded opens it', streak(4), [ended('upstream')], OPENED, opened(0, 'threshold_reached')],
      ['only an upstream failure opens it', streak(4), [ended('client')], streak(4)],
      [
        'outcomes count in order, and what follows the one that opens it no more',
        streak(1),
        [ended('upstream'), ended(null), ...[1, 2, 3, 4].map(() => ended('upstream'))],
        OPENED,
        opened(4, 'threshold_reached'),
      ],
      [
        'no count is kept of what opened it',
        { ...CLOSED, slices: OLD_COUNTS, streak: 2 },
        [ended('upstream')],
        OPENED,
        opened(0, 'threshold_reached'),
      ],
      ['a call of an earlier generation counts nothing', streak(2), [ended('upstream', { generation: 4 })], streak(2)],
      ['a call of a later generation counts nothing', streak(2), [ended('upstream', { generation: 6 })], streak(2)],
      [
        'a call without a generation counts nothing',
        streak(2),
        [unknown('upstream'), ended(null, { generation: 4 })],
        streak(2),
      ],
      ['an open one counts nothing', { ...OPEN, streak: 2 }, [ended('upstream'), ended(null)], { ...OPEN, streak: 2 }],
      [
        'opens no incident where there are to be none',
        streak(2),
        [ended('upstream')],
        OPENED,
        opened(0, 'threshold_reached').slice(0, 1),
        { incidents: false },
      ],
    ])('%s', check)
  })

  describe('by rate', () => {
    const counts = (...slices: BreakerState['slices']): BreakerState => ({ ...CLOSED, strategy: 'rate', slices })
    const BY_RATE_OPENED: BreakerState = { ...OPENED, strategy: 'rate' }
    const IS_OPEN = opened(0, 'threshold_reached')
    const MANY: BreakerState['slices'][number] = [SLICE - 1_000, 200, 99]

    it.each<Case>([
      ['a success is counted', counts(), [ended(null)], counts([SLICE, 1, 0]), [], byRate()],
      [
        'a failure that is not upstream is counted like a success',
        counts(),
        [ended('client')],
        counts([SLICE, 1, 0]),
        [],
        byRate(),
      ],
      [
        'outcomes go into the current slice, behind the earlier ones',
        counts(...OLD_COUNTS),
        [ended('upstream'), ended('throttle')],
        counts([SLICE - 1_000, 4, 2], [SLICE, 4, 2]),
        [],
        byRate(),
      ],
      [
        'outcomes go into a slice of their own where there is none for the moment',
        counts([SLICE - 1_000, 4, 2]),
        [ended('upstream')],
        counts([SLICE - 1_000, 4, 2], [SLICE, 1, 1]),
        [],
        byRate(),
      ],
      [
        'slices of a window longer than a minute last longer than a second',
        counts(),
        [ended(null)],
        counts([1_800_000_030_000, 1, 0]),
        [],
        byRate({ windowSeconds: 61 }),
      ],
      [
        'a slice that began a window ago is dropped, one that began a millisecond later is kept',
        counts([NOW - 60_000, 5, 5], [NOW - 59_999, 2, 1]),
        [ended(null)],
        counts([NOW - 59_999, 2, 1], [SLICE, 1, 0]),
        [],
        byRate(),
      ],
      [
        'a slice that is over says nothing',
        counts([NOW - 60_000, 5, 5]),
        [ended('upstream')],
        counts([SLICE, 1, 1]),
        [],
        byRate({ minimum: 2, ratePercent: 1 }),
      ],
      [
        'a slice that is over is kept while nothing is counted: the clock may be set back',
        counts([NOW - 60_000, 5, 5]),
        [ended(null, { generation: 4 })],
        counts([NOW - 60_000, 5, 5]),
        [],
        byRate(),
      ],
      [
        'opens at its minimum and its rate, over all slices',
        counts(...OLD_COUNTS),
        [ended('upstream')],
        BY_RATE_OPENED,
        IS_OPEN,
        byRate({ minimum: 7, ratePercent: 57 }),
      ],
      [
        'stays closed below its rate',
        counts(...OLD_COUNTS),
        [ended('upstream')],
        counts([SLICE - 1_000, 4, 2], [SLICE, 3, 2]),
        [],
        byRate({ minimum: 7, ratePercent: 58 }),
      ],
      [
        'stays closed below its minimum',
        counts(...OLD_COUNTS),
        [ended('upstream')],
        counts([SLICE - 1_000, 4, 2], [SLICE, 3, 2]),
        [],
        byRate({ minimum: 8, ratePercent: 1 }),
      ],
      [
        'opens exactly at its rate',
        counts([SLICE - 1_000, 199, 99]),
        [ended('upstream')],
        BY_RATE_OPENED,
        IS_OPEN,
        byRate({ minimum: 1 }),
      ],
      [
        'stays closed just below its rate',
        counts(MANY),
        [ended('upstream')],
        counts(MANY, [SLICE, 1, 1]),
        [],
        byRate({ minimum: 1 }),
      ],
      [
        'opens at its first failure if one is enough',
        counts(),
        [ended('upstream')],
        BY_RATE_OPENED,
        IS_OPEN,
        byRate({ minimum: 1, ratePercent: 100 }),
      ],
      [
        'one call is not a minimum of two',
        counts(),
        [ended('upstream')],
        counts([SLICE, 1, 1]),
        [],
        byRate({ minimum: 2, ratePercent: 1 }),
      ],
      [
        'one failure of two calls is not each of them',
        counts(),
        [ended(null), ended('upstream')],
        counts([SLICE, 2, 1]),
        [],
        byRate({ minimum: 2, ratePercent: 100 }),
      ],
      [
        'no other outcome opens it, whatever the rate',
        counts([SLICE, 9, 9]),
        [ended(null), ended('client')],
        counts([SLICE, 11, 9]),
        [],
        byRate({ minimum: 1 }),
      ],
    ])('%s', check)
  })

  describe('after a change of strategy', () => {
    const rated: BreakerState = { ...CLOSED, strategy: 'rate', slices: OLD_COUNTS, streak: 2 }

    it.each<Case>([
      ['begins without counts', rated, [ended('upstream')], streak(1)],
      ['stays open', { ...OPEN, strategy: 'rate' }, [ended('upstream')], OPEN],
      ['keeps its counts until an admitted call ends', rated, [unknown('throttle', { quietUntil: 1 })], rated],
    ])('%s', check)
  })

  describe('half open', () => {
    const probe = (failure: CallOutcome['class']) => ended(failure, { owner: 'prober' })
    const later = (failure: CallOutcome['class']) => ended(failure, { generation: 6 })
    const AGAIN: BreakerState = { ...CLOSED, generation: 6 }
    const overAt = (until: number) => ({ ...HALF_OPEN, probe: { owner: 'prober', until } })
    const rated = { ...HALF_OPEN, strategy: 'rate' } as const
    const again = (total: number, failed: number): BreakerState => ({
      ...AGAIN,
      strategy: 'rate',
      slices: [[SLICE, total, failed]],
    })

    it.each<Case>([
      ['the probe’s success closes it, empty', HALF_OPEN, [probe(null)], AGAIN, [closed(0)]],
      [
        'the probe’s upstream failure opens it',
        HALF_OPEN,
        [probe('upstream')],
        OPENED,
        opened(0, 'half_open_probe_failed'),
      ],
      ['another failure of the probe frees its place', HALF_OPEN, [probe('client')], { ...HALF_OPEN, probe: null }],
      [
        'what follows the probe’s failure says nothing',
        HALF_OPEN,
        [probe('client'), probe(null), probe('upstream')],
        { ...HALF_OPEN, probe: null },
      ],
      ['a probe whose time is over says nothing', overAt(NOW), [probe(null)], overAt(NOW)],
      ['no other call says anything', HALF_OPEN, [ended(null), ended('upstream')], HALF_OPEN],
      ['no other call says anything once the probe’s time is over', overAt(NOW), [ended(null)], overAt(NOW)],
      [
        'nothing is said while there is no probe',
        { ...HALF_OPEN, probe: null },
        [probe(null)],
        { ...HALF_OPEN, probe: null },
      ],
      [
        'once closed, calls are counted from nothing',
        rated,
        [probe(null), later('client'), later('upstream')],
        again(2, 1),
        [closed(0)],
        byRate({ minimum: 3, ratePercent: 1 }),
      ],
      [
        'once closed, failures are counted from nothing',
        rated,
        [probe(null), later('client'), later('upstream')],
        again(2, 1),
        [closed(0)],
        byRate({ minimum: 2, ratePercent: 51 }),
      ],
      [
        'once closed, it opens at its minimum and its rate',
        rated,
        [probe(null), later('client'), later('upstream')],
        { ...OPENED, strategy: 'rate', generation: 7 },
        [closed(0), ...opened(2, 'threshold_reached')],
        byRate({ minimum: 2, ratePercent: 50 }),
      ],
    ])('%s', check)
  })

  it('without a state begins closed', async () => {
    const id = await integration()
    await settle(id, [ended('upstream', { generation: 0 })], { settings: byRate() })
    expect(await stateOf(id)).toEqual({
      breaker: { ...CLOSED_BREAKER, slices: [[SLICE, 1, 1]] },
      suppressedUntil: null,
    })
  })

  it('whose incident opens says since when, and what failed last', async () => {
    const id = await integration({ breaker: streak(2) })
    await settle(id, [ended('upstream')])
    expect(await incidentsOf(id)).toEqual([
      {
        ...{ status: 'open', source: 'circuit', reason: 'threshold_reached', peak: 'failing' },
        ...{ lastErrorAt: NOW, openedAt: NOW, closedAt: null },
      },
    ])
  })
})

describe('the suppression', () => {
  const forMs = (quietForMs: number) => unknown('throttle', { quietForMs })
  const until = (quietUntil: number) => unknown('throttle', { quietUntil })

  it.each<readonly [rule: string, before: number | null, outcomes: readonly CallOutcome[], after: number | null]>([
    ['begins with a throttle’s wait', null, [forMs(5_000)], NOW + 5_000],
    ['gets longer', NOW + 1, [forMs(5_000)], NOW + 5_000],
    ['does not get shorter', NOW + 5_001, [forMs(5_000)], NOW + 5_001],
    ['is the longest of those that are asked for', null, [forMs(1), forMs(5_000), until(NOW + 4_999)], NOW + 5_000],
    ['begins with a quota that is whole again later', null, [until(NOW + 1)], NOW + 1],
    ['does not begin with a quota that is whole by now', null, [until(NOW)], null],
    ['of a quota lasts a day', null, [until(NOW + DAY_MS)], NOW + DAY_MS],
    ['of a quota lasts no longer than a day', null, [until(NOW + DAY_MS + 1)], NOW + DAY_MS],
    ['stays while calls end', NOW + 1, [ended(null)], NOW + 1],
  ])('%s', async (_, before, outcomes, after) => {
    const id = await integration({ breaker: CLOSED, ...(before !== null && { suppressedUntil: before }) })
    expect((await settle(id, outcomes))?.events).toEqual([])
    expect(await stateOf(id)).toEqual({ breaker: CLOSED, suppressedUntil: after })
  })
})

describe('health', () => {
  const from = (status: Integration['status'], failures: number): Partial<Integration> => ({ status, failures })
  /** Of a row that is written now. */
  const failed = (status: Integration['status'], failures: number): Partial<Integration> => ({
    ...{ status, failures, lastErrorAt: NOW, updatedAt: NOW },
  })
  const healed = (status: Integration['status'] = 'healthy') => ({ ...from(status, 0), updatedAt: NOW })
  const upstream = unknown('upstream')
  const success = unknown(null)

  type Case = [
    rule: string,
    before: Partial<Integration>,
    outcomes: readonly CallOutcome[],
    after: Partial<Integration>,
    events?: readonly unknown[],
    settings?: Partial<Settings>,
  ]
  it.each<Case>([
    ['an upstream failure is counted', from('healthy', 0), [upstream], failed('healthy', 1)],
    [
      'degrades after as many as the settings say',
      from('healthy', 1),
      [upstream],
      failed('degraded', 2),
      [health(0, 'healthy', 'degraded'), incident(0)],
    ],
    ['goes on counting', from('degraded', 2), [upstream], failed('degraded', 3)],
    [
      'fails after as many as the settings say',
      from('degraded', 3),
      [upstream],
      failed('failing', 4),
      [health(0, 'degraded', 'failing'), incident(0)],
    ],
    ['is failing while there are fewer than disable', from('failing', 4), [upstream], failed('failing', 5)],
    [
      'is disabled, and the integration switched off, after as many as the settings say',
      from('failing', 5),
      [upstream],
      { ...failed('disabled', 6), isActive: false },
      [{ at: 0, kind: 'disabled' }, health(0, 'failing', 'disabled'), incident(0)],
    ],
    [
      'disables nothing where the settings say so',
      from('failing', 5),
      [upstream],
      failed('failing', 6),
      [],
      { health: { ...SETTINGS.health, disabledAfter: null } },
    ],
    ['does not get better by a failure', from('failing', 1), [upstream], failed('failing', 2)],
    ['that is disabled does not get better by a failure', from('disabled', 0), [upstream], failed('disabled', 1)],
    [
      'opens no incident where there are to be none',
      from('healthy', 1),
      [upstream],
      failed('degraded', 2),
      [health(0, 'healthy', 'degraded')],
      { incidents: false },
    ],
    [
      'follows the outcomes in their order',
      from('healthy', 1),
      [unknown('client'), upstream, unknown('throttle'), success, upstream, upstream],
      failed('degraded', 2),
      [
        ...[health(1, 'healthy', 'degraded'), incident(1), health(3, 'degraded', 'healthy'), incidentClosed(3)],
        ...[health(5, 'healthy', 'degraded'), incident(5)],
      ],
    ],
    ['a success ends the failures', from('healthy', 1), [success], healed()],
    ['a success heals what is degraded', from('degraded', 3), [success], healed(), [health(0, 'degraded', 'healthy')]],
    ['a success heals what is failing', from('failing', 5), [success], healed(), [health(0, 'failing', 'healthy')]],
    [
      'a success heals what is degraded without failures',
      from('degraded', 0),
      [success],
      healed(),
      [health(0, 'degraded', 'healthy')],
    ],
    ['a success on what is disabled ends the failures only', from('disabled', 7), [success], healed('disabled')],
    ['a success on what is disabled without failures writes nothing', from('disabled', 0), [success], {}],
    ['a success on what is well writes nothing', from('healthy', 0), [success], {}],
    ['a failure that is not upstream writes nothing', from('degraded', 3), [unknown('client'), unknown('unknown')], {}],
    [
      'a success beside one that is not upstream counts',
      from('degraded', 3),
      [unknown('client'), success],
      healed(),
      [health(1, 'degraded', 'healthy')],
    ],
  ])('%s', async (...[, before, outcomes, after, events = [], settings = {}]) => {
    const id = await integration({ health: before })
    expect(await settle(id, outcomes, { settings })).toEqual({ ids: outcomes.map(() => null), events })
    expect(await healthOf(id)).toEqual({ ...HEALTHY, ...before, ...after })
    expect(await healthOf(1)).toEqual(ANOTHER)
    // The breaker knows none of these calls.
    expect(await sql`select from integration_cache where starts_with(key, ${keyOf(id)})`).toHaveLength(0)
  })

  it('gives its incident the status as reason and severity', async () => {
    const id = await integration({ health: from('degraded', 3) })
    await settle(id, [upstream])
    expect(await incidentsOf(id)).toEqual([
      {
        ...{ status: 'open', source: 'health', reason: 'health_failing', peak: 'failing' },
        ...{ lastErrorAt: NOW, openedAt: NOW, closedAt: null },
      },
    ])
  })
})

describe('an open incident', () => {
  const DEGRADED = { status: 'degraded', failures: 3 } as const
  const HEALED = health(0, 'degraded', 'healthy')
  const probe = ended(null, { owner: 'prober' })
  const IS_OFF = breaker({ enabled: false })

  type Case = [
    rule: string,
    given: Given,
    outcomes: readonly CallOutcome[],
    events: readonly unknown[],
    settings?: Partial<Settings>,
  ]
  it.each<Case>([
    ['is closed when health is back', { health: DEGRADED }, [unknown(null)], [HEALED, incidentClosed(0)]],
    [
      'is closed when health is back and the circuit closed',
      { health: DEGRADED, breaker: CLOSED },
      [unknown(null)],
      [HEALED, incidentClosed(0)],
    ],
    [
      'is closed by a call that the breaker knows',
      { health: DEGRADED, breaker: CLOSED },
      [ended(null)],
      [HEALED, incidentClosed(0)],
    ],
    ['is closed when the circuit closes', { breaker: HALF_OPEN }, [probe], [closed(0), incidentClosed(0)]],
    [
      'is closed once when both happen',
      { health: DEGRADED, breaker: HALF_OPEN },
      [probe],
      [closed(0), HEALED, incidentClosed(0)],
    ],
    ['stays while the circuit is open', { health: DEGRADED, breaker: OPEN }, [unknown(null)], [HEALED]],
    ['stays while the circuit is half open', { health: DEGRADED, breaker: HALF_OPEN }, [ended(null)], [HEALED]],
    [
      'is closed whatever a breaker says that is switched off',
      { health: DEGRADED, breaker: OPEN },
      [unknown(null)],
      [HEALED, incidentClosed(0)],
      IS_OFF,
    ],
    ['stays while the sync is stale', { health: DEGRADED, isStale: true }, [unknown(null)], [HEALED]],
    [
      'stays when the circuit closes while the integration is disabled',
      { health: { status: 'disabled' }, breaker: HALF_OPEN },
      [probe],
      [closed(0)],
    ],
    ['is not touched by a success on what is well', { breaker: CLOSED }, [unknown(null), ended(null)], []],
    ['is not touched by a failure that says nothing', { breaker: CLOSED }, [ended('client')], []],
  ])('%s', async (_, given, outcomes, events, settings = {}) => {
    const id = await integration({ ...given, hasIncident: true })
    expect((await settle(id, outcomes, { settings }))?.events).toEqual(events)
    const isClosed = events.some((event) => (event as CallEvent).kind === 'incident_closed')
    expect(await incidentsOf(id)).toMatchObject([
      isClosed ? { status: 'closed', closedAt: NOW } : { status: 'open', closedAt: null },
    ])
  })

  it('is not closed again by what comes after a recovery', async () => {
    const id = await integration({ breaker: { ...HALF_OPEN, streak: 0 } })
    const again = ended('upstream', { generation: 6 })
    const { events } = (await settle(id, [probe, again], { settings: breaker({ enabled: false, threshold: 1 }) })) ?? {}
    expect(events).toEqual([closed(0), ...opened(1, 'threshold_reached')])
    expect(await incidentsOf(id)).toMatchObject([{ status: 'open' }])
  })
})

describe('a row', () => {
  const VALUES: Partial<RequestValues> = {
    failure_class: 'upstream',
    ...{ endpoint: '/a', method: 'POST', status_code: 503, request_data: 'asked', idempotency_key: 'key' },
    ...{ provider_request_id: 'theirs', response_data: 'given', error: 'down' },
    ...{
      duration_ms: 12,
      retry_of: 7,
      related_type: 'order',
      related_id: 8,
      request_hash: 'hash',
      origin: 'webhook:1',
    },
  }
  const rowsOf = (id: number) => sql`
    select to_jsonb(r) - array['id', 'integration_id', 'cache_hits', 'stale_hits', 'created_at', 'updated_at', 'expires_at'] as row,
      id::int, integration_id::int as of, round(extract(epoch from created_at) * 1000)::float8 as "createdAt",
      round(extract(epoch from updated_at) * 1000)::float8 as "updatedAt",
      round(extract(epoch from expires_at) * 1000)::float8 as "expiresAt"
    from integration_requests r where integration_id = ${id} order by id`
  const spend = (id: number, key: string, at: number) => sql`
    insert into integration_idempotency_keys (integration_id, key, created_at) values (${id}, ${key}, to_timestamp(${at}::float8 / 1000))`

  it('is written for each outcome that has one, in order', async () => {
    const id = await integration()
    const { row: _, ...without } = unknown(null)
    const first = requestValues({ ...VALUES, expires_in_ms: 90_500 })
    const answer = await settle(id, [
      ...[unknown(null, { row: first }), unknown(null), without],
      unknown(null, { row: requestValues({ endpoint: '/b' }) }),
    ])
    const rows = await rowsOf(id)
    expect(answer).toEqual({ ids: [rows[0]?.id, null, null, rows[1]?.id], events: [] })
    const { expires_in_ms: __, ...plain } = requestValues({ endpoint: '/b' })
    expect(rows).toEqual([
      {
        ...{ id: rows[0]?.id, of: id, createdAt: NOW, updatedAt: NOW, expiresAt: NOW + 90_500 },
        row: VALUES,
      },
      { id: rows[1]?.id, of: id, createdAt: NOW, updatedAt: NOW, expiresAt: null, row: plain },
    ])
  })

  it.each([
    ['of the moment', NOW - 5, NOW],
    ['not older than its key, where the clock was set back', NOW + 5, NOW + 5],
  ])('is %s', async (_, spentAt, createdAt) => {
    const id = await integration()
    // Keys of others, and another one of this integration.
    await spend(1, `key of ${id}`, NOW + 1_000)
    await spend(id, 'another', NOW + 1_000)
    await spend(id, `key of ${id}`, spentAt)
    await settle(id, [unknown(null, { row: requestValues({ idempotency_key: `key of ${id}` }) })])
    expect(await rowsOf(id)).toMatchObject([{ createdAt, updatedAt: NOW }])
  })

  it('is of the database’s clock where no moment is given', async () => {
    const id = await integration()
    const before = Date.now()
    await settle(id, [unknown(null, { row: requestValues() })], { now: null })
    const [row] = await rowsOf(id)
    // The server's clock is that of this machine, read in whole milliseconds.
    expect(row?.createdAt).toBeGreaterThanOrEqual(before - 1)
    expect(row?.createdAt).toBeLessThanOrEqual(Date.now() + 1)
  })
})

it('no outcomes are nothing to settle', async () => {
  const id = await integration({ breaker: CLOSED })
  expect(await settle(id, [])).toEqual({ ids: [], events: [] })
  expect(await healthOf(id)).toEqual(HEALTHY)
})

describe('of an integration that is gone', () => {
  it.each([
    ['a call that the breaker knows', ended(null)],
    ['a call that it does not know', unknown(null)],
  ])('%s is not settled', async (_, outcome) => {
    ids += 1
    expect(await settle(ids, [outcome])).toBeNull()
    expect(await sql`select from integration_cache where starts_with(key, ${keyOf(ids)})`).toHaveLength(0)
  })
})

describe('beside another session', () => {
  /** What the settlement gives when `change` is committed after it has begun. */
  async function during(
    id: number,
    outcome: CallOutcome,
    change: (db: ISql) => PromiseLike<unknown>,
  ): Promise<Answer | null> {
    const holder = await sql.reserve()
    try {
      await holder`begin`
      await change(holder)
      const answer = settle(id, [outcome])
      await lockIsAwaited(sql)
      await holder`commit`
      return await answer
    } finally {
      await holder`rollback`
      holder.release()
    }
  }

  it('a failure counts on what the other one has written', async () => {
    const id = await integration()
    await during(id, unknown('upstream'), (db) => db`update integrations set consecutive_failures = 4 where id = ${id}`)
    expect(await healthOf(id)).toMatchObject({ status: 'failing', failures: 5 })
  })

  it('a failure of an integration that goes meanwhile is not settled', async () => {
    const id = await integration()
    expect(await during(id, unknown('upstream'), (db) => db`delete from integrations where id = ${id}`)).toBeNull()
  })

  it('a circuit that closes leaves the incident open where health gets worse meanwhile', async () => {
    const id = await integration({ breaker: HALF_OPEN, hasIncident: true })
    const answer = await during(
      id,
      ended(null, { owner: 'prober' }),
      (db) => db`update integrations set health_status = 'degraded' where id = ${id}`,
    )
    expect(answer?.events).toEqual([closed(0)])
    expect(await incidentsOf(id)).toMatchObject([{ status: 'open' }])
  })

  it.each([
    ['a success on what is well', {}, ended(null)],
    ['a failure that is not upstream', { health: { status: 'degraded', failures: 3 } }, ended('client')],
  ] as const)('%s does not wait for the integration’s row', async (_, given, outcome) => {
    const id = await integration({ breaker: CLOSED, ...given })
    await sql.begin(async (holder) => {
      await holder`select from integrations where id = ${id} for no key update`
      await sql.begin(async (tx) => {
        await tx`set local lock_timeout = 1000`
        const row = requestValues()
        expect(await settle(id, [{ ...outcome, row }], { db: tx })).toEqual({ ids: [expect.any(Number)], events: [] })
      })
    })
  })
})
