/** The ways in: tokens, browser sessions, signed links. Rule: docs/behaviour/access.md. */
import { createHmac, randomBytes } from 'node:crypto'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { errorLine } from '../framework/logger.ts'
import type { Principal } from './rules.ts'
import { isSameSecret, linkProofOf, MAX_LINK_SECONDS, sha256Hex, signedLinkText } from './rules.ts'

/** A browser that has signed in. */
export interface Session {
  /** Goes into the cookie; stored hashed only. */
  readonly id: string
  readonly principal: Principal
  /** Each form of this session carries it. */
  readonly csrfToken: string
  readonly expiresAt: Date
}

export interface LinkTarget {
  readonly method: string
  readonly path: string
}

export interface Access {
  /** In `dev`: a token with `operate`, the same for as long as the key ring has the same first key. Null elsewhere. */
  readonly devToken: string | null
  /** The token's holder; null when it is not configured. Records the time of its use. */
  byToken(token: string): Promise<Principal | null>
  /** A new session for a token's holder; null when the token is not configured. */
  signIn(token: string): Promise<Session | null>
  /** The session of a cookie; null when it is over, or its token is no longer configured. */
  bySession(id: string): Promise<Session | null>
  signOut(id: string): Promise<void>
  /** The query string (`expires=…&signature=…`) that opens one method and path for this long. */
  signLink(target: LinkTarget, expiresInSeconds: number): string
  /**
   * As `signLink()`, for as long as the link that has opened `from`, whose page leads on to `to`. Null: the query does not open
   * `from` now.
   */
  continueLink(query: URLSearchParams, from: LinkTarget, to: LinkTarget): string | null
  /** Whether the query opens this method and path now. */
  isLinkValid(target: LinkTarget, query: URLSearchParams): boolean
}

type OperatorToken = Framework['config']['operator']['tokens'][number]

const SESSION_SECONDS = 8 * 3_600
const SESSION_BYTES = 32
const SESSION_ID = /^[\w-]{43}$/ // 32 bytes in base64url
/** Each process records a token's last use at most once a minute. */
const NOTE_EVERY_MS = 60_000
const LINK_PURPOSE = 'link'
const DEV_PURPOSE = 'dev'

export function createAccess({ config, cache, clock, encryption, logger }: Framework, dev: boolean): Access {
  // Made from the key ring: every process of a developer's machine has the same one, and it need not be passed on.
  const devToken = dev ? encryption.sign(DEV_PURPOSE, 'operator token') : null
  const tokens: readonly OperatorToken[] =
    devToken === null
      ? config.operator.tokens
      : [...config.operator.tokens, { name: 'dev', sha256: sha256Hex(devToken), scopes: ['operate'] }]
  const notedAtMs = new Map<string, number>()

  /** Compares with each token, so that the time taken does not show which one came close. */
  function ownerOf(token: string): OperatorToken | null {
    const digest = sha256Hex(token)
    let owner: OperatorToken | null = null
    for (const candidate of tokens) if (isSameSecret(digest, candidate.sha256)) owner = candidate
    return owner
  }

  async function noteUse({ name }: OperatorToken): Promise<void> {
    const now = clock.now()
    if (now.getTime() - (notedAtMs.get(name) ?? Number.NEGATIVE_INFINITY) < NOTE_EVERY_MS) return
    notedAtMs.set(name, now.getTime())
    try {
      await cache.set(`token-used:${sha256Hex(name)}`, { name, at: now.toISOString() }, null)
    } catch (error) {
      // Access does not depend on this record.
      logger.warn(
        { event: 'access.use_not_noted', token: name, error: errorLine(error, 500) },
        "The time of a token's use could not be noted.",
      )
    }
  }

  function signedUntil({ method, path }: LinkTarget, expires: number): string {
    const signature = encryption.sign(LINK_PURPOSE, signedLinkText(method, path, expires))
    return new URLSearchParams({ expires: String(expires), signature }).toString()
  }

  function isValid({ method, path }: LinkTarget, query: URLSearchParams): boolean {
    const proof = linkProofOf(query)
    if (proof === null || clock.now().getTime() >= proof.expiresAtSeconds * 1_000) return false
    return encryption.isSigned(LINK_PURPOSE, signedLinkText(method, path, proof.expiresAtSeconds), proof.signature)
  }

  return {
    devToken,

    async byToken(token) {
      const owner = ownerOf(token)
      if (owner === null) return null
      // Not awaited: access does not wait for a database that does not answer.
      void noteUse(owner)
      return { name: owner.name, scopes: owner.scopes, via: 'token' }
    },

    async signIn(token) {
      const owner = ownerOf(token)
      if (owner === null) {
        logger.warn(
          { event: 'access.sign_in_refused' },
          'Somebody tried to sign in with a token that is not configured.',
        )
        return null
      }
      await noteUse(owner)
      const id = randomBytes(SESSION_BYTES).toString('base64url')
      const expiresAt = new Date(clock.now().getTime() + SESSION_SECONDS * 1_000)
      const stored = { holder: fingerprint(owner), expires_at: expiresAt.toISOString() }
      await cache.set(sessionKey(id), stored, SESSION_SECONDS)
      return sessionOf(id, owner, expiresAt)
    },

    async bySession(id) {
      if (!SESSION_ID.test(id)) return null
      const stored = (await cache.get(sessionKey(id))) as StoredSession | undefined
      if (stored === undefined) return null
      const expiresAt = new Date(stored.expires_at)
      const owner = tokens.find((token) => fingerprint(token) === stored.holder)
      if (owner === undefined || clock.now() >= expiresAt) return null
      return sessionOf(id, owner, expiresAt)
    },

    async signOut(id) {
      await cache.delete(sessionKey(id))
    },

    signLink(target, expiresInSeconds) {
      if (!Number.isInteger(expiresInSeconds) || expiresInSeconds < 1 || expiresInSeconds > MAX_LINK_SECONDS)
        throw new InvalidArgumentException(
          'expiresIn',
          `whole seconds from 1 to ${MAX_LINK_SECONDS} (7 days) are allowed, ${expiresInSeconds} was given`,
        )
      return signedUntil(target, Math.floor(clock.now().getTime() / 1_000) + expiresInSeconds)
    },

    continueLink(query, from, to) {
      const proof = linkProofOf(query)
      return proof !== null && isValid(from, query) ? signedUntil(to, proof.expiresAtSeconds) : null
    },

    isLinkValid: isValid,
  }
}

interface StoredSession {
  readonly holder: string
  readonly expires_at: string
}

/** Changes with a token's name, bytes or scopes, and ends its sessions thereby. */
function fingerprint({ name, sha256, scopes }: OperatorToken): string {
  return sha256Hex(JSON.stringify([name, sha256, [...scopes].sort()]))
}

function sessionKey(id: string): string {
  return `session:${sha256Hex(id)}`
}

/** The CSRF token is derived from the id, which only the cookie holds: a reader of the table can't make one. */
function sessionOf(id: string, { name, scopes }: OperatorToken, expiresAt: Date): Session {
  const csrfToken = createHmac('sha256', id).update('csrf').digest('base64url')
  return { id, principal: { name, scopes, via: 'session' }, csrfToken, expiresAt }
}
