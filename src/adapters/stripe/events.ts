import type { Integration, Json } from '../../provider.ts'
import { ProviderEvent } from '../../provider.ts'

/** A verified webhook of Stripe. A listener that throws fails the webhook, so that it can be tried again. */
export class StripeWebhookReceived extends ProviderEvent {
  static override readonly type = 'stripe.webhook_received'

  constructor(
    integration: Integration,
    /** Of Stripe's event, such as `payment_intent.succeeded`; `unknown` when the body names none. */
    readonly type: string,
    /** Of Stripe's event, such as `evt_…`; empty when the body names none. */
    readonly id: string,
    /** The whole event; null when the body was no JSON. */
    readonly payload: Json,
  ) {
    super(integration)
  }
}
