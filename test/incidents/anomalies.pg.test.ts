/** Which integrations fail too often, and that each edge is noted, written down and told once. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import { evaluateFailureRates } from '../../src/incidents/anomalies.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {} } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  test.lines.length = 0
})

interface Calls {
  readonly count: number
  readonly failed?: FailureClass
  readonly error?: string
  readonly minutesAgo?: number
}

async function calls(id: number, { count, failed, error, minutesAgo = 1 }: Calls): Promise<void> {
  await test.sql`
    insert into integration_requests (integration_id, endpoint, method, failure_class, error, created_at)
    select ${id}, 'users', 'GET', ${failed ?? null}, ${error ?? (failed === undefined ? null : 'Error: away')},
           clock_timestamp() - make_interval(secs => ${minutesAgo * 60}::float8)
    from generate_series(1, ${count}::int)`
}

/** Of 40 requests 10 have failed: the default threshold, twice the default minimum. */
async function failing(): Promise<number> {
  const { id } = await makeIntegration(test, 'plain')
  await calls(id, { count: 30 })
  await calls(id, { count: 10, failed: 'upstream' })
  return id
}

async function isMarked(id: number): Promise<boolean> {
  const [row] = await test.sql`select anomaly_alerted_at is not null as marked from integrations where id = ${id}`
  return row?.marked as boolean
}

const eventRows = () => test.sql`select integration_id::int, name, payload from integration_events order by id`
const marked = { anomalyAlertedAt: new Date('2031-01-01') }
const NOTHING_NEW = { enabled: true, elevated: [], recovered: [] }

describe('an integration becomes elevated', () => {
  it.each<[string, Calls[], boolean]>([
    ['at rate and minimum', [{ count: 15 }, { count: 5, failed: 'upstream' }], true],
    ['below the rate', [{ count: 16 }, { count: 5, failed: 'upstream' }], false],
    ['below the minimum', [{ count: 19, failed: 'upstream' }], false],
    [
      'with failures of all classes',
      [
        { count: 15 },
        { count: 2, failed: 'throttle' },
        { count: 1, failed: 'client' },
        { count: 1, failed: 'unknown' },
        { count: 1, failed: 'upstream' },
      ],
      true,
    ],
    ['with errors that have no class', [{ count: 15 }, { count: 5, error: 'Error: written by hand' }], true],
    ['with failures just inside the window', [{ count: 20, failed: 'client', minutesAgo: 14.9 }], true],
    ['with failures just outside of it', [{ count: 20, failed: 'client', minutesAgo: 15.1 }], false],
    [
      'of failures that are drowned by older successes',
      [
        { count: 20, failed: 'client' },
        { count: 99, minutesAgo: 16 },
      ],
      true,
    ],
  ])('%s: %j -> %s', async (_, rows, isElevated) => {
    const { id } = await makeIntegration(test, 'plain')
    for (const each of rows) await calls(id, each)
    const { elevated, checked } = await evaluateFailureRates(test.framework)
    expect([elevated.map(({ integrationId }) => integrationId), checked]).toEqual([isElevated ? [id] : [], 1])
    expect(await isMarked(id)).toBe(isElevated)
  })

  it('never while it is switched off', async () => {
    const id = await failing()
    await setIntegration(test, id, { isActive: false })
    expect(await evaluateFailureRates(test.framework)).toEqual({ ...NOTHING_NEW, checked: 0 })
    expect(await isMarked(id)).toBe(false)
  })

  it('by its own requests only', async () => {
    const id = await failing()
    const { id: other } = await makeIntegration(test, 'plain')
    await calls(other, { count: 1_000 })
    expect(await evaluateFailureRates(test.framework)).toEqual({
      enabled: true,
      checked: 2,
      elevated: [{ integrationId: id, failureRate: 25, requests: 40, dominantClass: 'upstream' }],
      recovered: [],
    })
  })

  it('and its listeners are told once, with the figures; its incident is not opened', async () => {
    const told = vi.fn()
    listen(test, 'ElevatedFailureRate', told)
    const id = await failing()
    await calls(id, { count: 5, failed: 'throttle' })
    await evaluateFailureRates(test.framework)
    expect(await evaluateFailureRates(test.framework)).toEqual({ ...NOTHING_NEW, checked: 1 })
    expect(told.mock.calls).toEqual([
      [
        {
          integration: expect.objectContaining({ id }),
          failureRate: 1_500 / 45,
          windowMinutes: 15,
          observedRequests: 45,
          dominantClass: 'upstream',
        },
      ],
    ])
    expect(test.lines.filter(({ fields }) => fields.event === 'failure_rate.elevated')).toMatchObject([
      { level: 'warn', fields: { integration: id, failure_rate: 33.3, requests: 45, dominant_class: 'upstream' } },
    ])
    expect(await test.sql`select * from integration_incidents`).toEqual([])
  })
})

