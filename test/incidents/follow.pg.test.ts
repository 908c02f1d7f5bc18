/** Who opens and who closes an incident beside the calls, and what its workflow is told: test/calls/call-events.pg.test.ts has the calls. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { CLOSED_BREAKER } from '../../src/calls/admission/state-rules.ts'
import type { EventName } from '../../src/events/events.ts'
import { autoCloseIncident, lookAtIncident, rewakeIncidents } from '../../src/incidents/follow.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { evaluateStaleSyncs } from '../../src/syncs/staleness.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, testIntegrations } from '../support/integrations.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, setIntegration } from '../support/rows.ts'

const START = new Date('2031-05-01T12:00:00.000Z')
const DAY_SECONDS = 86_400
const clock = new ManualClock(START)
const encryptionKeys = encryptionKey('test')
const providers = { acme: syncProvider(() => {}, { defaultSyncInterval: () => 10 }) }

let database: TestDatabase
let test: TestIntegrations
/** The same, without incidents. */
let without: TestIntegrations
/** The same, on the database's clock. */
let timed: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { clock, encryptionKeys, providers })
  const observability = { incidents_enabled: false }
  without = testIntegrations(database.url, { clock, encryptionKeys, providers, config: { observability } })
  timed = testIntegrations(database.url, { encryptionKeys, providers })
})

afterAll(async () => {
  await test.close()
  await without.close()
  await timed.close()
  await database.drop()
})

let integration: Integration
/** Names of the events, and `workflow: …` for what its workflow was told. */
let told: string[]

beforeEach(async () => {
  clock.set(START)
  await test.sql`delete from integrations`
  await test.sql`delete from integration_cache`
  integration = await makeIntegration(test, 'acme')
  told = []
  for (const { starts } of [test, without]) starts.followed.length = 0
  for (const name of NAMES) for (const each of [test, without]) listen(each, name, () => void told.push(name))
})

const NAMES: readonly EventName[] = [
  'SyncBecameStale',
  'SyncStalenessRecovered',
  'IntegrationHealthChanged',
  'IncidentOpened',
  'IncidentEscalated',
  'IncidentClosed',
]
const LONG_AGO = new Date(Date.now() - 1_000_000_000)
/** Late by the database's clock, by which syncs are judged. */
const becomeLate = (id = integration.id) => setIntegration(test, id, { lastSyncedAt: LONG_AGO })
const syncClean = (id = integration.id) => setIntegration(test, id, { lastSyncedAt: new Date() })

function setBreaker(
  state: 'open' | 'half_open' | 'closed',
  id = integration.id,
  openedAtMs = START.getTime(),
  probe: { owner: string; until: number } | null = null,
): Promise<unknown> {
  const value = { breaker: { ...CLOSED_BREAKER, state, openedAt: openedAtMs, probe } }
  return test.sql`
    insert into integration_cache (key, value) values (${`integrations:integration:${id}:calls`}, ${test.sql.json(value)})
    on conflict (key) do update set value = excluded.value`
}

const becomeStale = (id = integration.id) => setIntegration(test, id, { syncStaleAlertedAt: START })

async function incidents(id = integration.id) {
  return [
    ...(await test.sql`
      select status, source, reason, peak_severity, opened_at, last_error_at, closed_at from integration_incidents
      where integration_id = ${id} order by id`),
  ]
}

