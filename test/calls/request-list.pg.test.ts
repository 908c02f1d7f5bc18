/** The request log as it is listed and shown. Rule: docs/behaviour/requests.md, "Looking". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ListRequests } from '../../src/calls/request-list.ts'
import { pageOfRequests } from '../../src/calls/request-list.ts'
import type { Tables } from '../../src/db/schema/tables.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { rowsOfNode } from '../support/plans.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const OWNER = { type: 'team', id: 7 }
const HOUR_MS = 3_600_000

let database: TestDatabase
let test: TestIntegrations
let ours: Integration
let others: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider(), other: webhookProvider() } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  ours = await makeIntegration(test, 'acme', { name: 'ours', owner: OWNER })
  others = await makeIntegration(test, 'other')
})

async function made(integrationId: number, values: Partial<Tables['requests']['$inferInsert']> = {}): Promise<number> {
  const { db, tables } = test.framework
  const [row] = await db
    .insert(tables.requests)
    .values({ integrationId, endpoint: '/v1/things', method: 'GET', statusCode: 200, ...values })
    .returning()
  return row?.id as number
}

async function idsOf(filter: ListRequests = {}): Promise<number[]> {
  const ids: number[] = []
  for await (const { id } of test.integrations.admin.requests.list(filter)) ids.push(id)
  return ids
}

const hoursAgo = (hours: number) => new Date(Date.now() - hours * HOUR_MS)

describe('one request', () => {
  it('has all that is stored, redacted as it is stored, and whose it is', async () => {
    const id = await made(ours.id, { requestData: '{"a":"[REDACTED]"}', responseData: '{"b":1}', durationMs: 12 })
    const request = await test.integrations.admin.requests.get(id)
    expect(request).toMatchObject({
      ...{
        id,
        integrationId: ours.id,
        provider: 'acme',
        integrationName: 'ours',
        endpoint: '/v1/things',
        method: 'GET',
      },
      ...{
        statusCode: 200,
        requestData: '{"a":"[REDACTED]"}',
        responseData: '{"b":1}',
        durationMs: 12,
        requestHash: null,
      },
      ...{ attempts: [{ id }], attemptsCut: false },
    })
    expect(request.attempts[0]).not.toHaveProperty('responseData')
  })

  it('has the attempts of its whole chain in order, asked of any of them, and none of another integration', async () => {
    const first = await made(ours.id, { failureClass: 'upstream', statusCode: 503 })
    const second = await made(ours.id, { retryOf: first })
    const byHand = await made(ours.id, { retryOf: second })
    await made(others.id, { retryOf: first })
    await made(ours.id)
    for (const id of [first, second, byHand]) {
      const { attempts } = await test.integrations.admin.requests.get(id)
      expect(attempts.map((each) => each.id)).toEqual([first, second, byHand])
    }
    expect(await idsOf({ chain: second })).toEqual([byHand, second, first])
  })

  it('says when there are more attempts than it shows, and survives a chain that is a ring', async () => {
    const first = await made(ours.id)
    await test.sql`insert into integration_requests (integration_id, endpoint, method, retry_of)
      select ${ours.id}, '/v1/things', 'GET', ${first} from generate_series(1, 1000)`
    expect(await test.integrations.admin.requests.get(first)).toMatchObject({ attemptsCut: true })
    await test.sql`delete from integration_requests where id <> ${first}`
    const second = await made(ours.id, { retryOf: first })
    await test.sql`update integration_requests set retry_of = ${second} where id = ${first}`
    const { attempts, attemptsCut } = await test.integrations.admin.requests.get(first)
    expect([attempts.map(({ id }) => id), attemptsCut]).toEqual([[first, second], false])
  })

  it('keeps the operation of an SDK as it was given, and is found by it in any case', async () => {
    await ours.request('customers', 'customers.create', async () => ({ id: 1 }))
    const [id, ...more] = await idsOf({ operation: 'CUSTOMERS.create' })
    expect(more).toEqual([])
    expect(await test.integrations.admin.requests.get(id as number)).toMatchObject({ method: 'customers.create' })
  })

  it.each([0, 1.5, 9_999_999_999])('is not there: %s', async (id) => {
    await expect(test.integrations.admin.requests.get(id)).rejects.toMatchObject({ code: 'request_not_found', id })
  })
})

describe('the list of requests', () => {
  it('is newest first, by each filter, and all that is given must hold', async () => {
    const related = { relatedType: 'order', relatedId: 5 }
    const a = await made(ours.id, { endpoint: '/v1/Charges/5', method: 'POST', ...related, idempotencyKey: 'k' })
    const b = await made(ours.id, { failureClass: 'client', statusCode: 404, providerRequestId: 'req_1' })
    const c = await made(others.id, { failureClass: 'upstream', statusCode: 503 })
    const d = await made(ours.id, { failureClass: 'upstream', statusCode: 500 })
    expect(await idsOf()).toEqual([d, c, b, a])
    expect(await idsOf({ integrationId: ours.id })).toEqual([d, b, a])
    expect(await idsOf({ provider: 'other' })).toEqual([c])
    expect(await idsOf({ owner: OWNER })).toEqual([d, b, a])
    expect(await idsOf({ owner: OWNER, integrationId: others.id })).toEqual([])
    expect(await idsOf({ endpoint: 'charges' })).toEqual([a])
    expect(await idsOf({ operation: 'post' })).toEqual([a])
    expect(await idsOf({ failureClass: 'upstream' })).toEqual([d, c])
    expect(await idsOf({ failureClass: 'upstream', integrationId: ours.id })).toEqual([d])
    expect(await idsOf({ success: false })).toEqual([d, c, b])
    expect(await idsOf({ success: false, provider: 'acme' })).toEqual([d, b])
    expect(await idsOf({ success: true, integrationId: ours.id })).toEqual([a])
    expect(await idsOf({ success: true, failureClass: 'client' })).toEqual([])
    expect(await idsOf({ status: 404 })).toEqual([b])
    expect(await idsOf({ status: '5xx' })).toEqual([d, c])
    expect(await idsOf({ status: '5xx', integrationId: others.id })).toEqual([c])
    expect(await idsOf({ providerRequestId: 'req_1' })).toEqual([b])
    expect(await idsOf({ relatedTo: { type: 'order', id: 5 } })).toEqual([a])
    expect(await idsOf({ idempotencyKey: 'k', integrationId: ours.id })).toEqual([a])
  })

  it('has a failure without a class as unknown, as every figure', async () => {
    const error = 'Error: of before there were classes'
    const success = await made(ours.id)
    const unclassed = await made(ours.id, { error })
    const unknown = await made(ours.id, { error, failureClass: 'unknown' })
    const client = await made(ours.id, { error, failureClass: 'client' })
    for (const whose of [{}, { integrationId: ours.id }, { provider: 'acme' }]) {
      expect(await idsOf({ ...whose, failureClass: 'unknown' })).toEqual([unknown, unclassed])
      expect(await idsOf({ ...whose, failureClass: 'client' })).toEqual([client])
      expect(await idsOf({ ...whose, success: false })).toEqual([client, unknown, unclassed])
      expect(await idsOf({ ...whose, success: false, failureClass: 'unknown' })).toEqual([unknown, unclassed])
      expect(await idsOf({ ...whose, success: true })).toEqual([success])
      expect(await idsOf({ ...whose, success: true, failureClass: 'unknown' })).toEqual([])
      expect(await idsOf(whose)).toEqual([client, unknown, unclassed, success])
    }
    expect(await test.integrations.admin.explain(`request:${unclassed}`)).toMatchObject({ status: 'unknown' })
  })

  it('goes on where a page ended, also when that row is gone, and with many rows of one moment', async () => {
    const at = new Date()
    const ids: number[] = []
    for (let n = 0; n < 7; n++) ids.push(await made(n % 2 === 0 ? ours.id : others.id, { createdAt: at }))
    const newest = ids.toReversed()
    expect(await idsOf({ limit: 3 })).toEqual(newest.slice(0, 3))
    expect(await idsOf({ after: newest[2], limit: 3 })).toEqual(newest.slice(3, 6))
    await test.sql`delete from integration_requests where id = ${newest[2] as number}`
    expect(await idsOf({ after: newest[2] })).toEqual(newest.slice(3))
    expect(await idsOf({ after: newest[2], integrationId: ours.id })).toEqual([ids[2], ids[0]])
    await test.sql`insert into integration_requests (integration_id, endpoint, method)
      select ${ours.id}, '/', 'GET' from generate_series(1, 250)`
    expect(await idsOf({ integrationId: ours.id })).toHaveLength(250 + 3)
    expect(new Set(await idsOf())).toHaveProperty('size', 250 + 6)
  })

  it('looks through the last 24 hours for what no index has, unless a moment is given', async () => {
    const known = { providerRequestId: 'req_1' }
    const old = await made(ours.id, { createdAt: hoursAgo(30), statusCode: 404, failureClass: 'client', ...known })
    const young = await made(ours.id, { createdAt: hoursAgo(20), statusCode: 404, failureClass: 'client' })
    expect(await idsOf()).toEqual([young, old])
    expect(await idsOf({ integrationId: ours.id, failureClass: 'client' })).toEqual([young, old])
    expect(await idsOf(known)).toEqual([old])
    expect(await idsOf({ ...known, integrationId: ours.id, status: 404 })).toEqual([old])
    expect(await idsOf({ status: 404 })).toEqual([young])
    expect(await idsOf({ failureClass: 'client' })).toEqual([young])
    expect(await idsOf({ integrationId: ours.id, endpoint: 'things' })).toEqual([young])
    expect(await idsOf({ status: 404, since: hoursAgo(40) })).toEqual([young, old])
    expect(await idsOf({ status: 404, until: hoursAgo(25) })).toEqual([old])
    expect(await idsOf({ since: hoursAgo(25) })).toEqual([young])
  })

  it.each([
    ['of all', true, (): ListRequests => ({})],
    ['of a busy integration', true, (): ListRequests => ({ integrationId: ours.id })],
    ['of a quiet integration', false, (): ListRequests => ({ integrationId: ours.id })],
    ['of a class of an integration', true, (): ListRequests => ({ integrationId: ours.id, failureClass: 'client' })],
    ['that failed unclassified', true, (): ListRequests => ({ integrationId: ours.id, failureClass: 'unknown' })],
    ['that succeeded', true, (): ListRequests => ({ integrationId: ours.id, success: true })],
    ['of an owner, of a period', true, (): ListRequests => ({ owner: OWNER, until: hoursAgo(1) })],
  ])('reads no more than a page of rows %s', async (_of, isBusy, filter) => {
    await test.sql`insert into integration_requests (integration_id, endpoint, method, failure_class, created_at)
      select case when n > 39970 or n % 4 = 0 and ${isBusy} then ${ours.id}::bigint else ${others.id}::bigint end, '/v1/things', 'GET',
             case when n % 3 = 0 then 'client' end, now() - n * interval '1 s'
      from generate_series(1, 40000) n`
    await test.sql`vacuum analyze integration_requests`
    const { db, tables } = test.framework
    const few = filter().integrationId === undefined && filter().owner === undefined ? null : [ours.id]
    const { sql: text, params } = pageOfRequests(db, tables, filter(), few, { below: undefined, limit: 10 }).toSQL()
    const [plan] = await test.sql.unsafe(`explain (analyze, format json) ${text}`, params as never[])
    expect(JSON.stringify(plan)).not.toContain('Seq Scan on integration_requests')
    expect(rowsOfNode(plan?.['QUERY PLAN'][0].Plan)).toBeLessThan(200)
  })

  it.each<[string, Record<string, unknown>]>([
    ['integrationId', { integrationId: 0 }],
    ['endpoint', { endpoint: '' }],
    ['operation', { operation: 'a\u0000' }],
    ['failureClass', { failureClass: 'bad' }],
    ['success', { success: 'yes' }],
    ['status', { status: '6xx' }],
    ['status', { status: 99 }],
    ['relatedTo.type', { relatedTo: { id: 4 } }],
    ['relatedTo.id', { relatedTo: { type: 'order', id: 0.5 } }],
    ['owner', { owner: null }],
    ['until', { since: new Date(2), until: new Date(1) }],
    ['limit', { limit: 0 }],
  ])('refuses a bad %s at once: %j', (argument, filter) => {
    expect(() => test.integrations.admin.requests.list(filter)).toThrow(expect.objectContaining({ argument }))
  })
})
