/** A call, checked before anything is sent or stored. Rule: docs/behaviour/requests.md, "Options". */
import { createHash } from 'node:crypto'
import type { Framework, OutboundCall } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { canonicalJson } from '../framework/json.ts'
import { knownSecrets } from '../framework/known-secrets.ts'
import { redactText } from '../framework/redaction.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { recognisesEchoes } from '../providers/contracts.ts'
import type { RequestOptions } from '../providers/integration.ts'
import { ATTEMPTS_RANGE, defaultAttempts } from './retry-rules.ts'

const DEFAULT_TIMEOUT_MS = 30_000
export const MAX_TIMEOUT_MS = 600_000
const MAX_KEY_LENGTH = 191
/** Columns of the row are varchar(255). */
const MAX_NAME_LENGTH = 255

/** What the options come to. */
export interface CallPlan {
  /** HTTP's in capital letters; the operation of an SDK as it was given. */
  readonly method: string
  readonly attempts: number
  readonly timeoutMs: number
  /** How long the answer may be served again; null: it is not cached. */
  readonly cacheForMs: number | null
  readonly serveStale: boolean
  readonly idempotencyKey: string | null
  /** Equal for two calls that are the same: SHA-256 in hex. Null unless the call asks for the cache. */
  readonly requestHash: string | null
}

/** A call on its way: made once, and given to each of its stages. */
export interface PlannedCall extends OutboundCall<unknown>, CallPlan {
  readonly framework: Framework
  readonly provider: IntegrationProvider
  /** The caller's own. */
  readonly signal: AbortSignal | undefined
  /** Values that no row, line or error may hold. A refresh of the token adds to them. @throws CredentialsUnreadable */
  readonly secrets: () => readonly string[]
  /** The endpoint for errors and spans: a query in it may hold a credential. */
  readonly shownEndpoint: () => string
}

/** @throws UnknownProvider, InvalidArgumentException */
export function planCall(framework: Framework, outbound: OutboundCall<unknown>): PlannedCall {
  const { integration, endpoint, options, credentials } = outbound
  // Without its provider a call would have neither its limits nor its redaction.
  const provider = framework.providers.get(integration.provider)
  const plan = callPlan(outbound, framework.clock.now())
  if (options.writes !== undefined && options.writes.ifTold !== true && !recognisesEchoes(provider))
    throw new InvalidArgumentException(
      'writes',
      `it is allowed with a provider that has toldRecord(), or with ifTold; the provider "${integration.provider}" has none`,
    )
  const secrets = (): readonly string[] => knownSecrets(credentials())
  return {
    ...outbound,
    ...plan,
    framework,
    provider,
    signal: options.signal,
    // A plain hash would tell what was redacted: a card number has few values, and each can be tried. After a change of the ring's
    // first key no older answer is found.
    requestHash:
      plan.requestHash === null ? null : framework.encryption.sign(`request-hash/${integration.id}`, plan.requestHash),
    secrets,
    shownEndpoint: () => redactText(endpoint, secrets()),
  }
}

/** @throws InvalidArgumentException */
export function callPlan(
  { endpoint, method, options, url }: Pick<OutboundCall<unknown>, 'endpoint' | 'method' | 'options' | 'url'>,
  now: Date,
): CallPlan {
  if (endpoint.trim() === '') throw new InvalidArgumentException('endpoint', 'a non-blank name or path is allowed')
  checkName('method', method)
  const named = methodNamed(method)
  const { attempts = defaultAttempts(named), timeoutMs = DEFAULT_TIMEOUT_MS } = options
  checkRange('attempts', attempts, ATTEMPTS_RANGE.min, ATTEMPTS_RANGE.max)
  checkRange('timeoutMs', timeoutMs, 1, MAX_TIMEOUT_MS)
  if (options.retryOf !== undefined) checkRange('retryOf', options.retryOf, 1, Number.MAX_SAFE_INTEGER)
  if (options.relatedTo !== undefined) checkRelation(options.relatedTo)
  if (options.writes?.record === '')
    throw new InvalidArgumentException('writes', 'a text that is not empty, or null, is allowed')
  const idempotencyKey = checkedKey(options.idempotencyKey)
  const cacheForMs = checkedLifetime(options.cacheFor, now)
  const mayServeStale = options.serveStale === true
  if (idempotencyKey !== null && (cacheForMs !== null || mayServeStale))
    throw new InvalidArgumentException(
      cacheForMs !== null ? 'cacheFor' : 'serveStale',
      'a call with an idempotency key is never answered from the cache',
    )
  const usesCache = cacheForMs !== null || mayServeStale
  const requestHash = usesCache ? hashOf([named, endpoint, url ?? null], options.data) : null
  return {
    method: named,
    attempts,
    timeoutMs,
    cacheForMs: requestHash === null ? null : cacheForMs,
    serveStale: requestHash !== null && mayServeStale,
    idempotencyKey,
    requestHash,
  }
}

/** RFC 9110, 9.3, and RFC 5789. */
export const HTTP_METHODS: ReadonlySet<string> = new Set([
  'CONNECT',
  'DELETE',
  'GET',
  'HEAD',
  'OPTIONS',
  'PATCH',
  'POST',
  'PUT',
  'TRACE',
])

/** `get` and `GET` are one method. Any other text is the operation of an SDK, such as `customers.create`, and is kept. */
export function methodNamed(given: string): string {
  const upper = given.toUpperCase()
  return HTTP_METHODS.has(upper) ? upper : given
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

/** A hundred years. Postgres has no moment at which a longer one would end, and the call's row could not be written. */
export const LONGEST_LIFETIME_MS = 3_155_760_000_000

/** @param cacheFor seconds, or the moment at which it ends */
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

/** Of the whole canonical request: keys are sorted, lists are not; absent, null and empty differ. Null: the data has no JSON. */
function hashOf(call: readonly (string | null)[], data: RequestOptions['data']): string | null {
  const hash = createHash('sha256').update(JSON.stringify(call))
  if (data === undefined) return hash.digest('hex')
  if (data instanceof Uint8Array) return hash.update('bytes\n').update(data).digest('hex')
  if (typeof data === 'string') return hash.update('text\n').update(data).digest('hex')
  const json = asJson(data)
  return json === undefined ? null : hash.update('json\n').update(canonicalJson(json)).digest('hex')
}

/** As it would be sent. Undefined for what has no JSON: a circle, a bigint. */
function asJson(data: unknown): Json | undefined {
  try {
    return JSON.parse(JSON.stringify(data)) as Json
  } catch {
    return undefined
  }
}
