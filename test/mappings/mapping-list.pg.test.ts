/** Mappings as an operator lists and changes them. Rule: docs/behaviour/mappings.md, "Looking" and "Acts". */
import { bigint, integer, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { mappedTable } from '../../src/mappings/mapped-table.ts'
import type { ListMappings } from '../../src/mappings/mapping-list.ts'
import { pageOfMappings } from '../../src/mappings/mapping-list.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { logsOf, makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const OWNER = { type: 'team', id: 7 }
const NOBODY = 9_999_999_999

const table = (name: string) => pgTable(name, { id: bigint('id', { mode: 'number' }).primaryKey(), text: text('text') })
const visits = pgTable('visits', { id: integer('id').primaryKey(), text: text('text') })
const people = pgTable('people', { id: uuid('id').primaryKey(), text: text('text') })
const models = {
  visit: mappedTable(visits, { type: 'visit' }),
  person: mappedTable(people, { type: 'person' }),
  note: mappedTable(table('notes'), { type: 'note' }),
  task: mappedTable(table('tasks'), { type: 'task' }),
}

let database: TestDatabase
let test: TestIntegrations
let ours: Integration
let others: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {}, other: {} }, models })
  await test.sql`create table visits (id int primary key, text text)`
  await test.sql`create table people (id uuid primary key, text text)`
  for (const name of ['notes', 'tasks']) {
    await test.sql`create table ${test.sql(name)} (id bigint primary key, text text)`
    await test.sql`insert into ${test.sql(name)} select n from generate_series(1, 9) n`
  }
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`truncate integration_audit`
  ours = await makeIntegration(test, 'plain', { name: 'ours', owner: OWNER })
  others = await makeIntegration(test, 'other')
})

async function mapped(integration: Integration, externalId: string, type: string, id: string): Promise<number> {
  await integration.mapExternalId(externalId, { type, id })
  const [row] = await test.sql`select max(id) as id from integration_mappings`
  return Number(row?.id)
}

async function idsOf(filter: ListMappings = {}): Promise<number[]> {
  const ids: number[] = []
  for await (const { id } of test.integrations.admin.mappings.list(filter)) ids.push(id)
  return ids
}

async function acts(): Promise<unknown[]> {
  return [...(await test.sql`select actor, action, target, origin, detail, integration_id from integration_audit`)]
}

