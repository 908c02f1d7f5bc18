/** What is read off an answer, and what a call reports over it. */
import { describe, expect, it } from 'vitest'
import type { Answer } from '../../src/calls/answer.ts'
import { answerOf, decode, NO_ANSWER } from '../../src/calls/answer.ts'
import type { Reported } from '../../src/calls/attempt.ts'
import { callContext } from '../../src/calls/attempt.ts'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import { classifyFailure } from '../../src/calls/failure-class-rules.ts'
import { isSurelyWithoutEffect } from '../../src/calls/idempotency-rules.ts'
import type { Egress } from '../../src/egress/guarded-fetch.ts'
import { HttpError, ResponseTooLarge } from '../../src/framework/errors.ts'

const NOW = new Date('2026-01-31T12:00:00Z')
const IN_AN_HOUR = NOW.getTime() / 1_000 + 3_600
const EXHAUSTED = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(IN_AN_HOUR) }

describe('status, request id and limits', () => {
  const headers = { 'x-request-id': 'r-1', 'retry-after': '7', ...EXHAUSTED }
  const expected = {
    statusCode: 429,
    providerRequestId: 'r-1',
    retryAfterSeconds: 7,
    rateLimitRemaining: 0,
    rateLimitResetAt: new Date(IN_AN_HOUR * 1_000),
  }

  it.each<[string, unknown]>([
    ['a Response', new Response('', { status: 429, headers })],
    ['an HttpError', new HttpError(429, new Headers(headers), null)],
    ["Octokit's answer", { status: 429, headers, data: [], url: 'https://api.example/' }],
    [
      "Octokit's error",
      Object.assign(new Error('limited'), { status: 429, response: { status: 429, headers, data: {} } }),
    ],
    ["Stripe's object", { id: 'pi_1', lastResponse: { statusCode: 429, requestId: 'r-1', headers } }],
    ["Stripe's error", Object.assign(new Error('limited'), { statusCode: 429, requestId: 'r-1', headers })],
    [
      'an object of names as they were sent',
      Object.assign(new Error('limited'), {
        status: 429,
        headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value])),
      }),
    ],
    ['a cause', new Error('outer', { cause: new HttpError(429, new Headers(headers), null) })],
  ])('are read off %s', (_, source) => {
    expect(answerOf(source, NOW)).toEqual(expected)
  })

  it.each([
    ['a plain value', { id: 1 }],
    ['null', null],
    ['a text', 'ok'],
    ['an error without an answer', new Error('no')],
  ])('are unknown of %s', (_, source) => {
    expect(answerOf(source, NOW)).toEqual(NO_ANSWER)
  })

  it('are those that can be read, of headers that throw', () => {
    const headers = {
      get() {
        throw new TypeError('Illegal invocation')
      },
    }
    const error = Object.assign(new Error('no'), { headers, status: 503 })
    expect(answerOf(error, NOW)).toEqual({ ...NO_ANSWER, statusCode: 503 })
  })

  it('cut a request id after 128 characters, never within one', () => {
    const { providerRequestId } = answerOf({ headers: {}, requestId: '😀'.repeat(200) }, NOW)
    expect(providerRequestId).toBe('😀'.repeat(128))
  })
})

