import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { JoiningQueue } from '../../src/framework/joiner.ts'

const MAX_ITEMS = 100
const MAX_BYTES = 1_048_576

interface Statement {
  readonly items: readonly number[]
  answer(results: readonly string[]): void
  fail(error: unknown): void
}

/** A queue whose statements are answered by the test. */
function queue(atOnce?: number, gathers?: boolean) {
  const statements: Statement[] = []
  let rests = 0
  const made = new JoiningQueue<number, string>(
    (items) => new Promise((answer, fail) => statements.push({ items: [...items], answer, fail })),
    { ...(atOnce !== undefined && { atOnce }), ...(gathers !== undefined && { gathers }), onRest: () => (rests += 1) },
  )
  return {
    add: (item: number, bytes?: number) => made.add(item, bytes),
    at: (index: number) => statements[index] as Statement,
    items: () => statements.map(({ items }) => items),
    rests: () => rests,
  }
}

const from = (first: number, count: number): number[] => Array.from({ length: count }, (_, n) => first + n)
const asText = (items: readonly number[]): string[] => items.map(String)
/** Until all that can go on has gone on. */
async function rest(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

describe('a joining queue', () => {
  it('begins at once with the first, joins what comes meanwhile, and answers each with its own', async () => {
    const { add, at, items, rests } = queue()
    const first = add(1)
    const others = [add(2), add(3)]
    expect(items()).toEqual([[1]])
    at(0).answer(['one'])
    expect(await first).toBe('one')
    expect(items()).toEqual([[1], [2, 3]])
    expect(rests()).toBe(0)
    at(1).answer(['two', 'three'])
    expect(await Promise.all(others)).toEqual(['two', 'three'])
    expect(rests()).toBe(1)
  })

  it('has as many statements under way as it is told', async () => {
    const { add, at, items } = queue(2)
    const all = from(1, 5).map((item) => add(item))
    expect(items()).toEqual([[1], [2]])
    at(1).answer(['2'])
    await rest()
    expect(items()).toEqual([[1], [2], [3, 4, 5]])
    at(0).answer(['1'])
    at(2).answer(asText([3, 4, 5]))
    expect(await Promise.all(all)).toEqual(asText(from(1, 5)))
  })

  it('that gathers waits for a turn of the event loop after a joined statement, and not after a single one', async () => {
    const { add, at, items } = queue(1, true)
    const first = add(1)
    const others = [add(2), add(3)]
    at(0).answer(['1'])
    await first
    expect(items()).toEqual([[1], [2, 3]])
    const late = add(4)
    at(1).answer(['2', '3'])
    await Promise.all(others)
    const later = add(5)
    expect(items()).toHaveLength(2)
    await rest()
    await rest()
    expect(items()[2]).toEqual([4, 5])
    at(2).answer(['4', '5'])
    expect(await Promise.all([late, later])).toEqual(['4', '5'])
  })

  it.each([
    ['items', undefined, MAX_ITEMS],
    ['bytes', MAX_BYTES / 4, 4],
  ])('joins so many %s at most', async (_, bytes, most) => {
    const { add, at, items } = queue()
    const first = add(0)
    const all = from(1, most + 1).map((item) => add(item, bytes))
    at(0).answer(['0'])
    await first
    expect(items()[1]).toEqual(from(1, most))
    at(1).answer(asText(from(1, most)))
    await rest()
    at(2).answer([String(most + 1)])
    expect(await Promise.all(all)).toEqual(asText(from(1, most + 1)))
  })

  it('takes one that is too large for itself', async () => {
    const { add, at, items } = queue()
    const all = [add(0), add(1, MAX_BYTES * 2), add(2, 1)]
    for (const [index, result] of ['0', '1', '2'].entries()) {
      at(index).answer([result])
      await rest()
    }
    expect(items()).toEqual([[0], [1], [2]])
    expect(await Promise.all(all)).toEqual(['0', '1', '2'])
  })

  it('asks again one by one when one of them is refused, and goes on', async () => {
    const { add, at, items } = queue()
    const refused = Object.assign(new Error('no such row'), { code: '23503' })
    const first = add(0)
    const [good, bad] = [add(1), add(2).catch((error: unknown) => error)]
    at(0).answer(['0'])
    await first
    at(1).fail(refused)
    await rest()
    at(2).answer(['1'])
    await rest()
    at(3).fail(refused)
    expect(await good).toBe('1')
    expect(await bad).toBe(refused)
    expect(items()).toEqual([[0], [1, 2], [1], [2]])
    const next = add(3)
    at(4).answer(['3'])
    expect(await next).toBe('3')
  })

  it('tells all of them when Postgres is away, without asking again', async () => {
    const { add, at, items } = queue()
    const away = Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' })
    const first = add(0)
    const others = [1, 2].map((item) => add(item).catch((error: unknown) => error))
    at(0).answer(['0'])
    await first
    at(1).fail(away)
    expect(await Promise.all(others)).toEqual([away, away])
    expect(items()).toHaveLength(2)
  })
})

describe('a joining queue of many integrations', () => {
  /** More than a statement may take before another one goes beside it. */
  const OVER_LONG_MS = 2.1
  let now: number
  beforeEach(() => {
    now = 1_000
    vi.spyOn(performance, 'now').mockImplementation(() => now)
  })
  afterEach(() => {
    vi.restoreAllMocks()
  })

  interface Statement {
    readonly items: readonly number[]
    answer(results: readonly (string | null)[]): void
    fail(error: unknown): void
  }

  /** As the admissions and settlements of calls have it; its statements are answered by the test. */
  function exchange(atOnce = 1) {
    const statements: Statement[] = []
    const made = new JoiningQueue<number, string | null>(
      (items) => new Promise((answer, fail) => statements.push({ items: [...items], answer, fail })),
      { atOnce, besideAfterMs: 2, gathers: true, undecided: null },
    )
    return { statements, add: (item: number) => made.add(item), at: (index: number) => statements[index] as Statement }
  }

  const postgresError = (code: string): Error => Object.assign(new Error(`SQLSTATE ${code}`), { code })

  it('puts the items of a statement in order, and gives each its own result', async () => {
    const statements: (readonly number[])[] = []
    const made = new JoiningQueue<number, string>(
      async (items) => {
        statements.push(items)
        return asText(items)
      },
      { order: (a, b) => a - b },
    )
    expect(await Promise.all([made.add(9), made.add(3), made.add(1), made.add(2)])).toEqual(['9', '3', '1', '2'])
    expect(statements).toEqual([[9], [1, 2, 3]])
  })

  describe('a statement that takes long', () => {
    it('has none beside it unless there may be one', async () => {
      const { statements, add, at } = exchange()
      const added = [add(1)]
      now += 1_000
      added.push(add(2))
      expect(statements).toHaveLength(1)
      at(0).answer(['one'])
      await rest()
      at(1).answer(['two'])
      expect(await Promise.all(added)).toEqual(['one', 'two'])
    })

    it('has one beside it only after 2 ms, and never two of two', async () => {
      const { statements, add, at } = exchange(2)
      const added = [add(1)]
      now += 2
      added.push(add(2))
      expect(statements).toHaveLength(1)
      now += OVER_LONG_MS
      added.push(add(3))
      expect(statements.map(({ items }) => items)).toEqual([[1], [2, 3]])
      now += 1_000
      added.push(add(4), add(5))
      expect(statements).toHaveLength(2)
      // The first of the two to end takes what waits.
      at(1).answer(['two', 'three'])
      await rest()
      expect(statements.map(({ items }) => items)).toEqual([[1], [2, 3], [4, 5]])
      at(2).answer(['four', 'five'])
      at(0).answer(['one'])
      expect(await Promise.all(added)).toEqual(['one', 'two', 'three', 'four', 'five'])
    })

    it('counts from the last one that was begun', async () => {
      const { statements, add, at } = exchange(3)
      const added = [add(1)]
      now += OVER_LONG_MS
      added.push(add(2))
      expect(statements).toHaveLength(2)
      added.push(add(3))
      expect(statements).toHaveLength(2)
      now += OVER_LONG_MS
      added.push(add(4))
      expect(statements.map(({ items }) => items)).toEqual([[1], [2], [3, 4]])
      for (const { items, answer } of statements) answer(asText(items))
      expect(await Promise.all(added)).toEqual(['1', '2', '3', '4'])
      expect(at(2).items).toEqual([3, 4])
    })
  })

  describe('an error', () => {
    const outcomes = (added: readonly Promise<string | null>[]) =>
      Promise.all(
        added.map((each) =>
          each.then(
            (result) => ({ result }),
            (error: unknown) => ({ error }),
          ),
        ),
      )

    it.each(['22P02', '23503'])('about one item (%s) leaves all undecided that were joined', async (code) => {
      const { add, at } = exchange()
      const first = add(1)
      const others = outcomes([add(2), add(3)])
      at(0).answer(['one'])
      await first
      await rest()
      at(1).fail(postgresError(code))
      expect(await others).toEqual([{ result: null }, { result: null }])
    })

    it.each(['22P02', '23503'])('about one item (%s) is its own when it was alone', async (code) => {
      const { add, at } = exchange()
      const error = postgresError(code)
      const alone = outcomes([add(1)])
      at(0).fail(error)
      expect(await alone).toEqual([{ error }])
    })

    it.each([1, 2])('of a row that somebody holds (55P03) leaves them undecided: %i', async (count) => {
      const { add, at } = exchange()
      const first = add(0)
      const others = outcomes(Array.from({ length: count }, (_, index) => add(index + 1)))
      at(0).answer(['none'])
      await first
      await rest()
      at(1).fail(postgresError('55P03'))
      expect(await others).toEqual(Array.from({ length: count }, () => ({ result: null })))
    })

    it.each([
      postgresError('57P01'),
      postgresError('40P01'),
      postgresError('55006'),
      postgresError('42P01'),
      new Error('ECONNRESET'),
      'no error at all',
      { code: '22P02' },
    ])('of another kind is given to all: %s', async (error) => {
      const { add, at } = exchange()
      const first = add(1)
      const others = outcomes([add(2), add(3)])
      at(0).answer(['one'])
      await first
      await rest()
      at(1).fail(error)
      expect(await others).toEqual([{ error }, { error }])
    })

    it('does not end the queue', async () => {
      const { statements, add, at } = exchange()
      const added = outcomes([add(1), add(2)])
      const lost = new Error('lost')
      at(0).fail(lost)
      await rest()
      expect(statements).toHaveLength(2)
      const third = add(3)
      at(1).answer(['two'])
      expect(await added).toEqual([{ error: lost }, { result: 'two' }])
      await rest()
      at(2).answer(['three'])
      expect(await third).toBe('three')
      const fourth = add(4)
      at(3).answer(['four'])
      expect(await fourth).toBe('four')
    })

    it('thrown by the work itself is no different', async () => {
      const thrown = new Error('thrown')
      let works = false
      const made = new JoiningQueue<number, string>((items) => {
        if (!works) throw thrown
        return Promise.resolve(asText(items))
      })
      await expect(made.add(1)).rejects.toBe(thrown)
      works = true
      expect(await made.add(2)).toBe('2')
    })
  })
})
