import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { LockTimeoutException } from '../framework/errors.ts'
import type { CacheStore } from './store.ts'

/** A waiting caller looks again after 50 ms, then more slowly, up to 250 ms: quick for short work, light for long. */
const FIRST_POLL_MS = 50
const LAST_POLL_MS = 250

export interface LockOptions {
  /** After this time the lock ends by itself, so that a dead holder does not block others for ever. */
  readonly ttlSeconds: number
  /** How long to wait for it; 0 is one try. */
  readonly waitSeconds: number
  /**
   * Name of the holder. A caller with the same name takes the lock over: the next attempt at the same work, when the worker of the last
   * one has died. Default: a name of this call only.
   */
  readonly owner?: string
}

/** The lock, for the work that runs under it. */
export interface Lease {
  /** Holds the lock for another `ttlSeconds` from now. False: it ran out, and another holder may have it. */
  extend(): Promise<boolean>
  /**
   * How long the lock surely lasts, unless it was extended. It counts from before the statement that took it: a process may have stood still
   * since. 0 or less: another holder may have it.
   */
  leftMs(): number
}

/**
 * Does the work while holding a lock that all processes respect.
 *
 * Only the work itself extends the lock: work that hangs must not keep it. Work that outlives the lock may run beside the next
 * holder's, and must be safe then. Rule: docs/behaviour/locks.md, "How long a lock lasts".
 *
 * @throws LockTimeoutException when the wait is over
 */
export async function withLock<T>(
  store: CacheStore,
  name: string,
  { ttlSeconds, waitSeconds, owner: named }: LockOptions,
  work: (lease: Lease) => Promise<T>,
): Promise<T> {
  const owner = named ?? randomUUID()
  let askedAt = 0
  const acquire = async (): Promise<boolean> => {
    askedAt = performance.now()
    return (
      (await store.acquire(name, owner, ttlSeconds)) ||
      (named !== undefined && (await store.extend(name, owner, ttlSeconds)))
    )
  }
  await acquireWithin(store, name, waitSeconds, acquire)
  try {
    return await work({
      extend: () => store.extend(name, owner, ttlSeconds),
      leftMs: () => ttlSeconds * 1_000 - (performance.now() - askedAt),
    })
  } finally {
    // The caller gets how the work ended. A lock that can't be given back ends by itself.
    await store.release(name, owner).catch(() => {})
  }
}

async function acquireWithin(
  store: CacheStore,
  name: string,
  waitSeconds: number,
  acquire: () => Promise<boolean>,
): Promise<void> {
  const startedAt = performance.now()
  let passedMs = 0
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(pollMs * 1.5, LAST_POLL_MS)) {
    if (await acquire()) return
    // A wait that a simulation has passed is the same each time it is played: real time has no part in it.
    const waitedMs = passedMs > 0 ? passedMs : performance.now() - startedAt
    const leftMs = waitSeconds * 1000 - waitedMs
    // A timer counts whole milliseconds: what is left of one is no reason to look once more.
    if (leftMs < 1) throw new LockTimeoutException(name, Math.round(waitedMs / 100) / 10)
    const ms = Math.min(pollMs, leftMs)
    if ((await store.passLockWait?.(name, ms)) === true) passedMs += ms
    else await sleep(ms)
  }
}
