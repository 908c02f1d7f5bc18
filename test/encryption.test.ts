import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Encryption } from '../src/encryption.ts'
import { createEncryption, generateEncryptionKey, parseKeyRing } from '../src/encryption.ts'
import type { CredentialsUnreadable } from '../src/framework/errors.ts'
import { isIntegrationsError } from '../src/framework/errors.ts'

/** A ring entry with bytes that are easy to look for. */
function entry(kid: string, byte: number): string {
  return `${kid}:${Buffer.alloc(32, byte).toString('base64')}`
}

const K1 = entry('k1', 1)
const K2 = entry('k2', 2)
const ID = 42

function encryptionOf(...entries: string[]): Encryption {
  return createEncryption(parseKeyRing({ encryptionKeys: entries, environment: {} }))
}

function errorOf(run: () => unknown, code: string): Error {
  try {
    run()
  } catch (error) {
    if (isIntegrationsError(error, code)) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

function unreadable(run: () => unknown): CredentialsUnreadable {
  return errorOf(run, 'credentials_unreadable') as CredentialsUnreadable
}

/** An envelope with one part replaced: version, kid, iv, ciphertext, tag. */
function withPart(text: string, index: number, part: string): string {
  return text.split('.').with(index, part).join('.')
}

/** An envelope by the book, written without the code under test. */
function writtenByHand(plaintext: string, boundTo: string, keyByte: number): string {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', Buffer.alloc(32, keyByte), iv).setAAD(Buffer.from(boundTo))
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()])
  const parts = [iv, ciphertext, cipher.getAuthTag()].map((bytes) => bytes.toString('base64url'))
  return `v1.k${keyByte}.${parts.join('.')}`
}

function flipped(encoded: string): string {
  const bytes = Buffer.from(encoded, 'base64url')
  bytes[0] = (bytes[0] ?? 0) ^ 1
  return bytes.toString('base64url')
}

