/** External ids and the host's models behind them. */
import {
  bigint,
  boolean,
  date,
  integer,
  json,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  uuid,
} from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { mappedTable } from '../../src/mappings/mapped-table.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { logsOf, makeIntegration } from '../support/rows.ts'

const notes = pgTable('notes', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  text: text('text').notNull(),
})
const model = mappedTable(notes, { type: 'note' })

let database: TestDatabase
let test: TestIntegrations
let host: Connection
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {} }, models: { note: model } })
  host = connect({ database: database.url, names: false })
  await test.sql`create table notes (id bigint primary key generated always as identity, text text not null)`
})

afterAll(async () => {
  await host.close()
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`truncate notes, integration_mappings restart identity`
  integration = await makeIntegration(test, 'plain')
})

describe('mapping', () => {
  it('the same model twice is fine; another one is refused, and says who holds it', async () => {
    const [first, second] = [await note('a'), await note('b')]
    await integration.mapExternalId('x', model.of(first))
    await integration.mapExternalId('x', model.of(first))
    await expect(integration.mapExternalId('x', model.of(second))).rejects.toMatchObject({
      code: 'mapping_already_claimed',
      integrationId: integration.id,
      externalId: 'x',
      internalType: 'note',
      claimedBy: String(first),
      requestedBy: String(second),
      holderExists: true,
    })
    expect(await mappings()).toEqual([['x', String(first)]])
  })

  it('never re-points, not even from a deleted holder', async () => {
    const [gone, other] = [await note('a'), await note('b')]
    await integration.mapExternalId('x', model.of(gone))
    await test.sql`delete from notes where id = ${gone}`
    await expect(integration.mapExternalId('x', model.of(other))).rejects.toMatchObject({ holderExists: false })
  })

  it('compares external ids exactly, and apart by type and integration', async () => {
    const other = await makeIntegration(test, 'plain')
    await integration.mapExternalId('x', model.of(1))
    for (const id of ['X', 'x ', ' x']) await integration.mapExternalId(id, model.of(2))
    await integration.mapExternalId('x', { type: 'another', id: '2' })
    await other.mapExternalId('x', model.of(2))
    expect(await mappings()).toHaveLength(6)
  })

  it.each([
    ['the empty text', ''],
    ['501 characters', 'x'.repeat(501)],
    ['a fraction', 1.5],
    ['NaN', Number.NaN],
    ['a number above 2^53-1', 2 ** 53],
    ['U+0000', 'a\0b'],
    // Postgres would be given U+FFFD for both, and two ids would be one.
    ['half of a surrogate pair', 'a\ud83d'],
    ['the other half', '\ude00a'],
    ['nothing', undefined as never],
    ['null', null as never],
    ['an object', {} as never],
  ])('refuses %s', async (_, externalId) => {
    for (const attempt of [
      () => integration.mapExternalId(externalId, model.of(1)),
      () => integration.remapExternalId(externalId, model.of(1)),
      () => integration.upsertByExternalId(externalId, model, { text: 'a' }),
      () => integration.resolveMapping(externalId, model),
    ])
      await expect(attempt()).rejects.toMatchObject({ code: 'invalid_argument', argument: 'externalId' })
    expect(await mappings()).toEqual([])
  })

  it.each([
    ['an id that is no text', { type: 'note', id: 1 as never }, 'model.id'],
    ['no id', { type: 'note', id: '' }, 'model.id'],
    ['an id of 256 characters', { type: 'note', id: 'x'.repeat(256) }, 'model.id'],
    ['no type', { id: '1' } as never, 'model.type'],
    ['a type of 256 characters', { type: 'x'.repeat(256), id: '1' }, 'model.type'],
  ])('refuses %s', async (_, ref, argument) => {
    for (const attempt of [
      () => integration.mapExternalId('x', ref),
      () => integration.remapExternalId('x', ref),
      () => integration.findExternalId(ref),
    ])
      await expect(attempt()).rejects.toMatchObject({ code: 'invalid_argument', argument })
    expect(await mappings()).toEqual([])
  })

  it.each([
    ['a row without its key', {}],
    ['null', null],
    ['undefined', undefined],
  ])('refuses %s for a model', (_, row) => {
    expect(() => model.of(row as never)).toThrow(
      expect.objectContaining({ code: 'invalid_argument', argument: 'model' }),
    )
  })

  it('refuses a key that its column in mode "number" would round to another row’s', async () => {
    await integration.mapExternalId('x', { type: model.type, id: '9007199254740993' })
    await expect(integration.resolveMapping('x', model)).rejects.toMatchObject({
      code: 'invalid_argument',
      reason: expect.stringContaining('bigint'),
    })
  })

  it.each([
    ['smallint', smallint('id'), ['32767', '-32768'], ['32768', '-32769', '1.5', '1e5']],
    ['integer', integer('id'), ['2147483647', '-2147483648'], ['2147483648', '-2147483649', '1.5', 'a']],
    ['bigint', bigint('id', { mode: 'number' }), ['9007199254740991', '-5'], ['9223372036854775808', '1e30', '0.5']],
    [
      'bigint',
      bigint('id', { mode: 'bigint' }),
      ['9223372036854775807', '-9223372036854775808'],
      ['9223372036854775808', '-9223372036854775809', 'a', '', '1.5', '99999999999999999999999'],
    ],
    [
      'uuid',
      uuid('id'),
      ['0192f0c1-7a3b-7c4d-8e5f-000000000001'],
      ['legacy-7', '0192f0c1-7a3b-7c4d-8e5f-00000000000g', '0192f0c1'],
    ],
  ] as const)(
    'resolves keys within the range of a %s, and leaves the others alone unresolved',
    async (type, id, keys, beyond) => {
      const table = pgTable('ranges', { id: id.primaryKey() })
      const ranges = mappedTable(table, { type: 'range' })
      await test.sql.unsafe(`create table ranges (id ${type} primary key)`)
      onTestFinished(async () => {
        await test.sql`drop table ranges`
      })
      for (const key of keys) await test.sql.unsafe(`insert into ranges values ('${key}')`)
      const all = [...keys, ...beyond].filter((key) => key !== '')
      for (const key of all) await integration.mapExternalId(`of ${key}`, { type: ranges.type, id: key })
      const found = await integration.resolveMappings(
        all.map((key) => `of ${key}`),
        ranges,
      )
      expect([...found.values()].map((row) => (row === null ? null : String(row.id)))).toEqual(
        all.map((key) => ((keys as readonly string[]).includes(key) ? key : null)),
      )
      for (const key of beyond) expect(await ranges.find(test.framework.db, key)).toBeNull()
    },
  )

  it('of one id to many models at the same moment has one holder, whom all others are told', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 16 }, (_, n) =>
        integration.mapExternalId('x', model.of(n + 1)).then(
          () => String(n + 1),
          (error: { claimedBy: string }) => error,
        ),
      ),
    )
    const [holder, ...others] = outcomes.filter((outcome) => typeof outcome === 'string')
    expect(others).toEqual([])
    expect(await mappings()).toEqual([['x', holder]])
    for (const outcome of outcomes)
      if (typeof outcome !== 'string')
        expect(outcome).toMatchObject({ code: 'mapping_already_claimed', claimedBy: holder })
  })

  it('takes numbers as texts, up to 500 characters', async () => {
    await integration.mapExternalId(42, model.of(1))
    await integration.mapExternalId('42', model.of(1))
    await integration.mapExternalId('😀'.repeat(500), model.of(1))
    expect((await mappings()).map(([id]) => id)).toEqual(['42', '😀'.repeat(500)])
  })

  it('findExternalId() gives the oldest', async () => {
    await integration.mapExternalId('first', model.of(7))
    await integration.mapExternalId('second', model.of(7))
    expect(await integration.findExternalId(model.of(7))).toBe('first')
    expect(await integration.findExternalId(model.of(8))).toBeNull()
  })
})

