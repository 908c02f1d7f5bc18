/** Each rule of the SQL functions of incidents, called as they are: rows by SQL, exact arguments, the exact result and what is left. */
import type { ISql, Sql } from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { DirectSql } from '../support/direct-sql.ts'
import { directSql, lockIsAwaited } from '../support/direct-sql.ts'

const NOON = '2100-01-01T12:00:00.000Z'
const NOON_MS = Date.parse(NOON)
const EARLIER = '2100-01-01T11:00:00.000Z'
const LONG_AGO = '2000-01-01T12:00:00.000Z'
const COOLDOWN_SECONDS = 60
/** The integration that the functions are asked about. The other one comes first. */
const OTHER = 1
const OWN = 2
const KEY = `calls:${OWN}`

interface Incident {
  readonly id: number
  /** Default: the own one. */
  readonly of?: number
  readonly isClosed?: true
  readonly severity?: string
  /** Default: long ago. */
  readonly opened?: string
  readonly lastError?: string
}

let direct: DirectSql
let sql: Sql

beforeAll(async () => {
  direct = await directSql(4)
  ;({ sql } = direct)
})
afterAll(() => direct.end())
beforeEach(async () => {
  await sql`delete from integrations`
  await sql`delete from integration_cache`
  await sql`
    insert into integrations (id, provider, name, credentials) select id, 'acme', 'of a test', '' from generate_series(1, 2) id`
})

/** A person has seen each and wants no repeats; its workflow has seen it, too. */
const store = (...rows: Incident[]) => sql`
  insert into integration_incidents (id, integration_id, status, source, reason, peak_severity, opened_at, last_error_at,
    acknowledged_at, acknowledged_by, snoozed_until, snoozed_by, followed_at, closed_at, updated_at)
  select id, coalesce("of", ${OWN}), case when "isClosed" then 'closed' else 'open' end, 'sync', 'of a test', coalesce(severity, 'degraded'),
    coalesce(opened, ${LONG_AGO}), "lastError", ${EARLIER}, 'Ada', ${EARLIER}, 'Bob', ${EARLIER},
    case when "isClosed" then ${LONG_AGO}::timestamptz end, ${LONG_AGO}
  from jsonb_to_recordset(${sql.json(rows as never)}) as r (
    id int, "of" int, "isClosed" boolean, severity text, opened timestamptz, "lastError" timestamptz)`

const row = async (id: number) => (await sql`select * from integration_incidents where id = ${id}`)[0]

/** By id. */
const openIds = async () =>
  (await sql`select id::int from integration_incidents where status = 'open' order by id`).map(({ id }) => id as number)

async function result(statement: PromiseLike<readonly { result?: unknown }[]>): Promise<unknown> {
  return (await statement)[0]?.result
}

/** While `holder` runs, the call waits. */
async function waitsFor<T>(holder: (tx: ISql) => Promise<unknown>, call: () => PromiseLike<T>, last: typeof holder) {
  let called: PromiseLike<T> | undefined
  await sql.begin(async (tx) => {
    await holder(tx)
    called = call()
    called.then(undefined, () => {})
    await lockIsAwaited(sql)
    await last(tx)
  })
  return called as PromiseLike<T>
}

