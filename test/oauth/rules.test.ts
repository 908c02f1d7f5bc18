import { describe, expect, it } from 'vitest'
import { HttpError, ReauthRequiredException } from '../../src/framework/errors.ts'
import {
  codeChallengeOf,
  expiresSoon,
  isInvalidGrant,
  isSamePair,
  providerErrorCode,
  providerErrorOf,
  readCallback,
  refreshedTokens,
  TOKEN_KEYS,
  tokenDigest,
  tokensOf,
} from '../../src/oauth/rules.ts'

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
    ['2026-01-01T00:10:00', true],
    ['2026-01-01 00:10:00', true],
    ['2026-01-01 01:10:00+01', true],
    ['2026-01-01T01:10:00+01', true],
    ['2026-01-01T01:40:00+0130', true],
    ['2026-01-01T00:10', true],
    // Dates to `Date.parse()`.
    ['at 2026-01-01', false],
    ['2026-01-01 GMT', false],
    [[AT], false],
    ['3600', false],
    ['86400', false],
    ['expires 1', false],
    ['01/02/2027', false],
    ['tomorrow', false],
    ['', false],
    [1_767_226_200, false],
    [null, false],
  ])('an expiry of %j is read: %j', (token_expires_at, isRead) => {
    const { expiresAt } = tokensOf({ token_expires_at })
    expect(expiresAt).toEqual(isRead ? new Date(AT) : null)
  })
})

