/** Load: so many callers, each of which makes its next call when the last one has ended. */
import { median } from './frame.ts'

export interface Load {
  readonly concurrency: number
  readonly seconds: number
}

export interface Measured {
  readonly calls: number
  readonly perSecond: number
  readonly medianMs: number
}

/** @param call gets the number of the call, from 0 */
export async function closedLoop(
  { concurrency, seconds }: Load,
  call: (number: number) => Promise<unknown>,
): Promise<Measured> {
  const durationsMs: number[] = []
  let next = 0
  const startedAt = performance.now()
  const endsAt = startedAt + seconds * 1_000
  const caller = async () => {
    for (let now = performance.now(); now < endsAt; ) {
      const number = next
      next += 1
      await call(number)
      const endedAt = performance.now()
      durationsMs.push(endedAt - now)
      now = endedAt
    }
  }
  await Promise.all(Array.from({ length: concurrency }, caller))
  const tookSeconds = (performance.now() - startedAt) / 1_000
  return { calls: durationsMs.length, perSecond: durationsMs.length / tookSeconds, medianMs: median(durationsMs) }
}
