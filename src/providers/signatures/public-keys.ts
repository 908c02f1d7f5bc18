/**
 * Public keys and certificates that providers publish: fetched from declared hosts only, kept, and never more often than a forger may
 * make us ask.
 *
 * Rule: docs/behaviour/webhook-signatures.md, "Fetched keys".
 */
import type { KeyObject } from 'node:crypto'
import { createPublicKey, X509Certificate } from 'node:crypto'
import type { JSONWebKeySet, JWK } from 'jose'
import type { Egress } from '../../egress/guarded-fetch.ts'
import { decodeDigest } from './delivery-values.ts'
import type { CertificateSource, KeyFormat } from './scheme-rules.ts'
import { ed25519Key } from './standard-webhooks.ts'

const KEPT_MS = 3_600_000
/** An unknown key's id may be a new key's: a kept set that is older than this is asked for again. */
const RENEWED_MS = 60_000
const FAILURE_KEPT_MS = 30_000
const MAX_KEPT = 100
const MAX_BYTES = 256 * 1024
const TIMEOUT_MS = 5_000
/** Addresses below declared hosts are the sender's choice, so a forger can name new ones without end. */
const FETCHES_PER_MINUTE = 30

interface Kept {
  readonly at: number
  /** Null: the fetch failed. */
  readonly text: Promise<string | null>
}

/** What a process has fetched. */
export class FetchedKeys {
  readonly #egress: Pick<Egress, 'fetch'>
  readonly #now: () => number
  readonly #kept = new Map<string, Kept>()
  #fetchedAt: number[] = []

  /** @param now milliseconds, of a clock that never goes back */
  constructor(egress: Pick<Egress, 'fetch'>, now = () => performance.now()) {
    this.#egress = egress
    this.#now = now
  }

  /** Null: it can't be fetched now. */
  async get(
    url: string,
    { isStale = () => false }: { isStale?: (text: string) => boolean } = {},
  ): Promise<string | null> {
    const known = this.#kept.get(url)
    if (known === undefined) return this.#fetch(url)
    const text = await known.text
    const age = this.#now() - known.at
    if (text === null) return age < FAILURE_KEPT_MS ? null : this.#fetch(url)
    if (age < KEPT_MS && !(age >= RENEWED_MS && isStale(text))) return text
    // An old copy is better than none while the provider's host is away.
    return (await this.#fetch(url)) ?? text
  }

  #fetch(url: string): Promise<string | null> {
    const now = this.#now()
    const underWay = this.#kept.get(url)
    if (underWay !== undefined && underWay.at === now) return underWay.text
    this.#fetchedAt = this.#fetchedAt.filter((at) => now - at < 60_000)
    if (this.#fetchedAt.length >= FETCHES_PER_MINUTE) return Promise.resolve(null)
    this.#fetchedAt.push(now)
    const kept: Kept = { at: now, text: this.#ask(url) }
    // Deleted first: a map keeps its order, so the one fetched longest ago comes first.
    this.#kept.delete(url)
    this.#kept.set(url, kept)
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > MAX_KEPT && oldest !== undefined) this.#kept.delete(oldest)
    return kept.text
  }

  async #ask(url: string): Promise<string | null> {
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS)
      const fetch = this.#egress.fetch({ followRedirects: false, maxBytes: MAX_BYTES, signal })
      const response = await fetch(url)
      if (response.status === 200) return await response.text()
      await response.body?.cancel()
      return null
    } catch {
      // Whatever kept it from us, the sender is asked to come again.
      return null
    }
  }
}

/** The keys of a published set; `null`: it can't be fetched now. @param keyId null: all of them may be meant */
export async function keysOfSet(keys: FetchedKeys, url: string, keyId: string | null): Promise<readonly JWK[] | null> {
  const lacks = (text: string) => {
    const set = keySetIn(text)
    return set === null || (keyId !== null && !set.keys.some(({ kid }) => kid === keyId))
  }
  const text = await keys.get(url, { isStale: lacks })
  const set = text === null ? null : keySetIn(text)
  return set === null ? null : keyId === null ? set.keys : set.keys.filter(({ kid }) => kid === keyId)
}

function keySetIn(text: string): JSONWebKeySet | null {
  try {
    const set = JSON.parse(text) as JSONWebKeySet
    return Array.isArray(set.keys) ? set : null
  } catch {
    return null
  }
}

/** The key of a certificate, or what is wrong. */
export async function certifiedKey(
  keys: FetchedKeys,
  source: CertificateSource,
  url: string,
  now: Date,
): Promise<KeyObject | 'key_not_allowed' | 'key_invalid' | null> {
  if (!isAllowed(source, url)) return 'key_not_allowed'
  const pem = await keys.get(new URL(url).href)
  if (pem === null) return null
  try {
    const certificate = new X509Certificate(pem)
    const isInForce =
      Date.parse(certificate.validFrom) <= now.getTime() && now.getTime() <= Date.parse(certificate.validTo)
    const isOfSubject = source.subject === undefined || certificate.checkHost(source.subject) !== undefined
    const fingerprint = certificate.fingerprint256.replaceAll(':', '').toLowerCase()
    const isPinned = source.fingerprints?.some((each) => each.replaceAll(':', '').toLowerCase() === fingerprint) ?? true
    return isInForce && isOfSubject && isPinned ? certificate.publicKey : 'key_invalid'
  } catch {
    return 'key_invalid'
  }
}

/** https, a declared host, its own port, and nothing that a reader could take for something else. */
function isAllowed({ hosts, pathSuffix = '' }: CertificateSource, text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, port, username, password, pathname, search, hash } = new URL(text)
  if (protocol !== 'https:' || port !== '' || username !== '' || password !== '' || hash !== '') return false
  if (pathSuffix !== '' && (!pathname.endsWith(pathSuffix) || search !== '')) return false
  return hosts.some((host) => {
    const labels = host
      .split('.')
      .map((label) => (label === '*' ? '[a-z0-9-]{1,63}' : label.replace(/[^a-z0-9-]/gi, '')))
    return new RegExp(`^${labels.join('[.]')}$`, 'i').test(hostname)
  })
}

const KNOWN_KEYS = new Map<string, KeyObject | null>()
const MAX_KNOWN_KEYS = 1_000

/** Null: the text is no key in this format. Reading one costs more than using it, so the last ones are kept. */
export function publicKeyIn(text: string, format: KeyFormat): KeyObject | null {
  const id = `${format}:${text}`
  const known = KNOWN_KEYS.get(id)
  if (known !== undefined) return known
  const key = readPublicKey(text, format)
  const [oldest] = KNOWN_KEYS.keys()
  if (KNOWN_KEYS.size >= MAX_KNOWN_KEYS && oldest !== undefined) KNOWN_KEYS.delete(oldest)
  KNOWN_KEYS.set(id, key)
  return key
}

function readPublicKey(text: string, format: KeyFormat): KeyObject | null {
  try {
    if (format === 'pem') return createPublicKey(text)
    const bytes = decodeDigest(text, format === 'spki' ? 'base64' : format, null)
    if (bytes === null) return null
    return format === 'spki' ? createPublicKey({ key: bytes, format: 'der', type: 'spki' }) : ed25519Key(bytes)
  } catch {
    return null
  }
}
