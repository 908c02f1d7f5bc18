/** The shared state of calls on a real Postgres: what a call writes and waits for, and what happens while Postgres is away. */
import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { CallOutcome } from '../../../src/calls/admission/call-queries.ts'
import { admitted, settled } from '../../../src/calls/admission/call-state.ts'
import { callTarget } from '../../../src/calls/call-target.ts'
import { RateLimit } from '../../../src/calls/rate-limit-rules.ts'
import type { IntegrationProvider } from '../../../src/providers/contracts.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../../support/integrations.ts'
import { requestValues } from '../../support/request-values.ts'
import { makeIntegration, setIntegration } from '../../support/rows.ts'
import { SOON } from '../../support/soon.ts'

const encryptionKeys = encryptionKey('test')
const THREE_WEEKS_SECONDS = 21 * 86_400
/** What is left of a minute that began within the last seconds, on a machine that may have stood still meanwhile. */
const ofAMinute = expect.toSatisfy((seconds: number) => seconds > 30 && seconds <= 60)
const providers = {
  plain: {},
  once: { defaultRateLimit: () => RateLimit.per(1, 1).sliding() },
  // Counted from its first call: a fixed window might begin anew between two calls.
  daily: { defaultRateLimit: () => RateLimit.perDay(1).sliding() },
  // Leases are of fixed windows only; the next one of these begins in three weeks, seldom in the middle of a test.
  busy: { defaultRateLimit: () => RateLimit.per(100_000, THREE_WEEKS_SECONDS) },
  throwing: {
    defaultRateLimit: () => {
      throw new Error('no limit')
    },
  },
  zero: { defaultRateLimit: () => ({ limit: 0, seconds: 1, window: 'fixed' }) },
  text: { defaultRateLimit: () => ({ limit: '5', seconds: 1, window: 'fixed' }) },
  half: { defaultRateLimit: () => ({ limit: 5, seconds: 0.5, window: 'rolling' }) },
} as unknown as Record<string, IntegrationProvider>
let database: TestDatabase
let test: TestIntegrations
beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys,
    providers,
    config: { circuit_breaker: { strategy: 'count', threshold: 2 }, health: { degraded_after: 2 } },
  })
})
afterEach(() => {
  vi.restoreAllMocks()
})
afterAll(async () => {
  await test?.close()
  await database?.drop()
})

const ROW = requestValues({ response_data: '{"text":"a\u0000b"}' })
const outcome = (given: Partial<CallOutcome> = {}): CallOutcome => ({
  owner: 'somebody',
  generation: null,
  class: null,
  quietForMs: null,
  quietUntil: null,
  row: ROW,
  ...given,
})

/** Admits a call and settles it. */
async function call(integration: Integration, failureClass: CallOutcome['class'] = null, using = test) {
  const ticket = await admitted(using.framework, integration, undefined)
  return settled(using.framework, integration, outcome({ ...ticket, class: failureClass }))
}
const kinds = ({ events }: Awaited<ReturnType<typeof settled>>) => events.map(({ kind }) => kind)
const versionsOf = async (id: number) => {
  const [row] = await test.sql<{ xmin: string }[]>`select xmin::text from integrations where id = ${id}`
  return row?.xmin
}
async function openedLongAgo(integration: Integration): Promise<void> {
  await test.sql`update integration_cache set value = jsonb_set(value, '{breaker,openedAt}', '1')
    where key = ${callTarget(test.framework, integration).key}`
}

