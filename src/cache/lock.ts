import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { LockTimeoutException } from '../core/errors.ts'
import type { CacheStore } from './store.ts'

/** Waiters look again after 50 ms, then ever more slowly up to 250 ms: quick for short work, light for long. */
const FIRST_POLL_MS = 50
const LAST_POLL_MS = 250

export interface LockOptions {
  /** The lock ends by itself after so long, so that a dead holder blocks nobody for ever. */
  readonly ttlSeconds: number
  /** How long to wait for it; 0 is one try. */
  readonly waitSeconds: number
}

/**
 * Does the work while holding a lock that all processes respect.
 *
 * @throws LockTimeoutException when the wait is over
 */
export async function withLock<T>(
  store: CacheStore,
  name: string,
  { ttlSeconds, waitSeconds }: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const owner = randomUUID()
  const startedAt = performance.now()
  for (
    let pollMs = FIRST_POLL_MS;
    !(await store.acquire(name, owner, ttlSeconds));
    pollMs = Math.min(pollMs * 1.5, LAST_POLL_MS)
  ) {
    const waitedSeconds = (performance.now() - startedAt) / 1000
    if (waitedSeconds >= waitSeconds) throw new LockTimeoutException(name, Math.round(waitedSeconds))
    await sleep(pollMs)
  }
  try {
    return await work()
  } finally {
    await store.release(name, owner)
  }
}
