import { describe, expect, it } from 'vitest'
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
const rest = () => new Promise((resolve) => setImmediate(resolve))

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
