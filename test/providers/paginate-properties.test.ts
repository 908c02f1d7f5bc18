/**
 * Lists that change at random between any two requests, and tries that are cut off at random: a row that was there all the time and
 * did not move is listed, whatever the kind. Rule: docs/behaviour/sync-listing.md, "Lists of pages".
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { PaginationFailed, SyncSession } from '../../src/provider.ts'
import {
  byKeyset,
  byTimeWindows,
  nextByCursor,
  nextByOffset,
  nextByPage,
  paginate,
  SyncItemEvent,
} from '../../src/provider.ts'
import { FakeSyncSession } from '../../src/testing/index.ts'
import type { Kind, Row } from '../support/hostile-lists.ts'
import { answerOf, LIMIT } from '../support/hostile-lists.ts'

class RowListed extends SyncItemEvent<Row> {
  static override readonly type = 'properties.row'
  static override readonly schema = z.object({ id: z.number(), updated_at: z.string() })
}

const BEGIN = Date.UTC(2031, 0, 1)
const secondOf = (id: number): number => Math.floor(id / 4)
const rowAt = (id: number): Row => ({ id, updated_at: new Date(BEGIN + secondOf(id) * 1_000).toISOString() })

type Change =
  | { readonly kind: 'remove'; readonly at: number; readonly count: number }
  /** In front, in the middle or at the end, between two rows that are there. */
  | { readonly kind: 'add'; readonly at: number; readonly count: number }
  | { readonly kind: 'cut off' }

const change: fc.Arbitrary<Change | null> = fc.oneof(
  { weight: 4, arbitrary: fc.constant(null) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('remove' as const),
      at: fc.nat(99),
      count: fc.integer({ min: 1, max: 14 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('add' as const), at: fc.nat(99), count: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'cut off' as const }) },
)

class ChangingList {
  rows: Row[]
  readonly #changes: (Change | null)[]
  /** Rows that are there from the first request to the last. */
  readonly staying: Set<number>
  asked = 0

  constructor(count: number, changes: readonly (Change | null)[]) {
    // Fractions are added between whole numbers.
    this.rows = Array.from({ length: count }, (_, n) => rowAt(n + 1))
    this.staying = new Set(this.rows.map(({ id }) => id))
    this.#changes = [...changes]
  }

  async ask(kind: Kind, query: Record<string, string | number>) {
    this.asked += 1
    this.#change(this.#changes.shift() ?? null)
    const url = new URL(`https://lists.example/${kind}`)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value))
    return answerOf(this.rows, url)
  }

  /** A page of rows with one time: it can't be seen whether there are more. */
  get isCrowded(): boolean {
    const seconds = this.rows.map(({ id }) => secondOf(id))
    return seconds.some((second) => seconds.filter((other) => other === second).length >= LIMIT)
  }

  #change(given: Change | null): void {
    if (given?.kind === 'cut off') throw new Error('cut off')
    if (given === null || this.rows.length === 0) return
    const at = given.at % this.rows.length
    if (given.kind === 'remove') for (const { id } of this.rows.splice(at, given.count)) this.staying.delete(id)
    else {
      const before = this.rows[at - 1]?.id ?? (this.rows[0]?.id ?? 1) - 1
      const step = ((this.rows[at]?.id ?? before + 1) - before) / (given.count + 1)
      this.rows.splice(at, 0, ...Array.from({ length: given.count }, (_, n) => rowAt(before + step * (n + 1))))
    }
  }
}

const LISTINGS: Readonly<Partial<Record<Kind, (session: SyncSession, list: ChangingList) => Promise<void>>>> = {
  cursor: (session, list) =>
    paginate(session, {
      first: null,
      page: (cursor) => list.ask('cursor', { after: cursor ?? -1_000 }),
      next: nextByCursor('next'),
      items: ({ rows }) => rows,
      ...handedIn(session),
    }),
  ids: (session, list) =>
    paginate(session, {
      first: null,
      page: (after) => list.ask('ids', { after: after ?? -1_000 }),
      next: byKeyset('id'),
      items: ({ rows }) => rows,
      ...handedIn(session),
    }),
  times: (session, list) =>
    paginate(session, {
      first: null,
      page: (from) => list.ask('times', { from: from === null ? 0 : Date.parse(String(from)) }),
      next: byKeyset('updated_at', { limit: LIMIT }),
      items: ({ rows }) => rows,
      ...handedIn(session),
    }),
  offset: (session, list) =>
    paginate(session, {
      first: 0,
      page: (offset) => list.ask('offset', { offset }),
      next: nextByOffset({ overlap: 3 }),
      items: ({ rows }) => rows,
      ...handedIn(session),
    }),
  windows: (session, list) =>
    paginate(session, {
      first: { from: new Date(BEGIN - 60_000), to: new Date(BEGIN + 60_000) },
      page: ({ from, to }) => list.ask('windows', { from: from.getTime(), to: to.getTime() }),
      next: byTimeWindows({ limit: LIMIT }),
      items: ({ rows }) => rows,
      ...handedIn(session),
    }),
  page: (session, list) =>
    paginate(session, {
      first: 1,
      page: (page) => list.ask('page', { page }),
      next: nextByPage(),
      items: ({ rows }) => rows,
      ...handedIn(session),
    }),
}

function handedIn(session: SyncSession) {
  return {
    event: (row: Row) => new RowListed(session.integration, row),
    checkpoint: ({ updated_at }: Row) => updated_at,
    externalId: ({ id }: Row) => String(id),
  }
}

/** Tries go on at the bookmark of the one before. */
async function listed(kind: Kind, list: ChangingList): Promise<readonly string[]> {
  const walk = LISTINGS[kind] as NonNullable<(typeof LISTINGS)[Kind]>
  for (let session = new FakeSyncSession(); ; session = await session.nextTry())
    try {
      await walk(session, list)
      return session.items.map(({ externalId }) => String(externalId))
    } catch (error) {
      if ((error as Error).message !== 'cut off') throw error
    }
}

const RUNS = { numRuns: 200, seed: 20_310_101 }

describe.each(Object.keys(LISTINGS) as Kind[])('a list by %s that changes between its requests', (kind) => {
  it('has each row that stays, once', async () => {
    // In a list by page number that changes in each walk a row can be missing: docs, as above.
    const changes = fc.array(change, { maxLength: kind === 'page' ? 6 : 30 })
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 80 }), changes, async (count, given) => {
        const list = new ChangingList(count, given)
        const ids = await listed(kind, list).catch((error: unknown) => {
          // Refused, and not left short.
          if (['tied', 'window_full'].includes((error as PaginationFailed).fault) && list.isCrowded) return null
          throw error
        })
        if (ids === null) return
        expect(new Set(ids).size).toBe(ids.length)
        const found = new Set(ids)
        expect([...list.staying].filter((id) => !found.has(String(id)))).toEqual([])
        expect(list.asked).toBeLessThan(400)
      }),
      RUNS,
    )
  }, 60_000)
})
