/**
 * Whether a failed attempt is made again, and after how long.
 *
 * Rule: docs/behaviour/requests.md, "Retries".
 */
import { isIntegrationsError } from '../framework/errors.ts'
import { field } from '../framework/thrown.ts'
import type { FailureClass } from './failure-class-rules.ts'
import { errorChain, isConnectionFault, NEVER_CONNECTED_CODES, statusOf } from './failure-class-rules.ts'

/** Attempts that a method gets when the call does not say: reads are safe to repeat, writes are not. */
const DEFAULT_ATTEMPTS = { read: 3, write: 1 } as const
export const ATTEMPTS_RANGE = { min: 1, max: 10 } as const

/** Waits by class, when none is named. A throttle needs a window to pass, an upstream fault a short wait that grows. */
const THROTTLE_WAIT_MS = 30_000
const UPSTREAM_WAIT_STEP_MS = 2_000
const OTHER_WAIT_STEP_MS = 1_000
/** Jitter of 0 to 20 % keeps callers that failed together from coming back together. */
const JITTER = 0.2

/** `setTimeout` takes a longer time for 1 ms: https://nodejs.org/api/timers.html#settimeoutcallback-delay-args */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export interface RetryInput {
  /** What the attempt failed with. */
  readonly error: unknown
  readonly failureClass: FailureClass
  /** The attempt that failed, from 1. */
  readonly attempt: number
  /** How many attempts the call may make. */
  readonly attempts: number
  /** Whether the caller has given up: it wants no more. */
  readonly callerAborted: boolean
  /** A keyed write at a provider that does not know the key: our ledger is all that keeps it from taking effect twice. */
  readonly mustNotRepeat: boolean
  /** The provider's own word; null defers. */
  readonly providerSaysRetryable: boolean | null
  readonly providerDelayMs: number | null
  readonly retryAfterSeconds: number | null
  /** `retry.retry_after_max_seconds` */
  readonly maxDelaySeconds: number
  /** 0 to 1, from the caller: policy reads no random source of its own. */
  readonly random: number
}

export type RetryDecision = { readonly kind: 'stop' } | { readonly kind: 'retry'; readonly delayMs: number }

export function retryDecision(input: RetryInput): RetryDecision {
  const wish = retryWish(input.error)
  const attempts = Math.min(input.attempts, wish?.maxAttempts ?? input.attempts)
  if (input.attempt >= attempts || !isRetryable(input, wish !== null)) return { kind: 'stop' }
  if (input.mustNotRepeat && input.failureClass !== 'throttle' && !isNeverConnected(input.error))
    return { kind: 'stop' }
  const delayMs = Math.min(wait(input, wish), input.maxDelaySeconds * 1_000, LONGEST_TIMER_MS)
  return { kind: 'retry', delayMs: Math.max(0, delayMs) }
}

/** The first verdict wins. */
function isRetryable({ error, callerAborted, failureClass, providerSaysRetryable }: RetryInput, isWished: boolean) {
  if (callerAborted || isFinal(error)) return false
  if (isWished) return true
  return providerSaysRetryable ?? (failureClass === 'upstream' || failureClass === 'throttle')
}

/** Refusals of ours, which are not retried in process, and errors that another attempt would meet again. */
const NOT_RETRIED: ReadonlySet<string> = new Set([
  'circuit_open',
  'rate_limit_exceeded',
  'invalid_argument',
  'idempotency_conflict',
  'idempotency_inside_transaction',
  'schema_drift',
  'egress_refused',
  'response_too_large',
])

function isFinal(error: unknown): boolean {
  return errorChain(error).some((link) => isIntegrationsError(link) && NOT_RETRIED.has(link.code))
}

interface RetryWish {
  readonly maxAttempts: number | null
  readonly retryAfterSeconds: number | null
}

/** The wish of the outermost RetryableError of the chain; null without one. NaN is left out. */
function retryWish(error: unknown): RetryWish | null {
  const retryable = errorChain(error).find((link) => isIntegrationsError(link, 'retryable'))
  if (retryable === undefined) return null
  const { options } = retryable as { options?: Partial<Record<keyof RetryWish, unknown>> }
  return { maxAttempts: numberOf(options?.maxAttempts), retryAfterSeconds: numberOf(options?.retryAfterSeconds) }
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' && !Number.isNaN(value) ? value : null
}

/**
 * Whether the provider surely has not seen the request. False when anything in the chain speaks of an answer (a gateway may
 * put `ECONNREFUSED` into the body of a 502) or of a connection that stood (one address refused, another broke off).
 */
export function isNeverConnected(error: unknown): boolean {
  if (statusOf(error) !== null) return false
  const faults = errorChain(error).filter(isConnectionFault)
  const isNever = (fault: object) => NEVER_CONNECTED_CODES.has(String(field(fault, 'code')))
  const isNeutral = (fault: object) => field(fault, 'code') === undefined || field(fault, 'syscall') === 'connect'
  return faults.some(isNever) && faults.every((fault) => isNever(fault) || isNeutral(fault))
}

/** The first named wait: of the error, the provider, the header. Without one the class decides, with jitter. */
function wait(input: RetryInput, wish: RetryWish | null): number {
  if (wish?.retryAfterSeconds != null) return wish.retryAfterSeconds * 1_000
  if (input.providerDelayMs !== null) return input.providerDelayMs
  if (input.retryAfterSeconds !== null) return input.retryAfterSeconds * 1_000
  const jitter = 1 + JITTER * input.random
  if (input.failureClass === 'throttle') return THROTTLE_WAIT_MS * jitter
  const step = input.failureClass === 'upstream' ? UPSTREAM_WAIT_STEP_MS : OTHER_WAIT_STEP_MS
  return step * input.attempt * jitter
}

export function defaultAttempts(method: string): number {
  return method === 'GET' || method === 'HEAD' ? DEFAULT_ATTEMPTS.read : DEFAULT_ATTEMPTS.write
}

/** `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994` (RFC 9110, section 5.6.7). */
const HTTP_DATE =
  /^[A-Z][a-z]{2,8}(, \d{2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2} GMT| [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4})$/

/**
 * A date of HTTP in milliseconds since the epoch; NaN for any other text. `Date.parse()` reads almost anything ("-5",
 * "in May 2099") as some day, so only the three forms get that far.
 */
export function httpDateMs(text: string): number {
  if (!HTTP_DATE.test(text)) return Number.NaN
  // The third form, asctime's, names no zone: it is UTC all the same.
  return Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
}

/**
 * Seconds that a `Retry-After` header asks for: decimal seconds or an HTTP date (RFC 9110, section 10.2.3).
 * Null when absent, malformed or in the past.
 */
export function retryAfterSeconds(header: string | null | undefined, now: Date): number | null {
  if (header === null || header === undefined) return null
  const text = header.trim()
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text)
  const at = httpDateMs(text)
  if (Number.isNaN(at) || at <= now.getTime()) return null
  return Math.ceil((at - now.getTime()) / 1000)
}
