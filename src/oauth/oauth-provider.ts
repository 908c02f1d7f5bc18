/** The provider of an integration, as an OAuth client. */

import type { Framework } from '../framework/context.ts'
import { OAuthFailure } from '../framework/errors.ts'
import type { HasOAuth2, IntegrationProvider } from '../providers/contracts.ts'
import { hasOAuth2 } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'

/** @throws UnknownProvider, OAuthFailure where it has no OAuth */
export function oauthProviderOf(
  { providers }: Framework,
  { id, provider: key }: Pick<Integration, 'id' | 'provider'>,
): HasOAuth2 {
  const provider = providers.get(key)
  if (hasOAuth2(provider)) return provider
  throw new OAuthFailure(
    'oauth_unsupported',
    `The provider "${key}" has no OAuth: no person has to authorize it.`,
    null,
    id,
  )
}

/**
 * Whether this integration needs no person's authorization: the provider says so, or its tokens are obtained without one. An error,
 * such as for unreadable credentials, says no.
 */
export function doesWithoutAuthorization(provider: IntegrationProvider, integration: Integration): boolean {
  if (!hasOAuth2(provider)) return false
  if (obtainsTokens(provider, integration)) return true
  try {
    return provider.needsAuthorization?.(integration) === false
  } catch {
    return false
  }
}

/** Whether tokens are obtained without a person. An error says yes: `refreshToken()` throws it where it is seen. */
export function obtainsTokens(provider: HasOAuth2, integration: Integration): boolean {
  try {
    return provider.obtainsTokens?.(integration) === true
  } catch {
    return true
  }
}

/** The provider as the OAuth client of this integration. Null: it has no OAuth, or does without tokens here. */
export function oauthClientOf(provider: IntegrationProvider, integration: Integration): HasOAuth2 | null {
  if (!hasOAuth2(provider)) return null
  return obtainsTokens(provider, integration) || !doesWithoutAuthorization(provider, integration) ? provider : null
}

/** @throws OAuthFailure where the integration needs no authorization */
export function refuseNeedless(provider: IntegrationProvider, integration: Integration): void {
  if (!doesWithoutAuthorization(provider, integration)) return
  const { id, provider: key } = integration
  throw new OAuthFailure(
    'oauth_unsupported',
    `Integration ${id} needs no authorization: its credentials are enough for the provider "${key}". To use OAuth in their place, remove them first.`,
    null,
    id,
  )
}
