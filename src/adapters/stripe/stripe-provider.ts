import { z } from 'zod'
import type {
  AuthenticatedUser,
  ClassifiesFailures,
  DeclaresRateLimit,
  IdentifiesAuthenticatedUser,
  Integration,
  LimitsRequestLogging,
  ManagesWebhooks,
  MissedWebhook,
  RecognisesEchoes,
  ReconcilesWebhooks,
  RedactsRequestData,
  SupportsIdempotency,
  WantedSubscription,
  WebhookRequest,
  WebhookSample,
  WebhookSubscription,
} from '../../provider.ts'
import {
  classOfStatus,
  FailureClass,
  RateLimit,
  SchemaDrift,
  statusOf,
  verifyHmacSignature,
  webhookSecretsOf,
} from '../../provider.ts'
import { StripeClient } from './client.ts'
import type { StripeAccount } from './stripe-call.ts'
import { callStripe, checkedBaseUrl } from './stripe-call.ts'
import { StripeCredentials } from './stripe-credentials.ts'
import { pageOf } from './stripe-pages.ts'
import { EVENTS_KEPT_SECONDS, undeliveredEvents } from './stripe-reconcile.ts'
import { createEndpoint, listEndpoints, removeEndpoint, renewEndpoint } from './stripe-subscription.ts'
import {
  deliveryIdOf,
  eventTypeOf,
  payloadOf,
  StripeWebhookReceived,
  samples,
  stripeSignature,
  toldRecord,
} from './stripe-webhooks.ts'

/** Limit of live mode: https://docs.stripe.com/rate-limits */
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
    ManagesWebhooks,
    ReconcilesWebhooks,
    RecognisesEchoes,
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

  /** A client secret lets a browser confirm a payment. Stripe shows a webhook endpoint's secret once, when it is created. */
  redactedResponsePaths(): string[] {
    return ['client_secret', 'data.*.client_secret', 'secret', 'data.*.secret']
  }

  /** A page of the list has a hundred whole events, and reconciliation reads many. Each missed event is stored as a webhook anyway. */
  unloggedResponses(): string[] {
    return ['GET:events']
  }

  readonly signature = stripeSignature

  verifyWebhookSignature(integration: Integration, request: WebhookRequest): boolean {
    return verifyHmacSignature(request, webhookSecretsOf(this, integration, request), this.signature)
  }

  webhookDeliveryId(request: WebhookRequest): string | null {
    return deliveryIdOf(request)
  }

  sampleWebhooks(): readonly WebhookSample[] {
    return samples()
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

  readonly webhookSecretFrom = 'provider'

  createWebhookSubscription(
    integration: Integration,
    wanted: WantedSubscription,
  ): ReturnType<ManagesWebhooks['createWebhookSubscription']> {
    return createEndpoint({ integration, baseUrl: this.#baseUrl }, wanted)
  }

  webhookSubscriptions(integration: Integration, options: { signal: AbortSignal }): Promise<WebhookSubscription[]> {
    return listEndpoints({ integration, baseUrl: this.#baseUrl }, options)
  }

  renewWebhookSubscription(
    integration: Integration,
    subscription: WebhookSubscription,
    wanted: WantedSubscription,
  ): Promise<WebhookSubscription | null> {
    return renewEndpoint({ integration, baseUrl: this.#baseUrl }, subscription, wanted)
  }

  removeWebhookSubscription(integration: Integration, subscription: WebhookSubscription): Promise<void> {
    return removeEndpoint({ integration, baseUrl: this.#baseUrl }, subscription)
  }

  readonly toldRecord = toldRecord
  readonly pageOf = pageOf

  readonly reconcileLookbackSeconds = EVENTS_KEPT_SECONDS

  missedWebhooks(
    integration: Integration,
    window: Parameters<ReconcilesWebhooks['missedWebhooks']>[1],
  ): AsyncIterable<MissedWebhook> {
    return undeliveredEvents({ integration, baseUrl: this.#baseUrl }, window)
  }
}

/** Types of the SDK's errors, from any copy of the SDK: https://docs.stripe.com/error-handling?lang=node */
const SDK_ERROR = /^Stripe\w*Error$/

/** The class of a failed call. Null: the framework decides. Rule: docs/behaviour/stripe.md, "Failures". */
export function classifyStripeFailure(error: unknown): FailureClass | null {
  const type = typeof error === 'object' && error !== null ? Reflect.get(error, 'type') : null
  if (typeof type !== 'string' || !SDK_ERROR.test(type)) return null
  if (type === 'StripeConnectionError') return FailureClass.Upstream
  // Stripe also sends a rate limit as status 400 with the code `rate_limit`.
  if (type === 'StripeRateLimitError') return FailureClass.Throttle
  const status = statusOf(error)
  return status === null ? FailureClass.Unknown : classOfStatus(status)
}

const HEALTH_ENDPOINT = 'balance'
/** Limit of one attempt: three, and the waits between them, end within the limit below. */
const HEALTH_TIMEOUT_MS = 6_000
/**
 * Limit of the whole check. A caller waits 30 s for it (docs/behaviour/requests.md, "Health checks"), and learns the
 * last failure only from a check that has ended. The wait after a 429 alone is 30 s or more.
 */
const HEALTH_TOTAL_MS = 28_000

/**
 * Whether the account answers. False for any failure: the request's row says why. Credentials that do not fit make no request.
 *
 * Rule: docs/behaviour/stripe.md, "Health".
 */
async function isHealthy(account: StripeAccount): Promise<boolean> {
  try {
    await callStripe(account, {
      endpoint: HEALTH_ENDPOINT,
      method: 'GET',
      timeoutMs: HEALTH_TIMEOUT_MS,
      signal: AbortSignal.timeout(HEALTH_TOTAL_MS),
      // Checked inside the call, so that the request's row names a wrong answer.
      async send(stripe) {
        const balance = await stripe.balance.retrieve()
        const { object }: { object: unknown } = balance
        if (object !== 'balance')
          throw new SchemaDrift(HEALTH_ENDPOINT, [{ path: 'object', message: '"balance" is allowed' }])
        return balance
      },
    })
    return true
  } catch {
    return false
  }
}

const IDENTITY_ENDPOINT = 'account'

/** https://docs.stripe.com/api/accounts/object */
const Account = z.object({
  id: z.string().min(1),
  email: z.string().nullish(),
  business_profile: z.object({ name: z.string().nullish() }).nullish(),
})

/** The account that the key belongs to. Rule: docs/behaviour/stripe.md, "Identity". @throws SchemaDrift for any other answer */
async function identityOf(account: StripeAccount): Promise<AuthenticatedUser> {
  const answered = await callStripe(account, {
    endpoint: IDENTITY_ENDPOINT,
    method: 'GET',
    // Checked inside the call, so that the request's row names a wrong answer.
    send: async (stripe) => accountIn(await stripe.accounts.retrieveCurrent()),
  })
  const { id, email = null, business_profile: profile } = answered
  return { id, name: profile?.name ?? null, email, username: null }
}

function accountIn(answered: unknown): z.infer<typeof Account> {
  const parsed = Account.safeParse(answered)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.map(({ path, message }) => ({ path: path.join('.') || '(root)', message }))
  throw new SchemaDrift(IDENTITY_ENDPOINT, issues)
}
