/** https://docs.stripe.com/api/refunds */
import type Stripe from 'stripe'
import { InvalidArgumentException } from '../../../provider.ts'
import type { Maybe, PageParams } from '../stripe-arguments.ts'
import { checkPositive, checkTexts, given, isGiven, pageParams, pathOf } from '../stripe-arguments.ts'
import type { Keyed, Page, StripeAccount } from '../stripe-call.ts'
import { readStripe, writeStripe } from '../stripe-call.ts'

/** Of exactly one: a payment intent or a charge. */
export interface CreateRefund extends Keyed {
  readonly paymentIntent?: Maybe<string>
  readonly charge?: Maybe<string>
  /** In the currency's smallest unit. Default: all that is left. */
  readonly amount?: Maybe<number>
  readonly reason?: Maybe<Stripe.RefundCreateParams.Reason>
  readonly metadata?: Maybe<Stripe.Emptyable<Stripe.MetadataParam>>
}

export interface ListRefunds extends PageParams {
  readonly paymentIntent?: Maybe<string>
  readonly charge?: Maybe<string>
}

const PATH = 'refunds'

export class Refunds {
  constructor(private readonly account: StripeAccount) {}

  async create(refund: CreateRefund): Promise<Stripe.Response<Stripe.Refund>> {
    const { paymentIntent, charge, amount, reason, metadata, idempotencyKey } = refund
    checkTexts({ paymentIntent, charge })
    checkPositive({ amount })
    if (isGiven(paymentIntent) === isGiven(charge))
      throw new InvalidArgumentException(
        'paymentIntent',
        `exactly one of paymentIntent and charge is allowed, ${isGiven(charge) ? 'both were' : 'neither was'} given`,
      )
    const params = given({ payment_intent: paymentIntent, charge, amount, reason, metadata })
    return writeStripe(this.account, { endpoint: PATH, params, idempotencyKey }, (stripe) =>
      stripe.refunds.create(params),
    )
  }

  async retrieve({ id }: { readonly id: string }): Promise<Stripe.Response<Stripe.Refund>> {
    return readStripe(this.account, pathOf(PATH, id), (stripe) => stripe.refunds.retrieve(id))
  }

  async list({ paymentIntent, charge, ...page }: ListRefunds = {}): Promise<Page<Stripe.Refund>> {
    checkTexts({ paymentIntent, charge })
    const params = given({ payment_intent: paymentIntent, charge, ...pageParams(page) })
    return readStripe(this.account, PATH, (stripe) => stripe.refunds.list(params), params)
  }
}
