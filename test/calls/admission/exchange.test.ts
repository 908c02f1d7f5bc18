import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Exchange } from '../../../src/calls/admission/exchange.ts'

const MAX_JOINED = 100
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

/** An exchange whose statements are answered by the test. */
function exchange(atOnce?: number) {
  const statements: Statement[] = []
  const made = new Exchange<number, string>(
    (items) =>
      new Promise((answer, fail) => {
        statements.push({ items: [...items], answer, fail })
      }),
    atOnce,
  )
  return { statements, add: (item: number) => made.add(item), at: (index: number) => statements[index] as Statement }
}

/** Until all that can go on has gone on. */
async function rest(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

const asText = (items: readonly number[]): string[] => items.map(String)
const postgresError = (code: string): Error => Object.assign(new Error(`SQLSTATE ${code}`), { code })

describe('an exchange', () => {
  it('asks at once for the first, and joins what comes while that is under way', async () => {
    const { statements, add, at } = exchange()
    const first = add(1)
    expect(statements.map(({ items }) => items)).toEqual([[1]])
    const others = [add(2), add(3)]
    await rest()
    expect(statements).toHaveLength(1)
    at(0).answer(['one'])
    expect(await first).toBe('one')
    await rest()
    expect(statements.map(({ items }) => items)).toEqual([[1], [2, 3]])
    at(1).answer(['two', 'three'])
    expect(await Promise.all(others)).toEqual(['two', 'three'])
  })

  it('waits for a turn of the event loop after a joined statement, for those who come back', async () => {
    const { statements, add, at } = exchange()
    const first = add(1)
    const again = [add(2), add(3)].map((answered) => answered.then(() => add(4)))
    at(0).answer(['one'])
    await first
    await rest()
    at(1).answer(['two', 'three'])
    await rest()
    expect(statements.map(({ items }) => items)).toEqual([[1], [2, 3], [4, 4]])
    at(2).answer(['four', 'four'])
    expect(await Promise.all(again)).toEqual(['four', 'four'])
  })

  it('gives null for an item without a result: undecided', async () => {
    const { add, at } = exchange()
    const first = add(1)
    const others = [add(2), add(3), add(4)]
    at(0).answer([null])
    expect(await first).toBeNull()
    await rest()
    at(1).answer(['two', null])
    expect(await Promise.all(others)).toEqual(['two', null, null])
  })

  it('takes a hundred at most, in the order in which they came', async () => {
    const { statements, add, at } = exchange()
    const count = 1 + MAX_JOINED + 5
    const added = Array.from({ length: count }, (_, item) => add(item))
    for (let index = 0; index < 3; index += 1) {
      await rest()
      expect(statements).toHaveLength(index + 1)
      at(index).answer(asText(at(index).items))
    }
    expect(await Promise.all(added)).toEqual(Array.from({ length: count }, (_, item) => `${item}`))
    expect(statements.map(({ items }) => items.length)).toEqual([1, MAX_JOINED, 5])
    expect(at(1).items).toEqual(Array.from({ length: MAX_JOINED }, (_, index) => index + 1))
  })

  it('asks at once again when nothing is under way any more', async () => {
    const { statements, add, at } = exchange()
    const first = add(1)
    at(0).answer(['one'])
    await first
    await rest()
    const second = add(2)
    expect(statements).toHaveLength(2)
    at(1).answer(['two'])
    expect(await second).toBe('two')
  })
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
    const made = new Exchange<number, string>((items) => {
      if (!works) throw thrown
      return Promise.resolve(asText(items))
    })
    await expect(made.add(1)).rejects.toBe(thrown)
    works = true
    expect(await made.add(2)).toBe('2')
  })
})
