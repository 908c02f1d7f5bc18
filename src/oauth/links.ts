/** Links that let a person without a sign-in begin or end an authorization. Rule: docs/behaviour/access.md, "Signed links". */

import type { Access } from '../access/tokens-and-links.ts'
import type { Framework } from '../framework/context.ts'
import { BaseUrlMissing, InvalidArgumentException } from '../framework/errors.ts'
import { getIntegration } from '../integrations/handle.ts'
import { refuseNeedless } from './oauth-provider.ts'

/** Each action's method. */
const METHODS = { connect: 'GET', authorize: 'GET', revoke: 'POST' } as const

export interface OAuthLink {
  /** `connect`: a page that explains, then leads on. `authorize`: to the provider at once. `revoke`: a page with one button, which ends it by POST. */
  readonly action: keyof typeof METHODS
  /** Seconds, 1 to 604,800 (7 days). Default 3600. */
  readonly expiresIn?: number
  /** Where the API is reached, instead of the configured URL. */
  readonly baseUrl?: string
}

/** @throws BaseUrlMissing, IntegrationNotFound, InvalidArgumentException, OAuthFailure where no authorization is needed */
export async function oauthLink(
  framework: Framework,
  access: Pick<Access, 'signLink'> & { readonly baseUrl: string | null },
  id: number,
  { action, expiresIn = 3_600, baseUrl = access.baseUrl ?? undefined }: OAuthLink,
): Promise<string> {
  if (!Object.hasOwn(METHODS, action))
    throw new InvalidArgumentException(
      'action',
      `connect, authorize or revoke is allowed, ${JSON.stringify(action)} was given`,
    )
  if (baseUrl === undefined) throw new BaseUrlMissing()
  const integration = await getIntegration(framework, id)
  const provider = framework.providers.find(integration.provider)
  if (action !== 'revoke' && provider !== null) refuseNeedless(provider, integration)
  const path = `/${framework.config.oauth.route_prefix}/${id}/oauth/${action}`
  return `${baseUrl}${path}?${access.signLink({ method: METHODS[action], path }, expiresIn)}`
}
