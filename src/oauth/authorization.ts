/**
 * The authorization of an integration by a person: begun and completed (RFC 6749, 4.1; RFC 7636; RFC 9207).
 * Rule: docs/behaviour/oauth.md, "Authorization" and "Callback".
 */

import { forgetAuthenticatedUser } from '../credentials/authenticated-user.ts'
import { keysOf, patchedCredentials } from '../credentials/credentials.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import {
  BaseUrlMissing,
  InvalidArgumentException,
  isIntegrationsError,
  OAuthFailure,
  RequestTimeout,
} from '../framework/errors.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import { getIntegration, integrationHandle } from '../integrations/handle.ts'
import { findIntegration, requireIntegration, requireLocked, updateIntegration } from '../integrations/queries.ts'
import type { HasOAuth2 } from '../providers/contracts.ts'
import type { Credentials } from '../providers/integration.ts'
import { noteSwitch } from '../subscriptions/switch.ts'
import { noteTokenRefreshed } from './keep-alive.ts'
import { oauthProviderOf, refuseNeedless } from './oauth-provider.ts'
import { clearReauthMark } from './reauth.ts'
import type { FailedStep } from './record.ts'
import { failedOAuth, insertOAuthLog } from './record.ts'
import type { CallbackParameters } from './rules.ts'
import { codeChallengeOf, providerErrorCode, readCallback, TOKEN_KEYS, tokensOf } from './rules.ts'
import type { NewState, TakenState } from './state.ts'
import { newState, storeState, takeState } from './state.ts'
import { refuseLost } from './token-save.ts'
import { afterTokenWork, insideTokenWork } from './token-work.ts'
import { noteUnstored } from './unstored-tokens.ts'

/** A person waits in front of a browser meanwhile. */
const STEP_LIMIT_SECONDS = 30

export interface OAuthPlace {
  /** Where the API is reached from outside; null is refused. */
  readonly baseUrl: string | null
}

export interface BegunAuthorization {
  /** Where the browser goes. */
  readonly url: string
  readonly state: string
  /** For the browser's cookie. */
  readonly nonce: string
  readonly cookieName: string
}

/** Begins an authorization in the browser that asks. @throws BaseUrlMissing, IntegrationNotFound, UnknownProvider, OAuthFailure */
export async function beginAuthorization(
  framework: Framework,
  place: OAuthPlace,
  id: number,
): Promise<BegunAuthorization> {
  const { url, begun } = await begin(framework, place, id, { hasNonce: true })
  return { url, state: begun.state, nonce: begun.nonce as string, cookieName: begun.cookieName }
}

/** For a host that leads the browser itself: no cookie binds the answer to it. @throws as {@link beginAuthorization} */
export async function startAuthorization(
  framework: Framework,
  place: OAuthPlace,
  id: number,
): Promise<{ url: string; state: string }> {
  const { url, begun } = await begin(framework, place, id, { hasNonce: false })
  return { url, state: begun.state }
}

async function begin(
  framework: Framework,
  { baseUrl }: OAuthPlace,
  id: number,
  { hasNonce }: { hasNonce: boolean },
): Promise<{ url: string; begun: NewState }> {
  const row = await requireIntegration(framework, id)
  const provider = oauthProviderOf(framework, row)
  refuseNeedless(provider, integrationHandle(framework, row))
  if (baseUrl === null) throw new BaseUrlMissing()
  const redirectUri = `${baseUrl}/${framework.config.oauth.route_prefix}/oauth/callback`
  const begun = newState(framework, { hasVerifier: provider.pkce === 'S256', hasNonce })
  const url = await authorizationUrl(framework, row, { provider, redirectUri, begun })
  await storeState(framework, begun, { integrationId: id, redirectUri })
  return { url, begun }
}

async function authorizationUrl(
  framework: Framework,
  row: IntegrationRow,
  { provider, redirectUri, begun }: { provider: HasOAuth2; redirectUri: string; begun: NewState },
): Promise<string> {
  const { state, codeVerifier } = begun
  const integration = integrationHandle(framework, row, { unstored: { state, codeVerifier } })
  const pkce =
    codeVerifier === null
      ? undefined
      : { codeChallenge: codeChallengeOf(codeVerifier), codeChallengeMethod: 'S256' as const }
  try {
    const url = await limited('authorizationUrl()', () =>
      insideTokenWork(framework, integration.id, () =>
        provider.authorizationUrl(integration, redirectUri, state, pkce),
      ),
    )
    return webAddress(url)
  } catch (thrown) {
    throw await failedOAuth(framework, integration, {
      stage: 'authorize',
      code: 'authorization_url_failed',
      message: 'The provider’s authorization page could not be determined.',
      thrown,
    })
  }
}

