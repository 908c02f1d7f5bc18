/** Several streams of one integration: each has its own cursor, schedule, runs and failures. Rule: docs/behaviour/sync-streams.md. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { syncActivities } from '../../src/activities/sync-activities.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import type { HasStreams, IntegrationProvider, SyncStream } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { reduceCheckpointsByMax } from '../../src/syncs/checkpoint-rules.ts'
import { evaluateStaleSyncs } from '../../src/syncs/staleness.ts'
import { findSyncRow } from '../../src/syncs/sync-rows.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { OtherSynced, syncProvider, ThingSynced } from '../support/providers.ts'
import { itemsOf, logOf, makeIntegration } from '../support/rows.ts'

type Lists = (session: SyncSession) => Promise<void> | void

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let contacts: Lists
let deals: Lists
let gone: { stream: string; ids: readonly string[] }[]

function stream(name: string, lists: Lists, more: Partial<SyncStream> = {}): SyncStream {
  return {
    sync: async (_integration, session) => lists(session),
    reduceCheckpoints: reduceCheckpointsByMax,
    events: [ThingSynced, OtherSynced],
    handleMissing: async (_integration, ids) => void gone.push({ stream: name, ids }),
    ...more,
  }
}

const crm: HasStreams = {
  defaultRateLimit: () => null,
  streams: {
    contacts: stream('contacts', (session) => contacts(session), { everySeconds: 60 }),
    deals: stream('deals', (session) => deals(session), {
      everySeconds: 30,
      after: 'contacts',
      overlapSeconds: 3_600,
      staleAfterSeconds: 100,
    }),
  },
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { crm, plain: syncProvider(() => {}) },
    config: { sync: { item_tries: 1 } },
  })
  // A poison contact.
  test.integrations.on(ThingSynced, ({ payload }) => {
    if (payload.n < 0) throw new Error('poison')
  })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  integration = await makeIntegration(test, 'crm')
  contacts = () => {}
  deals = () => {}
  gone = []
  test.starts.streams.length = 0
  test.starts.running.clear()
})

const run = (name: string) =>
  runSync(test.framework, new ManualClock(new Date().toISOString()), { integrationId: integration.id, stream: name })
const standing = (name: string) =>
  findSyncRow(test.framework.db, test.framework.tables, { integrationId: integration.id, stream: name })
const listsThings =
  (...things: readonly (readonly [n: number, at: string])[]): Lists =>
  async (session) => {
    for (const [n, at] of things) await session.dispatch(new ThingSynced(session.integration, { n }), at, String(n))
  }

describe('a run of a stream', () => {
  it('moves the cursor of its stream alone; its log and its items name it', async () => {
    contacts = listsThings([1, '2026-01-01T00:00:00Z'])
    const syncLogId = await run('contacts')
    expect(await logOf(test, syncLogId)).toMatchObject({ operation: 'sync', stream: 'contacts', status: 'success' })
    expect(await itemsOf(test, syncLogId)).toEqual([expect.objectContaining({ stream: 'contacts', status: 'success' })])
    expect(await standing('contacts')).toMatchObject({ syncCursor: '2026-01-01T00:00:00Z', consecutiveSyncFailures: 0 })
    expect(await standing('deals')).toMatchObject({ syncCursor: null, lastSyncedAt: null })
    expect((await integration.refresh()).syncCursor).toBeNull()
  })

  it('with a poison item holds its own cursor; the other goes on', async () => {
    contacts = listsThings([-1, '2026-01-01T00:00:00Z'], [1, '2026-01-02T00:00:00Z'])
    deals = listsThings([1, '2026-02-01T00:00:00Z'])
    await run('contacts')
    await run('deals')
    contacts = listsThings([2, '2026-01-03T00:00:00Z'])
    await run('contacts')
    expect(await standing('contacts')).toMatchObject({ syncCursor: null })
    expect(await standing('deals')).toMatchObject({ syncCursor: '2026-02-01T00:00:00Z', consecutiveSyncFailures: 0 })
  })

  it('is opened beside a run of another stream, and again only once it has ended', async () => {
    const open = (name: string, runId: string) =>
      test.activities.openSyncRun({ integrationId: integration.id, stream: name, runId })
    const first = await open('contacts', 'a')
    const beside = await open('deals', 'b')
    expect([first.kind, beside.kind]).toEqual(['open', 'open'])
    expect(await open('contacts', 'a')).toEqual(first)
    // Its workflow is its lock: another one means that the first is gone.
    await open('contacts', 'c')
    expect(await logOf(test, (first as { syncLogId: number }).syncLogId)).toMatchObject({ status: 'failed' })
    expect(await logOf(test, (beside as { syncLogId: number }).syncLogId)).toMatchObject({ status: 'processing' })
  })

  it('begins an overlap before the stored cursor, and the stored one stays', async () => {
    deals = listsThings([1, '2026-02-01T02:00:00.000Z'])
    await run('deals')
    let given: unknown
    deals = (session) => {
      given = session.cursor()
    }
    await run('deals')
    expect(given).toBe('2026-02-01T01:00:00.000Z')
    expect(await standing('deals')).toMatchObject({ syncCursor: '2026-02-01T02:00:00.000Z' })
  })

  it('tells its end with its name', async () => {
    const told: IntegrationEvents['SyncCompleted'][] = []
    listen(test, 'SyncCompleted', (event) => void told.push(event))
    await run('deals')
    expect(told).toEqual([expect.objectContaining({ stream: 'deals' })])
  })

  it('finds what is gone among its own model; a full listing without a model is refused', async () => {
    deals = (session) => session.fullListing()
    await expect(run('deals')).rejects.toThrow('the model that the stream "deals" is mapped to is allowed')
  })

  it('that its provider does not have is refused in words', async () => {
    await expect(run('invoices')).rejects.toThrow('the provider "crm" has no stream "invoices"')
    await expect(test.integrations.syncs.start(integration.id, { stream: 'invoices' })).rejects.toThrow(
      'one of contacts, deals is allowed, which are the streams of the provider "crm"; "invoices" was given',
    )
    const plain = await makeIntegration(test, 'plain')
    await expect(test.integrations.syncs.start(plain.id, { stream: 'deals' })).rejects.toThrow('has no streams')
  })
})

describe('the schedule', () => {
  const due = async () => {
    test.starts.streams.length = 0
    await runActivity(syncActivities(test.framework).startDueSyncs, undefined)
    return [...test.starts.streams]
  }

  it('starts each due stream; one that waits for another after its first run', async () => {
    expect(await due()).toEqual(['contacts'])
    contacts = listsThings([-1, '2026-01-01T00:00:00Z'])
    await run('contacts')
    expect(await due()).toEqual(['deals'])
    await run('deals')
    expect(await due()).toEqual([])
    await test.sql`update integration_streams set next_sync_at = now() - interval '1 s'`
    expect((await due()).sort()).toEqual(['contacts', 'deals'])
  })

  it('plans each by its own interval, and the integration sums up the worst', async () => {
    await run('contacts')
    const [first] = [await standing('contacts')]
    const seconds = ((first?.nextSyncAt?.getTime() ?? 0) - Date.now()) / 1_000
    expect(seconds).toBeGreaterThan(50)
    expect(seconds).toBeLessThanOrEqual(60)
    expect(await integration.refresh()).toMatchObject({ lastSyncedAt: null })
    await run('deals')
    const [contact, deal] = [await standing('contacts'), await standing('deals')]
    expect(await integration.refresh()).toMatchObject({
      lastSyncedAt: contact?.lastSyncedAt,
      nextSyncAt: deal?.nextSyncAt,
    })
  })

  it('leaves out what is switched off, and begins all again when it is switched on', async () => {
    await run('contacts')
    await run('deals')
    await test.integrations.disable(integration.id)
    await test.sql`update integration_streams set next_sync_at = null`
    expect(await due()).toEqual([])
    await test.integrations.enable(integration.id)
    expect((await due()).sort()).toEqual(['contacts', 'deals'])
  })

  it('calls late streams stale by their own limit: one incident, and each is told', async () => {
    const told: unknown[] = []
    listen(test, 'SyncBecameStale', ({ stream: name }) => void told.push(name))
    listen(test, 'SyncStalenessRecovered', ({ stream: name }) => void told.push(`${name} recovered`))
    await due()
    await test.sql`update integration_streams set created_at = now() - interval '101 s'`
    expect((await evaluateStaleSyncs(test.framework)).stale).toEqual([
      { integrationId: integration.id, stream: 'deals', lastSyncedAt: null },
    ])
    await test.sql`update integration_streams set created_at = now() - interval '1 day'`
    await evaluateStaleSyncs(test.framework)
    expect(told).toEqual(['deals', 'contacts'])
    const incidents = await test.sql`select closed_at is null as open from integration_incidents`
    expect(incidents).toEqual([{ open: true }])
    await run('contacts')
    expect(await test.sql`select closed_at is null as open from integration_incidents`).toEqual([{ open: true }])
    await run('deals')
    expect(told.slice(2)).toEqual(['contacts recovered', 'deals recovered'])
    expect(await test.sql`select closed_at is null as open from integration_incidents`).toEqual([{ open: false }])
  })

  it('calls no stream stale that runs by hand alone', async () => {
    const byHand = { contacts: stream('contacts', () => {}, { staleAfterSeconds: 60 }) }
    const next = testIntegrations(database.url, { providers: { crm: { ...crm, streams: byHand } } })
    await due()
    await test.sql`update integration_streams set created_at = now() - interval '1 day' where stream = 'contacts'`
    expect((await evaluateStaleSyncs(next.framework)).stale).toEqual([])
    await next.close()
  })

  const withContacts: HasStreams = { ...crm, streams: { contacts: stream('contacts', () => {}) } }
  it.each<[string, IntegrationProvider]>([
    ['one of two', withContacts],
    ['all', {}],
  ])('ends the staleness of a stream that a release removes, and its incident (%s)', async (_, provider) => {
    await due()
    await test.sql`update integration_streams set created_at = now() - interval '101 s'`
    await evaluateStaleSyncs(test.framework)
    const next = testIntegrations(database.url, { providers: { crm: provider } })
    const told: unknown[] = []
    listen(next, 'SyncStalenessRecovered', ({ stream: name }) => void told.push(name))
    await ageMarkers('23 hours')
    expect(await evaluateStaleSyncs(next.framework)).toEqual({ stale: [], recovered: [] })
    await ageMarkers('25 hours')
    await test.sql`update integration_streams set last_run_at = now() - interval '23 hours' where stream = 'deals'`
    expect(await evaluateStaleSyncs(next.framework)).toEqual({ stale: [], recovered: [] })
    await test.sql`update integration_streams set last_run_at = now() - interval '25 hours' where stream = 'deals'`
    expect(await evaluateStaleSyncs(next.framework)).toEqual({ stale: [], recovered: [integration.id] })
    await evaluateStaleSyncs(next.framework)
    expect(told).toEqual(['deals'])
    const [row] = await test.sql`select i.sync_stale_alerted_at as marked, closed_at is null as open
      from integrations i join integration_incidents on integration_id = i.id where i.id = ${integration.id}`
    expect(row).toEqual({ marked: null, open: false })
    await next.close()
  })

  it.each<[string, IntegrationProvider]>([
    ['one of two', withContacts],
    ['none', {}],
  ])('tells of a late stream once while workers of a release that has %s take turns', async (_, provider) => {
    const former = testIntegrations(database.url, { providers: { crm: provider } })
    const told: unknown[] = []
    for (const each of [test, former]) {
      listen(each, 'SyncBecameStale', ({ stream: name }) => void told.push(name))
      listen(each, 'SyncStalenessRecovered', ({ stream: name }) => void told.push(`${name} recovered`))
    }
    await due()
    await test.sql`update integration_streams set created_at = now() - interval '101 s'`
    for (const each of [test, former, test, former]) await evaluateStaleSyncs(each.framework)
    expect(told).toEqual(['deals'])
    expect(await test.sql`select closed_at is null as open from integration_incidents`).toEqual([{ open: true }])
    await former.close()
  })

  async function ageMarkers(age: string): Promise<void> {
    await test.sql`update integration_streams set sync_stale_alerted_at = now() - ${age}::interval where sync_stale_alerted_at is not null`
    await test.sql`update integrations set sync_stale_alerted_at = now() - ${age}::interval where sync_stale_alerted_at is not null`
  }
})

describe('by hand', () => {
  it('starts one stream, or all of them', async () => {
    const one = await test.integrations.syncs.start(integration.id, { stream: 'deals' })
    expect(one).toMatchObject({ kind: 'started', stream: 'deals' })
    test.starts.running.clear()
    const all = await test.integrations.syncs.start(integration.id)
    expect(all.streams?.map(({ stream: name }) => name)).toEqual(['contacts', 'deals'])
  })

  it('sets the cursor of the stream that is named; without a name it asks which', async () => {
    await test.integrations.syncs.setCursor(integration.id, 'c', { stream: 'deals' })
    expect(await standing('deals')).toMatchObject({ syncCursor: 'c' })
    expect(await standing('contacts')).toMatchObject({ syncCursor: null })
    await expect(test.integrations.syncs.setCursor(integration.id, 'c')).rejects.toThrow('contacts, deals')
  })
})

describe('a provider', () => {
  const faults = (streams: object, more: object = {}) => {
    try {
      test.integrations.register('bad', { defaultRateLimit: () => null, streams, ...more } as HasStreams)
    } catch (error) {
      return (error as Error).message
    }
    throw new Error('it was registered')
  }
  const good = stream('good', () => {})

  it.each([
    ['no stream', {}, 'at least one is needed'],
    ['a name with a colon', { 'a:b': good }, 'a name is a letter, then letters'],
    ['an interval of 9 s', { a: { ...good, everySeconds: 9 } }, 'everySeconds is at least 10, or null; 9 was given'],
    [
      'bounds that cross',
      { a: { ...good, everySeconds: { least: 60, most: 59 } } },
      'everySeconds has least, from 10 on, and most, from least on; {"least":60,"most":59} was given',
    ],
    ['a least interval of 9 s', { a: { ...good, everySeconds: { least: 9, most: 60 } } }, 'everySeconds has least'],
    ['no sync()', { a: { reduceCheckpoints: () => null } }, 'it lacks sync'],
    ['a wait for itself', { a: { ...good, after: 'a' } }, 'after names another stream (there is none)'],
    ['a wait in a circle', { a: { ...good, after: 'b' }, b: { ...good, after: 'a' } }, 'no circle of them'],
    [
      'a wait for none',
      { a: { ...good, after: 'd' }, b: good, c: good },
      'after names another stream (b, c), and no circle of them; "d" was given',
    ],
    ['a concurrency of 0', { a: { ...good, itemConcurrency: 0 } }, 'itemConcurrency is a whole number'],
  ])('with %s is refused', (_, streams, message) => {
    expect(faults(streams)).toContain(message)
  })

  it('with streams and a sync() is refused', () => {
    expect(
      faults(
        { good },
        syncProvider(() => {}),
      ),
    ).toContain('either streams or one sync()')
  })
})
