/**
 * Credentials and other secrets at rest: AES-256-GCM under a ring of keys. The first key writes, all of them read.
 *
 * An envelope is `v1.<kid>.<iv>.<ciphertext>.<tag>` in base64url. What it belongs to (a row, a purpose) is bound in as
 * additional data, so a text copied to another place does not open there.
 * Rule: docs/behaviour/credentials.md.
 */

import type { KeyObject } from 'node:crypto'
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { CredentialsUnreadable, InvalidArgumentException, InvalidEncryptionKeys } from './framework/errors.ts'
import { isRecord } from './framework/json.ts'
import { keyFileFault } from './framework/key-file.ts'

/** A key of the ring. A `KeyObject` shows no bytes when it is printed or serialised. */
export interface RingKey {
  readonly kid: string
  readonly key: KeyObject
}

/** At least one key; the first writes. */
export type KeyRing = readonly [RingKey, ...RingKey[]]

/** The keys themselves stay inside: printing or serialising this object shows key ids at most. */
export interface Encryption {
  /** The key that writes. */
  readonly primaryKid: string
  readonly kids: readonly string[]

  encrypt(integrationId: number, credentials: Record<string, unknown>): string
  /** @throws CredentialsUnreadable for whatever is not a whole envelope of this very row; never reads it as empty */
  decrypt(integrationId: number, text: string): Record<string, unknown>
  /** The key that wrote an envelope; null for any other text. */
  kidOf(text: string): string | null

  /** Other secrets at rest: a PKCE verifier, a cached identity. `purpose` names what it is and whose. */
  seal(purpose: string, text: string): string
  /** The sealed text; null when it was changed, sealed for another purpose, or by a key that the ring lacks. */
  open(purpose: string, text: string): string | null

  /** HMAC-SHA256 by a key derived for `purpose`, base64url: for links that only we can have made. */
  sign(purpose: string, text: string): string
  /** Whether some key of the ring signed it; in constant time for each key. */
  isSigned(purpose: string, text: string, signature: string): boolean

  /** A known text. A later start reads it to find out whether it has the same bytes under this id. */
  canary(kid: string): string
  verifyCanary(kid: string, text: string): boolean
}

const VERSION = 'v1'
const ALGORITHM = 'aes-256-gcm'
const KEY_BYTES = 32
const IV_BYTES = 12 // NIST SP 800-38D, 8.2.2: 96 random bits
const TAG_BYTES = 16
const KID = /^[\w-]{1,32}$/
const CANARY_TEXT = 'durable-integrations'

interface Envelope {
  readonly kid: string
  readonly iv: Buffer
  readonly ciphertext: Buffer
  readonly tag: Buffer
}

type Opened = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly reason: string }

export function createEncryption(ring: KeyRing): Encryption {
  const primary = ring[0]
  const keys = new Map(ring.map(({ kid, key }) => [kid, key]))

  function open(boundTo: string, envelope: Envelope): Opened {
    const key = keys.get(envelope.kid)
    if (key === undefined) return { ok: false, reason: 'the key ring lacks this key.' }
    const text = unlock(key, boundTo, envelope)
    if (text !== null) return { ok: true, text }
    return { ok: false, reason: 'the text was changed, belongs to another row, or the key has other bytes now.' }
  }

  return Object.freeze({
    primaryKid: primary.kid,
    kids: Object.freeze([...keys.keys()]),

    encrypt(integrationId, credentials) {
      return lock(primary, credentialsOf(integrationId), jsonOf(credentials))
    },

    decrypt(integrationId, text) {
      const boundTo = credentialsOf(integrationId)
      const envelope = parseEnvelope(text)
      if (envelope === null) {
        const reason = `the text is no envelope of ours (${VERSION}.<kid>.<iv>.<ciphertext>.<tag>): plain or damaged.`
        throw new CredentialsUnreadable(integrationId, null, reason)
      }
      const opened = open(boundTo, envelope)
      if (!opened.ok) throw new CredentialsUnreadable(integrationId, envelope.kid, opened.reason)
      const credentials = parseObject(opened.text)
      if (credentials === null) {
        throw new CredentialsUnreadable(integrationId, envelope.kid, 'what it holds is no JSON object.')
      }
      return credentials
    },

    kidOf(text) {
      return parseEnvelope(text)?.kid ?? null
    },

    seal(purpose, text) {
      return lock(primary, sealOf(purpose), text)
    },

    open(purpose, text) {
      const envelope = parseEnvelope(text)
      const opened = envelope === null ? null : open(sealOf(purpose), envelope)
      return opened?.ok ? opened.text : null
    },

    sign(purpose, text) {
      return signature(primary.key, purpose, text).toString('base64url')
    },

    isSigned(purpose, text, given) {
      const bytes = Buffer.from(given, 'base64url')
      if (bytes.toString('base64url') !== given) return false
      return [...keys.values()].some((key) => {
        const expected = signature(key, purpose, text)
        return bytes.length === expected.length && timingSafeEqual(bytes, expected)
      })
    },

    canary(kid) {
      const key = keys.get(kid)
      if (key === undefined) throw new InvalidArgumentException('kid', 'expected the id of a key of the ring.')
      return lock({ kid, key }, canaryOf(kid), CANARY_TEXT)
    },

    verifyCanary(kid, text) {
      const envelope = parseEnvelope(text)
      if (envelope === null || envelope.kid !== kid) return false
      const opened = open(canaryOf(kid), envelope)
      return opened.ok && opened.text === CANARY_TEXT
    },
  } satisfies Encryption)
}

