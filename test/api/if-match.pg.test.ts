/** Two operators who have seen the same. Rule: docs/behaviour/operator-api.md, "OpenAPI". */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

let database: TestDatabase
/** Two API processes. */
let tests: TestIntegrations[]

beforeAll(async () => {
  database = await createTestDatabase()
  const encryptionKeys = encryptionKey('test')
  tests = [1, 2].map(() =>
    testIntegrations(database.url, {
      encryptionKeys,
      providers: { plain: {}, oauth: scriptedOAuth(() => ({})) },
      config: { operator: { tokens: TOKENS } },
    }),
  )
})
afterAll(async () => {
  for (const test of tests) await test.close()
  await database.drop()
})

function request(nth: number, method: string, path: string, body?: object, etag = '') {
  const headers = {
    authorization: `Bearer ${OPERATE_TOKEN}`,
    ...(body && { 'content-type': 'application/json' }),
    ...(etag && { 'if-match': etag }),
  }
  const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
  return createApi((tests[nth] as TestIntegrations).integrations).request(`/operator/api/v1/integrations/${path}`, init)
}

it.each<[method: string, path: string, bodies: [object, object]]>([
  ['PATCH', '', [{ name: 'one' }, { name: 'two' }]],
  ['PUT', '/circuit-override', [{ override: 'forced_open' }, { override: 'disabled' }]],
  [
    'PUT',
    '/rate-limit-override',
    [
      { limit: 1, window_seconds: 1 },
      { limit: 2, window_seconds: 2 },
    ],
  ],
])('lets one of two through that come at once: %s %s', async (method, path, bodies) => {
  for (let round = 0; round < 5; round += 1) {
    const { id } = await makeIntegration(tests[0] as TestIntegrations, 'plain')
    const etag = (await request(0, 'GET', `${id}${path}`)).headers.get('etag') as string
    const answers = await Promise.all(bodies.map((body, nth) => request(nth, method, `${id}${path}`, body, etag)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 412])
    const winner = bodies[answers.findIndex(({ status }) => status === 200)]
    expect(await (await request(0, 'GET', `${id}${path}`)).json()).toMatchObject(winner as object)
  }
})

describe('the version of an integration', () => {
  const etagOf = async (id: number) => (await request(0, 'GET', `${id}`)).headers.get('etag') as string

  it('is another one after a new value of a credential, also under the same name', async () => {
    const { id } = await makeIntegration(tests[0] as TestIntegrations, 'plain', { credentials: { token: 'first' } })
    const seen = await etagOf(id)
    expect((await request(1, 'PATCH', `${id}`, { credentials: { token: 'of-another' } }, seen)).status).toBe(200)
    const late = await request(0, 'PATCH', `${id}`, { credentials: { token: 'mine' } }, seen)
    expect([late.status, await late.json()]).toMatchObject([412, { code: 'changed_meanwhile' }])
    expect((await tests[0]?.integrations.get(id))?.credentialsArray()).toEqual({ token: 'of-another' })
    expect(await (await request(0, 'GET', `${id}`)).text()).not.toContain('of-another')
  })

  it('is another one after a person has switched off what its health had', async () => {
    const test = tests[0] as TestIntegrations
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { isActive: false, healthStatus: 'disabled' })
    const seen = await etagOf(id)
    await test.integrations.disable(id)
    expect(await etagOf(id)).not.toBe(seen)
  })

  it('is another one after a refresh that stores a further value', async () => {
    const credentials = { access_token: 'first', refresh_token: 'r' }
    const integration = await makeIntegration(tests[0] as TestIntegrations, 'oauth', { credentials })
    const seen = await etagOf(integration.id)
    await integration.updateCredentials({ access_token: 'second', refresh_token_expires_at: '2031-06-01T12:00:00Z' })
    expect(await etagOf(integration.id)).not.toBe(seen)
  })

  it('is the same after a refresh of OAuth tokens, and another one where these are plain credentials', async () => {
    const credentials = { access_token: 'first', refresh_token: 'r', client_id: 'c' }
    const refreshed = { access_token: 'second', refresh_token: 's', token_expires_at: '2031-06-01T12:00:00Z' }
    for (const [provider, isSame] of [
      ['oauth', true],
      ['plain', false],
    ] as const) {
      const integration = await makeIntegration(tests[0] as TestIntegrations, provider, {
        credentials: { ...credentials, token_expires_at: '2031-01-01T12:00:00Z' },
      })
      const seen = await etagOf(integration.id)
      await integration.updateCredentials(refreshed)
      expect((await etagOf(integration.id)) === seen).toBe(isSame)
      await integration.updateCredentials({ client_id: 'd' })
      expect(await etagOf(integration.id)).not.toBe(seen)
    }
  })
})
