/** https://docs.stripe.com/api/charges */
import type Stripe from 'stripe'
import type { StripeAccount } from '../account.ts'
import type { PageParams } from '../paging.ts'
import { pageParams } from '../paging.ts'
import { checkPositive, checkTexts, given, pathOf } from '../stripe-arguments.ts'
import type { Keyed, Page } from '../stripe-call.ts'
import { callStripe } from '../stripe-call.ts'

type Maybe<T> = T | null | undefined

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
    return callStripe(this.account, {
      endpoint: pathOf(PATH, id),
      method: 'GET',
      send: (stripe) => stripe.charges.retrieve(id),
    })
  }

  async capture(charge: CaptureCharge): Promise<Stripe.Response<Stripe.Charge>> {
    const { id, amount, receiptEmail, idempotencyKey } = charge
    const endpoint = pathOf(PATH, id, 'capture')
    checkPositive({ amount })
    checkTexts({ idempotencyKey })
    const params = given({ amount, receipt_email: receiptEmail })
    return callStripe(this.account, {
      endpoint,
      method: 'POST',
      params,
      idempotencyKey,
      send: (stripe) => stripe.charges.capture(id, params),
    })
  }

  async list({ customer, paymentIntent, ...page }: ListCharges = {}): Promise<Page<Stripe.Charge>> {
    checkTexts({ customer, paymentIntent })
    const params = given({ customer, payment_intent: paymentIntent, ...pageParams(page) })
    return callStripe(this.account, {
      endpoint: PATH,
      method: 'GET',
      params,
      send: (stripe) => stripe.charges.list(params),
    })
  }
}
