import { sdk } from './surroundings.ts'

/** Well below the heartbeat timeout of 20 s, so that one late beat costs nothing. */
const HEARTBEAT_EVERY_MS = 5_000

/**
 * The same activity, telling the server while it runs that its worker lives: a dead one is known within the heartbeat
 * timeout, whatever it was doing.
 */
export function keptAlive<Input extends unknown[], Output>(
  activity: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    const context = sdk().Context.current()
    // A local one ends with its workflow task and has no heartbeat: the SDK would print an error for each.
    if (context.info.isLocal) return activity(...input)
    const timer = setInterval(() => context.heartbeat(), HEARTBEAT_EVERY_MS)
    try {
      return await activity(...input)
    } finally {
      clearInterval(timer)
    }
  }
}