describe('remapping', () => {
  it('creates or re-points, and logs both ids when something changed', async () => {
    await integration.remapExternalId('x', model.of(1))
    await integration.remapExternalId('x', model.of(2))
    await integration.remapExternalId('x', model.of(2))
    expect(await mappings()).toEqual([['x', '2']])
    expect((await logsOf(test, integration.id, 'remap')).map((log) => [log.externalId, log.metadata])).toEqual([
      ['x', { internal_type: 'note', from: null, to: '1' }],
      ['x', { internal_type: 'note', from: '1', to: '2' }],
    ])
  })
})

describe('remapping by many at once', () => {
  it('leaves the last one as holder, and each log row names who held it before', async () => {
    await Promise.all(Array.from({ length: 12 }, (_, n) => integration.remapExternalId('x', model.of(n + 1))))
    const logged = (await logsOf(test, integration.id, 'remap')).map(
      (log) => log.metadata as { from: string; to: string },
    )
    const steps = new Map(logged.map(({ from, to }) => [from, to]))
    // Each one was held once and left once: so they are one chain, from nobody to the holder.
    expect(steps.size).toBe(12)
    let holder = null as never
    for (let at = steps.get(holder); at !== undefined; at = steps.get(holder)) holder = at as never
    expect(await mappings()).toEqual([['x', holder]])
  })
})

