/**
 * The rules of an inbound webhook that need neither a database nor a server.
 *
 * Rule: docs/behaviour/webhooks.md.
 */
import { createHash } from 'node:crypto'

/** What a webhook's row may say. */
export const WEBHOOK_STATUSES = ['pending', 'processing', 'processed', 'failed'] as const

/** Headers that authenticate the sender or its user; never stored. */
const SECRET_HEADERS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie'])
/** Columns `delivery_id` and `event_type` are varchar(255). */
const MAX_ID_LENGTH = 255
const NUL = '\u0000'
/** `ignoreBOM`: does not take it for a mark, so keeps it. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Pseudo-headers keep, beside the headers, what else a replay needs. A colon can't begin a real header name
 * (RFC 9110, section 5.1), so they never collide with one.
 */
export const PSEUDO_HEADER = { method: ':method', query: ':query', encoding: ':encoding', source: ':source' } as const

export interface StoredDelivery {
  readonly payload: string
  readonly headers: Record<string, string[]>
}

/**
 * How a delivery is kept so that a replay gets the very bytes back.
 *
 * The payload is text when the bytes are valid UTF-8 without U+0000 (which Postgres text can't hold), byte-order mark
 * kept; else base64, marked by the pseudo-header `:encoding`. A charset parameter never transcodes.
 */
export function storeDelivery(delivery: {
  method: string
  query: string
  /** Lower-case names and values in the order of arrival; a repeated header comes as often as it was sent. */
  headers: Iterable<readonly [string, string]>
  rawBody: Uint8Array
}): StoredDelivery {
  // A map first: a header may be called `__proto__`.
  const headers = new Map<string, string[]>()
  for (const [name, value] of delivery.headers) {
    const before = headers.get(name)
    if (SECRET_HEADERS.has(name)) headers.set(name, ['[REDACTED]'])
    else if (before === undefined) headers.set(name, [value])
    else before.push(value)
  }
  if (delivery.method !== 'POST') headers.set(PSEUDO_HEADER.method, [delivery.method])
  if (delivery.query !== '') headers.set(PSEUDO_HEADER.query, [delivery.query])
  const text = decodeUtf8(delivery.rawBody)
  if (text !== null && !text.includes(NUL)) return { payload: text, headers: Object.fromEntries(headers) }
  headers.set(PSEUDO_HEADER.encoding, ['base64'])
  return { payload: Buffer.from(delivery.rawBody).toString('base64'), headers: Object.fromEntries(headers) }
}

/**
 * The headers and the query without secrets: some providers send theirs along as it is. A signature is checked once, so processing and
 * replay need no secret.
 */
export function withoutSecrets(
  headers: Readonly<Record<string, readonly string[]>>,
  redact: (text: string) => string,
): StoredDelivery['headers'] {
  const ours: readonly string[] = [PSEUDO_HEADER.method, PSEUDO_HEADER.encoding, PSEUDO_HEADER.source]
  return Object.fromEntries(
    Object.entries(headers).map(([name, values]) => [name, ours.includes(name) ? [...values] : values.map(redact)]),
  )
}

/** The bytes that were delivered. */
export function storedBody({
  payload,
  headers,
}: {
  readonly payload: string
  readonly headers: Readonly<Record<string, readonly string[]>>
}): Uint8Array {
  return new Uint8Array(Buffer.from(payload, headers[PSEUDO_HEADER.encoding]?.[0] === 'base64' ? 'base64' : 'utf8'))
}

/** The text of the bytes, byte-order mark kept; null when they are no valid UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return UTF8.decode(bytes)
  } catch {
    return null
  }
}

/**
 * The de-duplication key of a delivery.
 *
 * The provider's id; without one the lower-case hex SHA-256 of the body, or of the query when the body is empty. An id
 * that the column can't hold is replaced by its SHA-256.
 */
export function deliveryId(fromProvider: string | null, delivery: { rawBody: Uint8Array; query: string }): string {
  if (fromProvider === null || fromProvider === '')
    return idDigest(delivery.rawBody.length > 0 ? delivery.rawBody : delivery.query)
  // As the column will hold it: half a surrogate pair is no UTF-8.
  const id = Buffer.from(fromProvider).toString()
  return [...id].length > MAX_ID_LENGTH || id.includes(NUL) ? idDigest(id) : id
}

function idDigest(data: Uint8Array | string): string {
  return createHash('sha256').update(data).digest('hex')
}

/** The event type as the column can hold it; null when the provider named none, or one too long to be a type. */
export function eventType(fromProvider: string | null): string | null {
  if (fromProvider === null || fromProvider === '') return null
  return [...fromProvider].length > MAX_ID_LENGTH || fromProvider.includes(NUL) ? null : fromProvider
}

/**
 * What handles a delivery. No type, or a provider without a handler map: the provider itself. A type that is an own key of the
 * map: that handler. Any other type is ignored: it counts as processed.
 *
 * @param handlers own keys only, so that a type `constructor` finds nothing
 */
export function routeOf<Handler>(
  type: string | null,
  handlers: Readonly<Record<string, Handler>> | null,
): Handler | 'provider' | 'ignored' {
  if (type === null || handlers === null) return 'provider'
  return Object.hasOwn(handlers, type) ? (handlers[type] ?? 'ignored') : 'ignored'
}

/** In the integration's metadata: the event types that are stored; no others are. */
export const WANTED_EVENTS = 'webhook_events'
/** In that list: every type, as GitHub and Stripe write it when a webhook is registered. */
const EVERY_TYPE = '*'
const MAX_TYPES = 200
const MAX_TYPE_LENGTH = 255

export const ALLOWED_WANTED_EVENTS = `a list of 1 to ${MAX_TYPES} different event types, each a text of 1 to ${MAX_TYPE_LENGTH} characters`

/** Whether metadata may have this as its `webhook_events`. */
export function isWantedEvents(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= MAX_TYPES &&
    new Set(value).size === value.length &&
    value.every((type) => typeof type === 'string' && type !== '' && [...type].length <= MAX_TYPE_LENGTH)
  )
}

/** Whether a `webhook_events` has the type. What is no list has every type. */
export function isListed(listed: unknown, type: string): boolean {
  return !isWantedEvents(listed) || listed.includes(type) || listed.includes(EVERY_TYPE)
}

/** What is shown of a former webhook secret. Rule: docs/behaviour/webhook-signatures.md, "Rotation". @param at null: no match is noted */
export function matchText(at: Date | null, isWatched: boolean): string {
  if (!isWatched) return 'whether it still matches is not known: its provider checks signatures itself'
  return at === null ? 'no delivery has matched it' : `last matched at ${at.toISOString()}`
}
