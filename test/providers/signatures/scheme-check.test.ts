/** What a provider may say of its signature, and what is wrong with the rest. */
import type { KeyObject } from 'node:crypto'
import { generateKeyPairSync } from 'node:crypto'
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

const ED25519 = generateKeyPairSync('ed25519').publicKey
const P256 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey
const P384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey
const RSA = generateKeyPairSync('rsa', { modulusLength: 2_048 }).publicKey
const SHORT_RSA = generateKeyPairSync('rsa', { modulusLength: 1_024 }).publicKey
const pem = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' }).toString()
const spki = (key: KeyObject) => key.export({ type: 'spki', format: 'der' }).toString('base64')
/** The last 32 bytes of the DER: RFC 8410, 4. */
const hex = (key: KeyObject) => key.export({ type: 'spki', format: 'der' }).subarray(-32).toString('hex')

describe('public keys in a signature', () => {
  const place = { header: 'x-acme-signature', encoding: 'base64' }
  const ed25519 = { scheme: 'ed25519', ...place }
  const ecdsa = { scheme: 'ecdsa', ...place }
  const rsa = { scheme: 'rsa', hash: 'sha256', ...place }
  const jwt = (algorithms: string[], ...keys: KeyObject[]) => {
    return { scheme: 'jwt', header: 'authorization', algorithms, publicKeys: keys.map(pem) }
  }

  it.each<[string, object]>([
    ['Ed25519 in PEM', { ...ed25519, publicKeys: [pem(ED25519)] }],
    ['Ed25519 in hex', { ...ed25519, key: 'hex', publicKeys: [hex(ED25519)] }],
    ['Ed25519 as SPKI', { ...ed25519, key: 'spki', publicKeys: [spki(ED25519)] }],
    ['P-256, two of them', { ...ecdsa, publicKeys: [pem(P256), pem(P256)] }],
    ['RSA', { ...rsa, publicKeys: [pem(RSA)] }],
    ['none: the webhook secrets are the keys', rsa],
    ['RSA, of tokens', jwt(['PS256'], RSA)],
    ['P-384, of tokens', jwt(['ES384'], P384)],
    ['Ed25519, of tokens', jwt(['EdDSA'], ED25519)],
    ['one for each algorithm of tokens', jwt(['ES256', 'RS512'], RSA, P256)],
  ])('may be %s', (_, signature) => {
    expect(refusal(signature)).toBeNull()
  })

  it.each<[string, object, string]>([
    [
      'in hex where the format is PEM',
      { ...ed25519, publicKeys: [hex(ED25519)] },
      'publicKeys.0 is no Ed25519 key in the format pem',
    ],
    [
      'in PEM where the format is hex',
      { ...ed25519, key: 'hex', publicKeys: [pem(ED25519)] },
      'publicKeys.0 is no Ed25519 key in the format hex',
    ],
    ['of another scheme', { ...ecdsa, publicKeys: [pem(P256), pem(RSA)] }, 'publicKeys.1 is no P-256 key'],
    ['on another curve', { ...ecdsa, publicKeys: [pem(P384)] }, 'publicKeys.0 is no P-256 key'],
    ['of another algorithm of tokens', jwt(['RS256'], RSA, P256), 'publicKeys.1 is no key of RS256'],
    ['on another curve than that of tokens', jwt(['ES256', 'EdDSA'], P384), 'publicKeys.0 is no key of ES256 or EdDSA'],
    ['too short for tokens', jwt(['RS256'], SHORT_RSA), 'one of RSA needs 2048 bits'],
    ['no keys at all', { ...rsa, publicKeys: ['secret'] }, 'publicKeys.0 is no RSA key'],
  ])('must not be %s', (_, signature, words) => {
    expect(refusal(signature)).toContain(words)
  })
})

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
