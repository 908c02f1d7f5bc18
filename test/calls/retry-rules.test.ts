import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import type { RetryDecision, RetryInput } from '../../src/calls/retry-rules.ts'
import { defaultAttempts, isNeverConnected, retryAfterSeconds, retryDecision } from '../../src/calls/retry-rules.ts'
import {
  CircuitOpenException,
  CredentialsUnreadable,
  EgressRefused,
  HttpError,
  IdempotencyConflict,
  IdempotencyInsideTransaction,
  InvalidArgumentException,
  RateLimitExceededException,
  RequestTimeout,
  ResponseTooLarge,
  RetryableError,
  SchemaDrift,
} from '../../src/framework/errors.ts'

const RETRY_AFTER_MAX_SECONDS = 600

function decide(input: Partial<RetryInput> = {}): RetryDecision {
  return retryDecision({
    error: new Error('boom'),
    failureClass: 'upstream',
    attempt: 1,
    attempts: 3,
    callerAborted: false,
    mustNotRepeat: false,
    providerSaysRetryable: null,
    providerDelayMs: null,
    retryAfterSeconds: null,
    maxDelaySeconds: RETRY_AFTER_MAX_SECONDS,
    random: 0,
    ...input,
  })
}

function asks(options: ConstructorParameters<typeof RetryableError>[1] = {}): RetryableError {
  return new RetryableError('again', options)
}

function coded(code: string, fields: Record<string, unknown> = {}): Error {
  return Object.assign(new Error(code), { code, ...fields })
}

const integration = { id: 1, provider: 'github', name: 'ours' }
const unreadable = new CredentialsUnreadable(1, 'k1', 'damaged')
const conflict = { integrationId: 1, key: 'k', priorResponse: null, priorRequestId: null, reservedAt: new Date(0) }
const NEVER_CONNECTED = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]

const retry = (delayMs: number): RetryDecision => ({ kind: 'retry', delayMs })

describe('attempts that a method gets', () => {
  it.each([
    ['GET', 3],
    ['HEAD', 3],
    ['POST', 1],
    ['PUT', 1],
    ['PATCH', 1],
    ['DELETE', 1],
    ['OPTIONS', 1],
    ['QUERY', 1],
  ])('%s: %i', (method, attempts) => {
    expect(defaultAttempts(method)).toBe(attempts)
  })
})

describe('whether a failed attempt is made again', () => {
  it.each<[string, Partial<RetryInput>, RetryDecision['kind']]>([
    ['upstream', { failureClass: 'upstream' }, 'retry'],
    ['throttle', { failureClass: 'throttle' }, 'retry'],
    ['client', { failureClass: 'client' }, 'stop'],
    ['unknown', { failureClass: 'unknown' }, 'stop'],
    ["client, at the provider's word", { failureClass: 'client', providerSaysRetryable: true }, 'retry'],
    ["unknown, at the provider's word", { failureClass: 'unknown', providerSaysRetryable: true }, 'retry'],
    ["upstream, against the provider's word", { providerSaysRetryable: false }, 'stop'],
    ['the last attempt', { attempt: 3 }, 'stop'],
    ['the last but one', { attempt: 2 }, 'retry'],
    ["the last attempt, at the provider's word", { attempt: 3, providerSaysRetryable: true }, 'stop'],
    ['the only attempt of a write', { attempts: 1 }, 'stop'],
    ['an aborted caller', { callerAborted: true }, 'stop'],
    ["an aborted caller, at the provider's word", { callerAborted: true, providerSaysRetryable: true }, 'stop'],
    ['an aborted caller, though the call asks', { callerAborted: true, error: asks() }, 'stop'],
    ['client, as the call asks', { failureClass: 'client', error: asks() }, 'retry'],
    ['unknown, as the call asks', { failureClass: 'unknown', error: asks() }, 'retry'],
    ['as the call asks far down', { failureClass: 'unknown', error: new Error('x', { cause: asks() }) }, 'retry'],
    ["as the call asks, against the provider's word", { error: asks(), providerSaysRetryable: false }, 'retry'],
    ['the last attempt, though the call asks', { attempt: 3, error: asks() }, 'stop'],
    [
      'an error that names no options, of a host in JavaScript',
      { failureClass: 'unknown', error: Object.assign(asks(), { options: undefined }) },
      'retry',
    ],
    ['an error of ours that is no refusal, at its word', { failureClass: 'unknown', error: unreadable }, 'stop'],
    ['the same, as the call asks', { failureClass: 'unknown', error: asks({ cause: unreadable }) }, 'retry'],
    ['an answer of the provider', { error: new HttpError(503, new Headers(), null) }, 'retry'],
    ['our deadline', { error: new RequestTimeout('issues', 30_000) }, 'retry'],
    ["throttle, against the provider's word", { failureClass: 'throttle', providerSaysRetryable: false }, 'stop'],
    ['upstream, the provider leaves it open', { failureClass: 'upstream', providerSaysRetryable: null }, 'retry'],
    ['client, the provider leaves it open', { failureClass: 'client', providerSaysRetryable: null }, 'stop'],
  ])('%s: %s', (_, input, kind) => {
    expect(decide(input).kind).toBe(kind)
  })
})

