/**
 * When a token is refreshed although no call asks for it. Rule: docs/behaviour/oauth.md, "Keep-alive".
 */
import type { Tokens } from './rules.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** After the first failure, the second, the third; after each further one the last. */
const WAITS_MS = [10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS] as const
/** A refresh that has failed for this long fails for good. */
const GIVE_UP_AFTER_MS = 4 * DAY_MS
/** Many providers drop an unused refresh token, and few say after how long: each is used once a day. */
const MAX_REST_MS = DAY_MS

/** The history of an integration's refreshes. */
export interface KeepAliveState {
  /** Of the last refresh or authorization; null: unknown. */
  readonly succeededAt: Date | null
  /** Refreshes that failed since then. */
  readonly failures: number
  /** Null without failures, as the three below. */
  readonly firstFailedAt: Date | null
  readonly failedAt: Date | null
  /** How many waits there have been since the last success, the present one included. */
  readonly waits: number
  /** When the present wait is over. */
  readonly retryAt: Date | null
}

/** What the provider says about its tokens. */
export interface TokenLifetimes {
  /** A token that expires within this time is refreshed. */
  readonly thresholdSeconds: number
  /** A refresh token that is unused for this long ends; null: never, or unknown. */
  readonly maxIdleSeconds: number | null
}

export const NOTHING_KNOWN: KeepAliveState = {
  succeededAt: null,
  failures: 0,
  firstFailedAt: null,
  failedAt: null,
  waits: 0,
  retryAt: null,
}

export function afterSuccess(now: Date): KeepAliveState {
  return { ...NOTHING_KNOWN, succeededAt: now }
}

/**
 * A failure within a wait is counted and moves nothing: a hundred callers that meet the same outage must not put the next
 * try off to tomorrow.
 */
export function afterFailure(before: KeepAliveState, now: Date): KeepAliveState {
  const counted = {
    ...before,
    failures: before.failures + 1,
    firstFailedAt: before.firstFailedAt ?? now,
    failedAt: now,
  }
  if (before.retryAt !== null && now.getTime() < before.retryAt.getTime()) return counted
  const wait = WAITS_MS[Math.min(before.waits, WAITS_MS.length - 1)] ?? DAY_MS
  return { ...counted, waits: before.waits + 1, retryAt: new Date(now.getTime() + wait) }
}

/**
 * Whether refreshes have failed for four days, each of the waits used up: two failures with five days of silence between
 * them, since no worker ran, say little.
 */
export function hasFailedForGood({ firstFailedAt, failedAt, waits }: KeepAliveState): boolean {
  if (firstFailedAt === null || failedAt === null) return false
  return waits > WAITS_MS.length && failedAt.getTime() - firstFailedAt.getTime() >= GIVE_UP_AFTER_MS
}

/**
 * When the refresh token is used next; a moment that has passed: at once. Null: there is none to use.
 *
 * The earlier of the time at which the access token counts as expiring soon, and a rest since the last success: a day, or
 * half of what the provider lets a refresh token idle. No known success: at once. After a failure: when its wait is over.
 */
export function refreshDueAt(
  { refreshToken, expiresAt }: Tokens,
  { succeededAt, retryAt }: KeepAliveState,
  { thresholdSeconds, maxIdleSeconds }: TokenLifetimes,
): Date | null {
  if (refreshToken === null) return null
  if (retryAt !== null) return retryAt
  if (succeededAt === null) return new Date(0)
  const restMs = Math.min(MAX_REST_MS, maxIdleSeconds === null ? MAX_REST_MS : (maxIdleSeconds * 1_000) / 2)
  const restedAtMs = succeededAt.getTime() + restMs
  const soonAtMs = expiresAt === null ? Number.POSITIVE_INFINITY : expiresAt.getTime() - thresholdSeconds * 1_000
  return new Date(Math.min(restedAtMs, soonAtMs))
}
