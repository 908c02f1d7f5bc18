/** Two operators who have seen the same. Rule: docs/behaviour/operator-api.md, "OpenAPI". */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase
/** Two API processes. */
let tests: TestIntegrations[]

beforeAll(async () => {
  database = await createTestDatabase()
  tests = [1, 2].map(() =>
    testIntegrations(database.url, { providers: { plain: {} }, config: { operator: { tokens: TOKENS } } }),
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
  ['PUT', '/circuit', [{ override: 'forced_open' }, { override: 'disabled' }]],
  [
    'PUT',
    '/rate-limit',
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
