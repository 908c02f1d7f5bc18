/** Whether a failed attempt is made again. Rule: docs/behaviour/requests.md, "Retries". */

import type { Framework, OutboundCall } from '../framework/context.ts'
import { RateLimitExceededException } from '../framework/errors.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import type { Identity } from '../observability/spans.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { customizesRetry, supportsIdempotency } from '../providers/contracts.ts'
import { currentSyncItem } from '../providers/sync-session.ts'
import type { Attempt } from './attempt.ts'
import type { CallPlan } from './call-options.ts'
import type { FailureClass } from './failure-class-rules.ts'
import { currentSync, longestWaitMs } from './inside-sync.ts'
import { retryDecision } from './retry-rules.ts'

/** A reset further ahead is no clock to go by: docs/behaviour/requests.md, "Admission". */
const LONGEST_DEFERRAL_MS = 86_400_000

export interface FailedAttempt {
  readonly plan: CallPlan
  readonly attempt: Attempt
  /** From 1. */
  readonly number: number
  readonly error: unknown
  readonly failureClass: FailureClass
  readonly secrets: readonly string[]
}

export type Retry =
  /** `error`: what is thrown instead of the attempt's own error, such as a deferral inside a sync. */
  { readonly kind: 'stop'; readonly error?: unknown } | { readonly kind: 'again'; readonly delayMs: number }

export function decideRetry(
  framework: Framework,
  provider: IntegrationProvider,
  { integration, options }: OutboundCall<unknown>,
  { plan, attempt, number, error, failureClass, secrets }: FailedAttempt,
): Retry {
  const { retry, rate_limiting: limits } = framework.config
  const opinion = providerOpinion(framework, provider, error, number, { integration, secrets })
  const decision = retryDecision({
    error,
    failureClass,
    attempt: number,
    attempts: plan.attempts,
    callerAborted: options.signal?.aborted === true,
    mustNotRepeat: plan.idempotencyKey !== null && !supportsIdempotency(provider),
    ...opinion,
    retryAfterSeconds: attempt.answer.retryAfterSeconds,
    maxDelaySeconds: retry.retry_after_max_seconds,
    random: Math.random(),
  })
  const delayMs =
    decision.kind === 'retry' ? decision.delayMs : namedWaitMs(opinion, attempt, retry.retry_after_max_seconds)
  // A lane that sleeps holds up every other item; the run waits with a durable timer instead.
  const sync = currentSync()
  if (
    sync !== null &&
    failureClass === 'throttle' &&
    options.signal?.aborted !== true &&
    delayMs > Math.min(limits.max_wait_seconds * 1_000, longestWaitMs(sync))
  ) {
    const seconds = Math.max(1, Math.ceil(delayMs / 1_000))
    return {
      kind: 'stop',
      error: new RateLimitExceededException(integration.toJSON(), seconds, null, { cause: error }),
    }
  }
  return decision.kind === 'retry' ? { kind: 'again', delayMs } : decision
}

/**
 * What is asked for, where no attempt is left or it is too long to be slept; 0: nobody says. A wait that the provider's
 * `retryDelayMs()` names puts a listing off for all of it. An item has a window that one such wait would be the end of
 * (docs/behaviour/sync-items.md, "An item's attempts"): it asks again in steps, as after any header.
 */
function namedWaitMs({ providerDelayMs }: Opinion, { answer }: Attempt, maxDelaySeconds: number): number {
  const isWhole = providerDelayMs !== null && currentSyncItem() === null
  const longestMs = isWhole ? LONGEST_DEFERRAL_MS : maxDelaySeconds * 1_000
  return Math.min(providerDelayMs ?? (answer.retryAfterSeconds ?? 0) * 1_000, longestMs)
}

interface Opinion {
  readonly providerSaysRetryable: boolean | null
  readonly providerDelayMs: number | null
}

/** A provider's opinion that is a throw or nonsense is none: the failure itself must reach the caller. */
function providerOpinion(
  framework: Framework,
  provider: IntegrationProvider,
  error: unknown,
  attempt: number,
  { integration, secrets }: { integration: Identity; secrets: readonly string[] },
): Opinion {
  if (!customizesRetry(provider)) return { providerSaysRetryable: null, providerDelayMs: null }
  try {
    const now = framework.clock.now()
    const longestSeconds = framework.config.retry.retry_after_max_seconds
    const retryable = provider.isRetryable?.(error, { now, longestSeconds })
    const delayMs = provider.retryDelayMs?.(error, attempt, now)
    return {
      providerSaysRetryable: typeof retryable === 'boolean' ? retryable : null,
      providerDelayMs: Number.isFinite(delayMs) ? Number(delayMs) : null,
    }
  } catch (fault) {
    framework.logger.warn(
      {
        event: 'request.retry_rule_failed',
        integration: integration.id,
        provider: integration.provider,
        error: redactedErrorLine(fault, secrets, 500),
      },
      'isRetryable() or retryDelayMs() threw; ignored',
    )
    return { providerSaysRetryable: null, providerDelayMs: null }
  }
}