describe('upserting', () => {
  it('creates once, then updates what is there', async () => {
    const made = await integration.upsertByExternalId('x', model, { text: 'first' })
    const again = await integration.upsertByExternalId('x', model, { text: 'second' })
    expect(again).toEqual({ id: made.id, text: 'second' })
    expect(await mappings()).toEqual([['x', String(made.id)]])
  })

  it('hands the existing row to a function', async () => {
    const attributes = vi.fn((existing: { text: string } | null) => ({ text: `${existing?.text ?? ''}+` }))
    await integration.upsertByExternalId('x', model, attributes)
    await integration.upsertByExternalId('x', model, async (existing) => attributes(existing))
    expect(attributes.mock.calls.map(([existing]) => existing?.text ?? null)).toEqual([null, '+'])
  })

  it('re-points a mapping whose row is gone to a new one', async () => {
    const gone = await integration.upsertByExternalId('x', model, { text: 'a' })
    await test.sql`delete from notes where id = ${gone.id}`
    const made = await integration.upsertByExternalId('x', model, { text: 'b' })
    expect(made.id).not.toBe(gone.id)
    expect(await mappings()).toEqual([['x', String(made.id)]])
  })

  it('16 at once make one row and one mapping', async () => {
    const made = await Promise.all(
      Array.from({ length: 16 }, (_, n) => integration.upsertByExternalId('x', model, { text: String(n) })),
    )
    expect(new Set(made.map(({ id }) => id)).size).toBe(1)
    expect(await test.sql`select id from notes`).toHaveLength(1)
    expect(await mappings()).toHaveLength(1)
  })

  it('that loses the claim takes its own row back and updates the winner‘s', async () => {
    const winner = await note('of the winner')
    let raced = false
    // Somebody whose lock overlaps ours (its time ran out) claims the id between our look and our claim.
    const racing = {
      ...model,
      create: async (...given: Parameters<typeof model.create>) => {
        const row = await model.create(...given)
        if (!raced)
          await test.sql`insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
            values (${integration.id}, 'x', 'note', ${winner})`
        raced = true
        return row
      },
    }
    expect(await integration.upsertByExternalId('x', racing, { text: 'ours' })).toEqual({ id: winner, text: 'ours' })
    expect(await test.sql`select id from notes`).toHaveLength(1)
  })

  it('that loses a mapping whose row is gone takes its own row back and updates the winner‘s', async () => {
    const gone = await integration.upsertByExternalId('x', model, { text: 'gone' })
    await test.sql`delete from notes where id = ${gone.id}`
    const winner = await note('of the winner')
    let raced = false
    const racing = {
      ...model,
      create: async (...given: Parameters<typeof model.create>) => {
        const row = await model.create(...given)
        if (!raced) await test.sql`update integration_mappings set internal_id = ${winner} where external_id = 'x'`
        raced = true
        return row
      },
    }
    expect(await integration.upsertByExternalId('x', racing, { text: 'ours' })).toEqual({ id: winner, text: 'ours' })
    expect(await test.sql`select id from notes`).toHaveLength(1)
    expect(await mappings()).toEqual([['x', String(winner)]])
  })

  it('makes a new row when the old one is deleted between the look and the update', async () => {
    const old = await integration.upsertByExternalId('x', model, { text: 'old' })
    let looks = 0
    const made = await integration.upsertByExternalId('x', model, async (existing) => {
      looks += 1
      if (existing !== null) await test.sql`delete from notes where id = ${old.id}`
      return { text: 'new' }
    })
    expect([made.text, looks]).toEqual(['new', 2])
    expect(made.id).not.toBe(old.id)
    expect(await mappings()).toEqual([['x', String(made.id)]])
  })

  it('gives the row back where the model’s update() gives none', async () => {
    const made = await integration.upsertByExternalId('x', model, { text: 'a' })
    const silent = {
      ...model,
      update: async (...given: Parameters<typeof model.update>) => void (await model.update(...given)),
    }
    const updated = await integration.upsertByExternalId('x', silent as never as typeof model, { text: 'b' })
    expect(updated).toEqual({ id: made.id, text: 'b' })
  })

  it('with nothing to change leaves the row as it is', async () => {
    const made = await integration.upsertByExternalId('x', model, { text: 'a' })
    expect(await integration.upsertByExternalId('x', model, {})).toEqual(made)
    expect(await integration.upsertByExternalId('x', model, () => ({ text: undefined }) as never)).toEqual(made)
  })

  it('past the end of its lock lets others go on, and ends with the row that they made', async () => {
    const hasty = testIntegrations(database.url, { providers: { plain: {} }, config: { mappings: { lock_ttl: 1 } } })
    try {
      const own = await makeIntegration(hasty, 'plain')
      const [made, end] = [occasion(), occasion()]
      const slow = {
        ...model,
        create: async (...given: Parameters<typeof model.create>) => {
          const row = await model.create(...given)
          made.happen()
          await end.happened
          return row
        },
      }
      const late = own.upsertByExternalId('x', slow, { text: 'late' })
      await made.happened
      const first = await own.upsertByExternalId('x', model, { text: 'first' })
      end.happen()
      expect(await late).toEqual({ id: first.id, text: 'late' })
      expect(await test.sql`select id from notes`).toHaveLength(1)
      expect(await mappings()).toEqual([['x', String(first.id)]])
    } finally {
      await hasty.close()
    }
  })

  it('leaves neither row nor mapping when the attributes can not be made', async () => {
    const broken = () => {
      throw new Error('no attributes')
    }
    await expect(integration.upsertByExternalId('x', model, broken)).rejects.toThrow('no attributes')
    expect([await mappings(), [...(await test.sql`select 1 from notes`)]]).toEqual([[], []])
    await integration.upsertByExternalId('x', model, { text: 'the lock was given back' })
  })
})

