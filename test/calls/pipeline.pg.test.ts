/** The stages of a call in their order, its refusals, and how often an attempt is made. */
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { insideSync } from '../../src/calls/inside-sync.ts'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import { HttpError, RetryableError } from '../../src/framework/errors.ts'
import type { Integration, RequestOptions } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

/** Waits between attempts, in milliseconds: recorded, and the clock is moved on over them. */
const { slept, moved } = vi.hoisted(() => ({ slept: [] as number[], moved: { byMs: 0 } }))
vi.mock('../../src/framework/waiting.ts', async (original) => ({
  ...(await original<object>()),
  pause: async (ms: number, ...signals: (AbortSignal | undefined)[]) => {
    slept.push(Math.round(ms))
    moved.byMs += ms
    return signals.every((signal) => signal?.aborted !== true)
  },
}))

const RUNNING = { signal: new AbortController().signal }
let database: TestDatabase
let test: TestIntegrations
let integration: Integration
/** Where a test has the clock stand still. */
let stoppedMs: number | null = null

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    clock: { now: () => new Date((stoppedMs ?? Date.now()) + moved.byMs) },
    config: { rate_limiting: { max_wait_seconds: 1 }, retry: { retry_after_max_seconds: 600 } },
    providers: {
      plain: {},
      idempotent: { supportsIdempotency: true, idempotencyWindowSeconds: 600 } as never,
      insistent: { isRetryable: () => true, retryDelayMs: () => 0 } as never,
      patient: { isRetryable: () => false, retryDelayMs: () => 900_000 } as never,
      jittering: { isRetryable: () => false, retryDelayMs: () => 900_000.5 } as never,
      endless: { isRetryable: () => false, retryDelayMs: () => 1e300 } as never,
      // Counted from its first call: a fixed window might begin anew between two calls.
      once: { defaultRateLimit: () => RateLimit.perHour(1).sliding() } as never,
    },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  slept.length = 0
  integration = await makeIntegration(test, 'plain')
})

describe('the stages', () => {
  it('follow each other: key, admission, call, row, event, for each attempt', async () => {
    const log: string[] = []
    const counted = async (): Promise<string> => {
      const [found] = await test.sql`select
        (select count(*)::int from integration_idempotency_keys where integration_id = ${integration.id}) as keys,
        (select count(*)::int from integration_requests where integration_id = ${integration.id}) as rows`
      return `${found?.keys} key, ${found?.rows} rows`
    }
    integration = await makeIntegration(test, 'idempotent')
    listen(test, 'RequestFailed', async ({ request }: IntegrationEvents['RequestFailed']) => {
      log.push(`failed, ${request.retryOf === null ? 'first' : 'again'}: ${await counted()}`)
    })
    listen(test, 'RequestCompleted', async ({ request }: IntegrationEvents['RequestCompleted']) => {
      log.push(`completed, ${request.retryOf === null ? 'first' : 'again'}: ${await counted()}`)
    })
    await integration.request(
      'things',
      'POST',
      async ({ attempt }) => {
        log.push(`attempt ${attempt}: ${await counted()}`)
        if (attempt === 1) throw http(500)
      },
      { idempotencyKey: 'key-1', attempts: 2 },
    )
    expect(log).toEqual([
      'attempt 1: 1 key, 0 rows',
      'failed, first: 1 key, 1 rows',
      'attempt 2: 1 key, 1 rows',
      'completed, again: 1 key, 2 rows',
    ])
  })

  it('end with a refusal of the breaker: no call, no row, no event, health untouched', async () => {
    await integration.overrideCircuit('forced_open')
    await expectRefusal('circuit_open')
  })

  it('end with a refusal of the limiter: no call, no row, no event, health untouched', async () => {
    integration = await makeIntegration(test, 'once')
    await integration.request('things', 'GET', () => 1)
    await expectRefusal('rate_limit_exceeded')
  })

  it('end with a refusal while the provider has asked for quiet, by any of its words', async () => {
    const exhausted = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(inSeconds(3_000)) }
    for (const answer of [
      () => Promise.reject(http(429, { 'retry-after': '60' })),
      () => new Response('{}', { headers: exhausted }),
      () => Promise.reject(http(404, exhausted)),
    ]) {
      integration = await makeIntegration(test, 'plain')
      await integration.request('things', 'POST', answer).catch(() => {})
      await expectRefusal('rate_limit_exceeded')
    }
  })

  it('wait for the Retry-After of a throttle, not for the reset of its exhausted quota; for the reset, where it is longer than any wait', async () => {
    const quietSecondsAfter = async (retryAfter: string) => {
      integration = await makeIntegration(test, 'plain')
      const exhausted = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(inSeconds(2_400)) }
      await integration
        .request('things', 'POST', () => Promise.reject(http(429, { ...exhausted, 'retry-after': retryAfter })))
        .catch(() => {})
      const { suppressedUntil } = await integration.rateLimit()
      return Math.round(((suppressedUntil?.getTime() ?? 0) - Date.now()) / 1_000)
    }
    expect(await quietSecondsAfter('40')).toBeLessThan(600)
    expect(await quietSecondsAfter('86400')).toBeGreaterThan(2_000)
  })

  it.each([
    [
      'with a reset that is farther',
      { 'x-ratelimit-remaining': '4000', 'x-ratelimit-reset': String(inSeconds(72_000)) },
    ],
    ['with a reset that is nearer', { 'x-ratelimit-remaining': '4000', 'x-ratelimit-reset': String(inSeconds(20)) }],
  ])('wait as long as the provider itself names, if no attempt sleeps through it, %s', async (_, headers) => {
    integration = await makeIntegration(test, 'patient')
    await integration.request('things', 'POST', () => Promise.reject(http(429, headers))).catch(() => {})
    const { suppressedUntil } = await integration.rateLimit()
    const seconds = ((suppressedUntil?.getTime() ?? 0) - Date.now()) / 1_000
    expect(seconds).toBeGreaterThan(880)
    expect(seconds).toBeLessThan(910)
  })

  it.each(['jittering', 'endless'])('wait also for a time with a fraction, or beyond measure: %s', async (provider) => {
    integration = await makeIntegration(test, provider)
    const headers = { 'x-ratelimit-remaining': '4000', 'x-ratelimit-reset': String(inSeconds(20)) }
    await integration.request('things', 'POST', () => Promise.reject(http(429, headers))).catch(() => {})
    expect(await rows()).toMatchObject([{ failure_class: 'throttle' }])
    await expectRefusal('rate_limit_exceeded')
  })

  it('stop before an attempt that a refusal forbids: the refusal is thrown, the attempts before it have rows', async () => {
    listen(test, 'RequestFailed', () => integration.overrideCircuit('forced_open'))
    await expect(integration.request('things', 'GET', () => Promise.reject(http(503)))).rejects.toMatchObject({
      code: 'circuit_open',
    })
    expect(await rows()).toHaveLength(1)
  })

  /** The next call is turned away, and leaves nothing behind. */
  async function expectRefusal(code: string): Promise<void> {
    const [before, health] = [await rows(), await healthOf()]
    const called = vi.fn()
    const told = vi.fn()
    for (const event of ['RequestFailed', 'RequestCompleted', 'IntegrationHealthChanged'] as const)
      listen(test, event, told)
    await expect(integration.request('things', 'GET', called)).rejects.toMatchObject({ code })
    expect(called).not.toHaveBeenCalled()
    expect(told).not.toHaveBeenCalled()
    expect(await rows()).toEqual(before)
    expect(await healthOf()).toEqual(health)
    // Not tried again in process.
    expect(slept).toEqual([])
  }
})

