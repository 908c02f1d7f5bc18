/** `syncWindow()`. Rule: docs/behaviour/sync-backfills.md. */
import assert from 'node:assert/strict'
import type { HasBackfill, HasScheduledSync } from '../../providers/contracts.ts'
import type { SyncItemEventClass } from '../../providers/provider-events.ts'
import type { BackfillWindow } from '../conformance.ts'
import type { FakeSyncSession } from '../fake-sync-session.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import { expectNothing, swallowedAt } from './listing-faults.ts'
import { askedAfterAbort, sessionOf } from './listings.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'

export function backfillChapter(window: BackfillWindow): Chapter {
  return { contract: 'HasBackfill', checks: [listsPart(window), throwsFaults(window), endsAborted(window)] }
}

const listsPart = (window: BackfillWindow): Check => ({
  name: 'lists a window, in items of the declared classes, and takes it for no full listing',
  async run(bench) {
    const { items, fullListingOf } = (await windowListing(bench, window)).session
    assert(
      items.length > 0,
      `the fixtures' api must list something of the window ${shown(window)}; nothing was handed in`,
    )
    const declared: readonly unknown[] = (bench.provider as HasScheduledSync).syncItemEvents?.() ?? []
    for (const { event } of items) {
      const eventClass = event.constructor as SyncItemEventClass
      assert(
        declared.includes(eventClass),
        `syncItemEvents() must name each class that syncWindow() hands in; it lacks ${eventClass.type}`,
      )
    }
    assert.equal(
      fullListingOf,
      null,
      'syncWindow() lists a part only: it must not call fullListing(), by which the rest would be taken for gone',
    )
  },
})

const throwsFaults = (window: BackfillWindow): Check => ({
  name: 'throws what goes wrong: a window that breaks off must not look whole',
  async run(bench) {
    const whole = await windowListing(bench, window)
    const at = whole.requests.length - 1
    assert(at >= 0, "syncWindow() must ask the fixtures' api for the window; it made no request")
    expectNothing(await swallowedAt(bench, { whole, at, list: (session) => windowed(bench, session, window) }))
  },
})

const endsAborted = (window: BackfillWindow): Check => ({
  name: 'stops asking at once when its session is aborted',
  async run(bench) {
    const asked = await askedAfterAbort(bench, (integration, signal) =>
      windowed(bench, sessionOf(bench, integration, null, signal), window),
    )
    assert.equal(
      asked,
      0,
      `syncWindow() must ask for nothing more once session.signal is aborted; it made ${asked} more requests`,
    )
  },
})

async function windowListing(bench: Bench, window: BackfillWindow) {
  const session = sessionOf(bench, await bench.create())
  const before = bench.sent.length
  const outcome = await outcomeOf(() => windowed(bench, session, window))
  assert.equal(outcome.kind, 'gave', `syncWindow() must end well against the fixtures' api; it ${wordsFor(outcome)}`)
  return { session, requests: bench.sent.slice(before) }
}

export async function windowed(bench: Bench, session: FakeSyncSession, { from, to }: BackfillWindow): Promise<void> {
  const provider = bench.provider as HasBackfill
  const window = { from: new Date(from), to: new Date(to) }
  await bench.inTime('syncWindow()', () => provider.syncWindow(session.integration, session, window))
  await session.close()
}