describe('the list of mappings', () => {
  it('goes both ways: from an external id to the rows, from a row to its external ids', async () => {
    const a = await mapped(ours, 'x', 'note', '1')
    const b = await mapped(ours, 'x', 'task', '1')
    const c = await mapped(others, 'x', 'note', '1')
    const d = await mapped(ours, 'y', 'note', '1')
    const e = await mapped(others, 'z', 'note', '2')
    expect(await idsOf()).toEqual([e, d, c, b, a])
    expect(await idsOf({ externalId: 'x' })).toEqual([c, b, a])
    expect(await idsOf({ externalId: 'x', provider: 'plain' })).toEqual([b, a])
    expect(await idsOf({ externalId: 'x', internalType: 'note' })).toEqual([c, a])
    expect(await idsOf({ externalId: 'X' })).toEqual([])
    expect(await idsOf({ internalType: 'note', internalId: '1' })).toEqual([d, c, a])
    expect(await idsOf({ internalType: 'note', internalId: '1', owner: OWNER })).toEqual([d, a])
    expect(await idsOf({ internalType: 'note', integrationId: others.id })).toEqual([e, c])
    expect(await idsOf({ owner: OWNER })).toEqual([d, b, a])
    expect(await idsOf({ integrationId: ours.id, after: d, limit: 1 })).toEqual([b])
    expect(await test.integrations.admin.mappings.get(a)).toMatchObject({
      ...{ id: a, integrationId: ours.id, provider: 'plain', integrationName: 'ours', externalId: 'x' },
      ...{ internalType: 'note', internalId: '1' },
    })
  })

  it('is of a period: since inclusive, until exclusive', async () => {
    const ids = [
      await mapped(ours, 'x', 'note', '1'),
      await mapped(others, 'y', 'note', '2'),
      await mapped(ours, 'z', 'note', '3'),
    ]
    const at = (hour: number) => new Date(Date.UTC(2031, 0, 1, hour))
    for (const [hour, id] of ids.entries())
      await test.sql`update integration_mappings set created_at = ${at(hour)} where id = ${id}`
    const [first, second, third] = ids as [number, number, number]
    expect(await idsOf({ since: at(1) })).toEqual([third, second])
    expect(await idsOf({ until: at(1) })).toEqual([first])
    expect(await idsOf({ since: at(0), until: at(2) })).toEqual([second, first])
    expect(await idsOf({ since: at(0), until: at(2), integrationId: ours.id })).toEqual([first])
    expect(await idsOf({ since: at(1), externalId: 'x' })).toEqual([])
    expect(await idsOf({ since: at(2), internalType: 'note', internalId: '3' })).toEqual([third])
    expect(await idsOf({ since: at(3) })).toEqual([])
  })

  it('is of any length, each mapping once', async () => {
    await test.sql`insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
      select ${ours.id}, n, 'note', '1' from generate_series(1, 250) n`
    for (const filter of [{}, { integrationId: ours.id }, { internalType: 'note', internalId: '1' }])
      expect(new Set(await idsOf(filter))).toHaveProperty('size', 250)
  })

  it('reads a page of an integration’s rows, however many there are', async () => {
    await test.sql`insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
      select case when n <= 20000 then ${ours.id}::bigint else ${others.id}::bigint end, n, 'note', '1'
      from generate_series(1, 40000) n`
    await test.sql`vacuum analyze integration_mappings`
    const { db, tables } = test.framework
    const page = pageOfMappings(db, tables, { integrationId: ours.id }, { below: undefined, limit: 10 })
    const { sql: query, params } = page.toSQL()
    const [plan] = await test.sql.unsafe(`explain (analyze, buffers, format json) ${query}`, params as never[])
    const top = plan?.['QUERY PLAN'][0].Plan
    expect(top['Shared Hit Blocks'] + top['Shared Read Blocks']).toBeLessThan(150)
  })

  it.each<[string, Record<string, unknown>]>([
    ['integrationId', { integrationId: 0 }],
    ['externalId', { externalId: '' }],
    ['internalId', { internalId: '1' }],
    ['internalType', { internalType: 'note' }],
    ['owner', { owner: null }],
    ['limit', { limit: 0 }],
    ['since', { since: 'yesterday' }],
    ['until', { since: new Date(2), until: new Date(1) }],
  ])('refuses a bad %s at once', (argument, filter) => {
    expect(() => test.integrations.admin.mappings.list(filter)).toThrow(expect.objectContaining({ argument }))
  })
})

