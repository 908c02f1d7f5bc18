/** https://docs.stripe.com/api/disputes */
import type Stripe from 'stripe'
import type { Maybe, PageParams } from '../stripe-arguments.ts'
import { checkTexts, given, pageParams, pathOf } from '../stripe-arguments.ts'
import type { Keyed, Page, StripeAccount } from '../stripe-call.ts'
import { readStripe, writeStripe } from '../stripe-call.ts'

type Dispute = Stripe.Response<Stripe.Dispute>
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
    return readStripe(this.account, pathOf(PATH, id), (stripe) => stripe.disputes.retrieve(id))
  }

  async update({ id, evidence, submit, metadata, idempotencyKey }: UpdateDispute): Promise<Dispute> {
    const endpoint = pathOf(PATH, id)
    const params = given({ evidence, submit, metadata })
    return writeStripe(this.account, { endpoint, params, idempotencyKey }, (stripe) =>
      stripe.disputes.update(id, params),
    )
  }

  /** Gives it up: the dispute is lost. */
  async close({ id, idempotencyKey }: Keyed & { readonly id: string }): Promise<Dispute> {
    const endpoint = pathOf(PATH, id, 'close')
    return writeStripe(this.account, { endpoint, idempotencyKey }, (stripe) => stripe.disputes.close(id))
  }

  async list({ charge, paymentIntent, ...page }: ListDisputes = {}): Promise<Page<Stripe.Dispute>> {
    checkTexts({ charge, paymentIntent })
    const params = given({ charge, payment_intent: paymentIntent, ...pageParams(page) })
    return readStripe(this.account, PATH, (stripe) => stripe.disputes.list(params), params)
  }
}
