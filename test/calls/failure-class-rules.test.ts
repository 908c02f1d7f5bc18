import { Octokit } from '@octokit/rest'
import { DrizzleQueryError } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import {
  classifyFailure,
  classOfStatus,
  errorChain,
  isDatabaseError,
  statusOf,
} from '../../src/calls/failure-class-rules.ts'
import {
  CredentialsUnreadable,
  HttpError,
  InvalidArgumentException,
  RateLimitExceededException,
  RequestTimeout,
  RetryableError,
  SchemaDrift,
} from '../../src/framework/errors.ts'

const integration = { id: 1, provider: 'github', name: 'ours' }

function error(fields: Record<string, unknown>, message = 'boom'): Error {
  return Object.assign(new Error(message), fields)
}

function wrapped(cause: unknown, message = 'fetch failed'): Error {
  return new TypeError(message, { cause })
}

/** The error, `depth` causes down. */
function below(depth: number, deepest: unknown): unknown {
  let link = deepest
  for (let level = 0; level < depth; level += 1) link = new Error(`level ${level}`, { cause: link })
  return link
}

/** What Octokit itself throws when its fetch answers, or fails, so. */
async function thrownByOctokit(fetch: () => Promise<Response>): Promise<Error> {
  const silent = () => {}
  const octokit = new Octokit({ request: { fetch }, log: { debug: silent, info: silent, warn: silent, error: silent } })
  return octokit.request('GET /user').then(
    () => {
      throw new Error('it was no failure')
    },
    (thrown: Error) => thrown,
  )
}

/** The class @octokit/request-error, which @octokit/rest does not export. */
const RequestError = (await thrownByOctokit(async () => new Response('', { status: 404 }))).constructor as new (
  message: string,
  status: number,
  options: object,
) => Error

const OCTOKIT_REQUEST = { method: 'GET', url: 'https://api.github.com/user', headers: {} }

/** As Octokit makes it of what fetch threw: with a 500 that nobody answered. */
function octokitWithoutResponse(cause: unknown): Error {
  return Object.assign(new RequestError('connect failed', 500, { request: OCTOKIT_REQUEST }), { cause })
}

function octokit(status: number): Error {
  const response = { status, url: OCTOKIT_REQUEST.url, headers: {}, data: {} }
  return new RequestError('answered', status, { request: OCTOKIT_REQUEST, response })
}

/** As stripe-node makes it of a socket's error: no cause, the socket's error is in `detail`. */
function stripe(fields: Record<string, unknown>): Error {
  return error({ type: 'StripeConnectionError', name: 'Error', ...fields })
}

/** As postgres.js throws it. */
const postgresError = error({ name: 'PostgresError', code: '08006', severity: 'ERROR', detail: 'text' })
const refused = error({ code: 'ECONNREFUSED' })

function classOf(thrown: unknown, options: { callerAborted?: boolean; providerVerdict?: FailureClass | null } = {}) {
  return classifyFailure({ error: thrown, callerAborted: false, ...options })
}

describe('the class of a status', () => {
  it.each<[number, FailureClass]>([
    [100, 'unknown'],
    [200, 'unknown'],
    [304, 'unknown'],
    [399, 'unknown'],
    [400, 'client'],
    [401, 'client'],
    [403, 'client'],
    [404, 'client'],
    [408, 'client'],
    [409, 'client'],
    [425, 'client'],
    [428, 'client'],
    [429, 'throttle'],
    [430, 'client'],
    [499, 'client'],
    [500, 'upstream'],
    [501, 'client'],
    [502, 'upstream'],
    [503, 'upstream'],
    [504, 'upstream'],
    [599, 'upstream'],
  ])('%i is %s', (status, failureClass) => {
    expect(classOfStatus(status)).toBe(failureClass)
    expect(classOf(error({ status }))).toBe(failureClass)
  })
})