describe('credentials at rest', () => {
  const encryption = encryptionOf(K1, K2)
  const text = encryption.encrypt(ID, { token: 'xoxb-PRIVATE' })

  it('come back as they were', () => {
    const credentials = { token: 'é😀\u0000', nested: { list: [1, null, true] }, empty: '' }
    expect(encryption.decrypt(ID, encryption.encrypt(ID, credentials))).toEqual(credentials)
    expect(encryption.decrypt(ID, encryption.encrypt(ID, {}))).toEqual({})
  })

  it('come back whatever JSON object they are', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.integer({ min: 1 }), (credentials, id) => {
        const json = JSON.parse(JSON.stringify(credentials))
        expect(encryption.decrypt(id, encryption.encrypt(id, credentials))).toEqual(json)
      }),
    )
  })

  it('are written as v1.<kid>.<iv>.<ciphertext>.<tag> by the first key', () => {
    const [version, kid, iv = '', , tag = '', ...others] = text.split('.')
    expect([version, kid, others]).toEqual(['v1', 'k1', []])
    expect(Buffer.from(iv, 'base64url')).toHaveLength(12)
    expect(Buffer.from(tag, 'base64url')).toHaveLength(16)
    expect(text).toMatch(/^[\w.-]+$/)
    expect(encryption.kidOf(text)).toBe('k1')
  })

  it('are AES-256-GCM, bound to integrations/<row id>/credentials', () => {
    const byHand = writtenByHand('{"token":"a"}', 'integrations/42/credentials', 2)
    expect(encryption.decrypt(42, byHand)).toEqual({ token: 'a' })

    const [, , iv = '', ciphertext = '', tag = ''] = text.split('.')
    const decipher = createDecipheriv('aes-256-gcm', Buffer.alloc(32, 1), Buffer.from(iv, 'base64url'))
    decipher.setAAD(Buffer.from('integrations/42/credentials')).setAuthTag(Buffer.from(tag, 'base64url'))
    const plaintext = decipher.update(ciphertext, 'base64url', 'utf8') + decipher.final('utf8')
    expect(plaintext).toBe('{"token":"xoxb-PRIVATE"}')
  })

  it.each(['["PRIVATE"]', '"PRIVATE"', 'PRIVATE', '{"a": PRIVATE', 'null', '7', ''])(
    'are unreadable when the text inside is %j, no JSON object',
    (plaintext) => {
      const byHand = writtenByHand(plaintext, `integrations/${ID}/credentials`, 1)
      const error = unreadable(() => encryption.decrypt(ID, byHand))
      expect(error).toMatchObject({ kid: 'k1', reason: 'what it holds is no JSON object.' })
      expect(error.cause).toBeUndefined()
      expect(error.message).not.toContain('PRIVATE')
    },
  )

  it('are never written twice alike', () => {
    const texts = Array.from({ length: 100 }, () => encryption.encrypt(ID, { token: 'a' }))
    expect(new Set(texts.map((envelope) => envelope.split('.')[2])).size).toBe(100)
  })

  it('are read by every key of the ring, whatever its place', () => {
    const rotated = encryptionOf(K2, K1)
    expect(rotated.decrypt(ID, text)).toEqual({ token: 'xoxb-PRIVATE' })
    expect(rotated.kidOf(rotated.encrypt(ID, {}))).toBe('k2')
  })

  it('stay readable over a restart and a change of the table prefix: only id and kind are bound in', () => {
    expect(encryptionOf(K1).decrypt(ID, text)).toEqual({ token: 'xoxb-PRIVATE' })
  })

  it.each([
    ['plain JSON', '{"token": "xoxb-PRIVATE"}'],
    ['plain text', 'xoxb-PRIVATE'],
    ['nothing', ''],
    ['four parts', text.split('.').slice(0, 4).join('.')],
    ['six parts', `${text}.x`],
    ['another version', withPart(text, 0, 'v2')],
    ['an empty kid', withPart(text, 1, '')],
    ['a kid that is too long', withPart(text, 1, 'k'.repeat(33))],
    ['a short iv', withPart(text, 2, Buffer.alloc(11).toString('base64url'))],
    ['a short tag', withPart(text, 4, Buffer.alloc(4).toString('base64url'))],
    ['no tag', withPart(text, 4, '')],
    ['characters beyond base64url', withPart(text, 3, `${text.split('.')[3]}!`)],
    ['padding', withPart(text, 4, `${text.split('.')[4]}==`)],
    ['surrounding space', ` ${text}\n`],
    ['no text at all', null as unknown as string],
  ])('are unreadable as %s: no envelope', (_, given) => {
    const error = unreadable(() => encryption.decrypt(ID, given))
    expect(error).toMatchObject({ integrationId: ID, kid: null, reason: expect.stringContaining('no envelope') })
    expect(error.message).not.toContain('PRIVATE')
    expect(encryption.kidOf(given)).toBeNull()
  })

  it('are unreadable with an unknown kid, which is named', () => {
    const error = unreadable(() => encryptionOf(K2).decrypt(ID, text))
    expect(error).toMatchObject({ integrationId: ID, kid: 'k1', reason: expect.stringContaining('lacks this key') })
  })

  it.each(['constructor', '__proto__'])('are unreadable with the kid %s', (kid) => {
    expect(unreadable(() => encryption.decrypt(ID, withPart(text, 1, kid))).kid).toBe(kid)
  })

  it.each([
    ['another row', ID + 1, text, 'k1'],
    ['the other key', ID, withPart(text, 1, 'k2'), 'k2'],
    ['another iv', ID, withPart(text, 2, flipped(text.split('.')[2] ?? '')), 'k1'],
    ['a changed ciphertext', ID, withPart(text, 3, flipped(text.split('.')[3] ?? '')), 'k1'],
    ['no ciphertext', ID, withPart(text, 3, ''), 'k1'],
    ['a changed tag', ID, withPart(text, 4, flipped(text.split('.')[4] ?? '')), 'k1'],
  ])('are unreadable with %s', (_, id, given, kid) => {
    const error = unreadable(() => encryption.decrypt(id, given))
    expect(error).toMatchObject({ integrationId: id, kid, reason: expect.stringContaining('changed') })
  })

  it('are unreadable with other bytes under the same kid', () => {
    expect(unreadable(() => encryptionOf(entry('k1', 9)).decrypt(ID, text)).kid).toBe('k1')
  })

  it('are unreadable after any change of any character', () => {
    fc.assert(
      fc.property(fc.nat(text.length - 1), fc.string({ unit: 'grapheme', minLength: 0, maxLength: 2 }), (at, put) => {
        const changed = text.slice(0, at) + put + text.slice(at + 1)
        fc.pre(changed !== text)
        unreadable(() => encryption.decrypt(ID, changed))
      }),
      { numRuns: 500 },
    )
  })

  it('are unreadable after the change of a last character, whose lowest bits count for nothing', () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    for (const last of alphabet.replace(text.slice(-1), '')) {
      unreadable(() => encryption.decrypt(ID, text.slice(0, -1) + last))
    }
  })

  it.each([0, -1, 1.5, Number.NaN, '42' as unknown as number])('are not written for the row id %s', (id) => {
    expect(() => encryption.encrypt(id, {})).toThrow('integrationId')
  })

  const circular: Record<string, unknown> = { token: 'PRIVATE' }
  circular.self = circular
  it.each<[string, unknown]>([
    ['null', null],
    ['a list', ['PRIVATE']],
    ['a string', 'PRIVATE'],
    ['undefined', undefined],
    ['what serialises to a string', { toJSON: () => 'PRIVATE' }],
    ['a bigint inside', { token: 'PRIVATE', n: 1n }],
    ['a circle', circular],
  ])('are not written from %s', (_, credentials) => {
    const error = errorOf(() => encryption.encrypt(ID, credentials as Record<string, unknown>), 'invalid_argument')
    expect(inspect(error, { depth: 9 })).not.toMatch(/Error: .*PRIVATE/)
    expect(error.cause).toBeUndefined()
  })
})

