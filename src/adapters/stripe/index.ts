/** The Stripe adapter: `durable-integrations/stripe`. */

export type { Keyed, Page } from './call.ts'
export { StripeClient } from './client.ts'
export { StripeCredentials } from './credentials.ts'
export type { PageParams } from './paging.ts'
export { StripeProvider } from './provider.ts'
export type { CaptureCharge, Charges, ListCharges } from './resources/charges.ts'
export type { CreateCustomer, Customers, ListCustomers, UpdateCustomer } from './resources/customers.ts'
export type { Disputes, ListDisputes, UpdateDispute } from './resources/disputes.ts'
export type { Events, ListEvents } from './resources/events.ts'
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
export type { CreateWebhookEndpoint, UpdateWebhookEndpoint, WebhookEndpoints } from './resources/webhook-endpoints.ts'
export { StripeWebhookReceived } from './webhooks.ts'
