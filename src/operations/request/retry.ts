/** Whether a failed attempt is made again. Rule: docs/behaviour/requests.md, "Retries". */
import { RateLimitExceededException } from '../../core/errors.ts'
import type { FailureClass } from '../../core/failure-class.ts'
import { retryDecision } from '../../core/request-retry.ts'
import type { Framework, OutboundCall } from '../../framework.ts'
import type { IntegrationProvider } from '../../providers/provider.ts'
import { customizesRetry, supportsIdempotency } from '../../providers/provider.ts'
import { currentSync } from '../inside-sync.ts'
import { redactedErrorLine } from '../redacted-error.ts'
import type { Attempt } from './attempt.ts'
import type { CallPlan } from './options.ts'

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
  provider: IntegrationProvider | null,
  { integration, options }: OutboundCall<unknown>,
  { plan, attempt, number, error, failureClass, secrets }: FailedAttempt,
): Retry {
  const { retry, rate_limiting: limits } = framework.config
  const decision = retryDecision({
    error,
    failureClass,
    attempt: number,
    attempts: plan.attempts,
    callerAborted: options.signal?.aborted === true,
    mustNotRepeat: plan.idempotencyKey !== null && !(provider !== null && supportsIdempotency(provider)),
    ...providerOpinion(framework, provider, error, number, { integration: integration.id, secrets }),
    retryAfterSeconds: attempt.answer.retryAfterSeconds,
    maxDelaySeconds: retry.retry_after_max_seconds,
    random: Math.random(),
  })
  if (decision.kind === 'stop') return decision
  const { delayMs } = decision
  // A lane that sleeps holds up every other item; the run waits with a durable timer instead.
  if (currentSync() !== null && failureClass === 'throttle' && delayMs > limits.max_wait_seconds * 1_000) {
    const seconds = Math.max(1, Math.ceil(delayMs / 1_000))
    return {
      kind: 'stop',
      error: new RateLimitExceededException(integration.toJSON(), seconds, null, { cause: error }),
    }
  }
  return { kind: 'again', delayMs }
}

/** A provider's opinion that is a throw or nonsense is none: the failure itself must reach the caller. */
function providerOpinion(
  framework: Framework,
  provider: IntegrationProvider | null,
  error: unknown,
  attempt: number,
  { integration, secrets }: { integration: number; secrets: readonly string[] },
): { providerSaysRetryable: boolean | null; providerDelayMs: number | null } {
  if (provider === null || !customizesRetry(provider)) return { providerSaysRetryable: null, providerDelayMs: null }
  try {
    const retryable = provider.isRetryable?.(error)
    const delayMs = provider.retryDelayMs?.(error, attempt)
    return {
      providerSaysRetryable: typeof retryable === 'boolean' ? retryable : null,
      providerDelayMs: Number.isFinite(delayMs) ? Number(delayMs) : null,
    }
  } catch (fault) {
    framework.logger.warn(
      { integration, error: redactedErrorLine(fault, secrets, 500) },
      'isRetryable() or retryDelayMs() threw; ignored',
    )
    return { providerSaysRetryable: null, providerDelayMs: null }
  }
}
