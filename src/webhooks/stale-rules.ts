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
  const [leftAt, rightAt] = [instantOf(left), instantOf(right)]
  if (leftAt === null || rightAt === null) return compared(left, right)
  return compared(leftAt.secondMs, rightAt.secondMs) || compared(leftAt.fraction, rightAt.fraction)
}

/** A date and a time of day with its zone (RFC 3339, section 5.6): without a zone it would be no instant. */
const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(?::(\d{2})(?:\.(\d+))?)?(?:[Zz]|([+-]\d{2}):?(\d{2}))$/

interface Instant {
  readonly secondMs: number
  /** Any number of digits; a JavaScript date keeps three. Without zeros at their end they order as texts. */
  readonly fraction: string
}

/** Null for what is no instant, such as a 32nd of May. */
function instantOf(text: string): Instant | null {
  const match = INSTANT.exec(text)
  if (match === null) return null
  const [, date, minute, second = '00', fraction = '', offsetHours = '+00', offsetMinutes = '00'] = match
  const secondMs = Date.parse(`${date}T${minute}:${second}${offsetHours}:${offsetMinutes}`)
  return Number.isNaN(secondMs) ? null : { secondMs, fraction: withoutTrailingZeros(fraction) }
}

function compared<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0
}
