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
  const ids: number[] = []
  for (const reason of ['first', 'second', 'third']) {
    const { id } = await makeIntegration(test, 'any')
    ids.push(id)
    const opened = sql`${functionNamed(tables, 'open_incident')}(${id}, 0, 'sync', ${reason}, 'failing', null, now())`
    await db.execute(
      sql`select ${functionNamed(tables, 'record_events')}(${id}, ${opened}, ${'{"incident_opened":"IncidentOpened"}'}::jsonb)`,
    )
  }
  const rows = await db.execute(
    sql`select payload -> 'incident' as incident from ${tables.events} where name = 'IncidentOpened' order by id`,
  )
  expect(rows.map(({ incident }) => incident)).toMatchObject([
    { integrationId: ids[0], reason: 'first' },
    { integrationId: ids[1], reason: 'second' },
    { integrationId: ids[2], reason: 'third' },
  ])
})

it('the open incident is closed, and those closed before it stay as they are', async () => {
  const { db, tables } = test.framework
  const { id } = await makeIntegration(test, 'any')
  for (const at of ['2031-01-01', '2031-02-01']) {
    await db.execute(
      sql`select ${functionNamed(tables, 'open_incident')}(${id}, 0, 'sync', ${at}, 'failing', null, ${at})`,
    )
    await db.execute(sql`select ${functionNamed(tables, 'close_incident')}(${id}, 0, ${at})`)
  }
  const rows = await db.execute(sql`
    select to_char(closed_at at time zone 'UTC', 'YYYY-MM-DD') as day from ${tables.incidents} where integration_id = ${id} order by id`)
  expect(rows.map(({ day }) => day)).toEqual(['2031-01-01', '2031-02-01'])
})
