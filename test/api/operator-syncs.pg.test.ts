/** The operator API's syncs: runs, items, what is asked of one integration. */
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { LogRow } from '../../src/db/schema/tables.ts'
import {
  BackendUnreachable,
  CircuitOpenException,
  InvalidArgumentException,
  NoWorkerAnswered,
} from '../../src/framework/errors.ts'
import type { HasBackfill } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, READ_TOKEN, TOKENS } from '../support/operators.ts'
import type { Lists } from '../support/providers.ts'
import { SECRET, syncProvider, ThingSynced, TOKEN } from '../support/providers.ts'
import { itemOf, logsOf, makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'

const API = '/operator/api/v1'
const AT = new Date('2031-06-01T12:00:00.000Z')
const BEFORE = new Date('2031-06-01T11:59:59.999Z')
const CURSOR = '2031-06-01T00:00:00Z'

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let integration: Integration
let id: number
let run: LogRow
/** What the provider lists. */
const lists = vi.fn<Lists>()
/** What Temporal would answer. */
const progress = vi.fn()

beforeAll(async () => {
  database = await createTestDatabase()
  const acme = syncProvider((session) => lists(session))
  const archive: HasBackfill = { ...acme, syncWindow: () => expect.unreachable('the workflow asks') }
  test = testIntegrations(database.url, {
    providers: { acme, archive, silent: {} },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  Object.assign(test.framework.workflows, { syncProgress: progress })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  lists.mockReset()
  progress.mockReset()
  for (const recorded of [test.starts.itemJobs, test.starts.backfills, test.starts.signals]) recorded.length = 0
  integration = await makeIntegration(test, 'acme')
  id = integration.id
  run = await makeRun(test, id, {}, { status: 'partial' })
})

const failed = (values: Parameters<typeof makeItem>[2] = {}) =>
  makeItem(test, run, { status: 'failed', attempts: 3, error: 'Error: no', completedAt: AT, ...values })

const acts = async (of = id) => (await logsOf(test, of, 'operator')).map(({ metadata }) => metadata)
const act = (action: string, target = `integration:${id}`) => ({ token: 'operator', action, target })
const columnsOf = async (table: string): Promise<string[]> => {
  const [row] = await test.sql`select * from ${test.sql(table)} limit 1`
  return Object.keys(row ?? {})
}

/** For the time of one call. */
async function withWorkflows<T>(given: object, call: () => Promise<T>): Promise<T> {
  const { workflows } = test.framework
  const before = { ...workflows }
  Object.assign(workflows, given)
  try {
    return await call()
  } finally {
    Object.assign(workflows, before)
  }
}

const away = () => Promise.reject(new BackendUnreachable('Temporal', '127.0.0.1:1', { remedy: 'Start it.' }))

const OF_INTEGRATION = ['integration_name', 'provider']
const TOLD_OF_ITEMS = ['holds_cursor', 'made_up_for_by', ...OF_INTEGRATION]

describe('the runs', () => {
  it('are listed with every column of theirs, newest first, page by page', async () => {
    const newer = await makeRun(test, id, { request_ids: [1] }, { operation: 'backfill' })
    const first = await json(await get(`/sync-runs?integration=${id}&limit=1`))
    expect([ids(first), first.next]).toEqual([[newer.id], newer.id])
    const none = ['result_data', 'attempt', 'max_attempts', 'direction']
    const shown = (await columnsOf('integration_logs')).filter((column) => !none.includes(column))
    const told = ['listed', 'succeeded', 'failed', 'skipped', 'cursor_before', 'cursor_after', ...OF_INTEGRATION]
    expect(Object.keys(first.data[0] ?? {}).sort()).toEqual([...shown, ...told].sort())
    expect(first.data[0]?.metadata).not.toHaveProperty('request_ids')
    const second = await json(await get(`/sync-runs?integration=${id}&limit=1&after=${newer.id}`))
    expect([ids(second), second.next]).toEqual([[run.id], null])
  })

  it.each<[string, readonly number[]]>([
    ['status=partial', [0]],
    ['since=2031-06-01T12:00:00Z', [1]],
    ['until=2031-06-01T14:00:00%2B02:00', [0]],
  ])('?%s', async (filter, expected) => {
    const of = (await makeIntegration(test, 'acme')).id
    const rows = [
      await makeRun(test, of, {}, { status: 'partial', createdAt: BEFORE }),
      await makeRun(test, of, {}, { status: 'success', createdAt: AT }),
    ]
    const page = await json(await get(`/sync-runs?integration=${of}&${filter}`))
    expect(ids(page)).toEqual(expected.map((index) => rows[index]?.id))
  })

  it('have a detail with the items by status', async () => {
    await failed()
    const shown = await (await get(`/sync-runs/${run.id}`)).json()
    expect(shown).toMatchObject({
      id: run.id,
      integration_id: id,
      operation: 'sync',
      status: 'partial',
      metadata: run.metadata,
      items: { pending: 0, processing: 0, success: 0, failed: 1, skipped: 0 },
    })
  })

  it('are finalised by hand, which is written down if it changed anything', async () => {
    const left = await makeRun(test, id)
    await makeItem(test, left, { status: 'success', checkpointValue: CURSOR, completedAt: AT })
    const response = await post(`/sync-runs/${left.id}/finalise`)
    expect([response.status, await response.json()]).toEqual([200, { runs: 1, from: null, to: CURSOR, reclaimed: 0 }])
    expect(await acts()).toEqual([act('finalise', `sync-run:${left.id}`)])
    expect(await (await post(`/sync-runs/${left.id}/finalise`)).json()).toMatchObject({ runs: 0 })
    expect(await acts()).toHaveLength(1)
  })

  it.each(['0', '01', 'x', '999999999', '9007199254740992'])('of the id %s are a 404', async (wrong) => {
    for (const response of [await get(`/sync-runs/${wrong}`), await post(`/sync-runs/${wrong}/finalise`)])
      expect(await problemOf(response)).toMatchObject({ status: 404, code: 'sync_run_not_found' })
  })
})

describe('the items', () => {
  it('are listed with every column but what was listed, newest first, page by page', async () => {
    const rows = [await failed({ payload: { v: 1, data: TOKEN } }), await failed()]
    const first = await json(await get(`/sync-items?run=${run.id}&limit=1`))
    expect([ids(first), first.next]).toEqual([[rows[1]?.id], rows[1]?.id])
    const shown = (await columnsOf('integration_sync_items')).filter(
      (column) => !['payload', 'checkpoint_value', 'claim'].includes(column),
    )
    expect(Object.keys(first.data[0] ?? {}).sort()).toEqual([...shown, ...TOLD_OF_ITEMS].sort())
    const second = await json(await get(`/sync-items?run=${run.id}&limit=1&after=${first.next}`))
    expect([ids(second), second.next]).toEqual([[rows[0]?.id], null])
  })

  it.each<[string, readonly number[]]>([
    ['status=failed', [2, 0]],
    ['made_up_for=true', []],
    ['made_up_for=false', [2, 0]],
    ['waiting=true', []],
    ['waiting=false', [2, 1, 0]],
    ['event=test.other', [1]],
    ['external_id=a', [0]],
    ['since=2031-06-01T12:00:00Z', [2, 1]],
    ['until=2031-06-01T14:00:00%2B02:00', [0]],
  ])('?%s', async (filter, expected) => {
    const rows = [
      await failed({ externalId: 'a', createdAt: BEFORE }),
      await makeItem(test, run, { eventClass: 'test.other', createdAt: AT }),
      await failed({ createdAt: AT }),
    ]
    const page = await json(await get(`/sync-items?integration=${id}&${filter}`))
    expect(ids(page)).toEqual(expected.map((index) => rows[index]?.id))
  })

  it('have a detail with what was listed, without secrets', async () => {
    const row = await failed({ payload: { v: 1, data: { token: TOKEN, secret: SECRET, n: 1 } }, claim: 'x:1' })
    const response = await get(`/sync-items/${row.id}`)
    const shown = (await response.json()) as Record<string, unknown>
    expect(shown).toMatchObject({
      id: row.id,
      payload: { v: 1, data: { token: '[REDACTED]', secret: '[REDACTED]', n: 1 } },
      error: 'Error: no',
      attempts: 3,
    })
    const columns = (await columnsOf('integration_sync_items')).filter((column) => column !== 'claim')
    expect(Object.keys(shown).sort()).toEqual([...columns, ...TOLD_OF_ITEMS].sort())
  })

  it('are retried, which is started, not waited for, and written down', async () => {
    const row = await failed()
    const response = await post(`/sync-items/${row.id}/retry`)
    expect([response.status, response.headers.get('location')]).toEqual([202, `${API}/sync-items/${row.id}`])
    expect(await response.json()).toEqual({ item_id: row.id, workflow_id: `integrations:sync-item:${row.id}` })
    expect((await post(`/sync-items/${row.id}/retry`, { tries: 3 })).status).toBe(202)
    expect(test.starts.itemJobs).toEqual([
      { itemId: row.id, tries: 1 },
      { itemId: row.id, tries: 3 },
    ])
    expect(await acts()).toEqual([act('retry', `sync-item:${row.id}`), act('retry', `sync-item:${row.id}`)])
  })

  it('are skipped, and the cursor goes on', async () => {
    await makeItem(test, run, { status: 'success', checkpointValue: CURSOR })
    const row = await failed()
    const response = await post(`/sync-items/${row.id}/skip`)
    expect([response.status, await response.json()]).toEqual([
      200,
      { item_id: row.id, integration_id: id, stream: null, cursor_moved: true, reducer_threw: null },
    ])
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'skipped', error: 'Error: no' })
    expect(await acts()).toEqual([act('skip', `sync-item:${row.id}`)])
  })

  it.each(['pending', 'processing', 'success', 'skipped'] as const)('that are %s are a 409', async (status) => {
    const row = await makeItem(test, run, { status })
    for (const action of ['retry', 'skip'])
      expect(await problemOf(await post(`/sync-items/${row.id}/${action}`))).toMatchObject({
        status: 409,
        code: 'sync_item_not_failed',
        detail: expect.stringContaining(`is ${status};`),
      })
    expect(await itemOf(test, row.id)).toEqual(row)
    expect(await acts()).toEqual([])
  })

  it('that are erased can be skipped, not retried', async () => {
    const row = await failed({ payload: null })
    expect(await problemOf(await post(`/sync-items/${row.id}/retry`))).toMatchObject({
      status: 409,
      detail: expect.stringContaining('has been erased'),
    })
    expect((await post(`/sync-items/${row.id}/skip`)).status).toBe(200)
  })

  it('whose retry lives are a 409, and without Temporal a 503; neither is written down', async () => {
    const row = await failed()
    test.starts.runningItems.add(row.id)
    expect(await problemOf(await post(`/sync-items/${row.id}/retry`))).toMatchObject({ status: 409 })
    const response = await withWorkflows({ startProcessSyncItem: away }, () => post(`/sync-items/${row.id}/retry`))
    expect(await problemOf(response)).toMatchObject({ status: 503, code: 'backend_unreachable' })
    expect(await acts()).toEqual([])
  })

  it.each(['0', '01', 'x', '999999999', '9007199254740992'])('of the id %s are a 404', async (wrong) => {
    const responses = [
      await get(`/sync-items/${wrong}`),
      await post(`/sync-items/${wrong}/retry`),
      await post(`/sync-items/${wrong}/skip`),
    ]
    for (const response of responses)
      expect(await problemOf(response)).toMatchObject({ status: 404, code: 'sync_item_not_found' })
  })
})

describe('queries and bodies that do not fit are a 422 that names the field', () => {
  it.each([
    ['/sync-runs?limit=201', 'limit'],
    ['/sync-runs?status=pending', 'status'],
    ['/sync-runs?integration=0', 'integration'],
    ['/sync-runs?since=2031-06-01', 'since'],
    ['/sync-runs?event=x', 'event'],
    ['/sync-items?limit=0', 'limit'],
    ['/sync-items?run=x', 'run'],
    ['/sync-items?status=lost', 'status'],
    ['/sync-items?event=a%00', 'event'],
    ['/sync-items?external_id=a', 'external_id'],
    [`/sync-items?run=1&external_id=${'a'.repeat(501)}`, 'external_id'],
    ['/sync-items?since=2031-06-01T12:00:00Z&until=2031-06-01T11:59:59Z', 'until'],
    ['/sync-items?payload=x', 'payload'],
  ])('GET %s', async (path, field) => {
    expect(await problemOf(await get(path))).toMatchObject({
      status: 422,
      code: 'invalid_fields',
      fields: [{ path: field }],
    })
  })

  it.each<[string, string, unknown, string]>([
    ['POST', '/backfill', { from: '2021-06-01T12:00:00Z' }, 'to'],
    ['POST', '/backfill', { from: '2021-06-01', to: '2021-06-02T00:00:00Z' }, 'from'],
    ['POST', '/backfill', { from: '2021-06-01T12:00:00Z', to: '2021-06-01T14:00:00+02:00' }, 'to'],
    ['POST', '/sample', { limit: 101 }, 'limit'],
    ['POST', '/sample', { limit: 0 }, 'limit'],
    ['POST', '/sample', { size: 1 }, 'size'],
    ['PUT', '/cursor', {}, 'cursor'],
    ['PUT', '/cursor', { cursor: 'a', force: 'yes' }, 'force'],
    ['PUT', '/cursor', { cursor: 'a', reset: true }, 'reset'],
    ['PUT', '/interval', { minutes: 0 }, 'minutes'],
    ['PUT', '/interval', { minutes: null }, 'minutes'],
    ['PUT', '/interval', { minutes: 1.5 }, 'minutes'],
  ])('%s %s %j', async (method, path, body, field) => {
    const before = await test.integrations.admin.operator.detail(id)
    expect(await problemOf(await send(method, `/integrations/${id}${path}`, body))).toMatchObject({
      status: 422,
      code: 'invalid_fields',
      fields: [{ path: field }],
    })
    expect(await test.integrations.admin.operator.detail(id)).toEqual(before)
    expect(await acts()).toEqual([])
  })

  it('of a retry and of a cursor to reset', async () => {
    const row = await failed()
    for (const tries of [0, 1_001, '1'])
      expect(await problemOf(await post(`/sync-items/${row.id}/retry`, { tries }))).toMatchObject({
        status: 422,
        fields: [{ path: 'tries' }],
      })
    const response = await send('DELETE', `/integrations/${id}/cursor?force=1`)
    expect(await problemOf(response)).toMatchObject({ status: 422, fields: [{ path: 'force' }] })
    expect(test.starts.itemJobs).toEqual([])
  })

  it.each([
    ['PUT', '/cursor', ['cursor']],
    ['PUT', '/interval', ['minutes']],
    ['POST', '/backfill', ['from', 'to']],
  ])('%s %s without its body', async (method, path, fields) => {
    expect(await problemOf(await send(method, `/integrations/${id}${path}`))).toMatchObject({
      status: 422,
      code: 'invalid_fields',
      fields: fields.map((field) => ({ path: field })),
    })
  })
})

describe('a run', () => {
  const path = (action: string) => `/integrations/${id}/${action}`

  it('is started, and its progress is where the answer says', async () => {
    const response = await post(path('sync'))
    expect([response.status, response.headers.get('location'), await response.json()]).toEqual([
      202,
      `${API}/integrations/${id}/sync`,
      { integration_id: id, stream: null, outcome: 'started', run_id: expect.any(String) },
    ])
    expect(test.starts.syncs).toContain(id)
    expect(await acts()).toEqual([act('sync')])
    // Of a worker of an earlier release, which counts no unchanged records.
    progress.mockResolvedValueOnce({
      phase: 'listing',
      isPaused: false,
      syncLogId: 7,
      secondsLeft: null,
      lastFailure: null,
      listingFailure: null,
    })
    expect(await (await get(path('sync'))).json()).toEqual({
      integration_id: id,
      stream: null,
      progress: {
        phase: 'listing',
        is_paused: false,
        sync_log_id: 7,
        unchanged: 0,
        seconds_left: null,
        last_failure: null,
        listing_failure: null,
      },
    })
    progress.mockResolvedValueOnce(null)
    expect(await (await get(path('sync'))).json()).toEqual({ integration_id: id, stream: null, progress: null })
  })

  it('is remembered while one lives, and may be asked for later', async () => {
    test.starts.running.add(id)
    const again = await post(path('sync'))
    expect([again.status, await again.json()]).toEqual([
      202,
      { integration_id: id, stream: null, outcome: 'remembered' },
    ])
    const later = await post(path('sync'), { debounce_seconds: 5 })
    expect([later.status, await later.json()]).toEqual([
      202,
      { integration_id: id, stream: null, outcome: 'later', at: expect.stringMatching(/^2\d{3}-.*Z$/) },
    ])
    expect(await acts()).toEqual([act('sync'), act('sync')])
    for (const body of [{ debounce_seconds: 3_601 }, { not_before: 'soon' }, { not_before: '9000-01-01T00:00:00Z' }])
      expect((await post(path('sync'), body)).status).toBe(422)
  })

  it('is a 409 where it is switched off, a 422 where it can not be', async () => {
    await setIntegration(test, id, { isActive: false })
    const inactive = { status: 409, code: 'integration_inactive', detail: expect.stringContaining('switched off') }
    expect(await problemOf(await post(path('sync')))).toMatchObject(inactive)
    const silent = await makeIntegration(test, 'silent')
    expect(await problemOf(await post(`/integrations/${silent.id}/sync`))).toMatchObject({
      status: 422,
      code: 'unsupported_by_provider',
    })
    expect(await acts()).toEqual([])
  })

  it('is paused whether one lives or not, and resumed if one does', async () => {
    expect((await post(path('pause'))).status).toBe(202)
    expect(await problemOf(await post(path('resume')))).toMatchObject({ status: 409, code: 'not_running' })
    test.starts.running.add(id)
    const response = await post(path('resume'))
    expect([response.status, response.headers.get('location')]).toEqual([202, `${API}/integrations/${id}`])
    expect(test.starts.signals.map(({ signal }) => signal)).toEqual(['pause', 'resume', 'resume'])
    expect(await acts()).toEqual([act('pause'), act('resume')])
  })

  it('is cancelled, which is waited for', async () => {
    expect(await problemOf(await post(path('cancel')))).toMatchObject({ status: 409, code: 'not_running' })
    test.starts.running.add(id)
    const response = await post(path('cancel'))
    expect([response.status, await response.json()]).toEqual([
      200,
      { integration_id: id, stream: null, cancelled: true, forgot: false },
    ])
    expect(test.starts.cancelled).toContain(id)
    expect(await acts()).toEqual([act('cancel')])
    await test.sql`insert into integration_sync_starts (integration_id, again_at) values (${id}, now())`
    const forgetting = await post(path('cancel'), { forget: true })
    expect(await forgetting.json()).toEqual({ integration_id: id, stream: null, cancelled: false, forgot: true })
    expect(await acts()).toEqual([act('cancel'), act('forget-start')])
  })

  it('whose worker does not answer is a 503 that says so', async () => {
    progress.mockRejectedValue(new NoWorkerAnswered('integrations:sync:7', 5))
    expect(await problemOf(await get(path('sync')))).toMatchObject({
      status: 503,
      code: 'no_worker_answered',
      detail: expect.stringMatching(/^Temporal answers, but no worker answered .* see temporal\.workers\.$/),
    })
  })

  it('without Temporal is a 503, and not written down', async () => {
    const gone = { startSync: away, pauseSync: away, resumeSync: away, isSyncRunning: away, syncProgress: away }
    await withWorkflows(gone, async () => {
      for (const action of ['sync', 'pause', 'resume', 'cancel'])
        expect(await problemOf(await post(path(action)))).toMatchObject({ status: 503, code: 'backend_unreachable' })
      expect((await get(path('sync'))).status).toBe(503)
    })
    expect(await acts()).toEqual([])
  })
})

describe('a backfill', () => {
  const window = { from: '2021-06-01T12:00:00.000Z', to: '2021-06-02T12:00:00.000Z' }

  it('is started, and its runs are where the answer says', async () => {
    id = (await makeIntegration(test, 'archive')).id
    const response = await post(`/integrations/${id}/backfill`, { ...window, from: '2021-06-01T14:00:00+02:00' })
    expect([response.status, response.headers.get('location'), await response.json()]).toEqual([
      202,
      `${API}/sync-runs?integration=${id}`,
      { integration_id: id, stream: null, ...window, runs: 1 },
    ])
    expect(test.starts.backfills).toEqual([{ integrationId: id, ...window }])
    expect(await acts()).toEqual([act(`backfill ${window.from} to ${window.to}`)])
  })

  it('is a 409 while one lives or where the integration is switched off, and a 422 where the provider can not', async () => {
    const refused = await problemOf(await post(`/integrations/${id}/backfill`, window))
    expect(refused).toMatchObject({ status: 422, code: 'unsupported_by_provider' })
    id = (await makeIntegration(test, 'archive')).id
    const response = await withWorkflows({ startBackfill: async () => 'already running' }, () =>
      post(`/integrations/${id}/backfill`, window),
    )
    expect(await problemOf(response)).toMatchObject({ status: 409, code: 'already_running' })
    await setIntegration(test, id, { healthStatus: 'disabled' })
    expect(await problemOf(await post(`/integrations/${id}/backfill`, window))).toMatchObject({
      status: 409,
      code: 'integration_inactive',
      detail: expect.stringContaining('disabled by its health'),
    })
    expect(await acts()).toEqual([])
  })
})

describe('a sample', () => {
  const path = () => `/integrations/${id}/sample`

  it('shows what would be listed, and stores none of it', async () => {
    lists.mockImplementation(async (session) => {
      for (const n of [1, 2, 3]) await session.dispatch(new ThingSynced(session.integration, { n }), `c${n}`, `x${n}`)
    })
    const response = await post(path(), { limit: 1 })
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        items: [{ event_class: 'test.thing', external_id: 'x1', checkpoint_value: 'c1', bytes: expect.any(Number) }],
        more: true,
        duplicates_dropped: 0,
      },
    ])
    expect((await (await post(path())).json()) as object).toMatchObject({ items: { length: 3 }, more: false })
    expect(await logsOf(test, id, 'sync')).toEqual([run])
    expect(await acts()).toEqual([])
  })

  it.each<[string, () => Error, number, string]>([
    ['a fault of the provider is', () => new Error(`refused for ${TOKEN}`), 502, 'listing_failed'],
    [
      'a Postgres of the host that the listing loses is',
      () => Object.assign(new Error('write CONNECTION_CLOSED db.example:5432'), { code: 'CONNECTION_CLOSED' }),
      502,
      'listing_failed',
    ],
    ['what the provider refuses is', () => new InvalidArgumentException('cursor', 'a date'), 422, 'invalid_argument'],
    [
      'an open circuit is',
      () => new CircuitOpenException({ id, provider: 'acme', name: 'x' }, null, 60, null),
      503,
      'circuit_open',
    ],
  ])('%s told, and no secret', async (_, error, status, code) => {
    lists.mockImplementation(() => {
      throw error()
    })
    const response = await post(path())
    expect(await response.clone().text()).not.toContain(TOKEN)
    expect(await problemOf(response)).toMatchObject({ status, code })
    // The last one is the request's own.
    expect(test.lines.at(-2)).toMatchObject({ fields: { event: 'sync.sample_failed', integration: id } })
    expect(JSON.stringify(test.lines)).not.toContain(TOKEN)
  })
})

