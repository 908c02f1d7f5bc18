/**
 * One verdict per failed attempt; it feeds the retry decision, health and the circuit breaker.
 *
 * Rule: docs/behaviour/requests.md, "Failure classes".
 */
import { isIntegrationsError } from '../framework/errors.ts'
import { field } from '../framework/thrown.ts'

export const FailureClass = {
  Upstream: 'upstream',
  Throttle: 'throttle',
  Client: 'client',
  Unknown: 'unknown',
} as const
export type FailureClass = (typeof FailureClass)[keyof typeof FailureClass]

/** Null: it succeeded. A call with an error and no class (a host may write one) counts as `unknown`, as in every figure. */
export function classOfCall<Class>(failureClass: Class | null, error: unknown): Class | 'unknown' | null {
  return failureClass ?? (error == null ? null : FailureClass.Unknown)
}

/** How deep causes are followed. Deeper chains are loops or noise. */
const MAX_CHAIN_DEPTH = 10
/** The most links of a chain: a provider may name thousands of errors in one answer. */
const MAX_CHAIN_LINKS = 100

/** Codes of a connection that never stood: nothing of the request has left this machine. */
export const NEVER_CONNECTED_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

const CONNECTION_CODES: ReadonlySet<string> = new Set([
  ...NEVER_CONNECTED_CODES,
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ESOCKETTIMEDOUT',
  'ENETDOWN',
  'EPROTO',
  'UND_ERR_SOCKET',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  // fetch's word for what node:http calls HPE_HEADER_OVERFLOW.
  'UND_ERR_HEADERS_OVERFLOW',
  // TLS and certificates, as Node names them: https://nodejs.org/api/tls.html#x509-certificate-error-codes
  'CERT_CHAIN_TOO_LONG',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REJECTED',
  'CERT_REVOKED',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'CRL_HAS_EXPIRED',
  'CRL_NOT_YET_VALID',
  'CRL_SIGNATURE_FAILURE',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERROR_IN_CERT_NOT_AFTER_FIELD',
  'ERROR_IN_CERT_NOT_BEFORE_FIELD',
  'ERROR_IN_CRL_LAST_UPDATE_FIELD',
  'ERROR_IN_CRL_NEXT_UPDATE_FIELD',
  'HOSTNAME_MISMATCH',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY',
  'UNABLE_TO_DECRYPT_CERT_SIGNATURE',
  'UNABLE_TO_DECRYPT_CRL_SIGNATURE',
  'UNABLE_TO_GET_CRL',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])
const CONNECTION_CODE_PREFIXES = ['HPE_', 'ERR_TLS_', 'ERR_SSL_']

export interface ClassificationInput {
  readonly error: unknown
  /** Whether the caller's own signal was aborted: then nothing is the provider's fault. */
  readonly callerAborted: boolean
  /** The provider's own verdict, asked by the caller; null defers. */
  readonly providerVerdict?: FailureClass | null
}

/** The class of a failed attempt. */
export function classifyFailure({ error, callerAborted, providerVerdict = null }: ClassificationInput): FailureClass {
  const chain = errorChain(error)
  if (chain.some((link) => isIntegrationsError(link) && !OUTCOME_CODES.has(link.code))) return FailureClass.Unknown
  if (chain.some(isAbort)) return callerAborted ? FailureClass.Unknown : FailureClass.Upstream
  if (providerVerdict !== null) return providerVerdict
  const status = statusOf(error)
  if (status !== null) return classOfStatus(status)
  return chain.some(isConnectionFault) ? FailureClass.Upstream : FailureClass.Unknown
}

/**
 * Errors of ours that stand for what the provider did; every other one is no signal about the provider. A RetryableError
 * asks for another attempt and says no more: what it wraps decides.
 */
const OUTCOME_CODES: ReadonlySet<string> = new Set(['http_error', 'request_timeout', 'retryable'])

/** 429 throttle; 501 client (the provider will never do it); other 5xx upstream; 4xx client; less is no failure status. */
export function classOfStatus(status: number): FailureClass {
  if (status === 429) return FailureClass.Throttle
  if (status === 501) return FailureClass.Client
  if (status >= 500) return FailureClass.Upstream
  if (status >= 400) return FailureClass.Client
  return FailureClass.Unknown
}

