/** A call whose token the provider refuses with a 401: refreshed, and made once more. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { HttpError, InvalidArgumentException, RetryableError } from '../../src/framework/errors.ts'
import { insideTokenWork } from '../../src/oauth/token-work.ts'
import type { CustomizesRetry, HasOAuth2 } from '../../src/providers/contracts.ts'
import type { Call, Credentials, Integration, RequestOptions } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'

const COOLDOWN_SECONDS = 60
let movedMs = 0
let database: TestDatabase
let test: TestIntegrations
let integration: Integration
/** The token that the provider takes, and how often it has given a new one. */
let valid = ''
let refreshes = 0
const refreshToken = vi.fn<(integration: Integration) => Promise<Credentials>>()

const oauth: HasOAuth2 & CustomizesRetry = {
  retryDelayMs: () => 0,
  authorizationUrl: () => 'https://provider.example/authorize',
  exchangeCode: async () => ({}),
  refreshToken: (given) => refreshToken(given),
  revokeToken: async () => {},
  refreshThreshold: () => 60,
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    clock: { now: () => new Date(Date.now() + movedMs) },
    config: { circuit_breaker: { strategy: 'count', threshold: 1, cooldown_seconds: COOLDOWN_SECONDS } },
    providers: {
      oauth,
      plain: {},
      eager: { ...oauth, isRetryable: () => true } as never,
      doubtful: { ...oauth, classifyFailure: () => 'upstream' } as never,
    },
  })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  refreshes = 0
  valid = 'token-0-that-was-withdrawn-meanwhile'
  refreshToken.mockReset()
  refreshToken.mockImplementation(async () => {
    refreshes += 1
    valid = `token-${refreshes}`
    return { access_token: valid, token_expires_at: new Date(Date.now() + movedMs + 3_600_000).toISOString() }
  })
  integration = await make()
})

const make = (provider = 'oauth', credentials: Credentials = {}): Promise<Integration> =>
  test.integrations.create({
    provider,
    name: 'of a test',
    credentials: { access_token: 'token-0', refresh_token: 'refresh-token-0', ...credentials },
  })
const refusal = (status = 401) => new HttpError(status, new Headers(), { message: 'Bad credentials' })

/** Asks as a provider's own code does: the token at the time of the attempt. */
const ask =
  (of: Integration, sent: unknown[] = []): Call<string> =>
  async () => {
    const token = await of.getAccessToken()
    sent.push(token)
    if (token !== valid) throw refusal()
    return 'answer'
  }

interface Row {
  readonly id: number
  readonly status_code: number | null
  readonly retry_of: number | null
}
const rowsOf = ({ id }: Integration) =>
  test.sql<
    Row[]
  >`select id::int, status_code, retry_of::int from integration_requests where integration_id = ${id} order by id`

