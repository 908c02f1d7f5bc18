/** Webhooks as they are listed, got by code, and shown to people. */
import { and, asc, desc } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { newestSince } from '../../src/db/integrations-of.ts'
import type { WebhookRow } from '../../src/db/schema/tables.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { selected } from '../../src/webhooks/list.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { SECRET, TOKEN, webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook, setIntegration } from '../support/rows.ts'

const AT = new Date('2031-06-01T12:00:00.000Z')
const BEFORE = new Date('2031-06-01T11:59:59.999Z')

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider(), other: webhookProvider() } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

type Filter = Parameters<TestIntegrations['integrations']['webhooks']['list']>[0]

async function listed(filter?: Filter) {
  const rows = []
  for await (const row of test.integrations.webhooks.list(filter)) rows.push(row)
  return rows
}

describe('the list', () => {
  let rows: WebhookRow[]
  let ours: Integration

  beforeAll(async () => {
    ours = await makeIntegration(test, 'acme', { owner: { type: 'team', id: 7 } })
    const theirs = await makeIntegration(test, 'other', { owner: { type: 'team', id: 8 } })
    rows = [
      await makeWebhook(test, ours.id, { createdAt: BEFORE, eventType: 'issues' }),
      await makeWebhook(test, ours.id, { createdAt: AT, status: 'processing', attempts: 1, claim: 'run:1' }),
      await makeWebhook(test, theirs.id, { createdAt: AT, status: 'processed', attempts: 1, eventType: 'issues' }),
      await makeWebhook(test, theirs.id, { createdAt: AT, status: 'failed', attempts: 2, error: 'Error: no' }),
    ]
  })

  it('has every column but what was delivered', async () => {
    const [newest] = await listed()
    const { payload: _payload, headers: _headers, ...columns } = rows[3] as WebhookRow
    expect(newest).toEqual({ ...columns, provider: 'other', integrationName: 'of a test', hasPayload: true })
  })

  it.each<[string, () => Filter, readonly number[]]>([
    ['all, newest first', () => ({}), [3, 2, 1, 0]],
    ['those of an integration', () => ({ integration: ours.id }), [1, 0]],
    ['those of a provider', () => ({ provider: 'other' }), [3, 2]],
    ['those of an owner', () => ({ owner: { type: 'team', id: 7 } }), [1, 0]],
    ['pending ones', () => ({ status: 'pending' }), [0]],
    ['processing ones', () => ({ status: 'processing' }), [1]],
    ['processed ones', () => ({ status: 'processed' }), [2]],
    ['failed ones', () => ({ status: 'failed' }), [3]],
    ['those of an event type', () => ({ event: 'issues' }), [2, 0]],
    ['since, this moment included', () => ({ since: AT }), [3, 2, 1]],
    ['until, this moment excluded', () => ({ until: AT }), [0]],
    ['what several filters leave', () => ({ provider: 'acme', event: 'issues', until: AT }), [0]],
    ['no more than the limit', () => ({ limit: 2 }), [3, 2]],
    ['ids below the one given', () => ({ after: rows[2]?.id }), [1, 0]],
    ['none of a provider that nobody has', () => ({ provider: 'constructor' }), []],
    ['none of an integration that is not there', () => ({ integration: 999_999 }), []],
  ])('gives %s', async (_, filter, expected) => {
    expect((await listed(filter())).map(({ id }) => id)).toEqual(expected.map((index) => rows[index]?.id))
  })

  it('goes on page by page over any number', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers)
      select ${id}, n, '{}', '{}' from generate_series(1, 201) n`
    for (const [limit, expected] of [
      [1_000, 201],
      [200, 200],
      [101, 101],
    ] as const) {
      const found = await listed({ integration: id, limit })
      expect(found).toHaveLength(expected)
      expect(found.map(({ deliveryId }) => Number(deliveryId))).toEqual(
        Array.from({ length: expected }, (_, index) => 201 - index),
      )
    }
    await test.integrations.delete(id)
  })

  it.each<[string, Filter, string]>([
    [
      'another status',
      { status: 'lost' as never },
      'pending, processing, processed, failed are allowed, lost was given',
    ],
    ['a limit of 0', { limit: 0 }, '0 was given'],
    ['a fraction of an id', { after: 1.5 }, '1.5 was given'],
    ['an integration that can be none', { integration: -1 }, '-1 was given'],
    ['half an owner', { owner: { type: 'team' } as never }, 'owner'],
    ['a provider with U+0000', { provider: 'a\u0000' }, 'without U+0000'],
    ['a text for a moment', { since: '2031' as never }, '2031 was given'],
    ['an end before its beginning', { since: AT, until: new Date(0) }, AT.toISOString()],
  ])('refuses %s before it asks anything', (_, filter, said) => {
    expect(() => test.integrations.webhooks.list(filter)).toThrow(said)
  })
})

describe('a list by event type, of all integrations', () => {
  it('goes back a day, unless told otherwise, and to any that failed or wait', async () => {
    const [{ id: one }, { id: other }] = [await makeIntegration(test, 'acme'), await makeIntegration(test, 'other')]
    const ago = (hours: number): Date => new Date(Date.now() - hours * 3_600_000)
    const made = (of: number, hours: number, status: WebhookRow['status'] = 'processed') =>
      makeWebhook(test, of, { createdAt: ago(hours), eventType: 'rare', status })
    const failed = await made(one, 60, 'failed')
    const old = await made(one, 30)
    const young = await made(other, 20)
    const idsOf = async (filter: Filter) => (await listed({ event: 'rare', ...filter })).map(({ id }) => id)
    expect(await idsOf({})).toEqual([young.id])
    expect(await idsOf({ status: 'processed' })).toEqual([young.id])
    expect(await idsOf({ provider: 'acme' })).toEqual([])
    expect(await idsOf({ until: ago(28) })).toEqual([old.id])
    expect(await idsOf({ since: ago(31) })).toEqual([young.id, old.id])
    expect(await idsOf({ integration: one })).toEqual([old.id, failed.id])
    expect(await idsOf({ status: 'failed' })).toEqual([failed.id])
    expect(await idsOf({ until: new Date(0) })).toEqual([])
  })

  it('ends where its period begins, with room for rows that were written side by side', async () => {
    const { id } = await makeIntegration(test, 'acme')
    const made = (at: number, createdAt: string) => makeWebhook(test, id, { id: at, createdAt: new Date(createdAt) })
    await made(50_001, '2040-05-31T23:59:59.900Z')
    const [late, first] = [await made(50_000, '2040-06-01T00:00:00.100Z'), await made(50_002, '2040-06-01T00:00:01Z')]
    const { db, tables } = test.framework
    const ends = async (since?: string) => {
      const asked: (number | undefined)[] = []
      const none = (_: unknown, from: number | undefined) => {
        asked.push(from)
        return Promise.resolve([])
      }
      const moment = since === undefined ? undefined : new Date(since)
      await newestSince({ db, tables }, tables.webhooks, moment, {}, none).next()
      return asked
    }
    expect(await ends('2040-06-01T00:00:00Z')).toEqual([40_000])
    expect(await ends('2041-01-01T00:00:00Z')).toEqual([])
    expect(await ends()).toEqual([undefined])
    expect((await listed({ since: new Date('2040-06-01T00:00:00Z') })).map((row) => row.id)).toEqual([
      first.id,
      late.id,
    ])
    await test.integrations.delete(id)
  })
})

describe('a list of dismissed ones', () => {
  it('is found by an index, however many webhooks there are', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers, status)
      select ${id}, n, '{}', '{}', case when n % 500 = 0 then 'failed' else 'processed' end
      from generate_series(1, 20000) n`
    await test.sql`analyze integration_webhooks`
    const { db, tables } = test.framework
    const query = db
      .select({ id: tables.webhooks.id })
      .from(tables.webhooks)
      .where(and(...selected(tables, { dismissed: true })))
      .orderBy(desc(tables.webhooks.id))
      .limit(50)
    const { sql: text, params } = query.toSQL()
    const rows = await test.sql.unsafe(`explain (analyze, timing off) ${text}`, params as never[])
    const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n')
    expect(plan).not.toContain('Seq Scan')
    const dropped = [...plan.matchAll(/Rows Removed by Filter: (\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0)
    expect(dropped).toBeLessThan(100)
    await test.integrations.delete(id)
  })
})

