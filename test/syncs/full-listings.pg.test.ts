/** A stream that is incremental otherwise lists in full from time to time. Rule: docs/behaviour/sync-changes.md, "Full listings on schedule". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { HasStreams, SyncStream } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { reduceCheckpointsByMax } from '../../src/syncs/checkpoint-rules.ts'
import { findSyncRow } from '../../src/syncs/sync-rows.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { ThingSynced } from '../support/providers.ts'
import { logOf, makeIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
/** What the provider has: numbers by id. */
let records: Map<string, number>
let calls: { by: 'sync' | 'syncIncremental'; cursor: unknown }[]
let gone: string[]
/** Called behind each record that is listed. */
let meanwhile: (session: SyncSession, id: string) => Promise<void> | void

const at = (n: number) => `2026-01-${String(n).padStart(2, '0')}T00:00:00Z`

async function list(by: 'sync' | 'syncIncremental', session: SyncSession): Promise<void> {
  const cursor = session.cursor()
  calls.push({ by, cursor })
  const after = session.resumeFrom()
  for (const [id, n] of [...records].sort())
    if ((cursor === null || at(n) > String(cursor)) && (after === null || id > String(after))) {
      await session.dispatch(new ThingSynced(session.integration, { n }), at(n), id)
      await meanwhile(session, id)
    }
}

const things: SyncStream = {
  sync: (_integration, session) => list('sync', session),
  syncIncremental: (_integration, session) => list('syncIncremental', session),
  reduceCheckpoints: reduceCheckpointsByMax,
  events: [ThingSynced],
  fullEvery: 1_000,
  model: 'thing',
  handleMissing: async (_integration, ids) => void gone.push(...ids),
}
/** Each has a model of its own: what one lists is not missing to the other. */
const MODELS = { quiet: 'thing', loud: 'other' } as const
const streams = {
  quiet: { ...things, model: MODELS.quiet, skipUnchanged: true as const },
  loud: { ...things, model: MODELS.loud },
}

/** Its mappings are what counts; no row of it is read. */
const MODEL = Object.fromEntries(
  ['of', 'find', 'findMany', 'create', 'update', 'scan'].map((name) => [name, () => null]),
)

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: { defaultRateLimit: () => null, streams } satisfies HasStreams },
    models: Object.fromEntries(Object.values(MODELS).map((type) => [type, { ...MODEL, type } as never])),
    config: { sync: { item_tries: 1 } },
  })
  test.integrations.on(ThingSynced, async ({ integration: of, payload: { n } }) => {
    if (n < 0) throw new Error('poison')
    const id = [...records].find(([, number]) => number === n)?.[0]
    if (id !== undefined) for (const type of Object.values(MODELS)) await of.mapExternalId(id, { type, id })
  })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  records = new Map(['a', 'b', 'c', 'd', 'e'].map((id, index) => [id, index + 1]))
  calls = []
  gone = []
  meanwhile = () => {}
})

