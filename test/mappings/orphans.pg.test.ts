/** Rows of a host's models that nothing maps. */
import { bigint, pgTable, text, timestamp } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { mappedTable } from '../../src/mappings/mapped-table.ts'
import type { FindOrphansInput } from '../../src/mappings/mapping-jobs.ts'
import type { OrphanSearch } from '../../src/mappings/orphans.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const notes = pgTable('notes', {
  id: bigint('id', { mode: 'number' }).primaryKey(),
  createdAt: timestamp('created_at', { withTimezone: true }),
})
const tags = pgTable('tags', { name: text('name').primaryKey() })
const AT = '2031-06-01T12:00:00.000Z'

let database: TestDatabase
let elsewhere: TestDatabase
let host: Connection
let test: TestIntegrations
let integration: Integration
let other: Integration
const note = mappedTable(notes, { type: 'note' })
const scan = vi.fn<typeof note.scan>()

beforeAll(async () => {
  database = await createTestDatabase()
  elsewhere = await createTestDatabase()
  host = connect({ database: elsewhere.url })
  test = testIntegrations(database.url, {
    providers: { plain: {} },
    models: {
      note: { ...note, scan },
      tag: mappedTable(tags, { type: 'tag' }),
      far: mappedTable(notes, { type: 'far', db: host.db }),
    },
  })
  const table = 'create table notes (id bigint primary key, created_at timestamptz)'
  await Promise.all([test.sql.unsafe(table), host.sql.unsafe(table)])
  await test.sql`create table tags (name text primary key)`
})
afterAll(async () => {
  await test.close()
  await host.close()
  await database.drop()
  await elsewhere.drop()
})
beforeEach(async () => {
  scan.mockReset().mockImplementation(note.scan)
  await test.sql`truncate notes, tags, integration_mappings`
  integration = await makeIntegration(test, 'plain')
  other = await makeIntegration(test, 'plain')
})

const find = (input: FindOrphansInput, search?: OrphanSearch) => test.integrations.admin.findOrphans(input, search)

/** Rows 1 to `count`. */
const makeNotes = (count: number, { sql } = test as Pick<Connection, 'sql'>) =>
  sql`insert into notes select n, ${AT}::timestamptz from generate_series(1, ${count}::int) n`

/** Maps the ids that the condition on `n` picks. */
const mapNotes = (count: number, where: string, { id } = integration, type = 'note') =>
  test.sql.unsafe(
    `insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
      select ${id}, 'x' || n, '${type}', n from generate_series(1, ${count}) n where ${where}`,
  )

describe('orphans', () => {
  it('are the rows that nothing maps, by key, with when they were made', async () => {
    await makeNotes(12)
    await mapNotes(12, 'n not in (2, 10, 11)')
    const row = (id: string) => ({ id, createdAt: AT })
    expect(await find({ model: 'note' })).toEqual({
      model: 'note',
      scanned: 12,
      orphans: 3,
      rows: [row('2'), row('10'), row('11')],
    })
  })

  it('are none where all are mapped, or where there is no row', async () => {
    const none = { model: 'note', orphans: 0, rows: [] }
    expect(await find({ model: 'note' })).toEqual({ ...none, scanned: 0 })
    await makeNotes(3)
    await mapNotes(3, 'true')
    expect(await find({ model: 'note' })).toEqual({ ...none, scanned: 3 })
  })

  it('have no time where the model keeps none', async () => {
    await test.sql`insert into tags values ('a')`
    expect((await find({ model: 'tag' })).rows).toEqual([{ id: 'a', createdAt: null }])
  })

  it('are not kept from being such by the mapping of another model with the same key', async () => {
    await makeNotes(1)
    await mapNotes(1, 'true', integration, 'tag')
    expect((await find({ model: 'note' })).orphans).toBe(1)
  })

  it('of one integration are those, too, that another one maps', async () => {
    await makeNotes(4)
    await mapNotes(4, 'n in (1, 2)')
    await mapNotes(4, 'n in (2, 3)', other)
    const ids = async (input: Partial<FindOrphansInput>) =>
      (await find({ model: 'note', ...input })).rows.map(({ id }) => id)
    expect(await ids({})).toEqual(['4'])
    expect(await ids({ integrationId: integration.id })).toEqual(['3', '4'])
    expect(await ids({ integrationId: other.id })).toEqual(['1', '4'])
  })

  it('are all counted, and named up to the limit', async () => {
    await makeNotes(60)
    expect((await find({ model: 'note' })).rows).toHaveLength(50)
    const found = await find({ model: 'note', limit: 2 })
    expect([found.orphans, found.rows.map(({ id }) => id)]).toEqual([60, ['1', '2']])
  })

  it('of a model in another database are compared with the mappings in ours', async () => {
    await makeNotes(2_100, host)
    await mapNotes(2_100, 'n <> 1000 and n <> 1001', integration, 'far')
    expect((await find({ model: 'far' })).rows.map(({ id }) => id)).toEqual(['1000', '1001'])
    expect((await find({ model: 'note' })).scanned).toBe(0)
  })

  it('inside a host‘s transaction are judged by what it has written', async () => {
    await makeNotes(2)
    await test.integrations.transaction(async () => {
      await integration.mapExternalId('x', note.of(1))
      expect((await find({ model: 'note' })).rows.map(({ id }) => id)).toEqual(['2'])
    })
  })
})

