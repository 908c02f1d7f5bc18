/** External ids and the host's models behind them. */
import { bigint, integer, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { mappedTable } from '../../src/operations/mapped-table.ts'
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
  host = connect({ database: database.url })
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

describe('a mapped table', () => {
  const composite = pgTable('composite', { a: integer('a'), b: integer('b') }, (t) => [
    primaryKey({ columns: [t.a, t.b] }),
  ])
  const keyless = pgTable('keyless', { code: text('code') })

  it('finds its key, its type is its name unless told', () => {
    expect(mappedTable(notes).of({ id: 5, text: '' })).toEqual({ type: 'notes', id: '5' })
    expect(mappedTable(notes, { type: 'note' }).of('5')).toEqual({ type: 'note', id: '5' })
    expect(mappedTable(keyless, { key: 'code' }).of({ code: 'c' })).toEqual({ type: 'keyless', id: 'c' })
  })

  it.each([
    ['a composite key', () => mappedTable(composite)],
    ['no key', () => mappedTable(keyless)],
    ['a key that is no column', () => mappedTable(notes, { key: 'nope' })],
  ])('with %s is refused', (_, make) => {
    expect(make).toThrow(expect.objectContaining({ code: 'invalid_argument', argument: 'table' }))
  })

  it('is scanned in key order, page by page', async () => {
    const ids = [await note('a'), await note('b'), await note('c')].map(String)
    const page = await model.scan(host.db, null, 2)
    expect(page).toEqual(ids.slice(0, 2).map((id) => ({ id, createdAt: null })))
    expect((await model.scan(host.db, ids[1] as string, 2)).map(({ id }) => id)).toEqual(ids.slice(2))
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
