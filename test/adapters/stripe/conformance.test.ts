import { afterAll, describe, it } from 'vitest'
import { StripeProvider } from '../../../src/adapters/stripe/index.ts'
import { describeProvider, stripeSigner } from '../../../src/testing/index.ts'

const SECRET = 'whsec_4eC39HqLyjWDarjtT1zdp7dcTYooMQau'

const ANSWERS: Readonly<Record<string, unknown>> = {
  '/v1/balance': { object: 'balance', available: [{ amount: 5, currency: 'eur' }], livemode: false, pending: [] },
  '/v1/account': {
    id: 'acct_1032D82eZvKYlo2C',
    object: 'account',
    email: 'shop@example.com',
    business_profile: { name: 'The shop' },
  },
  '/v1/customers': { id: 'cus_1', object: 'customer', email: 'ada@example.com' },
  '/v1/events': { object: 'list', url: '/v1/events', data: [event('evt_7'), event('evt_6')], has_more: false },
}

const ENDPOINT = {
  id: 'we_7',
  object: 'webhook_endpoint',
  url: 'https://host.example/integrations/stripe/7/webhook',
  status: 'enabled',
  enabled_events: ['*'],
}

describeProvider(
  'stripe',
  () => new StripeProvider(),
  {
    credentials: { api_key: 'sk_test_26PHem9AhJZvU623DfE1x4sd', webhook_secret: SECRET },
    // Of when the events are.
    kit: { now: '2026-01-02T00:00:00Z' },
    api: ({ url, method }) => {
      const { pathname } = new URL(url)
      if (pathname === '/v1/webhook_endpoints')
        return Response.json(
          method === 'POST' ? { ...ENDPOINT, secret: SECRET } : { object: 'list', data: [ENDPOINT], has_more: false },
        )
      if (pathname in ANSWERS) return Response.json(ANSWERS[pathname], { headers: { 'request-id': 'req_1' } })
      throw new TypeError(`no answer to ${pathname} is played`)
    },
    write: (integration, idempotencyKey) =>
      new StripeProvider().client(integration).customers.create({ email: 'ada@example.com', idempotencyKey }),
    webhook: {
      signer: stripeSigner,
      body: event('evt_1'),
      otherBody: event('evt_2'),
      secret: SECRET,
      otherSecret: 'whsec_of_the_rotation_that_comes',
      signatureHeader: 'stripe-signature',
      toleranceSeconds: 300,
    },
  },
  { describe, it, afterAll },
)

function event(id: string) {
  return {
    id,
    object: 'event',
    api_version: '2026-10-28.endive',
    created: 1_767_225_600,
    data: { object: { id: 'ch_1', object: 'charge', amount: 100, currency: 'eur' } },
    livemode: false,
    pending_webhooks: 1,
    type: 'charge.succeeded',
  }
}
