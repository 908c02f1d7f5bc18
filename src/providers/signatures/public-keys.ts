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
  /** Null: it could not be fetched, and there is no older copy. */
  readonly text: Promise<string | null>
  /** The text is an older copy, or none. */
  hasFailed: boolean
  /** The address has answered at least once: it is no forger's invention. */
  hasText: boolean
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
    if (known === undefined) return this.#fetch(url, null)
    const text = await known.text
    const age = this.#now() - known.at
    const isRenewed = text !== null && age >= RENEWED_MS && isStale(text)
    if (age < (known.hasFailed ? FAILURE_KEPT_MS : KEPT_MS) && !isRenewed) return text
    const newer = this.#kept.get(url)
    if (newer !== undefined && newer !== known) return newer.text
    return this.#fetch(url, text)
  }

  /** @param older is better than none while the provider's host is away */
  #fetch(url: string, older: string | null): Promise<string | null> {
    const now = this.#now()
    // What is known is asked for again whatever a forger has used up.
    if (older === null) {
      this.#fetchedAt = this.#fetchedAt.filter((at) => now - at < 60_000)
      if (this.#fetchedAt.length >= FETCHES_PER_MINUTE) return Promise.resolve(null)
      this.#fetchedAt.push(now)
    }
    const asked = this.#ask(url)
    const kept: Kept = {
      at: now,
      text: asked.then((text) => text ?? older),
      hasFailed: false,
      hasText: older !== null,
    }
    void asked.then((text) => {
      kept.hasFailed = text === null
      kept.hasText ||= text !== null
    })
    // Deleted first: a map keeps its order, so the one fetched longest ago comes first.
    this.#kept.delete(url)
    this.#kept.set(url, kept)
    if (this.#kept.size > MAX_KEPT) this.#forgetOne()
    return kept.text
  }

  /** One that has never answered, else the one fetched longest ago. */
  #forgetOne(): void {
    const before = [...this.#kept].slice(0, -1)
    const [url] = before.find(([, { hasText }]) => !hasText) ?? before[0] ?? []
    if (url !== undefined) this.#kept.delete(url)
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
  // `new URL()` mends `https:/host`; a browser's kindness is not for a signature.
  if (!/^\s*https:\/\/[^/\\]/i.test(text) || !URL.canParse(text)) return false
  const { hostname, port, username, password, pathname, search, hash } = new URL(text)
  if (port !== '' || username !== '' || password !== '' || hash !== '') return false
  if (pathSuffix !== '' && (!pathname.endsWith(pathSuffix) || search !== '')) return false
  return hosts.some((host) => {
    const labels = host
      .split('.')
      .map((label) => (label === '*' ? '[a-z0-9-]{1,63}' : label.replace(/[^a-z0-9-]/gi, '')))
    return new RegExp(`^${labels.join('[.]')}$`, 'i').test(hostname)
  })
}

/** Null: the text is no key in this format. */
export function publicKeyIn(text: string, format: KeyFormat): KeyObject | null {
  try {
    if (format === 'pem') return createPublicKey(text)
    const bytes = decodeDigest(text, format === 'spki' ? 'base64' : format, null)
    if (bytes === null) return null
    return format === 'spki' ? createPublicKey({ key: bytes, format: 'der', type: 'spki' }) : ed25519Key(bytes)
  } catch {
    return null
  }
}