describe('a sync that becomes stale', () => {
  it('opens an incident with the last error of its integration, is told, and its workflow with it', async () => {
    const lastErrorAt = new Date('2031-05-01T11:00:00.000Z')
    await setIntegration(test, integration.id, { lastErrorAt })
    await becomeLate()
    await evaluateStaleSyncs(test.framework)
    expect(told).toEqual(['SyncBecameStale', 'IncidentOpened'])
    expect(await incidents()).toEqual([
      {
        status: 'open',
        source: 'sync',
        reason: 'sync_stale',
        peak_severity: 'failing',
        opened_at: START,
        last_error_at: lastErrorAt,
        closed_at: null,
      },
    ])
    expect(test.starts.followed).toEqual([{ integrationId: integration.id, change: 'escalate' }])
  })

  it.each([
    ['degraded', 'failing'],
    ['disabled', 'disabled'],
  ] as const)('makes an open one of severity %s worse: %s', async (peakSeverity, after) => {
    const lastErrorAt = new Date('2031-04-30T00:00:00.000Z')
    await makeIncident(test, integration.id, { peakSeverity, lastErrorAt, openedAt: START })
    clock.advance(60)
    await becomeLate()
    await evaluateStaleSyncs(test.framework)
    expect(told).toEqual(['SyncBecameStale', 'IncidentEscalated'])
    // Its integration has no error of its own: that of the incident stays.
    expect(await incidents()).toMatchObject([
      {
        source: 'health',
        reason: 'health_degraded',
        peak_severity: after,
        opened_at: START,
        last_error_at: lastErrorAt,
      },
    ])
  })

  it('opens none and makes none worse where incidents are switched off, but ends one', async () => {
    await becomeLate()
    await evaluateStaleSyncs(without.framework)
    expect([told, await incidents(), without.starts.followed]).toEqual([['SyncBecameStale'], [], []])

    await setIntegration(test, integration.id, { syncStaleAlertedAt: null })
    await makeIncident(test, integration.id, { peakSeverity: 'degraded' })
    await evaluateStaleSyncs(without.framework)
    expect(await incidents()).toMatchObject([{ status: 'open', peak_severity: 'degraded' }])

    await syncClean()
    await evaluateStaleSyncs(without.framework)
    expect(await incidents()).toMatchObject([{ status: 'closed', closed_at: START }])
  })
})

/** What else may be wrong when one of three heals. */
const OTHER_TROUBLE = [
  ['nothing else is wrong', async () => {}, 'closed'],
  ['its breaker is open', () => setBreaker('open'), 'open'],
  ['its breaker is half open', () => setBreaker('half_open'), 'open'],
  ['its breaker is closed', () => setBreaker('closed'), 'closed'],
] as const

describe('staleness that ends', () => {
  it.each([
    ...OTHER_TROUBLE,
    ['its health is degraded', () => setIntegration(test, integration.id, { healthStatus: 'degraded' }), 'open'],
  ] as const)('while %s', async (_, trouble, status) => {
    await makeIncident(test, integration.id, { source: 'sync', reason: 'sync_stale' })
    await setIntegration(test, integration.id, { syncStaleAlertedAt: new Date() })
    await trouble()
    await syncClean()
    await evaluateStaleSyncs(test.framework)
    expect(await incidents()).toMatchObject([{ status, closed_at: status === 'open' ? null : START }])
    expect(told).toEqual(['SyncStalenessRecovered', ...(status === 'closed' ? ['IncidentClosed'] : [])])
    expect(test.starts.followed).toEqual(
      status === 'closed' ? [{ integrationId: integration.id, change: 'recovered' }] : [],
    )
  })

  it('a breaker that is switched off holds nothing up', async () => {
    const config = { circuit_breaker: { enabled: false } }
    const unbroken = testIntegrations(database.url, { clock, encryptionKeys, providers, config })
    try {
      await makeIncident(test, integration.id)
      await setBreaker('open')
      await setIntegration(test, integration.id, { syncStaleAlertedAt: new Date(), lastSyncedAt: new Date() })
      await evaluateStaleSyncs(unbroken.framework)
      expect(await incidents()).toMatchObject([{ status: 'closed' }])
    } finally {
      await unbroken.close()
    }
  })
})

