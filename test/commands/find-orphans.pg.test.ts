/** find-orphans, on real rows. */
import { bigint, pgTable, timestamp } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { mappedTable } from '../../src/mappings/mapped-table.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import type { RunOptions } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const notes = pgTable('notes', {
  id: bigint('id', { mode: 'number' }).primaryKey(),
  createdAt: timestamp('created_at', { withTimezone: true }),
})
const AT = '2031-06-01T12:00:00.000Z'
const ERASE_LINE = '\r\u001b[K'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
const note = mappedTable(notes, { type: 'note' })
const scan = vi.fn<typeof note.scan>()

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {} }, models: { note: { ...note, scan } } })
  await test.sql`create table notes (id bigint primary key, created_at timestamptz)`
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  scan.mockReset().mockImplementation(note.scan)
  await test.sql`truncate notes, integration_mappings`
  integration = await makeIntegration(test, 'plain')
  await test.sql`insert into notes values (1, ${AT}::timestamptz), (2, null), (3, null)`
  await integration.mapExternalId('x', note.of(3))
})

const run = (words: readonly (string | number)[], options?: RunOptions) =>
  runCommand(test.integrations, ['find-orphans', ...words.map(String)], options)

describe('find-orphans', () => {
  it('lists key and time, and counts', async () => {
    const ran = await run(['note'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.out.split('\n')).toEqual(['ID  Created', `1   ${AT}`, '2   -', '2 of 3 rows without a mapping.', ''])
  })

  it('gives one document with --json', async () => {
    const ran = await run(['note', '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      model: 'note',
      scanned: 3,
      orphans: 2,
      rows: [
        { id: '1', created_at: AT },
        { id: '2', created_at: null },
      ],
    })
  })

  it('counts what another integration maps, where one is given', async () => {
    const other = await makeIntegration(test, 'plain')
    const ran = await run(['note', '--integration', other.id, '--json'])
    expect(ran.json()).toMatchObject({ orphans: 3, rows: [{ id: '1' }, { id: '2' }, { id: '3' }] })
  })

  it('warns when there are more than it names', async () => {
    const ran = await run(['note', '--limit', 1, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: 'There are more than 1; --limit shows more.\n' })
    expect(ran.json()).toMatchObject({ orphans: 2, rows: [{ id: '1' }] })
    expect((await run(['note', '--limit', 2])).err).toBe('')
  })

  it('says so when there are none', async () => {
    await test.sql`delete from notes where id <> 3`
    expect(await run(['note'])).toMatchObject({ exitCode: 0, err: '', out: '0 of 1 rows without a mapping.\n' })
  })

  it.each([
    [['nota'], 'invalid_argument', '(note), "nota" was given'],
    [['note', '--integration', '999999999'], 'integration_not_found', 'no integration with id 999999999'],
    [['note', '--limit', '0'], 'usage', 'at least 1 is allowed'],
    [[], 'usage', "missing required argument 'model'"],
  ])('%j is refused', async (words, code, message) => {
    const ran = await run([...words, '--json'])
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toEqual({ error: { code, message: expect.stringContaining(message) } })
  })
})

describe('its progress', () => {
  it('is one line that changes, and is gone at the end, while somebody looks', async () => {
    await test.sql`insert into notes select n from generate_series(4, 1500) n`
    const ran = await run(['note', '--limit', 5_000, '--json'], { answers: {} })
    expect(ran.json()).toMatchObject({ scanned: 1_500 })
    expect(ran.err.startsWith(`${ERASE_LINE}1000 rows, 999 without a mapping`)).toBe(true)
    expect(ran.err.endsWith(ERASE_LINE)).toBe(true)
    expect(ran.err).not.toContain('\n')
  })

  it('is not shown to nobody', async () => {
    expect((await run(['note', '--no-interactive'], { answers: {} })).err).toBe('')
  })

  it('ends with the search when it is broken off: half a search says nothing', async () => {
    const pressed = new AbortController()
    scan.mockImplementation(async (...given) => {
      pressed.abort()
      return note.scan(...given)
    })
    const ran = await run(['note', '--json'], { answers: {}, signal: pressed.signal })
    expect(ran.exitCode).toBe(130)
    expect(ran.json()).toEqual({ error: { code: 'interrupted', message: 'Interrupted.' } })
    expect(ran.err.endsWith(ERASE_LINE)).toBe(true)
    expect(scan).toHaveBeenCalledTimes(1)
  })
})
