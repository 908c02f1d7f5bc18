/**
 * GitHub answers some rate limits with 403.
 *
 * Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
 */
import { FailureClass, retryAfterSeconds, statusOf } from '../../provider.ts'

const LIMIT_MESSAGE = /rate limit|abuse/i

/** `throttle` for a 429 and for a 403 that speaks of a limit; null leaves the verdict to the framework. */
export function classifyGitHubFailure(error: unknown): FailureClass | null {
  const status = statusOf(error)
  if (status === 429) return FailureClass.Throttle
  if (status !== 403) return null
  const { headers, message } = failureOf(error)
  const limited = headers['x-ratelimit-remaining'] === '0' || headers['retry-after'] !== undefined
  return limited || LIMIT_MESSAGE.test(message) ? FailureClass.Throttle : null
}

/**
 * Milliseconds until GitHub has capacity again: `Retry-After`, else the reset of an exhausted bucket; null when it says
 * neither.
 */
export function gitHubRetryDelayMs(error: unknown, now: Date): number | null {
  if (classifyGitHubFailure(error) !== FailureClass.Throttle) return null
  const { headers } = failureOf(error)
  const asked = retryAfterSeconds(headers['retry-after'], now)
  if (asked !== null) return asked * 1_000
  const reset = Number(headers['x-ratelimit-reset'])
  if (headers['x-ratelimit-remaining'] !== '0' || !Number.isFinite(reset)) return null
  return Math.max(1_000, reset * 1_000 - now.getTime())
}

function failureOf(error: unknown): { headers: Record<string, string | undefined>; message: string } {
  const { response, message } = error as {
    response?: { headers?: Record<string, string | undefined> }
    message?: unknown
  }
  return { headers: response?.headers ?? {}, message: typeof message === 'string' ? message : '' }
}
