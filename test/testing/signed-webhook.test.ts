import Stripe from 'stripe'
import { describe, expect, it } from 'vitest'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import { StripeProvider } from '../../src/adapters/stripe/index.ts'
import type { HmacScheme, SignatureScheme } from '../../src/providers/signatures/scheme-rules.ts'
import { signedPart } from '../../src/providers/signatures/scheme-rules.ts'
import { webhookRequest } from '../../src/providers/webhook-request.ts'
import {
  gitHubSigner,
  hmacSigner,
  signedWebhook,
  signerOf,
  standardWebhooksSigner,
  stripeSigner,
} from '../../src/testing/signed-webhook.ts'
import { verdictOf, verifies } from '../support/signatures.ts'

const UUID = '72d3162e-cc78-11e3-81ab-4c9367dc0958'
const HMAC = { scheme: 'hmac', hash: 'sha256', encoding: 'hex' } as const
const KEY = { secret: 's' }

/** With its query, at the time at which it was signed. */
async function asSent(request: Request) {
  const rawBody = new Uint8Array(await request.arrayBuffer())
  const { method, headers } = request
  const query = new URL(request.url).search.slice(1)
  return webhookRequest({ method, path: '/', query, headers, rawBody, receivedAt: new Date(), toleranceSeconds: 300 })
}

async function received(request: Request) {
  const rawBody = new Uint8Array(await request.arrayBuffer())
  const { method, headers } = request
  const receivedAt = new Date(1_614_265_330_000)
  return webhookRequest({ method, path: '/', query: '', headers, rawBody, receivedAt, toleranceSeconds: 300 })
}

