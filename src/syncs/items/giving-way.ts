/**
 * Large runs give way to small ones in the same process: while a run begins, no further item of a large run starts, and
 * for a second after a small run their batches work one at a time, so that the next one finds less at work.
 *
 * A small run is over within milliseconds (docs/behaviour/sync-listing.md, "A small run"). Without this it waits for its turns on
 * cores that the batches of large runs keep busy: 62 ms instead of 15 (docs/performance.md, "Streams").
 */
import type { Framework } from '../../framework/context.ts'

/** A small run begins within this time. Batches wait for it at most this long, and then work for as long as they waited. */
export const MAX_HOLD_MS = 100

/** For this time after a small run, batches of large runs work one at a time. */
export const CALM_AFTER_MS = 1_000

/** The beginnings of runs in one process, and the batches that wait for their end. */
class Beginnings {
  #begun = 0
  #calmFrom = 0
  #atWork = 0
  /** Batches that wait for their turn. */
  readonly #line: (() => void)[] = []
  #hold: { readonly over: Promise<void>; readonly release: () => void } | null = null
  #worksUntil = 0

  /** @returns to be called at its end; more than once does no harm */
  begin(): RunBegun {
    this.#begun += 1
    let isOver = false
    const end = (isSmall = false): void => {
      if (isSmall) this.#calmFrom = performance.now() + CALM_AFTER_MS
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

  /** Resolves when a batch may work: at once where there was no small run lately. @returns to be called at its end */
  async turn(): Promise<() => void> {
    if (this.#atWork > 0 && performance.now() < this.#calmFrom) await this.#inLine()
    this.#atWork += 1
    return () => {
      this.#atWork -= 1
      this.#line.shift()?.()
    }
  }

  #inLine(): Promise<void> {
    return new Promise((resolve) => {
      const goOn = (): void => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#line.splice(this.#line.indexOf(goOn), 1)
        resolve()
      }, MAX_HOLD_MS)
      this.#line.push(goOn)
    })
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

function beginningsIn(framework: Framework): Beginnings {
  const known = BEGINNINGS.get(framework) ?? new Beginnings()
  BEGINNINGS.set(framework, known)
  return known
}

/** To be called when a run has ended, or is no small one. @param isSmall all of it is done. Default false. */
type RunBegun = (isSmall?: boolean) => void

/** A run begins in this process. */
export function runBegins(framework: Framework): RunBegun {
  return beginningsIn(framework).begin()
}

/** Does a batch of a large run: one at a time while there are small runs in this process, 100 ms late at most. */
export async function batchInTurn<T>(framework: Framework, work: () => Promise<T>): Promise<T> {
  const end = await beginningsIn(framework).turn()
  try {
    return await work()
  } finally {
    end()
  }
}

/** Does the work of a large run once no run begins in this process, 100 ms late at most. Where none begins it costs no turn. */
export function givingWay<T>(framework: Framework, work: () => Promise<T>): Promise<T> {
  const over = BEGINNINGS.get(framework)?.untilOver() ?? null
  return over === null ? work() : over.then(work)
}
