/**
 * Runs the rows of one claim: so many at once, each on its own, settled set by set.
 *
 * Rule: docs/behaviour/webhooks.md, "Batches". Syncs use the same.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../core/logger.ts'
import { errorLine } from '../core/logger.ts'

/** Nothing new starts so long after the claim; what has not started goes back, so that no row ages in a slow batch. */
const START_WINDOW_MS = 30_000
/** Outcomes are settled when so many are there, or so long after the first of them. */
const SETTLE_ROWS = 50
const SETTLE_AFTER_MS = 100
const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5_000

export interface Batch<Row, Outcome> {
  readonly rows: readonly Row[]
  /** Rows that run at once. */
  readonly concurrency: number
  /** Aborted when the worker stops or the run is cancelled: nothing new starts. */
  readonly signal: AbortSignal
  readonly logger: Logger
  /** Never throws: what goes wrong is part of the outcome. */
  run(row: Row): Promise<Outcome>
  settle(outcomes: readonly Outcome[]): Promise<void>
  /** Rows that no handler has seen. */
  handBack(rows: readonly Row[]): Promise<void>
}

/** @returns how many rows ran */
export async function runBatch<Row, Outcome>(batch: Batch<Row, Outcome>): Promise<number> {
  const deadline = performance.now() + START_WINDOW_MS
  const waiting = [...batch.rows]
  const settler = new Settler(batch)
  const lane = async (): Promise<void> => {
    while (!batch.signal.aborted && performance.now() < deadline) {
      const row = waiting.shift()
      if (row === undefined) return
      settler.add(await batch.run(row))
    }
  }
  await Promise.all(Array.from({ length: Math.min(batch.concurrency, waiting.length) }, lane))
  await settler.finish()
  if (waiting.length > 0) await batch.handBack(waiting)
  return batch.rows.length - waiting.length
}

/** Collects outcomes and writes them in sets, one set at a time. */
class Settler<Outcome> {
  #pending: Outcome[] = []
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()
  readonly #batch: Pick<Batch<never, Outcome>, 'settle' | 'signal' | 'logger'>

  constructor(batch: Pick<Batch<never, Outcome>, 'settle' | 'signal' | 'logger'>) {
    this.#batch = batch
  }

  add(outcome: Outcome): void {
    this.#pending.push(outcome)
    if (this.#pending.length >= SETTLE_ROWS) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), SETTLE_AFTER_MS)
  }

  /** Writes what is left and waits for all of it. @throws the last error when the worker stopped before it was written */
  async finish(): Promise<void> {
    this.#flush()
    await this.#writing
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const outcomes = this.#pending
    this.#pending = []
    if (outcomes.length === 0) return
    this.#writing = this.#writing.then(() => this.#write(outcomes))
    // finish() reports it; this only keeps a rejection that comes before from counting as unhandled.
    this.#writing.catch(() => {})
  }

  /** A handler that has run must not run again because Postgres was away for a moment: the outcome waits for it. */
  async #write(outcomes: readonly Outcome[]): Promise<void> {
    for (let wait = FIRST_RETRY_MS; ; wait = Math.min(wait * 2, LAST_RETRY_MS))
      try {
        return await this.#batch.settle(outcomes)
      } catch (error) {
        if (this.#batch.signal.aborted) throw error
        this.#batch.logger.warn(
          { rows: outcomes.length, error: errorLine(error, 300) },
          'a settlement failed; it is tried again',
        )
        await sleep(wait, undefined, { signal: this.#batch.signal }).catch(() => {})
      }
  }
}
