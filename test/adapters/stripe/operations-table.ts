/** Every operation of the Stripe adapter: how it is called, what goes out, what comes back. */
import type { StripeClient } from '../../../src/adapters/stripe/index.ts'

type Key = string | null

export interface StripeOperation {
  readonly name: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** As it is stored; also the path below `/v1/`. */
  readonly endpoint: string
  /** With every parameter. @param key of writes; reads leave it alone */
  call(client: StripeClient, key: Key): Promise<unknown>
  /** What is sent then, as Stripe names it; null: nothing. */
  readonly params: Readonly<Record<string, unknown>> | null
  /** With every parameter that may be left out null. */
  callWithNulls(client: StripeClient): Promise<unknown>
  /** What is sent then; null: nothing. */
  readonly paramsOfNulls: Readonly<Record<string, unknown>> | null
  /** `object` of what Stripe answers; `deleted`: with `deleted: true`. */
  readonly returns: string
}

const page = { limit: 2, startingAfter: 'obj_a', endingBefore: 'obj_z' }
const sentPage = { limit: 2, starting_after: 'obj_a', ending_before: 'obj_z' }
const noPage = { limit: null, startingAfter: null, endingBefore: null }
const metadata = { order: '6735' }

export const operations: readonly StripeOperation[] = [
  {
    name: 'paymentIntents.create',
    method: 'POST',
    endpoint: 'payment_intents',
    call: (client, idempotencyKey) =>
      client.paymentIntents.create({
        amount: 2000,
        currency: 'eur',
        customer: 'cus_1',
        receiptEmail: 'jenny@example.com',
        description: 'A book',
        metadata,
        automaticPaymentMethods: false,
        paymentMethod: 'pm_1',
        captureMethod: 'manual',
        idempotencyKey,
      }),
    params: {
      amount: 2000,
      currency: 'eur',
      customer: 'cus_1',
      receipt_email: 'jenny@example.com',
      description: 'A book',
      metadata,
      automatic_payment_methods: { enabled: false },
      payment_method: 'pm_1',
      capture_method: 'manual',
    },
    callWithNulls: (client) =>
      client.paymentIntents.create({
        amount: 1,
        currency: 'eur',
        customer: null,
        receiptEmail: null,
        description: null,
        metadata: null,
        paymentMethod: null,
        captureMethod: null,
        idempotencyKey: null,
      }),
    paramsOfNulls: { amount: 1, currency: 'eur', automatic_payment_methods: { enabled: true } },
    returns: 'payment_intent',
  },
  {
    name: 'paymentIntents.retrieve',
    method: 'GET',
    endpoint: 'payment_intents/pi_1',
    call: (client) => client.paymentIntents.retrieve({ id: 'pi_1' }),
    params: null,
    callWithNulls: (client) => client.paymentIntents.retrieve({ id: 'pi_1' }),
    paramsOfNulls: null,
    returns: 'payment_intent',
  },
  {
    name: 'paymentIntents.update',
    method: 'POST',
    endpoint: 'payment_intents/pi_1',
    call: (client, idempotencyKey) =>
      client.paymentIntents.update({
        id: 'pi_1',
        description: 'Two books',
        receiptEmail: 'jenny@example.com',
        metadata,
        idempotencyKey,
      }),
    params: { description: 'Two books', receipt_email: 'jenny@example.com', metadata },
    callWithNulls: (client) =>
      client.paymentIntents.update({
        id: 'pi_1',
        description: null,
        receiptEmail: null,
        metadata: null,
        idempotencyKey: null,
      }),
    paramsOfNulls: null,
    returns: 'payment_intent',
  },
  {
    name: 'paymentIntents.confirm',
    method: 'POST',
    endpoint: 'payment_intents/pi_1/confirm',
    call: (client, idempotencyKey) =>
      client.paymentIntents.confirm({
        id: 'pi_1',
        paymentMethod: 'pm_card_visa',
        returnUrl: 'https://shop.example/paid',
        idempotencyKey,
      }),
    params: { payment_method: 'pm_card_visa', return_url: 'https://shop.example/paid' },
    callWithNulls: (client) =>
      client.paymentIntents.confirm({ id: 'pi_1', paymentMethod: null, returnUrl: null, idempotencyKey: null }),
    paramsOfNulls: null,
    returns: 'payment_intent',
  },
  {
    name: 'paymentIntents.capture',
    method: 'POST',
    endpoint: 'payment_intents/pi_1/capture',
    call: (client, idempotencyKey) =>
      client.paymentIntents.capture({ id: 'pi_1', amountToCapture: 1500, idempotencyKey }),
    params: { amount_to_capture: 1500 },
    callWithNulls: (client) =>
      client.paymentIntents.capture({ id: 'pi_1', amountToCapture: null, idempotencyKey: null }),
    paramsOfNulls: null,
    returns: 'payment_intent',
  },
  {
    name: 'paymentIntents.cancel',
    method: 'POST',
    endpoint: 'payment_intents/pi_1/cancel',
    call: (client, idempotencyKey) =>
      client.paymentIntents.cancel({ id: 'pi_1', cancellationReason: 'duplicate', idempotencyKey }),
    params: { cancellation_reason: 'duplicate' },
    callWithNulls: (client) =>
      client.paymentIntents.cancel({ id: 'pi_1', cancellationReason: null, idempotencyKey: null }),
    paramsOfNulls: null,
    returns: 'payment_intent',
  },
  {
    name: 'paymentIntents.list',
    method: 'GET',
    endpoint: 'payment_intents',
    call: (client) => client.paymentIntents.list({ customer: 'cus_1', ...page }),
    params: { customer: 'cus_1', ...sentPage },
    callWithNulls: (client) => client.paymentIntents.list({ customer: null, ...noPage }),
    paramsOfNulls: null,
    returns: 'list',
  },
  {
    name: 'refunds.create',
    method: 'POST',
    endpoint: 'refunds',
    call: (client, idempotencyKey) =>
      client.refunds.create({
        paymentIntent: 'pi_1',
        amount: 500,
        reason: 'requested_by_customer',
        metadata,
        idempotencyKey,
      }),
    params: { payment_intent: 'pi_1', amount: 500, reason: 'requested_by_customer', metadata },
    callWithNulls: (client) =>
      client.refunds.create({
        paymentIntent: null,
        charge: 'ch_1',
        amount: null,
        reason: null,
        metadata: null,
        idempotencyKey: null,
      }),
    paramsOfNulls: { charge: 'ch_1' },
    returns: 'refund',
  },
  {
    name: 'refunds.retrieve',
    method: 'GET',
    endpoint: 'refunds/re_1',
    call: (client) => client.refunds.retrieve({ id: 're_1' }),
    params: null,
    callWithNulls: (client) => client.refunds.retrieve({ id: 're_1' }),
    paramsOfNulls: null,
    returns: 'refund',
  },
  {
    name: 'refunds.list',
    method: 'GET',
    endpoint: 'refunds',
    call: (client) => client.refunds.list({ paymentIntent: 'pi_1', charge: 'ch_1', ...page }),
    params: { payment_intent: 'pi_1', charge: 'ch_1', ...sentPage },
    callWithNulls: (client) => client.refunds.list({ paymentIntent: null, charge: null, ...noPage }),
    paramsOfNulls: null,
    returns: 'list',
  },
  {
    name: 'charges.retrieve',
    method: 'GET',
    endpoint: 'charges/ch_1',
    call: (client) => client.charges.retrieve({ id: 'ch_1' }),
    params: null,
    callWithNulls: (client) => client.charges.retrieve({ id: 'ch_1' }),
    paramsOfNulls: null,
    returns: 'charge',
  },
  {
    name: 'charges.capture',
    method: 'POST',
    endpoint: 'charges/ch_1/capture',
    call: (client, idempotencyKey) =>
      client.charges.capture({ id: 'ch_1', amount: 700, receiptEmail: 'jenny@example.com', idempotencyKey }),
    params: { amount: 700, receipt_email: 'jenny@example.com' },
    callWithNulls: (client) =>
      client.charges.capture({ id: 'ch_1', amount: null, receiptEmail: null, idempotencyKey: null }),
    paramsOfNulls: null,
    returns: 'charge',
  },
  {
    name: 'charges.list',
    method: 'GET',
    endpoint: 'charges',
    call: (client) => client.charges.list({ customer: 'cus_1', paymentIntent: 'pi_1', ...page }),
    params: { customer: 'cus_1', payment_intent: 'pi_1', ...sentPage },
    callWithNulls: (client) => client.charges.list({ customer: null, paymentIntent: null, ...noPage }),
    paramsOfNulls: null,
    returns: 'list',
  },
  {
    name: 'customers.create',
    method: 'POST',
    endpoint: 'customers',
    call: (client, idempotencyKey) =>
      client.customers.create({
        email: 'jenny@example.com',
        name: 'Jenny Rosen',
        description: 'A reader',
        phone: '+15555550123',
        metadata,
        idempotencyKey,
      }),
    params: {
      email: 'jenny@example.com',
      name: 'Jenny Rosen',
      description: 'A reader',
      phone: '+15555550123',
      metadata,
    },
    callWithNulls: (client) =>
      client.customers.create({
        email: null,
        name: null,
        description: null,
        phone: null,
        metadata: null,
        idempotencyKey: null,
      }),
    paramsOfNulls: null,
    returns: 'customer',
  },
  {
    name: 'customers.retrieve',
    method: 'GET',
    endpoint: 'customers/cus_1',
    call: (client) => client.customers.retrieve({ id: 'cus_1' }),
    params: null,
    callWithNulls: (client) => client.customers.retrieve({ id: 'cus_1' }),
    paramsOfNulls: null,
    returns: 'customer',
  },
  {
    name: 'customers.update',
    method: 'POST',
    endpoint: 'customers/cus_1',
    call: (client, idempotencyKey) =>
      client.customers.update({
        id: 'cus_1',
        email: 'jenny@example.com',
        name: 'Jenny Rosen',
        description: 'A writer',
        phone: '+15555550123',
        metadata,
        idempotencyKey,
      }),
    params: {
      email: 'jenny@example.com',
      name: 'Jenny Rosen',
      description: 'A writer',
      phone: '+15555550123',
      metadata,
    },
    callWithNulls: (client) =>
      client.customers.update({
        id: 'cus_1',
        email: null,
        name: null,
        description: null,
        phone: null,
        metadata: null,
        idempotencyKey: null,
      }),
    paramsOfNulls: null,
    returns: 'customer',
  },
  {
    name: 'customers.delete',
    method: 'DELETE',
    endpoint: 'customers/cus_1',
    call: (client, idempotencyKey) => client.customers.delete({ id: 'cus_1', idempotencyKey }),
    params: null,
    callWithNulls: (client) => client.customers.delete({ id: 'cus_1', idempotencyKey: null }),
    paramsOfNulls: null,
    returns: 'deleted',
  },
  {
    name: 'customers.list',
    method: 'GET',
    endpoint: 'customers',
    call: (client) => client.customers.list({ email: 'jenny@example.com', ...page }),
    params: { email: 'jenny@example.com', ...sentPage },
    callWithNulls: (client) => client.customers.list({ email: null, ...noPage }),
    paramsOfNulls: null,
    returns: 'list',
  },
  {
    name: 'disputes.retrieve',
    method: 'GET',
    endpoint: 'disputes/du_1',
    call: (client) => client.disputes.retrieve({ id: 'du_1' }),
    params: null,
    callWithNulls: (client) => client.disputes.retrieve({ id: 'du_1' }),
    paramsOfNulls: null,
    returns: 'dispute',
  },
  {
    name: 'disputes.update',
    method: 'POST',
    endpoint: 'disputes/du_1',
    call: (client, idempotencyKey) =>
      client.disputes.update({
        id: 'du_1',
        evidence: { customer_name: 'Jenny Rosen', uncategorized_text: 'She has the book' },
        submit: false,
        metadata,
        idempotencyKey,
      }),
    params: {
      evidence: { customer_name: 'Jenny Rosen', uncategorized_text: 'She has the book' },
      submit: false,
      metadata,
    },
    callWithNulls: (client) =>
      client.disputes.update({ id: 'du_1', evidence: null, submit: null, metadata: null, idempotencyKey: null }),
    paramsOfNulls: null,
    returns: 'dispute',
  },
  {
    name: 'disputes.close',
    method: 'POST',
    endpoint: 'disputes/du_1/close',
    call: (client, idempotencyKey) => client.disputes.close({ id: 'du_1', idempotencyKey }),
    params: null,
    callWithNulls: (client) => client.disputes.close({ id: 'du_1', idempotencyKey: null }),
    paramsOfNulls: null,
    returns: 'dispute',
  },
  {
    name: 'disputes.list',
    method: 'GET',
    endpoint: 'disputes',
    call: (client) => client.disputes.list({ charge: 'ch_1', paymentIntent: 'pi_1', ...page }),
    params: { charge: 'ch_1', payment_intent: 'pi_1', ...sentPage },
    callWithNulls: (client) => client.disputes.list({ charge: null, paymentIntent: null, ...noPage }),
    paramsOfNulls: null,
    returns: 'list',
  },
  {
    name: 'events.retrieve',
    method: 'GET',
    endpoint: 'events/evt_1',
    call: (client) => client.events.retrieve({ id: 'evt_1' }),
    params: null,
    callWithNulls: (client) => client.events.retrieve({ id: 'evt_1' }),
    paramsOfNulls: null,
    returns: 'event',
  },
  {
    name: 'events.list',
    method: 'GET',
    endpoint: 'events',
    call: (client) => client.events.list({ types: ['charge.succeeded', 'charge.failed'], ...page }),
    params: { types: ['charge.succeeded', 'charge.failed'], ...sentPage },
    callWithNulls: (client) => client.events.list({ types: null, ...noPage }),
    paramsOfNulls: null,
    returns: 'list',
  },
  {
    name: 'webhookEndpoints.create',
    method: 'POST',
    endpoint: 'webhook_endpoints',
    call: (client, idempotencyKey) =>
      client.webhookEndpoints.create({
        url: 'https://shop.example/integrations/stripe/webhook',
        enabledEvents: ['charge.succeeded', 'charge.failed'],
        description: 'Charges',
        metadata,
        idempotencyKey,
      }),
    params: {
      url: 'https://shop.example/integrations/stripe/webhook',
      enabled_events: ['charge.succeeded', 'charge.failed'],
      description: 'Charges',
      metadata,
    },
    callWithNulls: (client) =>
      client.webhookEndpoints.create({
        url: 'https://shop.example/integrations/stripe/webhook',
        enabledEvents: ['*'],
        description: null,
        metadata: null,
        idempotencyKey: null,
      }),
    paramsOfNulls: { url: 'https://shop.example/integrations/stripe/webhook', enabled_events: ['*'] },
    returns: 'webhook_endpoint',
  },
  {
    name: 'webhookEndpoints.retrieve',
    method: 'GET',
    endpoint: 'webhook_endpoints/we_1',
    call: (client) => client.webhookEndpoints.retrieve({ id: 'we_1' }),
    params: null,
    callWithNulls: (client) => client.webhookEndpoints.retrieve({ id: 'we_1' }),
    paramsOfNulls: null,
    returns: 'webhook_endpoint',
  },
  {
    name: 'webhookEndpoints.update',
    method: 'POST',
    endpoint: 'webhook_endpoints/we_1',
    call: (client, idempotencyKey) =>
      client.webhookEndpoints.update({
        id: 'we_1',
        url: 'https://shop.example/webhook',
        enabledEvents: ['*'],
        description: 'All',
        disabled: false,
        metadata,
        idempotencyKey,
      }),
    params: {
      url: 'https://shop.example/webhook',
      enabled_events: ['*'],
      description: 'All',
      disabled: false,
      metadata,
    },
    callWithNulls: (client) =>
      client.webhookEndpoints.update({
        id: 'we_1',
        url: null,
        enabledEvents: null,
        description: null,
        disabled: null,
        metadata: null,
        idempotencyKey: null,
      }),
    paramsOfNulls: null,
    returns: 'webhook_endpoint',
  },
  {
    name: 'webhookEndpoints.delete',
    method: 'DELETE',
    endpoint: 'webhook_endpoints/we_1',
    call: (client, idempotencyKey) => client.webhookEndpoints.delete({ id: 'we_1', idempotencyKey }),
    params: null,
    callWithNulls: (client) => client.webhookEndpoints.delete({ id: 'we_1', idempotencyKey: null }),
    paramsOfNulls: null,
    returns: 'deleted',
  },
  {
    name: 'webhookEndpoints.list',
    method: 'GET',
    endpoint: 'webhook_endpoints',
    call: (client) => client.webhookEndpoints.list(page),
    params: sentPage,
    callWithNulls: (client) => client.webhookEndpoints.list(noPage),
    paramsOfNulls: null,
    returns: 'list',
  },
  {
    name: 'account',
    method: 'GET',
    endpoint: 'account',
    call: (client) => client.account(),
    params: null,
    callWithNulls: (client) => client.account(),
    paramsOfNulls: null,
    returns: 'account',
  },
  {
    name: 'balance',
    method: 'GET',
    endpoint: 'balance',
    call: (client) => client.balance(),
    params: null,
    callWithNulls: (client) => client.balance(),
    paramsOfNulls: null,
    returns: 'balance',
  },
]
