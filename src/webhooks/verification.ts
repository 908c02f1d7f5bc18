/**
 * Finds the integration that signed a delivery, within the time that a process may spend on it.
 *
 * On a generic route one integration after the other is asked. A forger makes the process ask all of them, for a body of any size up to
 * the limit.
 * Rule: docs/behaviour/webhooks.md, "The generic route".
 */
import { performance } from 'node:perf_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import { isIntegrationsError } from '../framework/errors.ts'
import type { RepeatedWarnings } from '../framework/repeated-warnings.ts'
import { thrownTexts } from '../framework/thrown.ts'
import type { HandlesWebhooks, Maybe } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { RefusalReason } from '../providers/signatures/scheme-rules.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import type { WebhookOwner, WebhookOwners } from './owners.ts'
import type { DeliveryVerdict, WebhookVerifier } from './verifier.ts'

/** After this time the search for an owner lets other requests have a turn. */
const TURN_MS = 10

type Verdict =
  /** `formerSecret`: see {@link DeliveryVerdict}. */
  | { readonly kind: 'verified'; readonly owner: WebhookOwner; readonly formerSecret: string | null }
  /** @see REFUSAL_REASONS; of several integrations that of the first. Only the log says it. */
  | { readonly kind: 'bad signature'; readonly reason: RefusalReason }
  | { readonly kind: 'unavailable' }
  /** The process has spent its time for asking many integrations, so the owner is not known. */
  | { readonly kind: 'busy' }

/**
 * The first candidate whose signature verifies owns the delivery. The time of asking further ones is taken from the process's credit, and
 * given back for a genuine delivery.
 */
export async function ownerAmong(
  {
    credit,
    warnings,
    verifier,
  }: {
    readonly credit: VerificationCredit
    readonly warnings: RepeatedWarnings
    readonly verifier: WebhookVerifier
  },
  provider: HandlesWebhooks,
  { owners }: WebhookOwners,
  request: WebhookRequest,
): Promise<Verdict> {
  let unavailable = 0
  let reason: RefusalReason | null = null
  let spentMs = 0
  const pay = (ms: number): void => {
    spentMs += ms
    credit.spend(ms)
  }
  const paid = (integration: Integration): Maybe<DeliveryVerdict> => {
    const startedAt = performance.now()
    try {
      const verdict = verifier.verify(provider, integration, request)
      if (!(verdict instanceof Promise)) return verdict
      const from = credit.awaited.begin()
      // Bounded: while it waits, the process is busy with the work of others.
      return verdict.finally(() => pay(Math.min(credit.awaited.end(from), TURN_MS)))
    } finally {
      pay(performance.now() - startedAt)
    }
  }
  let turnAt = performance.now()
  for (const owner of owners) {
    const { integration } = owner
    const isFirst = owner === owners[0]
    if (!isFirst && credit.isSpent()) return { kind: 'busy' }
    if (performance.now() - turnAt >= TURN_MS) {
      await turn()
      turnAt = performance.now()
    }
    try {
      const asked = isFirst ? verifier.verify(provider, integration, request) : paid(integration)
      const verdict = asked instanceof Promise ? await asked : asked
      if (verdict.kind === 'verified') {
        credit.giveBack(spentMs)
        return { kind: 'verified', owner, formerSecret: verdict.formerSecret }
      }
      if (verdict.kind === 'unavailable') unavailable += 1
      else reason ??= verdict.reason
    } catch (error) {
      // Credentials that can't be read are our trouble, not the sender's: it should try again.
      if (isIntegrationsError(error, 'credentials_unreadable')) unavailable += 1
      else
        warnings.warn(
          `threw ${integration.id}`,
          // Its message may quote what an unknown sender sent.
          () => ({
            event: 'webhook.verification_threw',
            integration: integration.id,
            provider: integration.provider,
            error: thrownTexts(error).name ?? typeof error,
          }),
          'verifyWebhookSignature() threw; counts as false',
        )
    }
  }
  return unavailable > 0 ? { kind: 'unavailable' } : { kind: 'bad signature', reason: reason ?? 'refused_by_provider' }
}

/**
 * What checks that await something cost the process: the time in which its event loop was busy meanwhile, in equal shares. Who used
 * it can't be told. A wait for a key or a provider's API costs nothing, and checks at once do not pay for the same time twice.
 */
class AwaitedChecks {
  #underWay = 0
  /** Milliseconds that a check under way from the beginning would have paid. */
  #shareMs = 0
  #busyMs = 0

  /** @returns for `end()` */
  begin(): number {
    this.#count()
    this.#underWay += 1
    return this.#shareMs
  }

  /** @returns milliseconds */
  end(from: number): number {
    this.#count()
    this.#underWay -= 1
    return this.#shareMs - from
  }

  #count(): void {
    const { active } = performance.eventLoopUtilization()
    if (this.#underWay > 0) this.#shareMs += (active - this.#busyMs) / this.#underWay
    this.#busyMs = active
  }
}

/** The credit of an idle process: one delivery of the largest size to the last of 100 integrations takes about a third of it. */
const MOST_MS = 3_000
/** The share of passing time that comes back: a tenth of one CPU. */
const GAIN = 0.1

export class VerificationCredit {
  readonly awaited = new AwaitedChecks()
  #leftMs = MOST_MS
  #countedAt: number
  readonly #now: () => number

  /** @param now milliseconds, of a clock that never goes back */
  constructor(now = () => performance.now()) {
    this.#now = now
    this.#countedAt = now()
  }

  isSpent(): boolean {
    return this.#left() <= 0
  }

  spend(ms: number): void {
    this.#leftMs = this.#left() - ms
  }

  /** Returns the time spent on a delivery that turned out to be genuine. */
  giveBack(ms: number): void {
    this.#leftMs = Math.min(this.#left() + ms, MOST_MS)
  }

  #left(): number {
    const now = this.#now()
    this.#leftMs = Math.min(this.#leftMs + (now - this.#countedAt) * GAIN, MOST_MS)
    this.#countedAt = now
    return this.#leftMs
  }
}
