/** What a failed call to Stripe comes out as: thrown, stored and classified. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { StripeClient } from '../../../src/adapters/stripe/index.ts'
import { StripeProvider } from '../../../src/adapters/stripe/index.ts'
import { callStripe } from '../../../src/adapters/stripe/stripe-call.ts'
import { classifyStripeFailure } from '../../../src/adapters/stripe/stripe-provider.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import { createTestIntegrations } from '../../../src/testing/index.ts'
import { API_KEY, StripeKit } from './stripe-kit.ts'

const stripe = new StripeKit()
let integration: Integration
let client: StripeClient

beforeAll(() => stripe.open(), 60_000)
afterAll(() => stripe.kit.close())
beforeEach(async () => {
  integration = await stripe.account()
  client = stripe.provider.client(integration)
})

const create = () => client.paymentIntents.create({ amount: 1, currency: 'eur' })

describe('an error that Stripe answers', () => {
  it.each([
    [400, 'invalid_request_error', undefined, 'StripeInvalidRequestError', 'client'],
    [400, 'idempotency_error', undefined, 'StripeIdempotencyError', 'client'],
    [400, 'invalid_request_error', 'rate_limit', 'StripeRateLimitError', 'throttle'],
    [401, 'invalid_request_error', undefined, 'StripeAuthenticationError', 'client'],
    [402, 'card_error', 'card_declined', 'StripeCardError', 'client'],
    [403, 'invalid_request_error', undefined, 'StripePermissionError', 'client'],
    [404, 'invalid_request_error', 'resource_missing', 'StripeInvalidRequestError', 'client'],
    [409, 'invalid_request_error', 'idempotency_key_in_use', 'StripeAPIError', 'client'],
    [429, 'invalid_request_error', 'lock_timeout', 'StripeRateLimitError', 'throttle'],
    [500, 'api_error', undefined, 'StripeAPIError', 'upstream'],
    [501, 'api_error', undefined, 'StripeAPIError', 'client'],
    [503, 'api_error', undefined, 'StripeAPIError', 'upstream'],
  ])(
    'with %i, %s and code %s is the SDK‘s, its request id and class on the row',
    async (statusCode, rawType, code, type, failureClass) => {
      stripe.script({
        status: statusCode,
        headers: { 'request-id': 'req_9' },
        body: { error: { type: rawType, message: 'no', ...(code === undefined ? {} : { code }) } },
      })
      await expect(create()).rejects.toMatchObject({ name: type, type, statusCode, requestId: 'req_9', rawType })
      expect(await stripe.rows(integration)).toMatchObject([{ statusCode, providerRequestId: 'req_9', failureClass }])
    },
  )

  it('is on the row as it came but for its secrets, under its own name', async () => {
    const declined = {
      error: {
        type: 'card_error',
        code: 'card_declined',
        message: 'Your card was declined.',
        payment_intent: { id: 'pi_1', client_secret: 'pi_1_secret_of-the-test' },
      },
    }
    stripe.script({ status: 402, body: declined })
    const thrown = await create().catch((error: unknown) => error)
    expect(thrown).toMatchObject({ body: declined, payment_intent: declined.error.payment_intent })
    expect(Object.keys(thrown as object)).toEqual(expect.not.arrayContaining(['body', 'name']))
    const [row] = await stripe.rows(integration)
    expect(row?.error).toBe('StripeCardError: Your card was declined. (card_declined)')
    const { payment_intent: intent, ...rest } = declined.error
    expect(JSON.parse(row?.responseData ?? 'null')).toEqual({
      error: { ...rest, payment_intent: { ...intent, client_secret: '[REDACTED]' } },
    })
  })

  it('of 429 holds up every call for as long as Retry-After says', async () => {
    stripe.script({ status: 429, headers: { 'retry-after': '40' }, body: { error: { type: 'x', message: 'slow' } } })
    await expect(create()).rejects.toMatchObject({ type: 'StripeRateLimitError' })
    const until = stripe.kit.clock.now().getTime() + 40_000
    expect(await integration.rateLimit()).toMatchObject({ suppressedUntil: new Date(until) })
  })
})

describe('what fails below the SDK', () => {
  it('is thrown as it is: a broken connection', async () => {
    stripe.script('cut', 'cut')
    await expect(create()).rejects.toMatchObject({
      name: 'TypeError',
      message: 'fetch failed',
      cause: { code: 'ECONNRESET' },
    })
    expect(stripe.wire.requests).toHaveLength(1)
    expect(await stripe.rows(integration)).toMatchObject([{ statusCode: null, failureClass: 'upstream' }])
  })

  it.each(['ECONNRESET', 'EPIPE'])('is not sent again by the SDK: %s', async (code) => {
    const broken = Object.assign(new Error('broken'), { code })
    let sent = 0
    stripe.play(() => {
      sent += 1
      throw broken
    })
    await expect(create()).rejects.toBe(broken)
    expect(sent).toBe(1)
  })

  it('is thrown as it is: a body that breaks off', async () => {
    const broken = Object.assign(new TypeError('terminated'), { code: 'UND_ERR_SOCKET' })
    stripe.play(() => new Response(breaksOff('{"id":"pi_1",', broken), { headers: { 'request-id': 'req_9' } }))
    await expect(create()).rejects.toBe(broken)
    expect(await stripe.rows(integration)).toMatchObject([
      { failureClass: 'upstream', responseData: null, statusCode: 200, providerRequestId: 'req_9' },
    ])
  })

  it.each([
    [402, 'client', null],
    [429, 'throttle', null],
    [500, 'upstream', 'unknown'],
  ])('does not hide a status of %i: the class is %s, the key‘s state %s', async (status, failureClass, priorState) => {
    const broken = Object.assign(new TypeError('terminated'), { code: 'UND_ERR_SOCKET' })
    stripe.play(() => new Response(breaksOff('{"error":', broken), { status }))
    await expect(client.refunds.create({ charge: 'ch_1', idempotencyKey: 'k' })).rejects.toMatchObject({
      code: 'http_error',
      status,
      body: null,
      cause: broken,
    })
    expect(await stripe.rows(integration)).toContainEqual(expect.objectContaining({ statusCode: status, failureClass }))
    expect((await integration.idempotencyRecord('k'))?.priorState ?? null).toBe(priorState)
  })

  it('leaves a key whose answer broke off open for a repeat, which Stripe answers as before', async () => {
    const keyed = () => client.refunds.create({ charge: 'ch_1', idempotencyKey: 'k' })
    stripe.play(() => new Response(breaksOff('{"id":', new TypeError('terminated'))))
    await expect(keyed()).rejects.toThrow('terminated')
    expect(await integration.idempotencyRecord('k')).toMatchObject({ priorState: 'unknown' })
    stripe.script({ body: { id: 're_1' } })
    expect(await keyed()).toEqual({ id: 're_1' })
  })

  it('is thrown as it is: the deadline', async () => {
    stripe.script('hang')
    await expect(balance({ timeoutMs: 20 })).rejects.toMatchObject({ code: 'request_timeout' })
    expect(await stripe.rows(integration)).toMatchObject([{ failureClass: 'upstream' }])
  })

  it('is thrown as it is: the caller‘s own reason to stop', async () => {
    const caller = new AbortController()
    const reason = new Error('enough')
    stripe.play(() => {
      caller.abort(reason)
      return new Promise(() => {})
    })
    await expect(balance({ signal: caller.signal })).rejects.toBe(reason)
    expect(await stripe.rows(integration)).toMatchObject([{ failureClass: 'unknown' }])
  })

  it('is thrown as it is: an address that is refused', async () => {
    const provider = new StripeProvider({ baseUrl: 'http://127.0.0.1:12111' })
    const kit = await createTestIntegrations({ providers: { stripe: provider }, allowRequests: true })
    try {
      const here = await kit.integrations.create({ provider: 'stripe', name: 'x', credentials: { api_key: API_KEY } })
      const refused = provider.client(here).paymentIntents.create({ amount: 1, currency: 'eur', idempotencyKey: 'k' })
      await expect(refused).rejects.toMatchObject({ code: 'egress_refused', host: '127.0.0.1' })
      expect(await here.idempotencyRecord('k')).toBeNull()
      expect(await provider.healthCheck(here)).toBe(false)
    } finally {
      await kit.close()
    }
  })
})

describe('an answer that is not Stripe‘s', () => {
  it.each([
    ['a proxy‘s page', 502, '<html>Bad Gateway</html>', 'upstream'],
    ['a gateway‘s own JSON', 503, '{"message":"no upstream"}', 'upstream'],
    ['a gateway‘s refusal', 403, '{"message":"forbidden"}', 'client'],
    ['a limit of a gateway', 429, 'slow down', 'throttle'],
    ['an error that is null', 400, '{"error":null}', 'client'],
    ['an error that is a number', 500, '{"error":1}', 'upstream'],
    ['nothing', 500, '', 'upstream'],
    ['a list', 500, '[]', 'upstream'],
    ['null', 404, 'null', 'client'],
    ['a redirect that leads nowhere', 304, '', 'unknown'],
  ])('is the error of its status: %s', async (_, status, body, failureClass) => {
    stripe.play(() => new Response(body === '' ? null : body, { status }))
    await expect(create()).rejects.toMatchObject({ code: 'http_error', status })
    expect(await stripe.rows(integration)).toMatchObject([{ statusCode: status, failureClass }])
  })

  it.each([
    ['a page', '<html>Sign in to the hotel‘s network</html>'],
    ['nothing', ''],
    ['a list', '[]'],
    ['null', 'null'],
    ['half an object', '{"id":"pi_1"'],
    ['an error', '{"error":{"type":"api_error","message":"no"}}'],
    ['an error of a gateway', '{"error":true}'],
  ])('is no answer, though its status is 200: %s', async (_, body) => {
    stripe.script({ body })
    await expect(
      client.paymentIntents.create({ amount: 1, currency: 'eur', idempotencyKey: 'k' }),
    ).rejects.toMatchObject({
      code: 'schema_drift',
      endpoint: 'payment_intents',
    })
    expect(await stripe.rows(integration)).toMatchObject([{ failureClass: 'unknown' }])
    expect(await integration.idempotencyRecord('k')).toMatchObject({ priorState: 'unknown' })
  })

  it('of a keyed write sent elsewhere is an error, and its key stays open: Stripe redirects nothing', async () => {
    stripe.script({ status: 307, headers: { location: 'https://elsewhere.example' } })
    const keyed = client.paymentIntents.create({ amount: 1, currency: 'eur', idempotencyKey: 'k' })
    await expect(keyed).rejects.toMatchObject({ code: 'http_error', status: 307 })
    expect(stripe.wire.requests).toHaveLength(1)
    expect(await integration.idempotencyRecord('k')).toMatchObject({ priorState: 'unknown' })
  })
})

describe('an answer that comes too late', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  /** Sends one call and goes on to the last millisecond before its end, and then to its end. */
  async function afterItsTime<T>(seconds: number, call: () => Promise<T>): Promise<T> {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    let giveLate = (_: Response): void => {}
    const sent = new Promise<AbortSignal>((resolve) => {
      stripe.play(({ signal }) => {
        resolve(signal)
        return new Promise((late) => {
          giveLate = late
        })
      })
    })
    const outcome = call()
    // Looked at below: until then nobody is to call it unhandled.
    outcome.catch(() => {})
    const signal = await sent
    await vi.advanceTimersByTimeAsync(seconds * 1_000 - 1)
    expect(signal.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(signal.aborted).toBe(true)
    giveLate(Response.json({ object: 'balance', id: 're_late' }))
    vi.useRealTimers()
    return outcome
  }

  it('after 30 s of an operation is none', async () => {
    await expect(afterItsTime(30, create)).rejects.toMatchObject({ code: 'request_timeout', name: 'TimeoutError' })
    expect(await stripe.rows(integration)).toMatchObject([
      { statusCode: null, responseData: null, failureClass: 'upstream' },
    ])
  })

  it('of a keyed write leaves its key open: it is sent again with the same header', async () => {
    const keyed = () => client.refunds.create({ charge: 'ch_1', idempotencyKey: 'order-6735' })
    await expect(afterItsTime(30, keyed)).rejects.toMatchObject({ code: 'request_timeout' })
    expect(await integration.idempotencyRecord('order-6735')).toMatchObject({ priorState: 'unknown' })
    stripe.script({ body: { id: 're_1', object: 'refund' } })
    expect(await keyed()).toMatchObject({ id: 're_1' })
    expect(stripe.wire.requests.map(({ headers }) => headers.get('idempotency-key'))).toEqual(['order-6735'])
  })
})

