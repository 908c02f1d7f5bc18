/** Old news after newer ones: what runs, what is stale, and who waits, in one pump and in two processes at once. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { integrationKey } from '../../src/cache/integration-keys.ts'
import type { Json } from '../../src/framework/json.ts'
import { integrationContext } from '../../src/integrations/integration-contexts.ts'
import { findIntegration } from '../../src/integrations/queries.ts'
import type { HandleWebhook, StaleGuard, WebhookHandler } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runWebhook } from '../../src/webhooks/handling.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, makeWebhook, webhookOf } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { workOff } from '../support/work-off.ts'

const STALE = { status: 'stale' }

let database: TestDatabase
let here: TestIntegrations
/** Another process's. */
let there: TestIntegrations
/** The same two, where a handler's time limit is to run out: elsewhere a machine that stands still must not reach it. */
let hastyHere: TestIntegrations
let hastyThere: TestIntegrations
let integration: Integration
const handle = vi.fn<HandleWebhook>()
const guard = vi.fn<StaleGuard>()

beforeAll(async () => {
  database = await createTestDatabase()
  const handlers: Record<string, WebhookHandler> = {
    changed: { handle: (...given) => handle(...given), staleGuard: (payload) => guard(payload) },
    started: { workflow: 'onChange', staleGuard: (payload) => guard(payload) },
    unguarded: { handle: (...given) => handle(...given) },
  }
  const encryptionKeys = encryptionKey('test')
  const process = (limit = {}) =>
    testIntegrations(database.url, {
      encryptionKeys,
      providers: { acme: webhookProvider({ webhookHandlers: () => handlers }) },
      config: { webhook: { concurrency: 4, ...limit } },
    })
  here = process()
  there = process()
  hastyHere = process({ handler_timeout: 2 })
  hastyThere = process({ handler_timeout: 2 })
})

afterAll(async () => {
  for (const each of [here, there, hastyHere, hastyThere]) await each.close()
  await database.drop()
})

beforeEach(async () => {
  handle.mockReset().mockReturnValue('handled')
  guard.mockReset().mockImplementation((payload) => payload as { key: string; version: number })
  // A pump is of all integrations.
  await here.sql`delete from integration_webhooks`
  integration = await makeIntegration(here, 'acme')
})