describe('what is never made again, whoever asks', () => {
  it.each<[string, Error]>([
    ['an open circuit', new CircuitOpenException(integration, null, 60, null)],
    ['a refusal by the limiter', new RateLimitExceededException(integration, 1, null)],
    ['a bad argument', new InvalidArgumentException('number', 'an integer is allowed')],
    ['a spent key', new IdempotencyConflict({ ...conflict, priorState: 'unknown' })],
    ['a keyed write in a transaction', new IdempotencyInsideTransaction('k')],
    ['drift', new SchemaDrift('issues', [])],
    ['a refused host', new EgressRefused('10.0.0.1', 'private')],
    ['a body beyond measure', new ResponseTooLarge(10)],
  ])('%s', (_, error) => {
    const asked = { failureClass: 'upstream', providerSaysRetryable: true, providerDelayMs: 1 } as const
    expect(decide({ error, ...asked })).toEqual({ kind: 'stop' })
    expect(decide({ error: new TypeError('fetch failed', { cause: error }), ...asked })).toEqual({ kind: 'stop' })
    expect(decide({ error: asks({ cause: error }), ...asked })).toEqual({ kind: 'stop' })
  })
})

describe('how often a RetryableError is made again', () => {
  it.each<[string, number | undefined, number, number, RetryDecision['kind']]>([
    ['as often as the call may', undefined, 3, 2, 'retry'],
    ['fewer times, as it says', 2, 3, 1, 'retry'],
    ['fewer times, as it says, and no more', 2, 3, 2, 'stop'],
    ['not at all', 1, 3, 1, 'stop'],
    ['never more often than the call may', 10, 3, 3, 'stop'],
    ['as often as the call may when it names no number', Number.NaN, 3, 2, 'retry'],
  ])('%s', (_, maxAttempts, attempts, attempt, kind) => {
    expect(decide({ error: asks(maxAttempts === undefined ? {} : { maxAttempts }), attempts, attempt }).kind).toBe(kind)
  })
})

describe('a keyed write at a provider that does not know the key', () => {
  it.each<[string, Partial<RetryInput>, RetryDecision['kind']]>([
    ['throttled', { failureClass: 'throttle' }, 'retry'],
    ...NEVER_CONNECTED.map((code): [string, Partial<RetryInput>, 'retry'] => [code, { error: coded(code) }, 'retry']),
    ['a status', { error: new HttpError(503, new Headers(), null) }, 'stop'],
    ['a deadline', { error: new RequestTimeout('issues', 30_000) }, 'stop'],
    ['a reset', { error: coded('ECONNRESET') }, 'stop'],
    ['a certificate', { error: coded('CERT_HAS_EXPIRED') }, 'stop'],
    ["a client fault, at the provider's word", { failureClass: 'client', providerSaysRetryable: true }, 'stop'],
    ['a fault for which the call asks', { error: asks() }, 'stop'],
    ['never connected, as the call asks', { error: asks({ cause: coded('ECONNREFUSED') }) }, 'retry'],
    [
      "never connected, against the provider's word",
      { error: coded('ENOTFOUND'), providerSaysRetryable: false },
      'stop',
    ],
  ])('%s', (_, input, kind) => {
    expect(decide({ mustNotRepeat: true, ...input }).kind).toBe(kind)
  })
})

