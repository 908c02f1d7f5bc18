/**
 * The only door to a provider.
 *
 * The stages, in this order: provider → options → response cache → transaction check → idempotency reservation → for each attempt:
 * admission (circuit breaker, suppression, rate limiter) → the call → classification → settlement (one row, health, breaker,
 * suppression, incident) → events → retry decision. Rule: docs/behaviour/requests.md, "Stages".
 */

import type { Framework, OutboundCall } from '../framework/context.ts'
import { isIntegrationsError, RateLimitExceededException } from '../framework/errors.ts'
import { knownSecrets } from '../framework/known-secrets.ts'
import { redactText } from '../framework/redaction.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { Ticket } from './admission/call-state.ts'
import { admitted, settled } from './admission/call-state.ts'
import { makeAttempt } from './attempt.ts'
import { announce } from './call-events.ts'
import type { CallPlan } from './call-options.ts'
import { planCall } from './call-options.ts'
import { noteCall } from './call-span.ts'
import { CallTokens } from './call-tokens.ts'
import type { FailureClass } from './failure-class-rules.ts'
import { refuseInsideTransaction, reserve } from './idempotency.ts'
import { isSurelyWithoutEffect } from './idempotency-rules.ts'
import { currentSync } from './inside-sync.ts'
import { outcomeOf } from './outcome.ts'
import { pause } from './pause.ts'
import { freshAnswer, staleAnswer, withKeyedHash } from './response-cache.ts'
import { decideRetry } from './retry.ts'

/** The breaker's and the limiter's. */
const REFUSALS = ['circuit_open', 'rate_limit_exceeded'] as const

/** How a call ended, all its attempts together. */
export type Ending =
  | { readonly kind: 'succeeded'; readonly value: unknown }
  | {
      readonly kind: 'failed'
      /** Thrown as it is. */
      readonly error: unknown
      /** Null: refused before the provider was asked. */
      readonly failureClass: FailureClass | null
      /** Whether no attempt can have changed anything at the provider. */
      readonly withoutEffect: boolean
    }

/** @throws UnknownProvider, and what docs/behaviour/requests.md names */
export async function performRequest<T>(framework: Framework, outbound: OutboundCall<T>): Promise<T> {
  const { integration, options } = outbound
  // Without its provider a call would have neither its limits nor its redaction.
  const provider = framework.providers.get(integration.provider)
  const plan = withKeyedHash(framework, integration, planCall(outbound, framework.clock.now()))
  // The caller has given up already: nothing is sent, so there is no attempt to log.
  options.signal?.throwIfAborted()
  const cached = plan.cacheForMs === null ? null : await freshAnswer(framework, outbound, plan)
  if (cached !== null) {
    noteCall('cache_hit', integration)
    return cached.value as T
  }

  if (plan.idempotencyKey !== null) refuseInsideTransaction(plan.idempotencyKey)
  // Before a key is spent: credentials that can't be read end the call.
  const secrets = knownSecrets(outbound.credentials())
  // A call may give its integration other ones, as a refresh of a token does.
  const secretsNow = () => knownSecrets(outbound.credentials())
  const reservation = await reserve(framework, integration, provider, plan)
  // Our own errors name the endpoint, and one with a query may hold a credential.
  const endpoint = redactText(outbound.endpoint, secrets)
  const guarded = { ...outbound, endpoint, call: reservation.guard(outbound.call) }
  const ending = await makeAttempts(framework, provider, guarded, plan, secretsNow)
  await reservation.end(ending)
  if (ending.kind === 'succeeded') return ending.value as T

  const stale = plan.serveStale && mayBeStale(ending) ? await staleAnswer(framework, outbound, plan) : null
  if (stale !== null) {
    noteCall('stale_answer', integration)
    return stale.value as T
  }
  throw ending.error
}

/** The provider is away or has asked for quiet; its word that the request is wrong is never hidden by an older answer. */
function mayBeStale({ error, failureClass }: Extract<Ending, { kind: 'failed' }>): boolean {
  if (failureClass === null) return REFUSALS.some((code) => isIntegrationsError(error, code))
  return failureClass === 'upstream' || failureClass === 'throttle'
}

async function makeAttempts(
  framework: Framework,
  provider: IntegrationProvider,
  outbound: OutboundCall<unknown>,
  plan: CallPlan,
  secretsNow: () => readonly string[],
): Promise<Ending> {
  const { integration, options } = outbound
  const tokens = new CallTokens(framework, provider, outbound)
  let firstRowId: number | null = null
  let withoutEffect = true
  for (let number = 1; ; ) {
    let ticket: Ticket
    try {
      ticket = await admitted(framework, integration, options.signal)
    } catch (error) {
      const beside = tokens.ticketBesideProbe(error)
      if (beside === null) {
        const refusal = REFUSALS.find((code) => isIntegrationsError(error, code))
        if (refusal !== undefined) noteCall(refusal, integration)
        return { kind: 'failed', error: putOff(integration, error), failureClass: null, withoutEffect }
      }
      ticket = beside
    }
    const attempt = await tokens.observe(() => makeAttempt(framework, provider, outbound, plan, number))
    const { outcome } = attempt
    const secrets = secretsNow()
    const retryOf = options.retryOf ?? firstRowId
    const record = await outcomeOf(framework, provider, { outbound, plan, attempt, ticket, retryOf, secrets })
    const call = await settled(framework, integration, record)
    firstRowId ??= call.rowId
    await announce(framework, outbound, { call, record, outcome })
    if (outcome.kind === 'succeeded') return { kind: 'succeeded', value: outcome.value }

    withoutEffect &&= isSurelyWithoutEffect(outcome.error, outcome.failureClass)
    const failed = { error: outcome.error, failureClass: outcome.failureClass, withoutEffect }
    // Not counted: the provider has judged the token, not the call.
    if (await tokens.replaceRefused(plan, outcome)) continue
    const decision = decideRetry(framework, provider, outbound, { plan, attempt, number, secrets, ...failed })
    if (decision.kind === 'stop') return { kind: 'failed', ...failed, error: decision.error ?? outcome.error }
    // Given up while we waited: the last attempt's error says more than the abort.
    if (!(await pause(decision.delayMs, options.signal))) return { kind: 'failed', ...failed }
    number += 1
  }
}

/** The worker stops while an item waits for capacity: it has met no fault, so it is put off for another worker to take up. */
function putOff(integration: Integration, error: unknown): unknown {
  const worker = currentSync()?.signal
  if (worker?.aborted !== true || error !== worker.reason) return error
  return new RateLimitExceededException(integration.toJSON(), 1, null, { cause: error })
}