describe('a delivery', () => {
  it.each([
    ['below the highest version handled', 4, STALE],
    ['equal to it', 5, 'handled'],
    ['above it', 6, 'handled'],
  ])('%s', async (_, version, result) => {
    await changed(5)
    await batch()
    const row = await changed(version)
    await batch()
    expect((await webhookOf(here, row.id)).status).toBe('processed')
    expect(await resultOf(row)).toEqual(result)
  })

  it.each<[string, Json, { elsewhere?: boolean; eventType?: string }]>([
    ['of another thing', { key: 'b', version: 1 }, {}],
    ['of another integration', { key: 'a', version: 1 }, { elsewhere: true }],
    ['that the guard does not judge', null, {}],
    ['that is no JSON', 'no JSON', {}],
    ['whose handler has no guard', { key: 'a', version: 1 }, { eventType: 'unguarded' }],
  ])('%s is handled', async (_, payload, { elsewhere = false, eventType = 'changed' }) => {
    await changed(5)
    await batch()
    const of = elsewhere ? await makeIntegration(here, 'acme') : integration
    const text = payload === 'no JSON' ? payload : JSON.stringify(payload)
    const row = await makeWebhook(here, of.id, { eventType, payload: text })
    await batch()
    expect(await resultOf(row)).toBe('handled')
  })

  it('starts no workflow when it is stale', async () => {
    await changed(5)
    await batch()
    const before = here.starts.handlers.length
    const stale = await changed(4, { eventType: 'started' })
    const fresh = await changed(5, { eventType: 'started' })
    await batch()
    expect(await resultOf(stale)).toEqual(STALE)
    expect(here.starts.handlers.slice(before).map(({ input }) => input.webhookId)).toEqual([fresh.id])
  })

  it('whose worker died takes its own lock over, while others wait for it', async () => {
    const row = await changed(5)
    const { cache } = here.framework
    const key = integrationKey(integration.id, `webhook-order:${createHash('sha256').update('a').digest('hex')}`)
    expect(await cache.acquire(key, `webhook:${row.id}`, 60)).toBe(true)
    await batch()
    expect(await resultOf(row)).toBe('handled')

    expect(await cache.acquire(key, `webhook:${row.id + 1_000}`, 60)).toBe(true)
    const other = await changed(6)
    await batch({ by: hastyHere })
    expect((await webhookOf(here, other.id)).status).toBe('failed')
    await cache.release(key, `webhook:${row.id + 1_000}`)
  })

  it('whose handler ends after its time limit is no version that was handled', async () => {
    const late = occasion()
    handle.mockImplementationOnce(() => late.happened)
    const first = await changed(5)
    await batch({ by: hastyHere })
    expect((await webhookOf(here, first.id)).error).toContain('did not end within')
    late.happen()
    const older = await changed(4)
    await batch()
    expect(await resultOf(older)).toBe('handled')
  })

  it('that failed says nothing about later ones', async () => {
    handle.mockImplementationOnce(() => {
      throw new Error('not now')
    })
    await changed(5)
    await batch()
    const older = await changed(4)
    await batch()
    expect(await resultOf(older)).toBe('handled')
  })

  it.each([
    [
      'throws',
      () => {
        throw new TypeError('no id')
      },
      'no id',
    ],
    ['gives a key that is no text', () => ({ key: 7, version: 1 }), /staleGuard's key/],
    ['gives no version', () => ({ key: 'a' }), /staleGuard's version/],
    ['gives a version that is no number', () => ({ key: 'a', version: Number.NaN }), /staleGuard's version/],
  ])('fails when its guard %s', async (_, faulty, error) => {
    guard.mockImplementation(faulty as StaleGuard)
    const row = await changed(1)
    await batch()
    expect(await webhookOf(here, row.id)).toMatchObject({ status: 'failed', error: expect.stringMatching(error) })
    expect(handle).not.toHaveBeenCalled()
  })
})

describe('deliveries of one thing that wait together', () => {
  it('run newest first and one at a time, so that all others are stale and cost no statement', async () => {
    const rows = []
    for (const version of [3, 1, 7, 7, 2]) rows.push(await changed(version))
    const other = await changed(1, { key: 'b' })
    const cache = vi.spyOn(here.framework.cache, 'acquire')
    await batch()
    expect(handle.mock.calls.map(([, request]) => request.json())).toEqual(
      expect.arrayContaining([
        { key: 'a', version: 7 },
        { key: 'a', version: 7 },
        { key: 'b', version: 1 },
      ]),
    )
    expect(handle).toHaveBeenCalledTimes(3)
    expect(cache).toHaveBeenCalledTimes(3)
    cache.mockRestore()
    expect(await Promise.all(rows.map(resultOf))).toEqual([STALE, STALE, 'handled', 'handled', STALE])
    expect(await resultOf(other)).toBe('handled')
  })

  it('hold up no delivery of another thing', async () => {
    for (let n = 0; n < 6; n += 1) await changed(1)
    const others = []
    for (let n = 0; n < 3; n += 1) others.push(await changed(1, { key: `other-${n}` }))
    const othersRan = occasion()
    let left = others.length
    handle.mockImplementation(async (_, request) => {
      // The first of the hot ones waits for all of the others.
      if ((request.json() as { key: string }).key === 'a') await othersRan.happened
      else if (--left === 0) othersRan.happen()
    })
    expect(await batch()).toMatchObject({ processed: 9, failed: 0 })
  })
})

describe('two processes at once', () => {
  it.each([
    ['newer', 6, 'handled'],
    ['equal', 5, 'handled'],
    ['older', 4, STALE],
  ])('run one delivery at a time; a second, %s one waits and is judged after the first', async (_, version, result) => {
    const [first, second] = [await changed(5), await changed(version)]
    const started = occasion()
    const release = occasion()
    let running = 0
    handle.mockImplementation(async () => {
      running += 1
      expect(running).toBe(1)
      started.happen()
      await release.happened
      running -= 1
      return 'handled'
    })
    const one = run(here, first.id)
    await started.happened
    const acquire = vi.spyOn(there.framework.cache, 'acquire')
    const two = run(there, second.id)
    await vi.waitFor(
      () => expect(acquire.mock.settledResults).toContainEqual({ type: 'fulfilled', value: false }),
      SOON,
    )
    release.happen()
    expect([(await one)?.result, (await two)?.result]).toEqual(['handled', result])
    acquire.mockRestore()
  })

  it('count the wait for the other one into the time limit; what waited for too long never runs', async () => {
    const [first, second] = [await changed(5), await changed(6)]
    const release = occasion()
    const started = occasion()
    handle.mockImplementation(async (_, __, { signal }) => {
      started.happen()
      // Does not listen to its signal.
      await release.happened
      return signal.aborted
    })
    const one = run(hastyHere, first.id)
    await started.happened
    const two = await run(hastyThere, second.id)
    expect(two).toMatchObject({ status: 'failed', error: expect.stringContaining('did not end within') })
    release.happen()
    expect(await one).toMatchObject({ status: 'failed' })
    expect(handle).toHaveBeenCalledTimes(1)
  })
})

it('waits for a database that is away for a moment: the handler runs once', async () => {
  await changed(5)
  const { cache } = here.framework
  const failing = (method: 'acquire' | 'get' | 'set') =>
    vi.spyOn(cache, method).mockRejectedValueOnce(new Error('away for a moment'))
  const spies = (['acquire', 'get', 'set'] as const).map(failing)
  expect(await batch()).toMatchObject({ processed: 1, failed: 0 })
  expect(handle).toHaveBeenCalledTimes(1)
  for (const spy of spies) spy.mockRestore()
  const older = await changed(4)
  await batch()
  expect(await resultOf(older)).toEqual(STALE)
})

it('keeps the highest version for seven days, under a key that deleting the integration finds', async () => {
  await changed(5)
  await batch()
  const found = await here.sql<{ key: string; seconds: string }[]>`
    select key, extract(epoch from expires_at - clock_timestamp()) as seconds from integration_cache
    where key like ${`integrations:${integrationKey(integration.id, 'webhook-version:')}%`}`
  expect(found).toHaveLength(1)
  const week = 7 * 24 * 60 * 60
  expect(Number(found[0]?.seconds)).toBeGreaterThan(week - 60)
  expect(Number(found[0]?.seconds)).toBeLessThanOrEqual(week)
  expect(found[0]?.key).not.toContain(':a')
})

function changed(version: Json, { key = 'a', eventType = 'changed' } = {}) {
  return makeWebhook(here, integration.id, { eventType, payload: JSON.stringify({ key, version }) })
}

function batch({ by = here } = {}) {
  return workOff(by.framework)
}

/** One row as another batch runs it, in this process or the other one. */
async function run(process: TestIntegrations, id: number) {
  const { framework } = process
  const row = await findIntegration(framework.db, framework.tables, integration.id)
  if (row === null) throw new Error('the integration is gone')
  return runWebhook(framework, await webhookOf(process, id), integrationContext(framework, row))
}

async function resultOf({ integrationId, deliveryId }: { integrationId: number; deliveryId: string }) {
  const logs = await logsOf(here, integrationId, 'webhook')
  return logs.find((log) => log.externalId === deliveryId)?.resultData
}
