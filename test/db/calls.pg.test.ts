/** The two statements around a call carry their values in their text: whatever a body holds must stay a value. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { settleCalls } from '../../src/calls/admission/call-queries.ts'
import { callTarget } from '../../src/calls/call-target.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(async () => {
  await test.close()
  await database.drop()
})

const HOSTILE = [
  "it's",
  "'; drop table integration_requests; --",
  "\\'; drop table integration_requests; --",
  "\\\\' || version() || '",
  'a\\nb \\u0041 \\',
  '$1 $$ $do$ :x ?',
  'line\nbreak\ttab "quotes" é 😀',
]

describe.each(['on', 'off'])('a body, with standard_conforming_strings %s', (setting) => {
  it.each(HOSTILE)('is stored as it is: %j', async (text) => {
    test ??= testIntegrations(database.url, { providers: { any: {} } })
    const { db, tables } = test.framework
    const integration = await makeIntegration(test, 'any')
    const row = {
      ...{ endpoint: text, method: 'GET', status_code: 200, request_data: text, idempotency_key: text },
      ...{ provider_request_id: text, response_data: text, error: text, failure_class: null, duration_ms: 1 },
      ...{
        retry_of: null,
        related_type: null,
        related_id: null,
        expires_in_ms: null,
        request_hash: null,
        origin: null,
      },
    }
    const outcome = { owner: text, generation: 0, class: null, quietForMs: null, quietUntil: null, row }
    const settled = await db.transaction(async (tx) => {
      await tx.execute(`set local standard_conforming_strings = ${setting}`)
      return settleCalls(tx as never, tables, callTarget(test.framework, integration), [outcome])
    })
    const [stored] = await test.sql`
      select endpoint, request_data, idempotency_key, provider_request_id, response_data, error
      from integration_requests where id = ${settled?.ids[0] as number}`
    expect(Object.values(stored ?? {})).toEqual(Array.from({ length: 6 }, () => text))
  })
})
