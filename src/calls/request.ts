/**
 * The only door to a provider.
 *
 * The stages, in this order: provider → options → response cache → transaction check → idempotency reservation → for each attempt:
 * admission (circuit breaker, suppression, rate limiter) → note of a write → the key's turn → the call → classification → settlement
 * (one row, health, breaker, suppression, incident) → events → retry decision. Rule: docs/behaviour/requests.md, "Stages".
 */

import { trackWrite } from '../echoes/tracked-write.ts'
import type { Framework, OutboundCall } from '../framework/context.ts'
import { isIntegrationsError, RateLimitExceededException } from '../framework/errors.ts'
import { pause } from '../framework/waiting.ts'
import { sharesRateLimit } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { Ticket } from './admission/call-state.ts'
import { admitted, notMade, quietBudget, settled } from './admission/call-state.ts'
import type { Attempt } from './attempt.ts'
import { makeAttempt } from './attempt.ts'
import type { PlannedCall } from './call.ts'
import { planCall } from './call.ts'
import { announce } from './call-events.ts'
import { noteCall } from './call-span.ts'
import { CallTokens } from './call-tokens.ts'
import type { FailureClass } from './failure-class-rules.ts'
import { refuseInsideTransaction, reserve } from './idempotency.ts'
import { isSurelyWithoutEffect } from './idempotency-rules.ts'
import { currentSync } from './inside-sync.ts'
import { outcomeOf } from './outcome.ts'
import { freshAnswer, staleAnswer } from './response-cache.ts'
import { decideRetry } from './retry.ts'

/** The breaker's and the limiter's. */
const REFUSALS = ['circuit_open', 'rate_limit_exceeded'] as const

/** How a call ended, all its attempts together. */
export type Ending =
  | {
      readonly kind: 'succeeded'
      readonly value: unknown
      /** Decoded, as the row keeps it. */
      readonly body: unknown
      /** The row of the attempt; null: it could not be written. */
      readonly requestId: number | null
    }
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
  const call = planCall(framework, outbound)
  // The caller has given up already: nothing is sent, so there is no attempt to log.
  call.signal?.throwIfAborted()
  const cached = call.cacheForMs === null ? null : await freshAnswer(call)
  if (cached !== null) {
    noteCall('cache_hit', call.integration)
    return cached.value as T
  }

  const key = call.idempotencyKey
  if (key !== null) refuseInsideTransaction(key)
  // Before a key is spent: credentials that can't be read end the call.
  call.secrets()
  const ending = await makeTrackedAttempts(call)
  if (ending.kind === 'succeeded') return ending.value as T

  const stale = call.serveStale && mayBeStale(ending) ? await staleAnswer(call) : null
  if (stale !== null) {
    noteCall('stale_answer', call.integration)
    return stale.value as T
  }
  throw ending.error
}

/** The provider is away or has asked for quiet. Its answer that the request is wrong is never hidden by an older answer. */
function mayBeStale({ error, failureClass }: Extract<Ending, { kind: 'failed' }>): boolean {
  if (failureClass === null) return REFUSALS.some((code) => isIntegrationsError(error, code))
  return failureClass === 'upstream' || failureClass === 'throttle'
}

/** What stands around each attempt. */
interface AroundAttempt {
  /** Once it is admitted. What throws ends the call, and counts against nothing at the provider. */
  before(): Promise<void>
  /** Told once an attempt may have changed something at the provider. */
  onDoubt(): void
}

async function makeTrackedAttempts(call: PlannedCall): Promise<Ending> {
  const write = trackWrite(call)
  const unkeyed: AroundAttempt = { before: async () => write?.begin(), onDoubt: () => {} }
  let ending: Ending | null = null
  try {
    ending = await (call.idempotencyKey === null
      ? makeAttempts(call, unkeyed)
      : makeKeyedAttempts(call, call.idempotencyKey, unkeyed))
    return ending
  } finally {
    await write?.end(ending?.kind === 'succeeded' ? ending : null)
  }
}

