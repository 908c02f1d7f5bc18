import { describe, expect, it } from 'vitest'
import { classifyFailure } from '../../src/calls/failure-class-rules.ts'
import {
  isSurelyWithoutEffect,
  longestSilenceMs,
  mayBeSentAgain,
  priorAnswer,
} from '../../src/calls/idempotency-rules.ts'
import { EgressRefused, HttpError, RequestTimeout } from '../../src/framework/errors.ts'

const coded = (code: string, more: object = {}) => Object.assign(new Error(code), { code, ...more })
const status = (status: number) => new HttpError(status, new Headers(), null)
const fetchFailed = (cause: unknown) => Object.assign(new TypeError('fetch failed'), { cause })

describe('a failed attempt is surely without effect', () => {
  it.each<readonly [string, unknown, boolean]>([
    ['an answer 400', status(400), true],
    ['an answer 404', status(404), true],
    ['an answer 408', status(408), true],
    ['an answer 409', status(409), true],
    ['an answer 422', status(422), true],
    ['an answer 429', status(429), true],
    ['an answer 501', status(501), true],
    ['an answer 500', status(500), false],
    ['an answer 502', status(502), false],
    ['an answer 503', status(503), false],
    ['an answer 504', status(504), false],
    ['our deadline', new RequestTimeout('things', 1_000), false],
    ['an abort', new DOMException('aborted', 'AbortError'), false],
    ['no signal', new Error('a bug in the call'), false],
    ['a thrown text', 'a text', false],
    ['a redirect that is not followed', status(307), false],
    ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'].map(
      (code) => [code, fetchFailed(coded(code)), true] as const,
    ),
    ...['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'UND_ERR_SOCKET', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'].map(
      (code) => [code, fetchFailed(coded(code)), false] as const,
    ),
    [
      'every address refused',
      fetchFailed(new AggregateError([coded('ECONNREFUSED'), coded('ECONNREFUSED')], 'all of them')),
      true,
    ],
    [
      'one address refused, another reset',
      fetchFailed(new AggregateError([coded('ECONNREFUSED'), coded('ECONNRESET')], 'both')),
      false,
    ],
    ['a refused address', new EgressRefused('10.0.0.1', 'it is private'), true],
    ['a gateway that says ECONNREFUSED', Object.assign(status(502), { cause: coded('ECONNREFUSED') }), false],
  ])('%s: %s', (_, error, expected) => {
    const failureClass = classifyFailure({ error, callerAborted: false })
    expect(isSurelyWithoutEffect(error, failureClass)).toBe(expected)
  })

  it('a provider‘s own verdict decides, too', () => {
    expect(isSurelyWithoutEffect(status(503), 'throttle')).toBe(true)
    expect(isSurelyWithoutEffect(status(503), 'client')).toBe(true)
    expect(isSurelyWithoutEffect(status(400), 'upstream')).toBe(false)
  })
})

describe('the answer of a spent key', () => {
  it.each([
    ['nothing', null, 'empty', null],
    ['an empty text', '', 'empty', null],
    ['an object', '{"id":1}', 'recovered', { id: 1 }],
    ['a list', '[1,2]', 'recovered', [1, 2]],
    ['a number', '7', 'recovered', 7],
    ['a truth', 'false', 'recovered', false],
    ['a quoted text', '"done"', 'recovered', 'done'],
    ['the JSON null', 'null', 'recovered', null],
    ['a text', 'created', 'unparseable', 'created'],
    ['broken JSON', '{"id":', 'unparseable', '{"id":'],
    ['a note', '[binary, 3 bytes, sha256 00]', 'unparseable', '[binary, 3 bytes, sha256 00]'],
  ])('%s', (_, stored, priorState, priorResponse) => {
    expect(priorAnswer(stored)).toEqual({ priorState, priorResponse })
  })
})

describe('a repeat of a spent key', () => {
  it.each([
    ['of unknown effect, the provider remembers', 'unknown', 0, 86_400, 'may be sent again'],
    ['of unknown effect, a moment before the window ends', 'unknown', 86_399.999, 86_400, 'may be sent again'],
    ['of unknown effect, at its end', 'unknown', 86_400, 86_400, 'conflict'],
    ['of unknown effect, the provider does not know keys', 'unknown', 0, null, 'conflict'],
    ['of unknown effect, reserved by a clock ahead, the provider does not know keys', 'unknown', -1, null, 'conflict'],
    ['of unknown effect, the window is nothing', 'unknown', 0, 0, 'conflict'],
    ['of unknown effect, the window is no number', 'unknown', 0, Number.NaN, 'conflict'],
    ['that was answered', 'recovered', 0, 86_400, 'conflict'],
    ['that was answered with nothing', 'empty', 0, 86_400, 'conflict'],
    ['that was answered with a text', 'unparseable', 0, 86_400, 'conflict'],
  ] as const)('%s: %s', (_, state, age, window, verdict) => {
    expect(mayBeSentAgain(state, age, window)).toBe(verdict === 'may be sent again')
  })
})

it('a call is silent for an attempt, a wait, three waits for capacity and a margin at most', () => {
  expect(longestSilenceMs({ attemptMs: 500, retrySeconds: 30, capacitySeconds: 7 })).toBe(500 + (30 + 21 + 120) * 1_000)
})