describe('an attempt is made again', () => {
  it('for a RetryableError anywhere in the chain, whatever the class; its numbers lower the attempts and set the wait', async () => {
    const wish = new RetryableError('again', { retryAfterSeconds: 7, maxAttempts: 2 })
    const error = new Error('outer', { cause: new Error('inner', { cause: wish }) })
    await expect(attempts(error, 'POST', { attempts: 5 })).rejects.toBe(error)
    expect(slept).toEqual([7_000])
    expect(await rows()).toHaveLength(2)
    await expect(attempts(new RetryableError('again', { maxAttempts: 9 }), 'POST')).rejects.toThrow('again')
    expect(await rows()).toHaveLength(3)
  })

  it.each<[string, unknown, number]>([
    ['a throttle', http(429, { 'retry-after': '0' }), 3],
    ['a connection that never stood', refused('ECONNREFUSED'), 3],
    ['an error of the server', http(503), 1],
    ['a connection that broke', refused('ECONNRESET'), 1],
    ['a fault of the client', http(409), 1],
  ])('with a key that the provider does not know only if nothing happened: %s', async (_, error, count) => {
    const options = { attempts: 3, idempotencyKey: 'key-1' }
    await expect(attempts(error, 'POST', options)).rejects.toBe(error)
    expect(await rows()).toHaveLength(count)
  })

  it('with a key that the provider knows as without one', async () => {
    integration = await makeIntegration(test, 'idempotent')
    await expect(attempts(http(503), 'POST', { attempts: 3, idempotencyKey: 'key-1' })).rejects.toThrow()
    expect(await rows()).toHaveLength(3)
  })

  it('never oftener than the call may, whatever the errors, the provider and the numbers say', async () => {
    const errors = fc.oneof(
      fc.constantFrom(400, 429, 500, 503).map((status) => http(status, { 'retry-after': '0' })),
      fc.record({ retryAfterSeconds: fc.nat(5), maxAttempts: fc.integer({ min: -3, max: 30 }) }).map((options) => {
        return new RetryableError('again', options)
      }),
      fc.constant(new Error('a bug')),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('plain', 'insistent'),
        fc.integer({ min: 1, max: 10 }),
        fc.array(errors, { minLength: 1, maxLength: 4 }),
        async (provider, number, given) => {
          integration = await makeIntegration(test, provider)
          const called: number[] = []
          const failing = ({ attempt }: { attempt: number }) => {
            called.push(attempt)
            throw given[(attempt - 1) % given.length]
          }
          await expect(integration.request('things', 'POST', failing, { attempts: number })).rejects.toThrow()
          expect(called).toEqual(Array.from({ length: called.length }, (_, index) => index + 1))
          expect(called.length).toBeLessThanOrEqual(number)
          expect(await rows()).toHaveLength(called.length)
        },
      ),
      { numRuns: 25 },
    )
  })
})

