import { expect, it } from 'vitest'
import { HttpError, ReauthRequiredException } from '../../src/framework/errors.ts'
import { isInvalidGrant } from '../../src/oauth/invalid-grant-rules.ts'

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
])('%s: %s', (_, error, expected) => {
  expect(isInvalidGrant(error)).toBe(expected)
})
