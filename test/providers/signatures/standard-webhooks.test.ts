import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it, vi } from 'vitest'
import { verifyStandardWebhook } from '../../../src/provider.ts'
import { isTimely, soleHeader } from '../../../src/providers/signatures/delivery-values.ts'
import { signStandardWebhook } from '../../../src/providers/signatures/standard-webhooks.ts'
import type { WebhookRequest } from '../../../src/providers/webhook-request.ts'
import { webhookRequest } from '../../../src/providers/webhook-request.ts'
import { standardWebhooksSigner } from '../../../src/testing/signed-webhook.ts'
import { verifies } from '../../support/signatures.ts'

const STANDARD = { scheme: 'standard-webhooks' } as const
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const OTHER = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const ID = 'msg_p5jXN8AQM9LWM0D4loKWxJek'
const NOW = new Date('2026-01-01T00:00:00.999Z')
const BODY = '{"test": 2432232314}'
const seconds = (moment: Date): number => Math.floor(moment.getTime() / 1_000)
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const secretOf = (length: number): string => `whsec_${Buffer.alloc(length, 1).toString('base64')}`

function request(
  headers: Headers | Record<string, string>,
  { rawBody = bytes(BODY), receivedAt = NOW, toleranceSeconds = 300 } = {},
): WebhookRequest {
  const delivery = { method: 'POST', path: '/', query: '', headers: new Headers(headers), rawBody }
  return webhookRequest({ ...delivery, receivedAt, toleranceSeconds })
}

