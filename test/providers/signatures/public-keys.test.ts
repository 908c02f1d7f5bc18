/** Keys and certificates that are fetched: from where, how often, and what a forger can bring about. */
import { describe, expect, it } from 'vitest'
import { certifiedKey, FetchedKeys, keysOfSet } from '../../../src/providers/signatures/public-keys.ts'
import type { CertificateSource } from '../../../src/providers/signatures/scheme-rules.ts'
import { makeCertificate } from '../../support/certificate.ts'

const NOW = new Date('2026-03-10T12:00:00Z')
const SOURCE: CertificateSource = {
  url: { header: 'x-cert' },
  hosts: ['certs.example.com', 'sns.*.amazonaws.com'],
  pathSuffix: '.pem',
}
const URL_OF_IT = 'https://certs.example.com/a.pem'

function wire(answer: (url: string) => string | number) {
  let nowMs = 0
  const asked: string[] = []
  const keys = new FetchedKeys(
    {
      fetch: (options) => async (url) => {
        expect(options).toMatchObject({ followRedirects: false, maxBytes: 262_144 })
        asked.push(String(url))
        const found = answer(String(url))
        return typeof found === 'number' ? new Response(null, { status: found }) : new Response(found)
      },
    },
    () => nowMs,
  )
  return { keys, asked, pass: (seconds: number) => (nowMs += seconds * 1_000) }
}

describe('a certificate', () => {
  const made = makeCertificate({ host: 'signer.example.com' })

  it('is fetched once, and kept for an hour', async () => {
    const { keys, asked, pass } = wire(() => made.pem)
    for (let n = 0; n < 3; n += 1)
      expect(await certifiedKey(keys, SOURCE, URL_OF_IT, NOW)).toHaveProperty('type', 'public')
    expect(asked).toEqual([URL_OF_IT])
    pass(3_600)
    await certifiedKey(keys, SOURCE, URL_OF_IT, NOW)
    expect(asked).toHaveLength(2)
  })

  it.each([
    'http://certs.example.com/a.pem',
    'https://certs.example.com:8443/a.pem',
    'https://user@certs.example.com/a.pem',
    'https://certs.example.com/a.pem#x',
    'https://certs.example.com/a.pem?x=1',
    'https://certs.example.com/a.crt',
    'https://certs.example.com.evil.example/a.pem',
    'https://evil.example/certs.example.com/a.pem',
    'https://sns.a.b.amazonaws.com/a.pem',
    'https://xsns.eu.amazonaws.com/a.pem',
    'https://sns.eu.amazonaws.com.cn/a.pem',
    'https://169.254.169.254/a.pem',
    'https:/certs.example.com/a.pem',
    'https:///certs.example.com/a.pem',
    'https:certs.example.com/a.pem',
    'https:\\\\certs.example.com/a.pem',
    'file:///etc/passwd.pem',
    'a.pem',
    '',
  ])('is not asked for at %s', async (url) => {
    const { keys, asked } = wire(() => made.pem)
    expect(await certifiedKey(keys, SOURCE, url, NOW)).toBe('key_not_allowed')
    expect(asked).toEqual([])
  })

  it('is taken from a declared host with one label in the place of the star', async () => {
    const { keys } = wire(() => made.pem)
    expect(await certifiedKey(keys, SOURCE, 'https://sns.eu-west-1.amazonaws.com/a.pem', NOW)).toHaveProperty('type')
  })

  it.each<[string, Partial<CertificateSource>, string, Date]>([
    ['that is no certificate', {}, 'hello', NOW],
    ['of another host', { subject: 'other.example.com' }, made.pem, NOW],
    ['of another fingerprint', { fingerprints: ['00'.repeat(32)] }, made.pem, NOW],
    ['that has run out', {}, made.pem, new Date('2041-01-01T00:00:00Z')],
    ['that is not in force yet', {}, made.pem, new Date('2019-01-01T00:00:00Z')],
  ])('%s is refused', async (_, more, pem, now) => {
    const { keys } = wire(() => pem)
    expect(await certifiedKey(keys, { ...SOURCE, ...more }, URL_OF_IT, now)).toBe('key_invalid')
  })

  it('of the right host and fingerprint is taken', async () => {
    const { keys } = wire(() => made.pem)
    const pinned = { ...SOURCE, subject: 'signer.example.com', fingerprints: [made.fingerprint] }
    expect(await certifiedKey(keys, pinned, URL_OF_IT, NOW)).toHaveProperty('type', 'public')
  })
})

describe('a fetch', () => {
  it('that fails is not made again for half a minute, and the sender is asked to come again', async () => {
    const { keys, asked, pass } = wire(() => 500)
    expect([await keys.get(URL_OF_IT), await keys.get(URL_OF_IT)]).toEqual([null, null])
    expect(asked).toHaveLength(1)
    pass(30)
    await keys.get(URL_OF_IT)
    expect(asked).toHaveLength(2)
  })

  it('that fails leaves the copy of an hour ago in force', async () => {
    const { keys, asked, pass } = wire(() => (asked.length === 1 ? 'the copy' : 500))
    expect(await keys.get(URL_OF_IT)).toBe('the copy')
    pass(3_600)
    expect(await keys.get(URL_OF_IT)).toBe('the copy')
    expect(await keys.get(URL_OF_IT)).toBe('the copy')
  })

  it('of several deliveries at once is one', async () => {
    const { keys, asked } = wire(() => 'text')
    await Promise.all([1, 2, 3].map(() => keys.get(URL_OF_IT)))
    expect(asked).toHaveLength(1)
  })

  it('is made 30 times a minute at most, however many addresses a forger names', async () => {
    const { keys, asked, pass } = wire(() => 'text')
    for (let n = 0; n < 100; n += 1) await keys.get(`https://certs.example.com/${n}.pem`)
    expect(asked).toHaveLength(30)
    pass(61)
    await keys.get('https://certs.example.com/101.pem')
    expect(asked).toHaveLength(31)
  })

  it('of a known address is kept, and made again, whatever a forger names', async () => {
    const { keys, asked, pass } = wire((url) => (url === URL_OF_IT ? 'text' : 404))
    await keys.get(URL_OF_IT)
    for (let minute = 0; minute < 61; minute += 1) {
      for (let n = 0; n < 30; n += 1) await keys.get(`https://certs.example.com/${minute}-${n}.pem`)
      expect(await keys.get(URL_OF_IT)).toBe('text')
      pass(60)
    }
    expect(asked.filter((url) => url === URL_OF_IT)).toHaveLength(2)
  })
})

describe('a set of keys', () => {
  const SET_URL = 'https://keys.example.com/jwks'
  const setOf = (...ids: string[]) => JSON.stringify({ keys: ids.map((kid) => ({ kid, kty: 'oct' })) })

  it('is asked for again when it lacks a key, once a minute', async () => {
    let ids = ['old']
    const { keys, asked, pass } = wire(() => setOf(...ids))
    expect(await keysOfSet(keys, SET_URL, 'old')).toHaveLength(1)
    ids = ['old', 'new']
    expect(await keysOfSet(keys, SET_URL, 'new')).toEqual([])
    expect(asked).toHaveLength(1)
    pass(60)
    expect(await keysOfSet(keys, SET_URL, 'new')).toHaveLength(1)
    expect(await keysOfSet(keys, SET_URL, 'forged')).toEqual([])
    expect(asked).toHaveLength(2)
  })

  it.each(['no JSON', '{}', '[]', '{"keys":7}'])('that is %s is refused', async (text) => {
    const { keys } = wire(() => text)
    expect(await keysOfSet(keys, SET_URL, 'a')).toBeNull()
  })
})
