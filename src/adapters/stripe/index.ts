/** The Stripe adapter: `durable-integrations/stripe`. */

export { StripeClient } from './client.ts'
export type { CaptureCharge, Charges, ListCharges } from './resources/charges.ts'
export type { CreateCustomer, Customers, ListCustomers, UpdateCustomer } from './resources/customers.ts'
export type { Disputes, ListDisputes, UpdateDispute } from './resources/disputes.ts'
export type {
  CancelPaymentIntent,
  CapturePaymentIntent,
  ConfirmPaymentIntent,
  CreatePaymentIntent,
  ListPaymentIntents,
  PaymentIntents,
  UpdatePaymentIntent,
} from './resources/payment-intents.ts'
export type { CreateRefund, ListRefunds, Refunds } from './resources/refunds.ts'
export type { Events, ListEvents } from './resources/stripe-events.ts'
export type { CreateWebhookEndpoint, UpdateWebhookEndpoint, WebhookEndpoints } from './resources/webhook-endpoints.ts'
export type { Maybe, PageParams } from './stripe-arguments.ts'
export type { Keyed, Page } from './stripe-call.ts'
export { StripeCredentials } from './stripe-credentials.ts'
export { StripeProvider } from './stripe-provider.ts'
export { StripeWebhookReceived } from './stripe-webhooks.ts'
