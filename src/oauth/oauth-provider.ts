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
  throw new OAuthFailure('oauth_unsupported', `The provider "${key}" has no OAuth: nobody authorizes it.`, null, id)
}

/** Whether the provider says that this integration needs no authorization. An error, such as for unreadable credentials, says no. */
export function doesWithoutAuthorization(provider: IntegrationProvider, integration: Integration): boolean {
  if (!hasOAuth2(provider) || provider.needsAuthorization === undefined) return false
  try {
    return provider.needsAuthorization(integration) === false
  } catch {
    return false
  }
}

/** The provider as the OAuth client of this integration. Null: it has no OAuth, or does without it here. */
export function oauthClientOf(provider: IntegrationProvider, integration: Integration): HasOAuth2 | null {
  return hasOAuth2(provider) && !doesWithoutAuthorization(provider, integration) ? provider : null
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