describe('the status that an error carries', () => {
  it.each<[string, unknown, number | null]>([
    ['response.status', { response: { status: 404 } }, 404],
    ['status beside no response', { response: null, status: 404 }, 404],
    ['statusCode', { statusCode: 429 }, 429],
    ['status', { status: 503 }, 503],
    ['$metadata.httpStatusCode', { $metadata: { httpStatusCode: 400 } }, 400],
    ['a numeric code', { code: 502 }, 502],
    ['response before statusCode', { response: { status: 404 }, statusCode: 500 }, 404],
    ['statusCode before status', { statusCode: 404, status: 500 }, 404],
    ["got's response.statusCode", { response: { statusCode: 503 } }, 503],
    ['status before metadata', { status: 404, $metadata: { httpStatusCode: 500 } }, 404],
    ['metadata before code', { $metadata: { httpStatusCode: 404 }, code: 500 }, 404],
    ['the outer before the inner', error({ status: 429, cause: error({ status: 500 }) }), 429],
    ['a cause, when the outer has none', wrapped(error({ status: 429 })), 429],
    ['a Response in a cause', wrapped({ response: new Response('', { status: 503 }) }), 503],
    ['an error of an AggregateError', new AggregateError([error({}), error({ statusCode: 503 })]), 503],
    ['our HttpError', new HttpError(418, new Headers(), null), 418],
    ["Octokit's answered error", octokit(404), 404],
    ['the least', { status: 100 }, 100],
    ['the greatest', { status: 599 }, 599],
    ['an error with a request that is not of Octokit', { name: 'OtherError', request: {}, status: 404 }, 404],
    ['the cause of an abort', Object.assign(wrapped(error({ status: 404 })), { name: 'AbortError', status: 500 }), 404],
    ['none: an abort of its own', error({ name: 'AbortError', status: 500 }), null],
    ['none: 99', { status: 99 }, null],
    ['none: 600', { status: 600 }, null],
    ['none: 0', { status: 0 }, null],
    ['none: 404.5', { status: 404.5 }, null],
    ['none: a text', { status: '404' }, null],
    ['none: a code that is a text', { code: '404' }, null],
    ['none: a nullish error', null, null],
    ['none: a thrown text', 'status 500', null],
    ['the next one, when the first is out of range', { status: 0, code: 503 }, 503],
    ["none: Octokit's invented 500", octokitWithoutResponse(refused), null],
    ["none: a DOMException's code", new DOMException('gone', 'NetworkError'), null],
    ['none: a DOMException with a code like a status', withCode(new DOMException('gone', 'DataError'), 404), null],
  ])('%s', (_, thrown, status) => {
    expect(statusOf(thrown)).toBe(status)
  })
})

function withCode(exception: DOMException, code: number): DOMException {
  Object.defineProperty(exception, 'code', { value: code })
  return exception
}

describe('the chain of an error', () => {
  it('goes through causes, details and aggregated errors, depth first', () => {
    const deepest = error({}, 'socket')
    const detail = error({ cause: deepest }, 'detail')
    const first = error({}, 'first')
    const outer = error({ cause: error({}, 'cause'), detail, errors: [first, 'text', null] }, 'outer')
    expect(errorChain(outer).map((link) => (link as Error).message)).toEqual([
      'outer',
      'cause',
      'detail',
      'socket',
      'first',
    ])
  })

  it('cuts cycles', () => {
    const a = error({}, 'a')
    const b = error({ cause: a, errors: [a] }, 'b')
    Object.assign(a, { cause: b, detail: a })
    expect(errorChain(a)).toEqual([a, b])
    expect(classOf(a)).toBe('unknown')
  })

  it('is followed 10 causes deep', () => {
    expect(classOf(below(10, refused))).toBe('upstream')
    expect(classOf(below(11, refused))).toBe('unknown')
    expect(statusOf(below(10, { status: 503 }))).toBe(503)
    expect(statusOf(below(11, { status: 503 }))).toBe(null)
  })

  it.each([
    ['details', (inner: object) => ({ detail: inner })],
    ['aggregated errors', (inner: object) => ({ errors: [inner] })],
  ])('is followed 10 %s deep', (_, around) => {
    let link: object = {}
    for (let level = 0; level < 20; level += 1) link = around(link)
    expect(errorChain(link)).toHaveLength(11)
  })

  it('has 100 links at most, however many errors a provider names', () => {
    const many = Array.from({ length: 10_000 }, (_, n) => ({ n }))
    const outer = { cause: { status: 503 }, errors: many }
    expect(errorChain(outer)).toEqual([outer, outer.cause, ...many.slice(0, 98)])
    expect(classOf(outer)).toBe('upstream')
    let link: object = {}
    for (let level = 0; level < 10; level += 1) {
      const inner = link
      link = { errors: Array.from({ length: 1_000 }, () => ({ ...inner })) }
    }
    expect(errorChain(link)).toHaveLength(100)
  })

  it.each(['text', 7, null, undefined, Symbol('x')])('of %s is empty', (thrown) => {
    expect(errorChain(thrown)).toEqual([])
    expect(classOf(thrown)).toBe('unknown')
  })

  it.each([
    ["below the driver's error", error({ ...fieldsOf(postgresError), cause: refused })],
    ['below a query error of Drizzle', new DrizzleQueryError('select 1', [], refused)],
    [
      "below a refused socket of postgres.js'",
      error({ ...fieldsOf(refused), query: undefined, parameters: undefined }),
    ],
    ["below node-postgres' error", error({ name: 'error', severity: 'FATAL', code: '57P03', cause: refused })],
    ['below a wrapper of it', wrapped(error({ ...fieldsOf(postgresError), cause: refused }))],
  ])('is not followed %s', (_, thrown) => {
    expect(errorChain(thrown)).not.toContain(refused)
    expect(classOf(thrown)).toBe('unknown')
  })
})

