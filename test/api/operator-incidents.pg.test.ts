/** What the operator API and its pages tell of trouble: incidents, an integration's health, figures over all. */
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, READ_TOKEN, TOKENS } from '../support/operators.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeRun, makeWebhook, setIntegration } from '../support/rows.ts'

const API = '/operator/api/v1'
const AT = new Date('2031-06-01T12:00:00.000Z')
const BEFORE = new Date('2031-06-01T11:59:59.999Z')

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let integration: Integration
let id: number

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: webhookProvider(), other: {} },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  api = createApi(test.integrations)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  integration = await makeIntegration(test, 'acme', { name: 'ours', owner: { type: 'team', id: 7 } })
  id = integration.id
})

const closed = { status: 'closed', closedAt: AT } as const

describe('the incidents', () => {
  it('are listed by the names of their columns, newest first, page by page', async () => {
    const older = await makeIncident(test, id, { ...closed, openedAt: BEFORE })
    const newer = await makeIncident(test, id, { source: 'circuit', reason: 'threshold_reached', openedAt: AT })
    const first = await json('/incidents?limit=1')
    expect(first).toEqual({
      data: [
        {
          id: newer.id,
          integration_id: id,
          provider: 'acme',
          integration_name: 'ours',
          status: 'open',
          source: 'circuit',
          reason: 'threshold_reached',
          peak_severity: 'degraded',
          opened_at: AT.toISOString(),
          last_error_at: null,
          closed_at: null,
          acknowledged_at: null,
          acknowledged_by: null,
          snoozed_until: null,
          snoozed_by: null,
          annotations: [],
        },
      ],
      next: newer.id,
    })
    expect(await json(`/incidents?limit=1&after=${newer.id}`)).toMatchObject({ data: [{ id: older.id }], next: null })
  })

  it.each<[string, readonly number[]]>([
    ['status=closed', [0]],
    ['source=sync', [2]],
    ['since=2031-06-01T12:00:00Z', [2, 1]],
    ['until=2031-06-01T14:00:00%2B02:00', [0]],
    ['owner=team:7', [1, 0]],
    ['integration=ID', [1, 0]],
  ])('?%s', async (filter, expected) => {
    const other = await makeIntegration(test, 'acme')
    const rows = [
      await makeIncident(test, id, { ...closed, openedAt: BEFORE }),
      await makeIncident(test, id, { openedAt: AT }),
      await makeIncident(test, other.id, { source: 'sync', openedAt: AT }),
    ]
    const { data } = await json(`/incidents?${filter.replace('ID', String(id))}`)
    expect(data).toMatchObject(expected.map((index) => ({ id: rows[index]?.id })))
  })

  it.each(['limit=201', 'status=lost', 'source=weather', 'integration=0', 'since=today', 'unknown=1', 'owner=team'])(
    '?%s is a 422 with the field',
    async (query) => {
      const response = await get(`/incidents?${query}`)
      expect([response.status, await response.json()]).toMatchObject([422, { code: 'invalid_fields' }])
    },
  )

  it('have a detail each', async () => {
    const { id: incident } = await makeIncident(test, id, { lastErrorAt: BEFORE })
    expect(await json(`/incidents/${incident}`)).toMatchObject({
      id: incident,
      integration_id: id,
      last_error_at: BEFORE.toISOString(),
    })
  })

  it.each(['0', '01', 'x', '999999999', '9007199254740992'])('of the id %s are a 404', async (wrong) => {
    const response = await get(`/incidents/${wrong}`)
    expect([response.status, await response.json()]).toMatchObject([404, { code: 'incident_not_found' }])
  })
})