/** As a header carries it: ASCII, without control characters (WHATWG URL, "URL serializing"). */
function webAddress(url: unknown): string {
  if (typeof url === 'string' && URL.canParse(url)) {
    const { protocol, href } = new URL(url)
    if (protocol === 'https:' || protocol === 'http:') return href
  }
  throw new InvalidArgumentException(
    'authorizationUrl',
    'an absolute http(s) URL is to be returned, something else was',
  )
}

export interface OAuthCallback {
  readonly query: URLSearchParams
  /** The browser's cookie of this name. Asked for once, when the state has been used up: the cookie is to be removed then. */
  cookie(name: string): string | undefined
}

export interface CompletedAuthorization {
  readonly integrationId: number
  /** Spent: to be removed from the browser. */
  readonly cookieName: string
}

/** @throws OAuthFailure, IntegrationNotFound, UnknownProvider; then nothing is stored */
export async function completeAuthorization(
  framework: Framework,
  callback: OAuthCallback,
): Promise<CompletedAuthorization> {
  const { parameters, taken } = await recognise(framework, callback)
  const row = await requireIntegration(framework, taken.integrationId)
  const integration = integrationHandle(framework, row)
  const provider = oauthProviderOf(framework, integration)
  const refusal = refusalOf(parameters, provider)
  if (refusal !== null) throw await failedOAuth(framework, integration, refusal)
  const exchanging = exchange(framework, row, { provider, taken, code: parameters.code as string })
  noteUnstored(framework, exchanging)
  const keys = await exchanging
  await forgetOldTokens(framework, row)
  const authorized = await getIntegration(framework, row.id)
  await framework.listeners.emit('CredentialsUpdated', { integration: authorized, keys })
  await framework.listeners.emit('OAuthCompleted', { integration: authorized })
  return { integrationId: row.id, cookieName: taken.cookieName }
}

/** Drops what was known of the old tokens. The new ones are stored, so a failure of this is only logged. */
async function forgetOldTokens(framework: Framework, row: IntegrationRow): Promise<void> {
  const { id } = row
  try {
    await forgetAuthenticatedUser(framework, id)
    await afterTokenWork(framework, id, async () => {
      await clearReauthMark(framework, id)
      await noteTokenRefreshed(framework, id)
    })
  } catch (error) {
    integrationLogger(framework, row).error(
      { event: 'oauth.old_state_kept', error: errorLine(error, 500) },
      'An integration was authorized, but what was known of its tokens before could not be removed.',
    )
  }
}

/** Finds the authorization that a callback answers. @throws OAuthFailure */
async function recognise(
  framework: Framework,
  { query, cookie }: OAuthCallback,
): Promise<{ parameters: CallbackParameters; taken: TakenState }> {
  const callback = readCallback(query)
  if (callback.kind === 'malformed')
    throw new OAuthFailure(
      'invalid_callback',
      `The parameter "${callback.parameter}" is there more than once, or is longer than 4,096 characters.`,
    )
  const { parameters } = callback
  const taken = parameters.state === null ? null : await takeState(framework, parameters.state)
  if (taken === null) {
    framework.logger.info(
      { event: 'oauth.state_refused' },
      'The state of an OAuth callback is missing, unknown, used, or too old.',
    )
    throw invalidState()
  }
  // Without `web` the host's callback needs no cookie.
  const asksBrowser = framework.config.oauth.callback_middleware.includes('web')
  const nonce = cookie(taken.cookieName)
  if (!asksBrowser || taken.isOfBrowser(nonce)) return { parameters, taken }
  const row = await findIntegration(framework.db, framework.tables, taken.integrationId)
  if (row !== null) {
    const { message } = invalidState()
    await failedOAuth(framework, integrationHandle(framework, row), {
      stage: 'callback',
      code: 'invalid_state',
      message,
    })
  }
  throw invalidState()
}

/** Without the integration's id: a browser without the cookie learns nothing. */
function invalidState(): OAuthFailure {
  return new OAuthFailure(
    'invalid_state',
    'This authorization is unknown here: it was used already, took too long, or was begun in another browser.',
  )
}

