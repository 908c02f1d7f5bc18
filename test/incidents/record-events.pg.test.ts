import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { functionNamed } from '../../src/db/sql-functions.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { any: {} } })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})

it('an event tells of its own incident, whatever others there are', async () => {
  const { db, tables } = test.framework
  for (const reason of ['first', 'second', 'third']) {
    const { id } = await makeIntegration(test, 'any')
    const opened = sql`${functionNamed(tables, 'open_incident')}(${id}, 0, 'sync', ${reason}, 'failing', null, now())`
    await db.execute(
      sql`select ${functionNamed(tables, 'record_events')}(${id}, ${opened}, ${'{"incident_opened":"IncidentOpened"}'}::jsonb)`,
    )
  }
  const rows = await db.execute(
    sql`select payload #>> '{incident,reason}' as reason from ${tables.events} where name = 'IncidentOpened' order by id`,
  )
  expect(rows.map(({ reason }) => reason)).toEqual(['first', 'second', 'third'])
})
