/** The Stripe adapter: `durable-integrations/stripe`. */
export { StripeClient } from './client.ts'
export { StripeCredentials } from './credentials.ts'
export { StripeWebhookReceived } from './events.ts'
export { StripeProvider } from './provider.ts'
