/** Access as rules: no clock, no store, no request object. Rule: docs/behaviour/access.md. */
import { createHash, timingSafeEqual } from 'node:crypto'

/** `operate` includes `read`. */
export const SCOPES = ['read', 'operate'] as const
export type Scope = (typeof SCOPES)[number]

/** A caller that is known. */
export interface Principal {
  /** The token's name. */
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly via: 'token' | 'session'
  /** Left out: of every provider and every owner. */
  readonly limits?: Limits
}

/** What a caller is bound to; all that is given must hold. */
export interface Limits {
  readonly provider?: string
  readonly owner?: { readonly type: string; readonly id: number }
}

/** Whose integration a record is. */
export interface Ownership {
  readonly provider: string
  readonly ownerType: string | null
  readonly ownerId: number | null
}

/** For the filters of lists, which have the same names. */
export function limitsOf({ limits }: Principal): Limits {
  return limits ?? {}
}

/** A limited caller gets no answer that is about all integrations: figures, pruning, keys, tokens. */
export function isLimited(principal: Principal): boolean {
  const { provider, owner } = limitsOf(principal)
  return provider !== undefined || owner !== undefined
}

/** Whether a caller may know of a record. What it may not know of is answered as if it did not exist. */
export function visible(principal: Principal, record: Ownership): boolean {
  return isWithin(limitsOf(principal), record)
}

export function isWithin(limits: Limits, { provider, ownerType, ownerId }: Ownership): boolean {
  if (limits.provider !== undefined && limits.provider !== provider) return false
  return limits.owner === undefined || (limits.owner.type === ownerType && limits.owner.id === ownerId)
}

export function hasScope(scopes: readonly Scope[], needed: Scope): boolean {
  return scopes.includes('operate') || scopes.includes(needed)
}

/** Methods that change nothing (RFC 9110, 9.2.1); all others need `operate` and a same-origin page. */
export function isSafeMethod(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

export type Authorization =
  | { readonly kind: 'none' }
  | { readonly kind: 'bearer'; readonly token: string }
  | { readonly kind: 'malformed' }

/** `Bearer` and one token of RFC 6750, 2.1; the scheme in any case. Another scheme is malformed, not absent. */
export function parseAuthorization(header: string | null | undefined): Authorization {
  if (header === null || header === undefined) return { kind: 'none' }
  const token = /^bearer +([A-Za-z0-9\-._~+/]{1,1024}=*)$/i.exec(header)?.[1]
  return token === undefined ? { kind: 'malformed' } : { kind: 'bearer', token }
}

export function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** Equality that takes the same time wherever two texts differ. Hashed first: the comparison wants equal lengths. */
export function isSameSecret(given: string, expected: string): boolean {
  const hashed = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(hashed(given), hashed(expected))
}

export interface OriginEvidence {
  readonly origin: string | null
  readonly secFetchSite: string | null
  /** Where our own pages come from; null when that is not known. */
  readonly ownOrigin: string | null
  readonly hasBearer: boolean
  readonly hasCookie: boolean
}

/**
 * Whether a request was made by a page of ours, or by no browser at all.
 *
 * A browser adds cookies by itself but never a bearer token, so a call with a token and no cookie can't be forged. `Origin`
 * decides where it can: it is sent with every POST (Fetch, 3.2), and `null` is no origin of ours.
 */
export function isSameOrigin(evidence: OriginEvidence): boolean {
  const { origin, secFetchSite, ownOrigin, hasBearer, hasCookie } = evidence
  if (hasBearer && !hasCookie) return true
  if (origin !== null && ownOrigin !== null) return origin === ownOrigin
  return secFetchSite === 'same-origin'
}

/** Scheme, host and port of a URL; null for any other text. */
export function originOf(url: string | null): string | null {
  return url !== null && URL.canParse(url) ? new URL(url).origin : null
}

/** Whether browsers reach us over TLS, so that a cookie may be `Secure`. The case of a scheme does not matter (RFC 3986, 3.1). */
export const isHttps = (url: string | null): boolean => originOf(url)?.startsWith('https:') ?? false

/** The path under which the API is reached from outside, without a trailing slash: empty in most deployments. */
export function basePathOf(baseUrl: string | null): string {
  return baseUrl !== null && URL.canParse(baseUrl) ? new URL(baseUrl).pathname.replace(/\/+$/, '') : ''
}

/** The path as our routes know it: what a proxy leaves of the base URL's own path is taken off. */
export function routePathOf(path: string, baseUrl: string | null): string {
  const base = basePathOf(baseUrl)
  return path.startsWith(`${base}/`) ? path.slice(base.length) : path
}

/** As URLs write it: https://url.spec.whatwg.org/#host-writing */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}

