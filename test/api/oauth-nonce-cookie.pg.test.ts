/** The nonce's cookie goes with the state that it belongs to, however the authorization ends. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { makeIntegration } from '../support/rows.ts'
import { Browser, oauthScript } from './oauth-visit.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  const exchange = (code: string) => {
    if (code === 'bad') throw new Error('no such code')
    return { access_token: 'access-of-the-tests' }
  }
  test = testIntegrations(database.url, {
    baseUrl: BASE_URL,
    providers: { acme: oauthScript(exchange, { issuer: 'https://provider.example' }).provider },
    config: { operator: { tokens: TOKENS } },
  })
  integration = await makeIntegration(test, 'acme')
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

interface Begun {
  readonly browser: Browser
  readonly state: string
  readonly setBy: string
}

async function begin(): Promise<Begun> {
  const browser = new Browser(test)
  const { headers, location } = await browser.open(`/integrations/${integration.id}/oauth/authorize`, {
    headers: { authorization: `Bearer ${OPERATE_TOKEN}` },
  })
  return { browser, state: location?.searchParams.get('state') ?? '', setBy: headers.getSetCookie()[0] ?? '' }
}

const back = (parameters: Record<string, string>): string =>
  `/integrations/oauth/callback?${new URLSearchParams(parameters)}`

/** Without its value and its age: what a browser tells cookies apart by, and what allows it to be replaced. */
const identity = (line: string): string[] => [
  line.split('=')[0] ?? '',
  ...line
    .split('; ')
    .slice(1)
    .filter((attribute) => !attribute.startsWith('Max-Age'))
    .sort(),
]

describe('the cookie of an authorization', () => {
  it.each<[how: string, parameters: Record<string, string>, status: number]>([
    ['succeeds', { code: 'good' }, 302],
    ['is denied', { error: 'access_denied' }, 400],
    ['brings no code', {}, 400],
    ['names another issuer', { code: 'good', iss: 'https://other.example' }, 400],
    ['fails at the exchange', { code: 'bad' }, 502],
  ])('that %s is taken back under the attributes it was set with', async (_, parameters, status) => {
    const { browser, state, setBy } = await begin()
    expect(browser.cookies.size).toBe(1)
    const answer = await browser.open(back({ state, ...parameters }))
    expect(answer.status).toBe(status)
    expect(answer.headers.getSetCookie().map(identity)).toEqual([identity(setBy)])
    expect(browser.cookies.size).toBe(0)
  })

  it('is taken back where a person gets a page, too', async () => {
    const { browser, state } = await begin()
    const { text } = await browser.open(back({ state, error: 'access_denied' }), { asPerson: true })
    expect(text).toContain('Access was not given')
    expect(browser.cookies.size).toBe(0)
  })

  it('of another authorization in the same browser stays', async () => {
    const [one, other] = [await begin(), await begin()]
    for (const [name, value] of other.browser.cookies) one.browser.cookies.set(name, value)
    await one.browser.open(back({ state: one.state, error: 'access_denied' }))
    expect([...one.browser.cookies]).toEqual([...other.browser.cookies])
  })

  it('stays while its state is not used up: a stranger who makes up a callback takes nothing away', async () => {
    const { browser } = await begin()
    expect((await browser.open(back({ state: 'a'.repeat(43), code: 'good' }))).headers.getSetCookie()).toEqual([])
    expect(browser.cookies.size).toBe(1)
  })
})
