/** How a list goes on, by the kind of its API. What each kind promises: docs/behaviour/sync-listing.md, "Lists of pages". */
import { InvalidArgumentException, PaginationFailed } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import { linkTo } from './link-header.ts'

/** A place in a list, as a bookmark keeps it. */
export type Place = { readonly [key: string]: Json }

/** How a list goes on: what `nextByCursor()` and its like give. */
export interface Paging<Position, Page, Item> {
  readonly from: (first: Position) => PagingSteps<Position, Page, Item>
}

/** A page that was read and taken. */
export interface SeenPage<Page, Item> {
  readonly page: Page
  readonly items: readonly Item[]
  /** A digest of each item and its version. */
  readonly keys: readonly string[]
  /** Items of it that were not known before. */
  readonly news: number
  warn(message: string): void
}

export interface PagingSteps<Position, Page, Item> {
  readonly begin: Place
  /** What `page()` is asked with. */
  readonly position: (place: Place) => Position
  /** The place behind the page; null: the list has ended. @throws PaginationFailed */
  readonly after: (seen: SeenPage<Page, Item>, place: Place) => Place | null
  /** What to ask for in place of a page that has not all of its rows; null: take it. @throws PaginationFailed */
  readonly instead?: (items: readonly Item[], place: Place) => Place | null
  /** Whether a page begins with rows of the one before. */
  readonly overlaps?: boolean
  /** Whether a page may rightly have the rows of the one before, and no others. It is asked for once more, and then taken. */
  readonly mayRepeat?: boolean
  readonly isRewalk?: (place: Place) => boolean
}

/** An object that may have a value of that type at a path such as `meta.next`. */
export type At<Path extends string, Value> = [Path] extends [never]
  ? unknown
  : Path extends `${infer Head}.${infer Rest}`
    ? { readonly [Key in Head]?: At<Rest, Value> | null | undefined }
    : { readonly [Key in Path]?: Value | null | undefined }

export function valueAt(value: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((within, key) => (within as Record<string, unknown> | null | undefined)?.[key], value)
}

export function unreadable(path: string, allowed: string, given: unknown): PaginationFailed {
  return new PaginationFailed('unreadable', `${path} must be ${allowed}; it is ${JSON.stringify(given) ?? 'missing'}`)
}

const TEXT_OR_NUMBER = 'a text, or a number that JavaScript holds exactly (up to 2^53)'

/** `JSON.parse()` rounds a whole number beyond 2^53, such as a snowflake id: it names another place of the list. */
function isExact(value: unknown): value is number {
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))
}

/**
 * By a token in the page, at a path such as `next_cursor` or `meta.next`. None, null or an empty text: the list has ended.
 *
 * @example
 * paginate(session, { first: null, page: (cursor) => api.contacts({ cursor }), next: nextByCursor('next_cursor'), ... })
 */
export function nextByCursor<const Path extends string>(
  path: Path,
): Paging<string | null, At<Path, string | number>, unknown> {
  return {
    from: (first) => ({
      begin: { cursor: first },
      position: ({ cursor }) => cursor as string | null,
      after({ page }) {
        const cursor = valueAt(page, path) ?? ''
        if (typeof cursor !== 'string' && !isExact(cursor)) throw unreadable(path, TEXT_OR_NUMBER, cursor)
        return cursor === '' ? null : { cursor: String(cursor) }
      },
    }),
  }
}

/**
 * By the header `Link` with `rel="next"` (RFC 8288), which the page has as `link`: see `requestWithLink()`. A link to another origin
 * is refused: it would be sent the credentials.
 *
 * @example
 * paginate(session, { first: `${API}/issues?per_page=100`, page: (url) => api.issues(url), next: nextByLink(), ... })
 */
