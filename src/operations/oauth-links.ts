/** Links that let somebody without a sign-in begin or end an authorization. Rule: docs/behaviour/access.md, "Signed links". */
import { BaseUrlMissing, InvalidArgumentException } from '../core/errors.ts'
import type { Framework } from '../framework.ts'
import type { Access } from './access.ts'
import { getIntegration } from './integration.ts'

/** Each action's method. */
const METHODS = { authorize: 'GET', revoke: 'POST' } as const

export interface OAuthLink {
  readonly action: keyof typeof METHODS
  /** Seconds, 1 to 604,800 (7 days). Default 3600. */
  readonly expiresIn?: number
}

/** @throws BaseUrlMissing, IntegrationNotFound, InvalidArgumentException */
export async function oauthLink(
  framework: Framework,
  { signLink, baseUrl }: Pick<Access, 'signLink'> & { readonly baseUrl: string | null },
  id: number,
  { action, expiresIn = 3_600 }: OAuthLink,
): Promise<string> {
  if (!Object.hasOwn(METHODS, action))
    throw new InvalidArgumentException('action', `authorize or revoke is allowed, ${JSON.stringify(action)} was given`)
  if (baseUrl === null) throw new BaseUrlMissing()
  await getIntegration(framework, id)
  const path = `/${framework.config.oauth.route_prefix}/${id}/oauth/${action}`
  return `${baseUrl}${path}?${signLink({ method: METHODS[action], path }, expiresIn)}`
}
