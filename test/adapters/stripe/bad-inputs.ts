/** What the operations of the Stripe adapter refuse before anything is sent. */
import type { StripeClient } from '../../../src/adapters/stripe/index.ts'

type Refused = (client: StripeClient) => Promise<unknown>

export interface BadInput {
  readonly operation: string
  readonly argument: string
  /** By the value that is refused. */
  readonly calls: Readonly<Record<string, Refused>>
}

const BLANK = ['', ' ', '\n\t']
const NOT_POSITIVE = [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]
const shown = (value: unknown): string => (typeof value === 'number' ? String(value) : JSON.stringify(value))

/** As callers without types give it. */
function untyped(value: unknown) {
  return JSON.parse(JSON.stringify(value))
}

/** Every operation with an id, given that id. */
const withId: Readonly<Record<string, (client: StripeClient, id: string) => Promise<unknown>>> = {
  'paymentIntents.retrieve': (client, id) => client.paymentIntents.retrieve({ id }),
  'paymentIntents.update': (client, id) => client.paymentIntents.update({ id, description: 'x' }),
  'paymentIntents.confirm': (client, id) => client.paymentIntents.confirm({ id }),
  'paymentIntents.capture': (client, id) => client.paymentIntents.capture({ id }),
  'paymentIntents.cancel': (client, id) => client.paymentIntents.cancel({ id }),
  'refunds.retrieve': (client, id) => client.refunds.retrieve({ id }),
  'charges.retrieve': (client, id) => client.charges.retrieve({ id }),
  'charges.capture': (client, id) => client.charges.capture({ id }),
  'customers.retrieve': (client, id) => client.customers.retrieve({ id }),
  'customers.update': (client, id) => client.customers.update({ id, name: 'x' }),
  'customers.delete': (client, id) => client.customers.delete({ id }),
  'disputes.retrieve': (client, id) => client.disputes.retrieve({ id }),
  'disputes.update': (client, id) => client.disputes.update({ id, submit: false }),
  'disputes.close': (client, id) => client.disputes.close({ id }),
  'events.retrieve': (client, id) => client.events.retrieve({ id }),
  'webhookEndpoints.retrieve': (client, id) => client.webhookEndpoints.retrieve({ id }),
  'webhookEndpoints.update': (client, id) => client.webhookEndpoints.update({ id, disabled: true }),
  'webhookEndpoints.delete': (client, id) => client.webhookEndpoints.delete({ id }),
}

/** Every text, beside the ids above, that is refused when it is blank. */
const withText: readonly [string, string, (client: StripeClient, text: string) => Promise<unknown>][] = [
  ['paymentIntents.create', 'currency', (c, currency) => c.paymentIntents.create({ amount: 1, currency })],
  [
    'paymentIntents.create',
    'customer',
    (c, customer) => c.paymentIntents.create({ amount: 1, currency: 'eur', customer }),
  ],
  [
    'paymentIntents.create',
    'paymentMethod',
    (c, paymentMethod) => c.paymentIntents.create({ amount: 1, currency: 'eur', paymentMethod }),
  ],
  [
    'paymentIntents.confirm',
    'paymentMethod',
    (c, paymentMethod) => c.paymentIntents.confirm({ id: 'pi_1', paymentMethod }),
  ],
  ['paymentIntents.confirm', 'returnUrl', (c, returnUrl) => c.paymentIntents.confirm({ id: 'pi_1', returnUrl })],
  ['paymentIntents.list', 'customer', (c, customer) => c.paymentIntents.list({ customer })],
  ['refunds.create', 'paymentIntent', (c, paymentIntent) => c.refunds.create({ paymentIntent })],
  ['refunds.create', 'charge', (c, charge) => c.refunds.create({ charge })],
  ['refunds.list', 'paymentIntent', (c, paymentIntent) => c.refunds.list({ paymentIntent })],
  ['refunds.list', 'charge', (c, charge) => c.refunds.list({ charge })],
  ['charges.list', 'customer', (c, customer) => c.charges.list({ customer })],
  ['charges.list', 'paymentIntent', (c, paymentIntent) => c.charges.list({ paymentIntent })],
  ['customers.list', 'email', (c, email) => c.customers.list({ email })],
  ['disputes.list', 'charge', (c, charge) => c.disputes.list({ charge })],
  ['disputes.list', 'paymentIntent', (c, paymentIntent) => c.disputes.list({ paymentIntent })],
  ['events.list', 'types', (c, type) => c.events.list({ types: ['charge.failed', type] })],
  ['webhookEndpoints.create', 'url', (c, url) => c.webhookEndpoints.create({ url, enabledEvents: ['*'] })],
  [
    'webhookEndpoints.create',
    'enabledEvents',
    (c, event) => c.webhookEndpoints.create({ url: 'https://shop.example', enabledEvents: untyped([event]) }),
  ],
  ['webhookEndpoints.update', 'url', (c, url) => c.webhookEndpoints.update({ id: 'we_1', url })],
  [
    'webhookEndpoints.update',
    'enabledEvents',
    (c, event) => c.webhookEndpoints.update({ id: 'we_1', enabledEvents: untyped([event]) }),
  ],
]

