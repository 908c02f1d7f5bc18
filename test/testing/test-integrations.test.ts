/** The kit itself: the framework in this process, on a Postgres in memory. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { integer, pgTable } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { integrationKey } from '../../src/cache/integration-keys.ts'
import { partsOf } from '../../src/create-integrations.ts'
import {
  CircuitOpenException,
  mappedTable,
  NonRetryable,
  NotYet,
  RateLimit,
  RateLimitExceededException,
} from '../../src/index.ts'
import type { HandlesWebhooks, HasScheduledSync, SyncStream } from '../../src/providers/contracts.ts'
import type { Integration, RequestOptions } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import type { TestIntegrations } from '../../src/testing/index.ts'
import {
  createTestIntegrations,
  hmacSigner,
  playedTransport,
  scriptedTransport,
  sequence,
  signedWebhook,
} from '../../src/testing/index.ts'
import { CREDENTIALS, SECRET, syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'

const START = '2026-01-31T12:00:00Z'
const signer = hmacSigner({ header: 'x-signature' })

let kit: TestIntegrations
let integration: Integration
let lists: (session: SyncSession) => Promise<void> = async () => {}
let reduces: HasScheduledSync['reduceCheckpoints'] | null = null
let handles: HandlesWebhooks['handleWebhook'] = () => ({ handled: true })

beforeAll(async () => {
  const { reduceCheckpoints: greatest, ...sync } = syncProvider((session) => lists(session))
  kit = await createTestIntegrations({
    now: START,
    models: { contact: mappedTable(pgTable('contact', { id: integer().primaryKey() })) },
    config: { sync: { item_tries: 3, item_backoff: [10, 600] }, webhook: { max_attempts: 2 } },
    providers: {
      acme: {
        ...sync,
        reduceCheckpoints: (checkpoints) => (reduces ?? greatest)(checkpoints),
        ...webhookProvider({
          webhookHandlers: () => ({ any: (...given) => handles(...given), started: { workflow: 'onStarted' } }),
        }),
      } satisfies HasScheduledSync & HandlesWebhooks,
    },
  })
}, 60_000)
afterAll(() => kit.close())

beforeEach(async () => {
  lists = async () => {}
  reduces = null
  handles = () => ({ handled: true })
  kit.clock.set(START)
  kit.events.clear()
  integration = await kit.integrations.create({ provider: 'acme', name: 'of a test', credentials: CREDENTIALS })
})

const delivery = (id: string, event = 'any', secret = SECRET): Request =>
  signedWebhook(signer, { id }, { secret, headers: { 'x-delivery': id, 'x-event': event } })
const dispatches =
  (...numbers: number[]) =>
  async (session: SyncSession): Promise<void> => {
    for (const n of numbers) await session.dispatch(new ThingSynced(session.integration, { n }), `at-${n}`, n)
  }
const asked = () => ({ integrationId: integration.id, stream: null })
function listen(listener: (event: ThingSynced) => unknown): () => void {
  kit.integrations.on(ThingSynced, listener)
  return () => kit.integrations.off(ThingSynced, listener)
}

it('has no Temporal server behind its schedules, and asks none', async () => {
  expect(await kit.integrations.admin.schedules.schedules()).toEqual([])
  expect(await kit.integrations.admin.schedules.applySearchAttributes()).toEqual({
    states: [],
    added: [],
    problem: null,
  })
})

describe('the database', () => {
  it('is a Postgres of the version that PGlite is made of, migrated', async () => {
    const [{ version } = { version: 0 }] = await kit.sql`select current_setting('server_version_num')::int as version`
    expect(version).toBeGreaterThanOrEqual(180_000)
    expect(await kit.integrations.migrate()).toEqual({ applied: [] })
    await kit.integrations.ready()
  })

  it('goes by the clock: now(), the defaults of columns, and what comes of both', async () => {
    await kit.sql`create table of_the_host (at timestamptz not null default now())`
    kit.clock.advance({ hours: 5 })
    await kit.sql`insert into of_the_host default values`
    const [row] = await kit.sql`select at, now(), clock_timestamp() from of_the_host`
    expect(row).toEqual({ at: kit.clock.now(), now: kit.clock.now(), clock_timestamp: kit.clock.now() })
    const created = await kit.integrations.create({ provider: 'acme', name: 'later', credentials: CREDENTIALS })
    expect(created.createdAt).toEqual(kit.clock.now())
  })

  it('holds what its connections do apart: a transaction of one is not seen by another', async () => {
    await kit.sql`create table counted (n int)`
    const counts = await Promise.all([
      kit.sql.begin(async (tx) => {
        await tx`insert into counted values (1)`
        await sleep(5)
        await tx`insert into counted values (2)`
        return 'done'
      }),
      kit.db.execute(sql`select count(*)::int as n from counted`),
      kit.sql`select count(*)::int as n from counted where n > ${0}`,
    ])
    expect(counts[0]).toBe('done')
    for (const [row] of counts.slice(1) as unknown as [{ n: number }][]) expect([0, 2]).toContain(row.n)
  })
})

describe('webhooks', () => {
  it('are stored, handled once and told of', async () => {
    const answers = [await kit.deliver(delivery('d1'), integration), await kit.deliver(delivery('d1'), integration)]
    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([
      { status: 'queued' },
      { status: 'duplicate' },
    ])
    expect(kit.started.wokenInbox).toBe(2)
    expect(kit.events.of('WebhookReceived')).toMatchObject([{ deliveryId: 'd1', eventType: 'any' }])
    expect(await kit.processWebhooks()).toEqual({ processed: 1, failed: 0 })
    expect(await kit.processWebhooks()).toEqual({ processed: 0, failed: 0 })
  })

  it('with a wrong signature are turned away by the real route', async () => {
    expect((await kit.deliver(delivery('d2', 'any', 'wrong'), integration)).status).toBe(403)
    expect((await kit.api.request('/integrations/unknown/1/webhook', { method: 'POST' })).status).toBe(404)
  })

  it('whose handler throws fail, as their row says', async () => {
    handles = () => {
      throw new Error('not today')
    }
    await kit.deliver(delivery('d3'), integration)
    expect(await kit.processWebhooks()).toEqual({ processed: 0, failed: 1 })
    const rows = await kit.sql`select status, attempts, error from integration_webhooks where delivery_id = 'd3'`
    expect(rows).toEqual([{ status: 'failed', attempts: 1, error: 'not today' }])
    expect(kit.logs.some(({ fields }) => fields.event === 'webhook.failed')).toBe(true)
  })

  it('whose handler is a workflow are noted, not run', async () => {
    await kit.deliver(delivery('d4', 'started'), integration)
    expect(await kit.processWebhooks()).toEqual({ processed: 1, failed: 0 })
    expect(kit.started.startedWorkflows).toMatchObject([
      { workflow: 'onStarted', input: { integrationId: integration.id, eventType: 'started' } },
    ])
  })
})

describe('jobs', () => {
  beforeEach(async () => {
    await kit.sql`update integrations set is_active = false where id <> ${integration.id}`
    await kit.sql`delete from integration_webhooks`
    kit.started.startedSyncs.length = 0
  })

  const failed = async (id: string): Promise<number> => {
    handles = () => {
      throw new Error('not today')
    }
    await kit.deliver(delivery(id), integration)
    await kit.processWebhooks()
    handles = () => ({ handled: true })
    const [row] = await kit.sql`select id from integration_webhooks where delivery_id = ${id}`
    return Number(row?.id)
  }
  const statusOf = async (id: number) => {
    const [row] = await kit.sql`select status, attempts from integration_webhooks where id = ${id}`
    return [row?.status, row?.attempts]
  }

  it('replay one webhook, at once or when the test says so', async () => {
    const id = await failed('r1')
    expect(await kit.integrations.webhooks.replay(id)).toMatchObject({ outcome: 'processed', attempts: 2 })
    await kit.integrations.webhooks.startReplay(id)
    expect(await kit.processWebhooks()).toEqual({ processed: 1, failed: 0 })
    expect(await statusOf(id)).toEqual(['processed', 3])
  })

  it('recover what a worker left behind, and what may be tried again, once it is due', async () => {
    const stuck = await failed('r2')
    const again = await failed('r3')
    await kit.sql`update integration_webhooks set status = 'processing', updated_at = now() where id = ${stuck}`
    kit.clock.advance({ minutes: 30 })
    expect(await kit.integrations.webhooks.recover()).toEqual({ processing: 0, pending: 0, failed: 1 })
    kit.clock.advance(1)
    expect(await kit.integrations.webhooks.recover()).toEqual({ processing: 1, pending: 0, failed: 0 })
    expect(await kit.processWebhooks()).toEqual({ processed: 2, failed: 0 })
    expect([await statusOf(stuck), await statusOf(again)]).toEqual([
      ['processed', 2],
      ['processed', 2],
    ])
  })

  it('dispatch what is due: the test then runs it', async () => {
    await kit.integrations.update(integration.id, { syncIntervalMinutes: 5 })
    expect(await kit.integrations.syncs.dispatch()).toMatchObject({ due: 1, started: 1, alreadyRunning: 0 })
    expect(kit.started.startedSyncs).toEqual([asked()])
    await kit.sync(integration)
    expect(await kit.integrations.syncs.dispatch()).toMatchObject({ due: 0, started: 0 })
  })

  it('dispatch an integration again whose run was given up', async () => {
    await kit.integrations.update(integration.id, { syncIntervalMinutes: 5 })
    await kit.integrations.syncs.dispatch()
    lists = () => Promise.reject(new Error('page 2 is missing'))
    await expect(kit.sync(integration)).rejects.toMatchObject({ code: 'sync_did_not_end' })
    expect(kit.started.startedSyncs).toEqual([])
    kit.clock.advance({ days: 1 })
    expect(await kit.integrations.syncs.dispatch()).toMatchObject({ started: 1, alreadyRunning: 0 })
    expect(kit.started.startedSyncs).toEqual([asked()])
  })

  it('dispatch begins what was asked for later, once it is due, and what was remembered', async () => {
    await kit.sync(integration)
    await kit.integrations.syncs.start(integration.id, { debounceSeconds: 30 })
    await kit.integrations.syncs.dispatch()
    expect(kit.started.startedSyncs).toEqual([])
    kit.clock.advance(31)
    await kit.integrations.syncs.dispatch()
    expect(kit.started.startedSyncs).toEqual([asked()])
    lists = dispatches(1)
    const off = listen(() => kit.integrations.syncs.start(integration.id))
    await kit.sync(integration)
    off()
    expect(kit.started.startedSyncs).toEqual([])
    await kit.integrations.syncs.dispatch()
    expect(kit.started.startedSyncs).toEqual([asked()])
    await kit.sync(integration)
    await kit.integrations.syncs.dispatch()
    expect(kit.started.startedSyncs).toEqual([])
  })

  it('evaluate failures, prune, reconcile and refresh tokens', async () => {
    await kit.sql`insert into integration_requests (integration_id, endpoint, method, failure_class, created_at)
      select ${integration.id}, 'x', 'GET', 'upstream', now() from generate_series(1, 20)`
    expect((await kit.integrations.admin.evaluateFailures()).elevated).toMatchObject([
      { integrationId: integration.id },
    ])
    expect(kit.events.of('ElevatedFailureRate')).toHaveLength(1)
    kit.clock.advance({ days: 91 })
    expect((await kit.integrations.admin.prune()).counts.requests).toBe(20)
    expect(await kit.integrations.webhooks.reconcile()).toMatchObject({ integrations: 0, failed: 0 })
    expect(await kit.integrations.oauth.refresh()).toMatchObject({ checked: 0, failed: 0 })
  })
})

it.each(['erase', 'delete'] as const)('%s() takes the cached values of the integration along', async (act) => {
  const { cache } = partsOf(kit.integrations).framework
  const key = integrationKey(integration.id, 'identity')
  await cache.set(key, { name: 'Ada' }, null)
  expect(await kit.integrations[act](integration.id)).toMatchObject({ cache: 1 })
  expect(await cache.get(key)).toBeUndefined()
})

it.each(['erase', 'delete'] as const)('%s() takes the state of its calls along: breaker and limits', async (act) => {
  const prefix = `${kit.integrations.config.cache_prefix}:${integrationKey(integration.id, '')}`
  const stored = () => kit.sql`select key from integration_cache where starts_with(key, ${prefix})`
  await integration.overrideCircuit('forced_open')
  const before = await stored()
  expect(before).not.toEqual([])
  expect(await kit.integrations[act](integration.id)).toMatchObject({ cache: before.length })
  expect(await stored()).toEqual([])
})

it('a delivery by HEAD or GET has no body', async () => {
  const by = async (method: string) =>
    (await kit.deliver(new Request('http://localhost/?n=1', { method }), integration)).status
  expect([await by('HEAD'), await by('GET')]).toEqual([405, 403])
})

describe('durable events', () => {
  it('are delivered when the test says so, and tried again by the clock', async () => {
    const heard: string[] = []
    let isDown = true
    const listener = ({ integration: { name } }: { integration: Integration }) => {
      if (isDown) throw new Error('down')
      heard.push(name)
    }
    kit.integrations.on('IntegrationCreated', listener, { queued: true })
    await kit.integrations.create({ provider: 'acme', name: 'told later', credentials: CREDENTIALS })
    expect(await kit.deliverEvents()).toEqual({ processed: 0, failed: 1, nextInSeconds: 10 })
    isDown = false
    expect(await kit.deliverEvents()).toEqual({ processed: 0, failed: 0, nextInSeconds: 10 })
    kit.clock.advance(10)
    expect(await kit.deliverEvents()).toEqual({ processed: 1, failed: 0, nextInSeconds: null })
    expect(heard).toEqual(['told later'])
    kit.integrations.off('IntegrationCreated', listener)
  })

  it('that are due again are all tried, however many they are', async () => {
    let isDown = true
    const listener = () => {
      if (isDown) throw new Error('down')
    }
    kit.integrations.on('IntegrationCreated', listener, { queued: true })
    const names = Array.from({ length: 60 }, (_, n) => `of many ${n}`)
    for (const name of names) await kit.integrations.create({ provider: 'acme', name, credentials: CREDENTIALS })
    expect(await kit.deliverEvents()).toEqual({ processed: 0, failed: 60, nextInSeconds: 10 })
    isDown = false
    kit.clock.advance(10)
    expect(await kit.deliverEvents()).toEqual({ processed: 60, failed: 0, nextInSeconds: null })
    kit.integrations.off('IntegrationCreated', listener)
  })
})

describe('a sync', () => {
  it('runs from the listing to the announcement', async () => {
    lists = dispatches(1, 2)
    const { result, items } = await kit.sync(integration)
    expect(result).toMatchObject({ kind: 'success', successCount: 2, cursor: 'at-2', safeSyncedAt: kit.clock.now() })
    expect(items.map(({ externalId, status }) => [externalId, status])).toEqual([
      ['1', 'success'],
      ['2', 'success'],
    ])
    expect(kit.events.of(ThingSynced).map(({ payload }) => payload.n)).toEqual([1, 2])
    expect((await integration.refresh()).nextSyncAt).toEqual(new Date('2026-01-31T12:10:00Z'))
  })

  it('moves the clock on over an item‘s backoffs', async () => {
    lists = dispatches(1, 2)
    const attemptedAt: string[] = []
    const off = listen(({ payload }) => {
      if (payload.n !== 1) return
      attemptedAt.push(kit.clock.now().toISOString().slice(11, 19))
      if (attemptedAt.length < 3) throw new Error('not yet')
    })
    const { result, items } = await kit.sync(integration)
    off()
    expect(attemptedAt).toEqual(['12:00:00', '12:00:10', '12:10:10'])
    expect([result.kind, items[0]?.attempts]).toEqual(['success', 3])
  })

  it('fails an item at its last try', async () => {
    lists = dispatches(1)
    const off = listen(() => {
      throw new Error('never')
    })
    const { result, items } = await kit.sync(integration)
    off()
    expect([result.kind, result.cursor]).toEqual(['failed', null])
    expect(items).toMatchObject([{ status: 'failed', attempts: 3, error: 'Error: never' }])
    expect(kit.events.of('SyncItemFailed')).toHaveLength(1)
  })

  it('fails an item at once of NonRetryable, and tries one again that refers to what is not there yet', async () => {
    lists = dispatches(1, 2, 3)
    const stored: number[] = []
    const off = listen(({ payload: { n } }) => {
      if (n === 1 && !stored.includes(3)) throw new NotYet('item 3 comes first')
      if (n === 2) throw new NonRetryable('no such currency')
      stored.push(n)
    })
    const { items } = await kit.sync(integration)
    off()
    expect(stored).toEqual([3, 1])
    expect(items).toMatchObject([
      { status: 'success', attempts: 1 },
      { status: 'failed', attempts: 1, error: 'NonRetryable: no such currency' },
      { status: 'success', attempts: 1 },
    ])
    expect(kit.clock.now()).toEqual(new Date('2026-01-31T12:00:15Z'))
  })

  it('ends a run whose item waits for what never comes', async () => {
    lists = dispatches(1)
    const off = listen(() => {
      throw new NotYet('no parent')
    })
    const { items } = await kit.sync(integration)
    off()
    expect(items).toMatchObject([{ status: 'failed', attempts: 3, error: 'NotYet: no parent' }])
  })

  it('waits for the provider‘s limit by the clock, and counts no attempt', async () => {
    lists = dispatches(1)
    let calls = 0
    const off = listen(() => {
      calls += 1
      if (calls === 1) throw new RateLimitExceededException(integration, 3_600, null)
    })
    const { items } = await kit.sync(integration)
    off()
    expect([items[0]?.status, items[0]?.attempts, calls]).toEqual(['success', 1, 2])
    expect(kit.clock.now()).toEqual(new Date('2026-01-31T13:00:00Z'))
  })

  const errorOfRun = async (): Promise<unknown> => {
    const [row] = await kit.sql`select error from integration_logs where operation = 'sync' order by id desc limit 1`
    return row?.error
  }

  it('tries a listing three times, then gives the run up', async () => {
    let tries = 0
    lists = async () => {
      tries += 1
      throw new Error('page 2 is missing')
    }
    await expect(kit.sync(integration)).rejects.toMatchObject({
      code: 'sync_did_not_end',
      message: expect.stringContaining('the listing failed: Error: page 2 is missing'),
    })
    expect(await errorOfRun()).toBe('Error: page 2 is missing')
    expect([tries, kit.clock.now()]).toEqual([3, new Date('2026-01-31T12:00:40Z')])
  })

  it('waits for the end of an open circuit before the next try of a listing', async () => {
    let tries = 0
    lists = async (session) => {
      tries += 1
      if (tries === 1) throw new CircuitOpenException(integration, kit.clock.now(), 60, 45)
      await dispatches(1)(session)
    }
    await kit.sync(integration)
    expect(kit.clock.now()).toEqual(new Date('2026-01-31T12:00:45Z'))
  })

  it('goes on from a bookmark after each limit of the provider, by the clock, and asks for no page twice', async () => {
    const asked: number[] = []
    let left = 0
    lists = async (session) => {
      left = 2
      for (let page = Number(session.resumeFrom() ?? 1); page <= 7; page += 1) {
        if (left === 0) throw new Error('page', { cause: new RateLimitExceededException(integration, 60, null) })
        left -= 1
        asked.push(page)
        await dispatches(page)(session)
        await session.bookmark(page + 1)
      }
    }
    const { items, result } = await kit.sync(integration)
    expect(asked).toEqual([1, 2, 3, 4, 5, 6, 7])
    expect(items.map(({ externalId }) => externalId)).toEqual(['1', '2', '3', '4', '5', '6', '7'])
    expect([result.kind, result.successCount]).toEqual(['success', 7])
    expect(kit.clock.now()).toEqual(new Date('2026-01-31T12:03:00Z'))
  })

  it('gives a listing up that the provider puts off a fourth time in a row without a new bookmark', async () => {
    let tries = 0
    lists = async (session) => {
      tries += 1
      await session.bookmark('the same')
      throw new RateLimitExceededException(integration, 60, null)
    }
    await expect(kit.sync(integration)).rejects.toMatchObject({
      code: 'sync_did_not_end',
      message: expect.stringContaining('without a new bookmark'),
    })
    expect(await errorOfRun()).toBe("the provider's limit put it off 4 times in a row without a new bookmark")
    // The first one brought a bookmark.
    expect([tries, kit.clock.now()]).toEqual([5, new Date('2026-01-31T12:04:00Z')])
  })

  it('takes up what a run left behind that nobody works on any more', async () => {
    lists = dispatches(1)
    reduces = () => {
      throw new Error('the process died here')
    }
    const { syncLogId } = await kit.sync(integration).catch((error: { syncLogId: number }) => error)
    await kit.sql`update integration_logs set status = 'processing', error = null where id = ${syncLogId}`
    reduces = null
    lists = () => Promise.reject(new Error('listed again'))
    expect(await kit.sync(integration)).toMatchObject({ syncLogId, result: { kind: 'success', cursor: 'at-1' } })
  })

  it('leaves a failed item that is tried again by hand, its waits by the clock; then the cursor moves', async () => {
    lists = dispatches(1)
    let isBroken = true
    const off = listen(() => {
      if (isBroken) throw new Error('not yet')
    })
    const { items } = await kit.sync(integration)
    const id = items[0]?.id as number
    kit.clock.set(START)
    expect(await kit.integrations.admin.syncItems.retry(id, { tries: 2 })).toMatchObject({
      outcome: 'failed',
      attempts: 5,
    })
    expect(kit.clock.now().getTime()).toBeGreaterThan(new Date(START).getTime())
    isBroken = false
    expect(await kit.integrations.admin.syncItems.retry(id)).toMatchObject({ outcome: 'success', attempts: 6 })
    off()
    expect((await integration.refresh()).syncCursor).toBe('at-1')
  })

  it('says so when its reducer throws', async () => {
    lists = dispatches(1)
    reduces = () => {
      throw new Error('no order')
    }
    await expect(kit.sync(integration)).rejects.toThrow(/reduceCheckpoints\(\) threw.*no order/)
  })

  it('of an integration that is switched off says so', async () => {
    await integration.disable()
    await expect(kit.sync(integration)).rejects.toMatchObject({ reason: 'the integration is switched off' })
  })

  it('that is asked for is noted until it is run', async () => {
    expect(await kit.integrations.syncs.start(integration.id)).toMatchObject({ kind: 'started' })
    expect(await kit.integrations.syncs.start(integration.id)).toEqual({ kind: 'remembered' })
    expect(kit.started.startedSyncs).toContainEqual(asked())
    await kit.sync(integration)
    expect(kit.started.startedSyncs).not.toContainEqual(asked())
  })

  it('that is asked for while one runs is remembered, and what a living run forbids is refused', async () => {
    lists = dispatches(1)
    const answers: unknown[] = []
    const off = listen(async () => {
      answers.push(await kit.integrations.syncs.start(integration.id))
      await kit.integrations.syncs.setCursor(integration.id, 'by hand').catch(({ code }) => answers.push(code))
    })
    await kit.sync(integration)
    off()
    expect(answers).toEqual([{ kind: 'remembered' }, 'integration_busy'])
    const rows = await kit.sql`select from integration_sync_starts
      where integration_id = ${integration.id} and again_at is not null`
    expect(rows).toHaveLength(1)
    await kit.integrations.syncs.setCursor(integration.id, 'by hand')
  })

  it('that is cancelled by what it runs ends so', async () => {
    lists = dispatches(1)
    const off = listen(() => kit.integrations.syncs.cancel(integration.id))
    await expect(kit.sync(integration)).rejects.toMatchObject({ code: 'sync_did_not_end' })
    off()
    expect(
      await kit.sql`select status from integration_logs where operation = 'sync' order by id desc limit 1`,
    ).toEqual([{ status: 'cancelled' }])
  })

  it('of more items than a batch has ends with all of them', async () => {
    lists = dispatches(...Array.from({ length: 201 }, (_, n) => n))
    expect((await kit.sync(integration)).result.successCount).toBe(201)
  })

  it('of a provider with streams is of the one that is named', async () => {
    const stream: SyncStream = { sync: async (_, session) => lists(session), reduceCheckpoints: () => null }
    const streams = { contacts: { ...stream, model: 'contact' }, deals: stream }
    kit.integrations.register('crm', { defaultRateLimit: () => null, streams })
    const ofCrm = await kit.integrations.create({ provider: 'crm', name: 'crm', credentials: {} })
    lists = dispatches(1)
    kit.started.startedSyncs.length = 0
    await kit.integrations.syncs.start(ofCrm.id, { stream: 'contacts' })
    await kit.integrations.syncs.start(ofCrm.id, { stream: 'deals' })
    const { items } = await kit.sync(ofCrm, 'deals')
    expect(kit.started.startedSyncs).toEqual([{ integrationId: ofCrm.id, stream: 'contacts' }])
    expect(items).toMatchObject([{ stream: 'deals', status: 'success' }])
    await expect(kit.sync(ofCrm)).rejects.toThrow('one of contacts, deals is allowed')
    const session = kit.syncSession(ofCrm, null, { stream: 'deals' })
    expect(() => session.fullListing()).toThrow('the model that the stream "deals" is mapped to')
    const ofContacts = kit.syncSession(ofCrm, null, { stream: 'contacts' })
    ofContacts.fullListing()
    expect(ofContacts.fullListingOf).toEqual({ internalType: 'contact' })
    expect(() => kit.syncSession(ofCrm, null, { stream: 'invoices' })).toThrow('contacts, deals')
  })

  it('that is listed without being run names registered models alone, as in a run', async () => {
    const session = kit.syncSession(integration)
    expect(() => session.fullListing('contcat')).toThrow(
      expect.objectContaining({ code: 'invalid_argument', argument: 'internalType' }),
    )
    session.fullListing('contact')
    session.assertFullListing('contact')
    const next = await session.nextTry()
    expect(() => next.fullListing('contcat')).toThrow('the name of a registered model is allowed (contact)')
  })

  it('can be listed without being run', async () => {
    lists = dispatches(1, 2)
    const session = kit.syncSession(integration, 'from here')
    await lists(session)
    session.assertCheckpoints(['at-1', 'at-2'])
    expect(session.cursor()).toBe('from here')
    await expect(session.dispatch({ payload: 1 } as never)).rejects.toMatchObject({ argument: 'event' })
  })
})

describe('a request', () => {
  const call = (): never => {
    throw new Error('the wire was reached')
  }

  it('that nothing answers throws, and is not made', async () => {
    await expect(integration.request('things/1', 'get', call)).rejects.toMatchObject({
      code: 'unexpected_request',
      message: expect.stringMatching(/^Unexpected request GET things\/1\. .*fakeRequests.*allowRequests/),
    })
  })

  it('is answered by a fake, and fails without one that matches', async () => {
    const fakes = kit.fakeRequests({ 'GET things/*': sequence('one') })
    expect(await integration.request('things/1', 'GET', call)).toBe('one')
    await expect(integration.request('things/1', 'PUT', call)).rejects.toMatchObject({ code: 'unexpected_request' })
    fakes.assertRequestCount('things/*', 2)
    fakes.stop()
  })

  it.each<[string, RequestOptions]>([
    ['idempotencyKey', { idempotencyKey: ' ' }],
    ['attempts', { attempts: 0 }],
    ['cacheFor', { idempotencyKey: 'k', cacheFor: 60 }],
    ['writes', { writes: { record: 'thing:1' } }],
  ])('with a wrong option (%s) is refused under fakes, too, as in production', async (argument, options) => {
    const fakes = kit.fakeRequests({ 'POST things': { n: 1 } })
    await expect(integration.request('things', 'POST', call, options)).rejects.toMatchObject({
      code: 'invalid_argument',
      argument,
    })
    fakes.assertNotRequested('POST things')
    fakes.stop()
  })

  it('with a key inside a transaction is refused under fakes, too, as in production', async () => {
    const fakes = kit.fakeRequests({ 'POST things': { n: 1 } })
    const write = () => integration.request('things', 'POST', call, { idempotencyKey: 'k' })
    await expect(kit.integrations.transaction(write)).rejects.toMatchObject({ code: 'idempotency_inside_transaction' })
    fakes.assertNotRequested('POST things')
    expect(await write()).toEqual({ n: 1 })
    fakes.stop()
  })

  it('that is told to wait gets through: the wait moves the clock on', async () => {
    const transport = scriptedTransport([{ status: 429, headers: { 'retry-after': '2' } }, { body: { n: 1 } }])
    const own = await createTestIntegrations({ now: START, providers: { acme: webhookProvider() }, transport })
    const handle = await own.integrations.create({ provider: 'acme', name: 'wired', credentials: CREDENTIALS })
    const startedAt = performance.now()
    await handle.request('things/1', 'GET', () => transport.fetch('https://api.example.com/things/1'))
    transport.assertDone()
    expect(own.clock.now().getTime()).toBeGreaterThanOrEqual(Date.parse('2026-01-31T12:00:02Z'))
    expect(performance.now() - startedAt).toBeLessThan(1_900)
    await own.close()
  }, 30_000)

  it('waits for capacity by the clock, and no longer than `max_wait_seconds`', async () => {
    const acme = { ...webhookProvider(), defaultRateLimit: () => RateLimit.per(2, 5) }
    const transport = playedTransport(() => Response.json({}))
    const own = await createTestIntegrations({ now: START, providers: { acme }, transport })
    const handle = await own.integrations.create({ provider: 'acme', name: 'wired', credentials: CREDENTIALS })
    const get = () => handle.request('things/1', 'GET', () => transport.fetch('https://api.example.com/things/1'))
    for (let n = 0; n < 6; n += 1) await get()
    const seconds = (own.clock.now().getTime() - Date.parse(START)) / 1_000
    expect(seconds).toBeGreaterThan(9)
    expect(seconds).toBeLessThan(13)
    await handle.overrideRateLimit(RateLimit.per(1, 3_600))
    await expect(get().then(get)).rejects.toBeInstanceOf(RateLimitExceededException)
    await own.close()
  }, 30_000)

  it('goes through the real pipeline over a scripted transport, its row included', async () => {
    const transport = scriptedTransport([
      { status: 503, headers: { 'retry-after': '0' } },
      { body: { n: 1 }, delayMs: 2_000, headers: { 'x-request-id': 'r1' } },
    ])
    const own = await createTestIntegrations({ now: START, providers: { acme: webhookProvider() }, transport })
    const handle = await own.integrations.create({ provider: 'acme', name: 'wired', credentials: CREDENTIALS })
    const answer = await handle.request('things/1', 'GET', () => transport.fetch('https://api.example.com/things/1'))
    expect(answer).toEqual({ n: 1 })
    transport.assertDone()
    expect(own.clock.now()).toEqual(new Date('2026-01-31T12:00:02Z'))
    const rows = await own.sql`select status_code, provider_request_id from integration_requests order by id`
    expect(rows).toEqual([
      { status_code: 503, provider_request_id: null },
      { status_code: 200, provider_request_id: 'r1' },
    ])
    expect(own.events.of('RequestCompleted')).toHaveLength(1)
    await own.close()
  }, 30_000)
})
