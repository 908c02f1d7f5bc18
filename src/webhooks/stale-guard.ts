/**
 * Keeps old news from being handled after newer ones, where a handler has a `staleGuard`.
 *
 * Rule: docs/behaviour/webhooks.md, "Stale deliveries".
 */
import { createHash } from 'node:crypto'
import { integrationKey } from '../cache/integration-keys.ts'
import { withLock } from '../cache/lock.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { patiently } from '../framework/waiting.ts'
import type { HandlesWebhooks, StaleGuard } from '../providers/contracts.ts'
import { routeOf } from './rules.ts'
import type { Version } from './stale-rules.ts'
import { compareVersions } from './stale-rules.ts'

const KEPT_SECONDS = 7 * 24 * 60 * 60
/** The lock outlives the handler's time limit by this: it must not end before the version is written. */
const LOCK_MARGIN_SECONDS = 30

export const STALE = { status: 'stale' } as const
/** Of an echo that its handler is not called for. */
export const OWN = { status: 'own' } as const

/** What a delivery is a version of. */
export interface Guarded {
  readonly integrationId: number
  /** The guard's own, hashed: it comes from a payload, and is of any length. */
  readonly keyHash: string
  readonly version: Version
}

/** The guard of what handles such an event; undefined: it has none. */
export function staleGuardOf(provider: HandlesWebhooks, eventType: string | null): StaleGuard | undefined {
  const handler = routeOf(eventType, provider.webhookHandlers?.() ?? null)
  return typeof handler === 'object' ? handler.staleGuard : undefined
}

/**
 * What a guard says of a delivery. Null: it is not judged.
 *
 * @param payload undefined: the body is no JSON
 * @throws TypeError for a version that is neither a number nor a text; whatever the guard throws
 */
export function judged(
  guard: StaleGuard | undefined,
  integrationId: number,
  payload: () => Json | undefined,
): Guarded | null {
  if (guard === undefined) return null
  const json = payload()
  const verdict = json === undefined ? null : guard(json)
  if (verdict === null) return null
  const { key, version } = verdict
  if (typeof key !== 'string') throw new TypeError(`a staleGuard's key is a text; it gave ${typeof key}`)
  if (typeof version !== 'string' && !Number.isFinite(version))
    throw new TypeError(`a staleGuard's version is a text or a finite number; it gave ${String(version)}`)
  return { integrationId, keyHash: createHash('sha256').update(key).digest('hex'), version }
}

/** A pump that lives for minutes forgets the key that it has known for longest. */
const MAX_KNOWN = 10_000

/**
 * The versions that are known to be handled: what is below needs no lock and no statement to be known as stale.
 * A version handled stays handled, so this never grows old.
 */
export class HandledVersions {
  readonly #highest = new Map<string, Version>()

  isStale({ integrationId, keyHash, version }: Guarded): boolean {
    const highest = this.#highest.get(`${integrationId}:${keyHash}`)
    return highest !== undefined && compareVersions(version, highest) < 0
  }

  note({ integrationId, keyHash }: Guarded, version: Version): void {
    const key = `${integrationId}:${keyHash}`
    const highest = this.#highest.get(key)
    if (highest !== undefined && compareVersions(version, highest) <= 0) return
    this.#highest.set(key, version)
    if (this.#highest.size <= MAX_KNOWN) return
    const [oldest = key] = this.#highest.keys()
    this.#highest.delete(oldest)
  }
}

/**
 * Does the work unless a higher version of the same key has been handled. One at a time per key, in all processes.
 *
 * @param owner the webhook's: its next attempt takes the lock over from one whose worker has died
 * @param signal aborted at the handler's time limit, into which the wait for the lock counts
 */
export async function unlessStale<T>(
  framework: Framework,
  guarded: Guarded,
  { signal, handled, owner }: { signal: AbortSignal; handled: HandledVersions; owner: string },
  work: () => Promise<T>,
): Promise<T | typeof STALE> {
  if (handled.isStale(guarded)) return STALE
  const { cache, config, logger } = framework
  const key = (what: string): string => integrationKey(guarded.integrationId, `${what}:${guarded.keyHash}`)
  const limit = config.webhook.handler_timeout
  // A delivery must not fail because Postgres is away for a moment.
  const trying = <R>(statement: () => Promise<R>): Promise<R> =>
    patiently('a stale guard', statement, { signal, logger })
  const patientCache = {
    ...cache,
    acquire: (...given: Parameters<typeof cache.acquire>) => trying(() => cache.acquire(...given)),
    extend: (...given: Parameters<typeof cache.extend>) => trying(() => cache.extend(...given)),
  }
  return withLock(
    patientCache,
    key('webhook-order'),
    { ttlSeconds: limit + LOCK_MARGIN_SECONDS, waitSeconds: limit, owner },
    async () => {
      const highest = (await trying(() => cache.get(key('webhook-version')))) as Version | undefined
      if (highest !== undefined) handled.note(guarded, highest)
      if (handled.isStale(guarded)) return STALE
      // The attempt has failed while it waited, so the handler must not run any more.
      signal.throwIfAborted()
      const result = await work()
      // Too late: the attempt has failed, and by now the lock may be another one's.
      signal.throwIfAborted()
      // Its handler was not called: a change by others that came before it is still news.
      if (result === OWN) return result
      handled.note(guarded, guarded.version)
      await trying(() => cache.set(key('webhook-version'), guarded.version, KEPT_SECONDS))
      return result
    },
  )
}