describe('other secrets at rest', () => {
  const encryption = encryptionOf(K1, K2)

  it('open for the purpose they were sealed for, with any key of the ring', () => {
    const sealed = encryption.seal('oauth/pkce/7', 'verifier é')
    expect(encryption.open('oauth/pkce/7', sealed)).toBe('verifier é')
    expect(encryptionOf(K2, K1).open('oauth/pkce/7', sealed)).toBe('verifier é')
    expect(encryption.open('x', encryption.seal('x', ''))).toBe('')
  })

  it('open for nothing else', () => {
    const sealed = encryption.seal('oauth/pkce/7', 'verifier')
    expect(encryption.open('oauth/pkce/8', sealed)).toBeNull()
    expect(encryption.open('oauth/pkce/7', withPart(sealed, 4, flipped(sealed.split('.')[4] ?? '')))).toBeNull()
    expect(encryption.open('oauth/pkce/7', 'verifier')).toBeNull()
    expect(encryptionOf(K2).open('oauth/pkce/7', sealed)).toBeNull()
  })

  it('are never mistaken for credentials, nor credentials for them', () => {
    unreadable(() => encryption.decrypt(ID, encryption.seal(`${ID}/credentials`, '{}')))
    expect(encryption.open(`${ID}/credentials`, encryption.encrypt(ID, {}))).toBeNull()
    expect(encryption.verifyCanary('k1', encryption.seal('canary/k1', 'durable-integrations'))).toBe(false)
  })
})

describe('signatures', () => {
  const encryption = encryptionOf(K1, K2)
  const signature = encryption.sign('link', 'GET /x 1')

  it('hold for the same purpose and text, also after a rotation', () => {
    expect(encryption.isSigned('link', 'GET /x 1', signature)).toBe(true)
    expect(encryptionOf(K2, K1).isSigned('link', 'GET /x 1', signature)).toBe(true)
  })

  it.each([
    ['another purpose', 'other', 'GET /x 1', signature],
    ['another text', 'link', 'GET /x 2', signature],
    ['a shorter signature', 'link', 'GET /x 1', signature.slice(0, -4)],
    ['no signature', 'link', 'GET /x 1', ''],
    ['padding', 'link', 'GET /x 1', `${signature}=`],
  ])('do not hold for %s', (_, purpose, text, given) => {
    expect(encryption.isSigned(purpose, text, given)).toBe(false)
  })

  it('do not hold without the key', () => {
    expect(encryptionOf(K2).isSigned('link', 'GET /x 1', signature)).toBe(false)
  })
})

