/**
 * Which of two versions of the same thing is newer.
 *
 * Rule: docs/behaviour/webhooks.md, "Stale deliveries".
 */
import { withoutTrailingZeros } from '../framework/digit-rules.ts'

export type Version = string | number

/**
 * Below 0: `a` is older. 0: equal. Above 0: newer.
 *
 * Numbers are compared as numbers and instants as instants, whatever their time zones; anything else by code unit, a number
 * beside a text as its text.
 */
export function compareVersions(a: Version, b: Version): number {
  if (typeof a === 'number' && typeof b === 'number') return Math.sign(a - b)
  const [left, right] = [String(a), String(b)]
  const [leftMs, rightMs] = [instantOf(left), instantOf(right)]
  if (leftMs !== null && rightMs !== null) return compared(leftMs, rightMs) || compared(finer(left), finer(right))
  return compared(left, right)
}

/** A date and a time of day with its zone (RFC 3339, section 5.6): without a zone it would be no instant. */
const INSTANT = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.(?<fraction>\d+))?)?(?:[Zz]|[+-]\d{2}:?\d{2})$/

/** In milliseconds; null for what is no instant, such as a 32nd of May. */
function instantOf(text: string): number | null {
  if (!INSTANT.test(text)) return null
  const ms = Date.parse(text.toUpperCase().replace(' ', 'T'))
  return Number.isNaN(ms) ? null : ms
}

/** What a JS date drops of an instant's fraction: its digits beyond the third, as many zeros at their end as there may be. */
function finer(text: string): string {
  return withoutTrailingZeros(INSTANT.exec(text)?.groups?.fraction?.slice(3) ?? '')
}

function compared<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0
}
