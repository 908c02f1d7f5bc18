/** The operations of one Stripe account. Rule: docs/behaviour/stripe.md, "Operations". */
import type Stripe from 'stripe'
import type { Integration } from '../../provider.ts'
import { Charges } from './resources/charges.ts'
import { Customers } from './resources/customers.ts'
import { Disputes } from './resources/disputes.ts'
import { PaymentIntents } from './resources/payment-intents.ts'
import { Refunds } from './resources/refunds.ts'
import { Events } from './resources/stripe-events.ts'
import { WebhookEndpoints } from './resources/webhook-endpoints.ts'
import type { StripeAccount } from './stripe-call.ts'
import { checkedBaseUrl, readStripe } from './stripe-call.ts'

/**
 * Every operation is one `integration.request()`: reads have 3 attempts, writes 1. What Stripe answers is returned as the SDK
 * has it, and never null.
 */
export class StripeClient {
  readonly paymentIntents: PaymentIntents
  readonly refunds: Refunds
  readonly charges: Charges
  readonly customers: Customers
  readonly disputes: Disputes
  readonly events: Events
  readonly webhookEndpoints: WebhookEndpoints
  readonly #account: StripeAccount

  /**
   * The credentials are read by the first call.
   *
   * @param options.baseUrl where the API is, such as a stand-in's in tests. Default: Stripe's
   */
  constructor(integration: Integration, { baseUrl }: { readonly baseUrl?: string | undefined } = {}) {
    this.#account = { integration, baseUrl: checkedBaseUrl(baseUrl) }
    this.paymentIntents = new PaymentIntents(this.#account)
    this.refunds = new Refunds(this.#account)
    this.charges = new Charges(this.#account)
    this.customers = new Customers(this.#account)
    this.disputes = new Disputes(this.#account)
    this.events = new Events(this.#account)
    this.webhookEndpoints = new WebhookEndpoints(this.#account)
  }

  /** https://docs.stripe.com/api/accounts/retrieve: the one of the key. */
  async account(): Promise<Stripe.Response<Stripe.Account>> {
    return readStripe(this.#account, 'account', (stripe) => stripe.accounts.retrieveCurrent())
  }

  /** https://docs.stripe.com/api/balance */
  async balance(): Promise<Stripe.Response<Stripe.Balance>> {
    return readStripe(this.#account, 'balance', (stripe) => stripe.balance.retrieve())
  }
}
