/**
 * Load: so many calls a second, whether or not the ones before have ended.
 *
 * A call's time counts from the moment at which it was due, not from when it was made: a server that stalls delays the
 * calls that follow, and a sender that waited for it would leave exactly those out ("coordinated omission").
 */
import { setTimeout as sleep } from 'node:timers/promises'

export interface Rate {
  readonly perSecond: number
  readonly seconds: number
}

/**
 * @param call gets the number of the call, from 0
 * @returns milliseconds of each call in the order in which they were due
 */
export async function openLoop(
  { perSecond, seconds }: Rate,
  call: (number: number) => Promise<unknown>,
): Promise<number[]> {
  const total = Math.round(perSecond * seconds)
  const everyMs = 1_000 / perSecond
  const durationsMs: number[] = new Array(total).fill(Number.NaN)
  const startedAt = performance.now()
  const underWay = new Set<Promise<void>>()
  const failures: unknown[] = []
  for (let number = 0; number < total && failures.length === 0; ) {
    for (const now = performance.now(); number < total && startedAt + number * everyMs <= now; number += 1) {
      const due = number
      const one = call(due).then(
        () => {
          durationsMs[due] = performance.now() - (startedAt + due * everyMs)
        },
        (error: unknown) => {
          failures.push(error)
        },
      )
      underWay.add(one)
      void one.finally(() => underWay.delete(one))
    }
    await sleep(1)
  }
  await Promise.all(underWay)
  if (failures.length > 0) throw failures[0]
  return durationsMs
}
