/** The provider of an integration, as an OAuth client. */
import { OAuthFailure } from '../core/errors.ts'
import type { Framework } from '../framework.ts'
import type { Integration } from '../providers/integration.ts'
import type { HasOAuth2 } from '../providers/provider.ts'
import { hasOAuth2 } from '../providers/provider.ts'

/** @throws UnknownProvider, OAuthFailure where it has no OAuth */
export function oauthProviderOf(
  { providers }: Framework,
  { id, provider: key }: Pick<Integration, 'id' | 'provider'>,
): HasOAuth2 {
  const provider = providers.get(key)
  if (hasOAuth2(provider)) return provider
  throw new OAuthFailure('oauth_unsupported', `The provider "${key}" has no OAuth: nobody authorizes it.`, null, id)
}
