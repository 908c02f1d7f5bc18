/** https://docs.stripe.com/api/charges */
import type Stripe from 'stripe'
import type { Maybe, PageParams } from '../stripe-arguments.ts'
import { checkPositive, checkTexts, given, pageParams, pathOf } from '../stripe-arguments.ts'
import type { Keyed, Page, StripeAccount } from '../stripe-call.ts'
import { readStripe, writeStripe } from '../stripe-call.ts'

export interface CaptureCharge extends Keyed {
  readonly id: string
  /** In the currency's smallest unit. Default: all of it. */
  readonly amount?: Maybe<number>
  readonly receiptEmail?: Maybe<string>
}

export interface ListCharges extends PageParams {
  readonly customer?: Maybe<string>
  readonly paymentIntent?: Maybe<string>
}

const PATH = 'charges'

export class Charges {
  constructor(private readonly account: StripeAccount) {}

  async retrieve({ id }: { readonly id: string }): Promise<Stripe.Response<Stripe.Charge>> {
    return readStripe(this.account, pathOf(PATH, id), (stripe) => stripe.charges.retrieve(id))
  }

  async capture(charge: CaptureCharge): Promise<Stripe.Response<Stripe.Charge>> {
    const { id, amount, receiptEmail, idempotencyKey } = charge
    const endpoint = pathOf(PATH, id, 'capture')
    checkPositive({ amount })
    const params = given({ amount, receipt_email: receiptEmail })
    return writeStripe(this.account, { endpoint, params, idempotencyKey }, (stripe) =>
      stripe.charges.capture(id, params),
    )
  }

  async list({ customer, paymentIntent, ...page }: ListCharges = {}): Promise<Page<Stripe.Charge>> {
    checkTexts({ customer, paymentIntent })
    const params = given({ customer, payment_intent: paymentIntent, ...pageParams(page) })
    return readStripe(this.account, PATH, (stripe) => stripe.charges.list(params), params)
  }
}