describe('a breaker is well', () => {
  const open = (ago: number) => ({ state: 'open', openedAt: NOON_MS - ago })
  const halfOpen = (until?: number) => ({ state: 'half_open', ...(until !== undefined && { probe: { until } }) })

  it.each([
    ['without any state', null, null, true],
    ['without a state of its own', {}, null, true],
    ['when it is closed', { state: 'closed' }, null, true],
    ['not when it is open', open(86_400_000), null, false],
    ['when it has been open for the cooldown', open(60_000), COOLDOWN_SECONDS, true],
    ['not a millisecond before', open(59_999), COOLDOWN_SECONDS, false],
    ['when it was opened that far ahead, by another clock', open(-60_000), COOLDOWN_SECONDS, true],
    ['not when it was opened less far ahead', open(-59_999), COOLDOWN_SECONDS, false],
    ['not when no one knows since when it is open', { state: 'open' }, COOLDOWN_SECONDS, false],
    ['not when it is half open', halfOpen(), null, false],
    ['not when it is half open and its probe has ended', halfOpen(NOON_MS), null, false],
    ['when it is half open without a probe, with a cooldown', halfOpen(), COOLDOWN_SECONDS, true],
    ['when its probe has ended, with a cooldown', halfOpen(NOON_MS), COOLDOWN_SECONDS, true],
    ['not while its probe is under way', halfOpen(NOON_MS + 1), COOLDOWN_SECONDS, false],
    ['not in a state that is not known', { state: 'ajar' }, COOLDOWN_SECONDS, false],
  ])('%s', async (_, breaker, cooldown, isWell) => {
    const given = breaker === null ? null : sql.json(breaker)
    const answer = sql`select integration_is_breaker_well(${given}::jsonb, ${cooldown}, ${NOON_MS}) as result`
    expect(await result(answer)).toBe(isWell)
  })
})

/** What is wrong with an integration, or is not. */
const marks = {
  isStale: (id: number) => sql`update integrations set sync_stale_alerted_at = now() where id = ${id}`,
  lacksTokens: (id: number) => sql`update integrations set tokens_refused_at = now() where id = ${id}`,
  loops: (id: number) =>
    sql`insert into integration_written_records (integration_id, key, looping_since) values (${id}, 'a', now())`,
  writes: (id: number) => sql`insert into integration_written_records (integration_id, key) values (${id}, 'b')`,
  lacksSubscription: (id: number) =>
    sql`insert into integration_webhook_subscriptions (integration_id, is_wanted, alerted_at) values (${id}, true, now())`,
  subscribes: (id: number) =>
    sql`insert into integration_webhook_subscriptions (integration_id, is_wanted) values (${id}, true)`,
}
type Mark = keyof typeof marks
const WRONG: readonly Mark[] = ['isStale', 'lacksTokens', 'loops', 'lacksSubscription']

describe('an integration is well', () => {
  const isWell = (id: number, health: string) =>
    result(sql`select integration_is_integration_well(${id}, ${health}) as result`)

  it('when it is to be healthy and has no mark of trouble', async () => {
    expect(await isWell(OWN, 'healthy')).toBe(true)
  })

  it('when it writes records and has its subscription', async () => {
    await marks.writes(OWN)
    await marks.subscribes(OWN)
    expect(await isWell(OWN, 'healthy')).toBe(true)
  })

  it.each(['degraded', 'failing', 'disabled'])('not when it is to be %s', async (health) => {
    expect(await isWell(OWN, health)).toBe(false)
  })

  it('not when it does not exist', async () => {
    expect(await isWell(3, 'healthy')).toBe(false)
  })

  it.each(WRONG)('not when it %s; another one is not concerned', async (mark) => {
    await marks[mark](OWN)
    expect(await isWell(OWN, 'healthy')).toBe(false)
    expect(await isWell(OTHER, 'healthy')).toBe(true)
  })

  it.each(WRONG)('not when it is failing and %s', async (mark) => {
    await marks[mark](OWN)
    expect(await isWell(OWN, 'failing')).toBe(false)
  })

  it.each(WRONG)('when another one %s', async (mark) => {
    await marks[mark](OTHER)
    expect(await isWell(OWN, 'healthy')).toBe(true)
  })
})

