import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { WakeUps } from '../../src/temporal/wake-ups.ts'

/** A Temporal that is there or not, and when it was asked about which integration. */
class ScriptedTemporal {
  isThere = true
  readonly sent: { integration: number; atMs: number }[] = []
  readonly failures: { integration: number; waitMs: number }[] = []
  readonly #startedAt = performance.now()

  readonly wakeUps = new WakeUps({
    send: async (integration) => {
      this.sent.push({ integration, atMs: Math.round(performance.now() - this.#startedAt) })
      if (!this.isThere) throw new Error('unavailable')
    },
    onFailure: (integration, _error, waitMs) => this.failures.push({ integration, waitMs }),
  })

  times(integration: number): number[] {
    return this.sent.filter((sent) => sent.integration === integration).map(({ atMs }) => atMs)
  }
}

let temporal: ScriptedTemporal
beforeEach(() => {
  vi.useFakeTimers()
  temporal = new ScriptedTemporal()
})
afterEach(() => vi.useRealTimers())

const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds)

describe('a wake-up', () => {
  it('is sent at once; those that come within 200 ms are one more', async () => {
    for (let n = 0; n < 100; n += 1) temporal.wakeUps.wake(1)
    await pass(199)
    expect(temporal.times(1)).toEqual([0])
    await pass(10_000)
    expect(temporal.times(1)).toEqual([0, 200])
    temporal.wakeUps.wake(1)
    expect(temporal.times(1)).toHaveLength(3)
  })

  it('that fails is tried again after 1 s, doubling up to 60 s', async () => {
    temporal.isThere = false
    temporal.wakeUps.wake(1)
    await pass(1_000 + 2_000 + 4_000 + 8_000 + 16_000 + 32_000 + 60_000 + 60_000)
    expect(temporal.failures.map(({ waitMs }) => waitMs / 1_000)).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
    expect(temporal.times(1).map((at) => at / 1_000)).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183])
  })

  it('begins with 1 s again after one that got through', async () => {
    temporal.isThere = false
    temporal.wakeUps.wake(1)
    await pass(3_000)
    temporal.isThere = true
    await pass(10_000)
    temporal.isThere = false
    temporal.failures.length = 0
    temporal.wakeUps.wake(1)
    await pass(1_500)
    expect(temporal.failures.map(({ waitMs }) => waitMs)).toEqual([1_000, 2_000])
  })
})

describe('a retry that waits', () => {
  /** Tries at 0, 1, 3, 7, 15 and 31 s have failed; the next is due at 63 s. */
  beforeEach(async () => {
    temporal.isThere = false
    temporal.wakeUps.wake(1)
    await pass(40_000)
    expect(temporal.times(1)).toHaveLength(6)
    temporal.sent.length = 0
    temporal.failures.length = 0
  })

  it('is brought forward by an arrival of its integration', async () => {
    temporal.isThere = true
    temporal.wakeUps.wake(1)
    await pass(0)
    expect(temporal.times(1)).toEqual([40_000])
    await pass(60_000)
    expect(temporal.times(1)).toEqual([40_000])
  })

  it('keeps 1 s from the try before it, however many arrive', async () => {
    for (let n = 0; n < 30; n += 1) {
      temporal.wakeUps.wake(1)
      await pass(100)
    }
    expect(temporal.times(1)).toEqual([40_000, 41_000, 42_000, 43_000])
  })

  it('that was brought forward in vain says nothing, and the regular one stays', async () => {
    temporal.wakeUps.wake(1)
    await pass(5_000)
    expect(temporal.times(1)).toEqual([40_000])
    expect(temporal.failures).toEqual([])
    await pass(20_000)
    expect(temporal.times(1)).toEqual([40_000, 63_000])
    expect(temporal.failures).toEqual([{ integration: 1, waitMs: 60_000 }])
  })

  it('is brought forward when another integration gets through', async () => {
    temporal.isThere = true
    temporal.wakeUps.wake(2)
    await pass(0)
    expect(temporal.times(2)).toEqual([40_000])
    expect(temporal.times(1)).toEqual([40_000])
  })

  it('is not brought forward by another integration that fails', async () => {
    temporal.wakeUps.wake(2)
    await pass(500)
    expect(temporal.times(1)).toEqual([])
  })
})

describe('at the end', () => {
  it('what is owed is sent once more, and nothing after it', async () => {
    temporal.wakeUps.wake(1)
    temporal.wakeUps.wake(1)
    await temporal.wakeUps.stop(2_000)
    expect(temporal.times(1)).toHaveLength(2)
    temporal.wakeUps.wake(1)
    await pass(60_000)
    expect(temporal.times(1)).toHaveLength(2)
  })

  it('a retry that waits is tried once more', async () => {
    temporal.isThere = false
    temporal.wakeUps.wake(1)
    await pass(10_000)
    const before = temporal.times(1).length
    await temporal.wakeUps.stop(2_000)
    await pass(60_000)
    expect(temporal.times(1)).toHaveLength(before + 1)
  })

  it('nobody waits for longer than it is given for what hangs', async () => {
    vi.useRealTimers()
    const hanging = new WakeUps({ send: () => new Promise(() => {}), onFailure: () => {} })
    hanging.wake(1)
    await expect(hanging.stop(20)).resolves.toBeUndefined()
  })
})

it('after the end is none: the row is stored, and another process finds it', async () => {
  await temporal.wakeUps.stop(1_000)
  temporal.wakeUps.wake(1)
  await pass(60_000)
  expect(temporal.sent).toEqual([])
})