describe('a connection that never stood', () => {
  it.each(NEVER_CONNECTED)('%s, also below', (code) => {
    expect(isNeverConnected(coded(code))).toBe(true)
    expect(isNeverConnected(new TypeError('fetch failed', { cause: coded(code) }))).toBe(true)
    expect(isNeverConnected({ type: 'StripeConnectionError', detail: coded(code) })).toBe(true)
  })

  it.each<[string, unknown, boolean]>([
    ['all addresses refused', new AggregateError([coded('ECONNREFUSED'), coded('ENETUNREACH')]), true],
    [
      'one refused, one not reached in time',
      aggregate(coded('ECONNREFUSED'), coded('ETIMEDOUT', { syscall: 'connect' })),
      true,
    ],
    ['one refused, one broken off', aggregate(coded('ECONNREFUSED'), coded('ECONNRESET', { syscall: 'read' })), false],
    ['broken off', coded('ECONNRESET'), false],
    ['no answer in time', coded('UND_ERR_HEADERS_TIMEOUT'), false],
    ['a gateway that says so in its answer', coded('ECONNREFUSED', { statusCode: 502 }), false],
    ["the host's database", coded('ECONNREFUSED', { query: 'select 1', parameters: [] }), false],
    ['no connection at all', new Error('boom'), false],
    ['nothing', undefined, false],
  ])('%s: %s', (_, error, never) => {
    expect(isNeverConnected(error)).toBe(never)
  })
})

/** What a header that says nothing usable leaves of itself. */
function ignored(header: string): Pick<RetryInput, 'retryAfterSeconds'> {
  return { retryAfterSeconds: retryAfterSeconds(header, new Date('2031-05-01T12:00:00.000Z')) }
}

function aggregate(...errors: Error[]): AggregateError {
  return Object.assign(new AggregateError(errors), { code: (errors[0] as { code?: string }).code })
}

describe('the delay after an attempt', () => {
  it.each<[string, Partial<RetryInput>, number]>([
    [
      "the call's own first",
      { error: asks({ retryAfterSeconds: 5 }), providerDelayMs: 1_234, retryAfterSeconds: 9 },
      5_000,
    ],
    ["the call's zero", { error: asks({ retryAfterSeconds: 0 }), providerDelayMs: 1_234 }, 0],
    ["nothing for the call's negative one", { error: asks({ retryAfterSeconds: -5 }) }, 0],
    [
      "the call's, of the outermost",
      { error: asks({ retryAfterSeconds: 5, cause: asks({ retryAfterSeconds: 6 }) }) },
      5_000,
    ],
    ["not the call's when it names none", { error: asks(), providerDelayMs: 1_234 }, 1_234],
    [
      "not the call's when it is no number",
      { error: asks({ retryAfterSeconds: Number.NaN }), retryAfterSeconds: 9 },
      9_000,
    ],
    ["then the provider's own", { providerDelayMs: 1_234, retryAfterSeconds: 9 }, 1_234],
    ["the provider's zero", { providerDelayMs: 0, retryAfterSeconds: 9 }, 0],
    ['nothing for a negative one', { providerDelayMs: -5 }, 0],
    ['then Retry-After', { retryAfterSeconds: 9, failureClass: 'throttle' }, 9_000],
    ['Retry-After in fractions', { retryAfterSeconds: 0.5 }, 500],
    ['then 30 s for a throttle', { failureClass: 'throttle' }, 30_000],
    ['30 s also at the second', { failureClass: 'throttle', attempt: 2 }, 30_000],
    ['2 s for upstream', {}, 2_000],
    ['4 s at the second', { attempt: 2 }, 4_000],
    ['18 s at the ninth', { attempt: 9, attempts: 10 }, 18_000],
    ['1 s else', { failureClass: 'client', providerSaysRetryable: true }, 1_000],
    ['2 s else at the second', { failureClass: 'unknown', providerSaysRetryable: true, attempt: 2 }, 2_000],
    ['9 s else at the ninth', { failureClass: 'client', error: asks(), attempt: 9, attempts: 10 }, 9_000],
    ["Retry-After's zero", { failureClass: 'throttle', retryAfterSeconds: 0 }, 0],
    ['30 s for a throttle whose Retry-After was ignored', { failureClass: 'throttle', ...ignored('soon') }, 30_000],
    ['2 s for upstream whose Retry-After is past', ignored('Sun, 06 Nov 1994 08:49:37 GMT'), 2_000],
  ])('is %s', (_, input, delayMs) => {
    expect(decide(input)).toEqual(retry(delayMs))
  })

  it.each<[string, Partial<RetryInput>]>([
    ["the call's", { error: asks({ retryAfterSeconds: Number.POSITIVE_INFINITY }) }],
    ["the provider's", { providerDelayMs: 3_600_000 }],
    ['Retry-After', { retryAfterSeconds: 3_600 }],
    ['a throttle', { failureClass: 'throttle', maxDelaySeconds: 10 }],
    ['upstream', { attempt: 9, attempts: 10, maxDelaySeconds: 10 }],
    ['else', { failureClass: 'client', error: asks(), attempt: 9, attempts: 10, maxDelaySeconds: 8 }],
    ['a throttle with its jitter', { failureClass: 'throttle', random: 0.9, maxDelaySeconds: 31 }],
  ])('is capped: %s', (_, input) => {
    expect(decide(input)).toEqual(retry((input.maxDelaySeconds ?? RETRY_AFTER_MAX_SECONDS) * 1_000))
  })

  it('has up to 20 % of jitter, but not where somebody named it', () => {
    const base: Record<FailureClass, number> = { throttle: 30_000, upstream: 2_000, client: 1_000, unknown: 1_000 }
    fc.assert(
      fc.property(
        fc.constantFrom<FailureClass>('throttle', 'upstream', 'client', 'unknown'),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (failureClass, random) => {
          const input = { failureClass, random, providerSaysRetryable: true }
          const decision = decide(input)
          const delayMs = decision.kind === 'retry' ? decision.delayMs : Number.NaN
          expect(delayMs).toBeGreaterThanOrEqual(base[failureClass])
          expect(delayMs).toBeLessThanOrEqual(base[failureClass] * 1.2)
          expect(decide({ ...input, retryAfterSeconds: 7 })).toEqual(retry(7_000))
          expect(decide({ ...input, providerDelayMs: 7 })).toEqual(retry(7))
          expect(decide({ ...input, error: asks({ retryAfterSeconds: 7 }) })).toEqual(retry(7_000))
        },
      ),
    )
    expect(decide({ random: 0.5 })).toEqual(retry(2_200))
    expect(decide({ random: 0.5, failureClass: 'throttle' })).toEqual(retry(33_000))
    expect(decide({ random: 0.5, failureClass: 'client', error: asks() })).toEqual(retry(1_100))
  })

  it('is never longer than a timer can be', () => {
    expect(decide({ providerDelayMs: Number.POSITIVE_INFINITY, maxDelaySeconds: 2 ** 31 - 1 })).toEqual(
      retry(2 ** 31 - 1),
    )
  })
})

