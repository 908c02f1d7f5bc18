/** The ledger of spent keys, and how one is freed. Rule: docs/behaviour/requests.md, "The ledger". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ListIdempotencyKeys } from '../../src/calls/idempotency-list.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const OWNER = { type: 'team', id: 7 }
const HOUR_MS = 3_600_000
const by = { by: 'ada', from: '10.0.0.7' }

let database: TestDatabase
let test: TestIntegrations
let ours: Integration
let others: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  const knowing = { supportsIdempotency: true as const, idempotencyWindowSeconds: 7_200 }
  test = testIntegrations(database.url, { providers: { plain: {}, knowing } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`truncate integration_audit`
  ours = await makeIntegration(test, 'plain', { name: 'ours', owner: OWNER })
  others = await makeIntegration(test, 'knowing')
})

async function idOf(integration: Integration, key: string): Promise<number> {
  const [row] = await test.sql`
    select id from integration_idempotency_keys where integration_id = ${integration.id} and key = ${key}`
  return Number(row?.id)
}

/** A key whose call has its answer. */
async function answered(integration: Integration, key: string): Promise<number> {
  await integration.request('/charges', 'POST', async () => ({ ok: true }), { idempotencyKey: key })
  return idOf(integration, key)
}

/** A key whose call failed, so that its effect is not known. */
async function unknown(integration: Integration, key: string): Promise<number> {
  const fails = async () => {
    throw Object.assign(new Error('away'), { status: 500 })
  }
  await integration.request('/charges', 'POST', fails, { idempotencyKey: key }).catch(() => {})
  return idOf(integration, key)
}

/** As if all of this had been so long ago. */
async function age(hours: number): Promise<void> {
  for (const table of ['integration_idempotency_keys', 'integration_requests'])
    await test.sql`update ${test.sql(table)} set created_at = created_at - ${`${hours} hours`}::interval`
}

async function idsOf(filter: ListIdempotencyKeys = {}): Promise<number[]> {
  const ids: number[] = []
  for await (const { id } of test.integrations.admin.idempotencyKeys.list(filter)) ids.push(id)
  return ids
}

describe('the ledger', () => {
  it('shows a key with what its call was answered', async () => {
    const id = await answered(ours, 'invoice-17')
    const [request] = await test.sql`select id from integration_requests`
    const { idempotencyKeys } = test.integrations.admin
    expect(await idempotencyKeys.get(id)).toEqual({
      ...{ id, integrationId: ours.id, provider: 'plain', integrationName: 'ours', key: 'invoice-17' },
      ...{ reservedAt: expect.any(Date), state: 'answered', priorRequestId: Number(request?.id) },
      ...{ priorState: 'recovered', priorResponse: { ok: true } },
    })
    expect(await idempotencyKeys.get(await unknown(ours, 'invoice-18'))).toMatchObject({
      ...{ state: 'unknown', priorState: 'unknown', priorRequestId: null, priorResponse: null },
    })
    await expect(idempotencyKeys.get(9_999_999_999)).rejects.toMatchObject({ code: 'idempotency_key_not_found' })
  })

  it('is listed newest first, by each filter', async () => {
    const a = await answered(ours, 'one')
    const b = await unknown(ours, 'two')
    const c = await answered(others, 'one')
    expect(await idsOf()).toEqual([c, b, a])
    expect(await idsOf({ after: c, limit: 1 })).toEqual([b])
    expect(await idsOf({ integrationId: ours.id })).toEqual([b, a])
    expect(await idsOf({ provider: 'knowing' })).toEqual([c])
    expect(await idsOf({ owner: OWNER })).toEqual([b, a])
    expect(await idsOf({ integrationId: ours.id, key: 'one' })).toEqual([a])
    expect(await idsOf({ state: 'unknown' })).toEqual([b])
    expect(await idsOf({ state: 'answered' })).toEqual([c, a])
    await age(30)
    expect(await idsOf()).toEqual([c, b, a])
    expect(await idsOf({ integrationId: ours.id, key: 'one' })).toEqual([a])
    expect(await idsOf({ state: 'unknown' })).toEqual([])
    expect(await idsOf({ state: 'unknown', since: new Date(Date.now() - 40 * HOUR_MS) })).toEqual([b])
  })

  it.each<[string, Record<string, unknown>]>([
    ['key', { key: 'one' }],
    ['state', { state: 'lost' }],
    ['integrationId', { integrationId: 0 }],
    ['limit', { limit: 0 }],
  ])('refuses a bad %s at once', (argument, filter) => {
    expect(() => test.integrations.admin.idempotencyKeys.list(filter)).toThrow(expect.objectContaining({ argument }))
  })
})

describe('freeing a key', () => {
  it('lets a call use it again, and is written down without the key', async () => {
    const id = await answered(ours, 'invoice-17')
    const { idempotencyKeys } = test.integrations.admin
    expect(await idempotencyKeys.forget(id, by)).toMatchObject({ id, state: 'answered', key: 'invoice-17' })
    await expect(idempotencyKeys.forget(id, by)).rejects.toMatchObject({ code: 'idempotency_key_not_found', id })
    expect(await answered(ours, 'invoice-17')).toBeGreaterThan(id)
    const acts = await test.sql`select actor, action, target, origin, detail, integration_id from integration_audit`
    expect(acts).toMatchObject([
      {
        ...{ actor: 'ada', action: 'forget-idempotency-key', target: `idempotency-key:${id}`, origin: '10.0.0.7' },
        ...{ detail: expect.stringMatching(/^reserved at .*, answered$/), integration_id: String(ours.id) },
      },
    ])
    const [log] = await test.sql`select metadata from integration_logs where operation = 'idempotency'`
    expect(log?.metadata).toMatchObject({ key: 'invoice-17', by: 'ada' })
  })

  it('is refused while its call may be under way: until an attempt, the longest wait and the longest call later', async () => {
    const id = await unknown(ours, 'invoice-17')
    const { idempotencyKeys } = test.integrations.admin
    const refused = await idempotencyKeys.forget(id, by).catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'idempotency_key_in_use', id })
    const [attempt] = await test.sql<{ at: Date }[]>`select created_at as at from integration_requests`
    // timeoutMs 600, retry.retry_after_max_seconds 600, three times rate_limiting.max_wait_seconds 10, and 120 beside.
    expect((refused as { until: Date }).until.getTime()).toBe(Number(attempt?.at) + 1_350_000)
    expect(await test.sql`select from integration_audit`).toHaveLength(0)
    await age(1)
    await idempotencyKeys.forget(id, by)
    expect(await idsOf()).toEqual([])
  })

  it('is done all the same when forced', async () => {
    const id = await unknown(ours, 'invoice-17')
    await test.integrations.admin.idempotencyKeys.forget(id, { ...by, force: true })
    expect(await idsOf()).toEqual([])
  })

  it('is refused while a repeat is made with a key that the provider knows, however old the key is', async () => {
    const id = await unknown(others, 'invoice-17')
    await age(1)
    const { idempotencyKeys } = test.integrations.admin
    let refused: unknown
    await others.request(
      '/charges',
      'POST',
      async () => {
        refused = await idempotencyKeys.forget(id, by).catch((error: unknown) => error)
        return { ok: true }
      },
      { idempotencyKey: 'invoice-17' },
    )
    expect(refused).toMatchObject({ code: 'idempotency_key_in_use', id })
    expect(await idempotencyKeys.get(id)).toMatchObject({ state: 'answered' })
  })
})
