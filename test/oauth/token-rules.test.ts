import { describe, expect, it } from 'vitest'
import { expiresSoon, isSamePair, refreshedTokens, tokenDigest, tokensOf } from '../../src/oauth/token-rules.ts'

const AT = '2026-01-01T00:10:00.000Z'

describe('the tokens of credentials', () => {
  it.each<[string, Record<string, unknown>, string | null]>([
    ['a text', { access_token: 't' }, 't'],
    ['no text', { access_token: 7 }, null],
    ['an empty text', { access_token: '' }, null],
    ['nothing', {}, null],
    ['null', { access_token: null }, null],
  ])('%s', (_, credentials, token) => {
    expect(tokensOf(credentials)).toEqual({ accessToken: token, refreshToken: null, expiresAt: null })
  })

  it.each<[unknown, boolean]>([
    [AT, true],
    ['2026-01-01T01:10:00+01:00', true],
    ['tomorrow', false],
    ['', false],
    [1_767_226_200, false],
    [null, false],
  ])('an expiry of %j is read: %j', (token_expires_at, isRead) => {
    const { expiresAt } = tokensOf({ token_expires_at })
    expect(expiresAt).toEqual(isRead ? new Date(AT) : null)
  })
})

describe('a token expires soon', () => {
  it.each<[string, number, boolean]>([
    ['one second before the threshold', 299, false],
    ['at the threshold', 300, true],
    ['after it', 301, true],
    ['when it is over', 700, true],
  ])('%s', (_, secondsGone, isSoon) => {
    const now = new Date(Date.parse(AT) - 600_000 + secondsGone * 1_000)
    expect(expiresSoon(tokensOf({ token_expires_at: AT }), 300, now)).toBe(isSoon)
  })

  it('never without a valid expiry', () => {
    expect(expiresSoon(tokensOf({ token_expires_at: 'x' }), 1e9, new Date())).toBe(false)
  })
})

it('a pair is the same only with both tokens', () => {
  const pair = tokensOf({ access_token: 'a', refresh_token: 'r' })
  expect(isSamePair(pair, tokensOf({ access_token: 'a', refresh_token: 'r', token_expires_at: AT }))).toBe(true)
  expect(isSamePair(pair, tokensOf({ access_token: 'a', refresh_token: 's' }))).toBe(false)
  expect(isSamePair(pair, tokensOf({ access_token: 'b', refresh_token: 'r' }))).toBe(false)
})

it('a digest names the refresh token, and the access token where there is none', () => {
  const digest = tokenDigest(tokensOf({ access_token: 'a', refresh_token: 'r' }))
  expect(digest).toMatch(/^[0-9a-f]{64}$/)
  expect(tokenDigest(tokensOf({ access_token: 'b', refresh_token: 'r' }))).toBe(digest)
  expect(tokenDigest(tokensOf({ access_token: 'r' }))).toBe(digest)
  expect(tokenDigest(tokensOf({ access_token: 'a', refresh_token: 's' }))).not.toBe(digest)
})

describe('what a refresh gave', () => {
  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'token'],
    ['no access token', { refresh_token: 'r' }],
    ['an access token that is no text', { access_token: 1 }],
    ['an empty access token', { access_token: '' }],
  ])('%s is refused', (_, given) => {
    expect(refreshedTokens(given, true)).toBeNull()
  })

  it.each<[string, unknown, boolean, unknown, boolean]>([
    ['an ISO 8601 time stays as it is', AT, true, AT, false],
    ['a Date becomes text', new Date(AT), true, AT, false],
    ['null removes the old one', null, false, null, false],
    ['a number can not be read', 3600, false, null, true],
    ['a word can not be read', 'soon', false, null, true],
    ['a Date that is none can not be read', new Date(Number.NaN), false, null, true],
  ])('expiry: %s', (_, expiry, isOldSoon, stored, isExpiryUnreadable) => {
    const given = { access_token: 'a', refresh_token: 'r', token_expires_at: expiry }
    expect(refreshedTokens(given, isOldSoon)).toEqual({
      patch: { access_token: 'a', refresh_token: 'r', token_expires_at: stored },
      isExpiryUnreadable,
    })
  })

  it('without an expiry: the old one stays, unless the new token would have to be refreshed at once', () => {
    const given = { access_token: 'a', scope: 'read' }
    expect(refreshedTokens(given, false)).toEqual({ patch: given, isExpiryUnreadable: false })
    expect(refreshedTokens(given, true)).toEqual({
      patch: { ...given, token_expires_at: null },
      isExpiryUnreadable: false,
    })
  })
})
