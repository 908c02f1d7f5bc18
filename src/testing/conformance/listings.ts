/** Listings of a provider, as the suite has them made. */
import type { Json } from '../../core/json.ts'
import type { Integration } from '../../providers/integration.ts'
import type { HasScheduledSync } from '../../providers/provider.ts'
import { hasIncrementalSync } from '../../providers/provider.ts'
import { FakeSyncSession } from '../fake-sync-session.ts'
import type { Bench } from './bench.ts'
import { outcomeOf } from './outcome.ts'

/** A session that takes items of any class: which ones are declared is another check's. */
export function sessionOf(integration: Integration, cursor: Json = null, signal?: AbortSignal): FakeSyncSession {
  return new FakeSyncSession(cursor, { integration, ...(signal === undefined ? {} : { signal }) })
}

/** As a run does it: by `syncIncremental()` where there is one. @throws what the listing threw, or what it did not await */
export async function listed(bench: Bench, session: FakeSyncSession): Promise<FakeSyncSession> {
  const provider = bench.provider as HasScheduledSync
  await bench.inTime('the listing', () =>
    hasIncrementalSync(provider)
      ? provider.syncIncremental(session.integration, session)
      : provider.sync(session.integration, session),
  )
  await session.close()
  return session
}

/** The whole listing of an integration of its own, without a fault. */
export async function wholeListing(bench: Bench, cursor: Json = null): Promise<FakeSyncSession> {
  return listed(bench, sessionOf(await bench.create(), cursor))
}

export const failureOf = (work: () => Promise<unknown>) =>
  outcomeOf(work).then((outcome) => (outcome.kind === 'threw' ? { error: outcome.error } : null))

/** Class and external id of each item. */
export function keysOf({ items }: FakeSyncSession): string[] {
  return items.map(({ event, externalId }) => `${(event.constructor as { type?: string }).type} ${externalId}`)
}