describe('failed ones of all integrations', () => {
  it.each([
    ['listed newest first, where they are the oldest', 'desc', 'n <= 1000'],
    ['changed lowest id first, where they are the newest', 'asc', 'n > 19000'],
  ] as const)('are %s: nothing beside them is read', async (_, order, failed) => {
    const { id } = await makeIntegration(test, 'acme')
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers, status, attempts, processed_at)
      select ${id}, n, '{}', '{}', case when ${test.sql.unsafe(failed)} then 'failed' else 'processed' end, 1, now()
      from generate_series(1, 20000) n order by n`
    await test.sql`analyze integration_webhooks`
    const { db, tables } = test.framework
    const query = db
      .select({ id: tables.webhooks.id })
      .from(tables.webhooks)
      .where(and(...selected(tables, { status: 'failed' })))
      .orderBy(order === 'desc' ? desc(tables.webhooks.id) : asc(tables.webhooks.id))
      .limit(50)
    const { sql: text, params } = query.toSQL()
    const rows = await test.sql.unsafe(`explain (analyze, timing off) ${text}`, params as never[])
    const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n')
    expect(plan).not.toContain('Sort')
    expect(plan).not.toContain('Rows Removed by Filter')
    await test.integrations.delete(id)
  })
})

describe('one webhook', () => {
  let integration: Integration

  beforeEach(async () => {
    integration = await makeIntegration(test, 'acme')
  })

  it('is, for code, what was delivered, byte by byte', async () => {
    const payload = `{ "token":  "${TOKEN}" }`
    const row = await makeWebhook(test, integration.id, { payload, headers: { 'x-token': [TOKEN] } })
    expect(await test.integrations.webhooks.get(row.id)).toEqual({
      ...row,
      provider: 'acme',
      integrationName: 'of a test',
      hasPayload: true,
      encoding: 'text',
    })
  })

  it('says when the payload is in base64', async () => {
    const { id } = await makeWebhook(test, integration.id, { payload: '/wA=', headers: { ':encoding': ['base64'] } })
    expect(await test.integrations.webhooks.get(id)).toMatchObject({ payload: '/wA=', encoding: 'base64' })
    expect(await test.integrations.admin.operator.webhook(id)).toMatchObject({
      payload: '/wA=',
      encoding: 'base64',
      headers: { ':encoding': ['base64'] },
    })
  })

  it('is shown to people without what the credentials hold, wherever it stands', async () => {
    const { id } = await makeWebhook(test, integration.id, {
      payload: `{"sent":"${SECRET}","access_token":"of somebody else","kept": 1}`,
      headers: { 'x-gitlab-token': [SECRET, 'other'], ':query': [`token=${encodeURIComponent(TOKEN)}&a=1`] },
    })
    const shown = await test.integrations.admin.operator.webhook(id)
    expect(shown.headers).toEqual({ 'x-gitlab-token': ['[REDACTED]', 'other'], ':query': ['token=[REDACTED]&a=1'] })
    expect(shown.payload).toBe('{"sent":"[REDACTED]","access_token":"[REDACTED]","kept": 1}')
  })

  it('is shown without them in bytes that are no text, too', async () => {
    const bytes = Buffer.concat([Buffer.from([0xff, 0]), Buffer.from(SECRET), Buffer.from([0xfe])])
    const { id } = await makeWebhook(test, integration.id, {
      payload: bytes.toString('base64'),
      headers: { ':encoding': ['base64'] },
    })
    const { payload } = await test.integrations.admin.operator.webhook(id)
    expect(Buffer.from(payload, 'base64')).toEqual(
      Buffer.concat([Buffer.from([0xff, 0]), Buffer.from('[REDACTED]'), Buffer.from([0xfe])]),
    )
  })

  it('is shown when it is as large as it may be, and holds a secret again and again', async () => {
    // Beside an escape, each of 125,000 finds was once compared with all others, and then was too many.
    const short = await makeIntegration(test, integration.provider, { credentials: { token: '1234567X' } })
    const { id } = await makeWebhook(test, short.id, { payload: `"\\u0041${'1234567X'.repeat(130_000)}"` })
    const { payload } = await test.integrations.admin.operator.webhook(id)
    expect(payload === `"\\u0041${'[REDACTED]'.repeat(130_000)}"`).toBe(true)
  })

  it('of an integration whose credentials can not be read shows nothing that was delivered', async () => {
    const { id } = await makeWebhook(test, integration.id, { payload: SECRET, headers: { 'x-a': [SECRET, 'b'] } })
    await setIntegration(test, integration.id, { credentials: 'plain' })
    expect(await test.integrations.admin.operator.webhook(id)).toMatchObject({
      id,
      status: 'pending',
      payload: '[REDACTED]',
      headers: { 'x-a': ['[REDACTED]', '[REDACTED]'] },
    })
  })

  it.each([999_999, 0, -1, 1.5, 2 ** 53])('of the id %s is not there', async (id) => {
    await expect(test.integrations.webhooks.get(id)).rejects.toMatchObject({ code: 'webhook_not_found' })
    await expect(test.integrations.admin.operator.webhook(id)).rejects.toMatchObject({ code: 'webhook_not_found' })
  })
})