describe('a call that succeeds', () => {
  it('costs two statements, and writes its row and the shared state only', async () => {
    const integration = await makeIntegration(test, 'plain')
    const before = await versionsOf(integration.id)
    const execute = vi.spyOn(test.framework.db, 'execute')
    const joined = vi.spyOn(test.framework.callDb, 'execute')
    const { rowId, events } = await call(integration)
    expect([execute.mock.calls.length, joined.mock.calls.length]).toEqual([2, 0])
    await call(integration)
    expect([execute.mock.calls.length, joined.mock.calls.length]).toEqual([2, 2])
    expect(events).toEqual([])
    expect(await versionsOf(integration.id)).toBe(before)
    const rows =
      await test.sql`select id::int, endpoint, response_data from integration_requests where integration_id = ${integration.id} order by id`
    // A text with U+0000 is legal in a response and none for jsonb: it must not fail what it is joined with.
    expect(rows).toHaveLength(2)
    expect(rows[0]).toEqual({ id: rowId, endpoint: '/things', response_data: '{"text":"a\ufffdb"}' })
    expect(rows[1]).toMatchObject({ endpoint: '/things', response_data: '{"text":"a\ufffdb"}' })
    const [state] =
      await test.sql`select value from integration_cache where key = ${`integrations:integration:${integration.id}:calls`}`
    expect(state?.value.breaker).toMatchObject({ state: 'closed', generation: 0 })
  })

  it('joins what meets: fifty at once are a few statements, each with its own row', async () => {
    const integration = await makeIntegration(test, 'plain')
    const execute = vi.spyOn(test.framework.db, 'execute')
    const calls = await Promise.all(Array.from({ length: 50 }, () => call(integration)))
    expect(new Set(calls.map(({ rowId }) => rowId)).size).toBe(50)
    expect(execute.mock.calls.length).toBeLessThanOrEqual(6)
  })

  it('keeps its row when another one that it was joined with can not be written', async () => {
    const integration = await makeIntegration(test, 'plain')
    const first = settled(test.framework, integration, outcome())
    // Those two wait for the first, and go together.
    const bad = settled(test.framework, integration, outcome({ row: { ...ROW, method: 'x'.repeat(300) } }))
    const good = settled(test.framework, integration, outcome())
    expect((await first).rowId).not.toBeNull()
    expect((await good).rowId).not.toBeNull()
    expect((await bad).rowId).toBeNull()
    expect(test.lines.at(-1)).toMatchObject({
      level: 'error',
      message: expect.stringContaining('could not be written'),
    })
  })
})

describe('the breaker', () => {
  it('opens, refuses, lets one probe through and closes; with an incident over its life', async () => {
    const integration = await makeIntegration(test, 'plain')
    expect(kinds(await call(integration, 'upstream'))).toEqual([])
    expect(kinds(await call(integration, 'upstream'))).toEqual([
      'circuit_opened',
      'incident_opened',
      'health',
      'incident_escalated',
    ])
    await expect(call(integration)).rejects.toMatchObject({
      code: 'circuit_open',
      cooldownSeconds: 60,
      retryAfterSeconds: ofAMinute,
    })
    await openedLongAgo(integration)
    const probe = await admitted(test.framework, integration, undefined)
    await expect(admitted(test.framework, integration, undefined)).rejects.toMatchObject({
      code: 'circuit_open',
      retryAfterSeconds: null,
    })
    expect(kinds(await settled(test.framework, integration, outcome(probe)))).toEqual([
      'circuit_closed',
      'health',
      'incident_closed',
    ])
    expect(
      await test.sql`select source, reason, status, peak_severity from integration_incidents where integration_id = ${integration.id}`,
    ).toEqual([{ source: 'circuit', reason: 'threshold_reached', status: 'closed', peak_severity: 'failing' }])
  })

  it('survives the process: another one finds it open', async () => {
    const integration = await makeIntegration(test, 'plain')
    await call(integration, 'upstream')
    await call(integration, 'upstream')
    const other = testIntegrations(database.url, { encryptionKeys, providers })
    onTestFinished(() => other.close())
    await expect(admitted(other.framework, integration, undefined)).rejects.toMatchObject({ code: 'circuit_open' })
  })

  it('has its slot back at once when the prober gives up while its admission is under way', async () => {
    const integration = await makeIntegration(test, 'plain')
    await call(integration, 'upstream')
    await call(integration, 'upstream')
    await openedLongAgo(integration)
    const controller = new AbortController()
    const given = admitted(test.framework, integration, controller.signal)
    controller.abort(new Error('had enough'))
    await expect(given).rejects.toThrow('had enough')
    await expect(admitted(test.framework, integration, undefined)).resolves.toMatchObject({ generation: 2 })
  })
})