/** Signed by a hand of the test's own. */
function signature({
  id = ID,
  timestamp = String(seconds(NOW)),
  body = BODY,
  secret = SECRET,
}: {
  id?: string
  timestamp?: string
  body?: string
  secret?: string
} = {}): string {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

const signed = (changed: Record<string, string> = {}): Record<string, string> => ({
  'webhook-id': ID,
  'webhook-timestamp': String(seconds(NOW)),
  'webhook-signature': signature(),
  ...changed,
})

describe('a delivery by Standard Webhooks', () => {
  it('with the signature of its id, its time and its raw body verifies', () => {
    expect(verifies(STANDARD, request(signed()), [SECRET])).toBe(true)
  })

  it.each(['webhook-id', 'webhook-timestamp', 'webhook-signature'])('without %s is refused', (name) => {
    const { [name]: _, ...headers } = signed()
    expect(verifies(STANDARD, request(headers), [SECRET])).toBe(false)
    expect(verifies(STANDARD, request({ ...headers, [name]: '' }), [SECRET])).toBe(false)
  })

  it.each(['webhook-id', 'webhook-timestamp', 'webhook-signature'])('with %s twice is refused', (name) => {
    const headers = new Headers(signed())
    headers.append(name, signed()[name] as string)
    expect(verifies(STANDARD, request(headers), [SECRET])).toBe(false)
  })

  it.each<[string, string, boolean]>([
    ['of the secret', signature(), true],
    ['that comes after one of another secret', `${signature({ secret: OTHER })} ${signature()}`, true],
    ['that comes before what is none', `${signature()} v1,xyz v2`, true],
    ['beside a public key’s', `v1a,${'A'.repeat(86)}== ${signature()}`, true],
    ['of another secret', signature({ secret: OTHER }), false],
    ['of another body', signature({ body: '{"test":2432232314}' }), false],
    ['of another id', signature({ id: 'msg_other' }), false],
    ['of another time', signature({ timestamp: String(seconds(NOW) - 1) }), false],
    ['as a public key’s', signature().replace('v1,', 'v1a,'), false],
    ['as version 2', signature().replace('v1,', 'v2,'), false],
    ['without a version', signature().replace('v1,', ''), false],
    ['with a version only', 'v1,', false],
    ['in hexadecimal', `v1,${Buffer.from(signature().slice(3), 'base64').toString('hex')}`, false],
    ['without padding', signature().replace(/=$/, ''), false],
    ['in another spelling', `v1,${respelt(signature().slice(3))}`, false],
    ['a byte short', `v1,${Buffer.alloc(31).toString('base64')}`, false],
    ['a byte long', `v1,${Buffer.alloc(33).toString('base64')}`, false],
    ['no base64', `v1,${'!'.repeat(44)}`, false],
    ['in a list by commas', `${signature({ secret: OTHER })},${signature()}`, false],
  ])('has a signature %s', (_, header, verified) => {
    const delivery = request(signed({ 'webhook-signature': header }))
    expect(verifies(STANDARD, delivery, [SECRET])).toBe(verified)
    expect(verifyStandardWebhook(delivery, [SECRET])).toBe(verified)
  })

  it.each<[string, readonly string[], boolean]>([
    ['no secret', [], false],
    ['an empty one', [''], false],
    ['the prefix only', ['whsec_'], false],
    ['one without the prefix', [SECRET.replace('whsec_', '')], true],
    ['the right one after another', [OTHER, SECRET], true],
    ['the right one before another', [SECRET, OTHER], true],
    ['the right one after what is no key', ['whsec_not base64', SECRET], true],
    ['another one', [OTHER], false],
    ['one with a line break after it', [`${SECRET}\n`], false],
  ])('under %s', (_, secrets, verified) => {
    expect(verifies(STANDARD, request(signed()), secrets)).toBe(verified)
    expect(verifyStandardWebhook(request(signed()), secrets)).toBe(verified)
  })

  it.each([
    [23, false],
    [24, true],
    [64, true],
    [65, false],
  ])('under a key of %i bytes', (length, verified) => {
    const secret = secretOf(length)
    const headers = signed({ 'webhook-signature': signature({ secret }) })
    expect(verifies(STANDARD, request(headers), [secret])).toBe(verified)
  })

  it.each<[string, string, boolean]>([
    ['one character', 'm', true],
    ['255 characters', 'm'.repeat(255), true],
    ['256 characters', 'm'.repeat(256), false],
    ['a dot, so that it could end elsewhere', 'msg.1', false],
    ['a space', 'msg 1', false],
    ['a tab', 'msg\t1', false],
  ])('with an id of %s', (_, id, verified) => {
    const headers = signed({ 'webhook-id': id, 'webhook-signature': signature({ id }) })
    expect(verifies(STANDARD, request(headers), [SECRET])).toBe(verified)
  })

  it('has an id whose very bytes are signed', () => {
    const onTheWire = Buffer.from('é').toString('latin1')
    const headers = signed({ 'webhook-id': onTheWire, 'webhook-signature': signature({ id: 'é' }) })
    expect(verifies(STANDARD, request(headers), [SECRET])).toBe(true)
  })

  it.each<[string, (now: number) => string, boolean]>([
    ['now', (now) => `${now}`, true],
    ['300 s ago', (now) => `${now - 300}`, true],
    ['301 s ago', (now) => `${now - 301}`, false],
    ['in 300 s', (now) => `${now + 300}`, true],
    ['in 301 s', (now) => `${now + 301}`, false],
    ['1970', () => '0', false],
    ['beyond all numbers', () => '9'.repeat(400), false],
    ['in milliseconds', (now) => `${now}000`, false],
    ['with a fraction', (now) => `${now}.0`, false],
    ['with a sign', (now) => `+${now}`, false],
    ['negative', (now) => `-${now}`, false],
    ['in exponent form', (now) => `${now / 10}e1`, false],
    ['in hexadecimal', (now) => `0x${now.toString(16)}`, false],
    ['as ISO 8601', (now) => new Date(now * 1_000).toISOString(), false],
    ['with a space in it', (now) => `${now} 0`, false],
    ['in other digits', () => 'a', false],
  ])('signed at %s', (_, at, verified) => {
    const timestamp = at(seconds(NOW))
    const headers = signed({ 'webhook-timestamp': timestamp, 'webhook-signature': signature({ timestamp }) })
    expect(verifies(STANDARD, request(headers), [SECRET])).toBe(verified)
  })

  it('is held to the tolerance of the configuration, unless the scheme has its own', () => {
    const late = signed({
      'webhook-timestamp': String(seconds(NOW) - 11),
      'webhook-signature': signature({ timestamp: String(seconds(NOW) - 11) }),
    })
    const strict = request(late, { toleranceSeconds: 10 })
    expect(verifies(STANDARD, strict, [SECRET])).toBe(false)
    expect(verifies({ scheme: 'standard-webhooks', tolerance: 11 }, strict, [SECRET])).toBe(true)
  })

  it('is never an error, whatever its headers and whichever the secrets', () => {
    const value = fc.string({ unit: 'grapheme-ascii', maxLength: 60 })
    fc.assert(
      fc.property(value, value, value, fc.array(fc.string({ unit: 'binary' })), (id, timestamp, given, secrets) => {
        const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${given}` }
        expect(verifies(STANDARD, request(headers), secrets)).toBe(false)
      }),
    )
  })
})

describe('verifyStandardWebhook()', () => {
  const OFF = { receivedAt: new Date(0), toleranceSeconds: 0 }

  it.each([
    ['300 s later', 300, true],
    ['301 s later', 301, false],
    ['300 s before', -300, true],
    ['301 s before', -301, false],
  ])('asked %s, within the tolerance that it is given: %d', (_, offset, verified) => {
    const now = new Date(NOW.getTime() + offset * 1_000)
    expect(verifyStandardWebhook(request(signed(), OFF), [SECRET], { tolerance: 300, now })).toBe(verified)
  })

  it('goes by when the delivery came in, and by its tolerance, unless it is told another', () => {
    expect(verifyStandardWebhook(request(signed(), OFF), [SECRET])).toBe(false)
    expect(verifyStandardWebhook(request(signed(), { ...OFF, receivedAt: NOW }), [SECRET])).toBe(true)
    expect(verifyStandardWebhook(request(signed(), OFF), [SECRET], { now: NOW })).toBe(true)
    expect(verifyStandardWebhook(request(signed(), OFF), [SECRET], { tolerance: 4e9 })).toBe(true)
  })

  it('takes a delivery that does not say when it came in for one of this moment, with 300 s', () => {
    const { receivedAt: _at, toleranceSeconds: _tolerance, ...delivery } = request(signed())
    vi.useFakeTimers({ toFake: ['Date'], now: NOW.getTime() + 300_000 })
    expect(verifyStandardWebhook(delivery, [SECRET])).toBe(true)
    vi.setSystemTime(NOW.getTime() + 301_000)
    expect(verifyStandardWebhook(delivery, [SECRET])).toBe(false)
    vi.useRealTimers()
  })

  it('knows the symmetric scheme only: a public key is no secret', () => {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const digest = sign(null, Buffer.from(`${ID}.${seconds(NOW)}.${BODY}`), privateKey).toString('base64')
    const delivery = request(signed({ 'webhook-signature': `v1a,${digest}` }))
    const key = `whpk_${Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url').toString('base64')}`
    expect(verifies(STANDARD, delivery, [key])).toBe(true)
    expect(verifyStandardWebhook(delivery, [key])).toBe(false)
  })
})

describe('beside the published library', () => {
  const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/)
  const key = fc.uint8Array({ minLength: 24, maxLength: 64 })
  const body = fc.string({ unit: 'grapheme', maxLength: 200 })

  it('what it signs verifies here, and under no other key', () => {
    fc.assert(
      fc.property(id, key, key, body, (msgId, ours, others, text) => {
        const secret = `whsec_${Buffer.from(ours).toString('base64')}`
        const headers = signed({
          'webhook-id': msgId,
          'webhook-signature': new Webhook(secret).sign(msgId, NOW, text),
        })
        const delivery = request(headers, { rawBody: bytes(text) })
        expect(verifies(STANDARD, delivery, [secret])).toBe(true)
        fc.pre(Buffer.compare(withoutZeros(ours), withoutZeros(others)) !== 0)
        expect(verifies(STANDARD, delivery, [`whsec_${Buffer.from(others).toString('base64')}`])).toBe(false)
      }),
    )
  })

  it('what the testing kit signs verifies there, and here', () => {
    vi.useFakeTimers({ toFake: ['Date'], now: NOW })
    fc.assert(
      fc.property(id, key, fc.json(), (deliveryId, bytesOfKey, text) => {
        const secret = `whsec_${Buffer.from(bytesOfKey).toString('base64')}`
        const headers = standardWebhooksSigner({ body: text, secret, at: NOW, event: null, deliveryId })
        expect(new Webhook(secret).verify(text, headers)).toEqual(JSON.parse(text))
        expect(verifies(STANDARD, request(headers, { rawBody: bytes(text) }), [secret])).toBe(true)
      }),
    )
    vi.useRealTimers()
  })

  it('what we sign to send it verifies there, and here', () => {
    vi.useFakeTimers({ toFake: ['Date'], now: NOW })
    fc.assert(
      fc.property(id, key, fc.json(), (messageId, bytesOfKey, text) => {
        const secret = `whsec_${Buffer.from(bytesOfKey).toString('base64')}`
        const headers = signStandardWebhook({ id: messageId, sentAt: NOW, body: text }, secret)
        expect(new Webhook(secret).verify(text, headers)).toEqual(JSON.parse(text))
        expect(verifies(STANDARD, request(headers, { rawBody: bytes(text) }), [secret])).toBe(true)
      }),
    )
    vi.useRealTimers()
  })

  it.each([
    ['300 s ago', -300],
    ['301 s ago', -301],
    ['in 300 s', 300],
    ['in 301 s', 301],
  ])('a delivery signed %s is judged alike', (_, offset) => {
    vi.useFakeTimers({ toFake: ['Date'], now: NOW })
    const at = new Date(NOW.getTime() + offset * 1_000)
    const headers = standardWebhooksSigner({ body: BODY, secret: SECRET, at, event: null, deliveryId: ID })
    const theirs = attempt(() => new Webhook(SECRET).verify(BODY, headers))
    vi.useRealTimers()
    expect(verifies(STANDARD, request(headers), [SECRET])).toBe(theirs)
    expect(theirs).toBe(Math.abs(offset) === 300)
  })
})

describe('a header that signs', () => {
  it.each<[string, [string, string][], string | null]>([
    ['sent once', [['X-Signed', 't=1,v1=a']], 't=1,v1=a'],
    ['missing', [], null],
    ['empty', [['X-Signed', '']], null],
    [
      'sent twice',
      [
        ['X-Signed', 'a'],
        ['x-signed', 'a'],
      ],
      null,
    ],
    [
      'sent twice, once empty',
      [
        ['X-Signed', ''],
        ['x-signed', 'a'],
      ],
      null,
    ],
  ])('%s', (_, sent, value) => {
    const headers = new Headers()
    for (const [name, text] of sent) headers.append(name, text)
    expect(soleHeader(request(headers), 'x-signed')).toBe(value)
  })
})

describe('a signed time', () => {
  it.each([
    [0, true],
    [-300, true],
    [-301, false],
    [300, true],
    [301, false],
    [Number.NaN, false],
    [Number.POSITIVE_INFINITY, false],
  ])('%d s from now', (offset, timely) => {
    expect(isTimely(request({}), seconds(NOW) + offset)).toBe(timely)
  })
})

describe('what is signed to be sent', () => {
  it.each<[string, { id?: string; secret?: string }]>([
    ['an id with a dot', { id: 'evt.1' }],
    ['an id with a space', { id: 'evt 1' }],
    ['an empty id', { id: '' }],
    ['a key of 23 bytes', { secret: secretOf(23) }],
    ['a key of 65 bytes', { secret: secretOf(65) }],
    ['a secret that is no base64', { secret: 'whsec_PRIVATE!' }],
  ])('is nothing with %s', (_, { id = ID, secret = SECRET }) => {
    const sign = () => signStandardWebhook({ id, sentAt: NOW, body: BODY }, secret)
    expect(sign).toThrow(
      expect.objectContaining({ code: 'invalid_argument', message: expect.not.stringContaining(secret) }),
    )
  })

  it('has the time in whole seconds', () => {
    expect(signStandardWebhook({ id: ID, sentAt: NOW, body: BODY }, SECRET)).toEqual({
      'webhook-id': ID,
      'webhook-timestamp': String(seconds(NOW)),
      'webhook-signature': signature(),
    })
  })
})

/** The same digest with one of the spare bits of its last character set. */
function respelt(base64: string): string {
  return `${base64.slice(0, 42)}${String.fromCharCode(base64.charCodeAt(42) + 1)}=`
}

/** HMAC pads short keys with zeros: a key, and the same with zeros after it, are one. */
function withoutZeros(key: Uint8Array): Uint8Array {
  let end = key.length
  while (end > 0 && key[end - 1] === 0) end -= 1
  return key.slice(0, end)
}

function attempt(work: () => unknown): boolean {
  try {
    work()
    return true
  } catch {
    return false
  }
}
