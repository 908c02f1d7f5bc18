/** What a provider's sync() may hand in, and which rows come of it. */
import { Context } from '@temporalio/activity'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Integration } from '../../../src/providers/integration.ts'
import type { MappedModel } from '../../../src/providers/mapped-model.ts'
import { SyncItemEvent } from '../../../src/providers/provider-events.ts'
import type { SyncSession } from '../../../src/providers/sync-session.ts'
import { runActivity } from '../../support/activities.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { OtherSynced, syncProvider, ThingSynced } from '../../support/providers.ts'
import { itemsOf, logOf, makeIntegration, makeRun } from '../../support/rows.ts'

class Unregistered extends SyncItemEvent {
  static override readonly type = 'test.unregistered'
}
/** The same type as a registered class: it is that class that counts, not the name. */
class Impostor extends SyncItemEvent {
  static override readonly type = 'test.thing'
}
class Dated extends SyncItemEvent<unknown> {
  static override readonly type = 'test.dated'
  static override readonly version = 3
}

const unasked = (): never => {
  throw new Error('a listing asks no model')
}
const thing: MappedModel = {
  type: 'thing',
  of: unasked,
  find: unasked,
  findMany: unasked,
  create: unasked,
  update: unasked,
  scan: unasked,
}

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let lists: (session: SyncSession) => Promise<void> | void

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      acme: syncProvider((session) => lists(session), { syncItemEvents: () => [ThingSynced, OtherSynced, Dated] }),
    },
    models: { thing },
    config: { sync: { max_items_per_batch: 3 } },
  })
  integration = await makeIntegration(test, 'acme')
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

