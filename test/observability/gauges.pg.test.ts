/** What /metrics asks of the database, and who may ask. Rule: docs/behaviour/metrics.md, "Gauges" and "Scraping". */
import type { Socket } from 'node:net'
import { createServer } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { createWorkerApp } from '../../src/api/metrics-routes.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { HasStreams } from '../../src/providers/contracts.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { READ_TOKEN, TOKENS, WRONG_TOKEN } from '../support/operators.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook, setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import type { Sample } from './prometheus-text.ts'
import { readMetrics, sumsBy } from './prometheus-text.ts'

const listing = { sync: async () => {}, reduceCheckpoints: () => null }
const CRM: HasStreams = { defaultRateLimit: () => null, streams: { contacts: listing, deals: listing } }

let database: TestDatabase
let test: TestIntegrations

const made = (config: ConfigInput = {}, url = database.url): TestIntegrations =>
  testIntegrations(url, { providers: { acme: webhookProvider(), crm: CRM }, config })

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

// An answer is given again for 5 s: each test has an object of its own.
beforeEach(async () => {
  test = made({ circuit_breaker: { minimum_requests: 1 } })
  await test.sql`truncate integrations cascade`
  return () => test.close()
})

const readOnce = async (of = test) => readMetrics(await of.integrations.admin.metrics.text())
/** Postgres is left out where it does not answer in time, as on a machine that stands still: then it is asked anew. */
async function samples(of = test): Promise<Sample[]> {
  let found: Sample[] = []
  await expect
    .poll(async () => {
      found = await readOnce(of)
      return sumsBy(found, 'database_up')
    })
    .toEqual({ '': 1 })
  return found
}
const sums = async (name: string, label = '') => sumsBy(await samples(), name, label)