describe('an incident', () => {
  it.each([
    { name: 'while the sync is stale', values: { syncStaleAlertedAt: new Date() }, closes: false },
    { name: 'when nothing else is wrong', values: { name: 'another' }, closes: true },
  ])('is closed by a success: $name: $closes', async ({ values, closes }) => {
    const integration = await makeIntegration(test, 'plain')
    await settled(test.framework, integration, outcome({ class: 'upstream' }))
    expect(kinds(await settled(test.framework, integration, outcome({ class: 'upstream' })))).toEqual([
      'health',
      'incident_opened',
    ])
    await setIntegration(test, integration.id, values)
    const after = kinds(await settled(test.framework, integration, outcome()))
    expect(after).toEqual(closes ? ['health', 'incident_closed'] : ['health'])
  })

  it('stays open while the circuit is, though the health is back', async () => {
    const integration = await makeIntegration(test, 'plain')
    await call(integration, 'upstream')
    await call(integration, 'upstream')
    expect(kinds(await settled(test.framework, integration, outcome()))).toEqual(['health'])
  })
})

describe('waiting', () => {
  it('sleeps until a unit is free', async () => {
    const integration = await makeIntegration(test, 'once')
    // Before the first: the second waits from its unit on, however long the settlement between them takes.
    const startedAt = performance.now()
    await call(integration)
    await call(integration)
    expect(performance.now() - startedAt).toBeGreaterThan(900)
  })

  it('is refused at once when it would be longer than allowed; the refusal names the limit', async () => {
    const integration = await makeIntegration(test, 'daily')
    await call(integration)
    const refusal = await admitted(test.framework, integration, undefined).catch((error: unknown) => error)
    expect(refusal).toMatchObject({
      code: 'rate_limit_exceeded',
      rateLimit: { limit: 1, seconds: 86_400, window: 'sliding' },
    })
    const rows = await test.sql`select id from integration_requests where integration_id = ${integration.id}`
    expect(rows).toHaveLength(1)
  })

  it('is refused while the provider has asked for quiet, under any override', async () => {
    const integration = await makeIntegration(test, 'plain')
    await setIntegration(test, integration.id, { circuitOverride: 'forced_closed' })
    await settled(test.framework, integration, outcome({ class: 'throttle', quietForMs: 60_000 }))
    const refusal = await admitted(test.framework, integration, undefined).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'rate_limit_exceeded', rateLimit: null, retryAfterSeconds: ofAMinute })
  })

  it('ends with the reason of a caller that gives up', async () => {
    // It may sleep for a day, so that its unit is not free before the caller gives up.
    const patient = testIntegrations(database.url, {
      encryptionKeys,
      providers,
      config: { rate_limiting: { max_wait_seconds: 86_400 } },
    })
    onTestFinished(() => patient.close())
    const integration = await patient.integrations.get((await makeIntegration(test, 'daily')).id)
    await call(integration, null, patient)
    const controller = new AbortController()
    const waiting = admitted(patient.framework, integration, controller.signal)
    setTimeout(() => controller.abort(new Error('had enough')), 50)
    await expect(waiting).rejects.toThrow('had enough')
  })

  it('warns once of an override that is none, and goes on without it', async () => {
    const integration = await makeIntegration(test, 'plain')
    await setIntegration(test, integration.id, { rateLimitOverride: { limit: '5' }, circuitOverride: 'ajar' })
    const before = test.lines.length
    for (let calls = 0; calls < 3; calls += 1) await call(integration)
    expect(test.lines.slice(before).map(({ level, message }) => `${level}: ${message}`)).toEqual([
      'warn: rate_limit_override holds no limit; it is ignored',
      'warn: circuit_override holds no override; it is ignored',
    ])
  })
})

