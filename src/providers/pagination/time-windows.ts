/** A list that is asked for by windows of time, without pages. */
import { InvalidArgumentException, PaginationFailed } from '../../framework/errors.ts'
import type { Paging } from './next-page.ts'

/** From `from` on and before `to`, whole seconds. */
export interface TimeWindow {
  readonly from: Date
  readonly to: Date
}

/** Seconds since 1970: where the next window begins, how long it is, and where the last one ends. */
type Span = { readonly from: number; readonly seconds: number; readonly until: number }

/**
 * By windows of time: the API gives the rows of a window, `limit` at most, and no next page. `first` is the whole of it.
 *
 * A window with `limit` rows or more may have lost some: it is asked for again in halves, down to one second. A window that
 * is not half full is followed by one of twice its length.
 *
 * @param limit the most rows that an answer has
 *
 * @example
 * paginate(session, { first: { from, to }, page: (window) => api.calls(window), next: byTimeWindows({ limit: 500 }), ... })
 */
export function byTimeWindows({ limit }: { readonly limit: number }): Paging<TimeWindow, unknown, unknown> {
  return {
    from({ from, to }) {
      const begin: Span = spanOf(from, to)
      return {
        begin,
        // An API that includes both ends gives the rows of a shared end twice. An API that ignores the window ends at `window_full`.
        mayRepeat: true,
        position(place) {
          const { from: at, seconds } = place as Span
          return { from: new Date(at * 1_000), to: new Date((at + seconds) * 1_000) }
        },
        instead(items, place) {
          const { from: at, seconds, until } = place as Span
          if (items.length < limit) return null
          if (seconds > 1) return { from: at, seconds: Math.floor(seconds / 2), until }
          throw new PaginationFailed(
            'window_full',
            `the second ${new Date(at * 1_000).toISOString()} has ${items.length} rows, and an answer has ${limit} at most: some may be missing`,
          )
        },
        after({ items }, place) {
          const { from: at, seconds, until } = place as Span
          const next = at + seconds
          if (next >= until) return null
          const length = items.length * 2 > limit ? seconds : seconds * 2
          return { from: next, seconds: Math.min(length, until - next), until }
        },
      }
    },
  }
}

/** @throws InvalidArgumentException */
function spanOf(first: Date, last: Date): Span {
  const from = Math.floor(first.getTime() / 1_000)
  const until = Math.ceil(last.getTime() / 1_000)
  if (until > from) return { from, seconds: until - from, until }
  throw new InvalidArgumentException('first', 'a window { from, to } is allowed whose end is after its beginning')
}