it('an expiry without a time of day is the beginning of that day in UTC', () => {
  expect(tokensOf({ token_expires_at: '2026-01-01' }).expiresAt).toEqual(new Date('2026-01-01T00:00:00Z'))
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
    ['a number as a text can not be read', '3600', false, null, true],
    ['a word can not be read', 'soon', false, null, true],
    ['a Date that is none can not be read', new Date(Number.NaN), false, null, true],
  ])('expiry: %s', (_, expiry, isOldSoon, stored, isExpiryUnreadable) => {
    const given = { access_token: 'a', refresh_token: 'r', token_expires_at: expiry }
    expect(refreshedTokens(given, isOldSoon)).toEqual({
      patch: { access_token: 'a', refresh_token: 'r', token_expires_at: stored },
      isExpiryUnreadable,
    })
  })

  it('an empty refresh token is none: the old one stays', () => {
    const given = { access_token: 'a', refresh_token: '', token_expires_at: AT }
    expect(refreshedTokens(given, false)?.patch).toEqual({ access_token: 'a', token_expires_at: AT })
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

/** What is read of a callback. Rule: docs/behaviour/oauth.md, "Callback". */

const read = (query: string) => readCallback(new URLSearchParams(query))

describe('a callback', () => {
  it('is read by its known parameters', () => {
    expect(read('state=s&code=c&iss=i&scope=a&session_state=x&scope=b')).toEqual({
      kind: 'read',
      parameters: { state: 's', code: 'c', error: null, iss: 'i' },
    })
  })

  it('may bring an error', () => {
    expect(read('state=s&error=access_denied')).toMatchObject({ parameters: { code: null, error: 'access_denied' } })
  })

  it('has left out what is empty', () => {
    expect(read('state=&code=&error=&iss=')).toEqual({
      kind: 'read',
      parameters: { state: null, code: null, error: null, iss: null },
    })
  })

  it.each(['state', 'code', 'error', 'error_description', 'iss'])('is refused with two of %s', (name) => {
    expect(read(`${name}=a&x=1&${name}=a`)).toEqual({ kind: 'malformed', parameter: name })
  })

  it.each(['state', 'code', 'error', 'error_description', 'iss'])(
    'is refused with a %s of 4,097 characters',
    (name) => {
      expect(read(`${name}=${'a'.repeat(4_096)}`).kind).toBe('read')
      expect(read(`${name}=${'a'.repeat(4_097)}`)).toEqual({ kind: 'malformed', parameter: name })
    },
  )
})

it.each([
  ['invalid_grant', 'invalid_grant'],
  ['a.b-c_1', 'a.b-c_1'],
  ['x'.repeat(64), 'x'.repeat(64)],
  ['x'.repeat(65), null],
  ['', null],
  ['call 555', null],
  ['<b>', null],
  ['a\nb', null],
  [7, null],
  [undefined, null],
])('of a provider’s error %j is shown %j', (text, shown) => {
  expect(providerErrorCode(text)).toBe(shown)
})

/** An answer that names its error, so many causes down. */
function caused(depth: number): unknown {
  let error: unknown = { body: { error: 'server_error' } }
  for (let level = 0; level < depth; level += 1) error = new Error('x', { cause: error })
  return error
}

it.each<[string, unknown, string | null]>([
  ['an OAuth client’s error', Object.assign(new Error('x'), { error: 'invalid_grant' }), 'invalid_grant'],
  ['a JSON answer', new HttpError(400, new Headers(), { error: 'invalid_client' }), 'invalid_client'],
  ['a JSON answer as text', new HttpError(400, new Headers(), '{"error":"invalid_scope"}'), 'invalid_scope'],
  [
    'an answer as a form',
    new HttpError(400, new Headers(), 'error=bad_verification_code&x=1'),
    'bad_verification_code',
  ],
  ['a cause', new Error('x', { cause: { body: { error: 'server_error' } } }), 'server_error'],
  ['an error that is no code', new HttpError(400, new Headers(), { error: { message: 'no' } }), null],
  ['a form without an error', new HttpError(400, new Headers(), 'code=x'), null],
  ['JSON that is no object', new HttpError(400, new Headers(), '["error"]'), null],
  ['the body of no text', new HttpError(400, new Headers(), 7), null],
  ['a body that cannot be made a text', { body: Symbol('x') }, null],
  ['the fifth cause', caused(4), 'server_error'],
  ['a cause too deep', caused(5), null],
  ['a page', new HttpError(500, new Headers(), '<html>error</html>'), null],
  ['a plain error', new Error('invalid_grant'), null],
  ['nothing', undefined, null],
])('finds the code in %s', (_, thrown, code) => {
  expect(providerErrorOf(thrown)).toBe(code)
})

it('ends at an error that caused itself', () => {
  const error = new Error('x')
  error.cause = error
  expect(providerErrorOf(error)).toBeNull()
})

it('makes the challenge of RFC 7636’s example', () => {
  expect(codeChallengeOf('dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk')).toBe(
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
  )
})

const http = (status: number, body: unknown) => new HttpError(status, new Headers(), body)
const said = { error: 'invalid_grant', error_description: 'Token has been expired or revoked.' }

it.each<[string, unknown, boolean]>([
  ['400 that says so', http(400, said), true],
  ['401 that says so', http(401, said), true],
  ['400 whose JSON came as text', http(400, JSON.stringify(said)), true],
  ['400 whose answer is a form', http(400, 'error=invalid_grant&error_description=x'), true],
  ['as the cause of another error', new Error('outer', { cause: http(400, said) }), true],
  ['as an OAuth client has it', Object.assign(new Error('x'), { status: 400, error: 'invalid_grant' }), true],
  ['as an OAuth client without a status has it', Object.assign(new Error('x'), { error: 'invalid_grant' }), true],
  ['as Octokit and axios have it', Object.assign(new Error('x'), { response: { status: 400, data: said } }), true],
  ['as got has it', Object.assign(new Error('x'), { response: { statusCode: 400, body: said } }), true],
  ['400 that says something else', http(400, { error: 'invalid_client' }), false],
  ['401 without a body', http(401, null), false],
  ['403 that says so', http(403, said), false],
  ['500 that says so', http(500, said), false],
  [
    '400 with the word in a description',
    http(400, { error: 'invalid_request', error_description: 'invalid_grant' }),
    false,
  ],
  ['400 with the word in a text', http(400, 'no invalid_grant here'), false],
  ['a fault of the connection', Object.assign(new TypeError('fetch failed'), { code: 'ECONNRESET' }), false],
  ['an error of ours', new ReauthRequiredException(1, 'invalid_grant'), false],
  ['no error', undefined, false],
  ['a body without a status', { body: { error: 'invalid_grant' } }, false],
])('%s: %s', (_, error, expected) => {
  expect(isInvalidGrant(error)).toBe(expected)
})

it('the keys of tokens are those of RFC 6749 and the moment of their end', () => {
  expect(TOKEN_KEYS).toEqual(['access_token', 'refresh_token', 'token_expires_at'])
})