describe('inside a sync', () => {
  it('a throttle that would have to be waited for longer than max_wait_seconds puts the work off', async () => {
    const error = http(429, { 'retry-after': '90' })
    await expect(insideSync(RUNNING, () => attempts(error, 'GET'))).rejects.toMatchObject({
      code: 'rate_limit_exceeded',
      retryAfterSeconds: 90,
      rateLimit: null,
      cause: error,
    })
    expect(slept).toEqual([])
    expect((await rows()).map((row) => row.failure_class)).toEqual(['throttle'])
  })

  it.each<[string, HttpError, number[]]>([
    ['a throttle within max_wait_seconds', http(429, { 'retry-after': '1' }), [1_000, 1_000]],
    ['an upstream failure however long', http(503, { 'retry-after': '90' }), [90_000, 90_000]],
  ])('%s is waited for', async (_, error, waits) => {
    await expect(insideSync(RUNNING, () => attempts(error, 'GET'))).rejects.toBe(error)
    expect(slept).toEqual(waits)
  })

  it('outside of it a throttle is waited for however long', async () => {
    const error = http(429, { 'retry-after': '90' })
    await expect(attempts(error, 'GET', { attempts: 2 })).rejects.toBe(error)
    expect(slept).toEqual([90_000])
  })

  it('the wait between attempts ends when the worker stops: the last attempt‘s error is thrown', async () => {
    const worker = new AbortController()
    const error = http(503)
    const failing = (): never => {
      worker.abort()
      throw error
    }
    const call = insideSync({ signal: worker.signal }, () => integration.request('things', 'GET', failing))
    await expect(call).rejects.toBe(error)
    expect(slept).toHaveLength(1)
  })

  it('a call that waits for capacity when the worker stops is put off: it has met no fault', async () => {
    const worker = new AbortController()
    // No second passes between the two, so that the unit of the first is not free for the other.
    stoppedMs = Date.now()
    onTestFinished(() => {
      stoppedMs = null
    })
    integration = await makeIntegration(test, 'plain')
    await integration.overrideRateLimit(RateLimit.per(1, 1).sliding())
    const calls = Array.from({ length: 2 }, () =>
      insideSync({ signal: worker.signal }, () => integration.request('things', 'GET', () => worker.abort())),
    )
    const [first, second] = await Promise.allSettled(calls)
    expect(first).toMatchObject({ status: 'fulfilled' })
    expect(second).toMatchObject({ reason: { code: 'rate_limit_exceeded', retryAfterSeconds: 1 } })
  })
})

describe('a call that ignores its signal', () => {
  it('is given up: logged as a timeout; neither its late value nor its late error is heard of', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const late = occasion()
    for (const end of [() => 'late', () => Promise.reject(new Error('late'))])
      await expect(
        integration.request('slow', 'POST', () => late.happened.then(end), { timeoutMs: 20 }),
      ).rejects.toMatchObject({ code: 'request_timeout' })
    late.happen()
    for (let turns = 0; turns < 3; turns += 1) await turn()
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
    expect((await rows()).map((row) => [row.failure_class, row.error])).toEqual(
      Array(2).fill(['upstream', expect.stringMatching(/^TimeoutError: /)]),
    )
  })

  it('after its answer has begun keeps what the answer said', async () => {
    const endless = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array([123])) })
    const answer = new Response(endless, { status: 201, headers: { 'x-request-id': 'r-1' } })
    await expect(integration.request('slow', 'POST', () => answer, { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'request_timeout',
    })
    expect((await rows())[0]).toMatchObject({ status_code: 201, provider_request_id: 'r-1', failure_class: 'upstream' })
  })
})

function attempts(error: unknown, method: string, options: RequestOptions = {}): Promise<unknown> {
  return integration.request('things', method, () => Promise.reject(error), options)
}

async function rows() {
  return test.sql`select * from integration_requests where integration_id = ${integration.id} order by id`
}

async function healthOf() {
  return test.sql`select health_status, consecutive_failures, last_error_at, updated_at from integrations
    where id = ${integration.id}`
}

function http(status: number, headers: Record<string, string> = {}): HttpError {
  return new HttpError(status, new Headers(headers), null)
}

/** What `fetch` throws when the connection fails. */
function refused(code: string): TypeError {
  return new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) })
}

function inSeconds(seconds: number): number {
  return Math.ceil((Date.now() + moved.byMs) / 1_000) + seconds
}
