/** https://docs.stripe.com/api/webhook_endpoints */
import type Stripe from 'stripe'
import type { Maybe, PageParams } from '../stripe-arguments.ts'
import { checkNames, checkText, checkTexts, given, pageParams, pathOf, required } from '../stripe-arguments.ts'
import type { Keyed, Page, StripeAccount } from '../stripe-call.ts'
import { readStripe, writeStripe } from '../stripe-call.ts'

type Endpoint = Stripe.Response<Stripe.WebhookEndpoint>
export interface CreateWebhookEndpoint extends Keyed {
  readonly url: string
  /** Such as `charge.succeeded`; `*`: all. At least one. */
  readonly enabledEvents: readonly Stripe.WebhookEndpointCreateParams.EnabledEvent[]
  readonly description?: Maybe<string>
  readonly metadata?: Maybe<Stripe.Emptyable<Stripe.MetadataParam>>
}

export interface UpdateWebhookEndpoint extends Keyed {
  readonly id: string
  readonly url?: Maybe<string>
  readonly enabledEvents?: Maybe<readonly Stripe.WebhookEndpointUpdateParams.EnabledEvent[]>
  readonly description?: Maybe<string>
  readonly disabled?: Maybe<boolean>
  /** An empty text clears it whole. */
  readonly metadata?: Maybe<Stripe.Emptyable<Stripe.MetadataParam>>
}

const PATH = 'webhook_endpoints'

export class WebhookEndpoints {
  constructor(private readonly account: StripeAccount) {}

  /** Its `secret` is told here only: keep it as `webhook_secret` of the credentials. */
  async create(endpoint: CreateWebhookEndpoint): Promise<Endpoint> {
    const { url, enabledEvents, description, metadata, idempotencyKey } = endpoint
    checkText('url', url)
    checkNames('enabledEvents', required('enabledEvents', enabledEvents))
    const params = { url, enabled_events: [...enabledEvents], ...given({ description, metadata }) }
    return writeStripe(this.account, { endpoint: PATH, params, idempotencyKey }, (stripe) =>
      stripe.webhookEndpoints.create(params),
    )
  }

  async retrieve({ id }: { readonly id: string }): Promise<Endpoint> {
    return readStripe(this.account, pathOf(PATH, id), (stripe) => stripe.webhookEndpoints.retrieve(id))
  }

  async update(endpoint: UpdateWebhookEndpoint): Promise<Endpoint> {
    const { id, url, enabledEvents, description, disabled, metadata, idempotencyKey } = endpoint
    const path = pathOf(PATH, id)
    checkTexts({ url })
    checkNames('enabledEvents', enabledEvents)
    const params = given({
      url,
      enabled_events: enabledEvents && [...enabledEvents],
      description,
      disabled,
      metadata,
    })
    return writeStripe(this.account, { endpoint: path, params, idempotencyKey }, (stripe) =>
      stripe.webhookEndpoints.update(id, params),
    )
  }

  async delete({
    id,
    idempotencyKey,
  }: Keyed & { readonly id: string }): Promise<Stripe.Response<Stripe.DeletedWebhookEndpoint>> {
    const endpoint = pathOf(PATH, id)
    return writeStripe(this.account, { endpoint, idempotencyKey, method: 'DELETE' }, (stripe) =>
      stripe.webhookEndpoints.del(id),
    )
  }

  async list(page: PageParams = {}): Promise<Page<Stripe.WebhookEndpoint>> {
    const params = given(pageParams(page))
    return readStripe(this.account, PATH, (stripe) => stripe.webhookEndpoints.list(params), params)
  }
}