describe('an error of a database driver', () => {
  it.each<[string, object, boolean]>([
    ['by its name', { name: 'PostgresError' }, true],
    ["by postgres.js' fields", { query: '', parameters: [] }, true],
    ["by Drizzle's fields", { query: '', params: [] }, true],
    ['by severity and SQLSTATE', { severity: 'FATAL', code: '57P03' }, true],
    ['not by its query alone', { query: 'q=1' }, false],
    ['not by its parameters alone', { parameters: {}, params: {} }, false],
    ['not by its severity alone', { severity: 'high' }, false],
    ['not by a code that is a number', { severity: 'high', code: 57_103 }, false],
    ['not by a longer code', { severity: 'high', code: 'E57P03' }, false],
    ['not by a code that goes on', { severity: 'high', code: '57P03E' }, false],
  ])('is known %s', (_, link, is) => {
    expect(isDatabaseError(link)).toBe(is)
  })

  it('is no revoked proxy, which no one can look into', () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    expect(isDatabaseError(proxy)).toBe(false)
  })
})

function fieldsOf(thrown: Error): Record<string, unknown> {
  return { ...thrown }
}

describe('the class of a failure', () => {
  describe('no answer', () => {
    it.each([
      // Never connected.
      'ECONNREFUSED',
      'ENOTFOUND',
      'EAI_AGAIN',
      'EHOSTUNREACH',
      'ENETUNREACH',
      'UND_ERR_CONNECT_TIMEOUT',
      // Broken off.
      'ECONNRESET',
      'ECONNABORTED',
      'EPIPE',
      'ETIMEDOUT',
      'ESOCKETTIMEDOUT',
      'ENETDOWN',
      'EPROTO',
      'UND_ERR_SOCKET',
      'UND_ERR_HEADERS_TIMEOUT',
      'UND_ERR_BODY_TIMEOUT',
      'UND_ERR_HEADERS_OVERFLOW',
      // No HTTP.
      'HPE_INVALID_CONSTANT',
      'HPE_HEADER_OVERFLOW',
      // TLS and certificates.
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'ERR_SSL_WRONG_VERSION_NUMBER',
      'CERT_CHAIN_TOO_LONG',
      'CERT_HAS_EXPIRED',
      'CERT_NOT_YET_VALID',
      'CERT_REJECTED',
      'CERT_REVOKED',
      'CERT_SIGNATURE_FAILURE',
      'CERT_UNTRUSTED',
      'CRL_HAS_EXPIRED',
      'CRL_NOT_YET_VALID',
      'CRL_SIGNATURE_FAILURE',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'ERROR_IN_CERT_NOT_AFTER_FIELD',
      'ERROR_IN_CERT_NOT_BEFORE_FIELD',
      'ERROR_IN_CRL_LAST_UPDATE_FIELD',
      'ERROR_IN_CRL_NEXT_UPDATE_FIELD',
      'HOSTNAME_MISMATCH',
      'INVALID_CA',
      'INVALID_PURPOSE',
      'PATH_LENGTH_EXCEEDED',
      'SELF_SIGNED_CERT_IN_CHAIN',
      'UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY',
      'UNABLE_TO_DECRYPT_CERT_SIGNATURE',
      'UNABLE_TO_DECRYPT_CRL_SIGNATURE',
      'UNABLE_TO_GET_CRL',
      'UNABLE_TO_GET_ISSUER_CERT',
      'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    ])('%s is upstream, also as the cause of "fetch failed"', (code) => {
      expect(classOf(error({ code }))).toBe('upstream')
      expect(classOf(wrapped(error({ code })))).toBe('upstream')
      expect(classOf(octokitWithoutResponse(wrapped(error({ code }))))).toBe('upstream')
      expect(classOf(stripe({ type: 'x', detail: error({ code }) }))).toBe('upstream')
    })

    it.each([
      ['a bad URL', wrapped(error({ code: 'ERR_INVALID_URL' }))],
      ['a blocked port', wrapped(new Error('bad port'))],
      ['an unknown scheme', wrapped(new Error('unknown scheme'))],
      ["Octokit's word for a bad URL", octokitWithoutResponse(wrapped(error({ code: 'ERR_INVALID_URL' })))],
      ['a programming error', new TypeError('x is not a function')],
      ['a code of the file system', error({ code: 'ENOENT' })],
      ['a code that only begins alike', error({ code: 'ECONNREFUSEDX' })],
    ])('%s is unknown', (_, thrown) => {
      expect(classOf(thrown)).toBe('unknown')
    })

    it.each([
      ['by its type', stripe({})],
      ['by its detail', stripe({ type: 'StripeAPIError', detail: error({ code: 'ECONNRESET' }) })],
      ['by the cause of its detail', stripe({ type: 'StripeAPIError', detail: wrapped(refused) })],
    ])("Stripe's connection error is upstream %s", (_, thrown) => {
      expect(classOf(thrown)).toBe('upstream')
    })

    it("undici's error of an answer that is no HTTP is upstream by its name", () => {
      expect(classOf(error({ name: 'HTTPParserError' }))).toBe('upstream')
      expect(classOf(wrapped(error({ name: 'HTTPParserError' })))).toBe('upstream')
    })

    it('an AggregateError of several addresses is upstream', () => {
      expect(classOf(new AggregateError([refused, error({ code: 'EHOSTUNREACH' })]))).toBe('upstream')
      expect(classOf(wrapped(new AggregateError([new Error('x'), refused])))).toBe('upstream')
    })
  })

  describe('an answer', () => {
    it.each<[string, unknown, FailureClass]>([
      ['a status before a connection code', error({ status: 404, code: 'ECONNRESET' }), 'client'],
      ['a throttled Octokit call', octokit(429), 'throttle'],
      ['a failed Octokit call', octokit(502), 'upstream'],
      ['our HttpError', new HttpError(503, new Headers(), 'x'), 'upstream'],
      ["the cause of Octokit's error without a response", octokitWithoutResponse(error({ status: 429 })), 'throttle'],
      ["a Stripe call's answer", stripe({ type: 'StripeRateLimitError', statusCode: 429 }), 'throttle'],
      ["a status before Stripe's type", stripe({ statusCode: 402 }), 'client'],
      ['a status in a cause before a connection code', error({ code: 'ECONNRESET', cause: { status: 400 } }), 'client'],
      ['a status that is none, before a connection code', error({ status: 0, code: 'ECONNRESET' }), 'upstream'],
      ["a status below the driver's error", error({ ...fieldsOf(postgresError), cause: { status: 503 } }), 'unknown'],
    ])('%s', (_, thrown, failureClass) => {
      expect(classOf(thrown)).toBe(failureClass)
    })
  })

  describe('what Octokit throws', () => {
    const answers = (status: number) => async () => new Response('{}', { status })
    const fails = (thrown: unknown) => async () => Promise.reject(thrown)

    it.each<[string, () => Promise<Response>, number | null, FailureClass]>([
      ['of a 404', answers(404), 404, 'client'],
      ['of a 429', answers(429), 429, 'throttle'],
      ['of a 502', answers(502), 502, 'upstream'],
      ['of a refused port', fails(wrapped(refused)), null, 'upstream'],
      ['of an unknown host', fails(wrapped(error({ code: 'ENOTFOUND' }))), null, 'upstream'],
      ['of a bad URL', fails(wrapped(error({ code: 'ERR_INVALID_URL' }))), null, 'unknown'],
      ['of a deadline', fails(new DOMException('late', 'TimeoutError')), null, 'upstream'],
    ])('%s', async (_, fetch, status, failureClass) => {
      const thrown = await thrownByOctokit(fetch)
      expect(statusOf(thrown)).toBe(status)
      expect(classOf(thrown)).toBe(failureClass)
    })

    it('of an abort is unknown when the caller aborted, though it bears a 500', async () => {
      const thrown = await thrownByOctokit(fails(new DOMException('aborted', 'AbortError')))
      expect(thrown).toMatchObject({ name: 'AbortError', status: 500 })
      expect(classOf(thrown, { callerAborted: true })).toBe('unknown')
      expect(classOf(thrown)).toBe('upstream')
    })
  })

  describe('an abort', () => {
    const abortError = new DOMException('aborted', 'AbortError')
    const timeoutError = new DOMException('late', 'TimeoutError')
    const octokitAbort = withStatus(new DOMException('aborted', 'AbortError'), 500)

    it.each<[string, unknown]>([
      ['AbortError', abortError],
      ['TimeoutError', timeoutError],
      ['AbortError with the status that Octokit gives it', octokitAbort],
      ['a timeout inside an Octokit error', octokitWithoutResponse(timeoutError)],
      ['our own deadline', new RequestTimeout('issues', 30_000)],
      ["an SDK's timer", error({ name: 'TimeoutError', status: 404 })],
      ['an abort far down', below(10, abortError)],
    ])('%s: by the caller it is unknown, else upstream', (_, thrown) => {
      expect(classOf(thrown, { callerAborted: true })).toBe('unknown')
      expect(classOf(thrown, { callerAborted: false })).toBe('upstream')
      // The provider is not asked about it.
      expect(classOf(thrown, { providerVerdict: 'client' })).toBe('upstream')
    })

    it('of the caller does not make another error unknown', () => {
      expect(classOf(error({ status: 503 }), { callerAborted: true })).toBe('upstream')
    })
  })

  describe('our own errors', () => {
    const limit = new RateLimitExceededException(integration, 30, null, { cause: error({ status: 429 }) })

    it.each<[string, unknown]>([
      ['a refusal with its cause', limit],
      ['a bad argument', new InvalidArgumentException('number', 'an integer is allowed')],
      ['drift', new SchemaDrift('issues', [])],
      ['unreadable credentials', new CredentialsUnreadable(1, 'k1', 'damaged')],
      ['a refusal inside an error of the provider', error({ status: 500, cause: limit })],
    ])('%s say nothing about the provider, whatever it says', (_, thrown) => {
      expect(classOf(thrown)).toBe('unknown')
      expect(classOf(thrown, { providerVerdict: 'upstream' })).toBe('unknown')
    })

    it.each<[string, unknown]>([
      ['an abort', new DOMException('late', 'TimeoutError')],
      ['a connection fault', refused],
      ['an answer', error({ status: 503 })],
    ])('come before %s that they wrap', (_, cause) => {
      expect(classOf(new InvalidArgumentException('x', 'no', { cause }))).toBe('unknown')
    })

    it.each<[string, unknown, FailureClass]>([
      ['a refused port', refused, 'upstream'],
      ['an answer', new HttpError(404, new Headers(), null), 'client'],
      ['nothing', undefined, 'unknown'],
      ['a bad argument', new InvalidArgumentException('x', 'no'), 'unknown'],
    ])('a RetryableError says no more than what it wraps: %s', (_, cause, failureClass) => {
      expect(classOf(new RetryableError('again', { cause }))).toBe(failureClass)
    })

    it("are not mixed up with a provider's code of the same name", () => {
      // As OpenAI's SDK throws it.
      expect(classOf(error({ status: 429, code: 'rate_limit_exceeded' }))).toBe('throttle')
      expect(classOf(error({ status: 401, code: 'invalid_credentials' }))).toBe('client')
    })
  })

  describe("the provider's verdict", () => {
    it.each<FailureClass>(['upstream', 'throttle', 'client', 'unknown'])(
      '%s comes before status and connection',
      (verdict) => {
        expect(classOf(error({ status: 403, code: 'ECONNRESET' }), { providerVerdict: verdict })).toBe(verdict)
        expect(classOf(new HttpError(500, new Headers(), null), { providerVerdict: verdict })).toBe(verdict)
      },
    )

    it('of null defers', () => {
      expect(classOf(error({ status: 403 }), { providerVerdict: null })).toBe('client')
    })
  })
})

function withStatus(exception: DOMException, status: number): DOMException {
  return Object.assign(exception, { status })
}
