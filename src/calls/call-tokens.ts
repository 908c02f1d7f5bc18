/**
 * The token of a call: which one an attempt has used, and another one when the provider refuses it.
 *
 * Rule: docs/behaviour/oauth.md, "A refused token".
 */
import { randomUUID } from 'node:crypto'
import type { TokenHolder } from '../framework/context.ts'
import type { CircuitOpenException, InvalidArgumentException } from '../framework/errors.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { integrationLogger } from '../framework/logger.ts'
import { errorKind } from '../framework/thrown.ts'
import { oauthClientOf } from '../oauth/oauth-provider.ts'
import { tokensOf } from '../oauth/rules.ts'
import { isInsideAdaptersTokenWork, isInsideTokenWork, observeTokenUse } from '../oauth/token-work.ts'
import { replaceToken } from '../oauth/tokens.ts'
import type { Ticket } from './admission/call-state.ts'
import type { Failure } from './attempt.ts'
import type { PlannedCall } from './call.ts'
import { statusOf } from './failure-class-rules.ts'
import { isSurelyWithoutEffect } from './idempotency-rules.ts'

const UNAUTHORIZED = 401

/** Of one call, all its attempts. */
export class CallTokens {
  readonly #call: PlannedCall
  /** Null: no token of ours is refreshed for this call. */
  readonly #holder: TokenHolder | null
  /** Of the last attempt. */
  #used: string | null = null
  #mayReplace = true

  constructor(call: PlannedCall) {
    const { framework, provider, integration, tokens } = call
    const mayRefresh = oauthClientOf(provider, integration) !== null && !isInsideTokenWork(framework, integration.id)
    this.#call = call
    this.#holder = mayRefresh ? (tokens ?? null) : null
  }

  /**
   * A call for tokens that is refused since a probe is under way goes with that probe: the probe may be waiting for them, and
   * would never succeed. The breaker does not count it. Null: the refusal holds.
   */
  ticketBesideProbe(refusal: unknown): Ticket | null {
    if (!isIntegrationsError(refusal, 'circuit_open')) return null
    const { openedAt, retryAfterSeconds } = refusal as CircuitOpenException
    const isProbeUnderWay = openedAt !== null && retryAfterSeconds === null
    const { framework, integration } = this.#call
    if (!isProbeUnderWay || !isInsideAdaptersTokenWork(framework, integration.id)) return null
    return { owner: randomUUID(), generation: null, probe: false }
  }

  /** Makes an attempt. */
  async observe<T>(attempt: () => Promise<T>): Promise<T> {
    const holder = this.#holder
    if (holder === null) return attempt()
    const { result, used } = await observeTokenUse(holder, tokensOf(holder.credentials()).accessToken, attempt)
    this.#used = used
    return result
  }

  /** Whether it is another refusal after the token was asked for again: then nothing else helps, whatever the provider says of 401. */
  isRefusedAgain({ error }: Pick<Failure, 'error'>): boolean {
    return !this.#mayReplace && statusOf(error) === UNAUTHORIZED
  }

  /** Whether the attempt is made once more, with another token; once a call. Never throws. */
  async replaceRefused({ error, failureClass }: Pick<Failure, 'error' | 'failureClass'>): Promise<boolean> {
    const { framework, integration, idempotencyKey, signal } = this.#call
    if (this.#holder === null || this.#used === null || !this.#mayReplace || statusOf(error) !== UNAUTHORIZED)
      return false
    // A provider may see more in a 401 than a refusal; then a key must not be sent twice.
    const mustNotRepeat = idempotencyKey !== null && !isSurelyWithoutEffect(error, failureClass)
    const isGivenUp = (): boolean => signal?.aborted === true
    if (mustNotRepeat || isGivenUp()) return false
    this.#mayReplace = false
    try {
      const isReplaced = await replaceToken(framework, this.#holder, this.#used)
      return isReplaced && !isGivenUp()
    } catch (fault) {
      integrationLogger(framework, integration).warn(
        // Its kind, and the name of what is missing, such as the client's secret: its words may quote tokens that are not stored.
        { event: 'tokens.not_replaced', error: errorKind(fault), argument: argumentOf(fault) },
        'a token that the provider has refused could not be refreshed; the caller gets the refusal',
      )
      return false
    }
  }
}

/** Null: it is about no argument. */
function argumentOf(fault: unknown): string | null {
  return isIntegrationsError(fault, 'invalid_argument') ? (fault as InvalidArgumentException).argument : null
}
