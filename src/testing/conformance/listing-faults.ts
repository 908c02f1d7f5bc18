/** What a listing does on a bad day. Rule: docs/behaviour/sync-listing.md, "Faults, lost workers, deferrals". */
import assert from 'node:assert/strict'
import type { FakeSyncSession } from '../fake-sync-session.ts'
import type { PlayedApi } from '../played-transport.ts'
import type { SentRequest } from '../transport.ts'
import type { Bench } from './bench.ts'
import type { Check } from './conformance-check.ts'
import type { Listing } from './listings.ts'
import {
  askedAfterAbort,
  expectAll,
  failureOf,
  keyOf,
  keysOf,
  listed,
  lostOf,
  sessionOf,
  typeOf,
  wholeListing,
} from './listings.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'
import { answering, cut, cutInBody, HTML, interruptedAt, placeOf } from './played-faults.ts'

/** Longer than a call waits for capacity in its own attempts, so that the run is put off instead. */
const RETRY_AFTER_SECONDS = 3_600
const THROTTLED = answering(429, '{"message":"Too many requests"}', { 'retry-after': String(RETRY_AFTER_SECONDS) })

const ABORTED: Check = {
  name: 'stops asking at once when its session is aborted',
  async run(bench) {
    const asked = await askedAfterAbort(bench, (integration, signal) =>
      listed(bench, sessionOf(bench, integration, null, signal)),
    )
    assert.equal(
      asked,
      0,
      `a listing must ask for nothing more once session.signal is aborted; it made ${asked} more requests. Give the signal to integration.request().`,
    )
  },
}

const FAULTS: Check = {
  name: 'throws what goes wrong in the middle: a listing that breaks off must not look whole',
  async run(bench) {
    const whole = await pagedListing(bench)
    const swallowed: string[] = []
    for (const at of new Set([1, whole.requests.length - 1]))
      swallowed.push(...(await swallowedAt(bench, { whole, at, list: (session) => listed(bench, session) })))
    expectNothing(swallowed)
  },
}

const DEFERRED: Check = {
  name: 'is put off by a 429 in the middle, and loses no item by it',
  async run(bench) {
    const whole = await pagedListing(bench)
    const integration = await bench.create()
    const before = bench.kit.logs.length
    const outcome = await bench.answeredBy(atTheLast(bench, whole, THROTTLED), () =>
      outcomeOf(() => bench.inTime('the run', () => bench.sync(integration))),
    )
    const failed = bench.kit.logs.slice(before).find(({ fields }) => fields.event === 'sync.listing_failed')
    assert(
      failed === undefined,
      `a 429 must put the listing off. Here it counted as a fault, and a run is given up after three: ${shown(failed?.fields.error)}. Throw what integration.request() throws, or an error that has it as its \`cause\`.`,
    )
    assert(
      outcome.kind === 'gave',
      `a run whose provider answers 429 once must go on later, and end well; it ${wordsFor(outcome)}`,
    )
    // The rows of items that were processed have no payload any more.
    const keys = outcome.value.items.map(({ eventClass, externalId }) => keyOf(eventClass, externalId))
    const expected = whole.session.items.map(({ event, externalId }) => keyOf(typeOf(event), externalId))
    expectAll(keys, expected, 'a run that was put off by a 429')
  },
}

/** Bookmarks are the provider's to set: without one the next try lists from the beginning. One that is set must spare what it stands for. */
const RESUMED: Check = {
  name: 'loses no item by a 429 when the next try goes on, from its bookmark or, without one, anew',
  async run(bench) {
    const whole = await pagedListing(bench)
    const session = sessionOf(bench, await bench.create())
    const failure = await bench.answeredBy(atTheLast(bench, whole, THROTTLED), () =>
      bench.withoutRetries(() => failureOf(() => listed(bench, session))),
    )
    if (failure === null) {
      expectAll(
        keysOf(session),
        keysOf(whole.session),
        'a listing that does not throw a 429, by which it would be put off,',
      )
      return
    }
    bench.kit.clock.advance(RETRY_AFTER_SECONDS + 1)
    const before = bench.sent.length
    const next = await listed(bench, await session.nextTry())
    const asked = bench.sent.length - before
    const position = next.resumeFrom()
    expectAll(keysOf(next), keysOf(whole.session), `a listing that goes on from ${shown(position)}`)
    assert(
      position === null || asked < whole.requests.length,
      `a listing that goes on from its bookmark ${shown(position)} must not ask for everything again, or a long one never ends; it made ${asked} requests, a whole one makes ${whole.requests.length}. (session.resumeFrom() gives the bookmark.)`,
    )
  },
}

export const listingFaultChecks: readonly Check[] = [ABORTED, FAULTS, DEFERRED, RESUMED]

/** @throws AssertionError where there is no middle that it could break off in */
export async function pagedListing(bench: Bench): Promise<Listing> {
  const whole = await wholeListing(bench)
  const { length } = whole.requests
  assert(length > 1, `the fixtures' api must have two pages or more; the listing made ${length} requests`)
  return whole
}

/** Of a listing whose request number `at` goes wrong: each fault after which it ended without a throw, and with less. */
export async function swallowedAt(
  bench: Bench,
  {
    whole,
    at,
    list,
  }: {
    readonly whole: { readonly session: FakeSyncSession; readonly requests: readonly SentRequest[] }
    readonly at: number
    readonly list: (session: FakeSyncSession) => Promise<unknown>
  },
): Promise<string[]> {
  const { api } = bench.subject.fixtures
  const faults = [
    ['a 500', answering(500)],
    ['a connection that breaks', cut],
    ['an answer that breaks off', cutInBody(api)],
    ['an answer in HTML', HTML],
  ] as const
  const swallowed: string[] = []
  for (const [what, fault] of faults) {
    const session = sessionOf(bench, await bench.create())
    const broken = interruptedAt(api, placeOf(whole.requests, at), fault)
    const failure = await bench.answeredBy(broken, () => bench.withoutRetries(() => failureOf(() => list(session))))
    if (failure === null && lostOf(keysOf(session), keysOf(whole.session)).length > 0)
      swallowed.push(
        `after ${what} in request ${at + 1} of ${whole.requests.length} it ended with ${session.items.length} items of ${whole.session.items.length}`,
      )
  }
  return swallowed
}

export function expectNothing(swallowed: readonly string[]): void {
  assert.deepEqual(
    swallowed,
    [],
    `what goes wrong in the middle of a listing must be thrown, or what was not listed is taken for unchanged, or for gone; ${swallowed.join('; ')}`,
  )
}

/** By its last request something is listed, and something is not. */
function atTheLast({ subject }: Bench, { requests }: Listing, fault: PlayedApi): PlayedApi {
  return interruptedAt(subject.fixtures.api, placeOf(requests, requests.length - 1), fault)
}
