/** A patch of credentials that is refused: who gave it may send it nevertheless, so it is redacted as the others are. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Credentials } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { TOKEN } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const REFUSED = 'refused-secret-of-the-tests'

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
  it.each<[what: string, patch: Credentials, code: string]>([
    ["by the provider's schema", { password: REFUSED, port: 'no number' }, 'invalid_credentials'],
    ['as no JSON', { password: REFUSED, at: new Date() }, 'invalid_argument'],
    ['as too large', { password: REFUSED, blob: 'x'.repeat(70_000) }, 'invalid_argument'],
  ])('%s is redacted, and is not stored', async (_, patch, code) => {
    const integration = await makeIntegration(test, 'strict')
    await expect(integration.updateCredentials(patch)).rejects.toMatchObject({ code })
    await integration.request('things', 'GET', () => `${REFUSED} came back`)
    const [row] =
      await test.sql`select response_data from integration_requests where integration_id = ${integration.id}`
    expect(JSON.stringify(row)).toContain('came back')
    expect(JSON.stringify(row)).not.toContain(REFUSED)
    expect((await integration.refresh()).credentialsArray()).toEqual(expect.not.objectContaining({ password: REFUSED }))
    expect(integration.credentialsArray().token).toBe(TOKEN)
  })
})