describe('whatever anybody asks', () => {
  const anyNumber = fc.oneof(fc.double(), fc.integer({ min: -5, max: 20 }))
  const wish = fc.record(
    { maxAttempts: anyNumber, retryAfterSeconds: anyNumber },
    { requiredKeys: [] },
  ) as fc.Arbitrary<{ maxAttempts?: number; retryAfterSeconds?: number }>
  const error = fc.oneof(
    fc.constant(new Error('boom')),
    fc.constantFrom(...NEVER_CONNECTED, 'ECONNRESET').map((code) => coded(code)),
    wish.map((options) => asks(options)),
    wish.map((options) => new Error('outer', { cause: asks(options) })),
    fc.constantFrom(
      new InvalidArgumentException('x', 'no'),
      new SchemaDrift('issues', []),
      new EgressRefused('h', 'no'),
    ),
  )
  const given = fc.record<RetryInput>({
    error,
    failureClass: fc.constantFrom<FailureClass>('upstream', 'throttle', 'client', 'unknown'),
    attempt: fc.integer({ min: 1, max: 10 }),
    attempts: fc.integer({ min: 1, max: 10 }),
    callerAborted: fc.boolean(),
    mustNotRepeat: fc.boolean(),
    providerSaysRetryable: fc.option(fc.boolean()),
    providerDelayMs: fc.option(fc.double({ noNaN: true })),
    retryAfterSeconds: fc.option(fc.double({ min: 0, noNaN: true })),
    maxDelaySeconds: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  })
  const holds = (property: (input: RetryInput, decision: RetryDecision) => void) =>
    fc.assert(
      fc.property(given, (input) => property(input, retryDecision(input))),
      { numRuns: 2_000 },
    )

  it('the delay is between nothing and the cap', () => {
    holds((input, decision) => {
      if (decision.kind === 'stop') return
      expect(decision.delayMs).toBeGreaterThanOrEqual(0)
      expect(decision.delayMs).toBeLessThanOrEqual(Math.min(input.maxDelaySeconds * 1_000, 2 ** 31 - 1))
    })
  })

  it('no more attempts are made than the call may make', () => {
    fc.assert(
      fc.property(given, (input) => {
        let made = 1
        while (made <= 11 && retryDecision({ ...input, attempt: made }).kind === 'retry') made += 1
        expect(made).toBeLessThanOrEqual(input.attempts)
      }),
      { numRuns: 2_000 },
    )
  })

  it('maxAttempts only lowers', () => {
    fc.assert(
      fc.property(given, anyNumber, (input, maxAttempts) => {
        const without = retryDecision({ ...input, error: asks() })
        const limited = retryDecision({ ...input, error: asks({ maxAttempts }) })
        if (without.kind === 'stop') expect(limited).toEqual(without)
        else if (input.attempt < maxAttempts) expect(limited).toEqual(without)
        else if (input.attempt >= maxAttempts) expect(limited).toEqual({ kind: 'stop' })
      }),
      { numRuns: 2_000 },
    )
  })

  it('what is not retryable is not made again', () => {
    holds((input, decision) => {
      if (decision.kind === 'stop') return
      expect(input.callerAborted).toBe(false)
      const isWished = String(input.error).includes('RetryableError') || (input.error as Error).cause !== undefined
      const isRetryable = input.failureClass === 'upstream' || input.failureClass === 'throttle'
      expect(isWished || (input.providerSaysRetryable ?? isRetryable)).toBe(true)
      expect(input.error).not.toHaveProperty('code', 'invalid_argument')
      expect(input.error).not.toHaveProperty('code', 'schema_drift')
      expect(input.error).not.toHaveProperty('code', 'egress_refused')
      if (input.mustNotRepeat && input.failureClass !== 'throttle') expect(isNeverConnected(input.error)).toBe(true)
    })
  })
})