describe('a 401', () => {
  it.each(['GET', 'POST'])('is followed by a refresh and one attempt more, with its own row (%s)', async (method) => {
    const sent: unknown[] = []
    expect(await integration.request('things', method, ask(integration, sent))).toBe('answer')
    expect(sent).toEqual(['token-0', 'token-1'])
    const rows = await rowsOf(integration)
    expect(rows.map(({ status_code, retry_of }) => [status_code, retry_of])).toEqual([
      [401, null],
      [null, rows[0]?.id],
    ])
    expect(refreshes).toBe(1)
    expect((await test.integrations.get(integration.id)).credentialsArray().access_token).toBe('token-1')
  })

  it('is followed by the new token also where the call reads the credentials', async () => {
    const call = () => {
      if (integration.credentialsArray().access_token !== valid) throw refusal()
      return 'answer'
    }
    expect(await integration.request('things', 'GET', call)).toBe('answer')
  })

  it('of a call by URL, or wrapped in another error, is one', async () => {
    const wrapped = async () => {
      if ((await integration.getAccessToken()) !== valid) throw new Error('outer', { cause: refusal() })
      return new Response('{"ok":true}', { headers: { 'content-type': 'application/json' } })
    }
    expect(await integration.at('things').post(wrapped)).toEqual({ ok: true })
  })

  it('of the new token is final, after one refresh', async () => {
    const call = vi.fn(() => Promise.reject(refusal()))
    await expect(integration.request('things', 'GET', call)).rejects.toMatchObject({ status: 401 })
    expect(call).toHaveBeenCalledTimes(2)
    expect(refreshes).toBe(1)
  })

  it('of the new token is final also where the provider would have every failure made again', async () => {
    const eager = await make('eager')
    const call = vi.fn(() => Promise.reject(refusal()))
    await expect(eager.request('things', 'GET', call)).rejects.toMatchObject({ status: 401 })
    expect(call).toHaveBeenCalledTimes(2)
    expect(refreshes).toBe(1)
  })

  it('takes none of the attempts: what fails otherwise afterwards is made again as often as ever', async () => {
    const outcomes = [401, 503, 503, 503]
    const numbers: number[] = []
    const call: Call<unknown> = ({ attempt }) => {
      numbers.push(attempt)
      throw refusal(outcomes[numbers.length - 1])
    }
    await integration.overrideCircuit('disabled')
    await expect(integration.request('things', 'GET', call, { attempts: 3 })).rejects.toMatchObject({ status: 503 })
    expect(numbers).toEqual([1, 1, 2, 3])
    const rows = await rowsOf(integration)
    expect(rows.map(({ status_code }) => status_code)).toEqual(outcomes)
    expect(rows.slice(1).every(({ retry_of }) => retry_of === rows[0]?.id)).toBe(true)
  })

  it('keeps the row that a caller says it repeats', async () => {
    await integration.request('things', 'GET', () => 1)
    const [first] = await rowsOf(integration)
    await integration.request('things', 'GET', ask(integration), { retryOf: first?.id ?? 0 })
    expect((await rowsOf(integration)).map(({ retry_of }) => retry_of)).toEqual([null, first?.id, first?.id])
  })

  it('of an old token is made again without a refresh when the stored one is another one already', async () => {
    const early = await test.integrations.get(integration.id)
    await integration.request('things', 'GET', ask(integration))
    expect(await early.request('things', 'GET', ask(early))).toBe('answer')
    expect(refreshes).toBe(1)
  })

  it('of many calls at once by one handle, or by many, costs one refresh', async () => {
    const others = await Promise.all([1, 2, 3].map(() => test.integrations.get(integration.id)))
    const calls = [integration, integration, integration, ...others].map((each) =>
      each.request('things', 'GET', ask(each)),
    )
    expect(await Promise.all(calls)).toEqual(Array(6).fill('answer'))
    expect(refreshes).toBe(1)
  })

  it('of a token that was refreshed within the very attempt is refreshed once more', async () => {
    const expiring = await make('oauth', { token_expires_at: new Date(Date.now() + movedMs + 1_000).toISOString() })
    const sent: unknown[] = []
    const call = async () => {
      const token = await expiring.getAccessToken()
      sent.push(token)
      if (token !== 'token-2') throw refusal()
      return 'answer'
    }
    expect(await expiring.request('things', 'GET', call)).toBe('answer')
    expect(sent).toEqual(['token-1', 'token-2'])
  })
})

