/** Checks of arguments before anything is sent or stored. Rule: docs/behaviour/github.md, "Bad input". */
import { InvalidArgumentException } from '../../provider.ts'

/** ISO 8601 with a zone: without a zone the moment would depend on the machine. */
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/

/** @throws InvalidArgumentException */
export function checkNumber(number: number): void {
  if (Number.isSafeInteger(number) && number >= 1) return
  throw new InvalidArgumentException('number', `a whole number of at least 1 is allowed; given was ${shown(number)}`)
}

/** @throws InvalidArgumentException for a blank text, and for any other type */
export function checkText(argument: string, text: string): void {
  if (typeof text === 'string' && text.trim() !== '') return
  throw new InvalidArgumentException(argument, `a text that is not blank is allowed; given was ${shown(text)}`)
}

/** docs/behaviour/requests.md, "Idempotency keys" */
const MAX_KEY_LENGTH = 191

/** As `request()` would, which is asked only once the token of an App is there. @throws InvalidArgumentException */
export function checkKey(key: string | null): void {
  if (key === null) return
  const length = typeof key === 'string' ? [...key].length : 0
  const given = length === 0 ? shown(key) : `one of ${length}`
  // Postgres text holds neither U+0000 nor half a surrogate pair.
  const isStorable = length > 0 && !key.includes('\u0000') && !/\p{Cs}/u.test(key)
  if (isStorable && key.trim() !== '' && length <= MAX_KEY_LENGTH) return
  throw new InvalidArgumentException(
    'idempotencyKey',
    `a text of at most ${MAX_KEY_LENGTH} characters that is not blank is allowed; given was ${given}`,
  )
}

/** Allows an empty text. @throws InvalidArgumentException for any other type */
export function checkBody(body: string): void {
  if (typeof body === 'string') return
  throw new InvalidArgumentException('body', `a text is allowed, also an empty one; given was ${shown(body)}`)
}

/** @throws InvalidArgumentException */
export function checkTexts(argument: string, texts: readonly string[]): void {
  if (!Array.isArray(texts))
    throw new InvalidArgumentException(argument, `a list of texts is allowed; given was ${shown(texts)}`)
  for (const text of texts) checkText(argument, text)
}

/** @throws InvalidArgumentException */
export function checkOneOf(argument: string, allowed: readonly string[], value: string): void {
  if (allowed.includes(value)) return
  throw new InvalidArgumentException(argument, `one of ${allowed.join(', ')} is allowed; given was ${shown(value)}`)
}

/** In GitHub's format: UTC, cut to whole seconds, so never later than the given moment. @throws InvalidArgumentException */
export function instantText(argument: string, since: string | Date): string {
  const at = since instanceof Date ? since : instantIn(since)
  if (at === null || Number.isNaN(at.getTime()))
    throw new InvalidArgumentException(
      argument,
      `a Date or an ISO 8601 time with a zone is allowed, such as 2026-01-31T12:00:00Z; given was ${shown(since)}`,
    )
  return at.toISOString().replace(/\.\d{3}Z$/, 'Z')
}

/** Null: not an instant. */
export function instantIn(text: unknown): Date | null {
  if (typeof text !== 'string' || !INSTANT.test(text) || Number.isNaN(Date.parse(text)) || !isDay(text)) return null
  return new Date(text)
}

/** `Date.parse()` takes the 30th of February for the 2nd of March. */
function isDay(instant: string): boolean {
  const day = instant.slice(0, 10)
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day)
}

function shown(value: unknown): string {
  return value instanceof Date ? 'an invalid Date' : (JSON.stringify(value) ?? String(value))
}