describe('Retry-After', () => {
  const now = new Date('1994-11-06T08:49:07.500Z')

  it.each<[string | null | undefined, number | null]>([
    ['120', 120],
    [' 120 ', 120],
    ['0', 0],
    ['1.5', 1.5],
    // The three forms of an HTTP date, half a second rounded up.
    ['Sun, 06 Nov 1994 08:49:37 GMT', 30],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 30],
    ['Sun Nov  6 08:49:37 1994', 30],
    ['Wed Nov 16 08:49:07 1994', 864_000],
    ['Sun, 06 Nov 1994 08:49:08 GMT', 1],
    ['Mon, 07 Nov 1994 08:49:07 GMT', 86_400],
    // Past.
    ['Sun, 06 Nov 1994 08:49:07 GMT', null],
    ['Sun, 06 Nov 1994 08:48:37 GMT', null],
    ['Sun Nov  6 08:48:37 1994', null],
    // Malformed.
    [null, null],
    [undefined, null],
    ['', null],
    ['-5', null],
    ['+5', null],
    ['5 s', null],
    ['1e3', null],
    ['0x10', null],
    ['1.', null],
    ['.5', null],
    ['1,5', null],
    ['1.2.3', null],
    ['NaN', null],
    ['Infinity', null],
    ['soon', null],
    ['in May 2094', null],
    ['foo 2094', null],
    ['2094-11-06T08:49:37Z', null],
    ['Sun, 06 Nov 2094', null],
    ['Sun, 06 Nov 2094 08:49:37', null],
    ['Sun, 06 Nov 2094 08:49:37 CET', null],
    ['Sun, 06 Foo 2094 08:49:37 GMT', null],
    ['120, 240', null],
    ['0.25', 0.25],
    ['1.125', 1.125],
    ['x Sun, 06 Nov 2094 08:49:37 GMT', null],
    ['Sun, 06 Nov 2094 08:49:37 GMT x', null],
    ['Sat Nov  6 08:49:37 2094 (x)', null],
    [now.toUTCString(), null],
  ])('%j: %s', (header, seconds) => {
    expect(retryAfterSeconds(header, now)).toBe(seconds)
  })

  it('asks for no wait until now', () => {
    const at = 'Sun, 06 Nov 1994 08:49:07 GMT'
    expect(retryAfterSeconds(at, new Date(at))).toBe(null)
  })

  it('reads every date that toUTCString() writes', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10 ** 9 }), (ahead) => {
        const at = new Date(Math.ceil(now.getTime() / 1_000) * 1_000 + ahead * 1_000)
        expect(retryAfterSeconds(at.toUTCString(), now)).toBe(ahead + 1)
      }),
    )
  })

  it('is never negative or not a number', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 30 }), (header) => {
        const seconds = retryAfterSeconds(header, now)
        expect(seconds === null || seconds >= 0).toBe(true)
      }),
    )
  })
})