export function nextByLink(): Paging<string, { readonly link: string | null }, unknown> {
  return {
    from(first) {
      const { origin } = new URL(first)
      return {
        // Without the origin: a bookmark never leads to another host than the first page.
        begin: { path: pathOf(new URL(first)) },
        position: ({ path }) => `${origin}${path as string}`,
        after({ page: { link } }, { path }) {
          const target = link === null ? null : linkTo('next', link)
          if (target === null) return null
          const base = `${origin}${path as string}`
          const url = URL.canParse(target, base) ? new URL(target, base) : null
          if (url === null || url.origin !== origin || url.username !== '' || url.password !== '')
            throw new PaginationFailed(
              'other_origin',
              `the link to the next page must lead to ${origin}; it leads to ${url?.origin ?? 'no URL'}`,
            )
          return { path: pathOf(url) }
        },
      }
    },
  }
}

function pathOf({ pathname, search }: URL): string {
  return pathname + search
}

/**
 * Until a walk brings nothing new; a list that never comes to rest is left with a warning. More walks cost more requests; each
 * finds what the shifts of the walk before it hid.
 */
const MAX_WALKS = 5

/**
 * By page number. The list ends with an empty page, or as one of the options says.
 *
 * A row that goes shifts the rows behind it, and one may be on no page. So the list is walked again until a walk brings nothing
 * new. `walks: 1` saves that where rows only ever move to the front (newest update first, nothing deleted).
 *
 * @param more path of a boolean: whether there are more pages
 * @param pages path of the number of pages
 * @param size rows of a full page, where only the last page has fewer
 * @param walks how often the list is walked at most; default 5
 *
 * @example
 * paginate(session, { first: 1, page: (page) => api.deals({ page }), next: nextByPage({ pages: 'total_pages' }), ... })
 */
export function nextByPage<const More extends string = never, const Pages extends string = never>({
  more,
  pages,
  size,
  walks = MAX_WALKS,
}: {
  readonly more?: More
  readonly pages?: Pages
  readonly size?: number
  readonly walks?: number
} = {}): Paging<number, At<More, boolean> & At<Pages, number>, unknown> {
  const isLast = (page: unknown, rows: number, asked: number): boolean => {
    if (more !== undefined) {
      const isMore = valueAt(page, more)
      if (typeof isMore !== 'boolean') throw unreadable(more, 'true or false', isMore)
      return !isMore
    }
    if (pages !== undefined) {
      const count = valueAt(page, pages)
      if (typeof count !== 'number' || !Number.isFinite(count)) throw unreadable(pages, 'a number', count)
      return asked >= count
    }
    return rows < (size ?? 1)
  }
  return {
    from: (first) => ({
      begin: { page: first, walk: 1, news: 0 },
      position: ({ page }) => page as number,
      isRewalk: ({ walk }) => (walk as number) > 1,
      after({ page, items, news, warn }, place) {
        const { page: number, walk, news: before } = place as { page: number; walk: number; news: number }
        const asked = number - first + 1
        const found = before + news
        if (!isLast(page, items.length, asked)) return { page: number + 1, walk, news: found }
        if (asked === 1 || found === 0) return null
        if (walk < walks) return { page: first, walk: walk + 1, news: 0 }
        if (walks > 1) warn(`the list changed in each of ${walks} walks: a row may be missing until the next run`)
        return null
      },
    }),
  }
}

type OffsetPlace = {
  readonly offset: number
  /** The last rows of the page before. */
  readonly ends: readonly string[]
  /** Rows of the fullest page so far. */
  readonly most: number
  /** How often the list went back: no two places are equal, which would be a loop. */
  readonly turns: number
  /** Full pages in a row that end as the page before. */
  readonly stuck: number
}
const MAX_STUCK = 2

/** Re-read of each page, to see whether rows have shifted. More than one, since some may have been deleted or changed meanwhile. */
const OVERLAP_ROWS = 5

/**
 * By the number of rows to leave out. Each page is asked for a few rows early: if it does not have a row of the page before,
 * unchanged, rows have shifted, and the list goes back until it does.
 *
 * @param overlap rows that are read twice; default 5, at most half a page
 *
 * @example
 * paginate(session, { first: 0, page: (offset) => api.deals({ offset, limit: 100 }), next: nextByOffset(), ... })
 */
