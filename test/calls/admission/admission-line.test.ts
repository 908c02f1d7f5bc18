import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { AdmissionLines, marginMs, paceOf } from '../../../src/calls/admission/admission-line.ts'
import type { Admission, Limit, WindowState } from '../../../src/calls/admission/state-rules.ts'
import { RateLimit } from '../../../src/calls/rate-limit-rules.ts'
import { admitByLimit } from '../../model/rate-limiter.ts'

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
    line,
    enter: (owner: string, signal?: AbortSignal, stream = '') =>
      line.enter(INTEGRATION, owner, { stream, ...(signal === undefined ? {} : { signal }) }),
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

  it('has the streams take turns; one with many callers keeps none of the others waiting', async () => {
    const { enter } = lines(Array.from({ length: 40 }, () => 1))
    const served: string[] = []
    const enterAs = (stream: string, owner: string) => enter(owner, undefined, stream).then(() => served.push(owner))
    const deals = Array.from({ length: 20 }, (_, index) => enterAs('deals', `d${index}`))
    await asleep()
    const contacts = ['c0', 'c1', 'c2'].map((owner) => enterAs('contacts', owner))
    await Promise.all([...deals, ...contacts])
    const before = served.indexOf('c0')
    expect(before).toBeLessThanOrEqual(3)
    expect(served.slice(before, before + 5).filter((owner) => owner.startsWith('c'))).toHaveLength(3)
    expect(served.filter((owner) => owner.startsWith('d'))).toEqual(deals.map((_, index) => `d${index}`))
    // A stream that was silent has saved no turns up.
    const late = [enterAs('deals', 'd20'), enterAs('contacts', 'c3'), enterAs('contacts', 'c4')]
    await Promise.all(late)
    expect(served.slice(-3)).toEqual(['d20', 'c3', 'c4'])
  })

  it('takes no turn of a stream for callers that it refuses at once', async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const { enter, line } = lines([0, 1, 1, 1, 1])
    const served: string[] = []
    const first = enter('d0', undefined, 'deals').then(() => served.push('d0'))
    await asleep()
    for (const owner of ['c0', 'c1', 'c2', 'c3'])
      expect(await line.enter(INTEGRATION, owner, { stream: 'contacts', longestWaitMs: () => 0 })).toMatchObject({
        kind: 'limited',
      })
    const others = ['d1', 'd2'].map((owner) => enter(owner, undefined, 'deals').then(() => served.push(owner)))
    const contact = enter('c4', undefined, 'contacts').then(() => served.push('c4'))
    await vi.advanceTimersByTimeAsync(1_000)
    await Promise.all([first, ...others, contact])
    expect(served).toEqual(['d0', 'c4', 'd1', 'd2'])
  })

  it.each([
    ['give up', (controller: AbortController) => controller.abort()],
    ['run out of time', () => undefined],
  ])('takes no turn of a stream for callers that %s', async (how, end) => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const { enter, line } = lines([0, 0, 1, 1, 1, 1])
    const served: string[] = []
    const first = enter('d0', undefined, 'deals').then(() => served.push('d0'))
    const controller = new AbortController()
    let longestWaitMs = Number.POSITIVE_INFINITY
    await asleep()
    const unserved = ['c0', 'c1', 'c2', 'c3'].map((owner) =>
      line
        .enter(INTEGRATION, owner, {
          stream: 'contacts',
          signal: controller.signal,
          longestWaitMs: () => longestWaitMs,
        })
        .catch(() => null),
    )
    const others = ['d1', 'd2'].map((owner) => enter(owner, undefined, 'deals').then(() => served.push(owner)))
    const contact = enter('c4', undefined, 'contacts').then(() => served.push('c4'))
    end(controller)
    if (how === 'run out of time') longestWaitMs = 0
    await vi.advanceTimersByTimeAsync(1_000)
    await Promise.all([first, ...others, contact])
    expect(await Promise.all(unserved)).not.toContainEqual(ADMITTED)
    expect(served).toEqual(['d0', 'c4', 'd1', 'd2'])
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

  it('that sleeps holds no newcomer whose own time is shorter than what is left: it is told at once', async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    let statements = 0
    const line = new AdmissionLines(async (_, owners) => {
      statements += 1
      return owners.map(() => (statements === 1 ? limited(300_000) : ADMITTED))
    }, 600_000)
    const first = line.enter(INTEGRATION, 'a')
    await vi.advanceTimersByTimeAsync(100_000)
    const short = line.enter(INTEGRATION, 'b', { longestWaitMs: () => 150_000 })
    const long = line.enter(INTEGRATION, 'c', { longestWaitMs: () => 200_000 })
    expect(await short).toEqual(limited(200_000))
    expect(line.waiting(INTEGRATION.id)).toBe(2)
    await vi.advanceTimersByTimeAsync(200_000)
    expect(await Promise.all([first, long])).toEqual([ADMITTED, ADMITTED])
    expect(statements).toBe(2)
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

/** A line before the limiter itself, by a clock that stands still unless it is moved. */
function paced(limit: Limit, budgetMs = 3_600_000) {
  const state: { window: WindowState | null; limit: Limit } = { window: null, limit }
  const letGo: { readonly owner: string; readonly at: number }[] = []
  const asked: number[] = []
  const line = new AdmissionLines(async (_, owners) => {
    asked.push(owners.length)
    return owners.map((owner) => {
      const verdict = admitByLimit(state.window, state.limit, Date.now())
      if (verdict.kind === 'refused') return { kind: 'limited', retryAfterMs: verdict.retryAfterMs, limit: state.limit }
      state.window = verdict.next
      letGo.push({ owner, at: Date.now() })
      return ADMITTED
    })
  }, budgetMs)
  const enter = (owner: string, options?: Parameters<AdmissionLines['enter']>[2]) =>
    line.enter(INTEGRATION, owner, options)
  return {
    state,
    asked,
    enter,
    crowd: (callers: number, name = 'caller') =>
      Promise.all(Array.from({ length: callers }, (_, index) => enter(`${name} ${index + 1}`))),
    /** Since the test began. */
    moments: () => letGo.map(({ at }) => at),
    order: () => letGo.map(({ owner }) => owner),
  }
}

describe('a line under a sliding limit', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: 0 })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it('lets the first go at once, waits for the window and a margin, then lets go one a step', async () => {
    const { crowd, moments, asked } = paced(RateLimit.per(4, 10).sliding())
    const all = crowd(9)
    await vi.runAllTimersAsync()
    expect((await all).every(({ kind }) => kind === 'admitted')).toBe(true)
    // 2 % of ten seconds; 10.2 s for four.
    expect(moments()).toEqual([0, 0, 0, 0, 10_200, 12_750, 15_300, 17_850, 20_400])
    expect(asked).toEqual([1, 8, 1, 1, 1, 1, 1])
  })

  it('uses no unit again before the window and the margin are over', async () => {
    const limit = 25
    const { crowd, moments } = paced(RateLimit.per(limit, 2).sliding())
    const all = crowd(100)
    await vi.runAllTimersAsync()
    await all
    const again = moments().slice(limit)
    expect(again).toHaveLength(75)
    expect(Math.min(...again.map((moment, at) => moment - (moments()[at] as number)))).toBeGreaterThanOrEqual(2_100)
  })

  it('lets several go in a step where steps would be short, by no more statements than steps', async () => {
    const { crowd, moments, asked } = paced(RateLimit.per(50_000, 10).sliding())
    const first = crowd(50_000, 'first')
    await vi.advanceTimersByTimeAsync(0)
    await first
    const statements = asked.length
    const all = crowd(1_000)
    await vi.runAllTimersAsync()
    await all
    // 10.2 s for 50,000 are 246 in 50.184 ms: 100, 100 and 46.
    expect(asked.slice(statements)).toEqual([1, 100, 100, 46, 100, 100, 46, 100, 100, 46, 100, 100, 46, 16])
    expect(new Set(moments().slice(50_000)).size).toBe(5)
  })

  it('lets newcomers join behind, and nobody wait once it is empty', async () => {
    const { enter, crowd, moments, order } = paced(RateLimit.per(4, 10).sliding())
    const all = crowd(6)
    await vi.advanceTimersByTimeAsync(11_000)
    const newcomer = enter('newcomer')
    await vi.advanceTimersByTimeAsync(4_300)
    await Promise.all([all, newcomer])
    expect(order().slice(4)).toEqual(['caller 5', 'caller 6', 'newcomer'])
    const nextNewcomer = enter('next newcomer')
    await vi.advanceTimersByTimeAsync(0)
    await nextNewcomer
    expect(moments().slice(4)).toEqual([10_200, 12_750, 15_300, 15_300])
  })

  it('refuses nobody for the margin: who may wait as long as it is told does', async () => {
    const { crowd, moments } = paced(RateLimit.per(4, 10).sliding(), 10_000)
    const all = crowd(9)
    await vi.runAllTimersAsync()
    // With the margin they have slept all that they may: nobody is made to wait for a step, and a second wait is refused.
    expect((await all).map(({ kind }) => kind)).toEqual([...Array(8).fill('admitted'), 'limited'])
    expect(moments()).toEqual([...Array(4).fill(0), ...Array(4).fill(10_200)])
  })

  it('charges steps: who has no time for the next one is asked for, with all in front', async () => {
    const { crowd, enter, moments, order } = paced(RateLimit.per(10, 10).sliding(), 13_000)
    const all = crowd(14)
    await vi.advanceTimersByTimeAsync(10_200)
    const short = enter('short', { longestWaitMs: () => 500 })
    const after = enter('after')
    await vi.runAllTimersAsync()
    await Promise.all([all, short, after])
    expect(order().slice(10)).toEqual(['caller 11', 'caller 12', 'caller 13', 'caller 14', 'short', 'after'])
    // It joins in a step, which it has no time for.
    expect(moments().slice(10)).toEqual([10_200, 10_200, 10_200, 10_200, 10_200, 11_220])
  })

  it('keeps no pace under a limit that has been lifted for longer than a minute', async () => {
    const { crowd, state, moments } = paced(RateLimit.per(4, 40).sliding())
    const all = crowd(50)
    await vi.advanceTimersByTimeAsync(41_000)
    state.limit = RateLimit.per(1_000, 40).sliding()
    await vi.runAllTimersAsync()
    await all
    expect(new Set(moments())).toEqual(new Set([0, 40_800, 51_000, 61_200, 71_400, 81_600, 91_800, 100_800]))
  })

  it('keeps its pace through a wait for quiet', async () => {
    const limit = RateLimit.per(2, 10).sliding()
    const verdicts: Admission[][] = [
      [{ kind: 'limited', retryAfterMs: 800, limit }],
      [ADMITTED],
      [{ kind: 'suppressed', retryAfterMs: 7_000 }],
    ]
    const asked: number[] = []
    const line = new AdmissionLines(async (_, owners) => {
      asked.push(Date.now())
      return verdicts[asked.length - 1] ?? owners.map(() => ADMITTED)
    }, 60_000)
    const all = Promise.all(['a', 'b', 'c'].map((owner) => line.enter(INTEGRATION, owner)))
    await vi.runAllTimersAsync()
    await all
    expect(asked).toEqual([0, 1_000, 6_100, 13_100, 18_200])
  })

  it('leaves a fixed window as it is', async () => {
    const { crowd, moments } = paced(RateLimit.per(4, 10))
    const all = crowd(9)
    await vi.runAllTimersAsync()
    await all
    expect(moments()).toEqual([0, 0, 0, 0, 10_000, 10_000, 10_000, 10_000, 20_000])
  })
})

