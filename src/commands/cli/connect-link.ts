/** The link with which a person connects an integration to its provider. Rule: docs/commands.md, "oauth-link". */

import type { Integrations } from '../../create-integrations.ts'
import { BaseUrlMissing, OAuthFailure } from '../../framework/errors.ts'

export interface ConnectLink {
  readonly url: string
  readonly expiresAt: Date
}

/** Whether a person connects this provider's integrations. */
export function connectsByOAuth({ contracts }: { readonly contracts: readonly string[] }): boolean {
  return contracts.includes('HasOAuth2')
}

/**
 * The `baseUrl` of links where none is configured: in dev the API of this machine, which listens at PORT (default 3000).
 *
 * @throws BaseUrlMissing
 */
export function linkBase(
  { admin: { access } }: Integrations,
  environment: NodeJS.ProcessEnv = process.env,
): { baseUrl?: string } {
  if (access.baseUrl !== null) return {}
  if (!access.dev) throw new BaseUrlMissing()
  return { baseUrl: `http://127.0.0.1:${environment.PORT || 3000}` }
}

/** @throws BaseUrlMissing, IntegrationNotFound, OAuthFailure where the provider has no OAuth */
export async function makeConnectLink(
  integrations: Integrations,
  integration: { readonly id: number; readonly provider: string },
  hours: number,
): Promise<ConnectLink> {
  const { id, provider: key } = integration
  const provider = integrations.admin.providers().find((candidate) => candidate.key === key)
  if (provider === undefined || !connectsByOAuth(provider))
    throw new OAuthFailure(
      'oauth_unsupported',
      `Integration ${id} is of the provider "${key}", ${provider === undefined ? 'which is not registered here' : 'which has no OAuth: there is nothing to authorize'}.`,
      null,
      id,
    )
  const url = await integrations.oauth.link(id, {
    action: 'connect',
    expiresIn: hours * 3_600,
    ...linkBase(integrations),
  })
  return { url, expiresAt: new Date(Number(new URL(url).searchParams.get('expires')) * 1_000) }
}

/** The link on a line of its own, to be copied whole. */
export function linkText({ url, expiresAt }: ConnectLink, provider: string): string {
  return [
    `Open this link in a browser, or send it to a person who may give access at ${provider}. It opens for anyone who has it, until ${expiresAt.toISOString()}.`,
    '',
    `  ${url}`,
    '',
  ].join('\n')
}