describe('dispatch', () => {
  const thing = (n = 1) => new ThingSynced(integration, { n })
  const circular: Record<string, unknown> = {}
  circular.self = circular

  it.each([
    ['an unregistered event class', () => [new Unregistered(integration, 1)], 'event'],
    ['another class of a registered type', () => [new Impostor(integration, { n: 1 })], 'event'],
    ['a plain object', () => [{ payload: 1 }], 'event'],
    ['an object without a prototype', () => [Object.create(null)], 'event'],
    ['nothing', () => [undefined], 'event'],
    ['null', () => [null], 'event'],
    ['a checkpoint that is a Date', () => [thing(), new Date()], 'checkpointValue'],
    ['a checkpoint that is NaN', () => [thing(), Number.NaN], 'checkpointValue'],
    ['a checkpoint with undefined in it', () => [thing(), { at: undefined }], 'checkpointValue'],
    ['a checkpoint with half of a surrogate pair', () => [thing(), 'a\ud83d'], 'checkpointValue'],
    ['a checkpoint with U+0000', () => [thing(), { at: 'a\0b' }], 'checkpointValue'],
    ['a checkpoint that is a function', () => [thing(), () => 1], 'checkpointValue'],
    ['a payload that does not fit its schema', () => [new ThingSynced(integration, { n: 'one' } as never)], 'payload'],
    ['no payload', () => [new OtherSynced(integration, undefined as never)], 'payload'],
    ['a circular payload', () => [new OtherSynced(integration, circular as never)], 'payload'],
    ['a payload with a bigint', () => [new OtherSynced(integration, { n: 1n } as never)], 'payload'],
    ['a payload of 1 MiB and a byte', () => [new OtherSynced(integration, 'x'.repeat(1_048_575))], 'payload'],
    ['an external id of 501 characters', () => [thing(), null, 'x'.repeat(501)], 'externalId'],
    ['an external id with U+0000', () => [thing(), null, 'a\0b'], 'externalId'],
    ['an external id that is a fraction', () => [thing(), null, 1.5], 'externalId'],
    ['an external id above 2^53-1', () => [thing(), null, 2 ** 53], 'externalId'],
  ])('refuses %s at once, and stores nothing of it', async (_, args, argument) => {
    const { runId } = await list(async (session) => {
      await expect(session.dispatch(...(args() as Parameters<SyncSession['dispatch']>))).rejects.toMatchObject({
        code: 'invalid_argument',
        argument,
      })
      expect(session.isEmpty).toBe(true)
    })
    expect(await itemsOf(test, runId)).toEqual([])
  })

  it.each([
    ['a text', 'abc', 'abc'],
    ['an integer', 7, '7'],
    ['a negative integer', -7, '-7'],
    ['an int8 as drivers give it, above 2^53-1', 9_007_199_254_740_993n as never, '9007199254740993'],
    ['the empty text', '', null],
    ['null', null, null],
    ['500 characters', 'x'.repeat(500), 'x'.repeat(500)],
    ['500 characters of two code units', '😀'.repeat(500), '😀'.repeat(500)],
  ])('takes for an external id %s', async (_, externalId, stored) => {
    const { runId } = await list((session) => session.dispatch(thing(), null, externalId))
    expect((await itemsOf(test, runId))[0]?.externalId).toBe(stored)
  })

  it.each([
    ['a text', '2026-01-01T00:00:00Z'],
    ['a text of digits', '12345'],
    ['0', 0],
    ['false', false],
    ['the empty text', ''],
    ['an object', { page: 1, since: null }],
    ['null', null],
  ])('keeps a checkpoint that is %s', async (_, checkpoint) => {
    const { runId } = await list((session) => session.dispatch(thing(), checkpoint))
    expect((await itemsOf(test, runId))[0]?.checkpointValue).toEqual(checkpoint)
  })

  it('creates a pending row with checkpoint_value and external_id', async () => {
    const { runId } = await list((session) => session.dispatch(thing(), 'c1', 'x-1'))
    expect(await itemsOf(test, runId)).toEqual([
      expect.objectContaining({
        status: 'pending',
        checkpointValue: 'c1',
        externalId: 'x-1',
        attempts: 0,
        completedAt: null,
        error: null,
      }),
    ])
  })

  it('stores the payload with its version, dates as ISO text, what jsonb refuses replaced', async () => {
    const { runId } = await list((session) =>
      session.dispatch(new Dated(integration, { at: new Date(0), gone: undefined, bad: 'a\ud83d', nul: 'a\0b' })),
    )
    expect(await itemsOf(test, runId)).toEqual([
      expect.objectContaining({
        integrationId: integration.id,
        eventClass: 'test.dated',
        status: 'pending',
        attempts: 0,
        claim: null,
        payload: { v: 3, data: { at: '1970-01-01T00:00:00.000Z', bad: 'a\ufffd', nul: 'ab' } },
      }),
    ])
  })

  it('takes a payload of exactly 1 MiB', async () => {
    const { listing } = await list((session) => session.dispatch(new OtherSynced(integration, 'x'.repeat(1_048_574))))
    expect(listing).toEqual({ kind: 'listed', listed: 1, duplicatesDropped: 0 })
  })

  it('keeps the order of calls that nobody awaits, and stores the rest at the end', async () => {
    const { runId, listing } = await list((session) => {
      for (let n = 0; n < 1_203; n += 1) void session.dispatch(thing(n), null, n)
    })
    expect(listing.listed).toBe(1_203)
    const rows = await itemsOf(test, runId)
    expect(rows.map((row) => row.externalId)).toEqual(Array.from({ length: 1_203 }, (_, n) => String(n)))
  })

  it('writes chunks of 500: the call that fills one waits for its insert', async () => {
    const stored: number[] = []
    const { runId } = await list(async (session) => {
      for (let n = 1; n <= 1_001; n += 1) {
        await session.dispatch(thing(n))
        if ([499, 500, 999, 1_000, 1_001].includes(n)) stored.push((await itemsOf(test, session.syncLogId)).length)
      }
    })
    expect(stored).toEqual([0, 500, 500, 1_000, 1_000])
    expect(await itemsOf(test, runId)).toHaveLength(1_001)
  })

  it('keeps the later of two of the same class and external id without checkpoints, counts and warns of the others', async () => {
    const linesBefore = test.lines.length
    const { runId, listing } = await list(async (session) => {
      await session.dispatch(thing(1), null, 'a')
      await session.dispatch(thing(2), null, 'a')
      await session.dispatch(new OtherSynced(integration, 3), null, 'a')
      await session.dispatch(thing(4), null, null)
      await session.dispatch(thing(5), null, '')
      await session.dispatch(thing(6), null, 'A')
      await session.dispatch(thing(7), null, 'a')
      expect([session.count, session.duplicatesDropped, session.isEmpty]).toEqual([5, 2, false])
    })
    expect(listing).toEqual({ kind: 'listed', listed: 5, duplicatesDropped: 2 })
    const data = (await itemsOf(test, runId)).map((row) => (row.payload as { data: unknown }).data)
    expect(data).toEqual([{ n: 7 }, 3, { n: 4 }, { n: 5 }, { n: 6 }])
    expect((await logOf(test, runId)).metadata).toMatchObject({ duplicates_dropped: 2, listed: 5, enumerated: true })
    const warnings = test.lines.slice(linesBefore).filter(({ message }) => message.includes('listed twice'))
    expect(warnings).toHaveLength(2)
  })

  const CHUNK = 500
  it.each([
    ['in the same chunk', 0],
    ['in a chunk that is stored already', CHUNK],
  ])('keeps payload and checkpoint of the newer copy of an item that was listed again, %s', async (_, between) => {
    const [old, newer] = ['2026-01-01T00:00:00Z', '2026-01-01T00:00:09Z']
    const { runId, listing } = await list(async (session) => {
      await session.dispatch(thing(1), old, 'edited')
      await session.dispatch(thing(1), newer, 'read backwards')
      await session.dispatch(thing(1), old, 'unchanged')
      await session.dispatch(thing(1), old, 'three times')
      for (let n = 0; n < between; n += 1) await session.dispatch(thing(0))
      await session.dispatch(thing(2), newer, 'edited')
      await session.dispatch(thing(2), old, 'read backwards')
      await session.dispatch(thing(2), '2026-01-01T01:00:00+01:00', 'unchanged')
      await session.dispatch(thing(2), newer, 'three times')
      await session.dispatch(thing(3), '2026-01-01T00:00:10Z', 'three times')
      await session.dispatch(thing(4), newer, 'three times')
    })
    expect(listing).toMatchObject({ listed: 4 + between, duplicatesDropped: 6 })
    const kept = (await itemsOf(test, runId)).filter(({ externalId }) => externalId !== null)
    expect(
      kept.map(({ externalId, checkpointValue, payload }) => [
        externalId,
        checkpointValue,
        (payload as { data: { n: number } }).data.n,
      ]),
    ).toEqual([
      ['edited', newer, 2],
      ['read backwards', newer, 1],
      ['unchanged', '2026-01-01T01:00:00+01:00', 2],
      ['three times', '2026-01-01T00:00:10Z', 3],
    ])
  })

  it('fails where the row of a newer copy has begun: the cursor must not pass what is not in the row', async () => {
    await expect(
      list(async (session) => {
        await session.dispatch(thing(1), 'c1', 'begun')
        for (let n = 1; n < CHUNK; n += 1) await session.dispatch(thing(0))
        await test.sql`update integration_sync_items set status = 'processing', attempts = 1 where sync_log_id = ${session.syncLogId} and external_id = 'begun'`
        await session.dispatch(thing(2), 'c2', 'begun')
      }),
    ).rejects.toThrow('has begun before its listing was complete')
  })

  it('warns once from item max_items_per_batch + 1 on; the run goes on', async () => {
    const warned = async (items: number): Promise<number> => {
      const before = test.lines.length
      const { listing } = await list(async (session) => {
        for (let n = 0; n < items; n += 1) await session.dispatch(thing(n))
      })
      expect(listing.listed).toBe(items)
      return test.lines.slice(before).filter(({ message }) => message.includes('max_items_per_batch')).length
    }
    expect([await warned(3), await warned(4), await warned(6)]).toEqual([0, 1, 1])
  })

  it('throws SyncSessionClosed once sync() has returned', async () => {
    let kept: SyncSession | undefined
    const { runId } = await list((session) => {
      kept = session
    })
    await expect(kept?.dispatch(thing())).rejects.toMatchObject({ code: 'sync_session_closed' })
    expect(await itemsOf(test, runId)).toEqual([])
  })

  it('that nobody awaits ends no process when the listing is over; it is logged', async () => {
    let kept: SyncSession | undefined
    await list(async (session) => {
      kept = session
    })
    const before = test.lines.length
    // Vitest fails a run in which a rejection goes unhandled.
    void kept?.dispatch(thing())
    void kept?.bookmark('late')
    await new Promise((resolve) => setImmediate(resolve))
    const late = test.lines.slice(before).filter(({ fields }) => fields.event === 'sync.late_dispatch')
    expect(late.map(({ level }) => level)).toEqual(['error', 'error'])
  })

  describe('that is refused and that nobody awaits', () => {
    const invalid = { type: 'invalid_argument', nonRetryable: true }
    const listing = async (work: typeof lists) => {
      const run = await makeRun(test, integration.id, { enumerated: false })
      lists = work
      return { run, ended: attempt(run, 1) }
    }

    // Vitest fails a run in which a rejection goes unhandled.
    it('ends the listing with its reason at once, and keeps nothing of it', async () => {
      let told: unknown
      const { run, ended } = await listing(async (session) => {
        void session.dispatch(thing(), null, 'good')
        void session.dispatch(thing(), new Date() as never, 'bad')
        // As long as a provider's answer takes.
        await new Promise((resolve) => session.signal.addEventListener('abort', resolve, { once: true }))
        told = session.signal.reason
      })
      await expect(ended).rejects.toMatchObject({ ...invalid, message: expect.stringContaining('checkpointValue') })
      expect(told).toMatchObject({ code: 'invalid_argument', argument: 'checkpointValue' })
      expect(await itemsOf(test, run.id)).toEqual([])
      expect((await logOf(test, run.id)).metadata).toMatchObject({ enumerated: false })
    })

    it('ends it also as the last call before sync() returns', async () => {
      const { run, ended } = await listing((session) => {
        void session.dispatch(thing(), null, 'good')
        void session.dispatch(thing(), null, 1.5)
      })
      await expect(ended).rejects.toMatchObject({ ...invalid, message: expect.stringContaining('externalId') })
      expect(await itemsOf(test, run.id)).toEqual([])
    })

    it.each([
      ['an object', { id: 1 }],
      ['a list', ['a', 'b']],
      ['true', true],
    ])('is %s as an external id: two of them would be one item', async (_, externalId) => {
      const { ended } = await listing((session) => session.dispatch(thing(), null, externalId as never))
      await expect(ended).rejects.toMatchObject({ ...invalid, message: expect.stringContaining('externalId') })
    })

    it('is a bookmark as well', async () => {
      const { ended } = await listing((session) => void session.bookmark(null))
      await expect(ended).rejects.toMatchObject({ ...invalid, message: expect.stringContaining('position') })
    })

    it.each<[string, (refused: Promise<void>) => unknown]>([
      ['await', async (refused) => expect((await refused.then(String, () => 'seen')) as string).toBe('seen')],
      ['try', (refused) => (async () => refused)().catch(() => {})],
      ['catch()', (refused) => void refused.catch(() => {})],
      ['Promise.allSettled()', (refused) => Promise.allSettled([refused])],
      ['Promise.all()', (refused) => Promise.all([refused]).catch(() => {})],
    ])('goes on when the provider takes notice of it by %s', async (_, notice) => {
      const { run, ended } = await listing(async (session) => {
        await notice(session.dispatch(thing(), null, 1.5))
        await new Promise((resolve) => setImmediate(resolve))
        await session.dispatch(thing(), null, 'good')
      })
      expect(await ended).toMatchObject({ kind: 'listed', listed: 1 })
      expect((await itemsOf(test, run.id)).map(({ externalId }) => externalId)).toEqual(['good'])
    })
  })

  it('throws SyncSessionClosed once sync() has thrown: nothing of that listing lands later', async () => {
    let kept: SyncSession | undefined
    const runId = await failing(async (session) => {
      kept = session
      for (let n = 0; n < 500; n += 1) void session.dispatch(thing(n))
      throw new Error('the next page was missing')
    })
    // The chunk that was under way has landed by now: the next try deletes it.
    expect(await itemsOf(test, runId)).toHaveLength(500)
    await expect(kept?.dispatch(thing())).rejects.toMatchObject({ code: 'sync_session_closed' })
  })

  it('fails the listing when a chunk could not be stored, also when nobody awaited it', async () => {
    const runId = await failing(async (session) => {
      await test.sql`delete from integration_logs where id = ${session.syncLogId}`
      for (let n = 0; n < 500; n += 1) void session.dispatch(thing(n)).catch(() => {})
    })
    expect(await itemsOf(test, runId)).toEqual([])
  })
})