describe.each(['quiet', 'loud'] as const)('a stream with fullEvery that is %s', (stream) => {
  const run = async () => {
    calls = []
    gone = []
    return runSync(test.framework, new ManualClock(new Date().toISOString()), { integrationId: integration.id, stream })
  }
  const agoed = (seconds: number) =>
    test.sql`
      update integration_streams set last_full_at = last_full_at - make_interval(secs => ${seconds}),
             full_begun_at = full_begun_at - make_interval(secs => ${seconds})
      where integration_id = ${integration.id}`
  const runInFull = async () => {
    await agoed(1_001)
    return run()
  }
  const standing = () =>
    findSyncRow(test.framework.db, test.framework.tables, { integrationId: integration.id, stream })

  it('begins with sync() and no cursor, then asks for changes, until it is due again; the cursor moves as ever', async () => {
    const first = await run()
    expect(calls).toEqual([{ by: 'sync', cursor: null }])
    expect((await logOf(test, first)).metadata).toMatchObject({
      full: true,
      incremental: false,
      full_listing: { internal_type: MODELS[stream] },
    })
    expect(await standing()).toMatchObject({ syncCursor: at(5) })
    records.set('f', 6)
    await run()
    expect(calls).toEqual([{ by: 'syncIncremental', cursor: at(5) }])
    expect(await standing()).toMatchObject({ syncCursor: at(6) })
    await agoed(990)
    await run()
    expect(calls).toEqual([{ by: 'syncIncremental', cursor: at(6) }])
    await agoed(11)
    records.set('g', 7)
    await run()
    expect(calls).toEqual([{ by: 'sync', cursor: null }])
    expect(await standing()).toMatchObject({ syncCursor: at(7) })
  })

  it('tells what two full listings in a row did not name, whatever comes in between', async () => {
    await run()
    records.delete('b')
    await runInFull()
    expect(gone).toEqual([])
    records.set('f', 6)
    await run()
    await runInFull()
    expect(gone).toEqual(['b'])
  })

  it('keeps a cursor that a full listing does not reach', async () => {
    await run()
    records = new Map([['a', 1]])
    await runInFull()
    expect(await standing()).toMatchObject({ syncCursor: at(5) })
  })

  it('tries a full listing that was not clean again after a tenth of its time, and lists changes meanwhile', async () => {
    await run()
    records.set('x', -1)
    await runInFull()
    expect(calls).toMatchObject([{ by: 'sync' }])
    await run()
    expect(calls).toMatchObject([{ by: 'syncIncremental' }])
    await agoed(101)
    await run()
    expect(calls).toMatchObject([{ by: 'sync' }])
  })

  it('goes on from a bookmark without taking the pages that it does not list again for deleted', async () => {
    await run()
    const broken = new Set<string>()
    meanwhile = async (session, id) => {
      await session.bookmark(id)
      if (broken.size < 2 && id === ['b', 'd'][broken.size]) {
        broken.add(id)
        // Gone once it was named: this listing and the next may not tell it.
        records.delete('a')
        throw new Error('it breaks off')
      }
    }
    const resumed = await runInFull()
    expect(calls).toHaveLength(3)
    expect(broken.size).toBe(2)
    expect((await logOf(test, resumed)).metadata).toMatchObject({ listed: 5 })
    expect(gone).toEqual([])
    await runInFull()
    expect(gone).toEqual([])
    await runInFull()
    expect(gone).toEqual(['a'])
  })

  it('that breaks off for good proves nothing', async () => {
    await run()
    records.delete('a')
    meanwhile = () => {
      throw new Error('it breaks off')
    }
    await expect(runInFull()).rejects.toThrow('it breaks off')
    meanwhile = () => {}
    await runInFull()
    expect(gone).toEqual([])
    await runInFull()
    expect(gone).toEqual(['a'])
  })

  describe('that misses more than half', () => {
    const withheld = async () => {
      await run()
      for (const id of ['a', 'b', 'c']) records.delete(id)
      await runInFull()
      const syncLogId = await runInFull()
      expect(gone).toEqual([])
      return syncLogId
    }
    const confirm = (id: number, dryRun = false) => test.integrations.syncs.confirmMissing(id, { dryRun })

    it('tells once a person confirms it, who can look before', async () => {
      const syncLogId = await withheld()
      const found = { integrationId: integration.id, missing: 3, mapped: 5, examples: ['a', 'b', 'c'] }
      expect(await confirm(syncLogId, true)).toEqual({ ...found, told: 0 })
      expect(gone).toEqual([])
      expect(await confirm(syncLogId)).toEqual({ ...found, told: 3 })
      expect(gone).toEqual(['a', 'b', 'c'])
      await expect(confirm(syncLogId)).rejects.toMatchObject({ code: 'missing_not_withheld' })
    })

    it('leaves out what a run has named since', async () => {
      const syncLogId = await withheld()
      records.set('b', 9)
      await run()
      expect(await confirm(syncLogId)).toMatchObject({ missing: 2, told: 2 })
      expect(gone).toEqual(['a', 'c'])
    })

    it('is not confirmed by an older listing than the newest, nor by a run that withheld nothing', async () => {
      const syncLogId = await withheld()
      const newer = await runInFull()
      await expect(confirm(syncLogId)).rejects.toThrow(`the full listing of run ${newer} is newer`)
      await expect(confirm(await run())).rejects.toMatchObject({ code: 'missing_not_withheld' })
      await expect(confirm(2 ** 40)).rejects.toMatchObject({ code: 'sync_run_not_found' })
    })
  })

  if (stream === 'quiet')
    it('says of a record that was gone and is back that it has reappeared, also unchanged', async () => {
      const heard: unknown[] = []
      test.integrations.on(ThingSynced, ({ payload: { n }, change }) => void heard.push([n, change]))
      await run()
      records.delete('b')
      await runInFull()
      await runInFull()
      expect(gone).toEqual(['b'])
      heard.length = 0
      records.set('b', 2)
      await runInFull()
      expect(heard).toEqual([[2, 'reappeared']])
    })
})