export function nextByOffset({
  overlap = OVERLAP_ROWS,
}: {
  readonly overlap?: number
} = {}): Paging<number, unknown, unknown> {
  if (!Number.isInteger(overlap) || overlap < 1)
    throw new InvalidArgumentException('overlap', `a whole number of 1 or more is allowed; given was ${overlap}`)
  return {
    from: (first) => ({
      begin: { offset: first, ends: [], most: 0, turns: 0, stuck: 0 },
      position: ({ offset }) => offset as number,
      overlaps: true,
      after({ keys }, place) {
        const { offset, ends, most, turns, stuck } = place as OffsetPlace
        const seam = keys.findLastIndex((key) => ends.includes(key))
        if (offset > first && ends.length > 0 && seam < 0)
          return { ...place, offset: Math.max(first, offset - Math.max(1, most - ends.length)), turns: turns + 1 }
        if (keys.length === 0) return null
        const endsAsBefore = ends.length > 0 && seam === keys.length - 1
        if (endsAsBefore && keys.length < most) return null
        // Rows that were added in front can fill a whole page with known ones; hardly page after page.
        if (endsAsBefore && stuck === MAX_STUCK)
          throw new PaginationFailed(
            'repeated',
            `the page at offset ${offset} ends as the pages before it; does the API take the offset as it is given?`,
          )
        const last = Math.min(overlap, Math.floor(keys.length / 2))
        return {
          offset: offset + keys.length - last,
          ends: last === 0 ? [] : keys.slice(-last),
          most: Math.max(most, keys.length),
          turns,
          stuck: endsAsBefore ? stuck + 1 : 0,
        }
      },
    }),
  }
}

/**
 * By the key of the last row, such as its id: the API gives the rows behind it. The list ends with an empty page.
 *
 * With `limit`, the most rows that a page holds, the API gives the rows **from** the key on, in its order. Only so a key that
 * several rows share, such as a time, loses none of them; what is given twice is taken once. Rows that do not ascend are refused
 * where the keys are numbers, whole numbers as texts, or ISO 8601 times with a zone.
 *
 * @param key path of the key in a row
 *
 * @example
 * paginate(session, { first: null, page: (after) => api.deals({ after }), next: byKeyset('id'), ... })
 */
export function byKeyset<const Path extends string>(
  key: Path,
  { limit }: { readonly limit?: number } = {},
): Paging<string | number | null, unknown, At<Path, string | number>> {
  const keyOf = (item: unknown): string | number => {
    const found = valueAt(item, key)
    if ((typeof found === 'string' && found !== '') || isExact(found)) return found
    throw unreadable(key, TEXT_OR_NUMBER, found)
  }
  return {
    from: (first) => ({
      begin: { after: null },
      position: ({ after }) => (after as string | number | null) ?? first,
      overlaps: limit !== undefined,
      after({ items, keys }, { after }) {
        const rows = items.map(keyOf)
        const last = rows.at(-1)
        if (last === undefined) return null
        if (limit === undefined) {
          if (new Set(rows).size < new Set(keys).size)
            throw tied(key, 'Ask for the rows from it on, and give the limit of a page')
          return { after: last }
        }
        const ordered = after === null ? rows : [after as string | number, ...rows]
        if (ordered.some((each, at) => at > 0 && isBefore(each, ordered[at - 1] as string | number)))
          throw new PaginationFailed('unsorted', `the rows from ${JSON.stringify(after)} on must ascend by ${key}`)
        if (last !== after) return { after: last }
        if (rows.length >= limit) throw tied(key, `${limit} rows or more have ${JSON.stringify(last)}, a whole page`)
        return null
      },
    }),
  }
}

function tied(key: string, remedy: string): PaginationFailed {
  return new PaginationFailed(
    'tied',
    `several rows have the same ${key}, and those on the next page would be lost. ${remedy}`,
  )
}

const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})$/
const WHOLE_NUMBER = /^\d+$/

/** The order of other texts is the API's own, such as without regard to case: of them this can't be told. */
function isBefore(a: string | number, b: string | number): boolean {
  if (typeof a === 'number' && typeof b === 'number') return a < b
  const [left, right] = [String(a), String(b)]
  if (WHOLE_NUMBER.test(left) && WHOLE_NUMBER.test(right)) return BigInt(left) < BigInt(right)
  return INSTANT.test(left) && INSTANT.test(right) && Date.parse(left) < Date.parse(right)
}
