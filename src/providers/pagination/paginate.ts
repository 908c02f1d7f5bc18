/**
 * A sync listing without loops of its own: asks for the pages of a list, hands their items in, and sets a bookmark behind each page.
 *
 * Rule: docs/behaviour/sync-listing.md, "Lists of pages".
 */
import type { z } from 'zod'
import { InvalidArgumentException } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import type { Call, ExternalId, Integration, RequestOptions } from '../integration.ts'
import type { SyncItemEvent, SyncItemEventClass } from '../provider-events.ts'
import type { SyncSession } from '../sync-session.ts'
import type { PagedList } from './each-page.ts'
import { Walk } from './each-page.ts'

/** A list whose items a sync hands in. */
export interface PagedListing<Position, Page, Item> extends PagedList<Position, Page, Item> {
  /** What the host hears of an item; null leaves it out. */
  readonly event: (item: Item) => SyncItemEvent<unknown> | null
  /** The cursor that the item stands for: its update time, mostly. Null: none. */
  readonly checkpoint: (item: Item) => Json
  /** By it a row that is listed twice is one item. */
  readonly externalId: (item: Item) => ExternalId
  /** Tells several lists of one `sync()` apart, and a bookmark of another list from this one's. Default: the empty text. */
  readonly name?: string
}

/** Bookmarks are the session's, one at a time: this one has the lists of the session by name, `true` where one is complete. */
interface Lists {
  readonly standings: Record<string, Json>
  readonly begun: Set<string>
}

const LISTS = new WeakMap<SyncSession, Lists>()

/**
 * Hands in all items of a list. A try that was cut off goes on at its bookmark.
 *
 * @throws PaginationFailed for a list that repeats, loops, has no end, or can't be listed without losing rows
 *
 * @example
 * await paginate(session, {
 *   first: null,
 *   page: (cursor) => api.contacts({ since, cursor }),
 *   next: nextByCursor('next_cursor'),
 *   items: ({ contacts }) => contacts,
 *   event: (contact) => new ContactSynced(session.integration, contact),
 *   checkpoint: ({ updated_at }) => updated_at,
 *   externalId: ({ id }) => id,
 * })
 */
export async function paginate<Position, Page, Item>(
  session: SyncSession,
  { event, checkpoint, externalId, name = '', ...list }: PagedListing<Position, Page, Item>,
): Promise<void> {
  const { standings, begun } = listsOf(session)
  if (begun.has(name))
    throw new InvalidArgumentException(
      'name',
      `each list of a session needs a name of its own; ${JSON.stringify(name)} is taken`,
    )
  begun.add(name)
  if (standings[name] === true) return

  // Made once, since what an author's functions warn of would be said twice.
  const entries = new Map<Item, { made: SyncItemEvent<unknown> | null; checkpoint: Json; externalId: ExternalId }>()
  const entryOf = (item: Item) => {
    const known = entries.get(item)
    if (known !== undefined) return known
    const made = event(item)
    const entry = { made, checkpoint: made === null ? null : checkpoint(item), externalId: externalId(item) }
    entries.set(item, entry)
    return entry
  }
  const isKnown = (item: Item): boolean => {
    const entry = entryOf(item)
    return entry.made !== null && session.has(entry.made.constructor as SyncItemEventClass, entry.externalId)
  }
  const keyOf = (item: Item): string => JSON.stringify([entryOf(item).externalId, entryOf(item).checkpoint])
  const warn = (message: string): void => session.warn({ list: name }, message)
  const walk = new Walk(list, { signal: session.signal, keyOf, isKnown, warn }, standings[name])
  for (let read = await walk.read(); read !== null; read = await walk.read()) {
    const { count } = session
    for (const item of read.items) {
      const entry = entryOf(item)
      // A further walk is for what the walks before it have not found: the rest would be logged as listed twice.
      if (entry.made !== null && !(read.isRewalk && isKnown(item)))
        await session.dispatch(entry.made, entry.checkpoint, entry.externalId)
    }
    entries.clear()
    walk.advance(session.count - count)
    const { standing } = walk
    standings[name] = standing ?? true
    // The last page needs none: either the listing is complete now, or the next list sets one.
    if (standing !== null) await session.bookmark({ lists: { ...standings } })
  }
}

function listsOf(session: SyncSession): Lists {
  const known = LISTS.get(session)
  if (known !== undefined) return known
  const kept = session.resumeFrom() as { readonly lists?: Record<string, Json> } | null
  const lists = { standings: { ...kept?.lists }, begun: new Set<string>() }
  LISTS.set(session, lists)
  return lists
}

/**
 * `integration.requestAs()` by GET, with the answer's header `Link`, for `nextByLink()`.
 *
 * @example
 * page: (url) => requestWithLink(integration, Issues, 'v1/issues', ({ fetch }) => fetch(url, { headers }))
 */
export async function requestWithLink<S extends z.ZodType>(
  integration: Integration,
  schema: S,
  endpoint: string,
  call: Call<Response>,
  options?: RequestOptions,
): Promise<{ readonly data: z.output<S>; readonly link: string | null }> {
  let link: string | null = null
  const noting: Call<Response> = async (context) => {
    const response = await call(context)
    link = response.headers.get('link')
    return response
  }
  const data = await integration.requestAs(schema, endpoint, 'GET', noting, options)
  return { data, link }
}
