/** What is stored, as the command line and the operator API read and change it. The lists' filters have tests of their own. */
import { bigint, pgTable } from 'drizzle-orm/pg-core'
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { groupId } from '../../src/failures/failure-rules.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import { mappedTable } from '../../src/mappings/mapped-table.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, from, OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun, makeWebhook, setIntegration } from '../support/rows.ts'
import { runCommand } from './cli/run.ts'

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let ours: Integration
let others: Integration
let limitedToken: string

beforeAll(async () => {
  database = await createTestDatabase()
  const notes = pgTable('notes', { id: bigint('id', { mode: 'number' }).primaryKey() })
  test = testIntegrations(database.url, {
    providers: { acme: webhookProvider(), other: {} },
    models: { note: mappedTable(notes, { type: 'note' }) },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  await test.sql`create table notes (id bigint primary key)`
  await test.sql`insert into notes select n from generate_series(1, 9) n`
  api = createApi(test.integrations)
  const limits = { provider: 'acme', owner: { type: 'team', id: 7 } }
  limitedToken = (await test.integrations.admin.tokens.create({ name: 'team', scope: 'operate', ...limits, by: 'me' }))
    .token
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`truncate integration_audit`
  ours = await makeIntegration(test, 'acme', { name: 'ours', owner: { type: 'team', id: 7 } })
  others = await makeIntegration(test, 'other')
})

async function http(
  method: string,
  path: string,
  { body, token = OPERATE_TOKEN }: { body?: object; token?: string } = {},
) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const response = await api.request(
    `/operator/api/v1${path}`,
    { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) },
    from('192.0.2.1'),
  )
  return [response.status, await response.json()] as [number, never]
}

const line = (...words: string[]) => runCommand(test.integrations, words)

/** Rows of a list's HTTP answer, which the command line prints the same. */
async function rowsOf(path: string, ...words: string[]): Promise<Record<string, unknown>[]> {
  const [status, { data }] = (await http('GET', path)) as [number, { data: never[] }]
  expect(status).toBe(200)
  expect((await line(...words, '--json')).json()).toEqual(data)
  return data
}

async function request(of: Integration, values: object = {}): Promise<number> {
  const { db, tables } = test.framework
  const row = {
    integrationId: of.id,
    endpoint: '/v1/things',
    method: 'GET',
    statusCode: 503,
    failureClass: 'upstream' as const,
  }
  const [made] = await db
    .insert(tables.requests)
    .values({ ...row, ...values })
    .returning()
  return made?.id as number
}

describe('requests', () => {
  it('are listed, and one is shown with its attempts', async () => {
    const first = await request(ours)
    const second = await request(ours, { retryOf: first, statusCode: 200, failureClass: null })
    await request(others)
    const filter = ['--integration', String(ours.id)]
    expect(await rowsOf(`/requests?integration=${ours.id}`, 'requests', ...filter)).toMatchObject([
      { id: second, retry_of: first, status_code: 200, integration_name: 'ours' },
      { id: first, failure_class: 'upstream', provider: 'acme' },
    ])
    expect(
      await rowsOf('/requests?status=5xx&class=upstream&owner=team:7', 'requests', '--status', '5xx', ...filter),
    ).toHaveLength(1)
    const shown = { id: second, attempts: [{ id: first, status_code: 503 }, { id: second }], attempts_cut: false }
    expect(await http('GET', `/requests/${second}`)).toMatchObject([200, shown])
    expect((await line('requests', String(second), '--json')).json()).toMatchObject(shown)
    const { out } = await line('requests', String(second))
    expect(out).toMatch(/^endpoint +\/v1\/things$/m)
    expect(out).toMatch(new RegExp(`^ *${first} +503 +upstream`, 'm'))
  })

  it('refuse what does not fit', async () => {
    expect(await http('GET', '/requests?status=600')).toMatchObject([422, { fields: [{ path: 'status' }] }])
    expect(await http('DELETE', '/tokens/x')).toMatchObject([404, { code: 'token_not_found' }])
    expect(await http('GET', '/requests/9999')).toMatchObject([404, { code: 'request_not_found' }])
    expect(await line('requests', '1', '--status', '404')).toMatchObject({
      exitCode: 1,
      err: 'Give an id or options that choose, not both: 1 and --status were given.\n',
    })
  })
})

describe('operations', () => {
  it('are listed, and one is shown with its parts as a tree', async () => {
    const { db, tables } = test.framework
    const log = async (values: object) => {
      const row = { integrationId: ours.id, operation: 'sync', direction: 'inbound' as const, status: 'success' }
      const [made] = await db
        .insert(tables.logs)
        .values({ ...row, ...values })
        .returning()
      return made?.id as number
    }
    const root = await log({ summary: 'all of it' })
    const part = await log({ operation: 'item', parentId: root, status: 'failed', error: 'no' })
    expect(await rowsOf('/logs?operation=sync', 'logs', '--operation', 'sync')).toMatchObject([
      { id: root, has_parts: true },
    ])
    expect(await http('GET', `/logs/${root}`)).toMatchObject([
      200,
      { id: root, shown: 2, parts: [{ id: part, parts: [], is_cut: false }] },
    ])
    expect((await line('logs', String(root))).out).toBe(
      `${root}  sync  success  all of it\n  ${part}  item  failed  no\n`,
    )
  })
})

