/** Values of a delivery, read strictly: what signs is there once, or it is not there. */
import type { Json } from '../../framework/json.ts'
import type { WebhookRequest } from '../webhook-request.ts'
import type { DeliveryPlace, DigestEncoding, RefusalReason, SignedTime } from './scheme-rules.ts'

export type Read = { readonly value: string } | { readonly fault: 'missing' | 'repeated' }

const MISSING: Read = { fault: 'missing' }
const REPEATED: Read = { fault: 'repeated' }
/** One spelling each: SDKs read `0123` and `123abc` as 123, and check a signature over that. */
export const UNIX_TIME = /^(0|[1-9]\d{0,14})$/
const FORM = /^application\/x-www-form-urlencoded\s*(;|$)/i

/**
 * The value of a header that was sent once; null when it is missing, empty or repeated.
 *
 * For headers that sign: none of them has a comma with a space after it of its own, which is what stands between repeats
 * (https://fetch.spec.whatwg.org/#concept-header-list-get).
 */
export function soleHeader(request: WebhookRequest, name: string): string | null {
  const read = readHeader(request, name)
  return 'value' in read ? read.value : null
}

/** @param fields of the signature's own header */
export function readPlace(request: WebhookRequest, place: DeliveryPlace, fields: readonly Field[] = []): Read {
  if ('header' in place) return readHeader(request, place.header)
  if ('query' in place) return sole(request.query.getAll(place.query))
  if ('form' in place) return sole(isForm(request) ? new URLSearchParams(request.text()).getAll(place.form) : [])
  if ('field' in place) return sole(fields.flatMap(([name, value]) => (name === place.field ? [value] : [])))
  const found = atPath(request.json(), place.json)
  if (typeof found === 'string') return found === '' ? MISSING : { value: found }
  return typeof found === 'number' || typeof found === 'boolean' ? { value: String(found) } : MISSING
}

export function isForm(request: WebhookRequest): boolean {
  return FORM.test(request.headers.get('content-type') ?? '')
}

export type Field = readonly [name: string, value: string]

/** Of a header such as `t=1,v1=ab`. */
export function fieldsOf(header: string, separator: string): Field[] {
  return header.split(separator).flatMap((field) => {
    const at = field.indexOf('=')
    return at < 0 ? [] : [[field.slice(0, at), field.slice(at + 1)] as const]
  })
}

/** Of a list in a JSON body; null: there is no list. */
export function lengthOf(request: WebhookRequest, path: string): number | null {
  const found = atPath(request.json(), path)
  return Array.isArray(found) ? found.length : null
}

/** Own members only, so that `constructor` leads nowhere. */
function atPath(json: Json | undefined, path: string): unknown {
  let found: unknown = json
  for (const key of path.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as Record<string, unknown>)[key]
  }
  return found
}

function readHeader({ headers }: WebhookRequest, name: string): Read {
  const value = headers.get(name)
  if (value === null || value === '') return MISSING
  return value.includes(', ') ? REPEATED : { value }
}

function sole([value, ...further]: readonly string[]): Read {
  if (value === undefined || value === '') return MISSING
  return further.length > 0 ? REPEATED : { value }
}

/** Null: it is not a digest of that length, or is spelled another way. Hex may be in capitals: these are the same bytes. */
export function decodeDigest(text: string, encoding: DigestEncoding, bytes: number | null): Buffer | null {
  if (encoding === 'hex' && !/^([0-9a-f]{2})+$/i.test(text)) return null
  const decoded = Buffer.from(text, encoding)
  // Node reads whatever it is given, and the last character of base64 has bits to spare: only one spelling is taken.
  if (encoding !== 'hex' && decoded.toString(encoding) !== text) return null
  return decoded.length > 0 && (bytes === null || decoded.length === bytes) ? decoded : null
}

export interface SignedTimeOptions {
  /** Seconds. Default: config `webhook.timestamp_tolerance`. */
  readonly tolerance?: number
  /** Default: when the delivery came in. */
  readonly now?: Date
}

/**
 * Whether a signed time lies within the tolerance of now, past or future; a time exactly that far off passes.
 *
 * @param signedAt seconds since 1970, as they were signed
 */
export function isTimely(
  request: WebhookRequest,
  signedAt: number,
  { tolerance = request.toleranceSeconds, now = request.receivedAt }: SignedTimeOptions = {},
): boolean {
  // A signed time is in whole seconds, so now is counted in whole seconds too: NaN is within no tolerance.
  return Math.abs(Math.floor(now.getTime() / 1_000) - signedAt) <= tolerance
}

/** As it was signed, and what is wrong with it. */
export type ReadTime = { readonly text: string } | { readonly reason: RefusalReason }

/** @param tolerance null: any time will do */
export function readTime(
  request: WebhookRequest,
  place: SignedTime,
  fields: readonly Field[],
  tolerance: number | null = request.toleranceSeconds,
): ReadTime {
  const read = readPlace(request, place, fields)
  if ('fault' in read) return { reason: read.fault === 'missing' ? 'time_missing' : 'header_repeated' }
  const seconds = secondsOf(read.value, place.unit ?? 'seconds')
  if (seconds === null) return { reason: 'time_malformed' }
  return tolerance === null || isTimely(request, seconds, { tolerance }) ? { text: read.value } : { reason: 'time_off' }
}

function secondsOf(text: string, unit: NonNullable<SignedTime['unit']>): number | null {
  if (unit === 'iso') {
    const ms = /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:?\d\d)$/.test(text) ? Date.parse(text) : Number.NaN
    return Number.isNaN(ms) ? null : Math.floor(ms / 1_000)
  }
  if (!UNIX_TIME.test(text)) return null
  return unit === 'seconds' ? Number(text) : Math.floor(Number(text) / 1_000)
}
