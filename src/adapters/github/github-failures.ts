/**
 * GitHub answers some rate limits with 403.
 *
 * Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
 */
import type { HttpError, RetryWait } from '../../provider.ts'
import { FailureClass, isIntegrationsError, retryAfterSeconds, statusOf } from '../../provider.ts'

const LIMIT_MESSAGE = /rate limit|abuse/i
/** "Otherwise, wait for at least one minute before retrying", says GitHub of a secondary limit without `Retry-After`. */
const UNNAMED_WAIT_MS = 60_000
/** Minimum wait: a reset that is past by our clock may still lie ahead by GitHub's. */
const LEAST_WAIT_MS = 1_000

/**
 * GitHub says to repeat the request at another URL, so it had no effect. A 303 may follow an effect.
 *
 * Source: https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects; of 308
 * RFC 9110, 15.4.9.
 */
const SENT_ELSEWHERE: ReadonlySet<number | null> = new Set([301, 302, 307, 308])

const GONE: readonly number[] = [404, 410]

/** GitHub's own answer to this very call, not one that an error of ours has as its cause. */
export function isGone(error: unknown): boolean {
  return isIntegrationsError(error, 'http_error') && GONE.includes((error as HttpError).status)
}

/**
 * `throttle` for a 429 and for a 403 that names a limit; `client` for a redirected write, so that its key is free again, and for an
 * installation that is gone; null leaves the decision to the framework.
 */
export function classifyGitHubFailure(error: unknown): FailureClass | null {
  if (isIntegrationsError(error, 'github_installation_gone')) return FailureClass.Client
  const status = statusOf(error)
  if (SENT_ELSEWHERE.has(status)) return FailureClass.Client
  if (status === 429) return FailureClass.Throttle
  if (status !== 403) return null
  const { headers, message } = failureOf(error)
  const limited = headers.get('x-ratelimit-remaining') === '0' || headers.has('retry-after')
  return limited || LIMIT_MESSAGE.test(message) ? FailureClass.Throttle : null
}

/**
 * Milliseconds until GitHub has capacity again: `Retry-After`, else the reset that it names, else a minute. Null for an error of
 * another class.
 */
export function gitHubRetryDelayMs(error: unknown, now: Date): number | null {
  if (classifyGitHubFailure(error) !== FailureClass.Throttle) return null
  const { headers } = failureOf(error)
  const asked = retryAfterSeconds(headers.get('retry-after'), now)
  if (asked !== null) return Math.max(LEAST_WAIT_MS, asked * 1_000)
  const reset = headers.get('x-ratelimit-reset') ?? ''
  if (!/^\d{1,12}$/.test(reset)) return UNNAMED_WAIT_MS
  return Math.max(LEAST_WAIT_MS, Number(reset) * 1_000 - now.getTime())
}

/** False for a wait that would be cut short: the next attempt would be refused again. Null leaves it to the framework. */
export function isGitHubRetryable(error: unknown, { now, longestSeconds }: RetryWait): boolean | null {
  const delayMs = gitHubRetryDelayMs(error, now)
  return delayMs !== null && delayMs > longestSeconds * 1_000 ? false : null
}

/** GitHub's answer: every call uses `context.fetch`, so a status of 400 or more is an HttpError. */
function failureOf(error: unknown): { headers: Headers; message: string } {
  if (!isIntegrationsError(error, 'http_error')) return { headers: new Headers(), message: '' }
  const { headers, body } = error as HttpError
  const message = typeof body === 'object' && body !== null ? (body as { message?: unknown }).message : body
  return { headers, message: typeof message === 'string' ? message : '' }
}