describe('bookmark', () => {
  const positionOf = async (runId: number) =>
    ((await logOf(test, runId)).metadata as { bookmark?: { position: unknown } }).bookmark?.position

  it.each([
    ['null', null],
    ['undefined', undefined],
    ['a Date', new Date(0)],
    ['a function', () => 1],
    ['64 KiB and a byte', 'x'.repeat(65_535)],
    ['a text with U+0000', 'a\0b'],
    ['half a surrogate pair', { page: 'a\ud83d' }],
  ])('refuses %s at once and says what is allowed', async (_, position) => {
    const { runId } = await list(async (session) => {
      await expect(session.bookmark(position as never)).rejects.toMatchObject({
        code: 'invalid_argument',
        argument: 'position',
        message: expect.stringContaining('any JSON value but null of at most 65536 bytes is allowed'),
      })
    })
    expect(await positionOf(runId)).toBeUndefined()
  })

  it('names what is not JSON in a position', async () => {
    await list(async (session) => {
      const position = { page: 2, from: new Date(0) } as never
      await expect(session.bookmark(position)).rejects.toThrow('a Date at "from" was given')
    })
  })

  it.each([
    ['0', 0],
    ['false', false],
    ['the empty text', ''],
    ['an object', { page: 2, after: null }],
    ['a text that looks escaped', '\\u0000'],
    ['64 KiB', 'x'.repeat(65_534)],
  ])('keeps %s as it is', async (_, position) => {
    await list(async (session) => {
      await session.bookmark(position)
      expect(await positionOf(session.syncLogId)).toEqual(position)
    })
  })

  it('stores what is buffered, and says how far it goes, at once with it', async () => {
    await list(async (session) => {
      await session.bookmark('nothing yet')
      const empty = { position: 'nothing yet', item_id: 0, count: 0, duplicates: 0 }
      expect((await logOf(test, session.syncLogId)).metadata).toMatchObject({ bookmark: empty })
      for (const id of ['a', 'b', 'a']) await session.dispatch(new OtherSynced(integration, 1), null, id)
      await session.bookmark('two')
      const rows = await itemsOf(test, session.syncLogId)
      expect(rows.map(({ externalId }) => externalId)).toEqual(['a', 'b'])
      const two = { position: 'two', item_id: rows[1]?.id, count: 2, duplicates: 1 }
      expect((await logOf(test, session.syncLogId)).metadata).toMatchObject({ bookmark: two })
      await session.bookmark('three')
      const three = { ...two, position: 'three' }
      expect((await logOf(test, session.syncLogId)).metadata).toMatchObject({ bookmark: three })
    })
  })

  it('that nobody awaits keeps its place between the items', async () => {
    const runId = await failing(async (session) => {
      void session.dispatch(new OtherSynced(integration, 1), null, 'before')
      void session.bookmark('here')
      for (let n = 0; n < 500; n += 1) void session.dispatch(new OtherSynced(integration, n), null, n)
      throw new Error('the next page was missing')
    })
    const rows = await itemsOf(test, runId)
    expect((await logOf(test, runId)).metadata).toMatchObject({
      bookmark: { position: 'here', item_id: rows[0]?.id, count: 1 },
    })
    lists = () => {}
    await attempt({ id: runId }, 2)
    expect((await itemsOf(test, runId)).map(({ externalId }) => externalId)).toEqual(['before'])
  })

  it('and fullListing() throw SyncSessionClosed once sync() has returned', async () => {
    let kept: SyncSession | undefined
    const { runId } = await list((session) => {
      kept = session
    })
    await expect(kept?.bookmark('late')).rejects.toMatchObject({ code: 'sync_session_closed' })
    expect(() => kept?.fullListing()).toThrow(expect.objectContaining({ code: 'sync_session_closed' }))
    expect(await positionOf(runId)).toBeUndefined()
  })
})

