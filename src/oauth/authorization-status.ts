/** How an integration's authorization stands. Rule: docs/behaviour/oauth.md, "Status". */

import type { Framework } from '../framework/context.ts'
import { UnsupportedByProvider } from '../framework/errors.ts'
import { getIntegration } from '../integrations/handle.ts'
import { hasOAuth2 } from '../providers/contracts.ts'
import { keepAliveState, tokenLifetimes } from './keep-alive.ts'
import { refreshDueAt } from './keep-alive-rules.ts'
import { doesWithoutAuthorization } from './oauth-provider.ts'
import { reauthMark } from './reauth.ts'
import type { OAuthStatus } from './status-rules.ts'
import { tokensOf } from './token-rules.ts'

export type { OAuthStatus }

/**
 * Only looks: nobody is asked, and nothing is refreshed.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, CredentialsUnreadable
 */
export async function oauthStatus(framework: Framework, id: number): Promise<OAuthStatus> {
  const { providers, clock } = framework
  const integration = await getIntegration(framework, id)
  const provider = providers.get(integration.provider)
  if (!hasOAuth2(provider)) throw new UnsupportedByProvider(integration.provider, 'HasOAuth2')
  const tokens = tokensOf(integration.credentialsArray())
  const [reauth, state] = await Promise.all([reauthMark(framework, id), keepAliveState(framework, id)])
  const isNeeded = !doesWithoutAuthorization(provider, integration)
  const isKeptAlive = isNeeded && integration.isActive && reauth === null
  const due = isKeptAlive ? refreshDueAt(tokens, state, tokenLifetimes(provider)) : null
  return {
    integrationId: id,
    needsAuthorization: isNeeded,
    isConnected: tokens.accessToken !== null,
    expiresAt: tokens.expiresAt,
    hasRefreshToken: tokens.refreshToken !== null,
    reauth: isNeeded ? reauth : null,
    lastRefreshedAt: state.succeededAt,
    nextRefreshAt: due === null ? null : new Date(Math.max(due.getTime(), clock.now().getTime())),
    failures: state.failures,
    failingSince: state.firstFailedAt,
  }
}
