/** `syncWindow()`. Rule: docs/behaviour/sync-backfills.md. */
import assert from 'node:assert/strict'
import type { SyncItemEventClass } from '../../providers/events.ts'
import type { HasBackfill, HasScheduledSync } from '../../providers/provider.ts'
import type { FakeSyncSession } from '../fake-sync-session.ts'
import type { PlayedApi } from '../played-transport.ts'
import type { Bench } from './bench.ts'
import type { Chapter } from './check.ts'
import { failureOf, sessionOf } from './listings.ts'
import { outcomeOf, wordsFor } from './outcome.ts'

const DAY_MS = 86_400_000

export function backfillChapter(): Chapter {
  return {
    contract: 'HasBackfill',
    checks: [
      {
        name: 'lists a window, in items of the declared classes, and takes it for no full listing',
        async run(bench) {
          const session = sessionOf(await bench.create())
          const outcome = await outcomeOf(() => windowed(bench, session))
          assert.equal(
            outcome.kind,
            'gave',
            `syncWindow() must end well against the fixtures' api; it ${wordsFor(outcome)}`,
          )
          const declared: readonly unknown[] = (bench.provider as HasScheduledSync).syncItemEvents?.() ?? []
          for (const { event } of session.items) {
            const eventClass = event.constructor as SyncItemEventClass
            assert(
              declared.includes(eventClass),
              `syncItemEvents() must name each class that syncWindow() hands in; it lacks ${eventClass.type}`,
            )
          }
          assert.equal(
            session.fullListingOf,
            null,
            'syncWindow() lists a part only: it must not call fullListing(), by which the rest would be taken for gone',
          )
        },
      },
      {
        name: 'stops asking at once when its session is aborted',
        async run(bench) {
          const abort = new AbortController()
          let askedBefore = bench.sent.length
          const aborting: PlayedApi = (request) => {
            if (!abort.signal.aborted) {
              askedBefore = bench.sent.length
              abort.abort(new Error('the conformance suite ends this listing'))
            }
            return bench.subject.fixtures.api(request)
          }
          const session = sessionOf(await bench.create(), null, abort.signal)
          await bench.answeredBy(aborting, () => bench.withoutRetries(() => failureOf(() => windowed(bench, session))))
          const asked = abort.signal.aborted ? bench.sent.length - askedBefore : 0
          assert.equal(
            asked,
            0,
            `syncWindow() must ask for nothing more once session.signal is aborted; it made ${asked} more requests`,
          )
        },
      },
    ],
  }
}

/** The day that ends now, by the kit's clock. */
export async function windowed(bench: Bench, session: FakeSyncSession): Promise<void> {
  const provider = bench.provider as HasBackfill
  const to = bench.kit.clock.now()
  const window = { from: new Date(to.getTime() - DAY_MS), to }
  await bench.inTime('syncWindow()', () => provider.syncWindow(session.integration, session, window))
  await session.close()
}
