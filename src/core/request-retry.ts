/**
 * Whether a failed attempt is made again, and after how long.
 *
 * Rule: docs/behaviour/requests.md, "Retries".
 */
import type { FailureClass } from './failure-class.ts'

/** Attempts that a method gets when the call does not say: reads are safe to repeat, writes are not. */
export const DEFAULT_ATTEMPTS = { read: 3, write: 1 } as const
export const ATTEMPTS_RANGE = { min: 1, max: 10 } as const

/** Waits by class when nobody else names one. A throttle needs a window to pass; an upstream fault a breath, longer each time. */
const THROTTLE_WAIT_MS = 30_000
const UPSTREAM_WAIT_STEP_MS = 2_000
const OTHER_WAIT_STEP_MS = 1_000
/** Jitter of 0 to 20 % keeps callers that failed together from coming back together. */
const JITTER = 0.2

export interface RetryInput {
  readonly failureClass: FailureClass
  /** The attempt that failed, from 1. */
  readonly attempt: number
  /** How many attempts the call may make. */
  readonly attempts: number
  /** Our own refusals, bad arguments, drift and the caller's abort are never made again. */
  readonly isFinal: boolean
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
  if (input.isFinal || input.attempt >= input.attempts) return { kind: 'stop' }
  const retryable =
    input.providerSaysRetryable ?? (input.failureClass === 'upstream' || input.failureClass === 'throttle')
  if (!retryable) return { kind: 'stop' }
  return { kind: 'retry', delayMs: Math.min(wait(input), input.maxDelaySeconds * 1000) }
}

function wait(input: RetryInput): number {
  if (input.providerDelayMs !== null) return Math.max(0, input.providerDelayMs)
  if (input.retryAfterSeconds !== null) return input.retryAfterSeconds * 1000
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
 * Seconds that a `Retry-After` header asks for: decimal seconds or an HTTP date (RFC 9110, section 10.2.3).
 * Null when absent, malformed or in the past.
 */
export function retryAfterSeconds(header: string | null | undefined, now: Date): number | null {
  if (header === null || header === undefined) return null
  const text = header.trim()
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text)
  // Date.parse reads almost anything ("-5", "in May 2099") as some day, so only the three forms of a date get that far.
  if (!HTTP_DATE.test(text)) return null
  // The third form, asctime's, names no zone: it is UTC all the same.
  const at = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
  if (Number.isNaN(at) || at <= now.getTime()) return null
  return Math.ceil((at - now.getTime()) / 1000)
}