describe('resolving', () => {
  it('has every asked id in the map: a row, or null where there is none or it is gone', async () => {
    const [here, gone] = [
      await integration.upsertByExternalId('here', model, { text: 'a' }),
      await integration.upsertByExternalId('gone', model, { text: 'b' }),
    ]
    await test.sql`delete from notes where id = ${gone.id}`
    const found = await integration.resolveMappings(['gone', 'here', 'never', 'here', 7], model)
    expect([...found]).toEqual([
      ['gone', null],
      ['here', here],
      ['never', null],
      ['7', null],
    ])
    expect(await integration.resolveMappings([], model)).toEqual(new Map())
    expect([await integration.resolveMapping('here', model), await integration.resolveMapping('gone', model)]).toEqual([
      here,
      null,
    ])
  })
})

describe('a mapping to a key that is no number', () => {
  it('stands for no row, and the other ids of the call have theirs', async () => {
    const here = await integration.upsertByExternalId('here', model, { text: 'a' })
    await integration.mapExternalId('odd', { type: 'note', id: 'abc' })
    expect([...(await integration.resolveMappings(['odd', 'here'], model))]).toEqual([
      ['odd', null],
      ['here', here],
    ])
    expect(await integration.resolveMapping('odd', model)).toBeNull()
    const made = await integration.upsertByExternalId('odd', model, { text: 'b' })
    expect(await integration.resolveMapping('odd', model)).toEqual(made)
  })
})

describe('resolving many', () => {
  it('takes more ids than a statement has parameters', async () => {
    const made = await integration.upsertByExternalId('here', model, { text: 'a' })
    const found = await integration.resolveMappings([...Array.from({ length: 66_000 }, (_, n) => n), 'here'], model)
    expect(found.size).toBe(66_001)
    expect([found.get('0'), found.get('65999'), found.get('here')]).toEqual([null, null, made])
  })
})