/** The HTTP status that an error carries, outermost first; null without one. */
export function statusOf(error: unknown): number | null {
  for (const link of errorChain(error)) {
    // Octokit invents a 500 for a refused port, a bad URL and an abort alike: without a response its cause decides.
    if (isOctokitErrorWithoutResponse(link) || field(link, 'name') === 'AbortError') continue
    const response = field(link, 'response')
    const code = field(link, 'code')
    const candidates = [
      field(response, 'status'),
      field(link, 'statusCode'),
      field(link, 'status'),
      field(field(link, '$metadata'), 'httpStatusCode'),
      // As got has it: https://github.com/sindresorhus/got/blob/main/documentation/8-errors.md
      field(response, 'statusCode'),
      typeof code === 'number' && !isDomException(link) ? code : undefined,
    ]
    const status = firstStatus(candidates)
    if (status !== null) return status
  }
  return null
}

/** The first of these values that is an HTTP status. */
export function firstStatus(candidates: readonly unknown[]): number | null {
  const status = candidates.find((value) => Number.isInteger(value) && Number(value) >= 100 && Number(value) <= 599)
  return status === undefined ? null : Number(status)
}

/**
 * The error, its causes, Stripe's `detail` and an AggregateError's `errors`; depth-first, cycles cut, 100 links at
 * most. A link is read with `field()`: the error of a host or an SDK may have a getter that throws.
 */
export function errorChain(error: unknown): object[] {
  const chain = new Set<object>()
  const visit = (link: unknown, depth: number): void => {
    if (typeof link !== 'object' || link === null || depth > MAX_CHAIN_DEPTH || chain.has(link)) return
    if (chain.size === MAX_CHAIN_LINKS) return
    chain.add(link)
    // What is below a database driver's error is the host's database, not the provider.
    if (isDatabaseError(link)) return
    // What is below our HttpError is how its body ended: the status is the verdict.
    if (isIntegrationsError(link, 'http_error')) return
    visit(field(link, 'cause'), depth + 1)
    const detail = field(link, 'detail')
    if (typeof detail === 'object') visit(detail, depth + 1)
    const errors = field(link, 'errors')
    if (Array.isArray(errors)) for (const inner of errors.slice(0, MAX_CHAIN_LINKS)) visit(inner, depth + 1)
  }
  visit(error, 0)
  return [...chain]
}

/** Whether this very link says that the connection failed, before an answer or in the middle of it. */
export function isConnectionFault(link: object): boolean {
  if (isDatabaseError(link)) return false
  // Of an answer that does not begin with HTTP/, undici's error has no code: only this name.
  if (field(link, 'name') === 'HTTPParserError') return true
  const code = codeOf(link)
  if (CONNECTION_CODES.has(code) || CONNECTION_CODE_PREFIXES.some((prefix) => code.startsWith(prefix))) return true
  return field(link, 'type') === 'StripeConnectionError'
}

function isAbort(link: object): boolean {
  const name = field(link, 'name')
  return name === 'AbortError' || name === 'TimeoutError'
}

/**
 * Postgres' own errors carry a five-character SQLSTATE and a severity. What postgres.js throws of a refused socket looks like
 * the provider's, but for the `query` and `parameters` that it puts on every error; Drizzle's has `query` and `params`.
 */
export function isDatabaseError(link: object): boolean {
  if (field(link, 'name') === 'PostgresError') return true
  if (owns(link, 'query') && (owns(link, 'parameters') || owns(link, 'params'))) return true
  return typeof field(link, 'severity') === 'string' && /^[0-9A-Z]{5}$/.test(codeOf(link))
}

function owns(link: object, key: string): boolean {
  try {
    return Object.hasOwn(link, key)
  } catch {
    // A revoked proxy.
    return false
  }
}

function isOctokitErrorWithoutResponse(link: object): boolean {
  return field(link, 'name') === 'HttpError' && 'request' in link && field(link, 'response') === undefined
}

function isDomException(link: object): boolean {
  return typeof DOMException !== 'undefined' && link instanceof DOMException
}

function codeOf(link: object): string {
  const code = field(link, 'code')
  return typeof code === 'string' ? code : ''
}
