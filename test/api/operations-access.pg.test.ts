/** Each operation of the table × who calls: no token, read, operate, expired, revoked, another owner's, another provider's. */
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { Operation } from '../../src/api/command-routes.ts'
import { isBodiless, operations, parametersOf } from '../../src/api/command-routes.ts'
import { scopeOf, snakeCase } from '../../src/commands/command.ts'
import type { Field } from '../../src/commands/fields.ts'
import { isRequired } from '../../src/commands/fields.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, from, OPERATE_TOKEN, READ_TOKEN, TOKENS, WRONG_TOKEN } from '../support/operators.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook } from '../support/rows.ts'

const OWNER = { type: 'team', id: 7 }
const ALL = operations()
const EACH = ALL.map((operation) => [`${operation.method.toUpperCase()} ${operation.path}`, operation] as const)

let database: TestDatabase
let test: TestIntegrations
let api: Hono
/** One record of each kind, all of one integration. */
let ids: Record<string, number>
let tokens: Record<'expired' | 'revoked' | 'ours' | 'otherOwner' | 'otherProvider', string>
let offsetMs = 0

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: syncProvider(() => {}), other: {} },
    clock: { now: () => new Date(Date.now() + offsetMs) },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  api = createApi(test.integrations)
  const { id } = await makeIntegration(test, 'acme', { owner: OWNER })
  const { db, tables } = test.framework
  const call = { integrationId: id, endpoint: '/', method: 'GET' }
  const [request] = await db.insert(tables.requests).values(call).returning()
  const mapping = { integrationId: id, externalId: 'x', internalType: 'note', internalId: '1' }
  const [mapped] = await db.insert(tables.mappings).values(mapping).returning()
  const [key] = await db.insert(tables.idempotencyKeys).values({ integrationId: id, key: 'k' }).returning()
  const run = await makeRun(test, id, { status: 'success' })
  const [event] = await db
    .insert(tables.events)
    .values({ integrationId: id, name: 'IncidentOpened', payload: {} } as typeof tables.events.$inferInsert)
    .returning()
  ids = {
    integration: id,
    webhook: (await makeWebhook(test, id, { status: 'failed' })).id,
    'sync-run': run.id,
    log: run.id,
    'sync-item': (await makeItem(test, run, { status: 'failed' })).id,
    incident: (await makeIncident(test, id)).id,
    request: request?.id as number,
    mapping: mapped?.id as number,
    'idempotency-key': key?.id as number,
    event: event?.id as number,
  }
  const made = async (name: string, limits: object = {}) =>
    test.integrations.admin.tokens.create({ name, scope: 'operate', by: 'me', ...limits })
  const revoked = await made('revoked')
  await test.integrations.admin.tokens.revoke(revoked.id, { by: 'me' })
  const expired = await made('expired', { expiresAt: new Date(Date.now() + 60_000) })
  tokens = {
    revoked: revoked.token,
    expired: expired.token,
    ours: (await made('ours', { provider: 'acme', owner: OWNER })).token,
    otherOwner: (await made('other-owner', { owner: { type: 'team', id: 8 } })).token,
    otherProvider: (await made('other-provider', { provider: 'other' })).token,
  }
  offsetMs = 120_000
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

/** What fits where an operation needs one of its fields, whichever. */
const ONE_OF: Readonly<Record<string, object>> = {
  'put /integrations/:id/interval': { minutes: 5 },
  'get /payloads': { contains: '{"a":"b"}' },
}

/** With all that it needs, and with `strange` one parameter that no operation knows. */
async function send(operation: Operation, token: string | null, { strange = false } = {}) {
  const { method, path, reach, fields } = operation
  const inPath = parametersOf(path)
  const target = path.replace(/:\w+/g, () => String(ids[reach] ?? 1))
  const needed = Object.entries(fields).filter(([name, field]) => !inPath.includes(name) && isRequired(field))
  const given = {
    ...Object.fromEntries(needed.map(([name, field]) => [snakeCase(name), sampleOf(field)])),
    ...ONE_OF[`${method} ${path}`],
  }
  const query = new URLSearchParams({
    ...(isBodiless(operation) ? (given as Record<string, string>) : {}),
    ...(strange ? { no_such_parameter: '1' } : {}),
  })
  const response = await api.request(
    `/operator/api/v1${target}?${query}`,
    {
      method: method.toUpperCase(),
      headers: { 'content-type': 'application/json', ...(token === null ? {} : { authorization: `Bearer ${token}` }) },
      ...(isBodiless(operation) ? {} : { body: JSON.stringify(given) }),
    },
    from('192.0.2.1'),
  )
  const body = (await response.json()) as { code?: string; data?: unknown[] }
  return { status: response.status, body }
}

/** The first of some values that the field takes. */
function sampleOf({ schema, choices }: Field): unknown {
  const samples = [choices?.[0], 'x', 1, '2031-06-01T12:00:00Z', { a: 'b' }, ['x'], true]
  return samples.find((sample) => sample !== undefined && schema.safeParse(sample).success)
}

describe.each(EACH)('%s', (_, operation) => {
  it('is closed to who has no good token', async () => {
    for (const token of [null, WRONG_TOKEN, tokens.expired, tokens.revoked])
      expect(await send(operation, token)).toMatchObject({ status: 401, body: { code: 'unauthenticated' } })
  })

  it('is open to its scope', async () => {
    // A parameter too many is refused after the access is allowed, and before anything is done.
    const admitted = { status: 422, body: { code: 'invalid_fields' } }
    const scope = { status: 403, body: { code: 'insufficient_scope' } }
    expect(await send(operation, OPERATE_TOKEN, { strange: true })).toMatchObject(admitted)
    expect(await send(operation, READ_TOKEN, { strange: true })).toMatchObject(
      scopeOf(operation) === 'read' ? admitted : scope,
    )
    expect(await send(operation, tokens.ours, { strange: true })).toMatchObject(
      operation.reach === 'all' ? scope : admitted,
    )
  })

  it('shows and changes nothing of another owner or another provider', async () => {
    const before = await rowsOfAll()
    for (const token of [tokens.otherOwner, tokens.otherProvider]) {
      const { status, body } = await send(operation, token)
      const { reach } = operation
      if (reach === 'all') expect([status, body.code]).toEqual([403, 'insufficient_scope'])
      else if (reach === 'filtered') {
        if (operation.method === 'get') expect([status, body.data]).toEqual([200, []])
        else expect(status).toBeLessThan(500)
      } else if (reach !== 'everyone') expect([status, body.code]).toEqual([404, expect.stringMatching(/_not_found$/)])
    }
    expect(await rowsOfAll()).toEqual(before)
  })
})

/** All that a foreign token could have changed. */
async function rowsOfAll(): Promise<unknown[]> {
  const id = ids.integration as number
  const rows = await test.sql`
    select 'i', name, is_active::text, circuit_override, next_sync_at::text from integrations where id = ${id}
    union all select 'w', id::text, status, dismissed_at::text, attempts::text from integration_webhooks where integration_id = ${id}
    union all select 's', id::text, status, attempts::text, null from integration_sync_items where integration_id = ${id}
    union all select 'n', id::text, status, acknowledged_by, annotations::text from integration_incidents where integration_id = ${id}
    union all select 'm', id::text, internal_id, null, null from integration_mappings where integration_id = ${id}
    union all select 'k', id::text, key, null, null from integration_idempotency_keys where integration_id = ${id}
    union all select 'a', count(*)::text, null, null, null from integration_audit where integration_id = ${id}
    order by 1, 2`
  return [...rows]
}
