/** The ways in: tokens, browser sessions, signed links. Rule: docs/behaviour/access.md. */
import { createHmac, randomBytes } from 'node:crypto'
import type { TokenRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { errorLine } from '../framework/logger.ts'
import type { AuditedAct } from '../observability/audit.ts'
import { noteActs } from '../observability/audit.ts'
import type { OidcSignIn } from './oidc-sign-in.ts'
import { oidcSignIn } from './oidc-sign-in.ts'
import { goodToken, goodTokenOf, limitsOfToken, noteTokenUse } from './operator-tokens.ts'
import type { Claims, Limits, Person, Principal, Scope } from './rules.ts'
import { isSameSecret, linkProofOf, MAX_LINK_SECONDS, personOf, sha256Hex, signedLinkText } from './rules.ts'

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
  /** The token's holder; null when it is not known, revoked or expired. Records the time of its use. */
  byToken(token: string): Promise<Principal | null>
  /** A new session for a token's holder; null as above. @param from IP address, for the audit */
  signIn(token: string, from?: string): Promise<Session | null>
  /** How people sign in; null: `operator.oidc` is not set. */
  readonly oidc: OidcSignIn | null
  /** A new session for a person of `operator.oidc`; null: no list names it. */
  signInPerson(claims: Claims, from?: string): Promise<Session | null>
  /** The session of a cookie; null when it is over, or its token is expired or revoked, or `operator.oidc` has changed. */
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

/** A token of the configuration, one that was made at run time, or a person whom an OpenID provider names. */
interface Holder {
  readonly name: string
  readonly sha256: string
  readonly scopes: readonly Scope[]
  /** Of the second kind only. */
  readonly stored?: { readonly id: number; readonly limits: Limits | null; readonly expiresAt: Date | null }
}

const SESSION_SECONDS = 8 * 3_600
const SESSION_BYTES = 32
const SESSION_ID = /^[\w-]{43}$/ // 32 bytes in base64url
/** Each process records a token's last use at most once a minute. */
const NOTE_EVERY_MS = 60_000
/** Each process writes refused sign-ins into the audit at most once a minute: anyone can cause them. */
const REFUSED_EVERY_MS = 60_000
const LINK_PURPOSE = 'link'
const DEV_PURPOSE = 'dev'

export function createAccess(framework: Framework, dev: boolean): Access {
  const { config, cache, clock, db, encryption, logger, tables } = framework
  // Made from the key ring: every process of a developer's machine has the same one, and it need not be passed on.
  const devToken = dev ? encryption.sign(DEV_PURPOSE, 'operator token') : null
  const tokens: readonly Holder[] =
    devToken === null
      ? config.operator.tokens
      : [...config.operator.tokens, { name: 'dev', sha256: sha256Hex(devToken), scopes: ['operate'] }]
  const { oidc } = config.operator
  /** A person named by another configuration has to sign in again. */
  const holderOfPerson = ({ name, scope }: Person): Holder => ({
    name,
    sha256: sha256Hex(JSON.stringify(oidc)),
    scopes: [scope],
  })
  const notedAtMs = new Map<string, number>()
  let refusedAtMs = Number.NEGATIVE_INFINITY
  let refusedSince = 0

  /** Compares with each configured token, so that the time taken does not show which one came close; then looks in the table. */
  async function ownerOf(token: string): Promise<Holder | null> {
    const digest = sha256Hex(token)
    let owner: Holder | null = null
    for (const candidate of tokens) if (isSameSecret(digest, candidate.sha256)) owner = candidate
    if (owner !== null) return owner
    const row = await goodToken(framework, token)
    return row === null ? null : holderOf(row)
  }

  async function holderOfSession({ holder, token_id: id, person }: StoredSession): Promise<Holder | null> {
    const row = id === undefined ? null : await goodTokenOf(framework, id)
    const known = person !== undefined ? [holderOfPerson(person)] : row === null ? tokens : [holderOf(row)]
    return known.find((token) => fingerprint(token) === holder) ?? null
  }

  async function noteUse({ name, sha256, stored }: Holder): Promise<void> {
    const now = clock.now()
    // A clock that was set back does not keep it from noting.
    if (Math.abs(now.getTime() - (notedAtMs.get(sha256) ?? Number.NEGATIVE_INFINITY)) < NOTE_EVERY_MS) return
    notedAtMs.set(sha256, now.getTime())
    try {
      if (stored === undefined) await cache.set(`token-used:${sha256Hex(name)}`, { name, at: now.toISOString() }, null)
      else await noteTokenUse(db, tables, stored.id, now)
    } catch (error) {
      // Access does not depend on this record.
      logger.warn(
        { event: 'access.use_not_noted', token: name, error: errorLine(error, 500) },
        "The time of a token's use could not be noted.",
      )
    }
  }

  /** Never throws: signing in does not depend on its record. */
  const audit = (act: Omit<AuditedAct, 'target'>): Promise<void> =>
    noteActs(framework, [{ ...act, target: 'operator', integrationId: null }])

  /** @param who a person that is known, and named by no list */
  async function noteRefusal(from: string | undefined, who?: string): Promise<void> {
    refusedSince += 1
    const nowMs = clock.now().getTime()
    if (Math.abs(nowMs - refusedAtMs) < REFUSED_EVERY_MS) return
    refusedAtMs = nowMs
    const times = refusedSince
    refusedSince = 0
    const before = times === 1 ? [] : [`and ${times - 1} before it, since the last entry of this process`]
    const detail = [...(who === undefined ? [] : [who]), ...before].join(', ')
    await audit({ by: 'unknown', action: 'sign-in refused', from, ...(detail === '' ? {} : { detail }) })
  }

  async function begin(holder: Holder, from: string | undefined, person?: Person): Promise<Session> {
    const id = randomBytes(SESSION_BYTES).toString('base64url')
    const endMs = clock.now().getTime() + SESSION_SECONDS * 1_000
    const expiresAt = new Date(Math.min(endMs, holder.stored?.expiresAt?.getTime() ?? endMs))
    const stored: StoredSession = {
      holder: fingerprint(holder),
      expires_at: expiresAt.toISOString(),
      ...(holder.stored === undefined ? {} : { token_id: holder.stored.id }),
      ...(person === undefined ? {} : { person: { ...person } }),
    }
    await cache.set(sessionKey(id), stored, SESSION_SECONDS)
    const detail = person === undefined ? {} : { detail: `${person.scope}, by ${oidc?.issuer}` }
    await audit({ by: holder.name, action: 'sign-in', from, ...detail })
    return sessionOf(id, holder, expiresAt)
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
    oidc: oidc === null ? null : oidcSignIn(framework, oidc),

    async byToken(token) {
      const owner = await ownerOf(token)
      if (owner === null) return null
      // Not awaited: access does not wait for a database that does not answer.
      void noteUse(owner)
      return principalOf(owner, 'token')
    },

    async signIn(token, from) {
      const owner = await ownerOf(token)
      if (owner === null) {
        logger.warn(
          { event: 'access.sign_in_refused' },
          'Somebody tried to sign in with a token that is unknown, revoked or expired.',
        )
        await noteRefusal(from)
        return null
      }
      await noteUse(owner)
      return begin(owner, from)
    },

    async signInPerson(claims, from) {
      const person = oidc === null ? null : personOf(claims, oidc)
      if (person !== null) return begin(holderOfPerson(person), from, person)
      const who = personOf(claims, { read: [`sub=${claims.sub}`] })?.name ?? 'nobody'
      logger.warn(
        { event: 'access.person_refused', person: who },
        'A person signed in whom operator.oidc does not name.',
      )
      await noteRefusal(from, who)
      return null
    },

    async bySession(id) {
      if (!SESSION_ID.test(id)) return null
      const stored = (await cache.get(sessionKey(id))) as StoredSession | undefined
      if (stored === undefined) return null
      const expiresAt = new Date(stored.expires_at)
      if (clock.now() >= expiresAt) return null
      const owner = await holderOfSession(stored)
      if (owner === null) return null
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

type StoredSession = {
  readonly holder: string
  readonly expires_at: string
  /** Of a token that was made at run time. */
  readonly token_id?: number
  /** Of no token. */
  readonly person?: { readonly name: string; readonly scope: Scope }
}

function holderOf(row: TokenRow): Holder {
  const { id, name, sha256, scope, expiresAt } = row
  return { name, sha256, scopes: [scope], stored: { id, limits: limitsOfToken(row), expiresAt } }
}

function principalOf({ name, scopes, stored }: Holder, via: Principal['via']): Principal {
  const limits = stored?.limits ?? null
  return { name, scopes, via, ...(limits === null ? {} : { limits }) }
}

/** Changes with a token's name, bytes or scopes, and ends its sessions thereby. */
function fingerprint({ name, sha256, scopes }: Holder): string {
  return sha256Hex(JSON.stringify([name, sha256, [...scopes].sort()]))
}

function sessionKey(id: string): string {
  return `session:${sha256Hex(id)}`
}

/** The CSRF token is derived from the id, which only the cookie holds: a reader of the table can't make one. */
function sessionOf(id: string, holder: Holder, expiresAt: Date): Session {
  const csrfToken = createHmac('sha256', id).update('csrf').digest('base64url')
  return { id, principal: principalOf(holder, 'session'), csrfToken, expiresAt }
}
