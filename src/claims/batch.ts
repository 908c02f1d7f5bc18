/**
 * Runs the rows of one claim: some at once, each on its own, and settles them in sets.
 *
 * Rule: docs/behaviour/sync-items.md, "Batches".
 */
import type { Logger } from '../framework/logger.ts'
import { patiently } from '../framework/waiting.ts'

/** This long after the claim nothing new starts. Rows that have not started go back, so that no row ages in a slow batch. */
export const START_WINDOW_MS = 30_000
/** Outcomes are settled when this many are there, or this long after the first of them. */
const SETTLE_ROWS = 50
const SETTLE_AFTER_MS = 100

export interface Batch<Row, Prepared, Outcome> {
  readonly rows: readonly Row[]
  /** Rows that run at once. */
  readonly concurrency: number
  /** By `performance.now()`. Nothing new starts from then on. */
  readonly startBy: number
  /** Aborted when the worker stops or the run is cancelled: nothing new starts. */
  readonly signal: AbortSignal
  readonly logger: Logger
  /** Reads what a row needs before it starts. Tried until it succeeds: it is no failed attempt when Postgres is away. */
  prepare(row: Row): Promise<Prepared>
  /** Never throws: a fault is part of the outcome. Null: no handler was asked, so the row goes back. */
  run(row: Row, prepared: Prepared): Promise<Outcome | null>
  settle(outcomes: readonly Outcome[]): Promise<void>
  /** Rows that no handler has seen. Tried until it succeeds. */
  handBack(rows: readonly Row[]): Promise<unknown>
}

/** @returns how many rows ran */
export async function runBatch<Row, Prepared, Outcome>(batch: Batch<Row, Prepared, Outcome>): Promise<number> {
  const waiting = [...batch.rows]
  const unstarted: Row[] = []
  const settler = new Settler(batch)
  const mayStart = (): boolean => !batch.signal.aborted && performance.now() < batch.startBy
  const lane = async (): Promise<void> => {
    while (mayStart()) {
      const row = waiting.shift()
      if (row === undefined) return
      const prepared = await preparedRow(batch, row)
      // The worker stops, or the database was away for too long: the row has not started, so it goes back.
      const outcome = prepared === null || !mayStart() ? null : await batch.run(row, prepared.value)
      if (outcome === null) unstarted.push(row)
      else settler.add(outcome)
    }
  }
  await Promise.all(Array.from({ length: Math.min(batch.concurrency, batch.rows.length) }, lane))
  await settler.finish()
  unstarted.push(...waiting)
  if (unstarted.length > 0) await patiently('handing rows back', () => batch.handBack(unstarted), batch)
  return batch.rows.length - unstarted.length
}

/** Null: the worker stopped first. The last fault is logged by then. */
async function preparedRow<Row, Prepared>(
  batch: Pick<Batch<Row, Prepared, never>, 'prepare' | 'signal' | 'logger'>,
  row: Row,
): Promise<{ value: Prepared } | null> {
  try {
    return { value: await patiently('reading what a row needs', () => batch.prepare(row), batch) }
  } catch {
    return null
  }
}

/** Collects outcomes and writes them in sets, one set at a time. */
class Settler<Outcome> {
  #pending: Outcome[] = []
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()
  readonly #batch: Pick<Batch<never, never, Outcome>, 'settle' | 'signal' | 'logger'>

  constructor(batch: Pick<Batch<never, never, Outcome>, 'settle' | 'signal' | 'logger'>) {
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
    this.#writing = this.#writing.then(() => patiently('a settlement', () => this.#batch.settle(outcomes), this.#batch))
    // finish() reports it; this only keeps a rejection that comes before from counting as unhandled.
    this.#writing.catch(() => {})
  }
}