describe('opening an incident', () => {
  const open = (severity: string, lastError: string | null = null, db: ISql = sql) =>
    result(
      db`select integration_open_incident(${OWN}, 7, 'circuit', 'threshold_reached', ${severity}, ${lastError}, ${NOON}) as result`,
    )
  const worse = (rises: boolean) => [{ at: 7, kind: 'incident_escalated', incidentId: 102, rises }]

  it('stores it as it is given', async () => {
    await store({ id: 101, isClosed: true }, { id: 103, of: OTHER })
    const events = (await open('failing', EARLIER)) as [{ incidentId: number }]
    expect(events).toEqual([{ at: 7, kind: 'incident_opened', incidentId: expect.any(Number) }])
    expect(await openIds()).toEqual([events[0].incidentId, 103].sort((a, b) => a - b))
    expect(await row(events[0].incidentId)).toMatchObject({
      ...{ integration_id: String(OWN), status: 'open', source: 'circuit', reason: 'threshold_reached' },
      ...{ peak_severity: 'failing', opened_at: new Date(NOON), last_error_at: new Date(EARLIER), closed_at: null },
      ...{ followed_at: null, acknowledged_at: null, snoozed_until: null, updated_at: new Date(NOON) },
    })
  })

  it('makes the open one worse, and forgets what a person has said of it', async () => {
    await store({ id: 101, isClosed: true }, { id: 103, of: OTHER }, { id: 102 })
    const before = [await row(101), await row(103)]
    expect(await open('failing', EARLIER)).toEqual(worse(true))
    expect(await row(102)).toMatchObject({
      ...{ status: 'open', source: 'sync', reason: 'of a test', peak_severity: 'failing' },
      ...{ opened_at: new Date(LONG_AGO), last_error_at: new Date(EARLIER), updated_at: new Date(NOON) },
      ...{ followed_at: null, acknowledged_at: null, acknowledged_by: null, snoozed_until: null, snoozed_by: null },
    })
    expect([await row(101), await row(103)]).toEqual(before)
  })

  it.each([
    ['as bad', 'failing'],
    ['less bad', 'degraded'],
  ])('keeps its worst health and what a person has said where it is %s', async (_, severity) => {
    await store({ id: 102, severity: 'failing', lastError: LONG_AGO })
    expect(await open(severity)).toEqual(worse(false))
    expect(await row(102)).toMatchObject({
      ...{ peak_severity: 'failing', last_error_at: new Date(LONG_AGO), updated_at: new Date(NOON), followed_at: null },
      ...{ acknowledged_at: new Date(EARLIER), acknowledged_by: 'Ada' },
      ...{ snoozed_until: new Date(EARLIER), snoozed_by: 'Bob' },
    })
  })

  it('keeps the newest error', async () => {
    await store({ id: 102, lastError: LONG_AGO })
    await open('degraded', EARLIER)
    expect(await row(102)).toMatchObject({ last_error_at: new Date(EARLIER) })
  })

  it.each([
    ['degraded', 'failing'],
    ['failing', 'disabled'],
    ['healthy', 'degraded'],
  ])('from %s to %s is worse', async (severity, next) => {
    await store({ id: 102, severity })
    expect(await open(next)).toEqual(worse(true))
  })

  it('waits for another change of it, and compares with what that has made', async () => {
    await store({ id: 102 })
    const events = await waitsFor(
      (tx) => tx`select from integration_incidents where id = 102 for update`,
      () => open('failing'),
      (tx) => tx`update integration_incidents set peak_severity = 'failing' where id = 102`,
    )
    expect(events).toEqual(worse(false))
  })

  it('changes nothing where the open one is closed meanwhile', async () => {
    await store({ id: 102 })
    const events = await waitsFor(
      (tx) => tx`select from integration_incidents where id = 102 for update`,
      () => open('failing'),
      (tx) => tx`update integration_incidents set status = 'closed' where id = 102`,
    )
    expect(events).toEqual([])
    expect(await row(102)).toMatchObject({ peak_severity: 'degraded', updated_at: new Date(LONG_AGO) })
  })
})

