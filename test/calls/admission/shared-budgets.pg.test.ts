/** A budget that integrations share, on a real Postgres: what a call takes and gives back, and what quiets, overrides and shows it. */

import { once } from 'node:events'
import type { Server } from 'node:http'
import { createServer } from 'node:http'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Lines } from '../../../src/calls/admission/shared-budgets.ts'
import { SharedBudgets } from '../../../src/calls/admission/shared-budgets.ts'
import type { SharedAnswer } from '../../../src/calls/admission/shared-queries.ts'
import { sharedState, takeShared } from '../../../src/calls/admission/shared-queries.ts'
import { callTarget, declaredScope } from '../../../src/calls/call-target.ts'
import { RateLimit } from '../../../src/calls/rate-limit-rules.ts'
import type { SharesRateLimit } from '../../../src/providers/contracts.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../../support/integrations.ts'
import { reachableTemporal } from '../../support/reachable-temporal.ts'
import { makeIntegration } from '../../support/rows.ts'
import { SOON } from '../../support/soon.ts'

const encryptionKeys = encryptionKey('test')
const HOUR = 3_600

/** Its credentials name the app. */
const sharing = (limit: RateLimit, more: Partial<SharesRateLimit> = {}): SharesRateLimit => ({
  rateLimitScope: (integration) => ({ key: String(integration.credentialsArray().app), limit }),
  ...more,
})
const providers = {
  plain: {},
  sharing: sharing(RateLimit.per(3, HOUR)),
  roomy: sharing(RateLimit.per(1_000, HOUR), { isSharedThrottle: (error) => String(error).includes('app') }),
  both: { ...sharing(RateLimit.per(100, HOUR)), defaultRateLimit: () => RateLimit.per(1, HOUR) },
  throwing: {
    rateLimitScope: () => {
      throw new Error('no app')
    },
  },
  keyless: { rateLimitScope: () => ({ key: '', limit: RateLimit.perMinute(5) }) },
} as unknown as Record<string, SharesRateLimit>

