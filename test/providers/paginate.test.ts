/** How a list is walked, without a server: types that are inferred, what is kept in memory, lists for no session. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { SyncSession, TimeWindow } from '../../src/provider.ts'
import {
  byKeyset,
  byTimeWindows,
  eachPage,
  nextByCursor,
  nextByOffset,
  nextByPage,
  paginate,
  SyncItemEvent,
} from '../../src/provider.ts'
import { FakeSyncSession } from '../../src/testing/index.ts'

const Thing = z.object({ id: z.number(), at: z.string() })
type Thing = z.infer<typeof Thing>

class ThingListed extends SyncItemEvent<Thing> {
  static override readonly type = 'paginate.thing'
}

interface ThingPage {
  readonly things: readonly Thing[]
  readonly next: string | null
  readonly has_more: boolean
}

const thing = (id: number): Thing => ({ id, at: new Date(id * 1_000).toISOString() })
const pageOf = (...ids: number[]): ThingPage => ({ things: ids.map(thing), next: null, has_more: false })
const handedIn = (session: SyncSession) => ({
  event: (each: Thing) => new ThingListed(session.integration, each),
  checkpoint: ({ at }: Thing) => at,
  externalId: ({ id }: Thing) => id,
})

async function all<T>(pages: AsyncIterable<{ readonly items: readonly T[] }>): Promise<T[]> {
  const found: T[] = []
  for await (const { items } of pages) found.push(...items)
  return found
}

describe('the types', () => {
  it('come from the schema of a page, and refuse what it does not have', () => {
    const session = new FakeSyncSession()
    const get = async (_: object): Promise<ThingPage> => pageOf()
    const calls = () => [
      paginate(session, {
        first: { since: '2031-01-01', page: 1 },
        page: ({ since, page }) => get({ since: since.slice(0, 4), page: page.toFixed() }),
        next: ({ has_more }, { since, page }) => (has_more ? { since, page: page + 1 } : null),
        items: ({ things }) => things,
        ...handedIn(session),
      }),
      paginate(session, {
        first: null,
        // @ts-expect-error a page does not have the field that is named below
        page: (cursor) => get({ cursor }),
        next: nextByCursor('nxt'),
        // @ts-expect-error which is then all that is known of it
        items: ({ things }) => things,
        ...handedIn(session),
      }),
      paginate(session, {
        // @ts-expect-error a page number is a number
        first: 'one',
        page: (page) => get({ page }),
        next: nextByPage(),
        items: (page: ThingPage) => page.things,
        ...handedIn(session),
      }),
      paginate(session, {
        first: null,
        page: (after) => get({ after }),
        next: byKeyset('id'),
        items: ({ things }) => things,
        ...handedIn(session),
        // @ts-expect-error an item has no such field
        externalId: ({ number }) => number,
      }),
    ]
    expect(calls).toBeTypeOf('function')
  })
})

describe('a walk', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void

  it.each([
    ['cursor', null, nextByCursor('next')],
    ['offset', 0, nextByOffset()],
  ] as const)('keeps no page but the last ones: by %s', async (_, first, next) => {
    const PAGES = 400
    const made: WeakRef<object>[] = []
    let asked = 0
    const pages = eachPage<string | number | null, ThingPage, Thing>({
      first,
      page: async () => {
        asked += 1
        const step = first === 0 ? 5 : 10
        const page = { ...pageOf(...Array.from({ length: 10 }, (__, n) => asked * step + n)), next: String(asked) }
        made.push(new WeakRef(page))
        return page
      },
      next: next as never,
      items: ({ things }) => things,
      maxPages: PAGES,
    })
    await expect(all(pages)).rejects.toMatchObject({ code: 'pagination_failed', fault: 'too_many_pages' })
    expect(asked).toBe(PAGES)
    await new Promise((resolve) => setImmediate(resolve))
    collect()
    expect(made.filter((page) => page.deref() !== undefined).length).toBeLessThan(5)
  })

  it('has bookmarks of a bounded size, however far it is', async () => {
    const session = new FakeSyncSession()
    let asked = 0
    await paginate(session, {
      first: 0,
      page: async (offset: number) => {
        asked += 1
        return pageOf(...Array.from({ length: Math.min(100, Math.max(0, 20_000 - offset)) }, (_, n) => offset + n))
      },
      next: nextByOffset({ overlap: 50 }),
      items: ({ things }) => things,
      ...handedIn(session),
    })
    session.assertDispatchedCount(20_000)
    expect(asked).toBeGreaterThan(200)
    expect(Math.max(...session.bookmarks.map((bookmark) => JSON.stringify(bookmark).length))).toBeLessThan(1_500)
  })

  it('counts the pages of earlier tries, too', async () => {
    const list = (session: FakeSyncSession, stop: number) =>
      paginate(session, {
        first: null,
        page: async (cursor) => {
          if (Number(cursor) === stop) throw new Error('cut off')
          return { ...pageOf(Number(cursor) + 1), next: String(Number(cursor) + 1) }
        },
        next: nextByCursor('next'),
        items: ({ things }) => things,
        maxPages: 10,
        ...handedIn(session),
      })
    const session = new FakeSyncSession()
    await expect(list(session, 6)).rejects.toThrow('cut off')
    const next = await session.nextTry()
    await expect(list(next, 99)).rejects.toMatchObject({ fault: 'too_many_pages' })
    // Nothing is lost: what was listed is there, and the bookmark is where it goes on.
    next.assertDispatchedCount(10)
    expect(next.bookmarks.at(-1)).toMatchObject({ lists: { '': { place: { cursor: '10' }, pages: 10 } } })
  })

  it('asks for no page once its session has ended', async () => {
    const end = new AbortController()
    const session = new FakeSyncSession(null, { signal: end.signal })
    let asked = 0
    const listing = paginate(session, {
      first: null,
      page: async () => {
        asked += 1
        end.abort(new Error('cancelled'))
        return { ...pageOf(), next: String(asked) }
      },
      next: nextByCursor('next'),
      items: ({ things }) => things,
      ...handedIn(session),
    })
    await expect(listing).rejects.toThrow('cancelled')
    expect(asked).toBe(1)
  })

  it.each([
    ['of other code', 'page-4'],
    [
      'of another kind of list',
      { lists: { '': { place: { page: 4, walk: 1, news: 0 }, pages: 3, loop: ['', 4, 0] } } },
    ],
    ['of another list', { lists: { other: { place: { cursor: '2' }, pages: 1, loop: ['', 1, 0] } } }],
    ['that holds a list and no place', { lists: { '': 7 } }],
  ])('begins at the beginning where the bookmark is one %s', async (_, resumeFrom) => {
    const session = new FakeSyncSession(null, { resumeFrom })
    await paginate(session, {
      first: null,
      page: async (cursor) => (cursor === null ? { ...pageOf(1), next: '2' } : pageOf(2)),
      next: nextByCursor('next'),
      items: ({ things }) => things,
      ...handedIn(session),
    })
    session.assertDispatchedCount(2)
  })
})

describe('a list of', () => {
  it('keys that rows share is refused where the API gives the rows behind them', async () => {
    const rows = [{ at: 1 }, { at: 2 }, { at: 2 }].map((row, n) => ({ ...row, n }))
    const pages = eachPage({
      first: null,
      page: async (after) => rows.filter(({ at }) => at > Number(after)),
      next: byKeyset('at'),
      items: (page) => page,
    })
    await expect(all(pages)).rejects.toMatchObject({
      fault: 'tied',
      message: expect.stringContaining('give the limit'),
    })
  })

  it.each<[string, readonly (string | number)[], 'ascend' | 'unsorted']>([
    ['numbers', [9, 10, 11], 'ascend'],
    ['numbers that do not ascend', [9, 11, 10], 'unsorted'],
    ['whole numbers as texts', ['49', '50', '999999', '1000000', '9007199254740993', '9007199254740994'], 'ascend'],
    ['whole numbers as texts that do not ascend', ['49', '1000000', '999999'], 'unsorted'],
    ['whole numbers beyond 2^53 that do not', ['9007199254740994', '9007199254740993'], 'unsorted'],
    ['texts with a number', ['item-1', 'item-10', 'item-9'], 'ascend'],
    ['texts in an order without regard to case', ['apple', 'Berry', 'cherry'], 'ascend'],
    ['times of two zones', ['2031-01-01T10:00:00+02:00', '2031-01-01T09:00:00Z'], 'ascend'],
    ['times that do not ascend', ['2031-01-01T10:00:00Z', '2031-01-01T11:00:00+02:00'], 'unsorted'],
  ])('by key takes the order of the API, and refuses what surely does not ascend: %s', async (_, keys, order) => {
    const limit = 2
    const pages = eachPage({
      first: keys[0] ?? null,
      // The rows from the key on.
      page: async (from: string | number | null) => {
        const at = keys.indexOf(from as string)
        return keys.slice(at, at + limit).map((at) => ({ at }))
      },
      next: byKeyset('at', { limit }),
      items: (page) => page,
    })
    if (order === 'ascend') expect((await all(pages)).flat()).toHaveLength(keys.length)
    else await expect(all(pages)).rejects.toMatchObject({ fault: 'unsorted' })
  })

  it.each([
    ['a cursor', nextByCursor('has_more'), null],
    ['a number of pages', nextByPage({ pages: 'next' as never }), 1],
    ['a flag', nextByPage({ more: 'next' as never }), 1],
    ['a key', byKeyset('at.none' as never), null],
  ] as const)('%s that can not be read is refused, and not taken for the end', async (_, next, first) => {
    const pages = eachPage<string | number | null, ThingPage, Thing>({
      first,
      page: async () => ({ ...pageOf(1), has_more: true }),
      next: next as never,
      items: ({ things }) => things,
    })
    await expect(all(pages)).rejects.toMatchObject({ code: 'pagination_failed', fault: 'unreadable' })
  })

  it.each([
    ['a cursor', nextByCursor('next')],
    ['a key', byKeyset('id')],
    ['a key with a limit', byKeyset('id', { limit: 1 })],
  ] as const)('%s that JSON.parse() has rounded is refused: it would lead elsewhere', async (_, next) => {
    const pages = eachPage<string | number | null, { things: { id: number }[]; next: number }, { id: number }>({
      first: null,
      page: async () => JSON.parse('{"things":[{"id":1374004777531007833}],"next":1374004777531007833}'),
      next: next as never,
      items: ({ things }) => things,
    })
    await expect(all(pages)).rejects.toMatchObject({ code: 'pagination_failed', fault: 'unreadable' })
  })

  it.each<[string, unknown, string]>([
    ['undefined', undefined, 'it gave undefined'],
    ['a Date', new Date(0), 'it gave a Date'],
    ['a Date in an object', { from: new Date(0) }, 'it gave a Date at "from"'],
    ['NaN', { page: Number.NaN }, 'it gave NaN at "page"'],
    ['a list with undefined', [undefined], 'it gave a list'],
  ])('a function that gives %s behind a page is at fault, and the list has not ended', async (_, given, words) => {
    const list = { first: 7 as never, page: async () => pageOf(1), next: () => given as never }
    const fault = {
      code: 'pagination_failed',
      fault: 'unreadable',
      message: expect.stringMatching(new RegExp(`next\\(\\).* null at the end; behind 7 ${words}`)),
    }
    const items = ({ things }: ThingPage) => things
    await expect(all(eachPage({ ...list, items }))).rejects.toMatchObject(fault)
    const session = new FakeSyncSession()
    await expect(paginate(session, { ...list, items, ...handedIn(session) })).rejects.toMatchObject(fault)
  })

  it('windows covers each moment once, also with ends within a second', async () => {
    const asked: [string, string][] = []
    await all(
      eachPage({
        first: { from: new Date('2031-01-01T00:00:00.500Z'), to: new Date('2031-01-01T00:00:07.001Z') },
        page: async ({ from, to }) => {
          asked.push([from.toISOString().slice(17, 19), to.toISOString().slice(17, 19)])
          return asked.length % 3 === 1 ? [1, 2] : []
        },
        next: byTimeWindows({ limit: 2 }),
        items: (page) => page,
      }),
    )
    expect(asked).toEqual([
      ['00', '08'],
      ['00', '04'],
      ['04', '08'],
    ])
  })

  it('windows takes an API that includes both ends, also where the end has the only row of two windows', async () => {
    const rows = [4, 7, 8].map(thing)
    const windows = () => {
      const asked: [number, number][] = []
      return {
        asked,
        first: { from: new Date(0), to: new Date(8_000) },
        page: async ({ from, to }: TimeWindow) => {
          asked.push([from.getTime() / 1_000, to.getTime() / 1_000])
          return rows.filter(({ at }) => new Date(at) >= from && new Date(at) <= to).slice(0, 3)
        },
        next: byTimeWindows({ limit: 3 }),
        items: (page: readonly Thing[]) => page,
      }
    }
    const list = windows()
    expect(await all(eachPage(list))).toEqual(rows)
    // The window whose rows are those of the one before is asked for once more.
    expect(list.asked).toEqual([
      [0, 8],
      [0, 4],
      [4, 8],
      [4, 6],
      [4, 6],
      [6, 8],
    ])
    const session = new FakeSyncSession()
    await paginate(session, { ...windows(), ...handedIn(session) })
    expect(session.items.map(({ externalId }) => externalId)).toEqual([4, 7, 8])
  })
})
