import { setMaxListeners } from 'node:events'

/**
 * Aborts `controller` with the reason of the first of these signals that is aborted, until it is released.
 *
 * `AbortSignal.any()` would do the same and gather memory on a signal that outlives many calls
 * (https://github.com/nodejs/node/issues/55351).
 *
 * @param aborted told of it after the controller's own listeners
 * @returns releases it
 */
export function followSignals(
  controller: AbortController,
  signals: readonly (AbortSignal | undefined)[],
  aborted?: (reason: unknown) => void,
): () => void {
  const releases = signals.flatMap((signal) => {
    if (signal === undefined) return []
    const follow = (): void => {
      controller.abort(signal.reason)
      aborted?.(signal.reason)
    }
    if (signal.aborted) follow()
    // Many calls at once may share a signal; Node takes more than ten listeners for a leak.
    setMaxListeners(0, signal)
    signal.addEventListener('abort', follow, { once: true })
    return [() => signal.removeEventListener('abort', follow)]
  })
  return () => {
    for (const release of releases) release()
  }
}