describe('a breaker that is given back to itself', () => {
  it.each([
    ['ends the incident that its trip had opened, and tells', async () => {}, 'closed', ['IncidentClosed']],
    ['ends none of a stale one', () => becomeStale(), 'open', []],
  ] as const)('%s', async (_, also, status, names) => {
    await makeIncident(test, integration.id, { source: 'circuit', reason: 'threshold_reached' })
    await setBreaker('open')
    await also()
    told = []
    await integration.overrideCircuit(null)
    expect(await incidents()).toMatchObject([{ status }])
    expect(told).toEqual(names)
  })

  it('ends none when it is forced closed', async () => {
    await makeIncident(test, integration.id, { source: 'circuit', reason: 'threshold_reached' })
    await setBreaker('open')
    await integration.overrideCircuit('forced_closed')
    expect(await incidents()).toMatchObject([{ status: 'open' }])
  })
})

describe('enabling', () => {
  it.each([
    ...OTHER_TROUBLE,
    ['it is stale', () => setIntegration(test, integration.id, { syncStaleAlertedAt: new Date() }), 'open'],
  ] as const)('an unhealthy integration ends its incident while %s', async (_, trouble, status) => {
    await makeIncident(test, integration.id)
    await setIntegration(test, integration.id, { healthStatus: 'disabled', isActive: false, consecutiveFailures: 99 })
    await trouble()
    await test.integrations.enable(integration.id)
    expect(await incidents()).toMatchObject([{ status }])
    expect(told).toEqual(['IntegrationHealthChanged', ...(status === 'closed' ? ['IncidentClosed'] : [])])
    expect(test.starts.followed).toHaveLength(status === 'closed' ? 1 : 0)
    expect(await test.integrations.get(integration.id)).toMatchObject({ isActive: true, healthStatus: 'healthy' })
  })

  it('a healthy one tells and ends nothing', async () => {
    await makeIncident(test, integration.id)
    await integration.disable()
    await integration.enable()
    expect([told, await incidents()]).toMatchObject([[], [{ status: 'open' }]])
  })
})

