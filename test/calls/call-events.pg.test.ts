/** Health, breaker and incidents over real calls to a server that fails, told in order. */
import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { EventName } from '../../src/events/events.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, testIntegrations } from '../support/integrations.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

const START = new Date('2031-05-01T12:00:00.000Z')
const clock = new ManualClock(START)
const encryptionKeys = encryptionKey('test')
const health = { degraded_after: 2, failing_after: 4, disabled_after: 6 }

let database: TestDatabase
let test: TestIntegrations
/** The same without a breaker. */
let unbroken: TestIntegrations
let server: Server
let url: string
let status = 200

beforeAll(async () => {
  server = createServer((_, response) => response.writeHead(status).end())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  database = await createTestDatabase()
  const options = { clock, encryptionKeys, providers: { plain: {} } }
  const breaker = { minimum_requests: 5, cooldown_seconds: 30 }
  test = testIntegrations(database.url, { ...options, config: { health, circuit_breaker: breaker } })
  unbroken = testIntegrations(database.url, { ...options, config: { health, circuit_breaker: { enabled: false } } })
})

afterAll(async () => {
  await test.close()
  await unbroken.close()
  await database.drop()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const NAMES: readonly EventName[] = [
  'RequestCompleted',
  'RequestFailed',
  'IntegrationDisabled',
  'IntegrationHealthChanged',
  'CircuitOpened',
  'CircuitClosed',
  'IncidentOpened',
  'IncidentEscalated',
  'IncidentClosed',
]

let integration: Integration
/** What was told since it was last emptied: the name and what is particular to it. */
let told: unknown[][]

beforeEach(async () => {
  clock.set(START)
  integration = await makeIntegration(test, 'plain')
  told = []
  for (const each of [test, unbroken])
    for (const name of NAMES)
      listen(each, name, ({ integration: of, ...rest }: { integration: Integration }) => {
        told.push([of.id === integration.id ? name : `${name} of another`, ...Object.values(rest)])
      })
})

async function call(answer: number): Promise<unknown[][]> {
  status = answer
  told = []
  await integration.request('things', 'GET', ({ signal }) => fetch(url, { signal }), { attempts: 1 }).catch(() => {})
  return told
}

const failed = ['RequestFailed', expect.anything(), expect.anything()]
const completed = ['RequestCompleted', expect.anything()]

function incident(values: Record<string, unknown>): unknown {
  const { id: integrationId } = integration
  return expect.objectContaining({
    integrationId,
    status: 'open',
    openedAt: START,
    lastErrorAt: START,
    closedAt: null,
    ...values,
  })
}

async function healthOf({ id }: Integration): Promise<unknown> {
  const [row] = await test.sql`
    select health_status, consecutive_failures, is_active, last_error_at from integrations where id = ${id}`
  return row
}

describe('the life of a failing integration', () => {
  it('healthy, degraded, failing, disabled; each change told once, in order, with its incident', async () => {
    integration = await unbroken.integrations.get(integration.id)
    expect(await call(500)).toEqual([failed])
    expect(await call(503)).toEqual([
      ['IntegrationHealthChanged', 'healthy', 'degraded'],
      ['IncidentOpened', incident({ source: 'health', reason: 'health_degraded', peakSeverity: 'degraded' })],
      failed,
    ])
    expect(await call(500)).toEqual([failed])
    expect(await call(500)).toEqual([
      ['IntegrationHealthChanged', 'degraded', 'failing'],
      ['IncidentEscalated', incident({ reason: 'health_degraded', peakSeverity: 'failing' }), true],
      failed,
    ])
    for (const answer of [400, 404, 408, 501]) expect(await call(answer)).toEqual([failed])
    clock.advance(60)
    expect(await call(500)).toEqual([failed])
    expect(await healthOf(integration)).toEqual({
      health_status: 'failing',
      consecutive_failures: 5,
      is_active: true,
      last_error_at: clock.now(),
    })
    expect(await call(500)).toEqual([
      ['IntegrationDisabled'],
      ['IntegrationHealthChanged', 'failing', 'disabled'],
      ['IncidentEscalated', incident({ peakSeverity: 'disabled', lastErrorAt: clock.now() }), true],
      failed,
    ])
    expect(await call(500)).toEqual([failed])
    expect(await call(200)).toEqual([completed])
    expect(await healthOf(integration)).toMatchObject({
      health_status: 'disabled',
      consecutive_failures: 0,
      is_active: false,
    })
  })

  it.each([
    [2, 'degraded'],
    [4, 'failing'],
  ])('heals at once after %i failures, and its incident ends', async (failures, status) => {
    for (let n = 0; n < failures; n += 1) await call(500)
    clock.advance(5)
    expect(await call(204)).toEqual([
      ['IntegrationHealthChanged', status, 'healthy'],
      ['IncidentClosed', incident({ status: 'closed', closedAt: clock.now() })],
      completed,
    ])
    expect(await healthOf(integration)).toMatchObject({ health_status: 'healthy', consecutive_failures: 0 })
    expect(await call(204)).toEqual([completed])
  })

  it('the breaker opens, refuses without an event, fails a probe, and closes; the incident ends with it', async () => {
    for (let n = 0; n < 4; n += 1) await call(500)
    expect(await call(500)).toEqual([
      ['CircuitOpened', 'threshold_reached', START],
      ['IncidentEscalated', incident({ source: 'health', reason: 'health_degraded', peakSeverity: 'failing' }), false],
      failed,
    ])
    expect(await call(200)).toEqual([])
    clock.advance(30)
    expect(await call(500)).toEqual([
      ['CircuitOpened', 'half_open_probe_failed', clock.now()],
      ['IncidentEscalated', expect.anything(), false],
      ['IntegrationDisabled'],
      ['IntegrationHealthChanged', 'failing', 'disabled'],
      ['IncidentEscalated', incident({ peakSeverity: 'disabled', lastErrorAt: clock.now() }), true],
      failed,
    ])
    await integration.enable()
    clock.advance(30)
    expect(await call(200)).toEqual([
      ['CircuitClosed', 'half_open_probe_succeeded'],
      ['IncidentClosed', incident({ status: 'closed', closedAt: clock.now(), lastErrorAt: expect.any(Date) })],
      completed,
    ])
  })

  it('an incident that the breaker opened says so', async () => {
    for (const answer of [200, 500, 200, 500]) await call(answer)
    expect(await call(500)).toEqual([
      ['CircuitOpened', 'threshold_reached', START],
      ['IncidentOpened', incident({ source: 'circuit', reason: 'threshold_reached', peakSeverity: 'failing' })],
      ['IntegrationHealthChanged', 'healthy', 'degraded'],
      ['IncidentEscalated', incident({ source: 'circuit', peakSeverity: 'failing' }), false],
      failed,
    ])
  })

  it('a row says in the event what it says in the table', async () => {
    const [[name, request, error] = []] = await call(500)
    const [row] = await test.sql`
      select id, duration_ms, response_data, error from integration_requests where integration_id = ${integration.id}`
    expect(name).toBe('RequestFailed')
    expect(request).toEqual({
      id: Number(row?.id),
      integrationId: integration.id,
      endpoint: 'things',
      method: 'GET',
      statusCode: 500,
      requestData: null,
      idempotencyKey: null,
      providerRequestId: null,
      responseData: row?.response_data,
      error: row?.error,
      failureClass: 'upstream',
      durationMs: row?.duration_ms,
      retryOf: null,
      relatedType: null,
      relatedId: null,
      cacheHits: 0,
      staleHits: 0,
    })
    expect(request).toMatchObject({ error: expect.stringContaining('500') })
    expect(error).toMatchObject({ code: 'http_error', status: 500 })
  })

  it('a listener that throws disturbs neither the call nor the next listener', async () => {
    listen(test, 'IntegrationHealthChanged', () => {
      throw new Error('listener')
    })
    await call(500)
    expect(await call(500)).toHaveLength(3)
    expect(test.lines.some(({ message }) => message.includes('a listener threw'))).toBe(true)
  })

  it('nor does it where the line that tells of it can not be written', async () => {
    const fail = (): never => {
      throw new Error('the disk is full')
    }
    const logger = { debug: fail, info: fail, warn: fail, error: fail }
    const silent = testIntegrations(database.url, { clock, encryptionKeys, logger, providers: { plain: {} } })
    onTestFinished(() => silent.close())
    listen(silent, 'RequestCompleted', fail)
    const own = await makeIntegration(silent, 'plain')
    expect(await own.request('things', 'GET', () => 'answered')).toBe('answered')
  })

  it('a stale integration keeps its incident when its health is back', async () => {
    await setIntegration(test, integration.id, { syncStaleAlertedAt: START })
    await call(500)
    await call(500)
    expect(await call(200)).toEqual([['IntegrationHealthChanged', 'degraded', 'healthy'], completed])
  })

  it('enable() leaves the breaker as it is', async () => {
    for (let n = 0; n < 5; n += 1) await call(500)
    await integration.enable()
    expect(await integration.circuit()).toMatchObject({ state: 'open', openedAt: START })
  })
})

describe('recordFailure() and recordSuccess()', () => {
  it('count for health, with its events, and leave no request row', async () => {
    await integration.recordFailure('upstream')
    for (const failureClass of ['throttle', 'client', 'unknown'] as const) await integration.recordFailure(failureClass)
    expect(told).toEqual([])
    await integration.recordFailure('upstream')
    expect(told).toEqual([
      ['IntegrationHealthChanged', 'healthy', 'degraded'],
      ['IncidentOpened', incident({ source: 'health' })],
    ])
    told = []
    await integration.recordSuccess()
    expect(told).toEqual([
      ['IntegrationHealthChanged', 'degraded', 'healthy'],
      ['IncidentClosed', incident({ status: 'closed', closedAt: START })],
    ])
    expect((await integration.circuit()).failures).toBe(0)
    const [rows] = await test.sql`
      select count(*)::int as n from integration_requests where integration_id = ${integration.id}`
    expect(rows?.n).toBe(0)
  })

  it('refuse another word, and an integration that is gone', async () => {
    await expect(integration.recordFailure('upstreem' as never)).rejects.toMatchObject({ code: 'invalid_argument' })
    // What a provider's classifyFailure() answers where it has no opinion: it is no success.
    await expect(integration.recordFailure(null as never)).rejects.toMatchObject({ code: 'invalid_argument' })
    await test.integrations.delete(integration.id)
    await expect(integration.recordFailure('upstream')).rejects.toMatchObject({ code: 'integration_not_found' })
    await expect(integration.recordSuccess()).rejects.toMatchObject({ code: 'integration_not_found' })
  })
})