describe('mappings', () => {
  const mapped = async (): Promise<number> => {
    await ours.mapExternalId('x-1', { type: 'note', id: '1' })
    const [row] = await test.sql`select max(id) as id from integration_mappings`
    return Number(row?.id)
  }

  it('are found from both sides, pointed elsewhere and forgotten, and the audit has it', async () => {
    const id = await mapped()
    const row = { id, external_id: 'x-1', internal_type: 'note', internal_id: '1' }
    expect(await rowsOf('/mappings?external_id=x-1', 'mappings', '--external-id', 'x-1')).toMatchObject([row])
    const bySide = ['--internal-type', 'note', '--internal-id', '1']
    expect(await rowsOf('/mappings?internal_type=note&internal_id=1', 'mappings', ...bySide)).toMatchObject([row])
    expect(await http('PUT', `/mappings/${id}`, { body: { internal_id: '2' } })).toMatchObject([
      200,
      { internal_id: '2' },
    ])
    expect(await http('PUT', `/mappings/${id}`, { body: { internal_id: '99' } })).toMatchObject([
      422,
      { code: 'mapped_row_not_found' },
    ])
    expect((await line('repoint-mapping', String(id), '3', '--json')).json()).toMatchObject({ internal_id: '3' })
    expect(await line('forget-mapping', String(id))).toMatchObject({
      exitCode: 1,
      err: expect.stringMatching(/Forget that "x-1" stands for note 3\?/),
    })
    expect(await http('DELETE', `/mappings/${id}`)).toMatchObject([200, { external_id: 'x-1' }])
    expect(await http('GET', `/mappings/${id}`)).toMatchObject([404, { code: 'mapping_not_found' }])
    const acts = await test.sql`select actor, action, origin from integration_audit order by id`
    expect(acts).toMatchObject([
      { actor: 'operator', action: 'repoint-mapping', origin: '192.0.2.1' },
      { actor: expect.stringMatching(/^cli:/), action: 'repoint-mapping' },
      { actor: 'operator', action: 'forget-mapping', origin: '192.0.2.1' },
    ])
  })
})

describe('the ledger of keyed writes', () => {
  it('is read, and a key is freed once no call can be under way', async () => {
    await test.sql`insert into integration_idempotency_keys (integration_id, key, created_at)
      values (${ours.id}, 'order-17', now() - interval '2 days')`
    const since = new Date(Date.now() - 3 * 86_400_000).toISOString()
    const [row] = await rowsOf(
      `/idempotency-keys?integration=${ours.id}&key=order-17`,
      ...['idempotency-keys', '--integration', String(ours.id), '--key', 'order-17'],
    )
    expect(row).toMatchObject({ key: 'order-17', state: 'unknown', prior_request_id: null })
    expect(await rowsOf(`/idempotency-keys?since=${since}`, 'idempotency-keys', '--since', since)).toHaveLength(1)
    expect(await http('DELETE', `/idempotency-keys/${row?.id}`)).toMatchObject([200, { key: 'order-17' }])
    expect(await http('GET', `/idempotency-keys/${row?.id}`)).toMatchObject([
      404,
      { code: 'idempotency_key_not_found' },
    ])
  })
})