describe('the margin for the way', () => {
  it.each([
    { seconds: 1, expected: 100 },
    { seconds: 5, expected: 100 },
    { seconds: 10, expected: 200 },
    { seconds: 50, expected: 1_000 },
    { seconds: 86_400, expected: 1_000 },
  ])('is $expected ms of a window of $seconds s', ({ seconds, expected }) => {
    expect(marginMs({ seconds })).toBe(expected)
  })
})

describe('the pace', () => {
  it.each([
    { limit: 1, seconds: 1, expected: { units: 1, everyMs: 1_100 } },
    { limit: 25, seconds: 2, expected: { units: 1, everyMs: 84 } },
    { limit: 204, seconds: 10, expected: { units: 1, everyMs: 50 } },
    { limit: 300, seconds: 10, expected: { units: 2, everyMs: 68 } },
    { limit: 50_000, seconds: 10, expected: { units: 246, everyMs: 50.184 } },
    { limit: 5_000, seconds: 3_600, expected: { units: 1, everyMs: 720.2 } },
  ])('of $limit in $seconds s is the limit spread over window and margin', ({ limit, seconds, expected }) => {
    const { units, everyMs } = paceOf({ limit, seconds })
    expect(units).toBe(expected.units)
    expect(everyMs).toBeCloseTo(expected.everyMs, 6)
  })
})