/**
 * The ring of the first place that names one: the option, INTEGRATIONS_ENCRYPTION_KEYS, the file that
 * INTEGRATIONS_ENCRYPTION_KEYS_FILE names. Empty counts as unset.
 *
 * @throws InvalidEncryptionKeys naming key ids and positions, never what was given
 */
export function parseKeyRing(options: {
  encryptionKeys?: string | readonly string[] | undefined
  environment?: Readonly<Record<string, string | undefined>> | undefined
}): KeyRing {
  const ring: RingKey[] = []
  for (const [index, entry] of keyEntries(options.encryptionKeys, options.environment ?? process.env).entries()) {
    const added = parseKey(entry, index + 1)
    const twin = ring.find(({ kid, key }) => kid === added.kid || key.equals(added.key))
    if (twin?.kid === added.kid) throw new InvalidEncryptionKeys(`The key id "${added.kid}" is given twice.`)
    if (twin) throw new InvalidEncryptionKeys(`"${twin.kid}" and "${added.kid}" are the same key.`)
    ring.push(added)
  }
  const [primary, ...others] = ring
  if (primary === undefined) {
    throw new InvalidEncryptionKeys(
      'None is given, by encryptionKeys, INTEGRATIONS_ENCRYPTION_KEYS or INTEGRATIONS_ENCRYPTION_KEYS_FILE.',
    )
  }
  return [primary, ...others]
}

/** A new entry for a ring, `kid:base64`. */
export function generateEncryptionKey(kid: string): string {
  if (!KID.test(kid)) throw new InvalidArgumentException('kid', `expected a string that matches ${KID.source}.`)
  return `${kid}:${randomBytes(KEY_BYTES).toString('base64')}`
}

function keyEntries(
  option: string | readonly string[] | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): string[] {
  const given: readonly unknown[] = option === undefined ? [] : [option].flat()
  if (given.some((text) => typeof text !== 'string')) {
    throw new InvalidEncryptionKeys('encryptionKeys is neither a string nor a list of strings.')
  }
  const inOption = entriesOf(given.join(','))
  return inOption.length > 0 ? inOption : entriesOf(keysInEnvironment(environment))
}

function keysInEnvironment(environment: Readonly<Record<string, string | undefined>>): string {
  const { INTEGRATIONS_ENCRYPTION_KEYS: keys, INTEGRATIONS_ENCRYPTION_KEYS_FILE: file } = environment
  // Both may be edited by an operator; one of them would be ignored without a word.
  if (keys && file) {
    throw new InvalidEncryptionKeys(
      'INTEGRATIONS_ENCRYPTION_KEYS and INTEGRATIONS_ENCRYPTION_KEYS_FILE are both set; set one.',
    )
  }
  return file ? readKeyFile(file) : (keys ?? '')
}

function entriesOf(text: string): string[] {
  return text
    .split(/[,\n]/)
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}

