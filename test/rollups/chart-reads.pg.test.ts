/** What charts are read from: marks, plans, and what is refused. */
import type { SQL } from 'drizzle-orm'
import { PgDialect } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Transaction } from '../../src/db/client.ts'
import { noteRelease, releases } from '../../src/rollups/releases.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const DAY_MS = 86_400_000
const INTEGRATIONS = 300
const CALLS = 200_000
const WEBHOOKS = 60_000

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider(), other: webhookProvider() } })
  await test.sql.unsafe(`
    insert into integrations (provider, name, credentials, owner_type, owner_id)
    select case when n % 2 = 0 then 'acme' else 'other' end, 'n' || n, 'none', 'team', n from generate_series(1, ${INTEGRATIONS}) n;
    insert into integration_requests (integration_id, endpoint, method, duration_ms, failure_class, created_at)
    select 1 + n % ${INTEGRATIONS}, '/', 'GET', n % 900, case when n % 20 = 0 then 'upstream' end, now() - interval '30 days' * (n::float8 / ${CALLS})
    from generate_series(0, ${CALLS - 1}) n;
    insert into integration_webhooks (integration_id, delivery_id, payload, headers, status, processed_at, created_at, updated_at)
    select 1 + n % ${INTEGRATIONS}, 'd' || n, '{}', '{}', 'processed', at, at, at
    from generate_series(0, ${WEBHOOKS - 1}) n, lateral (select now() - interval '30 days' * (1 - n::float8 / ${WEBHOOKS}) as at) moment;
    insert into integration_sync_items (integration_id, event_class, status, completed_at, created_at)
    select 1 + n % ${INTEGRATIONS}, 'thing', case when n % 50 = 0 then 'failed' else 'success' end, at, at
    from generate_series(0, ${WEBHOOKS - 1}) n, lateral (select now() - interval '30 days' * (1 - n::float8 / ${WEBHOOKS}) as at) moment`)
  for (let isDone = false; !isDone; ) isDone = (await test.integrations.admin.charts.rollUp()).kind === 'done'
  await test.sql`vacuum analyze`
}, 300_000)

afterAll(async () => {
  await test.close()
  await database.drop()
})

