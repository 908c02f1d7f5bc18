import { createHash, createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { verifyHmacSignature } from '../../../src/provider.ts'
import type { HmacScheme } from '../../../src/providers/signatures/scheme-rules.ts'
import { signedPart } from '../../../src/providers/signatures/scheme-rules.ts'
import type { WebhookRequest } from '../../../src/providers/webhook-request.ts'
import { webhookRequest } from '../../../src/providers/webhook-request.ts'
import { verdictOf, verifies } from '../../support/signatures.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const AT = { receivedAt: new Date('2026-01-01T00:00:00Z'), toleranceSeconds: 300 }

function request(given: Partial<Parameters<typeof webhookRequest>[0]> = {}): WebhookRequest {
  return webhookRequest({
    method: 'POST',
    path: '/integrations/demo/webhook',
    query: '',
    headers: new Headers(),
    rawBody: bytes('{"a":1}'),
    ...AT,
    ...given,
  })
}

const hmac256 = (given: Partial<HmacScheme> = {}): HmacScheme => ({
  scheme: 'hmac',
  hash: 'sha256',
  header: 'x-signature',
  encoding: 'hex',
  ...given,
})

describe('an HMAC signature', () => {
  const SECRET = 'the secret of the hook'
  const OLD = 'the secret before it'
  const BODY = '{"a":1}'
  const hmac = (secret: string, body = BODY): Buffer => createHmac('sha256', secret).update(body).digest()
  const hex = hmac(SECRET).toString('hex')
  const base64 = hmac(SECRET).toString('base64')
  const options = hmac256({ prefix: 'sha256=' })

  /** A secret whose digest ends in a base64 character with spare bits, and that character with one of them set. */
  const respelt = `${base64.slice(0, 42)}${String.fromCharCode(base64.charCodeAt(42) + 1)}=`

  const signed = (value: string | null, body = BODY): WebhookRequest =>
    request({ rawBody: bytes(body), headers: new Headers(value === null ? {} : { 'x-signature': value }) })

  it.each<[string, string | null, readonly string[], boolean]>([
    ['of the secret', `sha256=${hex}`, [SECRET], true],
    ['in upper case', `sha256=${hex.toUpperCase()}`, [SECRET], true],
    ['of the first of two secrets', `sha256=${hex}`, [SECRET, OLD], true],
    ['of the second of two secrets', `sha256=${hex}`, [OLD, SECRET], true],
    ['of another secret', `sha256=${hex}`, [OLD], false],
    ['without any secret', `sha256=${hex}`, [], false],
    ['absent', null, [SECRET], false],
    ['empty', '', [SECRET], false],
    ['with the prefix only', 'sha256=', [SECRET], false],
    ['without the prefix', hex, [SECRET], false],
    ['with another prefix', `sha1=${hex}`, [SECRET], false],
    ['with the prefix in upper case', `SHA256=${hex}`, [SECRET], false],
    ['a character short', `sha256=${hex.slice(1)}`, [SECRET], false],
    ['a character long', `sha256=${hex}0`, [SECRET], false],
    ['not hexadecimal', `sha256=${'z'.repeat(64)}`, [SECRET], false],
    ['of a changed character', `sha256=${hex.startsWith('0') ? '1' : '0'}${hex.slice(1)}`, [SECRET], false],
    ['given twice', `sha256=${hex}, sha256=${hex}`, [SECRET], false],
    ['with a space within', `sha256= ${hex}`, [SECRET], false],
    ['in base64 where hexadecimal is due', `sha256=${base64}`, [SECRET], false],
    ['of an empty secret', `sha256=${hmac('').toString('hex')}`, [''], false],
    ['of the secret, an empty one beside it', `sha256=${hex}`, ['', SECRET], true],
  ])('%s', (_, header, secrets, verified) => {
    expect(verifies(options, signed(header), secrets)).toBe(verified)
    expect(verifyHmacSignature(signed(header), secrets, { header: 'X-Signature', prefix: 'sha256=' })).toBe(verified)
  })

  it.each<[string, string, boolean]>([
    ['of the secret', base64, true],
    ['without padding', base64.slice(0, -1), false],
    ['in base64url', '-_'.repeat(21).concat('A='), false],
    ['in hexadecimal', hex, false],
    ['of the same bytes in another spelling', respelt, false],
    ['of other bytes', `${base64.startsWith('A') ? 'B' : 'A'}${base64.slice(1)}`, false],
  ])('in base64, without a prefix: %s', (_, header, verified) => {
    expect(verifies(hmac256({ encoding: 'base64' }), signed(header), [SECRET])).toBe(verified)
    const given = { header: 'x-signature', prefix: '', encoding: 'base64' } as const
    expect(verifyHmacSignature(signed(header), [SECRET], given)).toBe(verified)
  })

  it('asked for by a function is in hexadecimal without a prefix, unless the options say more', () => {
    expect(verifyHmacSignature(signed(hex), [SECRET], { header: 'x-signature' })).toBe(true)
    const sha512 = createHmac('sha512', SECRET).update(BODY).digest('hex')
    expect(verifyHmacSignature(signed(sha512), [SECRET], { header: 'x-signature', hash: 'sha512' })).toBe(true)
    expect(verifyHmacSignature(signed(sha512), [SECRET], { header: 'x-signature' })).toBe(false)
    expect(verifyHmacSignature(signed(hex), [SECRET], {})).toBe(false)
  })

  it('is over the raw bytes', () => {
    expect(verifies(options, signed(`sha256=${hex}`, '{"a": 1}'), [SECRET])).toBe(false)
    const odd = Uint8Array.of(0xef, 0xbb, 0xbf, 0x00, 0xff)
    const signature = createHmac('sha256', SECRET).update(odd).digest('hex')
    const delivery = request({ rawBody: odd, headers: new Headers({ 'x-signature': signature }) })
    expect(verifies(hmac256(), delivery, [SECRET])).toBe(true)
  })

  it('given twice in the request is false, though each were right', () => {
    const headers = new Headers()
    headers.append('x-signature', `sha256=${hex}`)
    headers.append('x-signature', `sha256=${hex}`)
    expect(verifies(options, request({ headers, rawBody: bytes(BODY) }), [SECRET])).toBe(false)
  })

  it('is never an error, whatever the header and whichever the secrets', () => {
    const header = fc.oneof(
      fc.string({ unit: 'grapheme-ascii', maxLength: 100 }),
      fc.string({ unit: fc.constantFrom('0', 'a', 'F', '='), maxLength: 70 }).map((text) => `sha256=${text}`),
    )
    fc.assert(
      fc.property(header, fc.array(fc.string({ unit: 'binary' })), (value, secrets) => {
        expect(verifies(options, signed(value), secrets)).toBe(false)
        expect(verifyHmacSignature(signed(value), secrets, options)).toBe(false)
      }),
    )
  })

  it('holds for every body and secret, and for no other', () => {
    fc.assert(
      fc.property(
        fc.uint8Array(),
        fc.string({ minLength: 1 }),
        fc.string({ minLength: 1 }),
        (rawBody, secret, other) => {
          const signature = createHmac('sha256', secret).update(rawBody).digest('hex')
          const delivery = request({ rawBody, headers: new Headers({ 'x-signature': signature }) })
          expect(verifies(hmac256(), delivery, [secret])).toBe(true)
          // HMAC pads short keys with zeros, so a key and the same key with a U+0000 after it are one.
          fc.pre(other.replace(/\0+$/, '') !== secret.replace(/\0+$/, ''))
          expect(verifies(hmac256(), delivery, [other])).toBe(false)
        },
      ),
    )
  })
})

describe('a form whose parameters are signed', () => {
  const SECRET = 'the secret of the hook'
  const FORM = hmac256({ signed: [signedPart.sortedForm] })
  const form = (body: string, signed: string, query = ''): WebhookRequest =>
    request({
      query,
      rawBody: bytes(body),
      headers: new Headers({
        'content-type': 'application/x-www-form-urlencoded',
        'x-signature': createHmac('sha256', SECRET).update(signed).digest('hex'),
      }),
    })

  it.each<[string, string]>([
    ['b=2&a=1', 'a1b2'],
    ['b=2&a=2&b=1&b=2&a=', 'aa2b1b2'],
    ['a10=x&a2=y&A=z', 'Aza10xa2y'],
    ['a=%C3%A4+%26', 'aä &'],
    ['', ''],
  ])('has them sorted, and each once: %s', (body, signed) => {
    expect(verifies(FORM, form(body, signed), [SECRET])).toBe(true)
    expect(verifies(FORM, form(body, `${signed}x`), [SECRET])).toBe(false)
  })

  it('costs a forger’s names no more than their number', () => {
    const names = Array.from({ length: 150_000 }, (_, n) => n.toString(36))
    const delivery = form(names.join('&'), 'something else')
    const startedAt = performance.now()
    expect(verifies(FORM, delivery, [SECRET])).toBe(false)
    expect(performance.now() - startedAt).toBeLessThan(3_000)
  })

  it('is refused without a digest of the body where neither is signed', async () => {
    const bodyDigest = { query: 'digest', hash: 'sha256', encoding: 'hex' } as const
    const both = hmac256({ signed: ['v0:', signedPart.sortedForm], bodyDigest })
    expect(verifies(both, form('a=1', 'v0:a1'), [SECRET])).toBe(true)
    const digest = createHash('sha256').update('a=1').digest('hex')
    expect(verifies(both, form('a=1', 'v0:', `digest=${digest}`), [SECRET])).toBe(true)
    const neither = hmac256({ signed: ['v0:'], bodyDigest })
    expect(await verdictOf(neither, form('a=1', 'v0:'), [SECRET])).toEqual({
      kind: 'refused',
      reason: 'body_digest_mismatch',
    })
    expect(verifies(neither, form('', 'v0:'), [SECRET])).toBe(true)
  })
})
