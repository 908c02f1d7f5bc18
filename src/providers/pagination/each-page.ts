/**
 * Walks the pages of a list: asks for one after the other, and notices a list that repeats, loops or has no end.
 *
 * It keeps the keys of one page and a few numbers, however long the list is. Rule: docs/behaviour/sync-listing.md, "Lists of pages".
 */
import { createHash } from 'node:crypto'
import { PaginationFailed } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { canonicalJson, isJson, kindNotJson } from '../../framework/json.ts'
import type { Paging, PagingSteps, Place } from './next-page.ts'

/** 10 million rows at 100 a page: a list with more has, more likely, no end. */
const MAX_PAGES = 100_000

/** A list: where it begins, how a page is asked for, how it goes on, and what is on a page. */
export interface PagedList<Position, Page, Item> {
  /** Where it begins: the first page number, the first URL, the window; null where the first page needs no position. */
  readonly first: Position
  /** Asks for the page at a position, by `integration.request()`. */
  readonly page: (position: Position) => Page | Promise<Page>
  /** How the list goes on: `nextByCursor()` and its like, or a function of the page and its position; null: it has ended. */
  readonly next: Paging<Position, Page, Item> | ((page: Page, position: NoInfer<Position>) => NoInfer<Position> | null)
  /** All rows of a page, in the order of the list. */
  readonly items: (page: Page) => readonly Item[]
  /** Pages asked for at most, those of earlier tries included. Default 100,000. @throws PaginationFailed beyond it */
  readonly maxPages?: number
}

/** What a walk asks of the one who takes the rows. */
interface Taking<Item> {
  readonly signal: AbortSignal | undefined
  /** The row and its version: rows of neighbouring pages with equal keys are one. */
  keyOf(item: Item): string
  /** Whether it was taken before, on any page. */
  isKnown(item: Item): boolean
  warn(message: string): void
}

/** A walk between two pages, as JSON. */
type Standing = {
  readonly place: Place
  /** Pages asked for so far. */
  readonly pages: number
  /**
   * What finds a loop, by Brent's algorithm: the digest of one earlier place, after how many steps it is replaced by the place
   * reached then (1, 2, 4, 8, …), and the steps since. A loop of any length comes back to it.
   */
  readonly loop: readonly [mark: string, stride: number, steps: number]
}

interface ReadPage<Page, Item> {
  readonly page: Page
  /** Without those of the page before. */
  readonly items: readonly Item[]
  /** A further walk over the same pages. */
  readonly isRewalk: boolean
}

export class Walk<Position, Page, Item> {
  readonly #list: PagedList<Position, Page, Item>
  readonly #steps: PagingSteps<Position, Page, Item>
  readonly #taking: Taking<Item>
  #standing: Standing | null
  /** Keys of the page before. */
  #before: readonly string[] = []
  /** What to ask for in place of the page that was read. */
  #instead: Place | null = null
  #read: { readonly page: Page; readonly items: readonly Item[]; readonly keys: readonly string[] } | null = null

  /** @param from the standing of an earlier try; null: the list begins */
  constructor(list: PagedList<Position, Page, Item>, taking: Taking<Item>, from: Json = null) {
    this.#list = list
    this.#taking = taking
    this.#steps = typeof list.next === 'function' ? byFunction(list.first, list.next) : list.next.from(list.first)
    const { begin } = this.#steps
    const kept = from as Standing | null
    const isOfThisList = kept !== null && isPlaceLike(kept.place, begin)
    this.#standing = isOfThisList ? kept : { place: begin, pages: 0, loop: [digest(begin), 1, 0] }
  }

  /** Null: the list has ended. */
  get standing(): Json {
    return this.#standing
  }