let database: TestDatabase
let test: TestIntegrations
let server: Server
beforeAll(async () => {
  database = await createTestDatabase()
  test = open()
  server = createServer((_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterAll(async () => {
  server?.close()
  await test?.close()
  await database?.drop()
})

/** As another process. */
function open(waitSeconds = 0): TestIntegrations {
  const opened = testIntegrations(database.url, {
    ...{ encryptionKeys, providers },
    config: { rate_limiting: { max_wait_seconds: waitSeconds } },
  })
  // What the doctor asks.
  Object.assign(opened.framework, { temporal: reachableTemporal() })
  return opened
}

let apps = 0
/** Integrations of one app, which no other test uses. */
async function tenants(provider: string, count: number, using = test): Promise<Integration[]> {
  apps += 1
  const app = `app:${apps}:a-secret-key`
  return Promise.all(
    Array.from({ length: count }, () =>
      using.integrations
        .create({ provider, name: 'a tenant', credentials: { app } })
        .then(({ id }) => using.integrations.get(id)),
    ),
  )
}

const call = (integration: Integration) => integration.request('/things', 'POST', () => 'fine')
const throttled = (integration: Integration, whose: string) => {
  const headers = new Headers({ 'retry-after': '60' })
  const error = Object.assign(new Error(`the limit of the ${whose}`), {
    status: 429,
    response: { status: 429, headers },
  })
  return integration.request('/things', 'POST', () => Promise.reject(error), { attempts: 1 })
}
const shared = async (integration: Integration) => (await integration.rateLimit()).shared

describe('a shared budget', () => {
  it('holds for all its integrations together, in each process', async () => {
    const [a, b] = (await tenants('sharing', 2)) as [Integration, Integration]
    const other = open()
    onTestFinished(() => other.close())
    await call(a)
    await call(b)
    await call(await other.integrations.get(a.id))
    await expect(call(b)).rejects.toMatchObject({
      ...{ code: 'rate_limit_exceeded', isShared: true, message: expect.stringContaining('that others share with') },
      rateLimit: { limit: 3, seconds: HOUR, window: 'sliding' },
    })
    await expect(call(await other.integrations.get(b.id))).rejects.toMatchObject({ isShared: true })
    expect(await shared(a)).toMatchObject({
      source: 'provider',
      limit: 3,
      windowSeconds: HOUR,
      used: 3,
      quietUntil: null,
    })
  })

  it('of another app, and of an integration that shares none, is another one', async () => {
    const [a] = (await tenants('sharing', 1)) as [Integration]
    const [b] = (await tenants('sharing', 1)) as [Integration]
    for (let made = 0; made < 3; made += 1) await call(a)
    await expect(call(a)).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
    await call(b)
    const plain = await makeIntegration(test, 'plain')
    await call(plain)
    expect(await shared(plain)).toBeNull()
  })

  it('is known by a digest of its key, and nothing of the key is stored or shown', async () => {
    const [a] = (await tenants('sharing', 1)) as [Integration]
    await call(a)
    const { budget } = (await shared(a)) as { budget: string }
    expect(budget).toMatch(/^sharing\/[0-9a-f]{8}$/)
    const rows = await test.sql`select key, value::text from integration_cache`
    expect(JSON.stringify(rows)).not.toContain('a-secret-key')
    const digest = budget.split('/')[1] as string
    expect(rows.some(({ key }) => String(key).includes(`:shared:${digest}`))).toBe(true)
  })

  it('gets back the unit of a caller that the integration’s own gates refuse', async () => {
    const [a, b] = (await tenants('both', 2)) as [Integration, Integration]
    await call(a)
    await expect(call(a)).rejects.toMatchObject({ code: 'rate_limit_exceeded', isShared: false })
    await b.overrideCircuit('forced_open')
    await expect(call(b)).rejects.toMatchObject({ code: 'circuit_open' })
    // Units in hand are given back when they lie idle.
    await vi.waitFor(async () => expect(await shared(a)).toMatchObject({ used: 1 }), SOON)
  })

  it('takes nothing of an integration’s own limit from callers that it refuses', async () => {
    const [a, b] = (await tenants('sharing', 2)) as [Integration, Integration]
    for (let made = 0; made < 3; made += 1) await call(a)
    const limit = RateLimit.per(5, HOUR)
    await b.overrideRateLimit(limit)
    await expect(call(b)).rejects.toMatchObject({ isShared: true })
    expect(await b.rateLimit()).toMatchObject({ limit: 5, used: 0 })
  })

  it('is told at the end of the process what is back', async () => {
    const other = open()
    const [a] = (await tenants('roomy', 1, other)) as [Integration]
    for (let made = 0; made < 20; made += 1) await call(a)
    const { key } = declaredScope(other.framework, a) as { key: string }
    await other.close()
    const { state } = await sharedState(test.framework.db, test.framework.tables, key)
    expect(state).toMatchObject({ held: {}, lines: {} })
    expect(state?.counts?.reduce((sum, each) => sum + each, 0)).toBe(20)
  })

  it('is asked by few statements under a steady load', async () => {
    const [a] = (await tenants('roomy', 1)) as [Integration]
    await Promise.all(Array.from({ length: 10 }, () => call(a)))
    const execute = vi.spyOn(test.framework.db, 'execute')
    for (let made = 0; made < 100; made += 1) await call(a)
    const asked = execute.mock.calls.filter(([query]) => JSON.stringify(query).includes('take_shared')).length
    expect(asked).toBeLessThan(30)
    execute.mockRestore()
  })

  it('makes callers wait for units to come, and lets go of those that give up', async () => {
    const waiting = open(60)
    onTestFinished(() => waiting.close())
    const [a, b] = (await tenants('sharing', 2, waiting)) as [Integration, Integration]
    await a.overrideSharedRateLimit(RateLimit.per(2, 2))
    await call(a)
    await call(a)
    const gaveUp = new AbortController()
    const left = b.request('/things', 'POST', () => 'fine', { signal: gaveUp.signal })
    const stayed = call(a)
    await vi.waitFor(async () => expect((await shared(a))?.waiting).toBe(2), SOON)
    gaveUp.abort(new Error('no more'))
    await expect(left).rejects.toThrow('no more')
    await stayed
  })
})

describe('the turns of a process', () => {
  /** With lines as a test wants them, and the integrations that each statement asks for. */
  function asking(lines: Pick<Lines, 'waiting' | 'isAsking'>) {
    apps += 1
    const scope = { key: `test:shared:${apps}`, name: 'a budget', limit: 1, seconds: 1 }
    const statements: string[] = []
    const budgets = new SharedBudgets(
      ({ key, limit, seconds }, asked) => {
        statements.push(asked.ids.map((id, at) => `${id}:${asked.wants[at]}`).join(' '))
        const { db, tables } = test.framework
        return takeShared(db, tables, key, { ...asked, limit, seconds, obeysOverride: true }, null)
      },
      { ...lines, wake: () => {} },
      (_, error) => statements.push(String(error)),
    )
    onTestFinished(() => budgets.close())
    return { scope, statements, budgets }
  }

  it('are kept for callers that went without a unit, while the integration’s own gates look at the others', async () => {
    const { scope, statements, budgets } = asking({ waiting: () => 0, isAsking: () => true })
    const { units } = await budgets.take(scope, 7, 2)
    expect(units).toHaveLength(1)
    await vi.waitFor(() => expect(statements).toEqual(['7:2', '7:1', '7:1']), SOON)
  })

  it('begin with the integration that was served longest ago: units beyond a round are not always the same one’s', async () => {
    const { scope, statements, budgets } = asking({ waiting: () => 2, isAsking: () => false })
    const { units } = await budgets.take(scope, 1, 2)
    for (const id of [2, 3]) expect((await budgets.take(scope, id, 2)).units).toEqual([])
    await vi.waitFor(() => expect(statements.at(-1)).toBe('1:2 2:2 3:2'), SOON)
    for (const unit of units) unit.done()
    // A second later 2 has had the unit that is free again; it keeps its place in the line for another one.
    await vi.waitFor(() => expect(statements.at(-1)).toBe('1:2 3:2 2:1'), SOON)
  })
})

describe('a throttle', () => {
  it('of the shared limit quiets all that share it', async () => {
    const [a, b] = (await tenants('roomy', 2)) as [Integration, Integration]
    await call(b)
    await expect(throttled(a, 'app')).rejects.toMatchObject({ status: 429 })
    await expect(call(b)).rejects.toMatchObject({ code: 'rate_limit_exceeded', isShared: true, rateLimit: null })
    const { quietUntil } = (await shared(b)) as { quietUntil: Date }
    expect(quietUntil.getTime() - Date.now()).toBeGreaterThan(50_000)
  })

  it('of the shared limit holds for statements under way, and the next one waits until it is stored', async () => {
    const answers: ((answer: SharedAnswer) => void)[] = []
    const scope = { key: 'test:shared:under-way', name: 'a budget', limit: 5, seconds: 1 }
    const budgets = new SharedBudgets(
      () => new Promise<SharedAnswer>((resolve) => answers.push(resolve)),
      { waiting: () => 0, isAsking: () => false, wake: () => {} },
      () => {},
    )
    const taken = budgets.take(scope, 7, 1)
    await vi.waitFor(() => expect(answers).toHaveLength(1), SOON)
    let isStored: () => void = () => {}
    const stored = new Promise<void>((resolve) => {
      isStored = resolve
    })
    const quiet = budgets.quiet(scope, () => stored)
    expect(await budgets.take(scope, 8, 1)).toMatchObject({ units: [] })
    isStored()
    await quiet
    answers[0]?.({ gave: [1], more: 1, waiting: 0, retryMs: 0, used: 2, limit: 5, seconds: 1, quietMs: null })
    expect((await taken).units).toEqual([])
    expect(answers).toHaveLength(1)
  })

  it('of one integration quiets that one alone', async () => {
    const [a, b] = (await tenants('roomy', 2)) as [Integration, Integration]
    await expect(throttled(a, 'tenant')).rejects.toMatchObject({ status: 429 })
    await expect(call(a)).rejects.toMatchObject({ code: 'rate_limit_exceeded', isShared: false })
    await call(b)
    expect(await shared(b)).toMatchObject({ quietUntil: null })
  })
})

describe('an override of the shared limit', () => {
  it('holds for all that share it, until it is cleared', async () => {
    const [a, b] = (await tenants('sharing', 2)) as [Integration, Integration]
    await a.overrideSharedRateLimit(RateLimit.per(1, HOUR))
    await call(b)
    await expect(call(a)).rejects.toMatchObject({ rateLimit: { limit: 1 } })
    expect(await shared(b)).toMatchObject({ source: 'override', limit: 1, overrideUntil: null })
    await a.overrideSharedRateLimit(null)
    await vi.waitFor(() => call(a), SOON)
    expect(await shared(b)).toMatchObject({ source: 'provider', limit: 3 })
  })

  it('is refused for an integration that shares none', async () => {
    const plain = await makeIntegration(test, 'plain')
    await expect(plain.overrideSharedRateLimit(RateLimit.per(1, 1))).rejects.toMatchObject({
      ...{ code: 'invalid_argument', message: expect.stringContaining('shares none') },
    })
  })
})

describe('a scope that can’t be used', () => {
  it.each(['throwing', 'keyless'])('is ignored with one warning: %s', async (provider) => {
    const integration = await makeIntegration(test, provider)
    await call(integration)
    await call(integration)
    const lines = test.lines.filter(({ message }) => message.includes('rateLimitScope()'))
    expect(
      lines.filter(
        (line) => line.fields.integration_id === integration.id || line.fields.integration === integration.id,
      ),
    ).toHaveLength(1)
    const findings = await test.integrations.admin.doctor()
    expect(findings).toContainEqual(
      expect.objectContaining({
        check: 'rate_limits.shared',
        status: 'warning',
        message: expect.stringContaining(`integration ${integration.id},`),
      }),
    )
  })
})

describe('what operators see', () => {
  it('doctor names a budget that is overridden, and /metrics how it stands', async () => {
    const [a] = (await tenants('roomy', 1)) as [Integration]
    await a.overrideSharedRateLimit(RateLimit.per(50, HOUR))
    await call(a)
    const { budget } = (await shared(a)) as { budget: string }
    const findings = await test.integrations.admin.doctor()
    expect(findings.filter(({ status }) => status === 'warning')).toContainEqual({
      ...{ check: 'rate_limits.shared', status: 'warning', integrationId: null, stream: null, since: null },
      message: `An operator has set the limit of the shared budget ${budget} to 50 calls in ${HOUR} s, for good.`,
      remedy: `integrations rate-limit ${a.id} clear --shared`,
    })
    const text = await test.integrations.admin.metrics.text()
    expect(text).toContain(`integrations_shared_limit{budget="${budget}"} 50`)
    expect(text).toMatch(new RegExp(`integrations_shared_waiting{budget="${budget}"} 0`))
  })
})

it('costs an integration without a scope nothing: the same statements as ever', async () => {
  const plain = await makeIntegration(test, 'plain')
  await call(plain)
  const execute = vi.spyOn(test.framework.db, 'execute')
  await call(plain)
  expect(execute.mock.calls.filter(([query]) => JSON.stringify(query).includes('shared'))).toEqual([])
  expect(callTarget(test.framework, plain).rules.limit).toBeNull()
  execute.mockRestore()
})
