/**
 * Walks the pages of a list: asks for one after the other, and notices a list that repeats, loops or has no end.
 *
 * It keeps the keys of one page and a few numbers, however long the list is. Rule: docs/behaviour/sync-listing.md, "Lists of pages".
 */
import { createHash } from 'node:crypto'
import { PaginationFailed } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { canonicalJson } from '../../framework/json.ts'
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

/** A walk between two pages, as JSON: the place, the pages so far, and what finds a loop. */
type Standing = readonly [place: Place, pages: number, mark: string, stride: number, since: number]

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
  #place: Place | null
  #pages: number
  /** Brent's algorithm: the digest of one earlier place, replaced after 1, 2, 4, 8, … steps. A loop of any length comes back to it. */
  #mark: string
  #stride: number
  #since: number
  #before: ReadonlySet<string> = new Set()
  /** What to ask for in place of the page that was read. */
  #instead: Place | null = null
  #read: { readonly page: Page; readonly items: readonly Item[]; readonly keys: readonly string[] } | null = null

  /** @param from the standing of an earlier try; null: the list begins */
  constructor(list: PagedList<Position, Page, Item>, taking: Taking<Item>, from: Json = null) {
    this.#list = list
    this.#taking = taking
    this.#steps = typeof list.next === 'function' ? byFunction(list.first, list.next) : list.next.from(list.first)
    const standing = from as Standing | null
    const place = standing?.[0] ?? this.#steps.begin
    this.#place = place
    ;[, this.#pages, this.#mark, this.#stride, this.#since] = standing ?? [place, 0, digest(place), 1, 0]
  }

  /** Null: the list has ended. */
  get standing(): Json {
    return this.#place === null ? null : [this.#place, this.#pages, this.#mark, this.#stride, this.#since]
  }

  /** The next page; null: the list has ended. @throws PaginationFailed */
  async read(): Promise<ReadPage<Page, Item> | null> {
    const place = this.#place
    if (place === null) return null
    const position = this.#steps.position(place)
    let { page, items, keys } = await this.#ask(position)
    const isRewalk = this.#steps.isRewalk?.(place) ?? false
    if (!isRewalk && !this.#steps.overlaps && (this.#isPageBefore(keys) || this.#isKnown(items))) {
      // A server that gave a wrong page once mostly gives the right one when it is asked again.
      ;({ page, items, keys } = await this.#ask(position))
      if (this.#isPageBefore(keys))
        throw new PaginationFailed(
          'repeated',
          `the page at ${shown(position)} has the rows of the page before it, also when asked again; does the API take the position as it is given?`,
        )
    }
    this.#instead = this.#steps.instead?.(items, place) ?? null
    if (this.#instead !== null) return { page, items: [], isRewalk }
    this.#read = { page, items, keys }
    const seen = new Set(this.#before)
    const isNew = (key: string): boolean => !seen.has(key) && seen.add(key).has(key)
    const news = items.filter((_, at) => isNew(keys[at] as string))
    return { page, items: news, isRewalk }
  }

  /** Goes on behind the page that was read. @param news rows of it that were not known before */
  advance(news: number): void {
    const next = this.#instead ?? this.#behind(news)
    this.#instead = null
    this.#read = null
    if (next === null) this.#place = null
    else this.#goTo(next)
  }

  #behind(news: number): Place | null {
    if (this.#place === null || this.#read === null) return this.#place
    const { page, items, keys } = this.#read
    const { warn } = this.#taking
    if (keys.length > 0) this.#before = new Set(keys)
    return this.#steps.after({ page, items, keys: keys.map(digest), news, warn }, this.#place)
  }

  async #ask(position: Position) {
    const { maxPages = MAX_PAGES } = this.#list
    this.#taking.signal?.throwIfAborted()
    if (this.#pages >= maxPages)
      throw new PaginationFailed(
        'too_many_pages',
        `the list has not ended after ${maxPages} pages, at ${shown(position)}; allow more by maxPages if it is that long`,
      )
    this.#pages += 1
    const page = await this.#list.page(position)
    const items = this.#list.items(page)
    return { page, items, keys: items.map((item) => this.#taking.keyOf(item)) }
  }

  #goTo(next: Place): void {
    const at = digest(next)
    if (at === this.#mark || at === digest(this.#place))
      throw new PaginationFailed('loop', `the list leads back to ${shown(next)}, where it has been before`)
    this.#place = next
    this.#since += 1
    if (this.#since < this.#stride) return
    this.#mark = at
    this.#stride *= 2
    this.#since = 0
  }

  #isPageBefore(keys: readonly string[]): boolean {
    return keys.length > 0 && keys.length === this.#before.size && keys.every((key) => this.#before.has(key))
  }

  #isKnown(items: readonly Item[]): boolean {
    return items.length > 0 && items.every((item) => this.#taking.isKnown(item))
  }
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
      return to === null ? null : { at: to as Json }
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
