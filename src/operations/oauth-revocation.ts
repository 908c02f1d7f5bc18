/** The end of an authorization (RFC 7009). Rule: docs/behaviour/oauth.md, "Revocation". */
import { IntegrationNotFound, RequestTimeout } from '../core/errors.ts'
import type { Tokens } from '../core/oauth-token.ts'
import { isSamePair, tokensOf } from '../core/oauth-token.ts'
import { lockIntegration, updateIntegration } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'
import type { HasOAuth2 } from '../providers/provider.ts'
import { forgetAuthenticatedUser } from './authenticated-user.ts'
import { getIntegration } from './integration.ts'
import { oauthProviderOf } from './oauth-provider.ts'
import { failedOAuth, insertOAuthLog } from './oauth-record.ts'
import { clearReauthMark } from './reauth.ts'
import { withTimeLimit } from './time-limit.ts'
import { forgetKeepAlive } from './token-keep-alive.ts'
import { withTokenLock } from './token-work.ts'

const TOKEN_KEYS = ['access_token', 'refresh_token', 'token_expires_at'] as const

/**
 * Revokes at the provider and drops the tokens. `force`: drops them whatever the provider says.
 *
 * @throws OAuthFailure when the provider refuses, LockTimeoutException, IntegrationNotFound, UnknownProvider
 */
export async function revokeAuthorization(
  framework: Framework,
  id: number,
  { force = false }: { readonly force?: boolean } = {},
): Promise<'revoked' | 'nothing to revoke'> {
  const provider = oauthProviderOf(framework, await getIntegration(framework, id))
  const dropped = await withTokenLock(framework, id, () => revoke(framework, id, { provider, force }))
  if (dropped === null) return 'nothing to revoke'
  if (dropped.length === 0) return 'revoked'
  // After the lock: a listener may ask for a token.
  const integration = await getIntegration(framework, id)
  await framework.listeners.emit('CredentialsUpdated', { integration, keys: dropped })
  await framework.listeners.emit('OAuthRevoked', { integration })
  return 'revoked'
}

/** @returns the keys that are gone; null when there was no token */
async function revoke(
  framework: Framework,
  id: number,
  { provider, force }: { provider: HasOAuth2; force: boolean },
): Promise<string[] | null> {
  // Read again: whoever held the lock may have refreshed them.
  const integration = await getIntegration(framework, id)
  const tokens = tokensOf(integration.credentialsArray())
  const hasTokens = tokens.accessToken !== null || tokens.refreshToken !== null
  let providerError: string | null = null
  if (hasTokens)
    try {
      const seconds = framework.config.oauth.refresh_lock_ttl
      const late = () => new RequestTimeout('revokeToken()', seconds * 1_000)
      await withTimeLimit(seconds, late, async () => provider.revokeToken(integration))
    } catch (thrown) {
      const message = 'The provider did not revoke the authorization.'
      const failure = await failedOAuth(framework, integration, {
        stage: 'revoke',
        code: 'revoke_failed',
        message,
        thrown,
      })
      if (!force) throw failure
      providerError = failure.providerError ?? failure.code
    }
  const dropped = hasTokens ? await dropTokens(framework, id, { tokens, force, providerError }) : null
  await clearReauthMark(framework, id)
  await forgetAuthenticatedUser(framework, id)
  await forgetKeepAlive(framework, id)
  return dropped
}

/**
 * The provider's schema is not asked: it may want tokens, and these are worthless. Tokens of another authorization, which has
 * come in meanwhile, stay.
 */
async function dropTokens(
  framework: Framework,
  id: number,
  { tokens, force, providerError }: { tokens: Tokens; force: boolean; providerError: string | null },
): Promise<string[]> {
  const { db, tables, encryption } = framework
  return db.transaction(async (tx) => {
    const row = await lockIntegration(tx, tables, id)
    if (row === null) throw new IntegrationNotFound(id)
    const stored = encryption.decrypt(id, row.credentials)
    const keys = isSamePair(tokensOf(stored), tokens) ? TOKEN_KEYS.filter((key) => key in stored) : []
    const kept = Object.fromEntries(Object.entries(stored).filter(([key]) => !keys.some((gone) => gone === key)))
    await updateIntegration(tx, tables, id, { credentials: encryption.encrypt(id, kept) })
    await insertOAuthLog(framework, tx, id, {
      status: 'success',
      summary: 'Revoked.',
      metadata: { stage: 'revoke', keys, force, provider_error: providerError },
    })
    return keys
  })
}
