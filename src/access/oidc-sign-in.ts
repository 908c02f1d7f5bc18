/**
 * People sign in at an OpenID provider: authorization code, PKCE, state and nonce (OpenID Connect Core 1.0, 3.1).
 * Rule: docs/behaviour/access.md, "People".
 *
 * Nothing is stored before a person comes back: the browser's cookie has all that belongs to one sign-in, signed, and state, nonce
 * and verifier are made of it. So a flood of beginnings costs no rows.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { AuthorizationServer } from 'oauth4webapi'
import type { OidcSettings } from '../config/value-kinds.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import type { Claims } from './rules.ts'
import { isLoopback, isSameSecret, sha256Hex } from './rules.ts'

export interface BegunSignIn {
  /** Where the browser goes. */
  readonly url: string
  /** Goes into a cookie, and comes back with it. */
  readonly cookie: string
  readonly expiresAt: Date
}

export type EndedSignIn =
  | { readonly kind: 'known'; readonly claims: Claims; readonly next: string }
  /** The sign-in was not begun by this browser, is over, was used already, or is refused by the provider. */
  | { readonly kind: 'refused'; readonly next: string | null }
  /** The provider does not answer, or not by the book; the log says what. */
  | { readonly kind: 'failed' }

export interface OidcSignIn {
  /** @param next where the person wants to go. Null: the provider does not answer; the log says what */
  begin(redirectUri: string, next: string): Promise<BegunSignIn | null>
  /** @param callback as the browser was sent to it */
  end(redirectUri: string, callback: URL, cookie: string | undefined): Promise<EndedSignIn>
}

const SIGN_IN_SECONDS = 600
const PURPOSE = 'sign-in'
/** Of one answer of the provider's; a person waits for it. */
const TIMEOUT_MS = 10_000
/** Endpoints hardly ever move. */
const DISCOVERED_FOR_MS = 3_600_000

export function oidcSignIn(framework: Framework, settings: OidcSettings): OidcSignIn {
  const { cache, clock, encryption, logger } = framework
  const issuer = new URL(settings.issuer)
  const client = { client_id: settings.client_id }
  let known: { readonly server: AuthorizationServer; readonly untilMs: number } | undefined

  const library = () => import('oauth4webapi')
  async function options() {
    const oauth = await library()
    const isHere = issuer.protocol === 'http:' && isLoopback(issuer.hostname)
    return { signal: AbortSignal.timeout(TIMEOUT_MS), [oauth.allowInsecureRequests]: isHere }
  }

  async function provider(): Promise<AuthorizationServer> {
    if (known !== undefined && Date.now() < known.untilMs) return known.server
    const { discoveryRequest, processDiscoveryResponse } = await library()
    const answer = await discoveryRequest(issuer, { ...(await options()), algorithm: 'oidc' })
    const server = await processDiscoveryResponse(issuer, answer)
    known = { server, untilMs: Date.now() + DISCOVERED_FOR_MS }
    return server
  }

  async function authentication({ token_endpoint_auth_methods_supported: methods }: AuthorizationServer) {
    const { ClientSecretBasic, ClientSecretPost, None } = await library()
    const { client_secret: secret } = settings
    if (secret === undefined) return None()
    // OpenID Connect Discovery 1.0, section 3: left out, it is this one.
    return (methods ?? ['client_secret_basic']).includes('client_secret_basic')
      ? ClientSecretBasic(secret)
      : ClientSecretPost(secret)
  }

  function failed(error: unknown): void {
    // The message only: the cause of some holds the provider's answer, tokens and all.
    logger.error(
      { event: 'access.oidc_failed', issuer: settings.issuer, error: errorLine(error, 500) },
      'A sign-in at the OpenID provider failed.',
    )
  }

  /** @throws whatever the provider answers that is not by the book */
  async function claimsOf(redirectUri: string, callback: URL, { state, nonce, verifier }: Secrets): Promise<Claims> {
    const oauth = await library()
    const server = await provider()
    const parameters = oauth.validateAuthResponse(server, client, callback, state)
    const answer = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      await authentication(server),
      parameters,
      redirectUri,
      verifier,
      await options(),
    )
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, answer, {
      expectedNonce: nonce,
      requireIdToken: true,
    })
    await oauth.validateApplicationLevelSignature(server, answer, await options())
    return { ...oauth.getValidatedIdTokenClaims(tokens) }
  }

  return {
    async begin(redirectUri, next) {
      try {
        const { authorization_endpoint: endpoint } = await provider()
        if (endpoint === undefined) throw new TypeError('The provider names no authorization_endpoint.')
        const { calculatePKCECodeChallenge } = await library()
        const seed = randomBytes(32).toString('base64url')
        const expiresAt = new Date(clock.now().getTime() + SIGN_IN_SECONDS * 1_000)
        const content = [seed, expiresAt.getTime(), Buffer.from(next).toString('base64url')].join('.')
        const { state, nonce, verifier } = secretsOf(seed)
        const url = new URL(endpoint)
        for (const [name, value] of Object.entries({
          response_type: 'code',
          client_id: settings.client_id,
          redirect_uri: redirectUri,
          scope: settings.scopes ?? 'openid email',
          state,
          nonce,
          code_challenge: await calculatePKCECodeChallenge(verifier),
          code_challenge_method: 'S256',
        }))
          url.searchParams.set(name, value)
        return { url: url.href, cookie: `${content}.${encryption.sign(PURPOSE, content)}`, expiresAt }
      } catch (error) {
        failed(error)
        return null
      }
    },

    async end(redirectUri, callback, cookie = '') {
      const [seed = '', endsAtMs = '', next = '', signature = ''] = cookie.split('.')
      const isOurs = encryption.isSigned(PURPOSE, [seed, endsAtMs, next].join('.'), signature)
      if (!isOurs || clock.now().getTime() >= Number(endsAtMs)) return { kind: 'refused', next: null }
      const to = Buffer.from(next, 'base64url').toString()
      const secrets = secretsOf(seed)
      if (!isSameSecret(callback.searchParams.get('state') ?? '', secrets.state)) return { kind: 'refused', next: to }
      // Each sign-in ends once, in whichever process.
      const isFirst = await cache.add(`sign-in:${sha256Hex(secrets.state)}`, true, SIGN_IN_SECONDS)
      if (!isFirst) return { kind: 'refused', next: to }
      try {
        return { kind: 'known', claims: await claimsOf(redirectUri, callback, secrets), next: to }
      } catch (error) {
        failed(error)
        // What the person, or the provider's policy, has refused. The rest is no answer to the person's request.
        const { AuthorizationResponseError } = await library()
        return error instanceof AuthorizationResponseError ? { kind: 'refused', next: to } : { kind: 'failed' }
      }
    },
  }
}

interface Secrets {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

function secretsOf(seed: string): Secrets {
  const of = (what: string): string => createHmac('sha256', seed).update(what).digest('base64url')
  return { state: of('state'), nonce: of('nonce'), verifier: of('verifier') }
}
