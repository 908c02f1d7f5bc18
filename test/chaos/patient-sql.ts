/** Statements of a host that outlast its database's absence: what a listener throws is a failed attempt, which is not what kills are to bring. */
import { setTimeout as sleep } from 'node:timers/promises'

const DONE_WITHIN_MS = 60_000
const NEXT_TRY_MS = 200

/** @param statement may be carried out twice: the answer of the first may be lost */
export async function patiently<T>(statement: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + DONE_WITHIN_MS
  for (;;)
    try {
      return await statement()
    } catch (error) {
      if (performance.now() > giveUpAt) throw error
      await sleep(NEXT_TRY_MS)
    }
}