describe('the health of an integration', () => {
  it('is told with its open incident, its failures and its figures of a day', async () => {
    await setIntegration(test, id, { healthStatus: 'failing', consecutiveFailures: 12, lastErrorAt: BEFORE })
    const { id: incident } = await makeIncident(test, id, { openedAt: AT })
    await test.sql`
      insert into integration_requests (integration_id, endpoint, method, duration_ms, failure_class, error)
      values (${id}, '/things', 'GET', 10, null, null), (${id}, '/things', 'GET', 30, 'upstream', 'HTTP 503')`
    const report = await json(`/integrations/${id}/health`)
    expect(report).toMatchObject({
      id,
      provider: 'acme',
      health_status: 'failing',
      consecutive_failures: 12,
      last_error_at: BEFORE.toISOString(),
      incident: { id: incident, integration_id: id, opened_at: AT.toISOString() },
      requests_24h: 2,
      error_rate_24h: 50,
      failures_24h: { upstream: 1, throttle: 0, client: 0, unknown: 0 },
      mean_ms_24h: 20,
      top_errors_24h: [{ error: 'HTTP 503', requests: 1 }],
      identity: null,
    })
    // One report, whoever asks.
    expect(report).toEqual((await runCommand(test.integrations, ['health', String(id), '--json'])).json())
    // What is not to be counted is null; the rest stays.
    const uncounted = {
      requests_24h: null,
      error_rate_24h: null,
      failures_24h: null,
      mean_ms_24h: null,
      p95_ms_24h: null,
      top_errors_24h: null,
    }
    expect(await json(`/integrations/${id}/health?traffic=false`)).toEqual({ ...(report as object), ...uncounted })
    const { data } = (await json('/integrations')) as { data: { id: number }[] }
    const own = data.find((row) => row.id === id)
    expect(own).toMatchObject({ requests_24h: 2, error_rate_24h: 50 })
    const { data: without } = (await json('/integrations?traffic=false')) as { data: { id: number }[] }
    expect(without).toContainEqual({
      ...own,
      requests_24h: null,
      error_rate_24h: null,
    })
  })

  it('has no incident when none is open, and is a 404 for an id that nobody has', async () => {
    await makeIncident(test, id, closed)
    expect(await json(`/integrations/${id}/health`)).toMatchObject({ incident: null, requests_24h: 0 })
    const response = await get('/integrations/999999999/health')
    expect([response.status, await response.json()]).toMatchObject([404, { code: 'integration_not_found' }])
  })
})

describe('the figures', () => {
  it('are over all integrations, or those of a provider', async () => {
    const other = await makeIntegration(test, 'other')
    await test.sql`
      insert into integration_requests (integration_id, endpoint, method, duration_ms, failure_class, error)
      values (${id}, '/things', 'GET', 10, null, null), (${other.id}, '/things', 'GET', 30, 'upstream', 'HTTP 503')`
    await makeRun(test, id, {}, { status: 'partial' })
    await makeWebhook(test, id, { status: 'failed' })
    expect(await json('/stats')).toMatchObject({
      since: '24h',
      provider: null,
      requests: 2,
      error_rate: 50,
      mean_ms: 20,
      syncs: { partial: 1 },
      webhooks: { failed: 1 },
    })
    expect(await json('/stats?provider=other&since=7d')).toMatchObject({
      since: '7d',
      provider: 'other',
      requests: 1,
      error_rate: 100,
      cache_hit_rate: 0,
    })
  })

  it('of another span are a 422', async () => {
    expect((await get('/stats?since=1y')).status).toBe(422)
  })
})

describe('the pages', () => {
  const page = async (path: string): Promise<string> => {
    const response = await api.request(`/operator${path}`, {
      headers: { authorization: `Bearer ${READ_TOKEN}`, accept: 'text/html' },
    })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=UTF-8'])
    return response.text()
  }

  it('name the open incidents on the first one, with the way to each', async () => {
    const one = await makeIncident(test, id)
    expect(await page('')).toContain(`/operator/incidents/${one.id}"`)
  })

  it('list them, newest first and escaped, by status', async () => {
    const hostile = await makeIntegration(test, 'acme', { name: '<script>alert(1)</script>' })
    const shut = await makeIncident(test, id, { ...closed, openedAt: BEFORE })
    const open = await makeIncident(test, hostile.id, { openedAt: AT, lastErrorAt: AT })
    const all = await page('/incidents')
    expect(all.indexOf(`>${open.id}<`)).toBeLessThan(all.indexOf(`>${shut.id}<`))
    expect(all).toContain('&lt;script&gt;alert(1)&lt;/script&gt;')
    expect(all).not.toContain('<script>')
    expect(all).toContain('<time datetime="2031-06-01T12:00:00.000Z">2031-06-01 12:00:00</time>')
    expect(await page('/incidents?status=open')).not.toContain(`>${shut.id}<`)
    expect(await page('/incidents?status=closed')).not.toContain(`>${open.id}<`)
  })

  it('lead from fifty to the older ones, of the same status', async () => {
    await test.sql`
      insert into integration_incidents (integration_id, status, source, reason, peak_severity, opened_at, closed_at)
      select ${id}, 'closed', 'sync', 'sync_stale', 'failing', now(), now() from generate_series(1, 51)`
    const older = /href="\S*\/operator(\/incidents\?status=closed&amp;after=\d+)"/.exec(
      await page('/incidents?status=closed'),
    )?.[1]
    const second = await page((older ?? '').replace('&amp;', '&'))
    expect(second.match(/scope="row"/g)).toHaveLength(1)
    expect(second).not.toContain('>Older<')
  })
})

async function get(path: string): Promise<Response> {
  return api.request(`${API}${path}`, { headers: { authorization: `Bearer ${READ_TOKEN}` } })
}

async function json(path: string): Promise<Record<string, unknown>> {
  const response = await get(path)
  expect([path, response.status]).toEqual([path, 200])
  return (await response.json()) as Record<string, unknown>
}