describe('the gauges', () => {
  it('count webhooks and items that are not done, dismissed ones apart', async () => {
    const { id } = await makeIntegration(test, 'acme')
    for (const status of ['pending', 'pending', 'processing', 'processed', 'failed'] as const)
      await makeWebhook(test, id, { status })
    await makeWebhook(test, id, { status: 'failed', dismissedAt: new Date() })
    const run = await makeRun(test, id)
    for (const status of ['pending', 'processing', 'processing', 'success', 'failed', 'skipped'] as const)
      await makeItem(test, run, { status })
    const read = await samples()
    expect(sumsBy(read, 'webhooks', 'status')).toEqual({ pending: 2, processing: 1, failed: 1 })
    expect(sumsBy(read, 'sync_items', 'status')).toEqual({ pending: 1, processing: 2, failed: 1 })
  })

  it('tell how long the slowest inbox makes its next row wait, since it arrived or was replayed', async () => {
    const [slow, other, disabled] = [
      await makeIntegration(test, 'acme'),
      await makeIntegration(test, 'acme'),
      await makeIntegration(test, 'acme'),
    ]
    const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
    // Replayed a moment ago.
    await makeWebhook(test, other.id, { createdAt: ago(90_000), updatedAt: ago(1), replayAttempt: 1 })
    // Taken and handed back a moment ago, as over and over.
    await makeWebhook(test, slow.id, { createdAt: ago(300), updatedAt: ago(1) })
    await makeWebhook(test, slow.id)
    // Waits for an operator, not for a worker.
    await makeWebhook(test, disabled.id, { createdAt: ago(5_000), updatedAt: ago(5_000) })
    await setIntegration(test, disabled.id, { healthStatus: 'disabled' })
    const { '': seconds } = await sums('webhook_oldest_pending_seconds')
    expect(seconds).toBeGreaterThanOrEqual(300)
    expect(seconds).toBeLessThan(400)
  })

  it('count circuits that are open by themselves or by force, and not those that only say so', async () => {
    const broken = await makeIntegration(test, 'acme')
    for (let n = 0; n < 3; n += 1)
      await expect(
        broken.request('/x', 'POST', () => new Response('', { status: 503 }), { attempts: 1 }),
      ).rejects.toThrow()
    const { state } = await broken.circuit()
    expect(state).toBe('open')
    const forced = await makeIntegration(test, 'acme')
    await setIntegration(test, forced.id, { circuitOverride: 'forced_open' })
    const over = await makeIntegration(test, 'acme')
    await setIntegration(test, over.id, { circuitOverride: 'forced_open', circuitOverrideUntil: new Date(0) })
    const held = await makeIntegration(test, 'acme')
    await setIntegration(test, held.id, { circuitOverride: 'forced_closed' })
    expect(await sums('circuit_open')).toEqual({ '': 2 })
  })

  it('judge the end of an override by the clock of the host', async () => {
    const at = Date.parse('2020-01-01T00:00:00Z')
    let now = at
    const past = testIntegrations(database.url, {
      providers: { acme: webhookProvider() },
      clock: { now: () => new Date(now) },
    })
    try {
      const forced = await makeIntegration(past, 'acme')
      await setIntegration(past, forced.id, { circuitOverride: 'forced_open', circuitOverrideUntil: new Date(at + 1) })
      expect(sumsBy(await samples(past), 'circuit_open')).toEqual({ '': 1 })
    } finally {
      await past.close()
    }
    now = at + 1
    const over = testIntegrations(database.url, {
      providers: { acme: webhookProvider() },
      clock: { now: () => new Date(now) },
    })
    try {
      expect(sumsBy(await samples(over), 'circuit_open')).toEqual({})
    } finally {
      await over.close()
    }
  })

  it('find the state of calls also where the cache prefix has a 0 in it', async () => {
    const zero = made({ cache_prefix: 'acme0', circuit_breaker: { minimum_requests: 1 } })
    try {
      const broken = await makeIntegration(zero, 'acme')
      for (let n = 0; n < 3; n += 1)
        await expect(
          broken.request('/x', 'POST', () => new Response('', { status: 503 }), { attempts: 1 }),
        ).rejects.toThrow()
      expect(sumsBy(await samples(zero), 'circuit_open')).toEqual({ '': 1 })
    } finally {
      await zero.close()
    }
  })

  it('are read though all connections of the pool are busy', async () => {
    const busy = testIntegrations(database.url, { providers: { acme: webhookProvider() }, pool: { max: 1 } })
    let held: Promise<void> = Promise.resolve()
    const release = await new Promise<() => void>((begun) => {
      held = busy.framework.db.transaction(() => new Promise<void>((end) => begun(() => end())))
    })
    try {
      // Left out if it waited for the pool, which is busy all the while.
      expect(sumsBy(await samples(busy), 'database_up')).toEqual({ '': 1 })
    } finally {
      release()
      await held
      await busy.close()
    }
  })

  it('count incidents, health and staleness', async () => {
    const one = await makeIntegration(test, 'acme')
    const other = await makeIntegration(test, 'acme')
    await makeIncident(test, one.id, { source: 'circuit' })
    await makeIncident(test, other.id, { source: 'sync' })
    await setIntegration(test, other.id, { healthStatus: 'failing', syncStaleAlertedAt: new Date() })
    const read = await samples()
    expect(sumsBy(read, 'incidents_open', 'source')).toEqual({ circuit: 1, sync: 1 })
    expect(sumsBy(read, 'health', 'status')).toEqual({ healthy: 1, failing: 1 })
    expect(sumsBy(read, 'sync_stale')).toEqual({ '': 1 })
  })

  it('count an incident as unattended until it is acknowledged, and while it is not snoozed', async () => {
    const incident = async (more: Parameters<typeof makeIncident>[2]) =>
      makeIncident(test, (await makeIntegration(test, 'acme')).id, more)
    const at = new Date()
    const inAnHour = new Date(at.getTime() + 3_600_000)
    await incident({ source: 'circuit', acknowledgedAt: at, acknowledgedBy: 'ada' })
    await incident({ source: 'sync', snoozedUntil: inAnHour, snoozedBy: 'ada' })
    await incident({ source: 'health', snoozedUntil: new Date(at.getTime() - 1_000), snoozedBy: 'ada' })
    await incident({ source: 'oauth' })
    await incident({ source: 'oauth', status: 'closed', closedAt: at })
    const read = await samples()
    expect(sumsBy(read, 'incidents_open', 'source')).toEqual({ circuit: 1, sync: 1, health: 1, oauth: 1 })
    expect(sumsBy(read, 'incidents_unattended', 'source')).toEqual({ health: 1, oauth: 1 })
  })

  it('count stale streams by name, and none that its provider does not declare', async () => {
    for (const integration of [await makeIntegration(test, 'crm'), await makeIntegration(test, 'crm')])
      await test.sql`insert into integration_streams (integration_id, stream, sync_stale_alerted_at)
        values (${integration.id}, 'contacts', now()), (${integration.id}, 'deals', null), (${integration.id}, 'old', now())`
    expect(sumsBy(await samples(), 'sync_streams_stale', 'stream')).toEqual({ contacts: 2 })
  })

  it('count no trouble of integrations that a person has switched off', async () => {
    const [on, byHealth, byPerson] = [
      await makeIntegration(test, 'crm'),
      await makeIntegration(test, 'crm'),
      await makeIntegration(test, 'crm'),
    ]
    for (const { id } of [on, byHealth, byPerson]) {
      await setIntegration(test, id, { syncStaleAlertedAt: new Date(), circuitOverride: 'forced_open' })
      await test.sql`insert into integration_streams (integration_id, stream, sync_stale_alerted_at) values (${id}, 'contacts', now())`
      await makeIncident(test, id, { source: 'sync' })
    }
    await setIntegration(test, byHealth.id, { isActive: false, healthStatus: 'disabled' })
    await test.integrations.disable(byPerson.id)
    const read = await samples()
    for (const name of ['sync_stale', 'sync_streams_stale', 'circuit_open', 'incidents_open', 'incidents_unattended'])
      expect([name, sumsBy(read, name)]).toEqual([name, { '': 2 }])
  })

  it('are asked once for scrapes that follow each other', async () => {
    const { id } = await makeIntegration(test, 'acme')
    await makeWebhook(test, id)
    // The five seconds for which an answer is given again pass only where Postgres has not answered.
    let now = performance.now()
    vi.spyOn(performance, 'now').mockImplementation(() => now)
    await vi.waitFor(async () => {
      now += 6_000
      expect(sumsBy(await readOnce(), 'database_up')).toEqual({ '': 1 })
    }, SOON)
    await makeWebhook(test, id)
    expect(await sums('webhooks', 'status')).toEqual({ pending: 1 })
  })

  it('are left out, and the counters are not, when Postgres refuses', async () => {
    const alone = made({}, 'postgres://nobody@127.0.0.1:1/none')
    alone.framework.metrics.wakeUpFailed()
    const found = await readOnce(alone)
    expect(sumsBy(found, 'wakeups_failed_total')).toEqual({ '': 1 })
    expect(found.find(({ name }) => name === 'integrations_database_up')?.value).toBe(0)
    expect(found.some(({ name }) => name === 'integrations_webhooks')).toBe(false)
    expect(alone.lines.map(({ fields }) => fields.event)).toContain('metrics.database_unread')
    await alone.close()
  })

  it('are left out in time when Postgres says nothing, however often they are asked', { timeout: 60_000 }, async () => {
    const sockets: Socket[] = []
    const mute = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1')
    await new Promise((listening) => mute.once('listening', listening))
    const { port } = mute.address() as { port: number }
    const alone = made({}, `postgres://nobody@127.0.0.1:${port}/none?connect_timeout=60`)
    try {
      const startedAt = performance.now()
      const all = await Promise.all([readOnce(alone), readOnce(alone), readOnce(alone)])
      // After four seconds, and however slow the machine is, long before the connection itself is given up.
      expect(performance.now() - startedAt).toBeLessThan(20_000)
      for (const found of all) expect(found.find(({ name }) => name === 'integrations_database_up')?.value).toBe(0)
      expect(sockets).toHaveLength(1)
    } finally {
      for (const socket of sockets) socket.destroy()
      mute.close()
      await alone.close()
    }
  })
})

