/** Asks a provider, by its `signature` or its own check, whether a delivery is signed. */
import type { Framework } from '../framework/context.ts'
import type { HandlesWebhooks, Maybe } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { FetchedKeys } from '../providers/signatures/public-keys.ts'
import type { SignatureVerdict } from '../providers/signatures/scheme-rules.ts'
import { refused, VERIFIED } from '../providers/signatures/scheme-rules.ts'
import { signedBytesOf, verifySignature } from '../providers/signatures/verify.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import { activeWebhookSecrets, MAX_WEBHOOK_SECRETS } from '../providers/webhook-request.ts'

const REFUSED = refused('refused_by_provider')

export class WebhookVerifier {
  readonly #fetched: FetchedKeys
  readonly #baseUrl: string | null

  constructor({ egress, baseUrl }: Pick<Framework, 'egress' | 'baseUrl'>) {
    this.#fetched = new FetchedKeys(egress)
    this.#baseUrl = baseUrl
  }

  /** @throws what the provider's own check throws, and CredentialsUnreadable */
  verify(provider: HandlesWebhooks, integration: Integration, request: WebhookRequest): Maybe<SignatureVerdict> {
    const { signature } = provider
    if (signature === undefined) {
      const verified = provider.verifyWebhookSignature?.(integration, request)
      return verified instanceof Promise ? verified.then(verdictOf) : verdictOf(verified)
    }
    const secrets =
      provider.webhookSecrets?.(integration, request) ??
      activeWebhookSecrets(integration.credentialsArray(), request.receivedAt)
    return verifySignature(signature, request, {
      secrets: secrets.slice(0, MAX_WEBHOOK_SECRETS),
      from: { metadata: integration.metadata, baseUrl: this.#baseUrl },
      fetched: this.#fetched,
    })
  }

  /** Exactly what the signature of a verified delivery covers; undefined: the raw body. */
  signedBytes(
    provider: HandlesWebhooks,
    { metadata }: Pick<Integration, 'metadata'>,
    request: WebhookRequest,
  ): Uint8Array | string | undefined {
    if (provider.webhookSignedBytes !== undefined) return provider.webhookSignedBytes(request)
    const { signature } = provider
    return signature && signedBytesOf(signature, request, { metadata, baseUrl: this.#baseUrl })
  }
}

const verdictOf = (verified: unknown): SignatureVerdict => (verified === true ? VERIFIED : REFUSED)
