/** How long a pump works, what it promises, and what becomes of its rows at its end. Rows, time and other pumps are scripted. */
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { ClaimRoom } from '../../src/claims/claimed-rows.ts'
import type { Looked, PumpedRow, Source, Standing } from '../../src/claims/pump.ts'
import { HANDOVER_MS, Pump } from '../../src/claims/pump.ts'
import type { PumpEnd } from '../../src/claims/pump-jobs.ts'
import type { Queued } from '../../src/claims/queues.ts'
import { occasion } from '../support/integrations.ts'
import type { Row } from '../support/pumped-rows.ts'
import { queuedRow } from '../support/pumped-rows.ts'

/** What passes with each look. */
const LOOK_MS = 100
let nowMs = 0

beforeEach(() => {
  nowMs = 1_000_000
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** What a pump does every 5 s: it serves its claim, and rescues. */
const fiveSeconds = (): Promise<unknown> => vi.advanceTimersByTimeAsync(5_000)

type Claim = ClaimRoom & { readonly atMs: number }

interface Script {
  /** What each look finds; past its end nothing. */
  readonly looks?: ((room: ClaimRoom) => Partial<Looked<Row>> | Promise<Partial<Looked<Row>>>)[]
  readonly run?: (row: Row, lost: AbortSignal) => Promise<PumpedRow | null> | PumpedRow | null
  readonly settle?: () => Promise<void>
  readonly heldIds?: () => Promise<Set<number>>
  readonly standing?: Partial<Standing> | 'none'
  readonly isRetry?: boolean
  readonly concurrency?: number
}

function pumping({
  looks = [],
  run = (row) => row,
  settle,
  heldIds,
  standing = {},
  concurrency = 4,
  isRetry = false,
}: Script = {}) {
  const claims: Claim[] = []
  const told: { what: string; atMs: number }[] = []
  const started: number[] = []
  const settled: number[] = []
  const handedBack: number[] = []
  const lines: string[] = []
  const tell = (what: string): void => void told.push({ what, atMs: nowMs })
  const steps = stepByStep()
  const source: Source<Row, PumpedRow> = {
    async claim(room) {
      claims.push({ ...room, atMs: nowMs })
      const look = await looks[claims.length - 1]?.(room)
      nowMs += LOOK_MS
      return { rows: [], walked: 0, upto: 0, ...look }
    },
    async run(row, lost) {
      started.push(row.id)
      return run(row, lost)
    },
    async settle(outcomes) {
      await settle?.()
      settled.push(...outcomes.map(({ id }) => id))
      steps.look()
    },
    async handBack(rows) {
      handedBack.push(...rows.map(({ id }) => id))
      steps.look()
    },
    heldIds: heldIds ?? (async () => new Set()),
    async handBackUnknown(ids) {
      tell(`unknown but ${[...ids].join(' ')}`)
    },
  }
  const known: Standing = {
    async promise() {
      tell('promise')
    },
    promisedFor: async () => 0,
    async isRelieved(by) {
      tell(`relieved by ${by}?`)
      return true
    },
    async keptPromise() {
      tell('kept')
    },
    async serve() {
      tell('serve')
      return { hasLapsed: false }
    },
    async ended() {
      tell('ended')
    },
    async rescue() {
      tell('rescue')
      return { looksAgain: false }
    },
    async call(needs) {
      tell(needs)
    },
    ...(standing === 'none' ? {} : standing),
  }
  const [begun, cancelled, forgotten, stopping, enough] = Array.from({ length: 5 }, () => new AbortController()) as [
    AbortController,
    AbortController,
    AbortController,
    AbortController,
    AbortController,
  ]
  const warn = (_: unknown, message: string): void => void lines.push(message)
  const pump = new Pump<Row, PumpedRow>({
    source,
    ...(standing === 'none' ? {} : { standing: known }),
    concurrency,
    begun: begun.signal,
    cancelled: cancelled.signal,
    forgotten: forgotten.signal,
    stopping: stopping.signal,
    isRetry,
    enough: enough.signal,
    logger: { debug() {}, info() {}, warn, error() {} },
    rest: (_, ends) => steps.rest(ends),
  })
  let end: PumpEnd | undefined
  const running = pump.run().then((how) => {
    end = how
    return how
  })
  running.catch(() => {})
  // One that a failed test leaves behind goes on for ever.
  onTestFinished(() => begun.abort())
  return {
    claims,
    started,
    settled,
    handedBack,
    lines,
    begun,
    cancelled,
    forgotten,
    stopping,
    enough,
    /** Lets it look until its end. */
    ended() {
      steps.letGo()
      return running
    },
    until: steps.until,
    isOver: () => end !== undefined,
    when: (what: string) => told.filter((one) => one.what === what).map(({ atMs }) => atMs),
    /** Until it has looked so often from now on, and no more. */
    looked(times: number): Promise<void> {
      const until = claims.length + times
      return steps.until(() => claims.length >= until)
    },
  }
}

/** A pump rests until its test waits for something: so no more passes meanwhile, however busy the machine is. */
function stepByStep() {
  const awaited = new Set<{ readonly holds: () => boolean; readonly resolve: () => void }>()
  let isFree = false
  let goOn = (): void => {}
  const look = (): void => {
    for (const one of awaited) if (one.holds() && awaited.delete(one)) one.resolve()
  }
  return {
    look,
    letGo(): void {
      isFree = true
      goOn()
    },
    until(holds: () => boolean): Promise<void> {
      if (holds()) return Promise.resolve()
      return new Promise((resolve) => {
        awaited.add({ holds, resolve })
        goOn()
      })
    },
    async rest(ends: AbortSignal): Promise<void> {
      look()
      // What the test does next comes before the next look.
      await new Promise((resolve) => setImmediate(resolve))
      if (isFree || awaited.size > 0 || ends.aborted) return
      await new Promise<void>((resolve) => {
        goOn = resolve
        ends.addEventListener('abort', goOn, { once: true })
      })
      ends.removeEventListener('abort', goOn)
    },
  }
}

const found = (...rows: Queued<Row>[]) => ({ rows, walked: new Set(rows.map(({ queue }) => queue)).size })
const idsOf = (rows: readonly Queued<Row>[]): number[] => rows.map(({ row }) => row.id)

describe('a pump', () => {
  it('that is known to nobody ends with the first whole look that finds nothing', async () => {
    const rows = [queuedRow(1), queuedRow(2), queuedRow(1)]
    const { ended, settled, claims } = pumping({ looks: [() => found(...rows)], standing: 'none' })
    expect(await ended()).toBe('empty')
    expect(settled.sort()).toEqual(idsOf(rows))
    expect(claims.length).toBeGreaterThanOrEqual(2)
  })

  it('goes on behind the last integration of a look that was not whole, and then from the first', async () => {
    const { ended, claims } = pumping({
      looks: [() => ({ walked: 300, upto: 7_000 }), () => found(queuedRow(7_001))],
      standing: 'none',
    })
    expect(await ended()).toBe('empty')
    expect(claims.map(({ after }) => after)).toEqual([0, 7_000, 0])
  })

  it('goes on behind the last integration that got rows where their number has cut a look', async () => {
    const upto = 60
    const cut = (first: number) => (room: ClaimRoom) => {
      const rows = Array.from({ length: room.rows }, (_, n) => queuedRow(first + (n % 10)))
      return { rows, walked: upto - first + 1, upto }
    }
    const { ended, claims } = pumping({
      looks: [cut(1), cut(11), () => ({ ...found(queuedRow(21)), walked: 40, upto }), cut(51)],
      standing: 'none',
    })
    expect(await ended()).toBe('empty')
    expect(claims.map(({ after }) => after)).toEqual([0, 10, 20, 0, 0])
  })

  it('stays there while it holds so much that nothing may be claimed', async () => {
    const first = occasion()
    const rest = () => ({ walked: 50, upto: 60 })
    const { claims, looked } = pumping({
      looks: [
        ({ rows }) => ({
          rows: Array.from({ length: rows }, (_, n) => queuedRow(1 + (n % 10), { bytes: 64 * 1_024 * 1_024 })),
          walked: 60,
          upto: 60,
        }),
        rest,
        rest,
        rest,
      ],
      run: async (row) => {
        await first.happened
        return row
      },
      standing: 'none',
    })
    await looked(2)
    expect(claims.slice(0, 3).map(({ after, rows }) => [after, rows > 0])).toEqual([
      [0, true],
      [10, false],
      [10, false],
    ])
    first.happen()
  })

  it('ends after a round of looks that found nothing, however many integrations have rows that nobody may claim', async () => {
    const { ended, claims } = pumping({
      looks: Array.from(
        { length: 9 },
        (_, n) => () => (n % 2 === 0 ? { walked: 300, upto: 7_000 } : { walked: 12, upto: 9_000 }),
      ),
      standing: 'none',
    })
    expect(await ended()).toBe('empty')
    expect(claims.map(({ after }) => after)).toEqual([0, 7_000])
  })

  it('looks again after one that failed', async () => {
    const { ended, claims, lines } = pumping({
      looks: [
        () => {
          throw new Error('away')
        },
      ],
      standing: 'none',
    })
    expect(await ended()).toBe('empty')
    expect(claims).toHaveLength(2)
    expect(lines).toEqual(['a look failed; it is tried again'])
  })

  it('gives back a row that could not run, and runs others of its integration after a rest', async () => {
    const rows = [queuedRow(1), queuedRow(1)]
    const [refused, later] = idsOf(rows) as [number, number]
    const { ended, handedBack, settled } = pumping({
      looks: [() => found(...rows)],
      run: (row) => (row.id === refused ? null : row),
      concurrency: 1,
      standing: 'none',
    })
    const since = nowMs
    expect(await ended()).toBe('empty')
    expect([handedBack, settled]).toEqual([[refused], [later]])
    expect(nowMs - since).toBeGreaterThanOrEqual(2_000)
  })

  it('gives back rows that have waited for too long', async () => {
    const free = occasion()
    const [runs, late] = [queuedRow(1), queuedRow(1, { startBy: nowMs + 1_000 })]
    const { ended, handedBack, settled, started, until } = pumping({
      looks: [() => found(runs, late)],
      run: async (row) => {
        await free.happened
        return row
      },
      concurrency: 1,
      standing: 'none',
    })
    await until(() => handedBack.length > 0)
    expect(handedBack).toEqual([late.row.id])
    free.happen()
    await ended()
    expect([started, settled]).toEqual([[runs.row.id], [runs.row.id]])
  })

  it('ends with the error of an outcome that could not be stored before the end', async () => {
    const { ended, when, begun } = pumping({
      looks: [() => found(queuedRow(1))],
      settle: async () => {
        begun.abort()
        throw new Error('away')
      },
    })
    await expect(ended()).rejects.toThrow('away')
    expect(when('ended')).toHaveLength(1)
  })
})

describe('its promise to look', () => {
  it('is none where the first look finds nothing: it ends, and says that it has looked', async () => {
    const { ended, when, claims } = pumping()
    expect(await ended()).toBe('empty')
    expect(when('promise')).toEqual([])
    expect(when('kept').length).toBe(1)
    expect(claims.length).toBeLessThan(10)
  })

  it('is renewed once a second while it holds rows', async () => {
    const free = occasion()
    const { ended, when, looked } = pumping({
      looks: [() => found(queuedRow(1))],
      run: async (row) => {
        await free.happened
        return row
      },
    })
    await looked(45)
    free.happen()
    await ended()
    const moments = when('promise')
    const between = moments.slice(1).map((at, n) => at - (moments[n] ?? 0))
    expect(between.length).toBeGreaterThanOrEqual(4)
    expect([...new Set(between)]).toEqual([1_000])
  })

  it('is kept by a whole, empty look that begins after its end, and by none before', async () => {
    const { ended, when, claims } = pumping({ looks: [() => found(queuedRow(1))] })
    expect(await ended()).toBe('empty')
    const until = Math.max(...when('promise')) + 2_000
    const begins = claims.map(({ atMs }) => atMs)
    expect(begins.at(-1)).toBeGreaterThan(until)
    expect(begins.at(-2)).toBeLessThanOrEqual(until)
    expect(when('kept')).toHaveLength(1)
  })

  it('is not kept by a look that walked over some integrations only, or passed over one', async () => {
    const looks = Array.from({ length: 60 }, () => () => ({ walked: 300, upto: 9_000 }))
    const { ended, claims, when } = pumping({ looks: [() => found(queuedRow(1)), ...looks] })
    await ended()
    expect(claims).toHaveLength(62 + 1)
    expect(Math.min(...when('kept'))).toBeGreaterThan(claims[61]?.atMs ?? Number.POSITIVE_INFINITY)
  })

  it('is made before the look whose rows it is for is forgotten: a row that comes at its end is found', async () => {
    const late = queuedRow(1)
    const { ended, settled } = pumping({
      looks: [() => found(queuedRow(1)), ...Array.from({ length: 21 }, () => () => ({})), () => found(late)],
    })
    await ended()
    expect(settled).toContain(late.row.id)
  })
})

describe('the rescue', () => {
  it('keeps a pump from ending until it has been answered, and while it must look again', async () => {
    // At its beginning, and twice in five seconds.
    const answers = [true, true, true, true, false]
    const { isOver, looked, when, ended } = pumping({
      standing: { rescue: async () => ({ looksAgain: answers.shift() ?? false }) },
    })
    await looked(10)
    await fiveSeconds()
    await looked(10)
    expect(isOver()).toBe(false)
    await fiveSeconds()
    expect(await ended()).toBe('empty')
    expect(when('kept')).toHaveLength(1)
  })

  it('that sets rows apart while a look is on its way is followed by another look: that one may have missed them', async () => {
    const answer = occasion<{ looksAgain: boolean }>()
    let answers = 0
    const { ended, settled } = pumping({
      looks: [
        () => ({}),
        async () => {
          answer.happen({ looksAgain: false })
          await vi.advanceTimersByTimeAsync(1)
          return {}
        },
        () => found(queuedRow(1)),
      ],
      standing: {
        async rescue() {
          answers += 1
          return answers === 1 ? answer.happened : { looksAgain: false }
        },
      },
    })
    expect(await ended()).toBe('empty')
    expect(settled).toHaveLength(1)
  })

  it('that fails is tried again: until then the pump goes on', async () => {
    let tries = 0
    const { isOver, looked, ended, lines } = pumping({
      standing: {
        async rescue() {
          tries += 1
          if (tries === 1) throw new Error('away')
          return { looksAgain: false }
        },
      },
    })
    await looked(10)
    expect(isOver()).toBe(false)
    await fiveSeconds()
    expect(await ended()).toBe('empty')
    expect(lines).toEqual(['rows of dead pumps could not be looked for; it is tried again'])
  })
})

describe('a pump that is tried again after its worker died', () => {
  it('leaves to a newer one, once the rows of the dead one are taken up', async () => {
    const answers = [true, true, false]
    const asked: string[] = []
    const { looked, isOver, ended, settled, handedBack } = pumping({
      isRetry: true,
      looks: [() => found(queuedRow(1))],
      standing: {
        rescue: async () => ({ looksAgain: answers.shift() ?? false }),
        async isRelieved(by) {
          asked.push(by)
          return true
        },
      },
    })
    await looked(10)
    expect([isOver(), asked]).toEqual([false, []])
    await fiveSeconds()
    expect(await ended()).toBe('relieved')
    expect([asked, settled.length, handedBack]).toEqual([['newer'], 1, []])
  })

  it('goes on where no newer one promises to look', async () => {
    const { looked, when, ended, isOver, begun } = pumping({
      isRetry: true,
      looks: Array.from({ length: 3 }, () => () => found(queuedRow(1))),
      standing: { isRelieved: async () => false },
    })
    await looked(5)
    expect(when('promise').length).toBeGreaterThan(0)
    expect(isOver()).toBe(false)
    begun.abort()
    expect(await ended()).toBe('stopped')
  })
})

describe('a pump whose worker stops', () => {
  const busy = (standing: Partial<Standing> = {}) => {
    const free = occasion()
    const rows = [queuedRow(1), queuedRow(1)]
    const pump = pumping({
      looks: [() => found(...rows)],
      run: async (row) => {
        await free.happened
        return row
      },
      concurrency: 1,
      standing,
    })
    return Object.assign(pump, { free, ids: idsOf(rows) as [number, number] })
  }

  it('asks for a successor at once, goes on until that one looks, gives back what has not started, and ends what runs', async () => {
    let isRelieved = false
    const { stopping, free, ended, when, ids, handedBack, settled, looked, isOver, claims, until } = busy({
      isRelieved: async () => isRelieved,
    })
    await looked(3)
    const promises = when('promise').length
    stopping.abort()
    await until(() => when('successor').length === 1)
    await looked(3)
    expect([handedBack, when('promise').length]).toEqual([[], promises])
    isRelieved = true
    await until(() => handedBack.length > 0)
    expect(handedBack).toEqual([ids[1]])
    const looks = claims.length
    expect(isOver()).toBe(false)
    free.happen()
    expect(await ended()).toBe('relieved')
    expect(settled).toEqual([ids[0]])
    expect(claims).toHaveLength(looks)
    expect([when('kept'), when('ended').length]).toEqual([[], 1])
  })

  it('ends after a second without a successor: it may be the only worker', async () => {
    const { stopping, free, ended, looked, handedBack, ids, when, until } = busy({ isRelieved: async () => false })
    await looked(3)
    stopping.abort()
    const since = nowMs
    await until(() => handedBack.length > 0)
    expect(handedBack).toEqual([ids[1]])
    expect(nowMs - since).toBeGreaterThanOrEqual(HANDOVER_MS)
    free.happen()
    expect(await ended()).toBe('stopped')
    expect(when('successor')).toHaveLength(1)
  })

  it('stores what ends until its grace is over, though the database is away for a moment', async () => {
    let tries = 0
    const { stopping, ended, settled } = pumping({
      looks: [() => found(queuedRow(1))],
      run: (row) => {
        stopping.abort()
        return row
      },
      async settle() {
        tries += 1
        if (tries < 3) throw new Error('away for a moment')
      },
    })
    expect(await ended()).toBe('relieved')
    expect(settled).toHaveLength(1)
  })

  it('that is cancelled stores what its handlers gave, though the database is away, too', async () => {
    let tries = 0
    const { cancelled, ended, settled } = pumping({
      looks: [() => found(queuedRow(1))],
      async settle() {
        tries += 1
        cancelled.abort()
        if (tries < 3) throw new Error('away for a moment')
      },
    })
    expect(await ended()).toBe('stopped')
    expect(settled).toHaveLength(1)
  })

  it('asks for none when its activity was cancelled', async () => {
    const { cancelled, free, ended, when, looked } = busy()
    await looked(3)
    cancelled.abort()
    free.happen()
    expect(await ended()).toBe('stopped')
    expect(when('successor')).toEqual([])
  })

  it('gives up what still runs at the end of its time, for the reason of it', async () => {
    const given = occasion<unknown>()
    const { begun, enough, ended, looked, handedBack } = pumping({
      looks: [() => found(queuedRow(1))],
      run: (_, lost) =>
        new Promise((resolve) => {
          lost.addEventListener('abort', () => {
            given.happen(lost.reason)
            resolve(null)
          })
        }),
    })
    await looked(2)
    begun.abort()
    const reason = new Error('the worker stops')
    enough.abort(reason)
    expect(await given.happened).toBe(reason)
    expect(await ended()).toBe('stopped')
    expect(handedBack).toHaveLength(1)
  })

  it('ends, too, when Temporal does not answer', async () => {
    const { stopping, free, ended, lines, looked, handedBack, ids, until } = busy({
      async call() {
        throw new Error('Temporal is away')
      },
    })
    await looked(3)
    stopping.abort()
    await until(() => handedBack.length > 0)
    expect(handedBack).toEqual([ids[1]])
    free.happen()
    expect(await ended()).toBe('stopped')
    expect(lines).toEqual(['a pump could not ask for another one'])
  })
})

describe('another pump', () => {
  it('is asked to help once there is too much for a second, and again every five', async () => {
    const free = occasion()
    const since = nowMs
    const { looked, when, ended } = pumping({
      looks: [() => found(queuedRow(1), queuedRow(1))],
      run: async (row) => {
        await free.happened
        return row
      },
      concurrency: 1,
    })
    await looked(75)
    free.happen()
    await ended()
    const [first = 0, second = 0] = when('help')
    expect(first - since).toBeGreaterThanOrEqual(1_000)
    expect(first - since).toBeLessThanOrEqual(1_300)
    expect(second - first).toBe(5_000)
    expect(when('successor')).toEqual([])
  })

  it('is not asked for where it was too much for a moment only', async () => {
    let held: ReturnType<typeof occasion<void>>[] = []
    const { looked, when, ended, until } = pumping({
      looks: [() => found(queuedRow(1), queuedRow(1))],
      run: async (row) => {
        const free = occasion()
        held.push(free)
        await free.happened
        return row
      },
      concurrency: 1,
    })
    await looked(5)
    held.shift()?.happen()
    await until(() => held.length === 1)
    await looked(20)
    expect(when('help')).toEqual([])
    for (const free of held) free.happen()
    held = []
    await ended()
  })

  it.each([
    ['that has asked for a successor', 'ten minutes'],
    ['that Temporal takes for dead', 'forgotten'],
  ])('is waited for by one %s, which goes on and promises no more until the other one looks', async (_, why) => {
    let looksAnother = false
    const { forgotten, looked, when, ended, settled, isOver, until } = pumping({
      looks: Array.from({ length: 500 }, (_row, n) => () => found(queuedRow(n + 1))),
      standing: { isRelieved: async () => looksAnother },
    })
    await looked(3)
    if (why === 'forgotten') forgotten.abort()
    else nowMs += 10 * 60_000
    await until(() => when('successor').length === (why === 'forgotten' ? 0 : 1))
    await looked(3)
    const [handled, promises] = [settled.length, when('promise').length]
    nowMs += 5_000
    await looked(50)
    expect(settled.length).toBeGreaterThan(handled + 20)
    expect(when('promise')).toHaveLength(promises)
    expect(isOver()).toBe(false)
    looksAnother = true
    nowMs += 1_000
    expect(await ended()).toBe('relieved')
    expect(when('successor')).toHaveLength(why === 'forgotten' ? 0 : 1)
  })

  it('takes its place after ten minutes: it claims no more, and what runs ends', async () => {
    const free = occasion()
    const { looked, when, ended, settled, until } = pumping({
      looks: [() => found(queuedRow(1))],
      run: async (row) => {
        await free.happened
        return row
      },
    })
    await looked(3)
    nowMs += 10 * 60_000
    await until(() => when('successor').length === 1)
    free.happen()
    expect(await ended()).toBe('relieved')
    expect(settled).toHaveLength(1)
    expect(when('successor')).toHaveLength(1)
    expect(when('kept')).toEqual([])
  })

  it('that can not be asked for is asked for again, and until then it goes on', async () => {
    let asked = 0
    const free = occasion()
    const { looked, ended, claims, until } = pumping({
      looks: [() => found(queuedRow(1))],
      run: async (row) => {
        await free.happened
        return row
      },
      standing: {
        async call() {
          asked += 1
          if (asked < 3) throw new Error('Temporal is away')
        },
      },
    })
    await looked(3)
    nowMs += 10 * 60_000
    const before = claims.length
    await until(() => asked === 3)
    // A second between two questions is ten looks.
    expect(claims.length - before).toBeGreaterThanOrEqual(20)
    free.happen()
    expect(await ended()).toBe('relieved')
  })
})

describe('its claim', () => {
  it('is served before anything is claimed, every five seconds, and until the last row is stored', async () => {
    const free = occasion()
    let tries = 0
    const { ended, claims, when, looked, lines } = pumping({
      looks: [() => found(queuedRow(1))],
      run: async (row) => {
        await free.happened
        return row
      },
      standing: {
        async serve() {
          tries += 1
          if (tries < 3) throw new Error('away')
          return { hasLapsed: false }
        },
      },
    })
    await looked(1)
    expect([tries, claims.length >= 1]).toEqual([3, true])
    expect(lines).toEqual(['a look failed; it is tried again', 'a look failed; it is tried again'])
    await fiveSeconds()
    expect(tries).toBe(4)
    expect(when('ended')).toEqual([])
    free.happen()
    await ended()
    expect(when('ended')).toHaveLength(1)
  })

  /** One that was silent: two of its rows run and two wait, of each one is another one's by now. */
  function silent() {
    const rows = [queuedRow(1), queuedRow(2), queuedRow(1), queuedRow(2)]
    const [lostRunning, keptRunning, lostWaiting, keptWaiting] = idsOf(rows) as [number, number, number, number]
    const lost: number[] = []
    const free = occasion()
    let hasLapsed = false
    const held = occasion<Set<number>>()
    const extra = queuedRow(3)
    let more = false
    const pump = pumping({
      looks: [
        () => found(...rows),
        ...Array.from({ length: 2_000 }, () => () => {
          if (!more) return {}
          more = false
          return found(extra)
        }),
      ],
      run: async (row, signal) => {
        signal.addEventListener('abort', () => void lost.push(row.id))
        await free.happened
        return row
      },
      concurrency: 1,
      heldIds: () => held.happened,
      standing: {
        async serve() {
          const answer = { hasLapsed }
          hasLapsed = false
          return answer
        },
      },
    })
    return Object.assign(pump, {
      lost,
      free,
      lapse: () => {
        hasLapsed = true
      },
      claimMore: () => {
        more = true
      },
      answer: held.happen,
      ids: { lostRunning, keptRunning, lostWaiting, keptWaiting, extra: extra.row.id },
    })
  }

  it('that lapsed aborts the handlers of lost rows alone; lost rows that wait never start', async () => {
    const { looked, lapse, answer, lost, free, ended, started, settled, handedBack, ids, until } = silent()
    await looked(2)
    lapse()
    await fiveSeconds()
    answer(new Set([ids.keptRunning, ids.keptWaiting]))
    await until(() => lost.length > 0)
    expect(lost).toEqual([ids.lostRunning])
    free.happen()
    await ended()
    expect(started).not.toContain(ids.lostWaiting)
    expect(started).toContain(ids.keptWaiting)
    expect(settled).not.toContain(ids.lostWaiting)
    expect(handedBack).toEqual([])
  })

  it('that lapsed takes nothing from rows that were claimed while it asked', async () => {
    const { looked, lapse, answer, lost, claimMore, free, ended, started, ids, until } = silent()
    await looked(2)
    lapse()
    await fiveSeconds()
    claimMore()
    await until(() => started.includes(ids.extra))
    answer(new Set([ids.keptRunning, ids.keptWaiting]))
    await until(() => lost.length > 0)
    expect(lost).toEqual([ids.lostRunning])
    free.happen()
    await ended()
    expect(lost).not.toContain(ids.extra)
  })

  it('that may have lapsed starts nothing before it is served again', async () => {
    const { looked, lapse, answer, free, started, settled, ids, ended, until } = silent()
    await looked(2)
    lapse()
    // It stood still: its lanes are free before its timers say so.
    nowMs += 20_000
    free.happen()
    await until(() => [ids.lostRunning, ids.keptRunning].every((id) => settled.includes(id)))
    expect(started).toEqual([ids.lostRunning, ids.keptRunning])
    answer(new Set([ids.keptWaiting]))
    await ended()
    expect(started).toEqual([ids.lostRunning, ids.keptRunning, ids.keptWaiting])
  })
})

describe('a claim whose answer was lost', () => {
  it('is given back before the next one, but for what the pump knows', async () => {
    const queued = queuedRow(1)
    const cut = (): never => {
      throw new Error('the connection was cut')
    }
    const { looked, when } = pumping({ looks: [() => found(queued), cut], run: () => new Promise(() => {}) })
    await looked(4)
    expect(when(`unknown but ${queued.row.id}`)).toHaveLength(1)
  })
})

describe('a promise that another pump has made', () => {
  it('is kept by one that has nothing else to do', async () => {
    const { ended, claims } = pumping({ standing: { promisedFor: async () => 200 } })
    expect(await ended()).toBe('empty')
    expect((claims.at(-1)?.atMs ?? 0) - (claims[0]?.atMs ?? 0)).toBeGreaterThan(150)
  })
})
