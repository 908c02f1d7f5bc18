/** What `prepare()` of the example does before its first start. */
import postgres from 'postgres'
import { expect, it } from 'vitest'
import { prepareDatabase } from '../../examples/helpdesk/database.ts'
import { createTestDatabase } from '../support/database.ts'

it('makes the database and the table where they are not there, and nothing the second time', async () => {
  const beside = await createTestDatabase()
  const url = new URL(beside.url)
  const name = `${url.pathname.slice(1)}_helpdesk`
  url.pathname = `/${name}`
  const server = postgres(beside.url, { max: 1 })
  try {
    await prepareDatabase(url.href)
    const sql = postgres(url.href, { max: 1 })
    try {
      await sql`insert into tickets (deskline_id, subject, status, requester_email, updated_at)
        values ('tkt_1', 'First', 'open', 'customer@example.com', now())`
      await prepareDatabase(url.href)
      expect(await sql`select deskline_id from tickets`).toEqual([{ deskline_id: 'tkt_1' }])
    } finally {
      await sql.end()
    }
  } finally {
    await server`drop database if exists ${server(name)}`
    await server.end()
    await beside.drop()
  }
})