/** Every list, with its page. */
const lists: Readonly<Record<string, (client: StripeClient, page: Page) => Promise<unknown>>> = {
  'paymentIntents.list': (client, page) => client.paymentIntents.list(page),
  'refunds.list': (client, page) => client.refunds.list(page),
  'charges.list': (client, page) => client.charges.list(page),
  'customers.list': (client, page) => client.customers.list(page),
  'disputes.list': (client, page) => client.disputes.list(page),
  'events.list': (client, page) => client.events.list(page),
  'webhookEndpoints.list': (client, page) => client.webhookEndpoints.list(page),
}
interface Page {
  readonly limit?: number
  readonly startingAfter?: string
  readonly endingBefore?: string
}

const amounts: readonly [string, string, (client: StripeClient, amount: number) => Promise<unknown>][] = [
  ['paymentIntents.create', 'amount', (c, amount) => c.paymentIntents.create({ amount, currency: 'eur' })],
  [
    'paymentIntents.capture',
    'amountToCapture',
    (c, amountToCapture) => c.paymentIntents.capture({ id: 'pi_1', amountToCapture }),
  ],
  ['refunds.create', 'amount', (c, amount) => c.refunds.create({ charge: 'ch_1', amount })],
  ['charges.capture', 'amount', (c, amount) => c.charges.capture({ id: 'ch_1', amount })],
]

/** Every write, with its key. */
const keyed: Readonly<Record<string, (client: StripeClient, idempotencyKey: string) => Promise<unknown>>> = {
  'paymentIntents.create': (c, idempotencyKey) =>
    c.paymentIntents.create({ amount: 1, currency: 'eur', idempotencyKey }),
  'paymentIntents.update': (c, idempotencyKey) => c.paymentIntents.update({ id: 'pi_1', idempotencyKey }),
  'paymentIntents.confirm': (c, idempotencyKey) => c.paymentIntents.confirm({ id: 'pi_1', idempotencyKey }),
  'paymentIntents.capture': (c, idempotencyKey) => c.paymentIntents.capture({ id: 'pi_1', idempotencyKey }),
  'paymentIntents.cancel': (c, idempotencyKey) => c.paymentIntents.cancel({ id: 'pi_1', idempotencyKey }),
  'refunds.create': (c, idempotencyKey) => c.refunds.create({ charge: 'ch_1', idempotencyKey }),
  'charges.capture': (c, idempotencyKey) => c.charges.capture({ id: 'ch_1', idempotencyKey }),
  'customers.create': (c, idempotencyKey) => c.customers.create({ idempotencyKey }),
  'customers.update': (c, idempotencyKey) => c.customers.update({ id: 'cus_1', idempotencyKey }),
  'customers.delete': (c, idempotencyKey) => c.customers.delete({ id: 'cus_1', idempotencyKey }),
  'disputes.update': (c, idempotencyKey) => c.disputes.update({ id: 'du_1', idempotencyKey }),
  'disputes.close': (c, idempotencyKey) => c.disputes.close({ id: 'du_1', idempotencyKey }),
  'webhookEndpoints.create': (c, idempotencyKey) =>
    c.webhookEndpoints.create({ url: 'https://shop.example', enabledEvents: ['*'], idempotencyKey }),
  'webhookEndpoints.update': (c, idempotencyKey) => c.webhookEndpoints.update({ id: 'we_1', idempotencyKey }),
  'webhookEndpoints.delete': (c, idempotencyKey) => c.webhookEndpoints.delete({ id: 'we_1', idempotencyKey }),
}

