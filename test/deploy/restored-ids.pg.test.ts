/** The SQL of docs/deploying.md that moves the ids on after an older backup was restored. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook } from '../support/rows.ts'

const MOVED = 10_000_000
let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})

it('gives each table with ids new ones beyond those that a lost row may have had', async () => {
  const page = await readFile(new URL('../../docs/deploying.md', import.meta.url), 'utf8')
  const [, statement = ''] = /```sql\n(select c\.relname, setval[^`]*)```/.exec(page) ?? []
  const { id } = await makeIntegration(test, 'acme')
  const before = await makeWebhook(test, id)
  const moved = await test.sql.unsafe<{ relname: string }[]>(statement)
  const tables = await test.sql`
    select table_name from information_schema.columns
    where table_schema = current_schema() and table_name like 'integration%' and is_identity = 'YES'`
  expect(moved.map(({ relname }) => relname).sort()).toEqual(
    tables.map(({ table_name }) => `${table_name}_id_seq`).sort(),
  )
  expect((await makeWebhook(test, id)).id).toBeGreaterThan(before.id + MOVED)
})