/** Null: there is a code to exchange. */
function refusalOf({ error, iss, code }: CallbackParameters, { issuer }: HasOAuth2): FailedStep | null {
  const stage = 'callback'
  if (error !== null) {
    const providerError = providerErrorCode(error)
    return error === 'access_denied'
      ? { stage, code: 'authorization_denied', message: 'The authorization was denied at the provider.', providerError }
      : { stage, code: 'authorization_failed', message: 'The provider answered with an error.', providerError }
  }
  // Only a server that supports RFC 9207 sends it.
  if (issuer !== undefined && iss !== null && iss !== issuer)
    return { stage, code: 'invalid_issuer', message: 'The answer names another issuer than the provider’s.' }
  if (code === null) return { stage, code: 'missing_code', message: 'The provider’s answer holds no code.' }
  return null
}

/** Exchanges the code and stores its tokens. @returns their keys @throws OAuthFailure, IntegrationNotFound; then nothing is stored */
async function exchange(
  framework: Framework,
  row: IntegrationRow,
  { provider, taken, code }: { provider: HasOAuth2; taken: TakenState; code: string },
): Promise<string[]> {
  const { redirectUri, codeVerifier } = taken
  const integration = integrationHandle(framework, row, { unstored: { code, codeVerifier } })
  const pkce = codeVerifier === null ? undefined : { codeVerifier }
  try {
    // Before the code is spent: tokens that can't be merged into the stored credentials would be lost.
    integration.credentialsArray()
    const given = await limited('exchangeCode()', () =>
      insideTokenWork(framework, row.id, () => provider.exchangeCode(integration, code, redirectUri, pkce)),
    )
    return await storeTokens(framework, row.id, given)
  } catch (thrown) {
    if (isIntegrationsError(thrown, 'integration_not_found')) throw thrown
    throw await failedOAuth(framework, integration, {
      stage: 'exchange',
      code: 'code_exchange_failed',
      message: 'The code could not be exchanged for tokens.',
      thrown,
    })
  }
}

/** Merges the tokens into the stored credentials: the latest authorization wins. */
async function storeTokens(framework: Framework, id: number, given: unknown): Promise<string[]> {
  const tokens = exchangedTokens(given)
  const keys = keysOf(tokens)
  const { provider, hasSubscription } = await framework.db.transaction(async (tx) => {
    const row = await requireLocked(tx, framework.tables, id)
    // The expiry of the old token says nothing about this one.
    const credentials = patchedCredentials(framework, row, {
      ...tokens,
      token_expires_at: tokens.token_expires_at ?? null,
    })
    refuseLost(row.provider, tokens, framework.encryption.decrypt(id, credentials), TOKEN_KEYS)
    await updateIntegration(tx, framework.tables, id, { credentials })
    await forgetAuthenticatedUser(framework, id, tx)
    await insertOAuthLog(framework, tx, id, {
      status: 'success',
      summary: 'Authorized.',
      metadata: { stage: 'exchange', keys },
    })
    await recordEvents(framework, tx, id, [
      { name: 'CredentialsUpdated', payload: { keys } },
      { name: 'OAuthCompleted', payload: {} },
    ])
    return { provider: row.provider, hasSubscription: await noteSwitch(framework, tx, row) }
  })
  framework.integrationsChanged.set(provider, performance.now())
  if (hasSubscription) framework.workflows.keepWebhookSubscription(id)
  return keys
}

/** @throws InvalidArgumentException unless it can be stored as tokens */
function exchangedTokens(given: unknown): Credentials {
  const wrong = (reason: string) => new InvalidArgumentException('result of exchangeCode()', reason)
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw wrong('an object of credentials is allowed, something else was given')
  const { token_expires_at: expiry, ...others } = given as Credentials
  if (tokensOf(others).accessToken === null) throw wrong('an access_token of at least one character is needed')
  if (expiry === undefined || expiry === null) return others
  const time = expiry instanceof Date && !Number.isNaN(expiry.getTime()) ? expiry.toISOString() : expiry
  if (tokensOf({ token_expires_at: time }).expiresAt === null)
    throw wrong('token_expires_at may be an ISO 8601 time or a Date, something else was given')
  return { ...others, token_expires_at: time }
}

function limited<T>(step: string, work: () => Promise<T>): Promise<T> {
  return withTimeLimit(STEP_LIMIT_SECONDS, () => new RequestTimeout(step, STEP_LIMIT_SECONDS * 1_000), work)
}
