/** A host's test of its OAuth provider: the kit refreshes by its clock, and the token endpoint is faked. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { HttpError } from '../../src/framework/errors.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { TestIntegrations } from '../../src/testing/index.ts'
import { createTestIntegrations, sequence } from '../../src/testing/index.ts'

const NOW = '2026-01-01T00:00:00.000Z'
const oauth: HasOAuth2 = {
  authorizationUrl: () => 'https://provider.example/authorize',
  exchangeCode: async () => ({}),
  refreshToken: (integration) => integration.request('oauth/token', 'POST', () => ({})),
  revokeToken: async () => {},
  refreshThreshold: () => 300,
}
let kit: TestIntegrations

beforeAll(async () => {
  kit = await createTestIntegrations({ now: NOW, providers: { oauth } })
}, 60_000)
afterAll(() => kit.close())

it('a token is refreshed when the clock has come near its end, and a refusal needs a person', async () => {
  const integration = await kit.integrations.create({
    provider: 'oauth',
    name: 'of a test',
    credentials: { access_token: 'first-token', refresh_token: 'r', token_expires_at: '2026-01-01T01:00:00.000Z' },
  })
  kit.fakeRequests({
    'POST oauth/token': sequence(
      { access_token: 'second-token', token_expires_at: '2026-01-01T02:00:00.000Z' },
      new HttpError(400, new Headers(), { error: 'invalid_grant' }),
    ),
  })
  kit.clock.advance(54 * 60 + 59)
  expect(await integration.getAccessToken()).toBe('first-token')
  kit.clock.advance(1)
  expect(await integration.getAccessToken()).toBe('second-token')
  kit.clock.advance(3_600)
  await expect(integration.refreshTokenIfNeeded()).rejects.toMatchObject({ code: 'reauth_required' })
  expect(kit.events.of('ReauthRequired')).toMatchObject([{ reason: 'invalid_grant' }])
  expect(kit.events.of('CredentialsUpdated')).toHaveLength(1)
})
