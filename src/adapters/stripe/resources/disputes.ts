/** https://docs.stripe.com/api/disputes */
import type Stripe from 'stripe'
import type { StripeAccount } from '../account.ts'
import type { PageParams } from '../paging.ts'
import { pageParams } from '../paging.ts'
import { checkTexts, given, pathOf } from '../stripe-arguments.ts'
import type { Keyed, Page } from '../stripe-call.ts'
import { callStripe } from '../stripe-call.ts'

type Dispute = Stripe.Response<Stripe.Dispute>
type Maybe<T> = T | null | undefined

export interface UpdateDispute extends Keyed {
  readonly id: string
  /** As Stripe names its parts, such as `customer_name`. */
  readonly evidence?: Maybe<Stripe.DisputeUpdateParams.Evidence>
  /** Sends the evidence to the bank; there is no way back. */
  readonly submit?: Maybe<boolean>
  /** An empty text clears it whole. */
  readonly metadata?: Maybe<Stripe.Emptyable<Stripe.MetadataParam>>
}

export interface ListDisputes extends PageParams {
  readonly charge?: Maybe<string>
  readonly paymentIntent?: Maybe<string>
}

const PATH = 'disputes'

export class Disputes {
  constructor(private readonly account: StripeAccount) {}

  async retrieve({ id }: { readonly id: string }): Promise<Dispute> {
    return callStripe(this.account, {
      endpoint: pathOf(PATH, id),
      method: 'GET',
      send: (stripe) => stripe.disputes.retrieve(id),
    })
  }

  async update({ id, evidence, submit, metadata, idempotencyKey }: UpdateDispute): Promise<Dispute> {
    const endpoint = pathOf(PATH, id)
    checkTexts({ idempotencyKey })
    const params = given({ evidence, submit, metadata })
    return callStripe(this.account, {
      endpoint,
      method: 'POST',
      params,
      idempotencyKey,
      send: (stripe) => stripe.disputes.update(id, params),
    })
  }

  /** Gives it up: the dispute is lost. */
  async close({ id, idempotencyKey }: Keyed & { readonly id: string }): Promise<Dispute> {
    const endpoint = pathOf(PATH, id, 'close')
    checkTexts({ idempotencyKey })
    return callStripe(this.account, {
      endpoint,
      method: 'POST',
      idempotencyKey,
      send: (stripe) => stripe.disputes.close(id),
    })
  }

  async list({ charge, paymentIntent, ...page }: ListDisputes = {}): Promise<Page<Stripe.Dispute>> {
    checkTexts({ charge, paymentIntent })
    const params = given({ charge, payment_intent: paymentIntent, ...pageParams(page) })
    return callStripe(this.account, {
      endpoint: PATH,
      method: 'GET',
      params,
      send: (stripe) => stripe.disputes.list(params),
    })
  }
}
