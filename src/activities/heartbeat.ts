import type { Context } from '@temporalio/activity'

/** Well below the heartbeat timeout of 30 s, so that one late beat costs nothing. */
const HEARTBEAT_EVERY_MS = 5_000

/** Tells the server that this activity's worker lives; it learns of a dead one within the heartbeat timeout. */
export function keepAlive(context: Context): () => void {
  const timer = setInterval(() => context.heartbeat(), HEARTBEAT_EVERY_MS)
  return () => clearInterval(timer)
}
