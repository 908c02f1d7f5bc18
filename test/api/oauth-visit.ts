/** A browser that an authorization leads about: it follows nothing by itself and keeps cookies as a browser does. */
import type { Hono } from 'hono'
import { createApi } from '../../src/api/app.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Credentials, Integration } from '../../src/providers/integration.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { from } from '../support/operators.ts'

/** The provider's own page, where a person would allow or deny. */
export const PROVIDER_PAGE = 'https://provider.example/authorize'

export interface Exchange {
  readonly code: string
  readonly redirectUri: string
  readonly codeVerifier: string | undefined
}

export interface OAuthScript {
  readonly provider: HasOAuth2
  readonly exchanges: Exchange[]
  /** Tokens that were to be revoked. */
  readonly revocations: unknown[]
}

/** A provider with PKCE whose exchange gives what the test says. */
export function oauthScript(
  answer: (code: string, integration: Integration) => Promise<unknown> | unknown = () => ({
    access_token: 'access-of-the-tests',
  }),
  overrides: Partial<HasOAuth2> = {},
): OAuthScript {
  const exchanges: Exchange[] = []
  const revocations: unknown[] = []
  const provider: HasOAuth2 = {
    pkce: 'S256',
    authorizationUrl: (_integration, redirectUri, state, pkce) =>
      `${PROVIDER_PAGE}?${new URLSearchParams({
        response_type: 'code',
        redirect_uri: redirectUri,
        state,
        ...(pkce && { code_challenge: pkce.codeChallenge, code_challenge_method: pkce.codeChallengeMethod }),
      })}`,
    async exchangeCode(integration, code, redirectUri, pkce) {
      exchanges.push({ code, redirectUri, codeVerifier: pkce?.codeVerifier })
      return (await answer(code, integration)) as Credentials
    },
    refreshToken: async () => ({ access_token: 'refreshed-of-the-tests' }),
    async revokeToken(integration) {
      revocations.push(integration.credentialsArray().access_token)
    },
    refreshThreshold: () => 60,
    ...overrides,
  }
  return { provider, exchanges, revocations }
}

export interface Visit {
  readonly status: number
  readonly location: URL | null
  readonly headers: Headers
  readonly text: string
  json(): unknown
}

export class Browser {
  readonly cookies = new Map<string, string>()
  readonly #api: Hono

  constructor({ integrations }: TestIntegrations) {
    this.#api = createApi(integrations)
  }

  async open(
    path: string,
    {
      method = 'GET',
      headers = {},
      asPerson = false,
    }: { method?: string; headers?: Record<string, string>; asPerson?: boolean } = {},
  ): Promise<Visit> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await this.#api.request(
      path,
      {
        method,
        headers: { ...(cookie === '' ? {} : { cookie }), ...(asPerson ? { accept: 'text/html' } : {}), ...headers },
      },
      from('203.0.113.7'),
    )
    for (const line of response.headers.getSetCookie()) this.#keep(line)
    const text = await response.text()
    const location = response.headers.get('location')
    return {
      status: response.status,
      location: location === null ? null : new URL(location, 'http://relative.invalid'),
      headers: response.headers,
      text,
      json: () => JSON.parse(text) as unknown,
    }
  }

  #keep(line: string): void {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
    if (/max-age=0/i.test(line)) this.cookies.delete(name)
    else this.cookies.set(name, value)
  }
}
