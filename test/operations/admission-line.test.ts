import { describe, expect, it } from 'vitest'
import type { Admission } from '../../src/core/call-state.ts'
import { AdmissionLines } from '../../src/operations/request/admission-line.ts'

const INTEGRATION = { id: 1, provider: 'plain' }
const ADMITTED: Admission = { kind: 'admitted', generation: 0, probe: false }
const limited = (retryAfterMs: number): Admission => ({
  kind: 'limited',
  retryAfterMs,
  limit: { limit: 1, seconds: 1, window: 'fixed' },
})

/** Until the line sleeps. By microtasks alone: no timer of it can run out meanwhile, however long the machine stands still. */
async function asleep(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve()
}

/** A limiter that has so many units for each statement, and what it was asked. */
function lines(units: readonly number[], { budgetMs = 1_000, waitMs = 10 } = {}) {
  const asked: (readonly string[])[] = []
  const line = new AdmissionLines(async (_, owners) => {
    const free = units[asked.length] ?? 0
    asked.push(owners)
    return owners.map((_owner, index) => (index < free ? ADMITTED : limited(waitMs)))
  }, budgetMs)
  return {
    asked,
    enter: (owner: string, signal?: AbortSignal) =>
      line.enter(INTEGRATION, owner, signal === undefined ? {} : { signal }),
  }
}

describe('a line', () => {
  it('asks once for all who stand in it, and serves them in order', async () => {
    const { asked, enter } = lines([1, 1, 2])
    const served: string[] = []
    await Promise.all(['a', 'b', 'c', 'd'].map((owner) => enter(owner).then(() => served.push(owner))))
    expect(asked).toEqual([['a'], ['b', 'c', 'd'], ['c', 'd']])
    expect(served).toEqual(['a', 'b', 'c', 'd'])
  })

  it('lets nobody overtake those who wait', async () => {
    const { asked, enter } = lines([0, 1, 1])
    const first = enter('a')
    await asleep()
    expect(asked).toEqual([['a']])
    const second = enter('b')
    await Promise.all([first, second])
    expect(asked).toEqual([['a'], ['a', 'b'], ['b']])
  })

  it.each([
    { waitMs: 30, budgetMs: 30, statements: 2 },
    { waitMs: 31, budgetMs: 30, statements: 1 },
    { waitMs: 10, budgetMs: 0, statements: 1 },
    { waitMs: 20, budgetMs: 50, statements: 3 },
  ])('sleeps waits of $waitMs ms within $budgetMs ms in sum', async ({ statements, ...given }) => {
    const { asked, enter } = lines([], given)
    expect(await enter('a')).toEqual(limited(given.waitMs))
    expect(asked).toHaveLength(statements)
  })

  it('is left by a caller that gives up, with its reason; the others stay', async () => {
    const { asked, enter } = lines([0, 1], { waitMs: 30 })
    const controller = new AbortController()
    const gone = enter('a', controller.signal)
    const stays = enter('b')
    await asleep()
    controller.abort(new Error('had enough'))
    await expect(gone).rejects.toThrow('had enough')
    expect(await stays).toEqual(ADMITTED)
    expect(asked.at(-1)).toEqual(['b'])
  })

  it('is left at once also by a caller that gives up while its question is under way', async () => {
    const { enter } = lines([0], { waitMs: 3_600_000, budgetMs: 3_600_000 })
    const controller = new AbortController()
    const gone = enter('a', controller.signal)
    controller.abort(new Error('had enough'))
    await expect(gone).rejects.toThrow('had enough')
  })

  it('is left by a caller that gives up while those in front are asked for: no unit is taken for it', async () => {
    const { asked, enter } = lines([1, 1])
    const front = enter('a')
    const controller = new AbortController()
    const gone = enter('b', controller.signal)
    controller.abort(new Error('had enough'))
    await expect(gone).rejects.toThrow('had enough')
    expect(await front).toEqual(ADMITTED)
    expect(asked).toEqual([['a']])
  })

  it('asks for a hundred at most', async () => {
    const { asked, enter } = lines([1, 100, 100])
    await Promise.all(Array.from({ length: 151 }, (_, index) => enter(String(index))))
    expect(asked.map(({ length }) => length)).toEqual([1, 100, 50])
  })

  it('tells those it asked for when the question fails, and goes on', async () => {
    let questions = 0
    const line = new AdmissionLines(async (_, owners) => {
      questions += 1
      if (questions === 1) throw new Error('Postgres is away')
      return owners.map(() => ADMITTED)
    }, 1_000)
    const first = line.enter(INTEGRATION, 'a')
    const second = line.enter(INTEGRATION, 'b')
    await expect(first).rejects.toThrow('Postgres is away')
    expect(await second).toEqual(ADMITTED)
  })
})