describe('a quota in headers', () => {
  it.each<[string, Record<string, string>, number | null, number | null]>([
    ['of the core resource', { ...EXHAUSTED, 'x-ratelimit-resource': 'core' }, 0, IN_AN_HOUR],
    ['of another resource says nothing about the rest', { ...EXHAUSTED, 'x-ratelimit-resource': 'search' }, null, null],
    ['of one bucket says nothing about the rest', { ...EXHAUSTED, 'x-ratelimit-bucket': 'abcd' }, null, null],
    ['with some left', { ...EXHAUSTED, 'x-ratelimit-remaining': '12' }, 12, IN_AN_HOUR],
    ['without a reset', { 'x-ratelimit-remaining': '0' }, 0, null],
    ['with a reset that has passed', { ...EXHAUSTED, 'x-ratelimit-reset': '60' }, 0, null],
    ['with a reset in milliseconds', { ...EXHAUSTED, 'x-ratelimit-reset': String(IN_AN_HOUR * 1_000) }, 0, null],
    ['with less than none left', { ...EXHAUSTED, 'x-ratelimit-remaining': '-1' }, -1, IN_AN_HOUR],
    ['that is no number', { ...EXHAUSTED, 'x-ratelimit-remaining': 'none' }, null, null],
  ])('%s', (_, headers, remaining, resetSeconds) => {
    expect(answerOf({ headers }, NOW)).toMatchObject({
      rateLimitRemaining: remaining,
      rateLimitResetAt: resetSeconds === null ? null : new Date(resetSeconds * 1_000),
    })
  })
})

const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0xff, 0x00])

describe('a Response', () => {
  /** As `fetch` of the undici package gives it: another class. */
  const foreign = (status: number, body: string) => ({
    status,
    ok: status < 400,
    headers: new Map([['content-type', 'application/json']]),
    text: async () => body,
    arrayBuffer: async () => new ArrayBuffer(0),
  })

  it('is known by its shape, and judged and decoded', async () => {
    expect(await decode(foreign(200, '{"a":1}'))).toEqual({ value: { a: 1 }, body: { a: 1 } })
    const error = await decode(foreign(404, '{"no":1}')).catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'http_error', status: 404, body: { no: 1 } })
    expect(error.headers.get('Content-Type')).toBe('application/json')
  })

  it.each<[string | null, string | Uint8Array<ArrayBuffer>, unknown]>([
    ['application/json', '{"a":1}', { a: 1 }],
    ['application/vnd.api+json; charset=utf-8', '{"a":1}', { a: 1 }],
    ['application/json', 'no JSON', 'no JSON'],
    ['text/csv', 'a,b', 'a,b'],
    ['text/plain; charset=iso-8859-1', new Uint8Array([0x63, 0xe9]), 'cé'],
    ['text/plain; charset=nonsense', 'a', 'a'],
    ['application/atom+xml', '<a/>', '<a/>'],
    ['application/x-ndjson', '{}\n{}', '{}\n{}'],
    ['application/x-www-form-urlencoded', 'a=1', 'a=1'],
    [null, 'as it comes', 'as it comes'],
    ['application/pdf', PNG, PNG],
    ['image/png', PNG, PNG],
    ['application/octet-stream', 'all ASCII', new TextEncoder().encode('all ASCII')],
    ['image/png', '', null],
    ['application/json', '', null],
  ])('of type %s with %j is %j: what is not text stays bytes', async (type, body, value) => {
    const response = new Response(new Blob([body]), type === null ? {} : { headers: { 'content-type': type } })
    if (type === null) response.headers.delete('content-type')
    expect((await decode(response)).value).toEqual(value)
  })

  it.each([
    [307, true, 'HttpError'],
    [308, true, 'HttpError'],
    [303, true, 'an answer'],
    [307, false, 'an answer'],
  ])('of status %i to a call with a key (%s) is %s', async (status, keyed, expected) => {
    const outcome = await decode(foreign(status, ''), { keyed }).then(
      () => 'an answer',
      (error: Error) => error.name,
    )
    expect(outcome).toBe(expected)
  })

  it("is not what Octokit's answer is taken for: that passes untouched", async () => {
    const octokit = { status: 200, url: 'https://api.example/', headers: {}, data: [1] }
    const { value, body } = await decode(octokit)
    expect(value).toBe(octokit)
    expect(body).toEqual([1])
  })
})

