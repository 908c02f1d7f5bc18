import { describe, expect, it } from 'vitest'
import { REDACTED } from '../../src/framework/redaction.ts'
import type { AskedCall } from '../../src/rehearsal/rehearsal-jobs.ts'
import { bodyOnWire, cachedOnWire, incomplete, isForToken } from '../../src/rehearsal/stored-answer-rules.ts'

const whole = { statusCode: 200, responseData: '{"id":7}', failureClass: null, error: null }
const hash = '0'.repeat(64)

describe('an answer of the log', () => {
  it.each([
    ['with a body', {}],
    ['with an empty body', { responseData: '' }],
    ['without a body', { responseData: null }],
    ['with an error of the provider', { statusCode: 503, failureClass: 'upstream' }],
    ['that speaks of a cut', { responseData: 'x ...[cut, 5 bytes] and more' }],
    ['that quotes a note', { responseData: '"[not serialisable]"' }],
    ['with a note and more before it', { responseData: `x[binary, 3 bytes, sha256 ${hash}]` }],
    ['with a note and more after it', { responseData: `[binary, 3 bytes, sha256 ${hash}]x` }],
    ['with [not serialisable] and more', { responseData: '[not serialisable]x' }],
    ['with more and [not serialisable]', { responseData: 'x[not serialisable]' }],
    ['with [not redacted] and more', { responseData: '[not redacted, 12 bytes]x' }],
    ['with more and [not redacted]', { responseData: 'x[not redacted, 12 bytes]' }],
    ['with [not logged] and more', { responseData: '[not logged, 12 bytes]x' }],
    ['with more and [not logged]', { responseData: 'x[not logged, 12 bytes]' }],
  ])('is whole: %s', (_, change) => {
    expect(incomplete({ ...whole, ...change })).toBe(null)
  })

  it.each([
    [{ statusCode: null }, 'the log has no status of its answer'],
    [
      { statusCode: null, failureClass: 'upstream' },
      'it got no answer: a fault of the connection, a deadline, or an error of its own',
    ],
    [{ responseData: `[binary, 12 bytes, sha256 ${hash}]` }, 'its answer is binary, and the log has its hash only'],
    [{ responseData: '[not serialisable]' }, 'its answer is no JSON, and was not stored'],
    [{ responseData: '[not redacted, 12 bytes]' }, 'its answer could not be redacted, and was not stored'],
    [{ responseData: '[not logged, 12 bytes]' }, 'its answer is not logged (unloggedResponses)'],
    [{ responseData: '{"id": ...[cut, 12 bytes]' }, 'its answer is cut in the log (logging.max_response_bytes)'],
    [{ responseData: `{"token":"${REDACTED}"}` }, 'its answer is redacted in the log'],
  ])('is not whole: %j', (change, reason) => {
    expect(incomplete({ ...whole, ...change })).toBe(reason)
  })
})

it.each([
  ['{"id":7}', 'application/json'],
  ['7', 'application/json'],
  ['a text', 'text/plain'],
  ['"a text"', 'text/plain'],
  ['"a text" ', 'text/plain'],
  ['a "text"', 'text/plain'],
  ['', 'text/plain'],
  [null, 'text/plain'],
])('the body %j is %s', (body, contentType) => {
  expect(bodyOnWire(body)).toEqual({ body, contentType })
})

it.each([
  [null, null],
  [undefined, null],
  ['a text', 'a text'],
  [{ id: 7 }, '{"id":7}'],
  [[1, 2], '[1,2]'],
  [7, '7'],
  [{ data: [1], status: 200, headers: {} }, '[1]'],
  [{ status: 200, headers: {} }, '{"status":200,"headers":{}}'],
  [{ data: [1], status: '200', headers: {} }, '{"data":[1],"status":"200","headers":{}}'],
  [{ data: [1], status: 200 }, '{"data":[1],"status":200}'],
])('a cached %j was %j on the wire', (returned, text) => {
  expect(cachedOnWire(returned)).toBe(text)
})

it.each([
  ['POST', 'https://a.example/token', '{"grant_type":"refresh_token"}', true],
  ['POST', 'https://a.example/app/installations/7/access_tokens', null, true],
  ['POST', 'https://a.example/oauth/access_token', null, true],
  ['POST', 'https://a.example/oauth/access_token/7', null, false],
  ['POST', 'https://a.example/token', '{"grant":"x"}', false],
  ['POST', 'https://a.example/things', null, false],
  ['GET', 'https://a.example/access_token', '{"grant_type":"x"}', false],
  ['GET', 'https://a.example/.well-known/oauth-authorization-server', null, true],
])('%s %s with %s is for a token: %s', (method, endpoint, data, is) => {
  expect(isForToken({ method, endpoint, data } as AskedCall)).toBe(is)
})
