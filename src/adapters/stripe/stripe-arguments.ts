/** Checks of arguments before anything is sent. Rule: docs/behaviour/stripe.md, "Arguments". */
import { InvalidArgumentException } from '../../provider.ts'

/** Null counts as left out. */
export type Maybe<T> = T | null | undefined

/** Length: https://docs.stripe.com/upgrades#what-changes-does-stripe-consider-to-be-backwards-compatible */
const OBJECT_ID = /^[\x21-\x7e]{1,255}$/

/**
 * The parameters without null, undefined and objects without keys, which a form cannot hold. Stripe merges metadata, so `{}`
 * changes nothing there; an empty text clears it (https://docs.stripe.com/api/metadata).
 */
export function given<T extends object>(params: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const entries = Object.entries(params).filter(([, value]) => isGiven(value) && !isKeyless(value))
  return Object.fromEntries(entries) as { [K in keyof T]?: NonNullable<T[K]> }
}

/** Path of one object, or of an action on it. @throws InvalidArgumentException for an invalid id */
export function pathOf(resource: string, id: string, action?: string): string {
  checkText('id', id)
  // "." and ".." are steps in a path (RFC 3986, section 5.2.4) and would lead to another resource.
  if (!OBJECT_ID.test(id) || id === '.' || id === '..')
    throw refused('id', 'an id of Stripe, up to 255 visible ASCII characters,', id)
  return [resource, encodeURIComponent(id), ...(action === undefined ? [] : [action])].join('/')
}

/** @throws InvalidArgumentException for a blank text, and for any other type */
export function checkText(argument: string, value: string): void {
  if (typeof value !== 'string' || value.trim() === '') throw refused(argument, 'a non-blank text', value)
}

/** Each text that is given. @throws InvalidArgumentException */
export function checkTexts(values: Readonly<Record<string, Maybe<string>>>): void {
  for (const [argument, value] of Object.entries(values)) if (isGiven(value)) checkText(argument, value)
}

/**
 * An idempotency key, before it is spent: `fetch` would refuse another text as a header, or trim it to another key.
 *
 * @throws InvalidArgumentException
 */
export function checkKey(key: Maybe<string>): void {
  if (!isGiven(key)) return
  checkText('idempotencyKey', key)
  if (!/^[!-~]([ -~]*[!-~])?$/.test(key))
    throw refused('idempotencyKey', 'printable ASCII without spaces at its ends, which a header can hold,', key)
}

/** Each number that is given, such as an amount in the smallest unit of its currency. @throws InvalidArgumentException */
export function checkPositive(values: Readonly<Record<string, Maybe<number>>>): void {
  for (const [argument, value] of Object.entries(values)) {
    if (!isGiven(value) || (Number.isSafeInteger(value) && value >= 1)) continue
    throw refused(argument, 'an integer of at least 1', value)
  }
}

/** For callers without types. @throws InvalidArgumentException */
export function required<T>(argument: string, value: T): NonNullable<T> {
  if (isGiven(value)) return value
  throw refused(argument, 'a value', value)
}

/** @throws InvalidArgumentException for an empty list, which Stripe would read as no list */
export function checkNames(argument: string, names: Maybe<readonly string[]>): void {
  if (!isGiven(names)) return
  if (!Array.isArray(names) || names.length === 0) throw refused(argument, 'a list of at least one name', names)
  for (const name of names) checkText(argument, name)
}

/** One page of a list: https://docs.stripe.com/api/pagination */
export interface PageParams {
  /** Entries at most; Stripe allows up to 100 and gives 10 by itself. */
  readonly limit?: Maybe<number>
  /** Id after which the page begins. */
  readonly startingAfter?: Maybe<string>
  /** Id before which the page ends. */
  readonly endingBefore?: Maybe<string>
}

/** @throws InvalidArgumentException */
export function pageParams({ limit, startingAfter, endingBefore }: PageParams): {
  limit: PageParams['limit']
  starting_after: PageParams['startingAfter']
  ending_before: PageParams['endingBefore']
} {
  checkPositive({ limit })
  checkTexts({ startingAfter, endingBefore })
  return { limit, starting_after: startingAfter, ending_before: endingBefore }
}

export function refused(argument: string, allowed: string, value: unknown): InvalidArgumentException {
  return new InvalidArgumentException(argument, `${allowed} is allowed, ${described(value)} was given`)
}

export function isGiven<T>(value: T): value is NonNullable<T> {
  return value !== null && value !== undefined
}

function isKeyless(value: unknown): boolean {
  return typeof value === 'object' && !Array.isArray(value) && Object.keys(Object(value)).length === 0
}

function described(value: unknown): string {
  if (typeof value === 'string') return value.trim() === '' ? 'a blank one' : JSON.stringify(value.slice(0, 100))
  if (Array.isArray(value)) return value.length === 0 ? 'an empty one' : 'another one'
  return typeof value === 'number' || value === null || value === undefined ? String(value) : `a ${typeof value}`
}
