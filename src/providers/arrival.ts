import { AsyncLocalStorage } from 'node:async_hooks'

/** A delivery or a sync item whose handling is under way. */
export interface Arrival {
  /** Such as `webhook:4711`. */
  readonly ref: string
  /** Whether it says only what we wrote ourselves. Rule: docs/behaviour/echoes.md. */
  readonly isOwn: boolean
}

const current = new AsyncLocalStorage<Arrival>()

/** Handles an arrival: what is called inside can ask for it. */
export function withArrival<T>(arrival: Arrival, handle: () => T): T {
  return current.run(arrival, handle)
}

/** Null: outside of the handling of an arrival. */
export function currentArrival(): Arrival | null {
  return current.getStore() ?? null
}
