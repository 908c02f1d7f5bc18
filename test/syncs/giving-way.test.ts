import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Framework } from '../../src/framework/context.ts'
import { batchInTurn, CALM_AFTER_MS, givingWay, MAX_HOLD_MS, runBegins } from '../../src/syncs/items/giving-way.ts'

let framework: Framework
beforeEach(() => {
  framework = {} as Framework
  vi.useFakeTimers()
})
afterEach(() => vi.useRealTimers())

/** When a batch that asks now goes on, in milliseconds from now; null: later than `withinMs`. */
async function heldFor(withinMs: number): Promise<number | null> {
  const asked = performance.now()
  let held: number | null = null
  void givingWay(framework, async () => {
    held = performance.now() - asked
  })
  for (let ms = 0; ms < withinMs && held === null; ms += 1) await vi.advanceTimersByTimeAsync(ms === 0 ? 0 : 1)
  return held
}

describe('giving way to runs that begin', () => {
  it('begins the work in the same turn where no run begins', async () => {
    const begin = vi.fn(async () => {})
    const first = givingWay(framework, begin)
    expect(begin).toHaveBeenCalledTimes(1)
    runBegins(framework)()
    const second = givingWay(framework, begin)
    expect(begin).toHaveBeenCalledTimes(2)
    await Promise.all([first, second])
  })

  it('holds a batch until all runs that begin have ended', async () => {
    const [first, second] = [runBegins(framework), runBegins(framework)]
    setTimeout(first, 5)
    setTimeout(second, 8)
    expect(await heldFor(20)).toBe(8)
  })

  it('holds it no longer than a small run may take', async () => {
    runBegins(framework)
    expect(await heldFor(2 * MAX_HOLD_MS)).toBe(MAX_HOLD_MS)
  })

  it('lets it work for as long as it was held, however many runs begin', async () => {
    setInterval(() => setTimeout(runBegins(framework), 30), 10)
    runBegins(framework)
    expect(await heldFor(2 * MAX_HOLD_MS)).toBe(MAX_HOLD_MS)
    expect(await heldFor(1)).toBe(0)
    await vi.advanceTimersByTimeAsync(MAX_HOLD_MS)
    expect(await heldFor(1)).toBe(null)
  })

  it('counts an end once', async () => {
    const end = runBegins(framework)
    runBegins(framework)
    end()
    end()
    expect(await heldFor(1)).toBe(null)
  })

  it('knows the runs of its own process alone', async () => {
    runBegins({} as Framework)
    expect(await heldFor(1)).toBe(0)
  })
})

describe('batches in turn', () => {
  const batches: string[] = []
  beforeEach(() => batches.splice(0))

  /** @param ms how long it works */
  function begin(name: string, ms: number): Promise<void> {
    return batchInTurn(framework, async () => {
      batches.push(`${name} begins`)
      await new Promise((resolve) => setTimeout(resolve, ms))
      batches.push(`${name} ends`)
    })
  }

  it('work beside each other where no small run was', async () => {
    runBegins(framework)()
    for (const name of ['a', 'b', 'c']) void begin(name, 5)
    await vi.advanceTimersByTimeAsync(0)
    expect(batches).toEqual(['a begins', 'b begins', 'c begins'])
  })

  it('work one at a time for a second after a small run, first come first served', async () => {
    runBegins(framework)(true)
    for (const name of ['a', 'b', 'c']) void begin(name, 5)
    await vi.advanceTimersByTimeAsync(15)
    expect(batches).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
    await vi.advanceTimersByTimeAsync(CALM_AFTER_MS)
    batches.splice(0)
    for (const name of ['d', 'e']) void begin(name, 5)
    await vi.advanceTimersByTimeAsync(0)
    expect(batches).toEqual(['d begins', 'e begins'])
  })

  it('wait for a slow one no longer than for a run that begins', async () => {
    runBegins(framework)(true)
    for (const name of ['slow', 'b', 'c']) void begin(name, 10 * MAX_HOLD_MS)
    await vi.advanceTimersByTimeAsync(MAX_HOLD_MS - 1)
    expect(batches).toEqual(['slow begins'])
    await vi.advanceTimersByTimeAsync(1)
    expect(batches).toEqual(['slow begins', 'b begins', 'c begins'])
  })

  it('let the next one work after a failed one', async () => {
    runBegins(framework)(true)
    const failed = batchInTurn(framework, async () => {
      await new Promise((resolve) => setTimeout(resolve, 5))
      throw new Error('of the batch')
    })
    const isRefused = expect(failed).rejects.toThrow('of the batch')
    void begin('b', 5)
    await vi.advanceTimersByTimeAsync(5)
    await isRefused
    expect(batches).toEqual(['b begins'])
  })
})