describe('the Date of an answer', () => {
  const heard = async (date: string) => {
    const dates: Date[] = []
    const egress = { fetch: () => async () => new Response(null, { headers: { date } }) } as unknown as Egress
    const call = { idempotencyKey: null, secrets: () => [], observeDate: (at: Date) => void dates.push(at) }
    const context = callContext(call, egress, { attempt: 1, signal: new AbortController().signal }, {})
    await context.fetch('https://api.example/')
    return dates.map((at) => at.toISOString())
  }

  it.each(['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'])(
    'is heard in each form that HTTP has: %s',
    async (date) => {
      expect(await heard(date)).toEqual(['1994-11-06T08:49:37.000Z'])
    },
  )

  it.each(['-1', '0', 'in May 2099', '-271821-04-20T00:00:00Z'])(
    'is ignored if it is not a date of HTTP: %s',
    async (date) => {
      expect(await heard(date)).toEqual([])
    },
  )
})

describe('report()', () => {
  const reporting = () => {
    const reported: Reported = {}
    const call = { idempotencyKey: null, secrets: () => [] }
    const context = callContext(call, {} as Egress, { attempt: 1, signal: new AbortController().signal }, reported)
    return { context, over: (answer: Answer) => ({ ...answer, ...reported }) }
  }

  it('wins over what was read; undefined never overwrites', () => {
    const { context, over } = reporting()
    context.report({ statusCode: 201, providerRequestId: 'own', rateLimitRemaining: 0 })
    context.report({ statusCode: undefined, rateLimitResetAt: NOW, retryAfterSeconds: 3 })
    expect(over({ ...NO_ANSWER, statusCode: 500, providerRequestId: 'read' })).toEqual({
      statusCode: 201,
      providerRequestId: 'own',
      retryAfterSeconds: 3,
      rateLimitRemaining: 0,
      rateLimitResetAt: NOW,
    })
  })

  it('leaves out what is no value: it would cost the row', () => {
    const { context, over } = reporting()
    context.report({
      statusCode: 1e12,
      providerRequestId: 7 as never,
      rateLimitRemaining: Number.NaN,
      rateLimitResetAt: new Date(Number.NaN),
      retryAfterSeconds: -1,
    })
    context.report({ statusCode: 200.5, retryAfterSeconds: Number.POSITIVE_INFINITY })
    expect(over(NO_ANSWER)).toEqual(NO_ANSWER)
  })

  it('counts for its own attempt only', () => {
    reporting().context.report({ statusCode: 201 })
    expect(reporting().over(NO_ANSWER)).toEqual(NO_ANSWER)
  })
})

describe('a body that cannot be read', () => {
  const faults: [string, Error][] = [
    [
      'breaks off',
      new TypeError('terminated', { cause: Object.assign(new Error('closed'), { code: 'UND_ERR_SOCKET' }) }),
    ],
    ['is too large', new ResponseTooLarge(10)],
  ]
  const broken = (status: number, fault: Error): Response =>
    new Response(new ReadableStream({ pull: (controller) => controller.error(fault) }), {
      status,
      headers: { 'retry-after': '7' },
    })

  describe.each(faults)('since it %s', (_, fault) => {
    it.each([
      [429, 'throttle'],
      [404, 'client'],
      [503, 'upstream'],
    ])('leaves the verdict to the status %i: %s', async (status, failureClass) => {
      const error = await decode(broken(status, fault)).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code: 'http_error', status, body: null, cause: fault })
      expect(classifyFailure({ error, callerAborted: false })).toBe(failureClass)
      expect(answerOf(error, NOW)).toMatchObject({ statusCode: status, retryAfterSeconds: 7 })
      expect(isSurelyWithoutEffect(error, failureClass as FailureClass)).toBe(failureClass !== 'upstream')
    })

    it('is the failure itself where the status is none', async () => {
      await expect(decode(broken(200, fault))).rejects.toBe(fault)
      await expect(decode(broken(307, fault))).rejects.toBe(fault)
      await expect(decode(broken(307, fault), { keyed: true })).rejects.toMatchObject({ status: 307, body: null })
    })
  })
})
