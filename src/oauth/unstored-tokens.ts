/**
 * Requests for tokens whose answer is not stored yet. The provider may have used up the old refresh token by then, so the end of
 * a process waits for them. Rule: docs/behaviour/oauth.md, "A refresh that is cut off".
 */
import type { Database } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { inTime } from '../framework/waiting.ts'

/** What is left of a supervisor's time, after all else that an API or a worker waits for (docs/behaviour/workers.md). */
const END_MS = 6_000

const UNSTORED = new WeakMap<Database, Set<Promise<void>>>()

/** Notes the work until it ends, which may be after its caller has got an error. */
export function noteUnstored({ db }: Framework, work: Promise<unknown>): void {
  const unstored = UNSTORED.get(db) ?? new Set<Promise<void>>()
  UNSTORED.set(db, unstored)
  const over = (): void => {
    unstored.delete(ended)
  }
  const ended: Promise<void> = work.then(over, over)
  unstored.add(ended)
}

/** Waits until nothing is unstored, or the time is over. */
export async function storeTokensUnderWay({ db }: Framework): Promise<void> {
  const unstored = UNSTORED.get(db)
  if (unstored === undefined || unstored.size === 0) return
  await inTime(allEnded(unstored), END_MS)
}

async function allEnded(unstored: ReadonlySet<Promise<void>>): Promise<void> {
  // One that waited for the lock of another may begin.
  while (unstored.size > 0) await Promise.all(unstored)
}