describe('under a steady load', () => {
  /** Time stands still, so that no lease ends by itself. Returns the statements that the next calls cost to be admitted. */
  async function leased(integration: Integration) {
    vi.restoreAllMocks()
    await call(integration)
    vi.spyOn(performance, 'now').mockReturnValue(performance.now())
    const own = vi.spyOn(test.framework.db, 'execute')
    const joined = vi.spyOn(test.framework.callDb, 'execute')
    for (let n = 0; n < 9; n += 1) await call(integration)
    own.mockClear()
    joined.mockClear()
    for (let n = 0; n < 3; n += 1) await call(integration)
    const settlements = 3
    return own.mock.calls.length + joined.mock.calls.length - settlements
  }
  const used = async (integration: Integration) => (await integration.rateLimit()).used

  it('admits from a lease, whose units are spent already', async () => {
    const integration = await makeIntegration(test, 'busy')
    expect(await leased(integration)).toBe(0)
    expect(await used(integration)).toBeGreaterThan(13)
  })

  it('obeys at once what is done in this process', async () => {
    const integration = await makeIntegration(test, 'busy')
    expect(await leased(integration)).toBe(0)
    await integration.overrideCircuit('forced_open')
    await expect(call(integration)).rejects.toMatchObject({ code: 'circuit_open' })
  })

  it('obeys at once what this process has seen', async () => {
    const broken = await makeIntegration(test, 'busy')
    expect(await leased(broken)).toBe(0)
    await call(broken, 'upstream')
    await call(broken, 'upstream')
    await expect(call(broken)).rejects.toMatchObject({ code: 'circuit_open' })

    const quiet = await makeIntegration(test, 'busy')
    expect(await leased(quiet)).toBe(0)
    await settled(test.framework, quiet, outcome({ class: 'throttle', quietForMs: 600_000 }))
    await expect(call(quiet)).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
  })

  it('is no more than its limit, however it is asked for', async () => {
    const integration = await makeIntegration(test, 'busy')
    await leased(integration)
    const before = await used(integration)
    await Promise.all(Array.from({ length: 60 }, () => call(integration)))
    const after = await used(integration)
    // Every call has its unit; those that are given out beyond them are spent, too.
    expect(after - before).toBeLessThanOrEqual(60 + 100)
    const rows = await test.sql`select id from integration_requests where integration_id = ${integration.id}`
    expect(after).toBeGreaterThanOrEqual(rows.length)
  })
})

describe('a signal that many calls share', () => {
  it('is no leak', async () => {
    const warnings: Error[] = []
    const hear = (warning: Error) => void (warning.name === 'MaxListenersExceededWarning' && warnings.push(warning))
    process.on('warning', hear)
    onTestFinished(() => void process.off('warning', hear))
    const integration = await makeIntegration(test, 'plain')
    const { signal } = new AbortController()
    await Promise.all(Array.from({ length: 30 }, () => admitted(test.framework, integration, signal)))
    await new Promise((resolve) => setImmediate(resolve))
    expect(warnings).toEqual([])
  })
})

describe('a provider whose limit is none', () => {
  it.each(['throwing', 'zero', 'text', 'half'])('warns once, and is limited by nothing: %s', async (name) => {
    const integration = await makeIntegration(test, name)
    for (let n = 0; n < 3; n += 1) expect(await integration.request('a', 'GET', () => n)).toBe(n)
    expect(await integration.rateLimit()).toMatchObject({ source: 'none', limit: null })
    expect(test.lines.filter(({ fields, level }) => level === 'warn' && fields.integration === integration.id)).toEqual(
      [expect.objectContaining({ message: expect.stringContaining('defaultRateLimit()') })],
    )
  })
})

describe('an integration that was deleted', () => {
  it('is not found, and leaves no state behind', async () => {
    const integration = await makeIntegration(test, 'plain')
    await test.sql`delete from integrations where id = ${integration.id}`
    await expect(admitted(test.framework, integration, undefined)).rejects.toMatchObject({
      code: 'integration_not_found',
    })
    const written = await settled(test.framework, integration, outcome({ generation: 0 }))
    expect(written).toEqual({ rowId: null, events: [] })
    const { key } = callTarget(test.framework, integration)
    expect(await test.sql`select from integration_cache where key = ${key}`).toHaveLength(0)
  })
})