async function makeKeyedAttempts(call: PlannedCall, key: string, unkeyed: AroundAttempt): Promise<Ending> {
  const reservation = await reserve(call, key)
  const ending = await makeAttempts(call, {
    async before() {
      await reservation.mayCall()
      call.signal?.throwIfAborted()
      await unkeyed.before()
      // Once more, if the note took long: the turn lasts as long as an attempt and a second.
      await reservation.mayCall()
    },
    onDoubt: () => reservation.doubt(),
  })
  await reservation.end(ending)
  return ending
}

async function makeAttempts(call: PlannedCall, { before, onDoubt }: AroundAttempt): Promise<Ending> {
  const { framework, integration, options, signal } = call
  const tokens = new CallTokens(call)
  let firstRowId: number | null = null
  let withoutEffect = true
  for (let number = 1; ; ) {
    let ticket: Ticket
    try {
      ticket = await admitted(framework, integration, signal)
    } catch (error) {
      const beside = tokens.ticketBesideProbe(error)
      if (beside === null) {
        const refusal = REFUSALS.find((code) => isIntegrationsError(error, code))
        if (refusal !== undefined) noteCall(refusal, integration)
        return { kind: 'failed', error: putOff(integration, error), failureClass: null, withoutEffect }
      }
      ticket = beside
    }
    try {
      signal?.throwIfAborted()
      await before()
      // A call that was given up meanwhile is not made.
      signal?.throwIfAborted()
    } catch (error) {
      await notMade(framework, integration, ticket)
      return { kind: 'failed', error, failureClass: null, withoutEffect }
    }
    const made = tokens.observe(() => makeAttempt(call, number))
    const attempt = await (ticket.unit === undefined ? made : made.finally(ticket.unit.done))
    const { outcome } = attempt
    const record = await outcomeOf(call, attempt, ticket, options.retryOf ?? firstRowId)
    if (ticket.unit !== undefined && isSharedThrottle(call, outcome)) await quietBudget(framework, ticket.unit, record)
    const written = await settled(framework, integration, record)
    firstRowId ??= written.rowId
    await announce(call, written, record, outcome)
    if (outcome.kind === 'succeeded')
      return { kind: 'succeeded', value: outcome.value, body: outcome.body, requestId: written.rowId }

    const { error, failureClass } = outcome
    withoutEffect &&= isSurelyWithoutEffect(error, failureClass)
    if (!withoutEffect) onDoubt()
    if (tokens.isRefusedAgain(outcome)) return { kind: 'failed', error, failureClass, withoutEffect }
    // Not counted: the provider has judged the token, not the call.
    if (await tokens.replaceRefused(outcome)) continue
    const decision = decideRetry(call, attempt, outcome)
    if (decision.kind === 'stop') return { kind: 'failed', error: decision.error ?? error, failureClass, withoutEffect }
    // Given up while we waited: the last attempt's error says more than the abort.
    if (!(await waited(framework, decision.delayMs, signal)))
      return { kind: 'failed', error, failureClass, withoutEffect }
    number += 1
  }
}

/** @returns whether the whole time has passed */
async function waited({ clock }: Framework, ms: number, signal: AbortSignal | undefined): Promise<boolean> {
  const syncSignal = currentSync()?.signal
  if (clock.wait === undefined) return pause(ms, signal, syncSignal)
  await clock.wait(ms)
  return signal?.aborted !== true && syncSignal?.aborted !== true
}

/** Whether the provider has spoken of the budget that the integration shares. What throws says nothing. */
function isSharedThrottle({ provider }: PlannedCall, outcome: Attempt['outcome']): boolean {
  if (outcome.kind !== 'failed' || outcome.failureClass !== 'throttle' || !sharesRateLimit(provider)) return false
  try {
    return provider.isSharedThrottle?.(outcome.error) === true
  } catch {
    return false
  }
}

/** The worker stops while an item waits for capacity. The item has met no fault: it is put off, for another worker to take up. */
function putOff(integration: Integration, error: unknown): unknown {
  const worker = currentSync()?.signal
  if (worker?.aborted !== true || error !== worker.reason) return error
  return new RateLimitExceededException(integration.toJSON(), 1, null, { cause: error })
}
