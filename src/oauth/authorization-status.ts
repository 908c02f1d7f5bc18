/** How authorizations stand, and which wait for a person. Rule: docs/behaviour/oauth.md, "Status" and "Reauthorization". */

import type { Framework } from '../framework/context.ts'
import { getIntegration, integrationHandle } from '../integrations/handle.ts'
import { integrationsById } from '../integrations/queries.ts'
import { hasOAuth2, requireContract } from '../providers/contracts.ts'
import { keepAliveState, tokenLifetimes } from './keep-alive.ts'
import { refreshDueAt } from './keep-alive-rules.ts'
import { doesWithoutAuthorization } from './oauth-provider.ts'
import type { ReauthMark } from './reauth.ts'
import { reauthMark, reauthMarks } from './reauth.ts'
import { tokensOf } from './rules.ts'
import type { OAuthStatus } from './status-rules.ts'

export type { OAuthStatus }

/**
 * Only looks: the provider is not asked, and nothing is refreshed.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, CredentialsUnreadable
 */
export async function oauthStatus(framework: Framework, id: number): Promise<OAuthStatus> {
  const { providers, clock } = framework
  const integration = await getIntegration(framework, id)
  const provider = requireContract(integration.provider, providers.get(integration.provider), hasOAuth2, 'HasOAuth2')
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

/** Marks of the integrations that need an authorization: a mark may be older than the API key that does without. */
export async function neededReauthMarks(
  framework: Framework,
  ids: readonly number[],
): Promise<Map<number, ReauthMark>> {
  const marks = await reauthMarks(framework, ids)
  const needed = await needingAuthorization(framework, [...marks.keys()])
  return new Map([...marks].filter(([id]) => needed.has(id)))
}

/** The integrations that need an authorization. One query; none without ids. */
export async function needingAuthorization(framework: Framework, ids: readonly number[]): Promise<Set<number>> {
  const rows = await integrationsById(framework.db, framework.tables, ids)
  const needing = [...rows.values()].filter((row) => {
    const provider = framework.providers.find(row.provider)
    return provider === null || !doesWithoutAuthorization(provider, integrationHandle(framework, row))
  })
  return new Set(needing.map(({ id }) => id))
}