describe('closing an incident', () => {
  const close = () => result(sql`select integration_close_incident(${OWN}, 7, ${NOON}) as result`)

  it('closes the open one of the integration alone', async () => {
    await store({ id: 101, isClosed: true }, { id: 103, of: OTHER }, { id: 102 })
    const before = [await row(101), await row(103)]
    expect(await close()).toEqual([{ at: 7, kind: 'incident_closed', incidentId: 102 }])
    expect(await row(102)).toMatchObject({
      ...{ status: 'closed', closed_at: new Date(NOON), updated_at: new Date(NOON), followed_at: null },
      ...{ acknowledged_by: 'Ada', peak_severity: 'degraded' },
    })
    expect([await row(101), await row(103)]).toEqual(before)
  })

  it('changes nothing where none is open', async () => {
    await store({ id: 101, isClosed: true }, { id: 103, of: OTHER })
    const before = [await row(101), await row(103)]
    expect(await close()).toEqual([])
    expect([await row(101), await row(103)]).toEqual(before)
  })
})

describe('an incident whose integration may be well', () => {
  interface Call {
    readonly id: number
    readonly isBreakerOn: boolean
    readonly olderThan: number | null
    readonly now: number | null
  }
  const close = (given: Partial<Call> = {}, db: ISql = sql) => {
    const { id, isBreakerOn, olderThan, now } = { id: OWN, isBreakerOn: true, olderThan: null, now: NOON_MS, ...given }
    return result(
      db`select integration_close_incident_if_well(${id}, ${KEY}, ${isBreakerOn}, ${COOLDOWN_SECONDS}, ${olderThan}, ${now}) as result`,
    )
  }
  const CLOSED = [{ at: 0, kind: 'incident_closed', incidentId: 102 }]
  const setHealth = (id: number, health: string, db: ISql = sql) =>
    db`update integrations set health_status = ${health} where id = ${id}`
  /** The other one's comes first. */
  const setBreakers = async (other: object, own: object) => {
    await sql`insert into integration_cache (key, value) values ('calls:1', ${sql.json({ breaker: other as never })})`
    await sql`insert into integration_cache (key, value) values (${KEY}, ${sql.json({ breaker: own as never })})`
  }
  const openFor = (ms: number) => ({ state: 'open', openedAt: NOON_MS - ms })

  it('is closed at the given moment', async () => {
    await store({ id: 103, of: OTHER }, { id: 102 })
    expect(await close()).toEqual(CLOSED)
    expect(await row(102)).toMatchObject({ closed_at: new Date(NOON) })
    expect(await openIds()).toEqual([103])
  })

  it('is closed by the database’s clock where no moment is given', async () => {
    await store({ id: 102 })
    expect(await close({ now: null })).toEqual(CLOSED)
    const [moment] = await sql`
      select closed_at between now() - interval '1 minute' and now() as is_now from integration_incidents where id = 102`
    expect(moment).toEqual({ is_now: true })
  })

  it('is not there: nothing is closed', async () => {
    await store({ id: 103, of: OTHER })
    expect(await close()).toEqual([])
    expect(await close({ id: 3 })).toEqual([])
    expect(await openIds()).toEqual([103])
  })

  it('stays open while the integration is not healthy', async () => {
    await store({ id: 102 })
    await setHealth(OWN, 'degraded')
    expect(await close()).toEqual([])
  })

  it('is closed while another integration is not healthy', async () => {
    await store({ id: 102 })
    await setHealth(OTHER, 'degraded')
    // Written last: its row comes first no more.
    await setHealth(OWN, 'healthy')
    expect(await close()).toEqual(CLOSED)
  })

  it.each(WRONG)('stays open while the integration %s', async (mark) => {
    await store({ id: 102 })
    await marks[mark](OWN)
    expect(await close()).toEqual([])
    expect(await openIds()).toEqual([102])
  })

  it('stays open while its breaker is open, and is closed where that is switched off', async () => {
    await store({ id: 102 })
    await setBreakers({ state: 'closed' }, openFor(0))
    expect(await close()).toEqual([])
    expect(await close({ isBreakerOn: false })).toEqual(CLOSED)
  })

  it('is closed while another integration’s breaker is open', async () => {
    await store({ id: 102 })
    await setBreakers(openFor(0), { state: 'closed' })
    expect(await close()).toEqual(CLOSED)
  })

  it('stays open after the breaker’s cooldown, unless an age is given', async () => {
    await store({ id: 102 })
    await setBreakers({ state: 'closed' }, openFor(60_000))
    expect(await close()).toEqual([])
    expect(await close({ olderThan: 5 })).toEqual(CLOSED)
  })

  it('stays open before the end of the breaker’s cooldown, whatever age is given', async () => {
    await store({ id: 102 })
    await setBreakers({ state: 'closed' }, openFor(59_999))
    expect(await close({ olderThan: 5 })).toEqual([])
  })

  it('stays open until it is strictly older than the given age', async () => {
    await store(
      { id: 103, of: OTHER, opened: LONG_AGO },
      { id: 101, isClosed: true, opened: LONG_AGO },
      { id: 102, opened: EARLIER },
    )
    expect(await close({ olderThan: 3_600 })).toEqual([])
    expect(await openIds()).toEqual([102, 103])
    expect(await close({ olderThan: 3_600, now: NOON_MS + 1 })).toEqual(CLOSED)
  })

  it('is judged by what another change makes of the integration, which is waited for', async () => {
    await store({ id: 102 })
    const events = await waitsFor(
      (tx) => setHealth(OWN, 'failing', tx),
      () => close(),
      async () => {},
    )
    expect(events).toEqual([])
    expect(await openIds()).toEqual([102])
  })
})

