/** Whether a failed attempt is made again, and whether other work around a call is. Rule: docs/behaviour/requests.md, "Retries". */

import { isIntegrationsError, RateLimitExceededException } from '../framework/errors.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { customizesRetry, supportsIdempotency } from '../providers/contracts.ts'
import { currentSyncItem } from '../providers/sync-session.ts'
import type { Answer } from './answer.ts'
import type { Attempt, Failure } from './attempt.ts'
import { verdictOf } from './attempt.ts'
import type { PlannedCall } from './call.ts'
import { classifyFailure } from './failure-class-rules.ts'
import { currentSync, longestWaitMs } from './inside-sync.ts'
import type { RetryInput } from './retry-rules.ts'
import { retryDecision } from './retry-rules.ts'

/** A reset further ahead is no clock to go by: docs/behaviour/requests.md, "Admission". */
const LONGEST_DEFERRAL_MS = 86_400_000

export type Retry =
  /** `error`: thrown instead of the attempt's own error, such as a deferral inside a sync. */
  { readonly kind: 'stop'; readonly error?: unknown } | { readonly kind: 'again'; readonly delayMs: number }

export function decideRetry(
  call: PlannedCall,
  { number, answer }: Attempt,
  { error, failureClass }: Pick<Failure, 'error' | 'failureClass'>,
): Retry {
  const { framework, provider, integration, signal } = call
  const { retry, rate_limiting: limits } = framework.config
  const opinion = providerOpinion(call, error, number)
  const callerAborted = signal?.aborted === true
  const decision = retryDecision({
    error,
    failureClass,
    attempt: number,
    attempts: call.attempts,
    callerAborted,
    mustNotRepeat: call.idempotencyKey !== null && !supportsIdempotency(provider),
    ...opinion,
    retryAfterSeconds: answer.retryAfterSeconds,
    maxDelaySeconds: retry.retry_after_max_seconds,
    random: Math.random(),
  })
  const delayMs =
    decision.kind === 'retry' ? decision.delayMs : namedWaitMs(opinion, answer, retry.retry_after_max_seconds)
  // A lane that sleeps holds up every other item; the run waits with a durable timer instead.
  const sync = currentSync()
  if (
    sync !== null &&
    failureClass === 'throttle' &&
    !callerAborted &&
    delayMs > Math.min(limits.max_wait_seconds * 1_000, longestWaitMs(sync))
  ) {
    const askedMs = Math.max(delayMs, namedWaitMs(opinion, answer, retry.retry_after_max_seconds))
    const seconds = Math.max(1, Math.ceil(askedMs / 1_000))
    return {
      kind: 'stop',
      error: new RateLimitExceededException(integration.toJSON(), seconds, null, { cause: error }),
    }
  }
  return decision.kind === 'retry' ? { kind: 'again', delayMs } : decision
}

/**
 * The wait that is asked for, when no attempt is left or the wait is too long to sleep. 0: none is asked for.
 *
 * A wait that the provider's `retryDelayMs()` names puts a listing off for all of it. An item asks again in steps, as after any header:
 * one such wait would end its retry window (docs/behaviour/sync-items.md, "An item's attempts").
 */
function namedWaitMs({ providerDelayMs }: Opinion, answer: Answer, maxDelaySeconds: number): number {
  const isWhole = providerDelayMs !== null && currentSyncItem() === null
  const longestMs = isWhole ? LONGEST_DEFERRAL_MS : maxDelaySeconds * 1_000
  return Math.min(providerDelayMs ?? (answer.retryAfterSeconds ?? 0) * 1_000, longestMs)
}

/**
 * The wait after a throttle that the provider's `retryDelayMs()` names, if no attempt sleeps through it; else null. Other
 * calls must not be sent meanwhile (docs/behaviour/requests.md, "Admission").
 */
export function longWaitMs(call: PlannedCall, { number, outcome }: Attempt): number | null {
  if (outcome.kind !== 'failed' || outcome.failureClass !== 'throttle') return null
  const { providerDelayMs } = providerOpinion(call, outcome.error, number)
  const longestMs = call.framework.config.retry.retry_after_max_seconds * 1_000
  return providerDelayMs !== null && providerDelayMs > longestMs ? providerDelayMs : null
}

type Opinion = Pick<RetryInput, 'providerSaysRetryable' | 'providerDelayMs'>

/** An opinion that throws or is nonsense is left out: the failure itself must reach the caller. */
function providerOpinion(
  { framework, provider, integration, secrets }: PlannedCall,
  error: unknown,
  attempt: number,
): Opinion {
  if (!customizesRetry(provider)) return { providerSaysRetryable: null, providerDelayMs: null }
  try {
    const now = framework.clock.now()
    const longestSeconds = framework.config.retry.retry_after_max_seconds
    const retryable = provider.isRetryable?.(error, { now, longestSeconds })
    const delayMs = provider.retryDelayMs?.(error, attempt, now)
    return {
      providerSaysRetryable: typeof retryable === 'boolean' ? retryable : null,
      // Jitter leaves a fraction. A suppression is stored as a whole number, and could not be stored.
      providerDelayMs: Number.isFinite(delayMs) ? Math.min(Math.ceil(Number(delayMs)), Number.MAX_SAFE_INTEGER) : null,
    }
  } catch (fault) {
    integrationLogger(framework, integration).warn(
      { event: 'request.retry_rule_failed', error: redactedErrorLine(fault, secrets(), 500) },
      'isRetryable() or retryDelayMs() threw; ignored',
    )
    return { providerSaysRetryable: null, providerDelayMs: null }
  }
}

/** Faults of ours that another attempt can't change. */
const LASTING_FAULTS: ReadonlySet<string> = new Set([
  'invalid_argument',
  'integration_inactive',
  'unknown_provider',
  'unsupported_by_provider',
  'sync_session_closed',
  'credentials_unreadable',
])

/**
 * Whether the same call would fail in the same way again: bad arguments, and what the provider blames on the caller.
 *
 * @param provider null: it is not known
 */
export function isFinalFault(error: unknown, provider: IntegrationProvider | null = null): boolean {
  if (isIntegrationsError(error) && LASTING_FAULTS.has(error.code)) return true
  const verdict = provider === null ? null : verdictOf(provider, error)
  return (verdict ?? classifyFailure({ error, callerAborted: false })) === 'client'
}
