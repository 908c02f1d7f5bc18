/** Lines of the SDK about calls that it retries, while Temporal does not answer. Rule: docs/behaviour/logs.md, "Fields". */

/** As the native part of @temporalio/worker 1.24 says it. */
const RETRIED = /^gRPC call (\w+) retried \d+ times/
const WRITTEN_EVERY_MS = 60_000

/**
 * Each poller of each worker says by itself, every few seconds, that its call has no answer: one line a minute stands for all of them.
 *
 * @returns asks for each line how many it stands for; null: it is not written
 */
export function retriedCalls(): (message: string, nowMs: number) => number | null {
  const written = new Map<string, { readonly atMs: number; left: number }>()
  return (message, nowMs) => {
    const [, call] = RETRIED.exec(message) ?? []
    if (call === undefined) return 1
    const last = written.get(call)
    if (last !== undefined && nowMs - last.atMs < WRITTEN_EVERY_MS) {
      last.left += 1
      return null
    }
    written.set(call, { atMs: nowMs, left: 0 })
    return 1 + (last?.left ?? 0)
  }
}
