/** The cache of one plan. As the table in production, it outlives the host's process, with the locks that a dead one has left. */
import type { CacheStore } from '../../cache/store.ts'
import type { ManualClock } from '../manual-clock.ts'
import { memoryCache } from '../memory-cache.ts'

interface Caller {
  readonly isDead: boolean
  whileAlive<T>(work: () => Promise<T>): Promise<T>
}

export class LastingCache {
  readonly #clock: ManualClock
  readonly #store: CacheStore
  /** The last holder of each lock. */
  readonly #holders = new Map<string, Caller>()

  constructor(clock: ManualClock) {
    this.#clock = clock
    this.#store = memoryCache(clock)
  }

  /** For one start of the process: what it asks after its death is never answered. */
  of(caller: Caller): CacheStore {
    const store = this.#store
    const alive =
      <Given extends unknown[], Answer>(ask: (...given: Given) => Promise<Answer>) =>
      (...given: Given): Promise<Answer> =>
        caller.whileAlive(() => ask(...given))
    const own: CacheStore = {
      get: alive(store.get),
      getMany: alive(store.getMany),
      set: alive(store.set),
      add: alive(store.add),
      take: alive(store.take),
      delete: alive(store.delete),
      deleteOf: alive(store.deleteOf),
      acquire: alive(async (...given) => this.#noted(caller, given[0], await store.acquire(...given))),
      extend: alive(async (...given) => this.#noted(caller, given[0], await store.extend(...given))),
      release: alive(store.release),
      within: () => own,
      passLockWait: alive(async (key, ms) => {
        if (this.#holders.get(key)?.isDead !== true) return false
        this.#clock.advance(ms / 1_000)
        return true
      }),
    }
    return own
  }

  #noted(caller: Caller, key: string, isHeld: boolean): boolean {
    if (isHeld) this.#holders.set(key, caller)
    return isHeld
  }
}
