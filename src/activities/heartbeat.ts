import { sdk } from './surroundings.ts'

/** Well below the heartbeat timeout of 20 s, so that one late heartbeat does no harm. */
export const HEARTBEAT_EVERY_MS = 5_000

/** What the last heartbeat of a lost worker tells the workflow. */
export interface HeartbeatDetails {
  /** Milliseconds since the activity began, without its wait for a worker. */
  readonly tookMs: number
}

/**
 * The same activity with heartbeats, so that the server notices a dead worker within the heartbeat timeout.
 */
export function keptAlive<Input extends unknown[], Output>(
  activity: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    const context = sdk().Context.current()
    // A local activity ends with its workflow task and has no heartbeat: the SDK would print an error for each.
    if (context.info.isLocal) return activity(...input)
    const begunAt = performance.now()
    const details = (): HeartbeatDetails => ({ tookMs: Math.round(performance.now() - begunAt) })
    const timer = setInterval(() => context.heartbeat(details()), HEARTBEAT_EVERY_MS)
    try {
      return await activity(...input)
    } finally {
      clearInterval(timer)
    }
  }
}