describe('while Postgres is away', () => {
  it('before a call: the provider is not asked, and the caller gets the error', async () => {
    const { behind, proxy } = await behindProxy()
    const integration = await behind.integrations.get((await makeIntegration(test, 'plain')).id)
    proxy.cut()
    const asked = vi.fn()
    await expect(integration.request('/things', 'GET', asked)).rejects.toThrow()
    expect(asked).not.toHaveBeenCalled()
  })

  it('for a moment after a call: the row is written once it is back', async () => {
    const { behind, proxy } = await behindProxy()
    const integration = await behind.integrations.get((await makeIntegration(test, 'plain')).id)
    await integration.request('/things', 'GET', () => {
      proxy.cut({ untilRefused: 1 })
      return { id: 7 }
    })
    const rows = await test.sql`select endpoint from integration_requests where integration_id = ${integration.id}`
    expect(rows).toEqual([{ endpoint: '/things' }])
  })
})

/** Beside each other: each waits for some ten seconds, on a framework of its own. A spy of `vi` would end with the other's test. */
describe.concurrent('while Postgres is away for seconds', { timeout: 60_000 }, () => {
  it('after a call: three tries, an error line, and the caller keeps what the provider said', async ({
    onTestFinished,
  }) => {
    const { behind, proxy } = await behindProxy(onTestFinished)
    const integration = await behind.integrations.get((await makeIntegration(test, 'plain')).id)
    const startedAt = performance.now()
    const answer = await integration.request('/things', 'GET', () => {
      proxy.cut()
      return { id: 7 }
    })
    expect(answer).toEqual({ id: 7 })
    // Ten seconds, and what a machine adds that stands still meanwhile.
    expect(performance.now() - startedAt).toBeLessThan(25_000)
    expect(proxy.refused()).toBeGreaterThanOrEqual(2)
    expect(behind.lines.filter(({ level }) => level === 'error')).toMatchObject([
      { fields: { integration: integration.id, endpoint: '/things' } },
    ])
  })

  it('a call that succeeds has its row, also when Postgres comes back nine seconds after it was made', async ({
    onTestFinished,
  }) => {
    const apart = testIntegrations(database.url, { encryptionKeys, providers })
    onTestFinished(() => apart.close())
    const integration = await apart.integrations.get((await makeIntegration(test, 'plain')).id)
    let asked = 0
    // A connection that is refused takes its time, too.
    const away = async () => {
      asked += 1
      await sleep(200)
      throw Object.assign(new Error('the connection was closed'), { code: 'CONNECTION_CLOSED' })
    }
    const connections = [apart.framework.db, apart.framework.callDb]
    const backs = connections.map((one) => {
      const { execute } = one
      Object.assign(one, { execute: away })
      return () => Object.assign(one, { execute })
    })
    const settling = settled(apart.framework, integration, outcome())
    // After 0, 0.7, 1.9, 4.1 and 7.3 s; the last one comes 9.5 s after the first.
    await vi.waitFor(() => expect(asked).toBe(5), SOON)
    for (const back of backs) back()
    const { rowId } = await settling
    expect(rowId).not.toBeNull()
    expect(apart.lines.filter(({ fields }) => fields.event === 'request.outcome_lost')).toEqual([])
  })
})

interface Proxy {
  /** Ends every connection, and refuses new ones: all, or so many. */
  cut(until?: { untilRefused: number }): void
  refused(): number
}

/** A framework whose way to Postgres can be cut. */
async function behindProxy(atEnd = onTestFinished): Promise<{ behind: TestIntegrations; proxy: Proxy }> {
  const target = new URL(database.url)
  const open = new Set<Socket>()
  let toRefuse = 0
  let refused = 0
  const server: Server = createServer((client) => {
    if (toRefuse > 0) {
      toRefuse -= 1
      refused += 1
      client.destroy()
      return
    }
    const upstream = connect(Number(target.port), target.hostname)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(from)
      from.pipe(to)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(database.url)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  const behind = testIntegrations(url.href, { encryptionKeys, providers, pool: { max: 1 } })
  atEnd(async () => {
    toRefuse = 0
    await behind.close()
    server.close()
  })
  const cut: Proxy['cut'] = ({ untilRefused } = { untilRefused: Number.POSITIVE_INFINITY }) => {
    toRefuse = untilRefused
    for (const socket of open) socket.destroy()
  }
  return { behind, proxy: { cut, refused: () => refused } }
}
