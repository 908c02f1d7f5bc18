/** Listings of a provider, as the suite has them made. */
import assert from 'node:assert/strict'
import type { Json } from '../../framework/json.ts'
import { canonicalJson } from '../../framework/json.ts'
import type { HasScheduledSync } from '../../providers/contracts.ts'
import { hasIncrementalSync } from '../../providers/contracts.ts'
import type { ExternalId, Integration } from '../../providers/integration.ts'
import type { SyncItemEvent, SyncItemEventClass } from '../../providers/provider-events.ts'
import { FakeSyncSession } from '../fake-sync-session.ts'
import type { PlayedApi } from '../played-transport.ts'
import type { TestSync } from '../test-integrations.ts'
import type { SentRequest } from '../transport.ts'
import type { Bench } from './bench.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'

/** A session that takes items of any class: which ones are declared is another check's. */
export function sessionOf(
  { stream, model }: Bench,
  integration: Integration,
  cursor: Json = null,
  signal?: AbortSignal,
): FakeSyncSession {
  const options = { integration, stream: stream ?? undefined, model, ...(signal === undefined ? {} : { signal }) }
  return new FakeSyncSession(cursor, options)
}

/** As a run does it: by `syncIncremental()` where there is one. @throws what the listing threw, or what it did not await */
export async function listed<Session extends FakeSyncSession>(bench: Bench, session: Session): Promise<Session> {
  const provider = bench.provider as HasScheduledSync
  await bench.inTime('the listing', () =>
    hasIncrementalSync(provider)
      ? provider.syncIncremental(session.integration, session)
      : provider.sync(session.integration, session),
  )
  await session.close()
  return session
}

/** What was listed without a fault, and what was asked for it. */
export interface Listing {
  readonly session: FakeSyncSession
  readonly requests: readonly SentRequest[]
}

/** The whole listing of an integration of its own. */
export async function listingFrom(bench: Bench, cursor: Json): Promise<Listing> {
  const session = sessionOf(bench, await bench.create(), cursor)
  const before = bench.sent.length
  await listed(bench, session)
  return { session, requests: bench.sent.slice(before) }
}

/** The whole listing from the beginning: made once, since the fixtures' api gives the same each time. */
export const wholeListing = oncePer((bench) => listingFrom(bench, null))

/** A run of an integration of its own against the fixtures' api, made once, which is to end well. */
export const cleanRun = oncePer(async (bench): Promise<TestSync & { readonly integration: Integration }> => {
  const integration = await bench.create()
  const outcome = await outcomeOf(() => bench.inTime('the run', () => bench.sync(integration)))
  assert(outcome.kind === 'gave', `a run against the fixtures' api must end well; it ${wordsFor(outcome)}`)
  return { ...outcome.value, integration }
})

function oncePer<T>(make: (bench: Bench) => Promise<T>): (bench: Bench) => Promise<T> {
  const made = new WeakMap<Bench, Promise<T>>()
  return (bench) => {
    const known = made.get(bench) ?? make(bench)
    made.set(bench, known)
    return known
  }
}

export const failureOf = (work: () => Promise<unknown>) =>
  outcomeOf(work).then((outcome) => (outcome.kind === 'threw' ? { error: outcome.error } : null))

/** How many requests a listing makes after its session was aborted, which happens during its first one. */
export async function askedAfterAbort(
  bench: Bench,
  list: (integration: Integration, signal: AbortSignal) => Promise<unknown>,
): Promise<number> {
  const { api } = bench.subject.fixtures
  const abort = new AbortController()
  let askedBefore = 0
  const aborting: PlayedApi = (request) => {
    if (!abort.signal.aborted) {
      askedBefore = bench.sent.length
      abort.abort(new Error('the conformance suite ends this listing'))
    }
    return api(request)
  }
  const integration = await bench.create()
  await bench.answeredBy(aborting, () => bench.withoutRetries(() => failureOf(() => list(integration, abort.signal))))
  // Where nothing is asked there is nothing to end: that something is listed is another check's.
  return abort.signal.aborted ? bench.sent.length - askedBefore : 0
}

/** Class and external id of each item; of one without an id, its payload. */
export function keysOf({ items }: Pick<FakeSyncSession, 'items'>): string[] {
  return items.map(({ event, externalId }) => keyOf(typeOf(event), externalId, event.payload))
}

/** @param payload stands for the id of an item without one; null: where it is not known any more */
export function keyOf(type: string, externalId: ExternalId | null, payload: unknown = null): string {
  return `${type} ${externalId === null || externalId === '' ? canonicalJson(payload as Json) : externalId}`
}

export const typeOf = (event: SyncItemEvent<unknown>) => (event.constructor as SyncItemEventClass).type

/** Those of `expected` that are missing; items without an id can be alike, so each stands for one. */
export function lostOf(keys: readonly string[], expected: readonly string[]): string[] {
  const left = [...keys]
  return expected.filter((key) => {
    const at = left.indexOf(key)
    if (at >= 0) left.splice(at, 1)
    return at < 0
  })
}

export function expectAll(keys: readonly string[], expected: readonly string[], what: string): void {
  const lost = lostOf(keys, expected)
  assert.deepEqual(
    lost,
    [],
    `${what} must list what an undisturbed one lists; it lacks ${lost.length} of ${expected.length}: ${shown(lost)}`,
  )
}