describe('the cursor', () => {
  const path = (query = '') => `/integrations/${id}/cursor${query}`

  it('is set and reset, which is written down', async () => {
    const set = await send('PUT', path(), { cursor: { page: [1, null] } })
    expect([set.status, await set.json()]).toEqual([
      200,
      { integration_id: id, stream: null, from: null, to: { page: [1, null] } },
    ])
    expect((await test.integrations.get(id)).syncCursor).toEqual({ page: [1, null] })
    const reset = await send('DELETE', path())
    expect([reset.status, await reset.json()]).toEqual([
      200,
      { integration_id: id, stream: null, from: { page: [1, null] }, to: null },
    ])
    expect((await send('PUT', path(), { cursor: null })).status).toBe(200)
    expect(await acts()).toEqual([act('cursor set'), act('cursor reset'), act('cursor reset')])
  })

  it.each([
    ['a whole number above 2^53', '{"cursor": 12345678901234567890}'],
    ['a fraction of too many digits', '{"cursor": {"at": 0.1234567890123456789}}'],
    ['a number beyond all', '{"cursor": [1e400]}'],
    ['too many levels', `{"cursor": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
    ['half of a surrogate pair', '{"cursor": "\\ud83d"}'],
    ['U+0000', '{"cursor": "\\u0000"}'],
  ])('is refused with %s', async (_, body) => {
    const response = await send('PUT', path(), raw(body))
    expect(response.status).toBe(422)
    expect((await test.integrations.get(id)).syncCursor).toBeNull()
  })

  it.each(['12345678901234567000', '1.50e3', '-0.0', '0.1'])('is kept with the number %s', async (number) => {
    expect((await send('PUT', path(), raw(`{"cursor": ${number}}`))).status).toBe(200)
    expect((await test.integrations.get(id)).syncCursor).toBe(JSON.parse(JSON.stringify(Number(number))))
  })

  it('is a 409 while a run lives, unless forced', async () => {
    test.starts.running.add(id)
    for (const response of [await send('PUT', path(), { cursor: 'a' }), await send('DELETE', path())])
      expect(await problemOf(response)).toMatchObject({ status: 409, code: 'integration_busy' })
    expect(await acts()).toEqual([])
    expect((await send('PUT', path(), { cursor: 'a', force: true })).status).toBe(200)
    expect(test.starts.cancelled).toContain(id)
    test.starts.running.add(id)
    expect((await send('DELETE', path(), { force: true })).status).toBe(422)
    expect((await send('DELETE', path('?force=true'))).status).toBe(200)
    expect((await test.integrations.get(id)).syncCursor).toBeNull()
  })
})

describe('the interval', () => {
  it('is set, and given back to the provider', async () => {
    const set = await send('PUT', `/integrations/${id}/interval`, { minutes: 15 })
    expect([set.status, await set.json()]).toMatchObject([200, { id, sync_interval_minutes: 15 }])
    const reset = await send('DELETE', `/integrations/${id}/interval`)
    expect([reset.status, await reset.json()]).toMatchObject([200, { id, sync_interval_minutes: null }])
    expect(await acts()).toEqual([act('interval set'), act('interval reset')])
  })

  it('is a 422 where nothing is synced', async () => {
    const { id: silent } = await makeIntegration(test, 'silent')
    const response = await send('PUT', `/integrations/${silent}/interval`, { minutes: 15 })
    expect(await problemOf(response)).toMatchObject({ status: 422, code: 'unsupported_by_provider' })
    expect(await acts(silent)).toEqual([])
  })
})

const ROUTES: readonly [string, string, unknown?][] = [
  ['POST', 'sync'],
  ['POST', 'pause'],
  ['POST', 'resume'],
  ['POST', 'cancel'],
  ['POST', 'backfill', { from: '2021-06-01T12:00:00Z', to: '2021-06-02T12:00:00Z' }],
  ['POST', 'sample'],
  ['PUT', 'cursor', { cursor: 'a' }],
  ['DELETE', 'cursor'],
  ['PUT', 'interval', { minutes: 5 }],
  ['DELETE', 'interval'],
]

it.each(ROUTES)('%s /integrations/:id/%s of one that is not there is a 404', async (method, name, body) => {
  for (const wrong of ['0', 'x', '999999999'])
    expect(await problemOf(await send(method, `/integrations/${wrong}/${name}`, body))).toMatchObject({
      status: 404,
      code: 'integration_not_found',
    })
})

it('lets a reader look, and change nothing', async () => {
  const row = await failed()
  progress.mockResolvedValue(null)
  for (const path of [
    '/sync-runs',
    `/sync-runs/${run.id}`,
    '/sync-items',
    `/sync-items/${row.id}`,
    `/integrations/${id}/sync`,
  ])
    expect((await get(path)).status).toBe(200)
  const changes: [string, string, unknown?][] = [
    ...ROUTES.map(([method, name, body]): [string, string, unknown?] => [method, `/integrations/${id}/${name}`, body]),
    ['POST', `/sync-runs/${run.id}/finalise`],
    ['POST', `/sync-items/${row.id}/retry`],
    ['POST', `/sync-items/${row.id}/skip`],
  ]
  for (const [method, path, body] of changes)
    expect(await problemOf(await send(method, path, body, READ_TOKEN))).toMatchObject({
      status: 403,
      code: 'insufficient_scope',
    })
  expect(await itemOf(test, row.id)).toEqual(row)
  expect(await acts()).toEqual([])
})

it('shows a limited token its own runs and items, and hides all others', async () => {
  const owner = { type: 'team', id }
  const own = await makeIntegration(test, 'acme', { owner })
  const ownRun = await makeRun(test, own.id, {}, { status: 'partial' })
  const ownItem = await makeItem(test, ownRun, { status: 'failed', attempts: 1, completedAt: AT })
  const foreign = await failed()
  const { token } = await test.integrations.admin.tokens.create({
    ...{ name: `team-${id}`, scope: 'operate', owner, by: 'ada' },
  })
  const as = (method: string, path: string) => send(method, path, undefined, token)
  expect(ids(await json(await as('GET', '/sync-runs')))).toEqual([ownRun.id])
  expect(ids(await json(await as('GET', '/sync-items')))).toEqual([ownItem.id])
  expect(ids(await json(await as('GET', `/sync-items?owner=team:${id}&provider=acme`)))).toEqual([ownItem.id])
  expect(ids(await json(await as('GET', `/sync-runs?provider=archive`)))).toEqual([])
  expect(await problemOf(await as('GET', '/sync-runs?owner=team:999999'))).toMatchObject({ status: 403 })
  expect(await problemOf(await as('GET', `/sync-items?integration=${id}`))).toMatchObject({ status: 404 })
  for (const [method, path] of [
    ['GET', `/sync-runs/${run.id}`],
    ['POST', `/sync-runs/${run.id}/finalise`],
    ['GET', `/sync-items/${foreign.id}`],
    ['POST', `/sync-items/${foreign.id}/retry`],
    ['POST', `/sync-items/${foreign.id}/skip`],
    ['POST', `/integrations/${id}/pause`],
    ['DELETE', `/integrations/${id}/interval`],
  ] as const)
    expect([path, (await as(method, path)).status]).toEqual([path, 404])
  expect(await itemOf(test, foreign.id)).toEqual(foreign)
  expect((await as('POST', `/sync-items/${ownItem.id}/skip`)).status).toBe(200)
  expect(await acts()).toEqual([])
})

interface Page {
  readonly data: readonly Record<string, unknown>[]
  readonly next: number | null
}

const ids = ({ data }: Page): unknown[] => data.map((row) => row.id)

const json = async (response: Response): Promise<Page> => {
  expect(response.status).toBe(200)
  return (await response.json()) as Page
}

async function get(path: string): Promise<Response> {
  return api.request(`${API}${path}`, { headers: { authorization: `Bearer ${READ_TOKEN}` } })
}

async function post(path: string, body?: unknown): Promise<Response> {
  return send('POST', path, body)
}

async function send(method: string, path: string, body?: unknown, token = OPERATE_TOKEN): Promise<Response> {
  const authorization = `Bearer ${token}`
  return api.request(
    `${API}${path}`,
    body === undefined
      ? { method, headers: { authorization } }
      : { method, headers: { authorization, 'content-type': 'application/json' }, body: textOf(body) },
  )
}

/** A body that is sent as it is written. */
const raw = (text: string) => ({ text, isRaw: true })
const textOf = (body: unknown) =>
  (body as Partial<ReturnType<typeof raw>> | null)?.isRaw === true
    ? (body as ReturnType<typeof raw>).text
    : JSON.stringify(body)

async function problemOf(response: Response): Promise<Record<string, unknown>> {
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  const problem = (await response.json()) as Record<string, unknown>
  expect(problem).toMatchObject({ status: response.status, detail: expect.any(String) })
  return problem
}
