import { AssertionError } from 'node:assert'
import { describe, expect, it } from 'vitest'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { FakeSyncSession } from '../../src/testing/fake-sync-session.ts'
import { OtherSynced, syncProvider, ThingSynced } from '../support/providers.ts'

const thing = (session: SyncSession, n: number) => new ThingSynced(session.integration, { n })

/** A session after a provider's listing of three items and a repeat. */
async function listed(): Promise<FakeSyncSession> {
  const session = new FakeSyncSession('2026-01-01')
  const provider = syncProvider(async (given) => {
    await given.dispatch(thing(given, 1), `${given.cursor()}T01`, 'a')
    await given.dispatch(thing(given, 2), `${given.cursor()}T02`, 'b')
    await given.dispatch(thing(given, 3), `${given.cursor()}T03`, 'a')
    await given.dispatch(new OtherSynced(given.integration, 'other'))
  })
  await provider.sync(session.integration, session)
  return session
}

describe('a fake session', () => {
  it('notes what it took, of a repeat the newer copy', async () => {
    const session = await listed()
    expect(session.items.map(({ event, externalId }) => [event.payload, externalId])).toEqual([
      [{ n: 3 }, 'a'],
      [{ n: 2 }, 'b'],
      ['other', null],
    ])
    expect([session.count, session.duplicatesDropped, session.isEmpty]).toEqual([3, 1, false])
    await session.dispatch(thing(session, 4), '2025-01-01T01', 'a')
    expect(session.items[0]?.event.payload).toEqual({ n: 3 })
    expect(session.dropped.map(({ event }) => event.payload)).toEqual([{ n: 1 }, { n: 4 }])
  })

  it('warns once behind the default soft cap, and goes on', async () => {
    const warned: unknown[] = []
    const logger = { debug() {}, info() {}, error() {}, warn: (fields: object) => warned.push(fields) }
    const session = new FakeSyncSession(null, { logger })
    for (let n = 0; n < 10_000; n += 1) await session.dispatch(thing(session, n))
    expect(warned).toEqual([])
    await session.dispatch(thing(session, 10_000))
    await session.dispatch(thing(session, 10_001))
    expect(warned).toEqual([expect.objectContaining({ event: 'sync.many_items', cap: 10_000 })])
    session.assertDispatchedCount(10_002)
  })

  it("asks the provider's own reducer which of two copies is newer", async () => {
    const session = new FakeSyncSession(null, { reduceCheckpoints: (given) => Math.max(...given.map(Number)) })
    await session.dispatch(thing(session, 1), 10, 'a')
    await session.dispatch(thing(session, 2), 9, 'a')
    session.assertCheckpoints([10])
  })

  it.each([
    ['a payload that does not fit', (s: FakeSyncSession) => s.dispatch(thing(s, 'x' as never)), 'payload'],
    [
      'a checkpoint that is no JSON',
      (s: FakeSyncSession) => s.dispatch(thing(s, 1), new Date() as never),
      'checkpointValue',
    ],
    [
      'an external id that is too long',
      (s: FakeSyncSession) => s.dispatch(thing(s, 1), null, 'x'.repeat(501)),
      'externalId',
    ],
    [
      'a payload above 1 MiB',
      (s: FakeSyncSession) => s.dispatch(new OtherSynced(s.integration, 'x'.repeat(1_048_575))),
      'payload',
    ],
  ])('refuses %s, as a run does', async (_, dispatch, argument) => {
    const session = new FakeSyncSession()
    await expect(dispatch(session)).rejects.toMatchObject({ code: 'invalid_argument', argument })
    session.assertNothingDispatched()
  })

  it('given item classes takes no other', async () => {
    const session = new FakeSyncSession(null, { itemEvents: [ThingSynced] })
    await session.dispatch(thing(session, 1))
    await expect(session.dispatch(new OtherSynced(session.integration, 1))).rejects.toMatchObject({ argument: 'event' })
    session.assertDispatchedCount(1)
  })

  it('says what was handed in, by class and external id', async () => {
    const session = await listed()
    await session.dispatch(thing(session, 7), null, 7)
    expect(['a', 'b', 'c', 7, '7', ''].map((id) => session.has(ThingSynced, id))).toEqual([
      true,
      true,
      false,
      true,
      true,
      false,
    ])
    expect(session.has(OtherSynced, 'a')).toBe(false)
    expect(() => session.has(ThingSynced, 1.5)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
  })

  it('takes nothing once it is closed', async () => {
    const session = new FakeSyncSession()
    await session.close()
    await expect(session.dispatch(thing(session, 1))).rejects.toMatchObject({ code: 'sync_session_closed' })
  })

  it('has an integration that can be named, and says where to get one with a row', () => {
    const { integration } = new FakeSyncSession()
    expect(JSON.stringify(integration)).toContain('detached')
    expect(() => integration.credentialsArray()).toThrow(/createTestIntegrations/)
  })
})

describe('assertions', () => {
  it('hold', async () => {
    const session = await listed()
    session.assertDispatched(ThingSynced)
    session.assertDispatched(ThingSynced, ({ payload }, { externalId }) => payload.n === 2 && externalId === 'b')
    session.assertDispatchedCount(3)
    session.assertDispatchedCount(2, ThingSynced)
    session.assertCheckpoints(['2026-01-01T03', '2026-01-01T02', null])
    new FakeSyncSession().assertNothingDispatched()
  })

  class Unseen extends SyncItemEvent {
    static override readonly type = 'test.unseen'
  }
  it.each([
    ['a class of which none came', (s: FakeSyncSession) => s.assertDispatched(Unseen), /No test.unseen/],
    ['a predicate', (s: FakeSyncSession) => s.assertDispatched(ThingSynced, () => false), /holds for none/],
    ['a count', (s: FakeSyncSession) => s.assertDispatchedCount(4), /3 items were dispatched, expected 4/],
    ['nothing', (s: FakeSyncSession) => s.assertNothingDispatched(), /3 items were dispatched, expected none/],
    ['checkpoints', (s: FakeSyncSession) => s.assertCheckpoints(['2026-01-01T01']), /checkpoints/],
  ])('fail for %s, with both sides', async (_, assert, message) => {
    const session = await listed()
    const error = (() => {
      try {
        assert(session)
        return null
      } catch (thrown) {
        return thrown as AssertionError
      }
    })()
    expect(error).toBeInstanceOf(AssertionError)
    expect(error?.message).toMatch(message)
    expect(error?.actual).not.toEqual(error?.expected)
  })
})

describe('bookmarks', () => {
  /** Lists pages of two, bookmarked one by one, until the limit is met before the page `cutAt`. */
  const pages = (cutAt: number, of = 3) =>
    syncProvider(async (session) => {
      for (let page = Number(session.resumeFrom() ?? 1); page <= of; page += 1) {
        if (page === cutAt) throw new Error('the limit was met')
        await session.dispatch(thing(session, page), null, `${page}a`)
        await session.dispatch(thing(session, page), null, `${page}b`)
        await session.bookmark(page + 1)
      }
    })

  it('are noted in order, also when nobody awaits them', async () => {
    const session = new FakeSyncSession()
    void session.bookmark('one')
    void session.dispatch(thing(session, 1))
    await session.bookmark({ page: 2 })
    session.assertBookmarks(['one', { page: 2 }])
    expect(() => session.assertBookmarks(['one'])).toThrow(AssertionError)
  })

  it('are refused as in a run', async () => {
    const session = new FakeSyncSession()
    await expect(session.bookmark(null)).rejects.toMatchObject({ code: 'invalid_argument', argument: 'position' })
    await session.close()
    await expect(session.bookmark(1)).rejects.toMatchObject({ code: 'sync_session_closed' })
    session.assertBookmarks([])
  })

  it('of an earlier try can be given', async () => {
    const session = new FakeSyncSession(null, { resumeFrom: 3 })
    await pages(9).sync(session.integration, session)
    session.assertDispatchedCount(2)
    expect(new FakeSyncSession().resumeFrom()).toBeNull()
  })

  it('let a listing that was cut off go on in a next try, with what it has so far', async () => {
    const first = new FakeSyncSession()
    await expect(pages(3).sync(first.integration, first)).rejects.toThrow('the limit was met')
    await first.dispatch(thing(first, 9), null, 'not vouched for')
    const second = await first.nextTry()
    expect([second.resumeFrom(), second.count]).toEqual([3, 4])
    expect(['2b', 'not vouched for'].map((id) => second.has(ThingSynced, id))).toEqual([true, false])
    await second.dispatch(thing(second, 1), null, '1a')
    expect(second.duplicatesDropped).toBe(1)
    await pages(9).sync(second.integration, second)
    expect(second.items.map(({ externalId }) => externalId)).toEqual(['1a', '1b', '2a', '2b', '3a', '3b'])
    second.assertBookmarks([4])
    await expect(first.dispatch(thing(first, 9))).rejects.toMatchObject({ code: 'sync_session_closed' })
  })

  it('stay when the next try is cut off before it sets one', async () => {
    const first = new FakeSyncSession()
    await expect(pages(2).sync(first.integration, first)).rejects.toThrow()
    const second = await first.nextTry()
    await expect(pages(2).sync(second.integration, second)).rejects.toThrow()
    const third = await second.nextTry()
    expect([third.resumeFrom(), third.count]).toEqual([2, 2])
    expect((await new FakeSyncSession().nextTry()).resumeFrom()).toBeNull()
  })
})

describe('a full listing', () => {
  it('is asserted by its model', () => {
    const [all, issues, none] = [new FakeSyncSession(), new FakeSyncSession(), new FakeSyncSession()]
    all.fullListing()
    issues.fullListing('issue')
    all.assertFullListing()
    issues.assertFullListing('issue')
    for (const wrong of [
      () => none.assertFullListing(),
      () => all.assertFullListing('issue'),
      () => issues.assertFullListing(),
    ])
      expect(wrong).toThrow(AssertionError)
  })
})