function refusing<T>(
  operation: string,
  argument: string,
  values: readonly T[],
  call: (client: StripeClient, value: T) => Promise<unknown>,
): BadInput {
  const calls = values.map((value): [string, Refused] => [shown(value), (client) => call(client, value)])
  return { operation, argument, calls: Object.fromEntries(calls) }
}

export const badInputs: readonly BadInput[] = [
  ...Object.entries(withId).map(([operation, call]) => refusing(operation, 'id', BLANK, call)),
  refusing(
    'paymentIntents.retrieve, that is none of Stripe,',
    'id',
    ['.', '..', 'x'.repeat(256), 'pi 1', 'pi_\ud800', 'pi_\u0000'],
    (client, id) => client.paymentIntents.retrieve({ id }),
  ),
  refusing('paymentIntents.retrieve, untyped,', 'id', [{}, { id: null }, { id: 1 }], (client, given) =>
    client.paymentIntents.retrieve(untyped(given)),
  ),
  ...withText.map(([operation, argument, call]) => refusing(operation, argument, BLANK, call)),
  ...amounts.map(([operation, argument, call]) => refusing(operation, argument, NOT_POSITIVE, call)),
  refusing('paymentIntents.create, untyped,', 'amount', [{}, { amount: null }, { amount: '2000' }], (client, given) =>
    client.paymentIntents.create(untyped({ currency: 'eur', ...given })),
  ),
  ...Object.entries(lists).flatMap(([operation, call]) => [
    refusing(operation, 'limit', NOT_POSITIVE, (client, limit) => call(client, { limit })),
    refusing(operation, 'startingAfter', BLANK, (client, startingAfter) => call(client, { startingAfter })),
    refusing(operation, 'endingBefore', BLANK, (client, endingBefore) => call(client, { endingBefore })),
  ]),
  ...Object.entries(keyed).map(([operation, call]) =>
    refusing(operation, 'idempotencyKey', [...BLANK, 'x'.repeat(192), 'заказ-7', 'a\nb', 'order-7 ', ' order-7'], call),
  ),
  refusing(
    'refunds.create, of none and of both,',
    'paymentIntent',
    [{}, { paymentIntent: null, charge: null }, { paymentIntent: 'pi_1', charge: 'ch_1' }],
    (client, given) => client.refunds.create(given),
  ),
  refusing('events.list, none,', 'types', [[]], (client, types) => client.events.list({ types })),
  refusing('webhookEndpoints.create, none,', 'enabledEvents', [[]], (client, enabledEvents) =>
    client.webhookEndpoints.create({ url: 'https://shop.example', enabledEvents }),
  ),
  refusing(
    'webhookEndpoints.create, untyped,',
    'enabledEvents',
    [{}, { enabledEvents: null }, { enabledEvents: '*' }],
    (client, given) => client.webhookEndpoints.create(untyped({ url: 'https://shop.example', ...given })),
  ),
  refusing('webhookEndpoints.update, none,', 'enabledEvents', [[]], (client, enabledEvents) =>
    client.webhookEndpoints.update({ id: 'we_1', enabledEvents }),
  ),
]