  /** The next page; null: the list has ended. @throws PaginationFailed */
  async read(): Promise<ReadPage<Page, Item> | null> {
    if (this.#standing === null) return null
    const { place } = this.#standing
    const position = this.#steps.position(place)
    let { page, items, keys } = await this.#ask(position)
    const isRewalk = this.#steps.isRewalk?.(place) ?? false
    if (!isRewalk && !this.#steps.overlaps && (this.#isPageBefore(keys) || this.#isKnown(items))) {
      // A server that gave a wrong page once mostly gives the right one when it is asked again.
      ;({ page, items, keys } = await this.#ask(position))
      if (this.#isPageBefore(keys) && !this.#steps.mayRepeat)
        throw new PaginationFailed(
          'repeated',
          `the page at ${shown(position)} has the rows of the page before it, also when asked again; does the API take the position as it is given?`,
        )
    }
    this.#instead = this.#steps.instead?.(items, place) ?? null
    if (this.#instead !== null) return { page, items: [], isRewalk }
    this.#read = { page, items, keys }
    const before = new Set(this.#before)
    return { page, items: items.filter((_, at) => !before.has(keys[at] as string)), isRewalk }
  }

  /** Goes on behind the page that was read. @param news rows of it that were not known before */
  advance(news: number): void {
    if (this.#standing === null) return
    const next = this.#instead ?? this.#behind(this.#standing.place, news)
    this.#standing = next === null ? null : movedTo(next, this.#standing)
    this.#instead = null
    this.#read = null
  }

  #behind(place: Place, news: number): Place | null {
    if (this.#read === null) return place
    const { page, items, keys } = this.#read
    const { warn } = this.#taking
    if (keys.length > 0) this.#before = keys
    return this.#steps.after({ page, items, keys: keys.map(digest), news, warn }, place)
  }

  async #ask(position: Position) {
    const { maxPages = MAX_PAGES } = this.#list
    this.#taking.signal?.throwIfAborted()
    const { pages } = this.#standing as Standing
    if (pages >= maxPages)
      throw new PaginationFailed(
        'too_many_pages',
        `the list has not ended after ${maxPages} pages, at ${shown(position)}; allow more by maxPages if it is that long`,
      )
    this.#standing = { ...(this.#standing as Standing), pages: pages + 1 }
    const page = await this.#list.page(position)
    const items = this.#list.items(page)
    return { page, items, keys: items.map((item) => this.#taking.keyOf(item)) }
  }

  #isPageBefore(keys: readonly string[]): boolean {
    return keys.length > 0 && keys.length === this.#before.length && keys.every((key, at) => key === this.#before[at])
  }

  #isKnown(items: readonly Item[]): boolean {
    return items.length > 0 && items.every((item) => this.#taking.isKnown(item))
  }
}

/** @throws PaginationFailed for a place where the list has been before */
function movedTo(place: Place, { place: before, pages, loop: [mark, stride, steps] }: Standing): Standing {
  const at = digest(place)
  if (at === mark || at === digest(before))
    throw new PaginationFailed('loop', `the list leads back to ${shown(place)}, where it has been before`)
  const loop = steps + 1 < stride ? ([mark, stride, steps + 1] as const) : ([at, stride * 2, 0] as const)
  return { place, pages, loop }
}

/** Whether a kept place can be one of a list that begins there: between two tries an author may have changed the code. */
function isPlaceLike(kept: Json, begin: Place): boolean {
  if (typeof kept !== 'object' || kept === null) return false
  return Object.keys(begin).every((key) => key in kept && isLike((kept as Place)[key], begin[key]))
}

function isLike(kept: Json | undefined, first: Json | undefined): boolean {
  if (kept == null || first == null) return true
  if (typeof kept !== 'object' || typeof first !== 'object') return typeof kept === typeof first
  const [one, other] = [kept as Place, first as Place]
  return Object.keys(other).every((key) => isLike(one[key], other[key]))
}

/**
 * The pages of a list, one call each, for what is no sync listing: `missedWebhooks()`, a list for a host. Each comes with its
 * items, without those of the page before.
 *
 * @throws PaginationFailed for a list that repeats, loops or has no end
 *
 * @example
 * const pages = eachPage({
 *   first: null,
 *   page: (cursor) => api.events({ cursor }),
 *   next: nextByCursor('next_cursor'),
 *   items: ({ events }) => events,
 * })
 * for await (const { items } of pages) yield* items
 */
export async function* eachPage<Position, Page, Item>(
  list: PagedList<Position, Page, Item> & { readonly signal?: AbortSignal | undefined },
): AsyncGenerator<{ readonly page: Page; readonly items: readonly Item[] }> {
  const keyOf = (item: Item): string => JSON.stringify(item) ?? ''
  const walk = new Walk(list, { signal: list.signal, keyOf, isKnown: () => false, warn: () => {} })
  for (let read = await walk.read(); read !== null; read = await walk.read()) {
    yield read
    walk.advance(0)
  }
}

function byFunction<Position, Page, Item>(
  first: Position,
  next: (page: Page, position: Position) => Position | null,
): PagingSteps<Position, Page, Item> {
  return {
    begin: { at: first as Json },
    position: ({ at }) => at as Position,
    after: ({ page }, { at }) => {
      const to = next(page, at as Position)
      if (to === null) return null
      if (isJson(to)) return { at: to }
      // Not taken for the end: a field that is misspelled would cut the list short.
      throw new PaginationFailed(
        'unreadable',
        `next() must give the position of the next page as JSON, or null at the end; behind ${shown(at)} it gave ${kindNotJson(to)}`,
      )
    },
  }
}

/** Short, so that a bookmark holds some. */
function digest(value: Json): string {
  return createHash('sha256').update(canonicalJson(value)).digest('base64url').slice(0, 16)
}

const MAX_SHOWN = 200

function shown(position: unknown): string {
  return (JSON.stringify(position) ?? String(position)).slice(0, MAX_SHOWN)
}
