/** Whoever guesses at the login page is held off; nobody else is. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, from, OPERATE_TOKEN, signIn, TOKENS, WRONG_TOKEN } from '../support/operators.ts'

let database: TestDatabase
let test: TestIntegrations
let nowMs: number
const started = Date.now()

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

beforeEach(() => {
  nowMs = started
  test = testIntegrations(database.url, {
    baseUrl: BASE_URL,
    clock: { now: () => new Date(nowMs) },
    config: { operator: { tokens: TOKENS } },
  })
  return () => test.close()
})

function logIn(token: string, address = '203.0.113.7', accept = 'text/html'): Promise<Response> {
  const request = {
    method: 'POST',
    headers: { origin: BASE_URL, 'content-type': 'application/x-www-form-urlencoded', accept },
    body: new URLSearchParams({ token }).toString(),
  }
  return Promise.resolve(createApi(test.integrations).request('/operator/login', request, from(address)))
}

const failures = (times: number): Promise<Response[]> =>
  Promise.all(Array.from({ length: times }, () => logIn(WRONG_TOKEN)))

it('of many tries at once ten are looked at, the others are told when to come again', async () => {
  const answers = await failures(30)
  expect(answers.map(({ status }) => status).sort()).toEqual([
    ...Array.from({ length: 10 }, () => 401),
    ...Array.from({ length: 20 }, () => 429),
  ])
  const refused = answers.find(({ status }) => status === 429)
  expect(refused?.headers.get('retry-after')).toBe('60')
  expect(refused?.headers.get('cache-control')).toBe('no-store')
  expect(await refused?.text()).toContain('Try again in 60 seconds')
  // Not a line a try: whoever guesses does not fill the log.
  expect(test.lines.filter(({ fields }) => fields.event === 'access.sign_in_refused')).toHaveLength(10)
})

it('a right token is not looked at meanwhile, and is good again when the minute is over', async () => {
  await failures(10)
  expect((await logIn(OPERATE_TOKEN)).status).toBe(429)
  nowMs += 60_000
  const answer = await logIn(OPERATE_TOKEN)
  expect([answer.status, answer.headers.getSetCookie()]).toEqual([303, [expect.any(String)]])
})

it('somebody else signs in, and who is signed in or has a token goes on', async () => {
  const { cookie } = await signIn(test.integrations, OPERATE_TOKEN)
  await failures(10)
  expect((await logIn(OPERATE_TOKEN, '203.0.113.8')).status).toBe(303)
  const api = createApi(test.integrations)
  for (const headers of [{ cookie }, { authorization: `Bearer ${OPERATE_TOKEN}` }]) {
    const { status } = await api.request('/operator/api/v1/integrations', { headers }, from('203.0.113.7'))
    expect(status).toBe(200)
  }
})

it('nine mistakes hold nobody up', async () => {
  await failures(9)
  expect((await logIn(OPERATE_TOKEN)).status).toBe(303)
})
