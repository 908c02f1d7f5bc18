/** A host's test of its OAuth provider: the kit refreshes by its clock, and the token endpoint is faked. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HttpError } from '../../src/framework/errors.ts'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import { OAuth2Provider } from '../../src/providers/oauth2-provider.ts'
import type { TestIntegrations } from '../../src/testing/index.ts'
import { createTestIntegrations, playedTransport, sequence } from '../../src/testing/index.ts'

const NOW = '2026-01-01T00:00:00.000Z'
const oauth: HasOAuth2 = {
  authorizationUrl: () => 'https://provider.example/authorize',
  exchangeCode: async () => ({}),
  refreshToken: (integration) => integration.request('oauth/token', 'POST', () => ({})),
  revokeToken: async () => {},
  refreshThreshold: () => 300,
}

class Acme extends OAuth2Provider {
  protected override endpoints = {
    authorization: 'https://login.acme.example/authorize',
    token: 'https://login.acme.example/token',
  }
  protected override client() {
    return { id: 'acme', secret: 'the secret of acme' }
  }
}
const acme = new Acme()
let given = 0
/** Of the authorization server: tokens of an hour. */
const transport = playedTransport(() => {
  given += 1
  return Response.json({ access_token: `token-${given}`, token_type: 'Bearer', expires_in: 3_600 })
})
let kit: TestIntegrations

beforeAll(async () => {
  kit = await createTestIntegrations({ now: NOW, providers: { oauth, acme }, transport })
}, 60_000)
afterAll(() => kit.close())

it('a token is refreshed when the clock has come near its end, and a refusal needs a person', async () => {
  const integration = await kit.integrations.create({
    provider: 'oauth',
    name: 'of a test',
    credentials: { access_token: 'first-token', refresh_token: 'r', token_expires_at: '2026-01-01T01:00:00.000Z' },
  })
  const fakes = kit.fakeRequests({
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
  fakes.stop()
})

describe('a ready-made OAuth client', () => {
  const create = (credentials: Record<string, string>) =>
    kit.integrations.create({ provider: 'acme', name: 'of a test', credentials })
  const moment = (secondsAhead: number) => new Date(kit.clock.now().getTime() + secondsAhead * 1_000).toISOString()

  it('counts the life of tokens by the clock of the kit', async () => {
    const integration = await create({ access_token: 'old', refresh_token: 'r', token_expires_at: moment(0) })
    const end = moment(3_600)
    expect(await integration.getAccessToken()).toBe('token-1')
    expect((await integration.refresh()).credentialsArray()).toMatchObject({ token_expires_at: end })
    kit.clock.advance(3_600 - 301)
    expect(await integration.getAccessToken()).toBe('token-1')
    kit.clock.advance(1)
    expect(await integration.getAccessToken()).toBe('token-2')
  })

  it('needs a person where its only token is over by that clock, and not before', async () => {
    const integration = await create({ access_token: 'only', token_expires_at: moment(3_600) })
    await expect(acme.refreshToken(integration)).rejects.toMatchObject({ code: 'invalid_argument' })
    kit.clock.advance(3_600)
    await expect(acme.refreshToken(integration)).rejects.toMatchObject({ code: 'reauth_required' })
  })

  it('gives the clock of the kit to any provider', async () => {
    const integration = await create({})
    expect(integration.now()).toEqual(kit.clock.now())
  })
})
