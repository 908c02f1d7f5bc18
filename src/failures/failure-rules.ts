/** Which failures are the same. Rule: docs/behaviour/failures.md, "Groups". */
import { createHash } from 'node:crypto'

export const FAILURE_KINDS = ['item', 'webhook', 'request'] as const
export type FailureKind = (typeof FAILURE_KINDS)[number]

/** Characters of an error that are looked at. What differs after them is the answer's, not the fault's. */
export const MAX_LOOKED_AT = 300

/** Words with digits that say what failed. */
const NAMES = /^(?:sha(?:1|256|384|512)|md5|oauth[12]|utf8|ipv[46]|http[123]|base(?:32|64)|ed25519|x509|s3|v\d{1,2})$/i

/** What varies from one failure to the next, and what stands for it; applied in this order to a short text. */
const VARIES: readonly (readonly [RegExp, string | ((found: string) => string)])[] = [
  [/\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"'`<>)\]}]+/gi, '<url>'],
  [/\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi, '<uuid>'],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?Z|[+-]\d\d:?\d\d)?)?(?!\w)/g, '<time>'],
  // From the beginning of a word: from each of its characters it takes as long as all others together.
  [/(?<![^\s"'`<>@(),:;])[^\s"'`<>@(),:;]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,5}/gi, '<email>'],
  [/"(?:[^"\\]|\\.)*"/g, '<text>'],
  [/`[^`]*`/g, '<text>'],
  // Not the apostrophe of a word, as in "can't".
  [/(?<![\p{L}\p{N}])'(?:[^'\\]|\\.)*'(?![\p{L}\p{N}])/gu, '<text>'],
  [/“[^”]*”|‘[^’]*’|«[^»]*»/g, '<text>'],
  // Left open by the cut.
  [/"[^"]*$/, '<text>'],
  [/\b(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?\b/g, '<address>'],
  // A word of letters and digits: `cus_9s6XKzkNRiz8i3`, `order-17`, `30ms`.
  [
    /(?<![\p{L}\p{N}_])(?=[\p{L}_-]*\p{N})(?=[\p{N}_-]*\p{L})[\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)*/gu,
    (word) => (NAMES.test(word) ? word : '<id>'),
  ],
  [/(?<![\p{L}\p{N}_])[+-]?\p{N}+(?:[.,]\p{N}+)*(?![\p{L}\p{N}_])/gu, '<n>'],
  // A list is as long as its data.
  [/(<(url|uuid|time|email|text|address|id|n)>)(?: ?, ?<\2>)+(?!:)/g, '$1, …'],
]

/** Stands for what stays meanwhile: no stored text has this character. */
const HELD = '\u0000'

/** What says what failed, and stays: a status, and a name of the database's own in Postgres' messages. */
const STAYS =
  /\b(?:http|https|status|status code|statuscode|code|answered|answered with)[ :=/]{1,3}[1-5]\d\d\b(?![.,]\d)|\b(?:constraint|relation|column|table|index|schema) "[a-z_][a-z0-9_$]{0,62}"/gi

/**
 * An error without what varies: `HttpError: HTTP 404: no order <n>`.
 *
 * @param error null: none was kept
 */
export function normalisedError(error: string | null): string {
  const text = (error ?? '').slice(0, MAX_LOOKED_AT).replaceAll(HELD, ' ').replaceAll(/\s+/g, ' ').trim()
  if (text === '') return '<no error>'
  return aroundWhatStays(text, (rest) =>
    VARIES.reduce((left, [pattern, stand]) => left.replace(pattern, stand as string), rest),
  )
}

/** Texts that are normalised at a time, some milliseconds: nothing else of the process runs meanwhile. */
export const AT_A_TIME = 250
/** Of each kind, the newest. */
export const MAX_SCANNED = 4_000

function aroundWhatStays(text: string, change: (rest: string) => string): string {
  const staying = text.match(STAYS) ?? []
  const parts = change(text.replace(STAYS, HELD)).split(HELD)
  // One within a quotation or a URL went with it.
  if (parts.length !== staying.length + 1) return change(text)
  return parts.map((part, at) => `${part}${staying[at] ?? ''}`).join('')
}

/**
 * Stable: the same for the same kind, class and normalised error, on every deployment. Twelve hex digits.
 *
 * @param failureClass of a request; null: items and webhooks have none
 */
export function groupId(kind: FailureKind, normalised: string, failureClass: string | null = null): string {
  const of = failureClass === null ? kind : `${kind} ${failureClass}`
  return createHash('sha256').update(`${of}\n${normalised}`).digest('hex').slice(0, 12)
}

export function isGroupId(text: unknown): text is string {
  return typeof text === 'string' && /^[0-9a-f]{12}$/.test(text)
}

/** Of the ids of an act on many: more would be no page's address. */
export const MAX_SPANS = 400

/** Items that have failed and wait for their next try. */
export interface WaitingItems {
  /** Of those that were looked at. */
  readonly count: number
  /** What most of them failed with the last time, with what varies replaced; null: none waits. */
  readonly error: string | null
  /** There are more than are looked at: the count is a lower bound. */
  readonly truncated: boolean
}

/** In a sentence. */
export function waitingWords({ count, error, truncated }: WaitingItems): string {
  const which = count === 1 ? 'item has failed and waits for its' : 'items have failed and wait for their'
  return `${truncated ? 'At least ' : ''}${count} ${which} next try, most often after: ${error}.`
}
