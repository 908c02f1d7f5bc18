/**
 * The only door to a provider.
 *
 * The stages, in this order: options → response cache → transaction check → idempotency reservation → for each attempt:
 * circuit breaker → suppression gate → rate limiter → the call → classification → settlement (one row, health, breaker)
 * → events → retry decision. Which of them this version has switched on: docs/behaviour/requests.md, "Stages".
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { InvalidArgumentException, isIntegrationsError } from '../../core/errors.ts'
import { redactText, secretsOf } from '../../core/redaction.ts'
import { ATTEMPTS_RANGE, defaultAttempts, retryDecision } from '../../core/request-retry.ts'
import type { RequestRecord } from '../../events/events.ts'
import type { Framework, OutboundCall } from '../../framework.ts'
import type { Integration } from '../../providers/integration.ts'
import type { IntegrationProvider } from '../../providers/provider.ts'
import { customizesRetry } from '../../providers/provider.ts'
import { redactedErrorLine } from '../redacted-error.ts'
import type { Attempt } from './attempt.ts'
import { makeAttempt } from './attempt.ts'
import { settleAttempt } from './settlement.ts'

const DEFAULT_TIMEOUT_MS = 30_000
const MAX_TIMEOUT_MS = 600_000
const MAX_ERROR_LENGTH = 2_000

export async function performRequest<T>(framework: Framework, outbound: OutboundCall<T>): Promise<T> {
  const { method, attempts, timeoutMs } = checkOptions(outbound)
  const provider = framework.providers.find(outbound.integration.provider)
  const secrets = secretsOf(outbound.credentials())
  let firstRowId: number | null = null

  for (let number = 1; ; number += 1) {
    const attempt = await makeAttempt(framework, provider, outbound, number, timeoutMs)
    const { outcome } = attempt
    const row = await settleAttempt(framework, {
      integrationId: outbound.integration.id,
      endpoint: redactText(outbound.endpoint, secrets),
      method,
      options: outbound.options,
      retryOf: outbound.options.retryOf ?? firstRowId,
      answer: attempt.answer,
      durationMs: attempt.durationMs,
      body: outcome.kind === 'succeeded' ? outcome.body : bodyOfError(outcome.error),
      failure:
        outcome.kind === 'succeeded'
          ? null
          : { class: outcome.failureClass, message: redactedErrorLine(outcome.error, secrets, MAX_ERROR_LENGTH) },
      secrets,
    })
    firstRowId ??= row?.id ?? null
    if (row !== null) outbound.observe?.(row)
    if (row !== null) await announce(framework, outbound.integration, row, outcome)
    if (outcome.kind === 'succeeded') return outcome.value as T

    const decision = retryDecision({
      failureClass: outcome.failureClass,
      attempt: number,
      attempts,
      isFinal: isFinal(outcome.error, outbound.options.signal),
      ...providerOpinion(framework, provider, outcome.error, number, { integration: outbound.integration.id, secrets }),
      retryAfterSeconds: attempt.answer.retryAfterSeconds,
      maxDelaySeconds: framework.config.retry.retry_after_max_seconds,
      random: Math.random(),
    })
    if (decision.kind === 'stop') throw outcome.error
    try {
      await sleep(decision.delayMs, undefined, { signal: outbound.options.signal })
    } catch {
      // The caller gave up while we waited; the last attempt's error says more than the abort.
      throw outcome.error
    }
  }
}

/** @throws InvalidArgumentException before anything is sent or stored */
function checkOptions({ endpoint, method, options }: OutboundCall<unknown>): {
  method: string
  attempts: number
  timeoutMs: number
} {
  if (endpoint.trim() === '') throw new InvalidArgumentException('endpoint', 'a non-blank name or path is allowed')
  if (method.trim() === '') throw new InvalidArgumentException('method', 'a non-blank method is allowed')
  const { attempts = defaultAttempts(method.toUpperCase()), timeoutMs = DEFAULT_TIMEOUT_MS } = options
  if (!Number.isInteger(attempts) || attempts < ATTEMPTS_RANGE.min || attempts > ATTEMPTS_RANGE.max)
    throw new InvalidArgumentException('attempts', `an integer from 1 to 10 is allowed, ${attempts} was given`)
  if (!Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > MAX_TIMEOUT_MS)
    throw new InvalidArgumentException('timeoutMs', `an integer from 1 to 600000 is allowed, ${timeoutMs} was given`)
  const relatedId = options.relatedTo?.id
  if (relatedId !== undefined && !/^\d{1,16}$/.test(String(relatedId)))
    throw new InvalidArgumentException(
      'relatedTo.id',
      `a whole number is allowed, ${JSON.stringify(relatedId)} was given`,
    )
  // The caller has given up already: nothing is sent, so there is no attempt to log.
  options.signal?.throwIfAborted()
  return { method: method.toUpperCase(), attempts, timeoutMs }
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

/** Our own refusals, bad arguments and drift would end the same way again; an aborted caller does not want more. */
function isFinal(error: unknown, signal: AbortSignal | undefined): boolean {
  if (signal?.aborted === true) return true
  return (
    isIntegrationsError(error) &&
    !isIntegrationsError(error, 'http_error') &&
    !isIntegrationsError(error, 'request_timeout')
  )
}

async function announce(
  framework: Framework,
  integration: Integration,
  request: RequestRecord,
  outcome: Attempt['outcome'],
): Promise<void> {
  if (outcome.kind === 'succeeded') await framework.listeners.emit('RequestCompleted', { integration, request })
  else await framework.listeners.emit('RequestFailed', { integration, request, error: outcome.error })
}

function bodyOfError(error: unknown): unknown {
  if (isIntegrationsError(error, 'http_error')) return (error as unknown as { body: unknown }).body
  const response = (error as { response?: { data?: unknown } } | null)?.response
  return response?.data
}
