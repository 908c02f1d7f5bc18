/**
 * When a spent key may be used again, and what it answered.
 *
 * Rule: docs/behaviour/requests.md, "Idempotency keys".
 */
import { isIntegrationsError } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import type { FailureClass } from './failure-class-rules.ts'
import { errorChain } from './failure-class-rules.ts'
import { isNeverConnected } from './retry-rules.ts'

/**
 * Whether a failed attempt can't have changed anything at the provider: it was turned away (`client`, `throttle`), its
 * connection never stood, or we refused its address. In doubt the answer is no: a key given back too early makes a write happen twice.
 */
export function isSurelyWithoutEffect(error: unknown, failureClass: FailureClass): boolean {
  return failureClass === 'client' || failureClass === 'throttle' || isNeverConnected(error) || isRefusedAddress(error)
}

/** A keyed write follows no redirect, so a refused address is the one it was meant for. */
function isRefusedAddress(error: unknown): boolean {
  return errorChain(error).some((link) => isIntegrationsError(link, 'egress_refused'))
}

/** What a stored answer holds. */
export type PriorAnswer =
  | { readonly priorState: 'recovered'; readonly priorResponse: Json }
  | { readonly priorState: 'empty'; readonly priorResponse: null }
  /** The text as it is. */
  | { readonly priorState: 'unparseable'; readonly priorResponse: string }

/** @param stored the body as its row has it, redacted; null when there was none */
export function priorAnswer(stored: string | null): PriorAnswer {
  if (stored === null || stored === '') return { priorState: 'empty', priorResponse: null }
  try {
    return { priorState: 'recovered', priorResponse: JSON.parse(stored) as Json }
  } catch {
    return { priorState: 'unparseable', priorResponse: stored }
  }
}

/**
 * A key whose effect is not known may be sent again while the provider itself still knows it and drops a second write.
 * The window is the provider's and begins when it first sees the key, so counting from the reservation is never too late.
 *
 * @param ageSeconds since the reservation
 * @param windowSeconds how long the provider remembers a key; null: it does not
 */
export function mayBeSentAgain(
  priorState: PriorAnswer['priorState'] | 'unknown',
  ageSeconds: number,
  windowSeconds: number | null,
): boolean {
  return priorState === 'unknown' && windowSeconds !== null && ageSeconds < windowSeconds
}

const WAITING_GATES = 3
/** Writing a row, replacing a refused token, and the difference of two clocks. */
const MARGIN_SECONDS = 120

/**
 * How long a call can go on without a sign, in milliseconds. Its signs are the reservation and the row of each attempt; between two
 * of them it waits for its next attempt, for capacity at three gates (suppression, rate limit, shared budget), and for the provider.
 */
export function longestSilenceMs(longest: {
  readonly attemptMs: number
  readonly retrySeconds: number
  readonly capacitySeconds: number
}): number {
  return longest.attemptMs + (longest.retrySeconds + WAITING_GATES * longest.capacitySeconds + MARGIN_SECONDS) * 1_000
}

/** Of a spent key: whether its call's answer is known. */
export const IDEMPOTENCY_STATES = ['answered', 'unknown'] as const