describe('a mapped table in another database', () => {
  it('loses the row again whose claim was lost', async () => {
    const elsewhere = await createTestDatabase()
    const far = connect({ database: elsewhere.url })
    try {
      await far.sql`create table notes (id bigint primary key generated always as identity, text text not null)`
      const distant = mappedTable(notes, { type: 'note', db: far.db })
      const [winner] = await far.sql`insert into notes (text) values ('of the winner') returning id`
      const racing = {
        ...distant,
        create: async (...given: Parameters<typeof model.create>) => {
          const row = await distant.create(...given)
          await test.sql`insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
            values (${integration.id}, 'x', 'note', ${winner?.id})`
          return row
        },
      }
      expect(await integration.upsertByExternalId('x', racing, { text: 'ours' })).toEqual({
        id: winner?.id,
        text: 'ours',
      })
      expect(await far.sql`select id from notes`).toEqual([{ id: winner?.id }])
      expect(await integration.resolveMapping('x', distant)).toEqual({ id: winner?.id, text: 'ours' })
      expect(await test.sql`select id from notes`).toHaveLength(0)
    } finally {
      await far.close()
      await elsewhere.drop()
    }
  })
})

describe('a mapped table', () => {
  const composite = pgTable('composite', { a: integer('a'), b: integer('b') }, (t) => [
    primaryKey({ columns: [t.a, t.b] }),
  ])
  const keyless = pgTable('keyless', { code: text('code') })

  it('without a type of its own has the name under which it is registered', async () => {
    const unnamed = mappedTable(notes)
    const own = testIntegrations(database.url, { providers: { plain: {} }, models: { remark: unnamed } })
    try {
      expect([unnamed.type, unnamed.of(5)]).toEqual(['remark', { type: 'remark', id: '5' }])
      const at = await own.integrations.get(integration.id)
      const { id } = await at.upsertByExternalId('x', unnamed, { text: 'a' })
      const [row] = await test.sql`select internal_type, internal_id from integration_mappings`
      expect(row).toEqual({ internal_type: 'remark', internal_id: String(id) })
      expect(await own.integrations.admin.findOrphans({ model: 'remark' })).toMatchObject({ scanned: 1, orphans: 0 })
      expect(() => testIntegrations(database.url, { models: { other: unnamed } })).toThrow(
        'the model under its own type, which is "remark"',
      )
    } finally {
      await own.close()
    }
  })

  it('without a type of its own has one name only', () => {
    const unnamed = mappedTable(notes)
    expect(() => testIntegrations(database.url, { models: { a: unnamed, b: unnamed } })).toThrow(
      'the model under its own type, which is "a"',
    )
    expect(unnamed.type).toBe('notes')
  })

  it('finds its key, its type is its name unless told', () => {
    expect(mappedTable(notes).of({ id: 5, text: '' })).toEqual({ type: 'notes', id: '5' })
    expect(mappedTable(notes, { type: 'note' }).of('5')).toEqual({ type: 'note', id: '5' })
    expect(mappedTable(keyless, { key: 'code' }).of({ code: 'c' })).toEqual({ type: 'keyless', id: 'c' })
  })

  it.each([
    ['a composite key', () => mappedTable(composite)],
    ['no key', () => mappedTable(keyless)],
    ['a key that is no column', () => mappedTable(notes, { key: 'nope' })],
    ['a key of JS dates', () => mappedTable(pgTable('days', { day: date('day', { mode: 'date' }).primaryKey() }))],
    ['a key of booleans', () => mappedTable(pgTable('flags', { flag: boolean('flag').primaryKey() }))],
    ['a key of JSON', () => mappedTable(pgTable('bags', { bag: json('bag') }), { key: 'bag' })],
    ['no such column for createdAt', () => mappedTable(notes, { createdAt: 'madeAt' })],
  ])('with %s is refused', (_, make) => {
    expect(make).toThrow(expect.objectContaining({ code: 'invalid_argument', argument: 'table' }))
  })

  it('is scanned in key order, page by page', async () => {
    const ids = [await note('a'), await note('b'), await note('c')].map(String)
    const page = await model.scan(host.db, null, 2)
    expect(page).toEqual(ids.slice(0, 2).map((id) => ({ id, createdAt: null })))
    expect((await model.scan(host.db, ids[1] as string, 2)).map(({ id }) => id)).toEqual(ids.slice(2))
  })

  it.each([
    ['uuid', uuid('id').primaryKey(), ['00000000-0000-0000-0000-00000000000a', 'ffffffff-0000-0000-0000-000000000000']],
    ['bigint', bigint('id', { mode: 'bigint' }).primaryKey(), ['9', '10', '9007199254740993']],
    ['text', text('id').primaryKey(), ['B', 'a', 'ä']],
    ['date', date('id', { mode: 'string' }).primaryKey(), ['2031-06-01', '2031-10-01']],
  ])('with a key of type %s is written, found and scanned by it', async (type, key, ids) => {
    const keyed = mappedTable(pgTable('keyed', { id: key as never, note: text('note') }))
    await test.sql.unsafe(`create table keyed (id ${type} primary key, note text)`)
    try {
      for (const id of ids) {
        const made = await integration.upsertByExternalId(id, keyed, { id, note: 'a' } as never)
        expect(keyed.of(made)).toEqual({ type: 'keyed', id })
        const changed = await integration.upsertByExternalId(id, keyed, { note: 'b' } as never)
        expect(changed).toEqual({ ...made, note: 'b' })
        expect(await integration.resolveMapping(id, keyed)).toEqual(changed)
      }
      const scanned: string[] = []
      for (let page = await keyed.scan(host.db, null, 1); page.length > 0; ) {
        scanned.push(...page.map(({ id }) => id))
        page = await keyed.scan(host.db, scanned.at(-1) as string, 1)
      }
      expect(scanned.toSorted()).toEqual(ids.toSorted())
    } finally {
      await test.sql`drop table keyed`
    }
  })

  it('leaves rows without a key out of the scan', async () => {
    await test.sql`create table keyless (code text unique)`
    try {
      await test.sql`insert into keyless values ('a'), (null), (null), ('b')`
      const { scan } = mappedTable(keyless, { key: 'code' })
      const idsAfter = async (after: string | null) => (await scan(host.db, after, 9)).map(({ id }) => id)
      expect([await idsAfter(null), await idsAfter('a'), await idsAfter('b')]).toEqual([['a', 'b'], ['b'], []])
    } finally {
      await test.sql`drop table keyless`
    }
  })

  it('knows no JS date for infinity', async () => {
    await test.sql`create table dated (id int primary key, made timestamptz)`
    try {
      await test.sql`insert into dated values (1, 'infinity')`
      const made = timestamp('made', { withTimezone: true })
      const dated = mappedTable(pgTable('dated', { id: integer('id').primaryKey(), createdAt: made }))
      expect(await dated.scan(host.db, null, 9)).toEqual([{ id: '1', createdAt: null }])
    } finally {
      await test.sql`drop table dated`
    }
  })

  it.each([
    ['timestamptz', timestamp('made', { withTimezone: true })],
    ['timestamptz', timestamp('made', { withTimezone: true, mode: 'string' })],
    ['timestamp', timestamp('made')],
    ['timestamp', timestamp('made', { mode: 'string' })],
  ])('says when a row was made, from a %s of whichever mode', async (type, made) => {
    await test.sql.unsafe(`create table dated (id int primary key, made ${type})`)
    try {
      await test.sql`insert into dated values (1, '2031-06-01 12:00:00.123+00'), (2, null)`
      const dated = mappedTable(pgTable('dated', { id: integer('id').primaryKey(), madeAt: made }), {
        createdAt: 'madeAt',
      })
      expect((await dated.scan(host.db, null, 9)).map(({ createdAt }) => createdAt?.toISOString() ?? null)).toEqual([
        '2031-06-01T12:00:00.123Z',
        null,
      ])
    } finally {
      await test.sql`drop table dated`
    }
  })
})

