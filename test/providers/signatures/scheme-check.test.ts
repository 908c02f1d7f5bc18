/** What a provider may say of its signature, and what is wrong with the rest. */
import { describe, expect, it } from 'vitest'
import { ProviderRegistry } from '../../../src/providers/registry.ts'
import { signedPart } from '../../../src/providers/signatures/scheme-rules.ts'

const HMAC = { scheme: 'hmac', hash: 'sha256', header: 'x-acme-signature', encoding: 'hex' }

function refusal(signature: unknown, others: object = {}): string | null {
  const provider = { signature, handleWebhook: () => null, ...others } as never
  try {
    new ProviderRegistry().register('acme', provider)
    return null
  } catch (error) {
    expect(error).toMatchObject({ code: 'invalid_provider' })
    return (error as Error).message
  }
}

describe('a signature', () => {
  it.each<[string, unknown]>([
    ['HMAC of the body', HMAC],
    [
      'a stamp',
      { ...HMAC, timestamp: { header: 'x-time' }, signed: ['v0:', signedPart.timestamp, ':', signedPart.body] },
    ],
    ['a time inside the body', { ...HMAC, timestamp: { json: 'at', unit: 'milliseconds' } }],
    ['Standard Webhooks', { scheme: 'standard-webhooks' }],
    ['a token in the query', { scheme: 'token', query: 'code' }],
    ['a token of HS256', { scheme: 'jwt', header: 'authorization', algorithms: ['HS256'] }],
  ])('may be %s', (_, signature) => {
    expect(refusal(signature)).toBeNull()
  })

  it.each<[string, unknown, string]>([
    [
      'no scheme',
      {},
      'signature.scheme: one of hmac, ed25519, ecdsa, rsa, jwt, token and standard-webhooks is allowed',
    ],
    ['another scheme', { scheme: 'md5' }, 'signature.scheme: one of hmac'],
    ['another hash', { ...HMAC, hash: 'md5' }, 'signature.hash'],
    ['a header in capitals', { ...HMAC, header: 'X-Acme' }, 'signature.header'],
    ['a misspelt member', { ...HMAC, perfix: 'v0=' }, 'Unrecognized key: "perfix"'],
    ['no place', { ...HMAC, header: undefined, encoding: 'hex' }, 'signature'],
    ['two places', { ...HMAC, query: 'sig' }, 'exactly one of header, query, json, form is needed'],
    ['a stamp without a time', { ...HMAC, signed: [signedPart.timestamp] }, '`timestamp` is needed'],
    ['a time that is not signed', { ...HMAC, timestamp: { header: 'x-time' } }, '`signed` must name it'],
    [
      'a field without fields',
      { ...HMAC, timestamp: { field: 't' }, signed: [signedPart.timestamp] },
      'a { field } needs `fields`',
    ],
    ['an unknown part', { ...HMAC, signed: [{ part: 'bodyy' }] }, 'a text or one of `signedPart` is allowed'],
    [
      'an address of keys without TLS',
      { scheme: 'jwt', header: 'a', algorithms: ['RS256'], jwks: { url: 'http://a.example/keys' } },
      'an https URL is allowed',
    ],
    [
      'a secret beside a public key',
      { scheme: 'jwt', header: 'a', algorithms: ['HS256', 'RS256'], jwks: { url: 'https://a.example/keys' } },
      'HS ones go with the webhook secrets alone',
    ],
    [
      'a token that never ends',
      { scheme: 'jwt', header: 'a', algorithms: ['HS256'], withoutExpiry: true },
      'withoutExpiry goes with bodyHash',
    ],
    [
      'any host for certificates',
      {
        scheme: 'rsa',
        hash: 'sha256',
        header: 'a',
        encoding: 'base64',
        certificate: { url: { header: 'u' }, hosts: ['*.com'] },
      },
      'a host such as certs.example.com',
    ],
  ])('is refused with %s', (_, signature, says) => {
    expect(refusal(signature)).toContain(says)
  })

  it('may stand beside a check of the provider’s own', () => {
    expect(refusal(HMAC, { verifyWebhookSignature: () => true })).toBeNull()
  })
})