describe('the search', () => {
  it('goes by 1,000 rows, on from the last one, and tells how far it is', async () => {
    await makeNotes(2_500)
    await mapNotes(2_500, 'n % 2 = 0')
    const progress: unknown[] = []
    const found = await find({ model: 'note' }, { onProgress: (at) => progress.push(at) })
    expect(found).toMatchObject({ scanned: 2_500, orphans: 1_250 })
    expect(scan.mock.calls.map(([, afterId, limit]) => [afterId, limit])).toEqual([
      [null, 1_000],
      ['1000', 1_000],
      ['2000', 1_000],
      ['2500', 1_000],
    ])
    expect(progress).toEqual([
      { scanned: 1_000, orphans: 500 },
      { scanned: 2_000, orphans: 1_000 },
      { scanned: 2_500, orphans: 1_250 },
    ])
  })

  it('goes on after a chunk that is shorter than it might be', async () => {
    await makeNotes(7)
    scan.mockImplementation((tx, afterId) => note.scan(tx, afterId, 3))
    expect(await find({ model: 'note' })).toMatchObject({ scanned: 7, orphans: 7 })
  })

  it('ends at the next chunk when it is given up', async () => {
    await makeNotes(1_500)
    const given = new AbortController()
    const reason = new Error('enough')
    await expect(find({ model: 'note' }, { signal: given.signal, onProgress: () => given.abort(reason) })).rejects.toBe(
      reason,
    )
    expect(scan).toHaveBeenCalledTimes(1)
    scan.mockClear()
    await expect(find({ model: 'note' }, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    expect(scan).not.toHaveBeenCalled()
  })

  it.each<[string, typeof note.scan]>([
    ['begins again each time', async () => [{ id: '1', createdAt: null }]],
    [
      'gives a row twice',
      async () => [
        { id: '1', createdAt: null },
        { id: '1', createdAt: null },
      ],
    ],
  ])('ends with an error where a model’s scan() %s', async (_, wrong) => {
    scan.mockImplementation(wrong)
    await expect(find({ model: 'note' })).rejects.toMatchObject({
      code: 'invalid_argument',
      reason: expect.stringContaining('scan() of "note" must give each row once'),
    })
  })

  it.each<[string, () => FindOrphansInput, object]>([
    [
      'a model that is not registered',
      () => ({ model: 'nota' }),
      { argument: 'model', reason: 'the name of a registered model is allowed (note, tag, far), "nota" was given' },
    ],
    ['no model', () => ({}) as never, { argument: 'model' }],
    ['a name of every object', () => ({ model: 'toString' }), { argument: 'model' }],
    ['a limit of 0', () => ({ model: 'note', limit: 0 }), { argument: 'limit' }],
    ['a limit that is no number', () => ({ model: 'note', limit: null as never }), { argument: 'limit' }],
    ['no integration’s id', () => ({ model: 'note', integrationId: 1.5 }), { argument: 'integrationId' }],
    ['an integration that is not there', () => ({ model: 'note', integrationId: 999_999 }), { integrationId: 999_999 }],
  ])('refuses %s', async (_, input, error) => {
    await expect(find(input())).rejects.toMatchObject(error)
    expect(scan).not.toHaveBeenCalled()
  })

  it('as an activity gives the same, and no more rows than a history takes', async () => {
    await makeNotes(3)
    await mapNotes(3, 'n = 2')
    const { findOrphanRows } = test.activities
    expect(await runActivity(findOrphanRows, { model: 'note' })).toEqual(await find({ model: 'note' }))
    await expect(runActivity(findOrphanRows, { model: 'note', limit: 5_001 })).rejects.toMatchObject({
      code: 'invalid_argument',
      argument: 'limit',
    })
  })

  it('as an activity names no more than 1 MB of long keys, and counts them all', async () => {
    await test.sql`insert into tags select repeat('é', 600) || n from generate_series(1, 1000) n`
    const found = await runActivity(test.activities.findOrphanRows, { model: 'tag', limit: 5_000 })
    const bytes = Buffer.byteLength(JSON.stringify(found.rows))
    expect([found.orphans, bytes <= 1_000_010, bytes > 990_000]).toEqual([1_000, true, true])
  })
})

describe('a text key', () => {
  const WORDS = [
    ...['a', 'A', 'ä', 'Ä', 'b', 'B', 'z', 'Z', 'é', 'É', 'e', 'E', 'ss', 'ß', 'ı', 'i', 'I', 'İ', '', ' ', '  '],
    ...['a-b', 'ab', 'a b', 'a_b', 'A-B', 'aB', "a'b", 'a"b', 'a\\b', 'a%b', '_', '-', '1', '10', '2', '02', '٢'],
    ...['😀', '😀😀', 'é', 'ﬀ', 'ff', '\u200b', 'a\u200bb', '\n', 'x\ty', '中', '中文', 'null', 'NULL'],
  ]
  const COLLATIONS = [
    'default',
    'C',
    'en-x-icu',
    'de-x-icu',
    'und-x-icu',
    'sv-x-icu',
    'ignoring case',
    'digits as numbers',
  ]

  beforeAll(async () => {
    await test.sql`create collation "ignoring case" (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`
    await test.sql`create collation "digits as numbers" (provider = icu, locale = 'en-u-kn-true')`
  })

  it.each(COLLATIONS)('is scanned whole, each row once, under the collation %s', async (collation) => {
    await test.sql.unsafe(`create table words (word text collate "${collation}" primary key)`)
    try {
      await test.sql`insert into words select * from jsonb_array_elements_text(${JSON.stringify(WORDS)}::text::jsonb)
        on conflict do nothing`
      const there = await test.sql<{ word: string }[]>`select word from words order by word`
      expect(there.length).toBeGreaterThan(30)
      const { scan } = mappedTable(pgTable('words', { word: text('word').primaryKey() }))
      for (const limit of [1, 2, 7, 1_000]) {
        const seen: string[] = []
        for (;;) {
          const page = await scan(test.framework.modelDb, seen.at(-1) ?? null, limit)
          if (page.length === 0) break
          seen.push(...page.map(({ id }) => id))
        }
        expect(seen).toEqual(there.map(({ word }) => word))
      }
    } finally {
      await test.sql`drop table words`
    }
  })

  it('of more rows than a chunk finds all orphans and no others', async () => {
    // Letters of both cases, signs and digits, in no order.
    const keys = Array.from(
      { length: 2_345 },
      (_, n) => `${'aZ-9ä_B'[n % 7]}${(n * 7_919) % 2_345}${n % 3 ? 'x' : 'X'}`,
    )
    await test.sql`insert into tags select * from jsonb_array_elements_text(${JSON.stringify(keys)}::text::jsonb)`
    const orphans = keys.filter((_, n) => n % 50 === 0)
    await test.sql`insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
      select ${integration.id}, name, 'tag', name from tags
      where name not in (select jsonb_array_elements_text(${JSON.stringify(orphans)}::text::jsonb))`
    const found = await find({ model: 'tag', limit: 1_000 })
    expect(found.scanned).toBe(keys.length)
    expect(found.rows.map(({ id }) => id).toSorted()).toEqual(orphans.toSorted())
  })
})