describe('closing by itself', () => {
  const WEEK_SECONDS = 7 * DAY_SECONDS
  it.each([
    ['a moment older than seven days', WEEK_SECONDS + 0.001, {}, null, true],
    ['of exactly seven days', WEEK_SECONDS, {}, null, false],
    ['a day old', DAY_SECONDS, {}, null, false],
    ['old, of a degraded integration', 2 * WEEK_SECONDS, { healthStatus: 'degraded' }, null, false],
    ['old, of a stale one', 2 * WEEK_SECONDS, { syncStaleAlertedAt: START }, null, false],
    ['old, of one whose breaker is open, its cooldown over', 2 * WEEK_SECONDS, {}, 'open', true],
    ['old, of one whose breaker is half open, its last probe given up', 2 * WEEK_SECONDS, {}, 'half_open', true],
    ['old, of one that is switched off', 2 * WEEK_SECONDS, { isActive: false }, 'closed', true],
  ] as const)('an incident that is %s', async (_, age, values, breaker, closes) => {
    await makeIncident(test, integration.id, { openedAt: START })
    if (Object.keys(values).length > 0) await setIntegration(test, integration.id, values)
    if (breaker !== null) await setBreaker(breaker)
    clock.set(new Date(START.getTime() + age * 1_000))
    expect(await autoCloseIncident(test.framework, integration.id)).toBe(closes)
    expect(await incidents()).toMatchObject([{ status: closes ? 'closed' : 'open' }])
    expect(told).toEqual(closes ? ['IncidentClosed'] : [])
  })

  it.each([
    ['before', 59_999, false],
    ['at', 60_000, true],
  ])('an old incident %s the end of the cooldown of its breaker', async (_, openForMs, closes) => {
    await makeIncident(test, integration.id, { openedAt: START })
    const now = START.getTime() + 2 * WEEK_SECONDS * 1_000
    await setBreaker('open', integration.id, now - openForMs)
    clock.set(new Date(now))
    expect(await autoCloseIncident(test.framework, integration.id)).toBe(closes)
  })

  it.each([
    ['has its time still', 1, false],
    ['was silent for its time, since its process died', 0, true],
  ])('an old incident whose breaker is half open by a probe that %s', async (_, leftMs, closes) => {
    await makeIncident(test, integration.id, { openedAt: START })
    const now = START.getTime() + 2 * WEEK_SECONDS * 1_000
    await setBreaker('half_open', integration.id, now - 120_000, { owner: 'gone', until: now + leftMs })
    clock.set(new Date(now))
    expect(await autoCloseIncident(test.framework, integration.id)).toBe(closes)
  })

  it.each([
    ['past', 7 * DAY_SECONDS + 60, true],
    ['before', 7 * DAY_SECONDS - 60, false],
  ] as const)(
    'is judged by the clock of the database unless a host gives its own: a minute %s',
    async (_, age, closes) => {
      await makeIncident(test, integration.id, { openedAt: new Date(Date.now() - age * 1_000) })
      const sight = await lookAtIncident(timed.framework, integration.id)
      expect(sight?.autoCloseInSeconds).toBeLessThanOrEqual(closes ? 0 : 60)
      expect(sight?.autoCloseInSeconds).toBeGreaterThanOrEqual(closes ? 0 : 1)
      expect(await autoCloseIncident(timed.framework, integration.id)).toBe(closes)
    },
  )

  it('is done and told once when many try', async () => {
    await makeIncident(test, integration.id, { openedAt: START })
    clock.advance({ days: 8 })
    const tries = Array.from({ length: 8 }, () => autoCloseIncident(test.framework, integration.id))
    expect((await Promise.all(tries)).filter(Boolean)).toHaveLength(1)
    expect(told).toEqual(['IncidentClosed'])
    expect(await autoCloseIncident(test.framework, 4_000_000)).toBe(false)
  })

  it('takes the largest number of days that the configuration allows', async () => {
    const config = { pruning: { incidents_stale_after_days: 2 ** 31 - 1 } }
    const patient = testIntegrations(database.url, { clock, encryptionKeys, providers, config })
    try {
      await makeIncident(test, integration.id, { openedAt: START })
      clock.advance({ days: 3_000 })
      expect(await autoCloseIncident(patient.framework, integration.id)).toBe(false)
      const sight = await lookAtIncident(patient.framework, integration.id)
      expect(sight?.autoCloseInSeconds).toBe((2 ** 31 - 1 - 3_000) * DAY_SECONDS + 1)
    } finally {
      await patient.close()
    }
  })
})

