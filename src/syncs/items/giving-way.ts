/**
 * Large runs give way to small ones in the same process: while a run begins, no further item of a large run starts.
 *
 * A small run is over within milliseconds (docs/behaviour/sync-listing.md, "A small run"). Without this it waits for its turns on
 * cores that the batches of large runs keep busy: 62 ms instead of 15 (docs/performance.md, "Streams").
 */
import type { Framework } from '../../framework/context.ts'

/** A small run begins within this time. Batches wait for it at most this long, and then work for as long as they waited. */
export const MAX_HOLD_MS = 100

/** The beginnings of runs in one process, and the batches that wait for their end. */
class Beginnings {
  #begun = 0
  #hold: { readonly over: Promise<void>; readonly release: () => void } | null = null
  #worksUntil = 0

  /** @returns to be called at its end; more than once does no harm */
  begin(): () => void {
    this.#begun += 1
    let isOver = false
    const end = (): void => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      this.#begun -= 1
      if (this.#begun === 0) this.#hold?.release()
    }
    const timer = setTimeout(end, MAX_HOLD_MS).unref()
    return end
  }

  /** Resolves when no run begins; null: none does, or batches have to work for a while before they wait again. */
  untilOver(): Promise<void> | null {
    if (this.#begun === 0 || performance.now() < this.#worksUntil) return null
    this.#hold ??= this.#newHold()
    return this.#hold.over
  }

  #newHold() {
    const since = performance.now()
    let resolve = (): void => {}
    const over = new Promise<void>((done) => {
      resolve = done
    })
    const release = (): void => {
      clearTimeout(timer)
      const now = performance.now()
      this.#worksUntil = now + (now - since)
      this.#hold = null
      resolve()
    }
    const timer = setTimeout(release, MAX_HOLD_MS).unref()
    return { over, release }
  }
}

const BEGINNINGS = new WeakMap<Framework, Beginnings>()

/** A run begins in this process. @returns to be called when it has ended, or is no small one */
export function runBegins(framework: Framework): () => void {
  const known = BEGINNINGS.get(framework) ?? new Beginnings()
  BEGINNINGS.set(framework, known)
  return known.begin()
}

/** Does the work of a large run once no run begins in this process, 100 ms late at most. Where none begins it costs no turn. */
export function givingWay<T>(framework: Framework, work: () => Promise<T>): Promise<T> {
  const over = BEGINNINGS.get(framework)?.untilOver() ?? null
  return over === null ? work() : over.then(work)
}
