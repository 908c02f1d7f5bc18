/** What a call asks for, checked before anything is sent or stored. Rule: docs/behaviour/requests.md, "Options". */
import { createHash } from 'node:crypto'
import type { OutboundCall } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { RequestOptions } from '../providers/integration.ts'
import { ATTEMPTS_RANGE, defaultAttempts } from './retry-rules.ts'

const DEFAULT_TIMEOUT_MS = 30_000
const MAX_TIMEOUT_MS = 600_000
const MAX_KEY_LENGTH = 191
/** Columns of the row are varchar(255). */
const MAX_NAME_LENGTH = 255

/** A call as it will be made. */
export interface CallPlan {
  readonly endpoint: string
  readonly method: string
  readonly attempts: number
  readonly timeoutMs: number
  /** How long the answer may be served again; null: it is not cached. */
  readonly cacheForMs: number | null
  readonly serveStale: boolean
  readonly idempotencyKey: string | null
  /** What makes two calls the same, as `planCall()` gives it: SHA-256 in hex. Null unless the call asks for the cache. */
  readonly requestHash: string | null
}

/** @throws InvalidArgumentException */
export function planCall(
  { endpoint, method, options, url }: Pick<OutboundCall<unknown>, 'endpoint' | 'method' | 'options' | 'url'>,
  now: Date,
): CallPlan {
  if (endpoint.trim() === '') throw new InvalidArgumentException('endpoint', 'a non-blank name or path is allowed')
  checkName('method', method)
  const upper = method.toUpperCase()
  const { attempts = defaultAttempts(upper), timeoutMs = DEFAULT_TIMEOUT_MS } = options
  checkRange('attempts', attempts, ATTEMPTS_RANGE.min, ATTEMPTS_RANGE.max)
  checkRange('timeoutMs', timeoutMs, 1, MAX_TIMEOUT_MS)
  if (options.retryOf !== undefined) checkRange('retryOf', options.retryOf, 1, Number.MAX_SAFE_INTEGER)
  if (options.relatedTo !== undefined) checkRelation(options.relatedTo)
  const idempotencyKey = checkedKey(options.idempotencyKey)
  const cacheForMs = checkedLifetime(options.cacheFor, now)
  if (cacheForMs !== null && idempotencyKey !== null)
    throw new InvalidArgumentException('cacheFor', 'a call with an idempotency key is never answered from the cache')
  if (options.serveStale === true && idempotencyKey !== null)
    throw new InvalidArgumentException('serveStale', 'a call with an idempotency key is never answered from the cache')
  const usesCache = cacheForMs !== null || options.serveStale === true
  const requestHash = usesCache ? hashOf([upper, endpoint, url ?? null], options.data) : null
  return {
    endpoint,
    method: upper,
    attempts,
    timeoutMs,
    cacheForMs: requestHash === null ? null : cacheForMs,
    serveStale: requestHash !== null && options.serveStale === true,
    idempotencyKey,
    requestHash,
  }
}

function checkRange(argument: string, value: number, min: number, max: number): void {
  if (Number.isInteger(value) && value >= min && value <= max) return
  throw new InvalidArgumentException(argument, `an integer from ${min} to ${max} is allowed, ${value} was given`)
}

function checkName(argument: string, value: string): void {
  const length = [...value].length
  if (value.trim() !== '' && length <= MAX_NAME_LENGTH && isStorable(value)) return
  throw new InvalidArgumentException(
    argument,
    `a non-blank text of at most ${MAX_NAME_LENGTH} characters is allowed, one of ${length} was given`,
  )
}

/** Postgres text holds neither U+0000 nor half a surrogate pair. */
function isStorable(text: string): boolean {
  return !text.includes('\u0000') && !/\p{Cs}/u.test(text)
}

function checkRelation({ type, id }: NonNullable<RequestOptions['relatedTo']>): void {
  checkName('relatedTo.type', type)
  if (/^\d+$/.test(String(id)) && Number.isSafeInteger(Number(id))) return
  throw new InvalidArgumentException(
    'relatedTo.id',
    `a whole number up to ${Number.MAX_SAFE_INTEGER} is allowed, ${JSON.stringify(id)} was given`,
  )
}

/** Null and undefined: none. */
function checkedKey(key: string | null | undefined): string | null {
  if (key === null || key === undefined) return null
  const length = typeof key === 'string' ? [...key].length : 0
  if (typeof key !== 'string' || key.trim() === '' || length > MAX_KEY_LENGTH || !isStorable(key))
    throw new InvalidArgumentException(
      'idempotencyKey',
      `a non-blank text of at most ${MAX_KEY_LENGTH} characters is allowed, ${typeof key === 'string' ? `one of ${length}` : `a ${typeof key}`} was given`,
    )
  return key
}

/** A hundred years: a longer one would end at no moment that Postgres has, and the call's row could not be written. */
const LONGEST_LIFETIME_MS = 3_155_760_000_000

/** Seconds, or the moment at which it ends. */
function checkedLifetime(cacheFor: number | Date | undefined, now: Date): number | null {
  if (cacheFor === undefined) return null
  const lifetimeMs = cacheFor instanceof Date ? cacheFor.getTime() - now.getTime() : cacheFor * 1_000
  const isWhole = cacheFor instanceof Date || Number.isInteger(cacheFor)
  if (isWhole && lifetimeMs > 0) return Math.min(lifetimeMs, LONGEST_LIFETIME_MS)
  throw new InvalidArgumentException(
    'cacheFor',
    `whole seconds of at least 1, or a moment to come, are allowed, ${String(cacheFor)} was given`,
  )
}

/** The whole canonical request: keys sorted, lists not; absent, null and empty differ. Null: it can't be told from others. */
function hashOf(call: readonly (string | null)[], data: RequestOptions['data']): string | null {
  const hash = createHash('sha256').update(JSON.stringify(call))
  if (data === undefined) return hash.digest('hex')
  if (data instanceof Uint8Array) return hash.update('bytes\n').update(data).digest('hex')
  if (typeof data === 'string') return hash.update('text\n').update(data).digest('hex')
  const json = asJson(data)
  return json === undefined ? null : hash.update('json\n').update(canonical(json)).digest('hex')
}

/** As it would be sent; undefined when it can't be: a circle, a bigint. */
function asJson(data: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(data))
  } catch {
    return undefined
  }
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`)
    .join(',')}}`
}
