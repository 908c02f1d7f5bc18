/** Asks a provider, by its `signature`, its own check or both, whether a delivery is signed. */
import type { Framework } from '../framework/context.ts'
import type { HandlesWebhooks, Maybe } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { signatureOf } from '../providers/signatures/declared-signature.ts'
import { FetchedKeys } from '../providers/signatures/public-keys.ts'
import type { SignatureScheme, SignatureVerdict } from '../providers/signatures/scheme-rules.ts'
import { refused } from '../providers/signatures/scheme-rules.ts'
import { signedBytesOf, verifySignature } from '../providers/signatures/verify.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import { activeWebhookSecrets, MAX_WEBHOOK_SECRETS } from '../providers/webhook-request.ts'
import { presentSecret } from './secrets.ts'

const REFUSED = refused('refused_by_provider') as Exclude<SignatureVerdict, { kind: 'verified' }>
const VERIFIED: DeliveryVerdict = { kind: 'verified', formerSecret: null }

export type DeliveryVerdict =
  | Exclude<SignatureVerdict, { kind: 'verified' }>
  /** The former secret that verified it; null: it was the present one, or it can't be told. */
  | { readonly kind: 'verified'; readonly formerSecret: string | null }

export class WebhookVerifier {
  readonly #fetched: FetchedKeys
  readonly #baseUrl: string | null

  constructor({ egress, baseUrl }: Pick<Framework, 'egress' | 'baseUrl'>) {
    this.#fetched = new FetchedKeys(egress)
    this.#baseUrl = baseUrl
  }

  /**
   * A provider with both a `signature` and its own check is asked by both: neither is passed over in silence.
   *
   * @throws what the provider's own check throws, and CredentialsUnreadable
   */
  verify(provider: HandlesWebhooks, integration: Integration, request: WebhookRequest): Maybe<DeliveryVerdict> {
    const signature = signatureOf(provider)
    if (signature === undefined) return ownVerdict(provider, integration, request, VERIFIED)
    const verdict = this.#bySignature(signature, provider, integration, request)
    if (provider.verifyWebhookSignature === undefined) return verdict
    const further = (each: DeliveryVerdict): Maybe<DeliveryVerdict> =>
      each.kind === 'verified' ? ownVerdict(provider, integration, request, each) : each
    return verdict instanceof Promise ? verdict.then(further) : further(verdict)
  }

  #bySignature(
    signature: SignatureScheme,
    provider: HandlesWebhooks,
    integration: Integration,
    request: WebhookRequest,
  ): Maybe<DeliveryVerdict> {
    const own = provider.webhookSecrets?.(integration, request)
    const credentials = own === undefined ? integration.credentialsArray() : null
    const secrets = own ?? activeWebhookSecrets(credentials ?? {}, request.receivedAt)
    const verdict = verifySignature(signature, request, {
      secrets: secrets.slice(0, MAX_WEBHOOK_SECRETS),
      from: { metadata: integration.metadata, baseUrl: this.#baseUrl },
      fetched: this.#fetched,
    })
    const told = (each: SignatureVerdict): DeliveryVerdict => {
      if (each.kind !== 'verified') return each
      const secret = credentials === null || each.secret === null ? undefined : secrets[each.secret]
      return secret === undefined || secret === presentSecret(credentials ?? {})
        ? VERIFIED
        : { kind: 'verified', formerSecret: secret }
    }
    return verdict instanceof Promise ? verdict.then(told) : told(verdict)
  }

  /** Exactly what the signature of a verified delivery covers; undefined: the raw body. */
  signedBytes(
    provider: HandlesWebhooks,
    { metadata }: Pick<Integration, 'metadata'>,
    request: WebhookRequest,
  ): Uint8Array | string | undefined {
    if (provider.webhookSignedBytes !== undefined) return provider.webhookSignedBytes(request)
    const signature = signatureOf(provider)
    return signature && signedBytesOf(signature, request, { metadata, baseUrl: this.#baseUrl })
  }
}

/** @param verdict where the provider's own check returns true, and nothing else */
function ownVerdict(
  provider: HandlesWebhooks,
  integration: Integration,
  request: WebhookRequest,
  verdict: DeliveryVerdict,
): Maybe<DeliveryVerdict> {
  const judged = (verified: unknown) => (verified === true ? verdict : REFUSED)
  const verified = provider.verifyWebhookSignature?.(integration, request)
  return verified instanceof Promise ? verified.then(judged) : judged(verified)
}
