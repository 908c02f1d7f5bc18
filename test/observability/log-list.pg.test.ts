/** The operation logs as they are listed, and as a tree. Rule: docs/behaviour/operations.md, "Looking". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Tables } from '../../src/db/schema/tables.ts'
import type { ListLogs, LogNode, LogSummary } from '../../src/observability/log-list.ts'
import { pageOfLogs } from '../../src/observability/log-list.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const OWNER = { type: 'team', id: 7 }
const HOUR_MS = 3_600_000

let database: TestDatabase
let test: TestIntegrations
let ours: Integration
let others: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider(), other: webhookProvider() } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  ours = await makeIntegration(test, 'acme', { name: 'ours', owner: OWNER })
  others = await makeIntegration(test, 'other')
  await test.sql`delete from integration_logs`
})

async function made(integrationId: number, values: Partial<Tables['logs']['$inferInsert']> = {}): Promise<number> {
  const { db, tables } = test.framework
  const [row] = await db
    .insert(tables.logs)
    .values({ integrationId, operation: 'import', direction: 'inbound', status: 'success', ...values })
    .returning()
  return row?.id as number
}

async function idsOf(filter: ListLogs = {}): Promise<number[]> {
  const ids: number[] = []
  for await (const { id } of test.integrations.admin.logs.list(filter)) ids.push(id)
  return ids
}

const hoursAgo = (hours: number) => new Date(Date.now() - hours * HOUR_MS)

describe('the list of logs', () => {
  it('is newest first, by each filter, without the parts of others', async () => {
    const a = await made(ours.id, { externalId: 'inv-7' })
    const part = await made(ours.id, { operation: 'export', direction: 'outbound', parentId: a })
    const b = await made(others.id, { status: 'failed' })
    const c = await made(ours.id, { operation: 'export', direction: 'outbound' })
    expect(await idsOf()).toEqual([c, b, a])
    expect(await idsOf({ parts: true })).toEqual([c, b, part, a])
    expect(await idsOf({ integrationId: ours.id })).toEqual([c, a])
    expect(await idsOf({ integrationId: ours.id, parts: true, operation: 'export' })).toEqual([c, part])
    expect(await idsOf({ provider: 'other' })).toEqual([b])
    expect(await idsOf({ owner: OWNER, parts: true })).toEqual([c, part, a])
    expect(await idsOf({ operation: 'import' })).toEqual([b, a])
    expect(await idsOf({ status: 'failed' })).toEqual([b])
    expect(await idsOf({ direction: 'outbound' })).toEqual([c])
    expect(await idsOf({ externalId: 'inv-7', provider: 'acme' })).toEqual([a])
    const shown: LogSummary[] = []
    for await (const log of test.integrations.admin.logs.list()) shown.push(log)
    const [newest, , oldest] = shown
    expect(newest).toMatchObject({ id: c, provider: 'acme', integrationName: 'ours', hasParts: false })
    expect(oldest).toMatchObject({ id: a, hasParts: true })
    expect(newest).not.toHaveProperty('metadata')
  })

  it('goes on where a page ended, of all and of an integration', async () => {
    const ids: number[] = []
    for (let n = 0; n < 6; n++) ids.push(await made(ours.id, { operation: `op-${n % 3}` }))
    const newest = ids.toReversed()
    for (const filter of [{}, { integrationId: ours.id }]) {
      expect(await idsOf({ ...filter, limit: 2 })).toEqual(newest.slice(0, 2))
      expect(await idsOf({ ...filter, after: newest[1], limit: 3 })).toEqual(newest.slice(2, 5))
    }
    await test.sql`insert into integration_logs (integration_id, operation, direction, status)
      select ${ours.id}, 'op-' || n % 7, 'inbound', 'success' from generate_series(1, 350) n`
    expect(await idsOf({ integrationId: ours.id })).toHaveLength(356)
  })

  it('looks through the last 24 hours for what no index has, unless a moment is given', async () => {
    const old = await made(ours.id, { createdAt: hoursAgo(30), status: 'failed' })
    const young = await made(ours.id, { createdAt: hoursAgo(20), status: 'failed' })
    expect(await idsOf({ integrationId: ours.id, operation: 'import' })).toEqual([young, old])
    expect(await idsOf({ operation: 'import' })).toEqual([young])
    expect(await idsOf({ integrationId: ours.id, status: 'failed' })).toEqual([young])
    expect(await idsOf({ status: 'failed', since: hoursAgo(40) })).toEqual([young, old])
    expect(await idsOf({ status: 'failed', until: hoursAgo(25) })).toEqual([old])
  })

  it('reads a page of an integration, however many parts its operations have', async () => {
    const root = await made(ours.id)
    await test.sql`insert into integration_logs (integration_id, operation, direction, status, parent_id)
      select ${ours.id}, 'row', 'inbound', 'success', ${root} from generate_series(1, 30000)`
    await test.sql`vacuum analyze integration_logs`
    const { db, tables } = test.framework
    const page = pageOfLogs(db, tables, { integrationId: ours.id }, [ours.id], { below: undefined, limit: 10 })
    const { sql: query, params } = page.toSQL()
    const [plan] = await test.sql.unsafe(`explain (analyze, buffers, format json) ${query}`, params as never[])
    const top = plan?.['QUERY PLAN'][0].Plan
    expect(top['Actual Rows']).toBe(1)
    expect(top['Shared Hit Blocks'] + top['Shared Read Blocks']).toBeLessThan(100)
  })

  it.each<[string, Record<string, unknown>]>([
    ['integrationId', { integrationId: -1 }],
    ['operation', { operation: '' }],
    ['direction', { direction: 'up' }],
    ['parts', { parts: 1 }],
    ['owner', { owner: {} }],
    ['limit', { limit: 0 }],
  ])('refuses a bad %s at once', (argument, filter) => {
    expect(() => test.integrations.admin.logs.list(filter)).toThrow(expect.objectContaining({ argument }))
  })
})

describe('a log as a tree', () => {
  const shape = ({ id, parts }: LogNode): unknown => (parts.length === 0 ? id : [id, parts.map(shape)])

  it('has the parts of an operation below it, oldest first, and of the first one all that is stored', async () => {
    const root = await made(ours.id, { metadata: { file: 'a.csv', bookmark: 'https://x' }, resultData: { rows: 2 } })
    const first = await made(ours.id, { parentId: root })
    const second = await made(ours.id, { parentId: root })
    const inner = await made(ours.id, { parentId: first })
    await made(ours.id)
    const tree = await test.integrations.admin.logs.tree(root)
    expect(shape(tree)).toEqual([root, [[first, [inner]], second]])
    expect(tree).toMatchObject({ metadata: { file: 'a.csv' }, resultData: { rows: 2 }, shown: 4, isCut: false })
    expect(tree.metadata).not.toHaveProperty('bookmark')
    expect(await test.integrations.admin.logs.tree(first)).toMatchObject({ id: first, parentId: root, shown: 2 })
  })

  it('has ten levels and 1,000 operations at most, and says where it is cut', async () => {
    const ids = [await made(ours.id)]
    for (let n = 0; n < 12; n++) ids.push(await made(ours.id, { parentId: ids.at(-1) ?? null }))
    let node: LogNode = await test.integrations.admin.logs.tree(ids[0] as number)
    expect(node).toMatchObject({ shown: 11, isCut: false })
    while (node.parts[0] !== undefined) node = node.parts[0]
    expect(node).toMatchObject({ id: ids[10], isCut: true })

    const wide = await made(ours.id)
    const [one, two] = [await made(ours.id, { parentId: wide }), await made(ours.id, { parentId: wide })]
    const leaf = await made(ours.id, { parentId: one })
    await test.sql`insert into integration_logs (integration_id, operation, direction, status, parent_id)
      select ${ours.id}, 'part', 'inbound', 'success', ${two} from generate_series(1, 1200)`
    const tree = await test.integrations.admin.logs.tree(wide)
    expect(tree).toMatchObject({ shown: 1_000, isCut: false })
    expect(tree.parts).toMatchObject([
      { id: one, isCut: false, parts: [{ id: leaf }] },
      { id: two, isCut: true },
    ])
    expect(tree.parts[1]?.parts).toHaveLength(996)
  })

  it('leaves out what is of another owner', async () => {
    const root = await made(ours.id)
    const theirs = await made(others.id, { parentId: root })
    await made(ours.id, { parentId: theirs })
    const own = await made(ours.id, { parentId: root })
    expect(shape(await test.integrations.admin.logs.tree(root, { owner: OWNER }))).toEqual([root, [own]])
    expect((await test.integrations.admin.logs.tree(root)).shown).toBe(4)
    await expect(test.integrations.admin.logs.tree(theirs, { owner: OWNER })).rejects.toMatchObject({
      code: 'log_not_found',
    })
  })

  it.each([0, 9_999_999_999])('is not there: %s', async (id) => {
    await expect(test.integrations.admin.logs.tree(id)).rejects.toMatchObject({ code: 'log_not_found', id })
  })
})