it.each<[string, Partial<SyncStream>, string]>([
  ['no model', { model: undefined as never }, 'fullEvery goes with syncIncremental() and model'],
  ['no syncIncremental()', { syncIncremental: undefined as never }, 'fullEvery goes with syncIncremental() and model'],
  ['9 seconds', { fullEvery: 9 }, 'fullEvery is at least 10; 9 was given'],
  [
    'a model that is not registered',
    { model: 'contact' },
    'model is a registered one (thing, other); "contact" was given',
  ],
])('a stream with fullEvery and %s is refused', (_, more, message) => {
  const bad = { defaultRateLimit: () => null, streams: { things: { ...things, ...more } } }
  expect(() => test.integrations.register('bad', bad)).toThrow(message)
})

it('a stream with handleMissing() is refused where another one has its model', () => {
  const { handleMissing, ...lists } = things
  const streams = { things, archived: { ...lists } }
  const bad = { defaultRateLimit: () => null, streams }
  expect(() => test.integrations.register('bad', bad)).toThrow(
    'stream "things": handleMissing() needs a model that no other stream has, and "archived" has "thing", too',
  )
  const apart = { defaultRateLimit: () => null, streams: { things: { ...lists }, archived: { ...lists } } }
  expect(() => test.integrations.register('apart', apart)).not.toThrow()
})

describe('full listings further apart than their rows are kept', () => {
  const DAY = 86_400
  const { handleMissing: _, ...untold } = things
  const warnings = async (all: HasStreams['streams'], pruning: { sync_items_days?: number; logs_days?: number }) => {
    const kit = testIntegrations(database.url, {
      providers: { acme: { defaultRateLimit: () => null, streams: all } satisfies HasStreams },
      models: { thing: { ...MODEL, type: 'thing' } as never },
      config: { pruning },
    })
    await kit.close()
    return kit.lines.filter(({ fields }) => fields.event === 'configuration.warning').map(({ message }) => message)
  }

  it.each<[string, Partial<SyncStream>, { sync_items_days?: number; logs_days?: number }, string[]]>([
    ['items', { fullEvery: 7 * DAY }, { sync_items_days: 7, logs_days: 90 }, ['pruning.sync_items_days (7) has']],
    ['logs', { fullEvery: 30 * DAY }, { sync_items_days: 90, logs_days: 30 }, ['pruning.logs_days (30) has']],
    ['neither', { fullEvery: 7 * DAY - 1 }, { sync_items_days: 7, logs_days: 7 }, []],
  ])('are warned of at the start, by stream: %s', async (_, stream, pruning, expected) => {
    expect(await warnings({ things: { ...things, ...stream } }, pruning)).toEqual(
      expected.map((part) => expect.stringContaining(part)),
    )
  })

  it('are not, where no one is told of deletions', async () => {
    expect(await warnings({ things: { ...untold, fullEvery: 7 * DAY } }, { sync_items_days: 7 })).toEqual([])
  })
})