describe('inside a host‘s transaction', () => {
  const locks = () => test.sql`select key from integration_cache where key like '%lock:mapping%'`

  it('record and mapping come with its commit, and go with its rollback', async () => {
    const { transaction } = test.integrations
    await transaction(() => integration.upsertByExternalId('x', model, { text: 'kept' }))
    await expect(
      transaction(async () => {
        await integration.upsertByExternalId('x', model, { text: 'changed' })
        await integration.upsertByExternalId('y', model, { text: 'new' })
        await integration.mapExternalId('z', model.of(1))
        await integration.remapExternalId('x', model.of(2))
        throw new Error('enough')
      }),
    ).rejects.toThrow('enough')
    expect(await test.sql`select text from notes`).toEqual([{ text: 'kept' }])
    expect(await mappings()).toEqual([['x', '1']])
    expect(await locks()).toEqual([])
  })

  it('sees what it has written itself, and may write it again', async () => {
    await test.integrations.transaction(async () => {
      const made = await integration.upsertByExternalId('x', model, { text: 'a' })
      await integration.mapExternalId('x', model.of(made))
      expect(await integration.resolveMapping('x', model)).toEqual(made)
      expect(await integration.findExternalId(model.of(made))).toBe('x')
      expect(await integration.upsertByExternalId('x', model, { text: 'b' })).toEqual({ ...made, text: 'b' })
      expect(await mappings()).toEqual([])
    })
    expect(await mappings()).toEqual([['x', '1']])
  })

  it('several at once share its connection, one after the other', async () => {
    const ids = Array.from({ length: 5 }, (_, n) => `x${n}`)
    await test.integrations.transaction(() =>
      Promise.all([...ids, ...ids].map((text) => integration.upsertByExternalId(text, model, { text }))),
    )
    expect((await mappings()).map(([id]) => id).toSorted()).toEqual(ids)
  })

  it('one that fails takes only its own writes back, if the host goes on', async () => {
    await test.integrations.transaction(async () => {
      await integration.upsertByExternalId('x', model, { text: 'a' })
      await expect(integration.upsertByExternalId('y', model, { text: null as never })).rejects.toThrow('null value')
      await integration.upsertByExternalId('z', model, { text: 'c' })
    })
    expect((await mappings()).map(([id]) => id)).toEqual(['x', 'z'])
  })

  it('more transactions than connections do not wait for each other', async () => {
    const small = testIntegrations(database.url, { providers: { plain: {} }, pool: { max: 2 } })
    try {
      const own = await makeIntegration(small, 'plain')
      const work = (n: number) =>
        small.integrations.transaction(() => own.upsertByExternalId(`x${n}`, model, { text: `${n}` }))
      await Promise.all([0, 1, 2, 3, 4].map(work))
    } finally {
      await small.close()
    }
    expect(await mappings()).toHaveLength(5)
  })

  it('keeps the lock to its end: whoever waits finds the committed record', async () => {
    const [written, end] = [occasion(), occasion()]
    const transaction = test.integrations.transaction(async () => {
      await integration.upsertByExternalId('x', model, { text: 'first' })
      written.happen()
      await end.happened
    })
    await written.happened
    expect(await locks()).toHaveLength(1)
    const seen: unknown[] = []
    const second = integration.upsertByExternalId('x', model, (existing) => {
      seen.push(existing?.text)
      return { text: 'second' }
    })
    end.happen()
    await transaction
    await second
    expect(seen).toEqual(['first'])
    expect(await test.sql`select text from notes`).toEqual([{ text: 'second' }])
    expect(await locks()).toEqual([])
  })

  it('a lock that another holder keeps is waited for, then the host may go on', async () => {
    const impatient = testIntegrations(database.url, {
      providers: { plain: {} },
      config: { mappings: { lock_wait: 0 } },
    })
    try {
      const own = await makeIntegration(impatient, 'plain')
      const [inside, end] = [occasion(), occasion()]
      const holder = own.upsertByExternalId('x', model, async () => {
        inside.happen()
        await end.happened
        return { text: 'held' }
      })
      await inside.happened
      await impatient.integrations.transaction(async () => {
        const late = () => own.upsertByExternalId('x', model, { text: 'late' })
        await expect(late()).rejects.toMatchObject({ code: 'lock_timeout' })
        end.happen()
        await holder
        expect(await late()).toMatchObject({ text: 'late' })
      })
    } finally {
      await impatient.close()
    }
  })
})

async function note(content: string): Promise<number> {
  const [row] = await test.sql`insert into notes (text) values (${content}) returning id`
  return Number(row?.id)
}

async function mappings(): Promise<string[][]> {
  const rows = await test.sql`select external_id, internal_id from integration_mappings order by id`
  return rows.map((row) => [String(row.external_id), String(row.internal_id)])
}