/** Who an OpenID provider says is there. */
export interface Person {
  /** In the audit: the verified e-mail address; else what the provider calls the person, with the subject that no one else has. */
  readonly name: string
  readonly scope: Scope
}

/** Claims of an ID token (OpenID Connect Core 1.0, 5.1). */
export type Claims = Readonly<Record<string, unknown>>

/** What a claim may be that a list names by its text: `is_admin=true`. */
const TEXTUAL: ReadonlySet<string> = new Set(['string', 'number', 'boolean'])

/**
 * The person, if a list names it: an e-mail address or a domain (`@example.com`), which count for a verified address only; or a
 * claim (`groups=operators`) that has the value or holds it.
 */
export function personOf(
  claims: Claims,
  {
    read = [],
    operate = [],
  }: { readonly read?: readonly string[] | undefined; readonly operate?: readonly string[] | undefined },
): Person | null {
  const { sub, email, email_verified: isVerified, preferred_username: username } = claims
  // A text at Apple's, against the specification.
  const address = typeof email === 'string' && [true, 'true'].includes(isVerified as never) ? email.toLowerCase() : null
  const isNamed = (entry: string): boolean => {
    const end = entry.indexOf('=')
    if (end >= 0) {
      const values = [claims[entry.slice(0, end)]].flat().filter((value) => TEXTUAL.has(typeof value))
      return values.map(String).includes(entry.slice(end + 1))
    }
    const wanted = entry.toLowerCase()
    return address !== null && (wanted.startsWith('@') ? address.endsWith(wanted) : address === wanted)
  }
  const scope = operate.some(isNamed) ? 'operate' : read.some(isNamed) ? 'read' : null
  if (scope === null) return null
  const called = [email, username].find((each) => typeof each === 'string')
  const name = address ?? (called === undefined ? String(sub) : `${called} (${sub})`)
  // A colon would make it look like a command's name: `cli:<user>`.
  return { name: name.replace(/[\p{Cc}:]/gu, '_').slice(0, 255), scope }
}

const LOCAL_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i

/** Whether a `Host` is a name that only this machine has: a web page whose name was re-pointed to 127.0.0.1 (DNS rebinding) has another. */
export function isLocalHost(host: string | null | undefined): boolean {
  return typeof host === 'string' && LOCAL_HOST.test(host)
}

/** A link is open for seven days at most. */
export const MAX_LINK_SECONDS = 7 * 86_400

/** What is signed: one method and path until one moment. */
export function signedLinkText(method: string, path: string, expiresAtSeconds: number): string {
  return [method.toUpperCase(), path, String(expiresAtSeconds)].join('\n')
}

export interface LinkProof {
  readonly expiresAtSeconds: number
  readonly signature: string
}

/** The proof in a query; null unless it has `expires` and `signature`, once each, and nothing else: nothing else is signed. */
export function linkProofOf(query: URLSearchParams): LinkProof | null {
  const names = [...query.keys()].sort()
  if (names.length !== 2 || names[1] !== 'signature') return null
  const expires = query.get('expires') ?? ''
  // Twelve digits reach the year 33658.
  if (!/^[1-9]\d{0,11}$/.test(expires)) return null
  return { expiresAtSeconds: Number(expires), signature: query.get('signature') ?? '' }
}

const MAX_NEXT_LENGTH = 2048

/**
 * Where a browser goes after signing in: the path it asked for, or `fallback` when that could lead to another site.
 *
 * One leading slash (two name a host), no backslash (browsers read it as a slash) and no control character or space (they
 * drop some of them): WHATWG URL, 4.4. The text is passed on as it came, since normalising `/.//host` would make `//host`.
 */
export function safeNextPath(next: string | null | undefined, fallback: string): string {
  if (!next || next.length > MAX_NEXT_LENGTH) return fallback
  return /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(next) ? next : fallback
}