describe('what its workflow has seen', () => {
  const rewoken = async () => {
    test.starts.followed.length = 0
    await rewakeIncidents(test.framework)
    return test.starts.followed.map(({ change }) => change)
  }

  it('the newest incident, with the seconds until it may close by itself', async () => {
    expect(await lookAtIncident(test.framework, integration.id)).toBeNull()
    await makeIncident(test, integration.id, {
      status: 'closed',
      openedAt: new Date(START.getTime() - 1),
      closedAt: START,
    })
    const { id } = await makeIncident(test, integration.id, { openedAt: START, peakSeverity: 'failing' })
    clock.advance(100)
    expect(await lookAtIncident(test.framework, integration.id)).toEqual({
      incidentId: id,
      status: 'open',
      source: 'health',
      reason: 'health_degraded',
      peakSeverity: 'failing',
      openedAt: START.toISOString(),
      lastErrorAt: null,
      closedAt: null,
      autoCloseInSeconds: 7 * DAY_SECONDS - 100 + 1,
    })
  })

  it('each change that it has not seen is told again, whatever the clocks say', async () => {
    await becomeLate()
    await evaluateStaleSyncs(test.framework)
    expect(await rewoken()).toEqual(['escalate'])
    await lookAtIncident(test.framework, integration.id)
    expect(await rewoken()).toEqual([])

    // A change whose stamp is older than the last look.
    clock.set(new Date(START.getTime() - 60_000))
    await integration.recordFailure('upstream')
    await setIntegration(test, integration.id, { healthStatus: 'failing', consecutiveFailures: 1_000 })
    await integration.recordFailure('upstream')
    expect(told.at(-1)).toBe('IncidentEscalated')
    expect(await rewoken()).toEqual(['escalate'])
    await lookAtIncident(test.framework, integration.id)

    // Disabled health is not asked whether it is stale.
    await test.integrations.enable(integration.id)
    await syncClean()
    await evaluateStaleSyncs(test.framework)
    expect(await incidents()).toMatchObject([{ status: 'closed' }])
    expect(await rewoken()).toEqual(['recovered'])
    await lookAtIncident(test.framework, integration.id)
    expect(await rewoken()).toEqual([])
  })

  it('one look sees all incidents that came since, closed ones too', async () => {
    for (let n = 0; n < 3; n += 1)
      await makeIncident(test, integration.id, { status: 'closed', openedAt: START, closedAt: START })
    expect(await rewoken()).toEqual(['recovered'])
    await lookAtIncident(test.framework, integration.id)
    expect(await rewoken()).toEqual([])
  })

  it('an open one that nothing has looked at for 26 hours has lost its workflow', async () => {
    await makeIncident(test, integration.id, { openedAt: START, updatedAt: START })
    await lookAtIncident(test.framework, integration.id)
    clock.advance({ hours: 26 })
    expect(await rewoken()).toEqual([])
    clock.advance(1)
    expect(await rewoken()).toEqual(['escalate'])
    await lookAtIncident(test.framework, integration.id)
    expect(await rewoken()).toEqual([])
  })

  it('looking changes nothing of the row but the note', async () => {
    await makeIncident(test, integration.id, { openedAt: START, updatedAt: START })
    await lookAtIncident(test.framework, integration.id)
    const rows = await test.sql`select updated_at, followed_at from integration_incidents`
    expect([...rows]).toEqual([{ updated_at: START, followed_at: START }])
  })
})

it('a thousand edges at once, each with its incident and its rows for those who are told later', async () => {
  const queued = testIntegrations(database.url, { clock, encryptionKeys, providers })
  const later: readonly EventName[] = ['SyncBecameStale', 'SyncStalenessRecovered', 'IncidentOpened', 'IncidentClosed']
  for (const name of later) queued.integrations.on(name, () => {}, { queued: true })
  try {
    await test.sql`
      insert into integrations (provider, name, credentials, last_synced_at)
      select 'acme', 'of a test', 'sealed', now() - interval '9 days' from generate_series(1, 1000)`
    const counted = async () => {
      const rows = await test.sql`
        select name, count(*)::int as rows, count(distinct integration_id)::int as integrations from integration_events
        group by name order by name`
      return Object.fromEntries(rows.map(({ name, rows: count, integrations }) => [name, [count, integrations]]))
    }
    expect((await evaluateStaleSyncs(queued.framework)).stale).toHaveLength(1_000)
    expect(await counted()).toEqual({ IncidentOpened: [1_000, 1_000], SyncBecameStale: [1_000, 1_000] })
    await test.sql`update integrations set last_synced_at = clock_timestamp() where sync_stale_alerted_at is not null`
    expect((await evaluateStaleSyncs(queued.framework)).recovered).toHaveLength(1_000)
    expect(await counted()).toEqual({
      IncidentClosed: [1_000, 1_000],
      IncidentOpened: [1_000, 1_000],
      SyncBecameStale: [1_000, 1_000],
      SyncStalenessRecovered: [1_000, 1_000],
    })
    const [row] = await test.sql`
      select count(*) filter (where status = 'closed')::int as closed, count(*)::int as total from integration_incidents`
    expect(row).toEqual({ closed: 1_000, total: 1_000 })
    const [event] = await test.sql`
      select payload from integration_events where name = 'IncidentClosed' order by id limit 1`
    expect(event?.payload).toMatchObject({ incident: { status: 'closed', source: 'sync', reason: 'sync_stale' } })
  } finally {
    await queued.close()
  }
})
