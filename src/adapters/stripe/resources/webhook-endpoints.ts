/** https://docs.stripe.com/api/webhook_endpoints */
import type Stripe from 'stripe'
import type { StripeAccount } from '../account.ts'
import type { PageParams } from '../paging.ts'
import { pageParams } from '../paging.ts'
import { checkNames, checkText, checkTexts, given, pathOf, required } from '../stripe-arguments.ts'
import type { Keyed, Page } from '../stripe-call.ts'
import { callStripe } from '../stripe-call.ts'

type Endpoint = Stripe.Response<Stripe.WebhookEndpoint>
type Maybe<T> = T | null | undefined

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
    checkTexts({ idempotencyKey })
    const params = { url, enabled_events: [...enabledEvents], ...given({ description, metadata }) }
    return callStripe(this.account, {
      endpoint: PATH,
      method: 'POST',
      params,
      idempotencyKey,
      send: (stripe) => stripe.webhookEndpoints.create(params),
    })
  }

  async retrieve({ id }: { readonly id: string }): Promise<Endpoint> {
    return callStripe(this.account, {
      endpoint: pathOf(PATH, id),
      method: 'GET',
      send: (stripe) => stripe.webhookEndpoints.retrieve(id),
    })
  }

  async update(endpoint: UpdateWebhookEndpoint): Promise<Endpoint> {
    const { id, url, enabledEvents, description, disabled, metadata, idempotencyKey } = endpoint
    const path = pathOf(PATH, id)
    checkTexts({ url, idempotencyKey })
    checkNames('enabledEvents', enabledEvents)
    const params = given({
      url,
      enabled_events: enabledEvents && [...enabledEvents],
      description,
      disabled,
      metadata,
    })
    return callStripe(this.account, {
      endpoint: path,
      method: 'POST',
      params,
      idempotencyKey,
      send: (stripe) => stripe.webhookEndpoints.update(id, params),
    })
  }

  async delete({
    id,
    idempotencyKey,
  }: Keyed & { readonly id: string }): Promise<Stripe.Response<Stripe.DeletedWebhookEndpoint>> {
    const endpoint = pathOf(PATH, id)
    checkTexts({ idempotencyKey })
    return callStripe(this.account, {
      endpoint,
      method: 'DELETE',
      idempotencyKey,
      send: (stripe) => stripe.webhookEndpoints.del(id),
    })
  }

  async list(page: PageParams = {}): Promise<Page<Stripe.WebhookEndpoint>> {
    const params = given(pageParams(page))
    return callStripe(this.account, {
      endpoint: PATH,
      method: 'GET',
      params,
      send: (stripe) => stripe.webhookEndpoints.list(params),
    })
  }
}