describe('a marked integration', () => {
  it.each<[string, Calls[], boolean]>([
    ['that goes on failing', [{ count: 20, failed: 'upstream' }], false],
    ['whose rate has fallen', [{ count: 80 }, { count: 20, failed: 'upstream' }], true],
    ['that makes too few requests, all of which fail', [{ count: 19, failed: 'upstream' }], true],
    ['that makes none', [], true],
  ])('%s: %j -> recovered %s', async (_, rows, recovers) => {
    const told = vi.fn()
    listen(test, 'FailureRateRecovered', told)
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, marked)
    for (const each of rows) await calls(id, each)
    expect((await evaluateFailureRates(test.framework)).recovered).toEqual(recovers ? [id] : [])
    expect(await evaluateFailureRates(test.framework)).toEqual({ ...NOTHING_NEW, checked: 1 })
    expect(told.mock.calls).toEqual(recovers ? [[{ integration: expect.objectContaining({ id }) }]] : [])
    expect(await isMarked(id)).toBe(!recovers)
  })

  it('keeps its marker while it is switched off', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { ...marked, isActive: false })
    expect(await evaluateFailureRates(test.framework)).toEqual({ ...NOTHING_NEW, checked: 0 })
    expect(await isMarked(id)).toBe(true)
  })
})

describe('for those who are told later', () => {
  it('a row is written with each edge, and none without anybody to tell', async () => {
    const id = await failing()
    await evaluateFailureRates(test.framework)
    await test.sql`delete from integration_requests`
    await evaluateFailureRates(test.framework)
    expect(await eventRows()).toEqual([])

    for (const name of ['ElevatedFailureRate', 'FailureRateRecovered'] as const)
      listen(test, name, () => {}, { queued: true })
    await calls(id, { count: 40, failed: 'client' })
    await evaluateFailureRates(test.framework)
    await evaluateFailureRates(test.framework)
    await test.sql`delete from integration_requests`
    await evaluateFailureRates(test.framework)
    await evaluateFailureRates(test.framework)
    expect(await eventRows()).toEqual([
      {
        integration_id: id,
        name: 'ElevatedFailureRate',
        payload: { failureRate: 100, windowMinutes: 15, observedRequests: 40, dominantClass: 'client' },
      },
      { integration_id: id, name: 'FailureRateRecovered', payload: {} },
    ])
  })

  it('no marker is set where the row can not be written, and nobody is told', async () => {
    const told = vi.fn()
    listen(test, 'ElevatedFailureRate', told)
    listen(test, 'ElevatedFailureRate', () => {}, { queued: true })
    const id = await failing()
    await test.sql`alter table integration_events rename to events_elsewhere`
    onTestFinished(async () => {
      await test.sql`alter table if exists events_elsewhere rename to integration_events`
    })
    await expect(evaluateFailureRates(test.framework)).rejects.toThrow(/integration_events/)
    expect([await isMarked(id), told.mock.calls.length]).toEqual([false, 0])
    await test.sql`alter table events_elsewhere rename to integration_events`
    expect((await evaluateFailureRates(test.framework)).elevated).toHaveLength(1)
    expect([await isMarked(id), told.mock.calls.length, (await eventRows()).length]).toEqual([true, 1, 1])
  })

  it('no row is there where the marker can not be set', async () => {
    const told = vi.fn()
    listen(test, 'ElevatedFailureRate', told)
    listen(test, 'ElevatedFailureRate', () => {}, { queued: true })
    const id = await failing()
    await test.sql`
      create function refuse_commit() returns trigger language plpgsql as $$ begin raise exception 'not today'; end $$`
    onTestFinished(async () => {
      await test.sql`drop function refuse_commit cascade`
    })
    await test.sql`
      create constraint trigger refuse_commit after update on integrations deferrable initially deferred
      for each row execute function refuse_commit()`
    await expect(evaluateFailureRates(test.framework)).rejects.toThrow('not today')
    expect([await isMarked(id), told.mock.calls.length, await eventRows()]).toEqual([false, 0, []])
  })
})

