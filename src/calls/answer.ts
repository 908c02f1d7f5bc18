/**
 * Reads what a call returned or threw: a fetch `Response`, an Octokit response or error, a Stripe object with its `lastResponse`.
 * The caller gets values of an SDK untouched; this is for the request's row and the provider's limits.
 * Rule: docs/behaviour/requests.md, "What an answer says".
 */
import { HttpError } from '../framework/errors.ts'
import { field, isError } from '../framework/thrown.ts'
import { errorChain, firstStatus, statusOf } from './failure-class-rules.ts'
import { retryAfterSeconds } from './retry-rules.ts'
import { keepLargeText } from './stored-body.ts'

export interface Answer {
  readonly statusCode: number | null
  readonly providerRequestId: string | null
  readonly retryAfterSeconds: number | null
  /** Calls that the provider's quota still allows. */
  readonly rateLimitRemaining: number | null
  /** When that quota is whole again. */
  readonly rateLimitResetAt: Date | null
}

export const NO_ANSWER: Answer = {
  statusCode: null,
  providerRequestId: null,
  retryAfterSeconds: null,
  rateLimitRemaining: null,
  rateLimitResetAt: null,
}

/** Header names under which providers give the id of a request. */
const REQUEST_ID_HEADERS = ['request-id', 'x-github-request-id', 'x-request-id']
const MAX_REQUEST_ID_LENGTH = 128

/** A reset further ahead is not a moment in seconds, or comes from a wrong clock. */
export const MAX_RESET_AHEAD_MS = 86_400_000

/** Redirects that keep the method: a write that does not follow one has not been made (RFC 9110, 15.4). */
const UNMADE: ReadonlySet<number> = new Set([307, 308])

/**
 * A `Response` judged by its status and decoded; anything else as it is.
 *
 * @param keyed whether redirects were left alone, since the call has an idempotency key
 * @throws HttpError for a status of 400 or more, and for a keyed call that was sent elsewhere
 */
export async function decode(value: unknown, { keyed = false } = {}): Promise<{ value: unknown; body: unknown }> {
  if (!isResponse(value)) return { value, body: bodyOf(value) }
  const { status } = value
  const isRefusal = status >= 400 || (keyed && UNMADE.has(status))
  const refusal = (body: unknown, options?: { cause: unknown }): HttpError =>
    new HttpError(status, new Headers([...value.headers]), body, options)
  let decoded: { value: unknown; body: unknown }
  try {
    decoded = await decodeBody(value)
  } catch (cause) {
    // The provider has given its verdict: a body that breaks off, or is too large, takes nothing of it back.
    throw isRefusal ? refusal(null, { cause }) : cause
  }
  if (isRefusal) throw refusal(decoded.value)
  return decoded
}

export function answerOf(source: unknown, now: Date): Answer {
  for (const link of typeof source === 'object' && source !== null ? errorChain(source) : []) {
    const headers = headersOf(link)
    if (headers === null) continue
    return {
      statusCode: statusIn(link) ?? statusOf(source),
      providerRequestId: requestIdIn(link, headers),
      retryAfterSeconds: retryAfterSeconds(headers('retry-after'), now),
      ...quotaIn(headers, now),
    }
  }
  return { ...NO_ANSWER, statusCode: isError(source) ? statusOf(source) : null }
}

/** By its shape: `context.fetch` answers with undici's class, a test's transport with the platform's. */
function isResponse(value: unknown): value is Response {
  if (value instanceof Response) return true
  if (typeof value !== 'object' || value === null) return false
  const { status, ok, headers, text, arrayBuffer } = value as Record<string, unknown>
  return (
    typeof status === 'number' &&
    typeof ok === 'boolean' &&
    typeof text === 'function' &&
    typeof arrayBuffer === 'function' &&
    typeof field(headers, 'get') === 'function'
  )
}

type HeaderReader = (name: string) => string | null

function headersOf(link: object): HeaderReader | null {
  const ofAnswer = ['response', 'lastResponse'].map((key) => field(field(link, key), 'headers'))
  const holder = [field(link, 'headers'), ...ofAnswer].find(
    (candidate) => typeof candidate === 'object' && candidate !== null,
  )
  if (holder === undefined) return null
  const read = (name: string): unknown => {
    if (typeof field(holder, 'get') === 'function') return (holder as Headers).get(name)
    // An object of a host or an SDK, which may write names as they were sent.
    return field(holder, name) ?? field(holder, Object.keys(holder).find((key) => key.toLowerCase() === name) ?? name)
  }
  return (name) => {
    try {
      const value = read(name)
      return value === undefined || value === null ? null : String(value)
    } catch {
      // Of an error of a host or an SDK: a call must not lose its row over it.
      return null
    }
  }
}