describe('explain and failures', () => {
  it('tell the life of a record, and group what failed', async () => {
    const webhook = await makeWebhook(test, ours.id, {
      status: 'failed',
      error: 'no answer in 17 s',
      deliveryId: 'delivery-1',
      processedAt: new Date(),
    })
    const told = {
      outcome: 'found',
      reference: `webhook:${webhook.id}`,
      status: 'failed',
      integration: { name: 'ours' },
    }
    expect((await line('explain', 'delivery-1', '--json')).json()).toMatchObject(told)
    expect(await http('GET', `/explain?reference=webhook:${webhook.id}`)).toMatchObject([200, told])
    expect((await line('explain', `webhook:${webhook.id}`)).out).toMatch(
      /^webhook:\d+ {2}failed {2}of integration \d+ \("ours", acme\)$/m,
    )
    expect(await http('GET', '/explain?reference=webhook:9999')).toMatchObject([404, { code: 'record_not_found' }])
    const group = { kind: 'webhook', count: 1, example: { reference: `webhook:${webhook.id}` } }
    const [, { data }] = (await http('GET', '/failures?kind=webhook')) as [number, { data: { group: string }[] }]
    expect(data).toMatchObject([group])
    const name = data[0]?.group as string
    expect((await line('failures', '--json')).json()).toMatchObject({ data: [group], truncated: false })
    expect(await line('retry', '--group', name, '--dry-run')).toMatchObject({
      out: `1 would be tried again: ${webhook.id}.\n`,
    })
    expect(await line('retry', '--group', name)).toMatchObject({
      exitCode: 1,
      err: expect.stringMatching(/Try 1 webhooks of 1 integrations/),
    })
    expect(await http('POST', '/failures/retry', { body: { group: name } })).toMatchObject([
      200,
      { retried: [webhook.id] },
    ])
  })

  it('take the reference that they give themselves, of the longest external id, too', async () => {
    const externalId = 'x'.repeat(500)
    for (const { id } of [ours, others]) await makeItem(test, await makeRun(test, id), { externalId })
    const told: { matches: { reference: string }[] } = (await line('explain', externalId, '--json')).json()
    const reference = `integration:${ours.id}/external:${externalId}`
    expect(told.matches.map((match) => match.reference)).toContain(reference)
    expect((await line('explain', reference, '--json')).json()).toMatchObject({ outcome: 'found', reference })
    expect(await http('GET', `/explain?reference=${reference}`)).toMatchObject([200, { reference }])
  })

  it('say of a group whose integration its health has disabled that its webhooks wait for a person', async () => {
    await makeWebhook(test, ours.id, { status: 'failed', error: 'down', processedAt: new Date() })
    await setIntegration(test, ours.id, { healthStatus: 'disabled', isActive: false })
    const words = ['retry', '--group', groupId('webhook', 'down')]
    const wait = '1 of them will wait: their integration is disabled by its health until it is enabled.'
    expect((await line(...words)).err).toContain(wait)
    expect((await line(...words, '--dry-run')).out).toContain(wait)
    expect((await line(...words, '--yes')).out).toBe(`Tried again: 1. ${wait}\n`)
  })

  it('say why the retry of a group was broken off, and that the group has more', async () => {
    const run = await makeRun(test, ours.id)
    for (let n = 0; n < 3; n += 1)
      await makeItem(test, run, { status: 'failed', error: 'no room', attempts: 3, completedAt: new Date() })
    const words = ['retry', '--group', groupId('item', 'no room'), '--yes']
    const { workflows } = test.framework
    const start = workflows.startProcessSyncItem
    let calls = 0
    workflows.startProcessSyncItem = async (...given) => {
      calls += 1
      if (calls > 1) throw new BackendUnreachable('Temporal', '127.0.0.1:7233', { remedy: 'Start it.' })
      return start(...given)
    }
    try {
      const { exitCode, out } = await line(...words)
      expect(exitCode).toBe(1)
      expect(out).toMatch(/^Tried again: 1\.\nBroken off: .*Temporal was not reached/)
      expect(out).toContain('The same call again does the rest.')
      expect(out).not.toContain('The group has more')
    } finally {
      workflows.startProcessSyncItem = start
    }
    expect((await line(...words, '--limit', '2')).out).toMatch(/^Tried again: 2\.\nThe group has more than the limit/)
  })
})

describe('a limited token', () => {
  it('sees in the audit what was done with its own integration, also once that is deleted', async () => {
    const token = limitedToken
    await line('delete', String(ours.id), '--yes')
    const own = { data: [{ action: 'delete', integration: { id: ours.id } }] }
    expect(await http('GET', `/audit?integration=${ours.id}`, { token })).toMatchObject([200, own])
    await line('delete', String(others.id), '--yes')
    expect(await http('GET', `/audit?integration=${others.id}`, { token })).toMatchObject([200, { data: [] }])
  })

  it('finds nothing of others by explain and failures', async () => {
    const token = limitedToken
    const foreign = await makeWebhook(test, others.id, {
      status: 'failed',
      error: 'no',
      deliveryId: 'delivery-2',
      processedAt: new Date(),
    })
    expect(await http('GET', `/explain?reference=webhook:${foreign.id}`, { token })).toMatchObject([
      404,
      { code: 'record_not_found' },
    ])
    expect(await http('GET', '/failures', { token })).toMatchObject([200, { data: [] }])
  })

  it('reads and changes its own only', async () => {
    const own = await request(ours)
    const foreign = await request(others)
    const token = limitedToken
    expect(await http('GET', '/requests', { token })).toMatchObject([200, { data: [{ id: own }] }])
    expect(await http('GET', `/requests/${own}`, { token })).toMatchObject([200, { id: own }])
    expect(await http('GET', `/requests/${foreign}`, { token })).toMatchObject([404, { code: 'request_not_found' }])
    expect(await http('GET', `/requests?integration=${others.id}`, { token })).toMatchObject([
      404,
      { code: 'integration_not_found' },
    ])
    await others.mapExternalId('x-2', { type: 'note', id: '4' })
    const [row] = await test.sql`select max(id) as id from integration_mappings`
    expect(await http('DELETE', `/mappings/${row?.id}`, { token })).toMatchObject([404, { code: 'mapping_not_found' }])
    expect(await http('GET', '/mappings', { token })).toMatchObject([200, { data: [] }])
  })
})