it('is a no-op where it is switched off: markers stay', async () => {
  const off = testIntegrations(database.url, {
    providers: { plain: {} },
    config: { observability: { anomaly_enabled: false } },
  })
  onTestFinished(() => off.close())
  const [fails, isWell] = [await failing(), (await makeIntegration(test, 'plain')).id]
  await setIntegration(test, isWell, marked)
  expect(await evaluateFailureRates(off.framework)).toEqual({ ...NOTHING_NEW, enabled: false, checked: 0 })
  expect([await isMarked(fails), await isMarked(isWell)]).toEqual([false, true])
})

it('judges the window by the clock that dates the requests', async () => {
  let now = new Date('2031-06-01T12:00:00Z')
  const later = testIntegrations(database.url, { providers: { plain: {} }, clock: { now: () => now } })
  onTestFinished(() => later.close())
  const integration = await makeIntegration(later, 'plain')
  const refused = () => new Response('', { status: 404 })
  for (let n = 0; n < 20; n += 1) await expect(integration.request('users', 'GET', refused)).rejects.toThrow()
  now = new Date('2031-06-01T12:15:00Z')
  expect((await evaluateFailureRates(later.framework)).elevated).toMatchObject([
    { requests: 20, dominantClass: 'client' },
  ])
  now = new Date('2031-06-01T12:15:00.001Z')
  expect((await evaluateFailureRates(later.framework)).recovered).toEqual([integration.id])
})

/** Half of them fail, half are marked and well. */
async function makeEdges(count: number): Promise<void> {
  await test.sql`
    insert into integrations (provider, name, credentials, anomaly_alerted_at)
    select 'plain', 'of a test', 'sealed', case when n % 2 = 1 then now() end from generate_series(1, ${count}::int) n`
  await test.sql`
    insert into integration_requests (integration_id, endpoint, method, failure_class, error)
    select id, 'users', 'GET', 'upstream', 'Error: away' from integrations, generate_series(1, 20)
    where anomaly_alerted_at is null`
}

it('two evaluations at once note, write down and tell each edge once', async () => {
  const [rose, fell] = [vi.fn(), vi.fn()]
  listen(test, 'ElevatedFailureRate', rose)
  listen(test, 'FailureRateRecovered', fell)
  listen(test, 'ElevatedFailureRate', () => {}, { queued: true })
  await makeEdges(60)
  const results = await Promise.all(Array.from({ length: 4 }, () => evaluateFailureRates(test.framework)))
  // Rows that a neighbour held were left to the next evaluation.
  results.push(await evaluateFailureRates(test.framework))
  expect(results.flatMap(({ elevated }) => elevated)).toHaveLength(30)
  expect(results.flatMap(({ recovered }) => recovered)).toHaveLength(30)
  expect([rose.mock.calls.length, fell.mock.calls.length, (await eventRows()).length]).toEqual([30, 30, 30])
})

it('takes a thousand of either edge at a time, the rest with the next evaluation', async () => {
  listen(test, 'ElevatedFailureRate', () => {}, { queued: true })
  await makeEdges(2_200)
  const edges = async () => {
    const { elevated, recovered } = await evaluateFailureRates(test.framework)
    return [elevated.length, recovered.length]
  }
  expect([await edges(), await edges(), await edges()]).toEqual([
    [1_000, 1_000],
    [100, 100],
    [0, 0],
  ])
  expect((await eventRows()).length).toBe(1_100)
})

it('leaves a row that somebody holds to the next evaluation', async () => {
  const id = await failing()
  await test.sql.begin(async (holder) => {
    await holder`select from integrations where id = ${id} for update`
    expect(await evaluateFailureRates(test.framework)).toEqual({ ...NOTHING_NEW, checked: 1 })
  })
  expect((await evaluateFailureRates(test.framework)).elevated).toHaveLength(1)
})