describe('a signed delivery', () => {
  it('of GitHub has its documented signature, its event and its id', async () => {
    // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation
    const request = signedWebhook(gitHubSigner, 'Hello, World!', {
      secret: "It's a Secret to Everybody",
      event: 'issues',
      deliveryId: '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    })
    expect(Object.fromEntries(request.headers)).toMatchObject({
      'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      'x-github-event': 'issues',
      'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    })
    const { signature } = new GitHubProvider()
    expect(verifies(signature, await received(request), ["It's a Secret to Everybody"])).toBe(true)
  })

  it.each([
    ['GitHub', new GitHubProvider(), 's'],
    ['Stripe', new StripeProvider(), 'whsec_s'],
  ])('of %s is signed as the provider says, with the headers beside the signature', async (_, provider, secret) => {
    const options = { secret, at: new Date(1_614_265_330_000), event: 'issues', deliveryId: UUID }
    const sent = signedWebhook(provider, { id: 'evt_1', type: 'issues' }, options)
    const request = await received(sent)
    expect(verifies(provider.signature, request, [secret])).toBe(true)
    expect(verifies(provider.signature, request, ['whsec_other'])).toBe(false)
    expect(provider.webhookDeliveryId(request)).toBe(provider instanceof GitHubProvider ? UUID : 'evt_1')
  })

  it.each<[string, SignatureScheme]>([
    ['a token in the query', { scheme: 'token', query: 'token' }],
    ['an HMAC in the query', { ...HMAC, query: 'sig' }],
    ['an HMAC in the JSON', { ...HMAC, json: 'sig', signed: [signedPart.json('id')] }],
    ['a time in the JSON', { ...HMAC, header: 'x-sig', timestamp: { json: 'at' } }],
    ['a JWT that is the body', { scheme: 'jwt', body: true, algorithms: ['HS256'] }],
  ])('of a provider that signs by %s has it there', async (_, signature) => {
    const request = await asSent(signedWebhook({ signature }, { id: 'e1' }, KEY))
    expect(await verdictOf(signature, request, ['s'])).toMatchObject({ kind: 'verified' })
  })

  it('of a provider that signs by a field of a form is signed with the headers that were given', async () => {
    const signature = { ...HMAC, form: 'sig', signed: [{ part: 'value', of: { form: 'id' } }] } as const
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
    const request = await asSent(signedWebhook({ signature }, 'id=e1', { ...KEY, headers }))
    expect(request.headers.get('content-type')).toBe('application/x-www-form-urlencoded')
    expect(verifies(signature, request, ['s'])).toBe(true)
  })

  it('has a header that was given in place of the one that the provider signs with', () => {
    const options = { ...KEY, headers: { 'X-Sig': 'forged' } }
    expect(signedWebhook({ signature: { ...HMAC, header: 'x-sig' } }, {}, options).headers.get('x-sig')).toBe('forged')
  })

  it('of a provider with a check of its own needs a function that signs', () => {
    expect(() => signedWebhook({}, {}, { secret: 's' })).toThrow('one with `signature` is allowed')
  })

  it.each([
    ['hex', { header: 'x-sig' }],
    ['hex with a prefix', { header: 'x-sig', prefix: 'v1=' }],
    ['base64', { header: 'x-sig', encoding: 'base64' as const }],
  ])('by HMAC in %s is what the scheme hmac takes', async (_, form) => {
    const request = await received(signedWebhook(hmacSigner(form), { a: 1 }, { secret: 's' }))
    const scheme: HmacScheme = { scheme: 'hmac', hash: 'sha256', encoding: 'hex', ...form }
    expect(verifies(scheme, request, ['s'])).toBe(true)
    expect(verifies(scheme, request, ['another'])).toBe(false)
    expect(request.json()).toEqual({ a: 1 })
  })

  it('of Stripe has the header that the SDK makes for tests', () => {
    const at = new Date(1_614_265_330_999)
    const request = signedWebhook(stripeSigner, '{"id":"evt_1"}', { secret: 'whsec_of_the_test', at })
    expect(request.headers.get('stripe-signature')).toBe(
      Stripe.webhooks.generateTestHeaderString({
        payload: '{"id":"evt_1"}',
        secret: 'whsec_of_the_test',
        timestamp: 1_614_265_330,
      }),
    )
  })

  it('by Standard Webhooks signs id, time and body', async () => {
    // https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#verifying-signatures: its key.
    // `openssl dgst -sha256 -mac HMAC` gives the same digest.
    const request = signedWebhook(standardWebhooksSigner, '{"test": 2432232314}', {
      secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      at: new Date(1_614_265_330_000),
      deliveryId: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    })
    expect(Object.fromEntries(request.headers)).toMatchObject({
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    })
    const delivery = await received(request)
    expect(verifies({ scheme: 'standard-webhooks' }, delivery, ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'])).toBe(true)
    expect(verifies({ scheme: 'standard-webhooks' }, delivery, [`whsec_${'A'.repeat(32)}`])).toBe(false)
  })

  it('has an id of its own each time', () => {
    const ids = [1, 2].map(() => signedWebhook(gitHubSigner, {}, { secret: 's' }).headers.get('x-github-delivery'))
    expect(ids[0]).not.toBe(ids[1])
  })
})

describe('a signer of a scheme', () => {
  const sign = (scheme: SignatureScheme, body: unknown = { a: 1 }) =>
    signedWebhook(signerOf(scheme), body, { secret: 's' })

  it.each<[string, SignatureScheme]>([
    ['the body', { ...HMAC, header: 'x-sig' }],
    [
      'a time in a header',
      { ...HMAC, header: 'x-sig', timestamp: { header: 'x-time' }, signed: [signedPart.timestamp, signedPart.body] },
    ],
    ['a token', { scheme: 'token', header: 'x-token' }],
    ['a JWT', { scheme: 'jwt', header: 'authorization', prefix: 'Bearer ', algorithms: ['HS256'] }],
  ])('in a header signs %s so that it verifies', async (_, scheme) => {
    const request = sign(scheme)
    const { method, headers } = request
    const rawBody = new Uint8Array(await request.arrayBuffer())
    const at = { receivedAt: new Date(), toleranceSeconds: 300 }
    const delivery = webhookRequest({ method, path: '/', query: '', headers, rawBody, ...at })
    expect(await verdictOf(scheme, delivery, ['s'])).toMatchObject({ kind: 'verified' })
  })

  it.each<[string, SignatureScheme, string]>([
    ['the query', { ...HMAC, query: 'sig' }, 'the address'],
    ['the body', { ...HMAC, json: 'sig', signed: ['a'] }, 'the body'],
    ['a form', { ...HMAC, form: 'sig', signed: ['a'] }, 'the body'],
    ['a token in the query', { scheme: 'token', query: 'code' }, 'the address'],
    ['a JWT that is the body', { scheme: 'jwt', body: true, algorithms: ['HS256'] }, 'the body'],
    ['a time in the body', { ...HMAC, header: 'x-sig', timestamp: { json: 'at' } }, 'the body'],
    ['both', { ...HMAC, query: 'sig', timestamp: { json: 'at' } }, 'the address and the body'],
  ])('in %s is refused, and does not give a delivery without its signature', (_, scheme, where) => {
    expect(() => sign(scheme)).toThrow(
      expect.objectContaining({
        code: 'invalid_argument',
        argument: 'scheme',
        message: expect.stringMatching(new RegExp(`stand in headers is allowed; this one is written into ${where}:`)),
      }),
    )
  })
})