function statusIn(link: object): number | null {
  const last = field(link, 'lastResponse')
  return firstStatus([field(link, 'status'), field(link, 'statusCode'), field(last, 'statusCode')])
}

function requestIdIn(link: object, headers: HeaderReader): string | null {
  const own = field(field(link, 'lastResponse'), 'requestId') ?? field(link, 'requestId')
  const found = typeof own === 'string' ? own : REQUEST_ID_HEADERS.map(headers).find((value) => value !== null)
  return found === undefined || found === null ? null : cutRequestId(found)
}

/** Between characters: Postgres takes no half of a surrogate pair. */
export function cutRequestId(id: string): string {
  if (id.length <= MAX_REQUEST_ID_LENGTH) return id
  return [...id].slice(0, MAX_REQUEST_ID_LENGTH).join('')
}

/**
 * GitHub's headers, which many providers use: the quota that is left, and its reset in seconds since the epoch
 * (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#checking-the-status-of-your-rate-limit).
 *
 * A quota of one resource or route says nothing about the others: GitHub names it in `X-RateLimit-Resource`, Discord in
 * `X-RateLimit-Bucket` (https://docs.discord.com/developers/topics/rate-limits).
 */
function quotaIn(headers: HeaderReader, now: Date): Pick<Answer, 'rateLimitRemaining' | 'rateLimitResetAt'> {
  const resource = headers('x-ratelimit-resource')
  const isPartial = (resource !== null && resource !== 'core') || headers('x-ratelimit-bucket') !== null
  const remaining = headers('x-ratelimit-remaining')
  if (isPartial || remaining === null || !/^-?\d{1,15}$/.test(remaining))
    return { rateLimitRemaining: null, rateLimitResetAt: null }
  const reset = headers('x-ratelimit-reset') ?? ''
  const resetMs = /^\d{1,15}$/.test(reset) ? Number(reset) * 1_000 : Number.NaN
  const isNear = resetMs > now.getTime() && resetMs <= now.getTime() + MAX_RESET_AHEAD_MS
  return { rateLimitRemaining: Number(remaining), rateLimitResetAt: isNear ? new Date(resetMs) : null }
}

/** Octokit's answer holds the body in `data`, beside url, status and headers. Stripe's object is the body itself. */
function bodyOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const record = value as Record<string, unknown>
  const isOctokit = 'data' in record && typeof record.status === 'number' && typeof record.headers === 'object'
  return isOctokit ? record.data : value
}

/** Types of text outside `text/…`, by the subtype or its suffix (RFC 6839). */
const TEXT_SUBTYPE =
  /[/+.-](json|jsonl|ndjson|json-seq|xml|html|yaml|csv|toml|sql|graphql|javascript|ecmascript|x-www-form-urlencoded|jwt|jose|x-pem-file)$/

/**
 * JSON or text by the content type; text without one. Any other type stays bytes: decoding would spoil them. The body of a JSON string
 * keeps its quotes: without them it would be read as another answer later, such as "7" as 7.
 */
async function decodeBody(response: Response): Promise<{ value: unknown; body: unknown }> {
  const as = (value: unknown, body = value) => ({ value, body })
  const contentType = (response.headers.get('content-type') ?? '').toLowerCase()
  const type = contentType.split(';', 1)[0]?.trim() ?? ''
  if (type !== '' && !type.startsWith('text/') && !TEXT_SUBTYPE.test(type)) {
    const bytes = new Uint8Array(await response.arrayBuffer())
    return as(bytes.length === 0 ? null : bytes)
  }
  const isJson = /[/+]json$/.test(type)
  const decoder = isJson ? null : decoderOf(contentType)
  const text = decoder === null ? await response.text() : decoder.decode(await response.arrayBuffer())
  if (text === '') return as(null)
  if (!isJson) return as(text)
  try {
    const decoded: unknown = JSON.parse(text)
    keepLargeText(decoded, text)
    return typeof decoded === 'string' ? as(decoded, text) : as(decoded)
  } catch {
    return as(text)
  }
}

/** Null for UTF-8, which JSON always is (RFC 8259, 8.1), and for an unknown charset. */
function decoderOf(contentType: string): InstanceType<typeof TextDecoder> | null {
  const charset = /;\s*charset="?([^\s;"]+)/.exec(contentType)?.[1] ?? 'utf-8'
  try {
    return charset === 'utf-8' ? null : new TextDecoder(charset)
  } catch {
    return null
  }
}
