/** The Stripe provider: credentials, base URL, identity, health, what is kept out of the rows. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { StripeClient, StripeCredentials, StripeProvider } from '../../../src/adapters/stripe/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import { StripeKit } from './stripe-kit.ts'

const stripe = new StripeKit()
let integration: Integration

beforeAll(() => stripe.open(), 60_000)
afterAll(() => stripe.kit.close())
beforeEach(async () => {
  integration = await stripe.account()
})

describe('credentials', () => {
  const secrets = [{ secret: 'whsec_b', expires_at: '2026-03-01T00:00:00Z' }, { secret: 'whsec_c' }]
  it.each([
    ['a live key', { api_key: 'sk_live_1' }],
    ['a test key', { api_key: 'sk_test_1' }],
    ['with the publishable key of the same mode', { api_key: 'sk_live_1', publishable_key: 'pk_live_1' }],
    ['with a webhook secret', { api_key: 'sk_test_1', webhook_secret: 'whsec_a' }],
    ['with secrets of a rotation', { api_key: 'sk_test_1', webhook_secret: 'whsec_a', webhook_secrets: secrets }],
    [
      'whose optional ones are null',
      { api_key: 'sk_test_1', publishable_key: null, webhook_secret: null, webhook_secrets: null },
    ],
    ['with more than is known', { api_key: 'sk_test_1', note: 'from the vault' }],
  ])('are taken: %s', (_, credentials) => {
    expect(StripeCredentials.parse(credentials)).toEqual(credentials)
  })

  it.each([
    ['none', {}, 'api_key'],
    ['a blank key', { api_key: '' }, 'api_key'],
    ['a publishable key as the secret one', { api_key: 'pk_test_1' }, 'api_key'],
    ['a key of no mode', { api_key: 'sk_1' }, 'api_key'],
    ['a prefix alone', { api_key: 'sk_test_' }, 'api_key'],
    ['a prefix in capitals', { api_key: 'SK_TEST_1' }, 'api_key'],
    ['a key with a line break', { api_key: 'sk_test_1\n' }, 'api_key'],
    ['a key that no header can hold', { api_key: 'sk_test_ü' }, 'api_key'],
    ['a number', { api_key: 1 }, 'api_key'],
    ['a secret key as the publishable one', { api_key: 'sk_test_1', publishable_key: 'sk_test_1' }, 'publishable_key'],
    ['a live key beside a test key', { api_key: 'sk_test_1', publishable_key: 'pk_live_1' }, 'publishable_key'],
    ['a test key beside a live key', { api_key: 'sk_live_1', publishable_key: 'pk_test_1' }, 'publishable_key'],
    ['a webhook secret of another kind', { api_key: 'sk_test_1', webhook_secret: 'secret' }, 'webhook_secret'],
    ['a blank webhook secret', { api_key: 'sk_test_1', webhook_secret: '' }, 'webhook_secret'],
    [
      'a rotation’s secret of another kind',
      { api_key: 'sk_test_1', webhook_secrets: [{ secret: 'x' }] },
      'webhook_secrets.0.secret',
    ],
  ])('are refused: %s', (_, credentials, path) => {
    const issues = StripeCredentials.safeParse(credentials).error?.issues ?? []
    expect(issues.map((issue) => issue.path.join('.'))).toContain(path)
  })

  it('are read by the first call, not before', async () => {
    let reads = 0
    const watched = {
      ...integration,
      credentialsArray() {
        reads += 1
        return integration.credentialsArray()
      },
    } satisfies Integration
    const client = new StripeClient(watched)
    expect(reads).toBe(0)
    stripe.script({ body: { object: 'balance' } })
    await client.balance()
    expect(reads).toBeGreaterThan(0)
  })

  it('that do not fit cost nothing: no key, no unit of the limit, no row', async () => {
    const unfit = { ...integration, credentialsArray: () => ({ api_key: 'rk_test_1' }) } satisfies Integration
    stripe.script()
    const refund = new StripeClient(unfit).refunds.create({ charge: 'ch_1', idempotencyKey: 'k' })
    await expect(refund).rejects.toMatchObject({ name: 'ZodError', message: expect.stringContaining('api_key') })
    expect(await stripe.provider.healthCheck(unfit)).toBe(false)
    expect(await integration.idempotencyRecord('k')).toBeNull()
    expect(await integration.rateLimit()).toMatchObject({ used: 0 })
    expect(await stripe.rows(integration)).toEqual([])
  })

  it('that are changed are sent from the next snapshot on', async () => {
    await integration.updateCredentials({ api_key: 'sk_test_rolled' })
    stripe.script({ body: { object: 'balance' } })
    await stripe.provider.client(await integration.refresh()).balance()
    expect(stripe.wire.requests.map(({ headers }) => headers.get('authorization'))).toEqual(['Bearer sk_test_rolled'])
  })
})

describe('the base URL', () => {
  it('is where every call goes', async () => {
    stripe.script({ body: { object: 'balance' } }, { body: { object: 'balance' } })
    await new StripeProvider({ baseUrl: 'http://127.0.0.1:12111' }).client(integration).balance()
    await new StripeProvider({ baseUrl: 'http://127.0.0.1:12111/' }).healthCheck(integration)
    expect(stripe.wire.requests.map(({ url }) => url.href)).toEqual([
      'http://127.0.0.1:12111/v1/balance',
      'http://127.0.0.1:12111/v1/balance',
    ])
  })

  it.each([
    'api.stripe.com',
    'ftp://api.stripe.com',
    'https://api.stripe.com/v1',
    'https://api.stripe.com?a=b',
    'https://user:word@api.stripe.com',
    '',
  ])('is an origin, not %s', (baseUrl) => {
    const refused = expect.objectContaining({ code: 'invalid_argument', argument: 'baseUrl' })
    expect(() => new StripeProvider({ baseUrl })).toThrow(refused)
    expect(() => new StripeClient(integration, { baseUrl })).toThrow(refused)
  })
})

describe('the account', () => {
  it('is who the key belongs to', async () => {
    stripe.script({
      body: { id: 'acct_1', email: 'shop@example.com', business_profile: { name: 'Books' }, object: 'account' },
    })
    expect(await integration.authenticatedUser()).toEqual({
      id: 'acct_1',
      name: 'Books',
      email: 'shop@example.com',
      username: null,
    })
    expect(stripe.wire.requests.map(({ url }) => url.pathname)).toEqual(['/v1/account'])
    expect(await stripe.rows(integration)).toMatchObject([{ endpoint: 'account', method: 'GET', failureClass: null }])
  })

  it.each([
    ['null', { id: 'acct_1', email: null, business_profile: null }],
    ['left out', { id: 'acct_1' }],
    ['a profile without a name', { id: 'acct_1', email: null, business_profile: { name: null } }],
  ])('has an id and nothing else: %s', async (_, body) => {
    stripe.script({ body })
    expect(await integration.authenticatedUser()).toEqual({ id: 'acct_1', name: null, email: null, username: null })
  })

  it.each([
    ['no id', { object: 'account' }],
    ['an empty id', { id: '' }],
  ])('is an answer that does not fit: %s', async (_, body) => {
    stripe.script({ body })
    await expect(integration.authenticatedUser()).rejects.toMatchObject({ code: 'schema_drift', endpoint: 'account' })
    expect(await stripe.rows(integration)).toMatchObject([{ failureClass: 'unknown', statusCode: 200 }])
  })
})

describe('health', () => {
  it('is the balance', async () => {
    stripe.script({ body: { object: 'balance' } })
    expect(await stripe.provider.healthCheck(integration)).toBe(true)
    expect(await stripe.rows(integration)).toMatchObject([
      { endpoint: 'balance', method: 'GET', responseData: '{"object":"balance"}' },
    ])
  })

  it.each([
    ['bad credentials', { status: 401, body: { error: { type: 'invalid_request_error', message: 'no' } } }],
    ['a page', { body: '<html></html>' }],
    ['something else', { body: { object: 'account' } }],
    ['no kind', { body: { available: [] } }],
  ] as const)('is false: %s', async (_, reply) => {
    stripe.script(reply)
    expect(await stripe.provider.healthCheck(integration)).toBe(false)
    expect(await stripe.rows(integration)).toMatchObject([{ endpoint: 'balance', failureClass: expect.any(String) }])
  })
})

describe('a row', () => {
  it('has no client secret and no signing secret; the caller has both', async () => {
    const intent = { id: 'pi_1', client_secret: 'pi_1_secret_a' }
    stripe.script(
      { body: intent },
      { body: { object: 'list', data: [intent], has_more: false } },
      { body: { id: 'we_1', secret: 'whsec_new' } },
      { body: { object: 'list', data: [{ id: 'we_1', secret: 'whsec_new' }], has_more: false } },
    )
    const client = stripe.provider.client(integration)
    expect(await client.paymentIntents.retrieve({ id: 'pi_1' })).toEqual(intent)
    expect((await client.paymentIntents.list()).data).toEqual([intent])
    const endpoint = { url: 'https://shop.example', enabledEvents: ['*'] as const }
    expect(await client.webhookEndpoints.create(endpoint)).toMatchObject({ secret: 'whsec_new' })
    expect((await client.webhookEndpoints.list()).data).toMatchObject([{ secret: 'whsec_new' }])
    expect((await stripe.rows(integration)).map(({ responseData }) => JSON.parse(responseData ?? 'null'))).toEqual([
      { id: 'pi_1', client_secret: '[REDACTED]' },
      { object: 'list', data: [{ id: 'pi_1', client_secret: '[REDACTED]' }], has_more: false },
      { id: 'we_1', secret: '[REDACTED]' },
      { object: 'list', data: [{ id: 'we_1', secret: '[REDACTED]' }], has_more: false },
    ])
  })
})

describe('limits', () => {
  it('are 100 calls a second and 24 hours for a key', () => {
    expect(stripe.provider.defaultRateLimit()).toMatchObject({ limit: 100, seconds: 1, window: 'fixed' })
    expect(stripe.provider).toMatchObject({
      supportsIdempotency: true,
      idempotencyHeader: 'Idempotency-Key',
      idempotencyWindowSeconds: 86_400,
    })
  })
})
