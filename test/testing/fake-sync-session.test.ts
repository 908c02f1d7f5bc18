import { AssertionError } from 'node:assert'
import { describe, expect, it } from 'vitest'
import { SyncItemEvent } from '../../src/providers/events.ts'
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
  it('notes what it took, repeats left out', async () => {
    const session = await listed()
    expect(session.items.map(({ event, externalId }) => [event.payload, externalId])).toEqual([
      [{ n: 1 }, 'a'],
      [{ n: 2 }, 'b'],
      ['other', null],
    ])
    expect([session.count, session.duplicatesDropped, session.isEmpty]).toEqual([3, 1, false])
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
    session.assertCheckpoints(['2026-01-01T01', '2026-01-01T02', null])
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
