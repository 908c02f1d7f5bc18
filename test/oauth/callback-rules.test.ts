/** What is read of a callback. Rule: docs/behaviour/oauth.md, "Callback". */
import { describe, expect, it } from 'vitest'
import { HttpError } from '../../src/framework/errors.ts'
import { codeChallengeOf, providerErrorCode, providerErrorOf, readCallback } from '../../src/oauth/callback-rules.ts'

const read = (query: string) => readCallback(new URLSearchParams(query))

describe('a callback', () => {
  it('is read by its known parameters', () => {
    expect(read('state=s&code=c&iss=i&scope=a&session_state=x&scope=b')).toEqual({
      kind: 'read',
      parameters: { state: 's', code: 'c', error: null, iss: 'i' },
    })
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
