/**
 * The package that speaks OAuth 2.0, loaded when an authorization server is first asked for anything: a host's start, and a
 * provider without OAuth, have no use for it.
 */
export type OAuth2Library = typeof import('oauth4webapi')

export function oauth2Library(): Promise<OAuth2Library> {
  return import('oauth4webapi')
}
