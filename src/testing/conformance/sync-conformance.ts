/** `sync()` and `syncIncremental()`. Rule: docs/writing-a-provider.md, "A listing". */
import assert from 'node:assert/strict'
import type { Json } from '../../framework/json.ts'
import type { HasScheduledSync, IntegrationProvider } from '../../providers/contracts.ts'
import { hasIncrementalSync } from '../../providers/contracts.ts'
import { cursorNotAfter } from '../../syncs/checkpoint-rules.ts'
import type { FakeSyncSession } from '../fake-sync-session.ts'
import type { PlayedApi } from '../played-transport.ts'
import { changeChecks, latestCursorOf } from './changes.ts'
import type { Chapter, Check } from './conformance-check.ts'
import { itemChecks } from './items.ts'
import { listingFaultChecks, pagedListing } from './listing-faults.ts'
import {
  cleanRun,
  expectAll,
  keysOf,
  listed,
  listingFrom,
  lostOf,
  sessionOf,
  typeOf,
  wholeListing,
} from './listings.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'
import { held } from './played-faults.ts'

export function syncChapter(provider: IntegrationProvider, cursor: Json): Chapter {
  const checks = [WHOLE, ...itemChecks, CURSOR, AGAIN, AT_ONCE, ...listingFaultChecks]
  if (hasIncrementalSync(provider)) checks.push(...changeChecks)
  if (hasIncrementalSync(provider) && cursor !== null) checks.push(incremental(cursor), fullFrom(cursor))
  return { contract: 'HasScheduledSync: a run', checks }
}

const WHOLE: Check = {
  name: 'lists items over two pages or more, and all of them are processed',
  async run(bench) {
    const { result, items } = await cleanRun(bench)
    assert(items.length > 0, "the fixtures' api must list something; the run had no items")
    await pagedListing(bench)
    assert.equal(
      result.failureCount,
      0,
      `all items must be processed; of ${items.length} these failed: ${shown(items.filter(({ error }) => error !== null).map(({ error }) => error))}`,
    )
  },
}

const CURSOR: Check = {
  name: 'ends at the cursor that its checkpoints reduce to',
  async run(bench) {
    const provider = bench.provider as HasScheduledSync
    const { result, items, syncLogId } = await cleanRun(bench)
    const checkpoints = items.map(({ checkpointValue }) => checkpointValue as Json).filter((each) => each !== null)
    const reduced = checkpoints.length === 0 ? null : provider.reduceCheckpoints(checkpoints)
    const latest = await latestCursorOf(bench, syncLogId)
    const expected = latest === null ? reduced : cursorNotAfter(reduced, latest)
    assert.deepEqual(
      result.cursor,
      expected,
      `the cursor after a clean run must be what reduceCheckpoints() makes of it, and no later than its listing began; the run ended at ${shown(result.cursor)}`,
    )
  },
}

const AGAIN: Check = {
  name: 'runs again from the cursor of the run before',
  async run(bench) {
    const { integration, result } = await cleanRun(bench)
    const outcome = await outcomeOf(() => bench.inTime('the second run', () => bench.sync(integration)))
    assert.equal(
      outcome.kind,
      'gave',
      `a run from the cursor ${shown(result.cursor)} must end well; it ${wordsFor(outcome)}`,
    )
  },
}

const AT_ONCE: Check = {
  name: 'lists everything where another integration is listed meanwhile',
  async run(bench) {
    const { session: whole } = await wholeListing(bench)
    const [first, second] = [await bench.create(), await bench.create()]
    const [one, other] = [sessionOf(bench, first), sessionOf(bench, second)]
    const { api } = bench.subject.fixtures
    const { released, release } = held()
    let hasAsked = (): void => {}
    const asked = new Promise<void>((resolve) => {
      hasAsked = resolve
    })
    const holding: PlayedApi = async (request) => {
      if (bench.attempts.current?.integrationId === first.id) {
        hasAsked()
        await released()
      }
      return api(request)
    }
    await bench.answeredBy(holding, async () => {
      const under = outcomeOf(() => listed(bench, one)).finally(hasAsked)
      await asked
      const meanwhile = await outcomeOf(() => listed(bench, other)).finally(release)
      const ended = [
        [one, await under],
        [other, meanwhile],
      ] as const
      for (const [session, outcome] of ended) {
        assert(
          outcome.kind === 'gave',
          `one object lists for all integrations at once, so it must keep nothing of a listing; with two it ${wordsFor(outcome)}`,
        )
        expectAll(keysOf(session), keysOf(whole), 'a listing beside that of another integration')
      }
    })
  },
}

/** What is asked must come of the cursor that the session has: the integration's is another one after a reset. */
function incremental(cursor: Json): Check {
  return {
    name: "asks from the session's cursor, and lists something from there",
    async run(bench) {
      // Both now: the kit's clock, which a listing may ask by, stands still between them.
      const fromCursor = await listingFrom(bench, cursor)
      const fromTheBeginning = await listingFrom(bench, null)
      const { items } = fromCursor.session
      assert(items.length > 0, `the fixtures' api must list something from the cursor ${shown(cursor)}`)
      const [asked, askedForAll] = [fromCursor, fromTheBeginning].map(({ requests }) =>
        requests.map(({ method, url, body }) => `${method} ${url.href} ${body}`),
      )
      assert.notDeepEqual(
        asked,
        askedForAll,
        `syncIncremental() must ask for what changed since session.cursor(), here ${shown(cursor)}; it made the requests of a listing from the beginning. (integration.syncCursor is another one after a reset.)`,
      )
    },
  }
}

/** A listing may name everything now and then. After one that names a part, the rest would count as gone. */
function fullFrom(cursor: Json): Check {
  return {
    name: 'calls fullListing() from a cursor only where it lists everything',
    async run(bench) {
      const { session } = await listingFrom(bench, cursor)
      const full = session.fullListingOf
      if (full === null) return
      const { session: whole } = await wholeListing(bench)
      const lost = lostOf(keysOf(session), keysOf(whole))
      const types = [...new Set(whole.items.map(({ event }) => typeOf(event)))]
      const keysOfType = ({ items }: FakeSyncSession, type: string) =>
        keysOf({ items: items.filter(({ event }) => typeOf(event) === type) })
      const isOfModel = full.internalType !== null
      const isPart = (type: string) => lostOf(keysOfType(session, type), keysOfType(whole, type)).length > 0
      // Which class holds the items of a model is not known: those of other models may be listed in part.
      assert(
        lost.length === 0 || (isOfModel && !types.every(isPart)),
        `a listing that calls fullListing() must name everything: what it does not name counts as gone. The one from the cursor ${shown(cursor)} lacks ${lost.length} of ${whole.items.length} items: ${shown(lost)}`,
      )
    },
  }
}
