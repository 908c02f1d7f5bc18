import { expect, it } from 'vitest'
import type { OAuthStatus } from '../../src/oauth/status-rules.ts'
import { oauthStatusColumns } from '../../src/oauth/status-rules.ts'

const since = new Date(1_000)
const connected: OAuthStatus = {
  integrationId: 7,
  needsAuthorization: true,
  isConnected: true,
  expiresAt: new Date(2_000),
  hasRefreshToken: true,
  reauth: null,
  lastRefreshedAt: new Date(500),
  nextRefreshAt: new Date(1_500),
  failures: 0,
  failingSince: null,
}
const columns = {
  integration_id: 7,
  needs_authorization: true,
  connected: true,
  token_expires_at: new Date(2_000),
  has_refresh_token: true,
  reauth_required: false,
  reauth_reason: null,
  reauth_since: null,
  last_refreshed_at: new Date(500),
  next_refresh_at: new Date(1_500),
  failures: 0,
  failing_since: null,
}

it('an authorization that stands needs no one', () => {
  expect(oauthStatusColumns(connected)).toEqual(columns)
})

it('an authorization that has ended tells why, and since when', () => {
  const ended = { ...connected, reauth: { reason: 'invalid_grant', since }, failures: 3, failingSince: since }
  expect(oauthStatusColumns(ended)).toEqual({
    ...columns,
    reauth_required: true,
    reauth_reason: 'invalid_grant',
    reauth_since: since,
    failures: 3,
    failing_since: since,
  })
})