function readKeyFile(path: string): string {
  let fault: string | null
  let text: string
  try {
    fault = keyFileFault(statSync(path), process.getuid?.())
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    throw new InvalidEncryptionKeys(`The file ${path} (INTEGRATIONS_ENCRYPTION_KEYS_FILE) can't be read: ${code}.`)
  }
  if (fault !== null) throw new InvalidEncryptionKeys(`The file ${path} (INTEGRATIONS_ENCRYPTION_KEYS_FILE) ${fault}.`)
  return text
}

/** @param position from 1; named in place of the id, which may be key bytes where the id was forgotten */
function parseKey(entry: string, position: number): RingKey {
  const colon = entry.indexOf(':')
  const kid = entry.slice(0, Math.max(colon, 0))
  if (!KID.test(kid)) {
    throw new InvalidEncryptionKeys(`Entry ${position} has no key id of 1 to 32 letters, digits, "_" or "-".`)
  }
  const encoded = entry.slice(colon + 1)
  const bytes = Buffer.from(encoded, 'base64')
  if (bytes.toString('base64') !== encoded) {
    throw new InvalidEncryptionKeys(`The key "${kid}" is no strict base64 (with padding, no other characters).`)
  }
  if (bytes.length !== KEY_BYTES) throw new InvalidEncryptionKeys(`The key "${kid}" has ${bytes.length} bytes.`)
  return { kid, key: createSecretKey(bytes) }
}

// What an envelope is bound to. The logical table, since a table prefix may change; ids are digits, so that the three
// kinds never meet.

function credentialsOf(integrationId: number): string {
  if (!Number.isSafeInteger(integrationId) || integrationId < 1) {
    throw new InvalidArgumentException('integrationId', 'expected the id of a row, an integer of at least 1.')
  }
  return `integrations/${integrationId}/credentials`
}

function sealOf(purpose: string): string {
  return `integrations/sealed/${purpose}`
}

function canaryOf(kid: string): string {
  return `integrations/canary/${kid}`
}

function lock({ kid, key }: RingKey, boundTo: string, text: string): string {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv(ALGORITHM, key, iv, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(boundTo))
  const ciphertext = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  const parts = [iv, ciphertext, cipher.getAuthTag()].map((bytes) => bytes.toString('base64url'))
  return [VERSION, kid, ...parts].join('.')
}

function unlock(key: KeyObject, boundTo: string, { iv, ciphertext, tag }: Envelope): string | null {
  const decipher = createDecipheriv(ALGORITHM, key, iv, { authTagLength: TAG_BYTES })
  decipher.setAAD(Buffer.from(boundTo))
  decipher.setAuthTag(tag)
  try {
    return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8')
  } catch {
    return null
  }
}

function parseEnvelope(text: unknown): Envelope | null {
  if (typeof text !== 'string') return null
  const [version, kid, ...encoded] = text.split('.')
  if (version !== VERSION || kid === undefined || !KID.test(kid) || encoded.length !== 3) return null
  const [iv, ciphertext, tag] = encoded.map(strictBase64url)
  if (!iv || !ciphertext || !tag || iv.length !== IV_BYTES || tag.length !== TAG_BYTES) return null
  return { kid, iv, ciphertext, tag }
}

/** Null unless it is the one way to write these bytes: Node ignores foreign characters and surplus bits. */
function strictBase64url(encoded: string): Buffer | null {
  const bytes = Buffer.from(encoded, 'base64url')
  return bytes.toString('base64url') === encoded ? bytes : null
}

/** The errors of JSON quote what they stumble over, so none is passed on as a cause. */
function jsonOf(credentials: unknown): string {
  let json: string | undefined
  try {
    json = JSON.stringify(credentials)
  } catch {
    json = undefined
  }
  if (json === undefined || parseObject(json) === null) {
    throw new InvalidArgumentException('credentials', 'expected a plain object that JSON can hold.')
  }
  return json
}

function parseObject(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json)
    return isRecord(value) ? value : null
  } catch {
    return null
  }
}

function signature(key: KeyObject, purpose: string, text: string): Buffer {
  const derived = Buffer.from(hkdfSync('sha256', key, '', `integrations/signature/${purpose}`, KEY_BYTES))
  return createHmac('sha256', derived).update(text).digest()
}