describe('who may read /metrics', () => {
  const asked = async (config: ConfigInput, headers: Record<string, string> = {}): Promise<number> => {
    const of = made(config)
    try {
      return (await createApi(of.integrations).request('/metrics', { headers })).status
    } finally {
      await of.close()
    }
  }
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const tokens = { operator: { tokens: TOKENS } }

  it.each([
    ['nobody, where there is neither a token nor leave', {}, {}, 404],
    ['nobody without a token', tokens, {}, 401],
    ['nobody with a wrong token', tokens, bearer(WRONG_TOKEN), 401],
    ['a token that may read', tokens, bearer(READ_TOKEN), 200],
    ['everybody, where it is open', { metrics: { open: true } }, {}, 200],
  ])('%s', async (_, config, headers, status) => {
    expect(await asked(config as ConfigInput, headers)).toBe(status)
  })

  it("asks the same on a worker's port, and answers /healthz to everybody", async () => {
    const of = made(tokens as ConfigInput)
    let isPolling = false
    const app = createWorkerApp(of.integrations, { isPolling: () => isPolling, more: async () => 'temporal_x 1\n' })
    expect((await app.request('/metrics')).status).toBe(401)
    expect(await (await app.request('/metrics', { headers: bearer(READ_TOKEN) })).text()).toContain('\ntemporal_x 1\n')
    // Open because it listens on loopback: a page whose name was re-pointed to this machine has another Host.
    const here = createWorkerApp(of.integrations, { isPolling: () => isPolling, isOpen: true, isOpenHereOnly: true })
    for (const [host, status] of [
      ['127.0.0.1:9464', 200],
      ['attacker.example:9464', 403],
    ] as const)
      expect((await here.request('/metrics', { headers: { host } })).status).toBe(status)
    expect((await app.request('/healthz')).status).toBe(503)
    isPolling = true
    expect((await app.request('/healthz')).status).toBe(200)
    await of.close()
  })
})
