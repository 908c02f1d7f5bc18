/**
 * Runs the rows of one claim: some at once, each on its own, and settles them in sets.
 *
 * Rule: docs/behaviour/sync-items.md, "Batches".
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from '../framework/logger.ts'
import { patiently } from '../framework/waiting.ts'
import { SettlingLane } from './settling.ts'

/** This long after the claim nothing new starts. Rows that have not started go back, so that no row ages in a slow batch. */
export const START_WINDOW_MS = 30_000
/** Outcomes are settled this long after the first of them at the latest. */
const SETTLE_AFTER_MS = 100
/** Handlers that wait for nothing would keep everything else in the process waiting until all of them have run. */
const WORK_BETWEEN_TURNS_MS = 5

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
  const settling = new SettlingLane<Outcome>(batch, SETTLE_AFTER_MS)
  const turnIfDue = turnsAfter(WORK_BETWEEN_TURNS_MS)
  const mayStart = (): boolean => !batch.signal.aborted && performance.now() < batch.startBy
  const lane = async (): Promise<void> => {
    while (mayStart()) {
      await turnIfDue()
      const row = waiting.shift()
      if (row === undefined) return
      const prepared = await preparedRow(batch, row)
      // The worker stops, or the database was away for too long: the row has not started, so it goes back.
      const outcome = prepared === null || !mayStart() ? null : await batch.run(row, prepared.value)
      if (outcome === null) unstarted.push(row)
      else settling.add(outcome)
    }
  }
  await Promise.all(Array.from({ length: Math.min(batch.concurrency, batch.rows.length) }, lane))
  await settling.finish()
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

/** Gives the event loop a turn when this much time has passed since the one before; null: it has not. */
function turnsAfter(ms: number): () => Promise<void> | null {
  let due = performance.now() + ms
  let turn: Promise<void> | null = null
  return () => {
    if (turn === null && performance.now() >= due)
      turn = nextTurn().then(() => {
        turn = null
        due = performance.now() + ms
      })
    return turn
  }
}