describe('a 401 is as it is', () => {
  it.each<[string, string, Credentials, Call<unknown>, RequestOptions]>([
    ['of a provider without OAuth', 'plain', {}, () => Promise.reject(refusal()), {}],
    ['without a token', 'oauth', { access_token: null }, () => Promise.reject(refusal()), {}],
    ['if it is a 403', 'oauth', {}, () => Promise.reject(refusal(403)), {}],
    [
      'of a keyed write that may have had an effect',
      'doubtful',
      {},
      () => Promise.reject(refusal()),
      { idempotencyKey: 'key-1' },
    ],
  ])('%s', async (_, provider, credentials, given, options) => {
    const call = vi.fn(given)
    const made = await make(provider, credentials)
    await expect(made.request('things', 'POST', call, options)).rejects.toBeInstanceOf(HttpError)
    expect(call).toHaveBeenCalledTimes(1)
    expect(refreshToken).not.toHaveBeenCalled()
  })

  it('inside the work on tokens: the token endpoint itself may answer one', async () => {
    refreshToken.mockImplementation((given) =>
      given.request<Credentials>('token', 'POST', () => Promise.reject(refusal())),
    )
    const warned = () => test.lines.filter(({ message }) => message.includes('could not be refreshed'))
    const before = warned().length
    await expect(integration.request('things', 'GET', ask(integration))).rejects.toMatchObject({ status: 401 })
    expect(refreshToken).toHaveBeenCalledTimes(1)
    expect(await rowsOf(integration)).toHaveLength(2)
    expect(warned()).toHaveLength(before + 1)
    await insideTokenWork(test.framework, integration.id, async () => {
      await expect(integration.request('things', 'GET', ask(integration))).rejects.toMatchObject({ status: 401 })
    })
    expect(refreshToken).toHaveBeenCalledTimes(1)
  })

  it('where the client lacks its secret: the log names it, and quotes nothing', async () => {
    refreshToken.mockRejectedValue(new InvalidArgumentException('client secret', 'one is needed, token-9 was given'))
    await expect(integration.request('things', 'GET', ask(integration))).rejects.toMatchObject({ status: 401 })
    const line = test.lines.findLast(({ fields }) => fields.event === 'tokens.not_replaced')
    expect(line?.fields).toMatchObject({ error: 'invalid_argument', argument: 'client secret' })
    expect(JSON.stringify(line)).not.toContain('token-9')
  })

  it('where the token could not be had: its refusal is not that of the call', async () => {
    refreshToken.mockImplementation((given) =>
      given.request<Credentials>('token', 'POST', () => Promise.reject(refusal())),
    )
    const over = await make('oauth', { token_expires_at: '2020-01-01T00:00:00Z' })
    await expect(over.request('things', 'POST', ask(over))).rejects.toMatchObject({ status: 401 })
    expect(refreshToken).toHaveBeenCalledTimes(1)
  })

  it('if the refresh gives the same token', async () => {
    refreshToken.mockResolvedValue({ access_token: 'token-0' })
    await expect(integration.request('things', 'POST', ask(integration))).rejects.toMatchObject({ status: 401 })
    expect(await rowsOf(integration)).toHaveLength(1)
  })

  it('once the caller has given up', async () => {
    const caller = new AbortController()
    refreshToken.mockImplementation(async () => {
      caller.abort(new Error('enough'))
      return { access_token: 'token-1' }
    })
    const call = vi.fn(() => Promise.reject(refusal()))
    await expect(integration.request('things', 'POST', call, { signal: caller.signal })).rejects.toMatchObject({
      status: 401,
    })
    expect(call).toHaveBeenCalledTimes(1)
  })

  it('and a person is needed, if the provider takes the refresh token no longer', async () => {
    refreshToken.mockRejectedValue(new HttpError(400, new Headers(), { error: 'invalid_grant' }))
    for (let times = 0; times < 2; times += 1)
      await expect(integration.request('things', 'POST', ask(integration))).rejects.toMatchObject({ status: 401 })
    expect(refreshToken).toHaveBeenCalledTimes(1)
    await expect(integration.refreshTokenIfNeeded()).resolves.toBe(false)
  })
})

it('a keyed write is made again with its key, which stays spent', async () => {
  const keys: unknown[] = []
  const call: Call<string> = async ({ idempotencyKey }) => {
    keys.push(idempotencyKey)
    if ((await integration.getAccessToken()) !== valid) throw refusal()
    return 'answer'
  }
  await integration.request('things', 'POST', call, { idempotencyKey: 'key-1' })
  expect(keys).toEqual(['key-1', 'key-1'])
  expect(await integration.idempotencyRecord('key-1')).toMatchObject({ priorState: 'unparseable' })
})

it('a wish of the call to be made again does not take the place of the refresh', async () => {
  const call = async () => {
    if ((await integration.getAccessToken()) !== valid) throw new RetryableError('again', { cause: refusal() })
    return 'answer'
  }
  expect(await integration.request('things', 'POST', call, { attempts: 1 })).toBe('answer')
  expect(refreshes).toBe(1)
})

it('a probe of the breaker gets the token that it waits for: the call for it goes with the probe', async () => {
  const over = await make('oauth', { token_expires_at: '2020-01-01T00:00:00Z' })
  await expect(over.request('things', 'POST', () => Promise.reject(refusal(503)))).rejects.toMatchObject({
    status: 503,
  })
  expect((await over.circuit()).state).toBe('open')
  refreshToken.mockImplementation((given) =>
    given.request('token', 'POST', () => {
      valid = 'token-1'
      return { access_token: valid }
    }),
  )
  // Open: nothing goes out, the call for a token no more than any other.
  await expect(over.getAccessToken()).rejects.toMatchObject({ code: 'circuit_open' })
  movedMs += COOLDOWN_SECONDS * 1_000
  expect(await over.request('things', 'POST', ask(over))).toBe('answer')
  expect((await over.circuit()).state).toBe('closed')
})

it('forced open by an operator, no call for a token goes out either', async () => {
  const over = await make('oauth', { token_expires_at: '2020-01-01T00:00:00Z' })
  refreshToken.mockImplementation((given) => given.request('token', 'POST', () => ({ access_token: 'token-1' })))
  await over.overrideCircuit('forced_open')
  await expect(over.getAccessToken()).rejects.toMatchObject({ code: 'circuit_open' })
})
