/**
 * How a sync run ends and when the next one is due.
 *
 * Rule: docs/behaviour/sync-cursor.md, "Finalisation".
 */

/** What a run's row may say. */
export const RUN_STATUSES = ['processing', 'success', 'partial', 'failed', 'cancelled'] as const

export interface RunCounts {
  readonly succeeded: number
  readonly failed: number
  readonly skipped: number
}

export type RunStatus = 'success' | 'partial' | 'failed'

/** `success` without a failed item, `failed` without a finished one, else `partial`. */
export function runStatus(counts: RunCounts): RunStatus {
  if (counts.failed === 0) return 'success'
  return counts.succeeded + counts.skipped === 0 ? 'failed' : 'partial'
}

/**
 * By how much the interval grows after runs with failures: 1, 2, 4, 8 … up to the cap. One failed run costs nothing.
 *
 * @param consecutiveFailures runs finalised with failures since the last clean one, this one included
 * @param cap `sync.failure_backoff_max_multiplier`
 */
export function intervalMultiplier(consecutiveFailures: number, cap: number): number {
  if (consecutiveFailures <= 1) return 1
  // 2^31 is above every allowed cap; beyond it the power would only lose precision.
  return Math.min(2 ** Math.min(consecutiveFailures - 1, 31), cap)
}

/** A run and its integration. */
export interface RunIds {
  readonly integrationId: number
  /** The run's row in the operation logs. */
  readonly syncLogId: number
}

/** A backfill lists its window in slices of this length, each a run: a failure costs one of them. */
export const BACKFILL_SLICE_MS = 24 * 3_600_000

/** How many runs a backfill of this window makes. The last one may be shorter. */
export function backfillRuns(from: Date, to: Date): number {
  return Math.ceil((to.getTime() - from.getTime()) / BACKFILL_SLICE_MS)
}

/** What a run of a backfill lists, as the metadata of its row says; null: an ordinary run, or a row that was erased. */
export function backfillWindow(metadata: unknown): { readonly from: string; readonly to: string } | null {
  const { from, to } = (metadata as { window?: { from?: unknown; to?: unknown } } | null)?.window ?? {}
  return typeof from === 'string' && typeof to === 'string' ? { from, to } : null
}

/** `sync`, or `backfill of 2031-06-01T12:00Z`: runs of a backfill, begun minutes apart, are told apart by their day. */
export function runKind({ operation, metadata }: Readonly<Record<string, unknown>>): string {
  const window = backfillWindow(metadata)
  return window === null ? String(operation) : `${operation} of ${window.from.slice(0, 'YYYY-MM-DDTHH:MM'.length)}Z`
}

/** `run 31 under way for 4 min; 10 wait`, beside how the run before it ended. */
export function runUnderWay(
  { id, stream, since }: { readonly id: number; readonly stream: string | null; readonly since: Date },
  waitingItems: number,
  now: Date,
): string {
  const minutes = Math.max(0, Math.floor((now.getTime() - since.getTime()) / 60_000))
  const age = minutes < 1 ? 'less than a minute' : minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`
  const of = stream === null ? '' : ` of ${stream}`
  return `run ${id}${of} under way for ${age}${waitingItems === 0 ? '' : `; ${waitingItems} wait`}`
}
