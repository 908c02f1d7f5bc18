/** https://docs.stripe.com/api/payment_intents */
import type Stripe from 'stripe'
import type { Maybe, PageParams } from '../stripe-arguments.ts'
import { checkPositive, checkText, checkTexts, given, pageParams, pathOf, required } from '../stripe-arguments.ts'
import type { Keyed, Page, StripeAccount } from '../stripe-call.ts'
import { readStripe, writeStripe } from '../stripe-call.ts'

type Intent = Stripe.Response<Stripe.PaymentIntent>
export interface CreatePaymentIntent extends Keyed {
  /** In the currency's smallest unit. */
  readonly amount: number
  readonly currency: string
  readonly customer?: Maybe<string>
  readonly receiptEmail?: Maybe<string>
  readonly description?: Maybe<string>
  readonly metadata?: Maybe<Stripe.MetadataParam>
  /** Whether the account's own settings say how it may be paid. Default true; always sent. */
  readonly automaticPaymentMethods?: Maybe<boolean>
  readonly paymentMethod?: Maybe<string>
  /** `manual`: confirming reserves the amount, `capture()` takes it. */
  readonly captureMethod?: Maybe<Stripe.PaymentIntentCreateParams.CaptureMethod>
}

export interface UpdatePaymentIntent extends Keyed {
  readonly id: string
  readonly description?: Maybe<string>
  readonly receiptEmail?: Maybe<string>
  /** An empty text clears it whole. */
  readonly metadata?: Maybe<Stripe.Emptyable<Stripe.MetadataParam>>
}

export interface ConfirmPaymentIntent extends Keyed {
  readonly id: string
  readonly paymentMethod?: Maybe<string>
  /** Where payers come back to, whose payment method sends them elsewhere. */
  readonly returnUrl?: Maybe<string>
}

export interface CapturePaymentIntent extends Keyed {
  readonly id: string
  /** Default: all of it. */
  readonly amountToCapture?: Maybe<number>
}

export interface CancelPaymentIntent extends Keyed {
  readonly id: string
  readonly cancellationReason?: Maybe<Stripe.PaymentIntentCancelParams.CancellationReason>
}

export interface ListPaymentIntents extends PageParams {
  readonly customer?: Maybe<string>
}

const PATH = 'payment_intents'

export class PaymentIntents {
  constructor(private readonly account: StripeAccount) {}

  async create(intent: CreatePaymentIntent): Promise<Intent> {
    const { amount, currency, customer, paymentMethod, idempotencyKey } = intent
    checkPositive({ amount: required('amount', amount) })
    checkText('currency', currency)
    checkTexts({ customer, paymentMethod })
    const params = {
      amount,
      currency,
      automatic_payment_methods: { enabled: intent.automaticPaymentMethods ?? true },
      ...given({
        customer,
        receipt_email: intent.receiptEmail,
        description: intent.description,
        metadata: intent.metadata,
        payment_method: paymentMethod,
        capture_method: intent.captureMethod,
      }),
    }
    return writeStripe(this.account, { endpoint: PATH, params, idempotencyKey }, (stripe) =>
      stripe.paymentIntents.create(params),
    )
  }

  async retrieve({ id }: { readonly id: string }): Promise<Intent> {
    return readStripe(this.account, pathOf(PATH, id), (stripe) => stripe.paymentIntents.retrieve(id))
  }

  async update({ id, description, receiptEmail, metadata, idempotencyKey }: UpdatePaymentIntent): Promise<Intent> {
    const endpoint = pathOf(PATH, id)
    const params = given({ description, receipt_email: receiptEmail, metadata })
    return writeStripe(this.account, { endpoint, params, idempotencyKey }, (stripe) =>
      stripe.paymentIntents.update(id, params),
    )
  }

  async confirm({ id, paymentMethod, returnUrl, idempotencyKey }: ConfirmPaymentIntent): Promise<Intent> {
    const endpoint = pathOf(PATH, id, 'confirm')
    checkTexts({ paymentMethod, returnUrl })
    const params = given({ payment_method: paymentMethod, return_url: returnUrl })
    return writeStripe(this.account, { endpoint, params, idempotencyKey }, (stripe) =>
      stripe.paymentIntents.confirm(id, params),
    )
  }

  async capture({ id, amountToCapture, idempotencyKey }: CapturePaymentIntent): Promise<Intent> {
    const endpoint = pathOf(PATH, id, 'capture')
    checkPositive({ amountToCapture })
    const params = given({ amount_to_capture: amountToCapture })
    return writeStripe(this.account, { endpoint, params, idempotencyKey }, (stripe) =>
      stripe.paymentIntents.capture(id, params),
    )
  }

  async cancel({ id, cancellationReason, idempotencyKey }: CancelPaymentIntent): Promise<Intent> {
    const endpoint = pathOf(PATH, id, 'cancel')
    const params = given({ cancellation_reason: cancellationReason })
    return writeStripe(this.account, { endpoint, params, idempotencyKey }, (stripe) =>
      stripe.paymentIntents.cancel(id, params),
    )
  }

  async list({ customer, ...page }: ListPaymentIntents = {}): Promise<Page<Stripe.PaymentIntent>> {
    checkTexts({ customer })
    const params = given({ customer, ...pageParams(page) })
    return readStripe(this.account, PATH, (stripe) => stripe.paymentIntents.list(params), params)
  }
}
