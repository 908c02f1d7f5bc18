import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { FailureClass } from '../../src/core/failure-class.ts'
import type { RetryDecision, RetryInput } from '../../src/core/request-retry.ts'
import { defaultAttempts, retryAfterSeconds, retryDecision } from '../../src/core/request-retry.ts'

const RETRY_AFTER_MAX_SECONDS = 600

function decide(input: Partial<RetryInput> = {}): RetryDecision {
  return retryDecision({
    failureClass: 'upstream',
    attempt: 1,
    attempts: 3,
    isFinal: false,
    providerSaysRetryable: null,
    providerDelayMs: null,
    retryAfterSeconds: null,
    maxDelaySeconds: RETRY_AFTER_MAX_SECONDS,
    random: 0,
    ...input,
  })
}

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
    ['our own refusal', { isFinal: true }, 'stop'],
    ["our own refusal, at the provider's word", { isFinal: true, providerSaysRetryable: true }, 'stop'],
    ['a refusal that says when', { isFinal: true, retryAfterSeconds: 1 }, 'stop'],
  ])('%s: %s', (_, input, kind) => {
    expect(decide(input).kind).toBe(kind)
  })
})

describe('the delay after an attempt', () => {
  it.each<[string, Partial<RetryInput>, number]>([
    ["the provider's own first", { providerDelayMs: 1_234, retryAfterSeconds: 9 }, 1_234],
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
  ])('is %s', (_, input, delayMs) => {
    expect(decide(input)).toEqual(retry(delayMs))
  })

  it.each<[string, Partial<RetryInput>]>([
    ["the provider's", { providerDelayMs: 3_600_000 }],
    ['Retry-After', { retryAfterSeconds: 3_600 }],
    ['a throttle', { failureClass: 'throttle', maxDelaySeconds: 10 }],
    ['upstream', { attempt: 9, attempts: 10, maxDelaySeconds: 10 }],
  ])('is capped: %s', (_, input) => {
    expect(decide(input)).toEqual(retry((input.maxDelaySeconds ?? RETRY_AFTER_MAX_SECONDS) * 1_000))
  })

  it('has up to 20 % of jitter, but not where somebody named it', () => {
    const base: Record<'throttle' | 'upstream', number> = { throttle: 30_000, upstream: 2_000 }
    fc.assert(
      fc.property(
        fc.constantFrom<'throttle' | 'upstream'>('throttle', 'upstream'),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (failureClass, random) => {
          const decision = decide({ failureClass, random })
          const delayMs = decision.kind === 'retry' ? decision.delayMs : Number.NaN
          expect(delayMs).toBeGreaterThanOrEqual(base[failureClass])
          expect(delayMs).toBeLessThanOrEqual(base[failureClass] * 1.2)
          expect(decide({ failureClass, random, retryAfterSeconds: 7 })).toEqual(retry(7_000))
          expect(decide({ failureClass, random, providerDelayMs: 7 })).toEqual(retry(7))
        },
      ),
    )
    expect(decide({ random: 0.5 })).toEqual(retry(2_200))
  })

  it('is between nothing and the cap, whatever anybody asks', () => {
    const input = fc.record({
      failureClass: fc.constantFrom<FailureClass>('upstream', 'throttle', 'client', 'unknown'),
      attempt: fc.integer({ min: 1, max: 10 }),
      attempts: fc.integer({ min: 1, max: 10 }),
      isFinal: fc.boolean(),
      providerSaysRetryable: fc.option(fc.boolean()),
      providerDelayMs: fc.option(fc.double({ noNaN: true })),
      retryAfterSeconds: fc.option(fc.double({ min: 0, noNaN: true })),
      maxDelaySeconds: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
      random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    })
    fc.assert(
      fc.property(input, (given) => {
        const decision = retryDecision(given)
        if (decision.kind === 'stop') return
        expect(given.attempt).toBeLessThan(given.attempts)
        expect(decision.delayMs).toBeGreaterThanOrEqual(0)
        expect(decision.delayMs).toBeLessThanOrEqual(given.maxDelaySeconds * 1_000)
      }),
    )
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
  ])('%j: %s', (header, seconds) => {
    expect(retryAfterSeconds(header, now)).toBe(seconds)
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
