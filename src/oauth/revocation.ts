/** The end of an authorization (RFC 7009). Rule: docs/behaviour/oauth.md, "Revocation". */

import type { Lease } from '../cache/lock.ts'
import { forgetAuthenticatedUser } from '../credentials/authenticated-user.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { RequestTimeout } from '../framework/errors.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import { getIntegration } from '../integrations/handle.ts'
import { requireLocked, updateIntegration } from '../integrations/queries.ts'
import type { HasOAuth2 } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { forgetKeepAlive } from './keep-alive.ts'
import { oauthProviderOf } from './oauth-provider.ts'
import { clearReauthMark } from './reauth.ts'
import type { FailedStep } from './record.ts'
import { failedOAuth, insertOAuthLog } from './record.ts'
import type { Tokens } from './rules.ts'
import { isSamePair, providerErrorOf, TOKEN_KEYS, tokensOf } from './rules.ts'
import { withTokenLock } from './token-work.ts'

/** The rest of the lock's time is for the work after the provider's answer. */
const PROVIDER_SHARE = 2 / 3

export type Revocation =
  | 'revoked'
  | 'nothing to revoke'
  /** The provider was asked to revoke the tokens that we had; a newer authorization stays. */
  | 'newer tokens kept'

/**
 * Revokes at the provider and drops the tokens. `force`: drops them also when the provider refuses.
 *
 * @throws OAuthFailure when the provider refuses, LockTimeoutException, IntegrationNotFound, UnknownProvider
 */
export async function revokeAuthorization(
  framework: Framework,
  id: number,
  { force = false }: { readonly force?: boolean } = {},
): Promise<Revocation> {
  const provider = oauthProviderOf(framework, await getIntegration(framework, id))
  const { asked, refusal, dropped } = await withTokenLock(framework, id, (lease) =>
    revoke(framework, id, { provider, force, lease }),
  )
  // After the lock: a listener takes as long as it likes, and may ask for a token.
  if (refusal !== null) {
    const failure = await failedOAuth(framework, asked, refusal)
    if (!force) throw failure
  }
  if (dropped === null) return 'nothing to revoke'
  if (dropped === 'newer') return 'newer tokens kept'
  const integration = await getIntegration(framework, id)
  if (dropped.length > 0) await framework.listeners.emit('CredentialsUpdated', { integration, keys: dropped })
  await framework.listeners.emit('OAuthRevoked', { integration })
  return 'revoked'
}

/** No keys: `revokeToken()` has dropped the tokens itself. */
type Dropped = readonly string[] | 'newer'

interface Revoked {
  /** As it was when the provider was asked. */
  readonly asked: Integration
  readonly refusal: FailedStep | null
  /** The dropped keys; `newer`: the stored tokens are another authorization's by now; null: there was no token. */
  readonly dropped: Dropped | null
}

/** Under the lock. */
async function revoke(
  framework: Framework,
  id: number,
  { provider, force, lease }: { provider: HasOAuth2; force: boolean; lease: Lease },
): Promise<Revoked> {
  // Read again: the last holder of the lock may have refreshed them.
  const asked = await getIntegration(framework, id)
  const tokens = tokensOf(asked.credentialsArray())
  const hasTokens = tokens.accessToken !== null || tokens.refreshToken !== null
  const refusal = hasTokens ? await refusalOf(framework, asked, provider, lease) : null
  if (refusal !== null && !force) return { asked, refusal, dropped: [] }
  const providerError = refusal === null ? null : (providerErrorOf(refusal.thrown) ?? refusal.code)
  const dropped = hasTokens ? await dropTokens(framework, id, { tokens, force, providerError }) : null
  framework.integrationsChanged.set(asked.provider, performance.now())
  if (dropped !== 'newer') {
    await clearReauthMark(framework, id)
    // Also where there was no token, and what was asked for the old ones meanwhile.
    await forgetAuthenticatedUser(framework, id)
    await forgetKeepAlive(framework, id)
  }
  return { asked, refusal, dropped }
}

/** Null: the provider has revoked it. */
async function refusalOf(
  { config }: Framework,
  integration: Integration,
  provider: HasOAuth2,
  lease: Lease,
): Promise<FailedStep | null> {
  // The process may have stood still since it took the lock: then another one may refresh.
  const seconds = Math.min(config.oauth.refresh_lock_ttl * PROVIDER_SHARE, Math.max(lease.leftMs(), 0) / 1_000)
  const late = () => new RequestTimeout('revokeToken()', Math.round(seconds * 1_000))
  try {
    if (seconds === 0) throw late()
    await withTimeLimit(seconds, late, async () => provider.revokeToken(integration))
    return null
  } catch (thrown) {
    const message = 'The provider did not revoke the authorization.'
    return { stage: 'revoke', code: 'revoke_failed', message, thrown }
  }
}

/**
 * The provider's schema is not checked: it may require tokens. Tokens of a newer authorization stay.
 */
async function dropTokens(
  framework: Framework,
  id: number,
  { tokens, force, providerError }: { tokens: Tokens; force: boolean; providerError: string | null },
): Promise<Dropped> {
  const { db, tables, encryption } = framework
  return db.transaction(async (tx) => {
    const row = await requireLocked(tx, tables, id)
    const stored = encryption.decrypt(id, row.credentials)
    const now = tokensOf(stored)
    const isNewer = (now.accessToken !== null || now.refreshToken !== null) && !isSamePair(now, tokens)
    const keys = isNewer ? [] : TOKEN_KEYS.filter((key) => key in stored)
    const kept = Object.fromEntries(Object.entries(stored).filter(([key]) => !keys.includes(key)))
    await updateIntegration(tx, tables, id, { credentials: encryption.encrypt(id, kept) })
    if (!isNewer) await forgetAuthenticatedUser(framework, id, tx)
    await insertOAuthLog(framework, tx, id, {
      status: 'success',
      summary: isNewer ? 'Revoked; the tokens of a newer authorization stay.' : 'Revoked.',
      metadata: { stage: 'revoke', keys, force, provider_error: providerError },
    })
    if (isNewer) return 'newer'
    await recordEvents(framework, tx, id, [
      ...(keys.length > 0 ? [{ name: 'CredentialsUpdated' as const, payload: { keys } }] : []),
      { name: 'OAuthRevoked', payload: {} },
    ])
    return keys
  })
}
