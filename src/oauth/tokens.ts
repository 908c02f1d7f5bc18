/**
 * An integration's OAuth tokens: given out, and refreshed when they expire soon. Rule: docs/behaviour/oauth.md, "Tokens".
 */

import type { Database } from '../db/client.ts'
import type { Framework, TokenHolder } from '../framework/context.ts'
import { UnsupportedByProvider } from '../framework/errors.ts'
import { RepeatedWarnings } from '../framework/repeated-warnings.ts'
import { errorKind } from '../framework/thrown.ts'
import type { HasOAuth2 } from '../providers/contracts.ts'
import { oauthClientOf, obtainsTokens } from './oauth-provider.ts'
import type { Tokens } from './rules.ts'
import { expiresSoon, tokensOf } from './rules.ts'
import { newestCredentials } from './token-refresh.ts'
import { isInsideTokenWork, noteTokenUse } from './token-work.ts'

/** @returns the access token; null when there is none. @throws UnknownProvider, ReauthRequiredException, or what the refresh threw */
export async function accessToken(framework: Framework, holder: TokenHolder): Promise<string | null> {
  try {
    const token = await goodToken(framework, holder)
    noteTokenUse(holder, token)
    return token
  } catch (error) {
    noteTokenUse(holder, null)
    throw error
  }
}

async function goodToken(framework: Framework, holder: TokenHolder): Promise<string | null> {
  const { integration } = holder
  const known = tokensOf(holder.credentials())
  const provider = oauthProvider(framework, holder)
  if (provider === null || !isSoon(framework, provider, holder) || isInsideTokenWork(framework, integration.id))
    return known.accessToken
  try {
    holder.adopt(await newestCredentials(framework, { integration, provider, known, force: false }))
    return tokensOf(holder.credentials()).accessToken
  } catch (error) {
    const isOver = known.expiresAt === null || known.expiresAt.getTime() <= framework.clock.now().getTime()
    if (isOver) throw error
    warnings(framework).warn(
      String(integration.id),
      () => ({
        integration: integration.id,
        provider: integration.provider,
        expiresAt: known.expiresAt?.toISOString(),
        // Its kind only: the text may quote tokens that are not stored.
        error: errorKind(error),
      }),
      'a token that expires soon could not be refreshed; it is used while it lasts',
    )
    return known.accessToken
  }
}

/** Whether the holder's token expires within the provider's `refreshThreshold()`. */
export function tokenExpiresSoon(framework: Framework, holder: TokenHolder): boolean {
  const provider = oauthProvider(framework, holder)
  return provider !== null && isSoon(framework, provider, holder)
}

export interface RefreshOptions {
  /** Refreshes however long the token is good for, unless the stored one differs from the holder's already. Default false. */
  readonly force?: boolean
}

/** @returns whether the holder has another token than before. @throws as {@link accessToken}; UnsupportedByProvider when forced */
export async function refreshTokens(
  framework: Framework,
  holder: TokenHolder,
  { force = false }: RefreshOptions = {},
): Promise<boolean> {
  const { integration } = holder
  const provider = oauthProvider(framework, holder)
  if (provider === null && force) throw new UnsupportedByProvider(integration.provider, 'HasOAuth2')
  if (provider === null || isInsideTokenWork(framework, integration.id)) return false
  const known = tokensOf(holder.credentials())
  holder.adopt(await newestCredentials(framework, { integration, provider, known, force }))
  return tokensOf(holder.credentials()).accessToken !== known.accessToken
}

/**
 * Replaces a token that the provider has refused.
 *
 * @returns whether the holder has another one now. @throws as {@link refreshTokens}
 */
export async function replaceToken(framework: Framework, holder: TokenHolder, refused: string): Promise<boolean> {
  const { integration } = holder
  const provider = oauthProvider(framework, holder)
  if (provider === null) return false
  const known: Tokens = { ...tokensOf(holder.credentials()), accessToken: refused }
  holder.adopt(await newestCredentials(framework, { integration, provider, known, force: true }))
  const { accessToken: newest } = tokensOf(holder.credentials())
  return newest !== null && newest !== refused
}

/** Null: no OAuth for this integration; then the stored token is all there is. @throws UnknownProvider */
function oauthProvider({ providers }: Framework, { integration }: TokenHolder): HasOAuth2 | null {
  return oauthClientOf(providers.get(integration.provider), integration)
}

/** A token that is not there counts, where it needs no person. */
function isSoon({ clock }: Framework, provider: HasOAuth2, { integration, credentials }: TokenHolder): boolean {
  const tokens = tokensOf(credentials())
  if (tokens.accessToken === null) return obtainsTokens(provider, integration)
  return expiresSoon(tokens, provider.refreshThreshold(), clock.now())
}

const WARNINGS = new WeakMap<Database, RepeatedWarnings>()

/** Without it, every call would warn while a token endpoint is away. */
function warnings({ db, logger, clock }: Framework): RepeatedWarnings {
  const known = WARNINGS.get(db) ?? new RepeatedWarnings(logger, clock)
  WARNINGS.set(db, known)
  return known
}