describe('Stripe‘s notices', () => {
  it('are not written into the process’s warnings', async () => {
    const warnings = vi.spyOn(process, 'emitWarning')
    stripe.script({ headers: { 'stripe-notice': 'a new version is out' }, body: { object: 'balance' } })
    await client.balance()
    expect(warnings).not.toHaveBeenCalled()
    warnings.mockRestore()
  })
})

describe('the class of an error', () => {
  it.each([
    ['of a connection, by the SDK', { type: 'StripeConnectionError' }, 'upstream'],
    ['of a limit', { type: 'StripeRateLimitError', statusCode: 429 }, 'throttle'],
    ['of a limit said with 400', { type: 'StripeRateLimitError', statusCode: 400 }, 'throttle'],
    ['of a card', { type: 'StripeCardError', statusCode: 402 }, 'client'],
    ['of the API', { type: 'StripeAPIError', statusCode: 500 }, 'upstream'],
    ['of the API, without a status', { type: 'StripeAPIError' }, 'unknown'],
    ['of a signature', { type: 'StripeSignatureVerificationError' }, 'unknown'],
    ['that is not the SDK‘s', Object.assign(new Error('x'), { statusCode: 500 }), null],
    ['of another kind', { type: 'card_error' }, null],
    ['that is none', undefined, null],
    ['that is a text', 'StripeAPIError', null],
    ['that is null', null, null],
  ])('%s is %j -> %s', (_, error, failureClass) => {
    expect(classifyStripeFailure(error)).toBe(failureClass)
  })
})

function balance(options: { timeoutMs?: number; signal?: AbortSignal }) {
  return callStripe(
    { integration, baseUrl: 'https://api.stripe.com' },
    { endpoint: 'balance', method: 'GET', attempts: 1, ...options, send: (sdk) => sdk.balance.retrieve() },
  )
}

function breaksOff(text: string, reason: Error): ReadableStream<Uint8Array> {
  let isSent = false
  return new ReadableStream({
    pull(controller) {
      if (isSent) controller.error(reason)
      else controller.enqueue(new TextEncoder().encode(text))
      isSent = true
    },
  })
}
