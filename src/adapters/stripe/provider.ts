import type {
  AuthenticatedUser,
  ClassifiesFailures,
  DeclaresRateLimit,
  IdentifiesAuthenticatedUser,
  Integration,
  LimitsRequestLogging,
  MissedWebhook,
  ReconcilesWebhooks,
  RedactsRequestData,
  SupportsIdempotency,
  WebhookRequest,
} from '../../provider.ts'
import { RateLimit } from '../../provider.ts'
import { checkedBaseUrl } from './account.ts'
import { StripeClient } from './client.ts'
import { StripeCredentials } from './credentials.ts'
import { StripeWebhookReceived } from './events.ts'
import { classifyStripeFailure } from './failures.ts'
import { isHealthy } from './health.ts'
import { identityOf } from './identity.ts'
import { EVENTS_KEPT_SECONDS, undeliveredEvents } from './reconcile.ts'
import { deliveryIdOf, eventTypeOf, payloadOf, verifySignature } from './webhooks.ts'

/** In live mode: https://docs.stripe.com/rate-limits */
const REQUESTS_PER_SECOND = 100
/** https://docs.stripe.com/api/idempotent_requests */
const IDEMPOTENCY_WINDOW_SECONDS = 86_400

/** The payments and webhooks of one Stripe account. Rule: docs/behaviour/stripe.md. */
export class StripeProvider
  implements
    ClassifiesFailures,
    DeclaresRateLimit,
    IdentifiesAuthenticatedUser,
    LimitsRequestLogging,
    ReconcilesWebhooks,
    RedactsRequestData,
    SupportsIdempotency
{
  readonly label = 'Stripe'
  readonly credentialsSchema = StripeCredentials
  readonly supportsIdempotency = true
  readonly idempotencyHeader = 'Idempotency-Key'
  readonly idempotencyWindowSeconds = IDEMPOTENCY_WINDOW_SECONDS
  readonly #baseUrl: string

  /** @param options.baseUrl where the API is, such as a stand-in's in tests. Default: Stripe's */
  constructor({ baseUrl }: { readonly baseUrl?: string | undefined } = {}) {
    this.#baseUrl = checkedBaseUrl(baseUrl)
  }

  /** The operations of one integration, at this provider's `baseUrl`. */
  client(integration: Integration): StripeClient {
    return new StripeClient(integration, { baseUrl: this.#baseUrl })
  }

  healthCheck(integration: Integration): Promise<boolean> {
    return isHealthy({ integration, baseUrl: this.#baseUrl })
  }

  authenticatedUser(integration: Integration): Promise<AuthenticatedUser> {
    return identityOf({ integration, baseUrl: this.#baseUrl })
  }

  defaultRateLimit(): RateLimit {
    return RateLimit.per(REQUESTS_PER_SECOND, 1)
  }

  readonly classifyFailure = classifyStripeFailure

  /** With a client secret a browser may confirm a payment; a webhook endpoint's secret is told once, when it is created. */
  redactedResponsePaths(): string[] {
    return ['client_secret', 'data.*.client_secret', 'secret', 'data.*.secret']
  }

  /** A page of the list is a hundred whole events, and reconciliation asks for many; each event that was missing is stored as a webhook. */
  unloggedResponses(): string[] {
    return ['GET:events']
  }

  verifyWebhookSignature(integration: Integration, request: WebhookRequest): boolean {
    return verifySignature(integration, request)
  }

  webhookDeliveryId(request: WebhookRequest): string | null {
    return deliveryIdOf(request)
  }

  resolveWebhookEvent(request: WebhookRequest): string | null {
    return eventTypeOf(request)
  }

  async handleWebhook(integration: Integration, request: WebhookRequest): Promise<{ status: string; event: string }> {
    const event = eventTypeOf(request) ?? 'unknown'
    await integration.emit(
      new StripeWebhookReceived(integration, event, deliveryIdOf(request) ?? '', payloadOf(request)),
    )
    return { status: 'dispatched', event }
  }

  readonly reconcileLookbackSeconds = EVENTS_KEPT_SECONDS

  missedWebhooks(
    integration: Integration,
    window: Parameters<ReconcilesWebhooks['missedWebhooks']>[1],
  ): AsyncIterable<MissedWebhook> {
    return undeliveredEvents({ integration, baseUrl: this.#baseUrl }, window)
  }
}
