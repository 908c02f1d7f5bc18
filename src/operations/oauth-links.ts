/** Links that let somebody without a sign-in begin or end an authorization. Rule: docs/behaviour/access.md, "Signed links". */
import { BaseUrlMissing, InvalidArgumentException } from '../core/errors.ts'
import type { Framework } from '../framework.ts'
import type { Access } from './access.ts'
import { getIntegration } from './integration.ts'

/** Each action's method. */
const METHODS = { connect: 'GET', authorize: 'GET', revoke: 'POST' } as const

export interface OAuthLink {
  /** `connect`: a page that explains, then leads on. `authorize`: to the provider at once. `revoke`: by POST. */
  readonly action: keyof typeof METHODS
  /** Seconds, 1 to 604,800 (7 days). Default 3600. */
  readonly expiresIn?: number
  /** Instead of the configured one: where the API is reached. */
  readonly baseUrl?: string
}

/** @throws BaseUrlMissing, IntegrationNotFound, InvalidArgumentException */
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
  await getIntegration(framework, id)
  const path = `/${framework.config.oauth.route_prefix}/${id}/oauth/${action}`
  return `${baseUrl}${path}?${access.signLink({ method: METHODS[action], path }, expiresIn)}`
}
