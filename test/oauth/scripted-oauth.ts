/** A provider with OAuth whose refreshes do what the test says. */

import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Credentials, Integration } from '../../src/providers/integration.ts'

export function scriptedOAuth(
  refresh: (integration: Integration) => Promise<Credentials> | Credentials,
  overrides: Partial<HasOAuth2> = {},
): HasOAuth2 {
  return {
    authorizationUrl: (_integration, redirectUri, state) =>
      `https://id.example/authorize?${new URLSearchParams({ redirect_uri: redirectUri, state })}`,
    exchangeCode: async () => ({}),
    refreshToken: async (integration) => refresh(integration),
    revokeToken: async () => {},
    refreshThreshold: () => 300,
    ...overrides,
  }
}