describe('of a settlement’s events', () => {
  const NAMES = {
    health: 'H',
    circuit_opened: 'O',
    circuit_closed: 'C',
    disabled: 'D',
    incident_opened: 'IO',
    incident_escalated: 'IE',
    incident_closed: 'IC',
  }
  const record = async (events: readonly object[], names: object) => {
    await sql`select integration_record_events(${OWN}, ${sql.json(events as never)}, ${sql.json(names as never)})`
    return sql`select integration_id::int as of, name, payload, origin from integration_events order by id`
  }
  const stored = (name: string, payload: object, origin: string | null = null) => ({ of: OWN, name, payload, origin })

  it.each([
    [
      { kind: 'health', previous: 'healthy', new: 'failing', reason: 'r' },
      'H',
      { previousStatus: 'healthy', newStatus: 'failing' },
    ],
    [
      { kind: 'circuit_opened', reason: 'r', openedAt: NOON_MS + 123 },
      'O',
      { reason: 'r', openedAt: '2100-01-01T12:00:00.123Z' },
    ],
    [{ kind: 'circuit_closed', reason: 'r', openedAt: NOON_MS }, 'C', { reason: 'r' }],
    [{ kind: 'disabled', reason: 'r' }, 'D', {}],
  ])('%o has this payload', async (event, name, payload) => {
    expect(await record([event], NAMES)).toEqual([stored(name, payload)])
  })

  it('those of incidents tell of their own one', async () => {
    await store(
      { id: 103, of: OTHER, severity: 'failing' },
      { id: 101, isClosed: true, lastError: LONG_AGO },
      { id: 102 },
    )
    const shared = {
      integrationId: OWN,
      source: 'sync',
      reason: 'of a test',
      peakSeverity: 'degraded',
      openedAt: LONG_AGO,
    }
    const open = { ...shared, id: 102, status: 'open', lastErrorAt: null, closedAt: null }
    const closed = { ...shared, id: 101, status: 'closed', lastErrorAt: LONG_AGO, closedAt: LONG_AGO }
    const events = [
      { kind: 'incident_opened', incidentId: 102, rises: true },
      { kind: 'incident_escalated', incidentId: 102, rises: true },
      { kind: 'incident_closed', incidentId: 101 },
    ]
    expect(await record(events, NAMES)).toEqual([
      stored('IO', { incident: open }, 'incident:102'),
      stored('IE', { incident: open, rises: true }, 'incident:102'),
      stored('IC', { incident: closed }, 'incident:101'),
    ])
  })

  it('those without a name are left out', async () => {
    const events = [{ kind: 'disabled' }, { kind: 'circuit_closed', reason: 'r' }, { kind: 'disabled' }]
    expect(await record(events, { circuit_closed: 'C' })).toEqual([stored('C', { reason: 'r' })])
  })
})
