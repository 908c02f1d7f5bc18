/**
 * The state of an authorization under way: its callback is recognised by it, once. Rule: docs/behaviour/oauth.md, "Authorization".
 */
import { randomBytes } from 'node:crypto'
import { isSameSecret, sha256Hex } from '../access/rules.ts'
import type { Framework } from '../framework/context.ts'

/** RFC 7636, 4.1, recommends 32 bytes for the verifier; state and nonce are no weaker. Each is 43 characters in base64url. */
const SECRET_BYTES = 32
const STATE = /^[\w-]{43}$/
/** Tells the cookies of several authorizations in one browser apart. */
const COOKIE_HASH_LENGTH = 12

/** Secrets of one authorization, in clear: they leave in a URL and a cookie, and are stored hashed or sealed. */
export interface NewState {
  readonly state: string
  readonly codeVerifier: string | null
  /** Null: no browser is before us. */
  readonly nonce: string | null
  readonly cookieName: string
}

/** The authorization of a state. */
export interface TakenState {
  readonly integrationId: number
  readonly redirectUri: string
  readonly codeVerifier: string | null
  readonly cookieName: string
  /** Whether it was made without a browser, or this is the cookie of the browser that it was made for. */
  isOfBrowser(cookie: string | undefined): boolean
}

/** As the cache holds it: a reader of the table can't finish an authorization. */
interface StoredState {
  readonly integration_id: number
  readonly redirect_uri: string
  readonly code_verifier: string | null
  readonly nonce_hash: string | null
}

export function newState(
  { config }: Framework,
  { hasVerifier, hasNonce }: { hasVerifier: boolean; hasNonce: boolean },
): NewState {
  const state = newSecret()
  return {
    state,
    codeVerifier: hasVerifier ? newSecret() : null,
    nonce: hasNonce ? newSecret() : null,
    cookieName: cookieNameOf(config.cache_prefix, sha256Hex(state)),
  }
}

export async function storeState(
  { cache, config, encryption }: Framework,
  { state, codeVerifier, nonce }: NewState,
  { integrationId, redirectUri }: { integrationId: number; redirectUri: string },
): Promise<void> {
  const hash = sha256Hex(state)
  const stored: StoredState = {
    integration_id: integrationId,
    redirect_uri: redirectUri,
    code_verifier: codeVerifier === null ? null : encryption.seal(verifierOf(hash), codeVerifier),
    nonce_hash: nonce === null ? null : sha256Hex(nonce),
  }
  await cache.set(stateKey(hash), { ...stored }, config.oauth.state_ttl)
}

/**
 * Uses a state up: only one of several callbacks gets it. Null: unknown, used, too old, or sealed by a key that is no longer in the
 * ring.
 */
export async function takeState({ cache, config, encryption }: Framework, state: string): Promise<TakenState | null> {
  if (!STATE.test(state)) return null
  const hash = sha256Hex(state)
  const stored = (await cache.take(stateKey(hash))) as StoredState | undefined
  if (stored === undefined) return null
  const { integration_id, redirect_uri, code_verifier, nonce_hash } = stored
  const codeVerifier = code_verifier === null ? null : encryption.open(verifierOf(hash), code_verifier)
  if (codeVerifier === null && code_verifier !== null) return null
  return {
    integrationId: integration_id,
    redirectUri: redirect_uri,
    codeVerifier,
    cookieName: cookieNameOf(config.cache_prefix, hash),
    isOfBrowser: (cookie) =>
      nonce_hash === null || (cookie !== undefined && isSameSecret(sha256Hex(cookie), nonce_hash)),
  }
}

function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url')
}

function stateKey(hash: string): string {
  return `oauth-state:${hash}`
}

function verifierOf(hash: string): string {
  return `oauth-state/${hash}`
}

function cookieNameOf(cachePrefix: string, hash: string): string {
  return `${cachePrefix}_oauth_${hash.slice(0, COOKIE_HASH_LENGTH)}`
}