describe('fullListing', () => {
  it.each([
    ['without a model', [] as [], { internal_type: null }],
    ['with a registered model', ['thing'] as [string], { internal_type: 'thing' }],
  ])('%s is noted in the log', async (_, args, full_listing) => {
    const { runId } = await list((session) => session.fullListing(...args))
    expect((await logOf(test, runId)).metadata).toMatchObject({ full_listing })
  })

  it('refuses a model that is not registered, and names those that are', async () => {
    const { runId } = await list((session) => {
      expect(() => session.fullListing('thnig')).toThrow(
        expect.objectContaining({ argument: 'internalType', message: expect.stringContaining('thing') }),
      )
    })
    expect((await logOf(test, runId)).metadata).not.toHaveProperty('full_listing')
  })

  it('that was not called leaves nothing', async () => {
    const { runId } = await list(() => {})
    expect((await logOf(test, runId)).metadata).not.toHaveProperty('full_listing')
  })
})

describe('a session', () => {
  it('knows its run, its cursor and its signal', async () => {
    const cursor = { page: 4 }
    const run = await makeRun(test, integration.id, { enumerated: false, cursor_before: cursor })
    lists = (session) => {
      expect(session.syncLogId).toBe(run.id)
      expect(session.integration.id).toBe(integration.id)
      expect(session.cursor()).toEqual(cursor)
      expect(session.signal.aborted).toBe(false)
    }
    await runActivity(test.activities.listSyncItems, { integrationId: integration.id, syncLogId: run.id, attempt: 1 })
  })

  it('writes a warning of the provider’s into the log, with its run, and without a credential', async () => {
    const before = test.lines.length
    const { runId } = await list((session) => {
      const { token } = session.integration.credentialsArray()
      session.warn({ number: 7, note: `of ${String(token)}`, sync_log: 0 }, `found by ${String(token)}`)
    })
    expect(test.lines.slice(before).filter(({ level }) => level === 'warn')).toEqual([
      {
        level: 'warn',
        fields: {
          number: 7,
          note: 'of [REDACTED]',
          event: 'sync.provider_warning',
          integration: integration.id,
          provider: integration.provider,
          sync_log: runId,
        },
        message: 'found by [REDACTED]',
      },
    ])
  })

  it('of a cancelled listing refuses further items', async () => {
    const run = await makeRun(test, integration.id, { enumerated: false })
    let cancel = (): void => {}
    lists = async (session) => {
      cancel()
      await Context.current().cancelled.catch(() => {})
      await session.dispatch(new ThingSynced(session.integration, { n: 1 }))
    }
    const listing = runActivity(
      test.activities.listSyncItems,
      { integrationId: integration.id, syncLogId: run.id, attempt: 1 },
      {
        onStart: (stop) => {
          cancel = stop
        },
      },
    )
    await expect(listing).rejects.toThrow()
    expect(await itemsOf(test, run.id)).toEqual([])
  })
})

async function list(work: typeof lists): Promise<{ runId: number; listing: { kind: 'listed'; listed: number } }> {
  const run = await makeRun(test, integration.id, { enumerated: false })
  lists = work
  const listing = await attempt(run, 1)
  if (listing.kind !== 'listed') throw new Error('the listing was deferred')
  return { runId: run.id, listing }
}

async function failing(work: typeof lists): Promise<number> {
  const run = await makeRun(test, integration.id, { enumerated: false })
  lists = work
  await expect(attempt(run, 1)).rejects.toThrow()
  return run.id
}

/** One try of the run's listing. */
function attempt(run: { id: number }, number: number) {
  const input = { integrationId: integration.id, syncLogId: run.id, attempt: number }
  return runActivity(test.activities.listSyncItems, input)
}
