import { setTimeout as sleep } from 'node:timers/promises'
import { followSignals } from './follow-signals.ts'
import { currentSync } from './inside-sync.ts'

/**
 * Sleeps until the time is over, the caller gives up, or the worker that runs the sync stops.
 *
 * @returns whether the whole time has passed
 */
export async function pause(ms: number, caller: AbortSignal | undefined): Promise<boolean> {
  const enough = new AbortController()
  const release = followSignals(enough, [caller, currentSync()?.signal])
  try {
    await sleep(ms, undefined, { signal: enough.signal })
    return true
  } catch (error) {
    if (enough.signal.aborted) return false
    throw error
  } finally {
    release()
  }
}