describe('an act on a mapping', () => {
  const by = { by: 'ada', from: '10.0.0.7' }

  it('points the external id at another row, and is written down', async () => {
    const id = await mapped(ours, 'x', 'note', '1')
    const after = await test.integrations.admin.mappings.repoint(id, { internalId: '2', ...by })
    expect(after).toMatchObject({ id, externalId: 'x', internalType: 'note', internalId: '2', provider: 'plain' })
    expect(await ours.findExternalId({ type: 'note', id: '2' })).toBe('x')
    expect(await acts()).toEqual([
      {
        ...{ actor: 'ada', action: 'repoint-mapping', target: `mapping:${id}`, origin: '10.0.0.7' },
        ...{ detail: 'from note 1 to note 2', integration_id: String(ours.id) },
      },
    ])
    expect(await logsOf(test, ours.id, 'remap')).toMatchObject([
      { externalId: 'x', metadata: { internal_type: 'note', from: '1', to: '2', by: 'ada' } },
    ])
  })

  it('stores the key as its row spells it, however it was typed', async () => {
    const id = await mapped(ours, 'x', 'note', '1')
    expect(await test.integrations.admin.mappings.repoint(id, { internalId: '002', ...by })).toMatchObject({
      internalId: '2',
    })
    expect(await acts()).toMatchObject([{ detail: 'from note 1 to note 2' }])
    expect(await test.integrations.admin.mappings.repoint(id, { internalId: '02', ...by })).toMatchObject({
      internalId: '2',
    })
    expect(await acts()).toHaveLength(1)
  })

  it('points it at a row of another model, unless it has a row there already', async () => {
    const id = await mapped(ours, 'x', 'note', '1')
    const { repoint } = test.integrations.admin.mappings
    expect(await repoint(id, { internalType: 'task', internalId: '3', ...by })).toMatchObject({ internalType: 'task' })
    const second = await mapped(ours, 'x', 'note', '1')
    await expect(repoint(second, { internalType: 'task', internalId: '4', ...by })).rejects.toMatchObject({
      ...{ code: 'mapping_already_claimed', externalId: 'x', internalType: 'task', claimedBy: '3', requestedBy: '4' },
    })
    expect(await acts()).toHaveLength(1)
  })

  it('is refused where another connection claims the external id at the same moment', async () => {
    const id = await mapped(ours, 'x', 'note', '1')
    const { repoint, get } = test.integrations.admin.mappings
    let act: Promise<unknown> = Promise.resolve()
    await test.sql.begin(async (tx) => {
      await tx`insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
        values (${ours.id}, 'x', 'task', '3')`
      act = repoint(id, { internalType: 'task', internalId: '4', ...by }).catch((error: unknown) => error)
      await vi.waitFor(async () => {
        const waiting = await tx`
          select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        expect(waiting).toHaveLength(1)
      }, SOON)
    })
    expect(await act).toMatchObject({
      ...{ code: 'mapping_already_claimed', externalId: 'x', internalType: 'task', claimedBy: '3', requestedBy: '4' },
    })
    expect(await get(id)).toMatchObject({ internalType: 'note', internalId: '1' })
    expect(await acts()).toEqual([])
  })

  it('is refused for a row that is not there, a model that is not registered, and changes nothing at the same row', async () => {
    const id = await mapped(ours, 'x', 'note', '1')
    const { repoint, get } = test.integrations.admin.mappings
    await expect(repoint(id, { internalId: '77', ...by })).rejects.toMatchObject({
      ...{ code: 'mapped_row_not_found', model: 'note', internalId: '77' },
    })
    await expect(repoint(id, { internalType: 'gone', internalId: '1', ...by })).rejects.toMatchObject({
      ...{ argument: 'model', reason: expect.stringContaining('note, task') },
    })
    await expect(repoint(id, { internalId: '2', by: '' })).rejects.toMatchObject({ argument: 'by' })
    await expect(repoint(NOBODY, { internalId: '2', ...by })).rejects.toMatchObject({ code: 'mapping_not_found' })
    expect(await repoint(id, { internalId: '1', ...by })).toEqual(await get(id))
    expect([(await get(id)).internalId, await acts()]).toEqual(['1', []])
  })

  it.each([
    ['note', 'abc'],
    ['note', ' '],
    ['visit', '3000000000'],
    ['person', 'abc'],
  ])('is refused for a key that the column of the model %s can not hold: "%s"', async (internalType, internalId) => {
    const id = await mapped(ours, 'x', 'note', '1')
    const { repoint, get } = test.integrations.admin.mappings
    await expect(repoint(id, { internalType, internalId, ...by })).rejects.toMatchObject({
      ...{ code: 'mapped_row_not_found', model: internalType, internalId },
    })
    expect(await get(id)).toMatchObject({ internalType: 'note', internalId: '1' })
  })

  it('of two at once one comes after the other: each says what it has changed', async () => {
    const id = await mapped(ours, 'x', 'note', '1')
    const { repoint, get } = test.integrations.admin.mappings
    await Promise.all(['2', '3', '4'].map((internalId) => repoint(id, { internalId, ...by })))
    const details = ((await acts()) as { detail: string }[]).map(({ detail }) => /from (.*) to (.*)/.exec(detail))
    const froms = details.map((found) => found?.[1])
    const tos = details.map((found) => found?.[2])
    expect([...froms, `note ${(await get(id)).internalId}`].toSorted()).toEqual([...tos, 'note 1'].toSorted())
  })

  it('forgets a mapping: its external id is free, and its row stays', async () => {
    const id = await mapped(ours, 'x', 'note', '1')
    const { forget, get } = test.integrations.admin.mappings
    expect(await forget(id, by)).toMatchObject({ id, externalId: 'x', internalId: '1' })
    await expect(get(id)).rejects.toMatchObject({ code: 'mapping_not_found', id })
    await expect(forget(id, by)).rejects.toMatchObject({ code: 'mapping_not_found', id })
    await ours.mapExternalId('x', { type: 'note', id: '2' })
    expect(await test.sql`select from notes where id = 1`).toHaveLength(1)
    expect(await acts()).toMatchObject([{ action: 'forget-mapping', detail: 'from note 1 to nothing' }])
    expect(await logsOf(test, ours.id, 'remap')).toMatchObject([{ metadata: { from: '1', to: null, by: 'ada' } }])
  })
})