describe('canaries', () => {
  const encryption = encryptionOf(K1, K2)

  it('show that the ring has the same bytes under the id', () => {
    expect(encryption.kidOf(encryption.canary('k2'))).toBe('k2')
    expect(encryption.verifyCanary('k2', encryption.canary('k2'))).toBe(true)
    expect(encryptionOf(entry('k2', 9)).verifyCanary('k2', encryption.canary('k2'))).toBe(false)
  })

  it('fail for another id, a missing key and a damaged text', () => {
    expect(encryption.verifyCanary('k1', encryption.canary('k2'))).toBe(false)
    expect(encryptionOf(K1).verifyCanary('k2', encryption.canary('k2'))).toBe(false)
    expect(encryption.verifyCanary('k1', 'durable-integrations')).toBe(false)
    const byOtherKey = writtenByHand('durable-integrations', 'integrations/canary/k1', 2)
    expect(encryption.verifyCanary('k1', byOtherKey)).toBe(false)
  })

  it('are made for keys of the ring only', () => {
    expect(() => encryption.canary('k3')).toThrow('kid')
  })
})

describe('the key ring', () => {
  const kidsOf = (options: Parameters<typeof parseKeyRing>[0]) =>
    parseKeyRing({ environment: {}, ...options }).map(({ kid }) => kid)
  const refusalOf = (encryptionKeys: unknown) =>
    errorOf(
      () => parseKeyRing({ encryptionKeys: encryptionKeys as string, environment: {} }),
      'invalid_encryption_keys',
    )

  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'encryption-'))
  })
  afterEach(() => {
    rmSync(folder, { recursive: true })
  })

  function keyFile(content: string): string {
    const path = join(folder, 'keys')
    writeFileSync(path, content, { mode: 0o600 })
    return path
  }

  it('comes from the option: one string or a list, the first key writes', () => {
    expect(kidsOf({ encryptionKeys: K1 })).toEqual(['k1'])
    expect(kidsOf({ encryptionKeys: `${K2},${K1}` })).toEqual(['k2', 'k1'])
    expect(kidsOf({ encryptionKeys: [K2, K1] })).toEqual(['k2', 'k1'])
    expect(encryptionOf(K2, K1)).toMatchObject({ primaryKid: 'k2', kids: ['k2', 'k1'] })
  })

  it('comes from the environment', () => {
    expect(kidsOf({ environment: { INTEGRATIONS_ENCRYPTION_KEYS: `${K2}, ${K1}` } })).toEqual(['k2', 'k1'])
  })

  it.each([
    ['a line', `${K2},${K1}\n`],
    ['lines', `${K2}\r\n${K1}\r\n`],
  ])('comes from a file of %s', (_, content) => {
    expect(kidsOf({ environment: { INTEGRATIONS_ENCRYPTION_KEYS_FILE: keyFile(content) } })).toEqual(['k2', 'k1'])
  })

  it('takes the option before the environment, and empty as unset', () => {
    const environment = { INTEGRATIONS_ENCRYPTION_KEYS: K2, INTEGRATIONS_ENCRYPTION_KEYS_FILE: '' }
    expect(kidsOf({ encryptionKeys: K1, environment })).toEqual(['k1'])
    expect(kidsOf({ encryptionKeys: '', environment })).toEqual(['k2'])
    expect(kidsOf({ encryptionKeys: [], environment })).toEqual(['k2'])
  })

  it('is refused when the environment names two places', () => {
    const environment = { INTEGRATIONS_ENCRYPTION_KEYS: K1, INTEGRATIONS_ENCRYPTION_KEYS_FILE: keyFile(K2) }
    expect(() => parseKeyRing({ environment })).toThrow('are both set')
  })

  it('is refused when the file is missing, which is named', () => {
    const path = join(folder, 'no-such-file')
    expect(() => parseKeyRing({ environment: { INTEGRATIONS_ENCRYPTION_KEYS_FILE: path } })).toThrow(
      `The file ${path} (INTEGRATIONS_ENCRYPTION_KEYS_FILE) can't be read: ENOENT.`,
    )
  })

  it.each([0o666, 0o620, 0o602])('is refused when others may change the file, whose mode is named (%i)', (mode) => {
    const path = keyFile(K1)
    chmodSync(path, mode)
    expect(() => parseKeyRing({ environment: { INTEGRATIONS_ENCRYPTION_KEYS_FILE: path } })).toThrow(
      `The file ${path} (INTEGRATIONS_ENCRYPTION_KEYS_FILE) has mode ${mode.toString(8)}, so that others may change it`,
    )
  })

  it.each([[undefined], [''], [[]], [' , ']])('is refused when none is given (%j)', (given) => {
    expect(refusalOf(given).message).toContain('None is given')
  })

  const bytes = Buffer.alloc(32, 0xfb)
  const base64 = bytes.toString('base64') // has "+" and "/"
  it.each<[string, unknown, string]>([
    ['no key id', base64, 'Entry 1 has no key id'],
    ['an empty key id', `:${base64}`, 'Entry 1 has no key id'],
    ['a key id with a dot', `k.1:${base64}`, 'Entry 1 has no key id'],
    ['a key id of 33 characters', `${'k'.repeat(33)}:${base64}`, 'Entry 1 has no key id'],
    ['no key', 'k1:', '"k1" has 0 bytes'],
    ['31 bytes', `k1:${bytes.subarray(1).toString('base64')}`, '"k1" has 31 bytes'],
    ['33 bytes', `k1:${Buffer.alloc(33, 0xfb).toString('base64')}`, '"k1" has 33 bytes'],
    ['base64url', `k1:${bytes.toString('base64url')}`, '"k1" is no strict base64'],
    ['no padding', `k1:${base64.replace('=', '')}`, '"k1" is no strict base64'],
    ['surplus bits', `k1:${Buffer.alloc(32).toString('base64').replace('A=', 'B=')}`, '"k1" is no strict base64'],
    ['space inside', `k1: ${base64}`, '"k1" is no strict base64'],
    ['a passphrase', 'k1:correct horse battery staple', '"k1" is no strict base64'],
    ['the same id twice', [K1, entry('k1', 3)], '"k1" is given twice'],
    ['the same entry twice', [K1, K1], '"k1" is given twice'],
    ['the same key twice', [K1, entry('k9', 1)], '"k1" and "k9" are the same key'],
    ['no string', [K1, 7], 'neither a string nor a list'],
    ['no string at all', 7, 'neither a string nor a list'],
    ['null', null, 'neither a string nor a list'],
  ])('is refused with %s', (_, given, reason) => {
    const { message } = refusalOf(given)
    expect(message).toContain(reason)
    expect(message).not.toContain(base64.slice(0, 20))
    expect(message).not.toContain('horse')
  })

  it('shows no key bytes when printed or serialised, nor does what is made of it', () => {
    const secret = randomBytes(32)
    const ring = parseKeyRing({ encryptionKeys: `k1:${secret.toString('base64')}`, environment: {} })
    const encryption = createEncryption(ring)
    for (const thing of [ring, ring[0], ring[0].key, encryption]) {
      const shown = `${inspect(thing, { showHidden: true, depth: 9 })} ${JSON.stringify(thing)} ${String(thing)}`
      expect(shown).not.toContain(secret.toString('base64'))
      expect(shown).not.toContain(secret.toString('hex'))
      expect(shown).not.toContain(inspect(secret).slice(8, 30))
      expect(shown).not.toContain([...secret].join(','))
    }
    expect(JSON.parse(JSON.stringify(encryption))).toEqual({ primaryKid: 'k1', kids: ['k1'] })
  })

  it('takes a key that we made', () => {
    expect(kidsOf({ encryptionKeys: [generateEncryptionKey('k1'), generateEncryptionKey('k2')] })).toEqual(['k1', 'k2'])
    expect(() => generateEncryptionKey('k 1')).toThrow('kid')
  })
})
