/** A patch of credentials that is refused: the handle knows nothing of it afterwards. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { secretsKnownTo } from '../../src/core/known-secrets.ts'
import type { Credentials } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { TOKEN } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const REFUSED = 'refused-secret-of-the-tests'
const ACCEPTED = 'accepted-secret-of-the-tests'

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  const credentialsSchema = z.looseObject({ token: z.string().min(8), port: z.number().optional() })
  test = testIntegrations(database.url, { providers: { strict: { credentialsSchema } } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

describe('a patch that is refused', () => {
  const circular: Credentials = { password: REFUSED }
  circular.self = circular

  it.each<[what: string, patch: Credentials, code: string]>([
    ["by the provider's schema", { password: REFUSED, port: 'no number' }, 'invalid_credentials'],
    ['as no JSON', { password: REFUSED, at: new Date() }, 'invalid_argument'],
    ['as an object in itself', circular, 'invalid_argument'],
    ['as too large', { password: REFUSED, blob: 'x'.repeat(70_000) }, 'invalid_argument'],
  ])('%s leaves the handle as it was', async (_, patch, code) => {
    const integration = await makeIntegration(test, 'strict')
    const before = secretsKnownTo(integration)
    await expect(integration.updateCredentials(patch)).rejects.toMatchObject({ code })
    expect(secretsKnownTo(integration)).toBe(before)
    expect(integration.credentialsArray().token).toBe(TOKEN)
    // A call looks for what it must redact in all that the handle knows.
    expect(await integration.request('things', 'GET', () => `${REFUSED} ${TOKEN}`)).toContain(REFUSED)
    const [row] =
      await test.sql`select response_data from integration_requests where integration_id = ${integration.id}`
    expect(JSON.stringify(row)).toContain(REFUSED)
  })

  it('pushes out nothing that is still to be redacted', async () => {
    const integration = await makeIntegration(test, 'strict')
    await integration.updateCredentials({ password: ACCEPTED })
    for (let n = 0; n < 25; n += 1)
      await expect(integration.updateCredentials({ port: `no number ${n}` })).rejects.toMatchObject({
        code: 'invalid_credentials',
      })
    expect(secretsKnownTo(integration)).toContain(ACCEPTED)
  })
})

it('a patch that is taken is redacted from then on, by the handle that has no other snapshot', async () => {
  const integration = await makeIntegration(test, 'strict')
  await integration.updateCredentials({ password: ACCEPTED })
  await integration.request('things', 'GET', () => `${ACCEPTED} came back`)
  const [row] = await test.sql`select response_data from integration_requests where integration_id = ${integration.id}`
  expect(JSON.stringify(row)).not.toContain(ACCEPTED)
})
