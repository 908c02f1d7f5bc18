import { describe, expect, it } from 'vitest'
import { openLoop } from '../../bench/open-loop.ts'

describe('an open loop', () => {
  it('makes each call once, in order, not before its time, and waits for none of them', async () => {
    const startedAt = performance.now()
    const made: { number: number; afterMs: number }[] = []
    let endAll = () => {}
    const allMade = new Promise<void>((resolve) => {
      endAll = resolve
    })
    const durations = await openLoop({ perSecond: 200, seconds: 0.2 }, async (number) => {
      made.push({ number, afterMs: performance.now() - startedAt })
      if (made.length === 40) endAll()
      await allMade
    })
    expect(made.map(({ number }) => number)).toEqual(Array.from({ length: 40 }, (_, at) => at))
    for (const { number, afterMs } of made) expect(afterMs).toBeGreaterThanOrEqual(number * 5)
    expect(durations).toHaveLength(40)
    // The first one ended with the last, which was due 195 ms later.
    expect(durations[0]).toBeGreaterThanOrEqual(195)
  })

  it('counts from the moment at which a call was due: a sender that is held up leaves nothing out', async () => {
    const durations = await openLoop({ perSecond: 100, seconds: 0.1 }, async (number) => {
      if (number > 0) return
      const until = performance.now() + 120
      while (performance.now() < until);
    })
    // The first one held up all the others, which take no time of their own.
    expect(durations[0]).toBeGreaterThanOrEqual(120)
    expect(durations[1]).toBeGreaterThanOrEqual(110)
    expect(durations[9]).toBeGreaterThanOrEqual(30)
  })

  it('fails with a call that fails, makes no more, and waits for those under way', async () => {
    let made = 0
    let ended = 0
    let endAll = () => {}
    const failed = new Promise<void>((resolve) => {
      endAll = resolve
    })
    const load = openLoop({ perSecond: 1_000, seconds: 60 }, async (number) => {
      made += 1
      if (number === 3) {
        setTimeout(endAll, 20)
        throw new Error('HTTP 503')
      }
      await failed
      ended += 1
    })
    await expect(load).rejects.toThrow('HTTP 503')
    expect(ended).toBe(made - 1)
    expect(made).toBeLessThan(60_000)
  })
})