/** The tables that the statements of `work` read as a whole, by their plans. */
async function wholeTables(work: () => Promise<unknown>): Promise<string[]> {
  const executed: SQL[] = []
  const { db } = test.framework
  const recording = (execute: (statement: SQL) => unknown) => (statement: SQL) => {
    executed.push(statement)
    return execute(statement)
  }
  const [execute, transaction] = [db.execute.bind(db), db.transaction.bind(db)]
  const spies = [
    vi.spyOn(db, 'execute').mockImplementation(recording(execute as never) as never),
    vi.spyOn(db, 'transaction').mockImplementation(((inside: (tx: Transaction) => Promise<unknown>) =>
      transaction((tx) => {
        tx.execute = recording(tx.execute.bind(tx) as never) as never
        return inside(tx)
      })) as never),
  ]
  try {
    await work()
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
  const read: string[] = []
  for (const statement of executed) {
    const { sql, params } = new PgDialect().sqlToQuery(statement)
    const [plan] = await test.sql.unsafe(`explain (format json) ${sql}`, params as never[])
    for (const [, table] of JSON.stringify(plan).matchAll(/"Seq Scan"[^{}]*?"Relation Name":"([^"]+)"/g))
      read.push(table ?? '')
  }
  expect(executed.length).toBeGreaterThan(0)
  return [...new Set(read)]
}

describe('the plans of charts', () => {
  const { charts } = { charts: () => test.integrations.admin.charts }
  const large = ['integration_requests', 'integration_webhooks', 'integration_sync_items', 'integration_rollups']

  it.each<[string, () => Promise<unknown>]>([
    ['a window of an hour', () => charts().series({ window: '1h' })],
    ['a window of a day', () => charts().series({ window: '24h' })],
    ['a window of a week', () => charts().series({ window: '7d' })],
    ['a window of a month', () => charts().series({ window: '30d' })],
    ['a month of a provider', () => charts().series({ window: '30d', provider: 'acme' })],
    ['a month of an integration', () => charts().series({ window: '30d', integrationId: 7 })],
    ['a week of an owner', () => charts().series({ window: '7d', owner: { type: 'team', id: 7 } })],
    ['the busiest of a day', () => charts().busiest({ window: '24h', by: 'calls' })],
    ['the busiest of a month', () => charts().busiest({ window: '30d', by: 'failures' })],
    ['the busiest of a month by either', () => charts().busiest({ window: '30d', by: 'either' })],
    ['sparklines', () => charts().sparklines(Array.from({ length: 200 }, (_, n) => n + 1))],
    ['marks of a provider', () => charts().marks({ from: new Date(0), to: new Date(), provider: 'acme' })],
    ['marks', () => charts().marks({ from: new Date(Date.now() - 30 * DAY_MS), to: new Date() })],
  ])('reads no large table as a whole for %s', async (_, work) => {
    const whole = await wholeTables(work)
    expect(whole.filter((table) => large.includes(table))).toEqual([])
  })

  it('counts a minute without reading a large table as a whole', async () => {
    await test.sql`update integration_cache set value = jsonb_set(value, '{rolledMs}', to_jsonb((value ->> 'rolledMs')::bigint - 60000)) where key like '%:rollups'`
    const whole = await wholeTables(() => test.integrations.admin.charts.rollUp())
    expect(whole.filter((table) => large.includes(table))).toEqual([])
  })
})

describe('marks', () => {
  it('names incidents, circuits, key rotations and deployments of the time, oldest first, and no others', async () => {
    const owner = { type: 'shop', id: 1 }
    const { id } = await makeIntegration(test, 'acme', { owner })
    const other = await makeIntegration(test, 'other')
    const at = (minutes: number) => new Date(Date.UTC(2026, 0, 1, 10, minutes))
    const iso = (minutes: number) => at(minutes).toISOString()
    await test.sql.unsafe(`
      insert into integration_incidents (integration_id, status, source, reason, peak_severity, opened_at, closed_at) values
        (${id}, 'closed', 'health', 'health_degraded', 'degraded', '${iso(1)}', '${iso(5)}'),
        (${id}, 'closed', 'circuit', 'threshold_reached', 'failing', '${iso(10)}', '${iso(70)}'),
        (${other.id}, 'closed', 'sync', 'sync_stale', 'degraded', '${iso(12)}', '${iso(13)}');
      insert into integration_audit (actor, action, target, integration_id, provider, owner_type, owner_id, created_at) values
        ('ada', 'rotate-webhook-secret', 'integration:${id}', ${id}, 'acme', 'shop', 1, '${iso(20)}'),
        ('ada', 'keys rotate', 'keys', null, null, null, null, '${iso(21)}'),
        ('ada', 'replay', 'webhook:1', ${id}, 'acme', 'shop', 1, '${iso(22)}')`)
    const cached = JSON.stringify([
      { release: '1.4.0', at: at(30) },
      { release: '1.5.0', at: at(90) },
    ])
    await test.sql.unsafe(`insert into integration_cache (key, value) values ('integrations:releases', '${cached}')`)
    const marksOf = async (filter: object) =>
      (await test.integrations.admin.charts.marks({ from: at(0), to: at(60), ...filter })).map(
        ({ at: when, kind, text }) => `${(when.getTime() - at(0).getTime()) / 60_000} ${kind}: ${text}`,
      )
    const mine = [
      '1 incident opened: health_degraded',
      '5 incident closed: health_degraded',
      '10 circuit opened: threshold_reached',
      `20 webhook secret rotation: integration:${id}`,
      '21 key rotation: keys',
      '30 deployment: 1.4.0',
    ]
    expect(await marksOf({ integrationId: id })).toEqual(mine)
    expect(await marksOf({ owner })).toEqual(mine)
    expect(await marksOf({ provider: 'acme' })).toEqual(mine)
    expect(await marksOf({})).toEqual([
      ...mine.slice(0, 3),
      '12 incident opened: sync_stale',
      '13 incident closed: sync_stale',
      ...mine.slice(3),
    ])
    await test.sql`delete from integration_cache where key = 'integrations:releases'`
  })

  it('of a provider, an owner or a time are not hidden by newer incidents of others, however many', async () => {
    const owner = { type: 'shop', id: 2 }
    const { id } = await makeIntegration(test, 'acme', { owner })
    const other = await makeIntegration(test, 'other')
    const from = new Date('2025-03-01T00:00:00Z')
    const to = new Date('2025-04-01T00:00:00Z')
    await test.sql.unsafe(`
      insert into integration_incidents (integration_id, status, source, reason, peak_severity, opened_at, closed_at)
      select ${id}, 'closed', 'circuit', 'threshold_reached', 'failing', '2025-02-20T00:00:00Z'::timestamptz, '2025-03-02T00:00:00Z'::timestamptz
      union all
      select ${id}, 'open', 'health', 'health_failing', 'failing', '2025-03-03T00:00:00Z', null
      union all
      select ${other.id}, 'closed', 'sync', 'sync_stale', 'failing', '2025-03-04T00:00:00Z', '2025-03-05T00:00:00Z'
      from generate_series(1, 1001)`)
    for (const filter of [{ provider: 'acme' }, { owner }, { provider: 'acme', owner, integrationId: id }])
      expect((await test.integrations.admin.charts.marks({ from, to, ...filter })).map(({ kind }) => kind)).toEqual([
        'incident closed',
        'incident opened',
      ])
    const before = new Date('2025-03-03T12:00:00Z')
    const ofAll = await test.integrations.admin.charts.marks({ from, to: before })
    expect(ofAll.map(({ kind }) => kind)).toEqual(['incident closed', 'incident opened'])
    await test.sql`delete from integrations where id in (${id}, ${other.id})`
  })

  it('has a deployment for each change of the release, not for each worker', async () => {
    const ofRelease = (release: string) => ({
      ...test.framework,
      config: { ...test.framework.config, worker: { ...test.framework.config.worker, release } },
    })
    for (const release of ['a', 'a', 'b', 'b', 'a']) await noteRelease(ofRelease(release))
    expect((await releases(test.framework)).map(({ release }) => release)).toEqual(['a', 'b', 'a'])
    for (let n = 0; n < 120; n += 1) await noteRelease(ofRelease(`r${n}`))
    const kept = await releases(test.framework)
    expect(kept).toHaveLength(100)
    expect([kept[0]?.release, kept.at(-1)?.release]).toEqual(['r20', 'r119'])
  })
})

describe('what charts refuse', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['window', () => test.integrations.admin.charts.series({ window: '2h' as never })],
    ['integrationId', () => test.integrations.admin.charts.series({ window: '1h', integrationId: 0 })],
    ['provider', () => test.integrations.admin.charts.series({ window: '1h', provider: 'a\u0000' })],
    ['owner', () => test.integrations.admin.charts.series({ window: '1h', owner: null as never })],
    ['by', () => test.integrations.admin.charts.busiest({ window: '1h', by: 'webhooks' as never })],
    ['integrationIds', () => test.integrations.admin.charts.sparklines(Array.from({ length: 201 }, (_, n) => n + 1))],
    ['integrationIds[0]', () => test.integrations.admin.charts.sparklines([0.5])],
    ['until', () => test.integrations.admin.charts.marks({ from: new Date(2), to: new Date(1) })],
  ])('refuses a bad %s', async (argument, ask) => {
    await expect(ask()).rejects.toMatchObject({ code: 'invalid_argument', argument })
  })
})
