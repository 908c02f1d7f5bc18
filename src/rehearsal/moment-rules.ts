/** Moments that a rehearsal itself has made. Rule: docs/behaviour/rehearsal.md, "Rows". */
import type { Json } from '../framework/json.ts'

export const NOW = '(now)'
/** Clocks of two machines may differ, and a moment may be cut to seconds. */
const MARGIN_MS = 2_000
/** 2001: smaller numbers are counts. */
const EARLIEST_SECONDS = 1_000_000_000
const ISO = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?$/

export interface Span {
  readonly beganAt: Date
  readonly endedAt: Date
}

/** The value with each moment of this span, as text in ISO 8601 or in milliseconds or seconds since the epoch, as `(now)`. */
export function withoutMoments(value: Json, span: Span): Json {
  if (typeof value === 'string') return ISO.test(value) && isWithin(momentsOf(value), span) ? NOW : value
  if (typeof value === 'number') return isWithin([value, value * 1_000], span) ? NOW : value
  if (Array.isArray(value)) return value.map((inner: Json) => withoutMoments(inner, span))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutMoments(inner, span)]))
}

/** Whether the value may stand for a moment. */
export const isMoment = (value: Json): boolean =>
  (typeof value === 'string' && ISO.test(value)) || (typeof value === 'number' && value > EARLIEST_SECONDS)

/** Without an offset it may be of this machine's time zone, or of UTC. With one, the second is no time. */
function momentsOf(text: string): number[] {
  const iso = text.replace(' ', 'T').replace(/([+-]\d{2})$/, '$1:00')
  return [Date.parse(iso), Date.parse(`${iso}Z`)]
}

function isWithin(moments: readonly number[], { beganAt, endedAt }: Span): boolean {
  return moments.some((at) => at >= beganAt.getTime() - MARGIN_MS && at <= endedAt.getTime() + MARGIN_MS)
}
