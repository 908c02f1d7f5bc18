/** Sync runs and items as they are listed and shown. Rule: docs/behaviour/operator-api.md, "Syncs". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { LogRow } from '../../src/db/schema/tables.ts'
import { InvalidArgumentException, SyncItemNotFound, SyncRunNotFound } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { pageOfSyncItems } from '../../src/syncs/items/item-list.ts'
import { pageOfSyncRuns } from '../../src/syncs/run-list.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { SECRET, syncProvider, TOKEN } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'

const AT = new Date('2031-06-01T12:00:00.000Z')
const BEFORE = new Date('2031-06-01T11:59:59.999Z')
const NEVER = 999_999_999

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let run: LogRow

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: syncProvider(() => {}) } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  run = await makeRun(test, integration.id)
})

async function rowsOf<Row>(rows: AsyncIterable<Row>): Promise<Row[]> {
  const read: Row[] = []
  for await (const row of rows) read.push(row)
  return read
}

const idsOf = async (rows: AsyncIterable<{ id: number }>): Promise<number[]> => (await rowsOf(rows)).map(({ id }) => id)

describe('the list of items', () => {
  it('is the newest first, without payloads and claims, however many there are', async () => {
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, payload, claim)
      select ${integration.id}, ${run.id}, 'test.thing', '{"v":1,"data":{"n":1}}', 'x:1' from generate_series(1, 250)`
    const rows = await rowsOf(test.integrations.admin.syncItems.list({ syncLogId: run.id }))
    expect(rows).toHaveLength(250)
    expect(rows.map(({ id }) => id)).toEqual(rows.map(({ id }) => id).sort((a, b) => b - a))
    expect(Object.keys(rows[0] ?? {})).not.toContain('payload')
    expect(Object.keys(rows[0] ?? {})).not.toContain('claim')
    const [first, second, third] = rows
    expect(await idsOf(test.integrations.admin.syncItems.list({ syncLogId: run.id, limit: 2 }))).toEqual([
      first?.id,
      second?.id,
    ])
    const next = test.integrations.admin.syncItems.list({ syncLogId: run.id, after: second?.id, limit: 1 })
    expect(await idsOf(next)).toEqual([third?.id])
  })

  it.each<[string, Parameters<TestIntegrations['integrations']['admin']['syncItems']['list']>[0], readonly number[]]>([
    ['status', { status: 'failed' }, [2, 0]],
    ['event class', { eventClass: 'test.other' }, [1]],
    ['external id', { externalId: 'a' }, [2, 0]],
    ['since, inclusive', { since: AT }, [2, 1]],
    ['until, exclusive', { until: AT }, [0]],
    ['all of them at once', { status: 'failed', externalId: 'a', since: AT }, [2]],
  ])('by %s', async (_, filter, expected) => {
    const items = [
      await makeItem(test, run, { status: 'failed', externalId: 'a', createdAt: BEFORE }),
      await makeItem(test, run, { status: 'success', eventClass: 'test.other', createdAt: AT }),
      await makeItem(test, run, { status: 'failed', externalId: 'a', createdAt: AT }),
    ]
    const found = await idsOf(test.integrations.admin.syncItems.list({ integrationId: integration.id, ...filter }))
    expect(found).toEqual(expected.map((index) => items[index]?.id))
  })

  it('by an event class or a stream alone goes back a day, unless told otherwise, and to any that failed', async () => {
    const ago = (hours: number): Date => new Date(Date.now() - hours * 3_600_000)
    const rare = { eventClass: 'test.rare', stream: 'rare', status: 'success' } as const
    const failed = await makeItem(test, run, { ...rare, status: 'failed', createdAt: ago(60) })
    const old = await makeItem(test, run, { ...rare, createdAt: ago(30) })
    const young = await makeItem(test, run, { ...rare, createdAt: ago(20) })
    for (const by of [{ eventClass: 'test.rare' }, { stream: 'rare' }]) {
      const found = (filter: object) => idsOf(test.integrations.admin.syncItems.list({ ...by, ...filter }))
      expect(await found({})).toEqual([young.id])
      expect(await found({ since: ago(31) })).toEqual([young.id, old.id])
      expect(await found({ until: ago(28) })).toEqual([old.id])
      expect(await found({ since: old.createdAt, until: old.createdAt })).toEqual([])
      expect(await found({ syncLogId: run.id })).toEqual([young.id, old.id, failed.id])
      expect(await found({ status: 'failed' })).toEqual([failed.id])
    }
  })

  it.each<[string, Record<string, unknown>]>([
    ['integrationId', { integrationId: 0 }],
    ['syncLogId', { syncLogId: 1.5 }],
    ['status', { status: 'lost' }],
    ['eventClass', { eventClass: '' }],
    ['externalId', { externalId: 'a\u0000', syncLogId: 1 }],
    ['externalId', { externalId: 'a' }],
    ['since', { since: new Date('never') }],
    ['until', { since: AT, until: BEFORE }],
    ['after', { after: 0 }],
    ['limit', { limit: 0 }],
  ])('refuses a bad %s at once', (argument, filter) => {
    expect(() => test.integrations.admin.syncItems.list(filter)).toThrow(expect.objectContaining({ argument }))
  })
})

describe('the failed items', () => {
  it('are plain data, 50 unless more are asked for', async () => {
    const made = []
    for (let n = 0; n < 51; n += 1)
      made.push(await makeItem(test, run, { status: 'failed', error: `Error: ${n}`, attempts: 2, createdAt: AT }))
    await makeItem(test, run, { status: 'success' })
    const failed = await test.integrations.admin.syncItems.failed({ integrationId: integration.id })
    expect(failed.map(({ id }) => id)).toEqual(
      made
        .map(({ id }) => id)
        .reverse()
        .slice(0, 50),
    )
    expect(failed[0]).toEqual({
      id: made[50]?.id,
      integrationId: integration.id,
      stream: null,
      eventClass: 'test.thing',
      externalId: null,
      error: 'Error: 50',
      attempts: 2,
      createdAt: AT.toISOString(),
      holdsCursor: true,
      madeUpForBy: null,
      nextAttemptAt: null,
    })
    expect(await test.integrations.admin.syncItems.failed({ integrationId: integration.id, limit: 60 })).toHaveLength(
      51,
    )
  })

  it('leave out what a later run made up for, unless all are asked for, and say what holds the cursor', async () => {
    const made = (externalId: string | null, values = {}) =>
      makeItem(test, run, { status: 'failed', externalId, ...values })
    const [madeUp, held, nameless] = [await made('a'), await made('b'), await made(null)]
    const [ofOtherClass, skipped] = [await made('d', { eventClass: 'test.other' }), await made('e')]
    const backfill = await makeRun(test, integration.id, {}, { operation: 'backfill' })
    const ofBackfill = await makeItem(test, backfill, { status: 'failed', externalId: 'f' })
    const later = await makeRun(test, integration.id)
    const success = await makeItem(test, later, { status: 'success', externalId: 'a' })
    await makeItem(test, later, { status: 'pending', externalId: 'b' })
    await makeItem(test, later, { status: 'success', externalId: 'd' })
    const letGo = await makeItem(test, later, { status: 'skipped', externalId: 'e' })
    const { failed } = test.integrations.admin.syncItems
    const shown = await failed({ integrationId: integration.id })
    expect(shown.map(({ id, holdsCursor }) => [id, holdsCursor])).toEqual([
      [ofBackfill.id, false],
      [ofOtherClass.id, true],
      [nameless.id, true],
      [held.id, true],
    ])
    const all = await failed({ integrationId: integration.id, all: true })
    expect(all.filter(({ madeUpForBy }) => madeUpForBy !== null)).toMatchObject([
      { id: skipped.id, madeUpForBy: letGo.id, holdsCursor: false },
      { id: madeUp.id, madeUpForBy: success.id, holdsCursor: false },
    ])
  })

  it('that wait are listed when they are asked for, with what they failed of and when they are tried again', async () => {
    const waits = await makeItem(test, run, {
      status: 'processing',
      attempts: 2,
      lastError: 'TypeError: no table',
      nextAttemptAt: AT,
    })
    await makeItem(test, run, { status: 'processing', claim: 'x:1' })
    expect(
      await test.integrations.admin.syncItems.failed({ integrationId: integration.id, waiting: true }),
    ).toMatchObject([
      { id: waits.id, error: 'TypeError: no table', attempts: 2, nextAttemptAt: AT.toISOString(), holdsCursor: true },
    ])
    expect(await test.integrations.syncs.run(run.id)).toMatchObject({
      waiting: 1,
      nextAttemptAt: AT,
      errors: [{ error: 'TypeError: no table', items: 1 }],
    })
  })

  it('since a moment, which counts', async () => {
    await makeItem(test, run, { status: 'failed', createdAt: BEFORE })
    const { id } = await makeItem(test, run, { status: 'failed', createdAt: AT })
    const since = '2031-06-01T14:00:00+02:00'
    const found = await test.integrations.admin.syncItems.failed({ integrationId: integration.id, since })
    expect(found.map((item) => item.id)).toEqual([id])
  })

  it.each(['2031-06-01', '2031-06-01T12:00:00', 'today'])('refuses the moment %s', async (since) => {
    await expect(test.integrations.admin.syncItems.failed({ since })).rejects.toThrow(InvalidArgumentException)
  })
})

describe('one item', () => {
  it('is as stored for code, and without secrets for a screen', async () => {
    const payload = { v: 1, data: { note: `has ${TOKEN}`, access_token: 'short', n: 1 } }
    const { id } = await makeItem(test, run, { payload, checkpointValue: { after: SECRET } })
    expect(await test.integrations.admin.syncItems.get(id)).toMatchObject({ id, payload })
    const listed = []
    for await (const row of test.integrations.admin.syncItems.list({ syncLogId: run.id })) listed.push(row)
    expect(listed.map((row) => row.id)).toContain(id)
    expect(JSON.stringify(listed)).not.toContain(SECRET)
    const shown = await test.integrations.admin.operator.syncItem(id)
    expect(shown).toMatchObject({
      payload: { v: 1, data: { note: 'has [REDACTED]', access_token: '[REDACTED]', n: 1 } },
      checkpointValue: { after: '[REDACTED]' },
    })
    expect(Object.keys(shown)).not.toContain('claim')
  })

  it('has no payload once it is erased', async () => {
    const { id } = await makeItem(test, run, { payload: null })
    expect(await test.integrations.admin.operator.syncItem(id)).toMatchObject({ payload: null, checkpointValue: null })
  })

  it('shows nothing that was listed where nobody knows what the secrets are', async () => {
    await setIntegration(test, integration.id, { credentials: 'plain' })
    const { id } = await makeItem(test, run, { payload: { v: 1, data: TOKEN } })
    expect(await test.integrations.admin.operator.syncItem(id)).toMatchObject({ payload: '[REDACTED]' })
  })

  it('that is not there', async () => {
    for (const id of [NEVER, 0, Number.NaN]) {
      await expect(test.integrations.admin.syncItems.get(id)).rejects.toThrow(SyncItemNotFound)
      await expect(test.integrations.admin.operator.syncItem(id)).rejects.toThrow(SyncItemNotFound)
    }
  })
})

describe('the list of runs', () => {
  it('is the newest first, backfills among them, other operations not', async () => {
    const backfill = await makeRun(test, integration.id, {}, { operation: 'backfill', status: 'success' })
    await makeRun(test, integration.id, {}, { operation: 'operator' })
    const last = await makeRun(test, integration.id, {}, { status: 'partial' })
    expect(await idsOf(test.integrations.syncs.runs({ integrationId: integration.id }))).toEqual([
      last.id,
      backfill.id,
      run.id,
    ])
    expect(await idsOf(test.integrations.syncs.runs({ limit: 3 }))).toEqual([last.id, backfill.id, run.id])
    expect(await idsOf(test.integrations.syncs.runs({ integrationId: integration.id, limit: 1 }))).toEqual([last.id])
    const next = test.integrations.syncs.runs({ integrationId: integration.id, after: last.id, limit: 1 })
    expect(await idsOf(next)).toEqual([backfill.id])
  })

  it('is read page by page without a gap', async () => {
    await test.sql`
      insert into integration_logs (integration_id, operation, direction, status)
      select ${integration.id}, case when n % 7 = 0 then 'backfill' else 'sync' end, 'inbound', 'success'
      from generate_series(1, 250) n`
    const ids = await idsOf(test.integrations.syncs.runs({ integrationId: integration.id }))
    expect(ids).toHaveLength(251)
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => b - a))
  })

  it('leaves out what only the run itself needs', async () => {
    const bookmark = { position: 5, count: 40, duplicates: 1, item_id: 7, unchanged: { checkpoint: 'c' } }
    const long = await makeRun(test, integration.id, { request_ids: [1, 2], bookmark, listed: 3 })
    const [row] = await rowsOf(test.integrations.syncs.runs({ integrationId: integration.id, limit: 1 }))
    const { request_ids: _ids, bookmark: _bookmark, ...rest } = long.metadata as Record<string, unknown>
    expect(row?.metadata).toEqual(rest)
    // A bookmark's position is a provider's own text, and may hold what nobody is to see. How far it is may be seen.
    const figures = { count: 40, duplicates: 1 }
    const told = { ...rest, request_ids: [1, 2], bookmark: figures }
    expect((await test.integrations.syncs.run(long.id)).metadata).toEqual(told)
    const ended = await makeRun(test, integration.id, { listed: 3 })
    expect((await test.integrations.syncs.run(ended.id)).metadata).toEqual(ended.metadata)
  })

  it.each([
    ['erased', null],
    ['no object', 'erased'],
  ])('takes metadata that is %s', async (_, metadata) => {
    const { id } = await makeRun(test, integration.id, {}, { metadata })
    const [row] = await rowsOf(test.integrations.syncs.runs({ integrationId: integration.id, limit: 1 }))
    expect(row).toMatchObject({ id, metadata })
  })

  it.each<[string, Parameters<TestIntegrations['integrations']['syncs']['runs']>[0], readonly number[]]>([
    ['status', { status: 'failed' }, [0]],
    ['since, inclusive', { since: AT }, [1]],
    ['until, exclusive', { until: AT }, [0]],
  ])('by %s', async (_, filter, expected) => {
    const { id } = await makeIntegration(test, 'acme')
    const runs = [
      await makeRun(test, id, {}, { status: 'failed', createdAt: BEFORE }),
      await makeRun(test, id, {}, { status: 'success', createdAt: AT }),
    ]
    expect(await idsOf(test.integrations.syncs.runs({ integrationId: id, ...filter }))).toEqual(
      expected.map((index) => runs[index]?.id),
    )
  })

  it.each<[string, Record<string, unknown>]>([
    ['integrationId', { integrationId: -1 }],
    ['status', { status: 'pending' }],
    ['since', { since: 'today' }],
    ['until', { since: AT, until: BEFORE }],
    ['after', { after: Number.NaN }],
    ['limit', { limit: 0.5 }],
  ])('refuses a bad %s at once', (argument, filter) => {
    expect(() => test.integrations.syncs.runs(filter)).toThrow(expect.objectContaining({ argument }))
  })
})

describe('one run', () => {
  it('counts its items by status', async () => {
    for (const status of ['pending', 'failed', 'failed', 'success', 'skipped'] as const)
      await makeItem(test, run, { status })
    expect(await test.integrations.syncs.run(run.id)).toMatchObject({
      id: run.id,
      operation: 'sync',
      items: { pending: 1, processing: 0, success: 1, failed: 2, skipped: 1 },
    })
  })

  it('that is none, or not there', async () => {
    const other = await makeRun(test, integration.id, {}, { operation: 'cursor' })
    for (const id of [other.id, NEVER, 0])
      await expect(test.integrations.syncs.run(id)).rejects.toThrow(SyncRunNotFound)
  })
})

describe('on many rows', () => {
  const PAGE = { below: undefined, limit: 50 }
  let bigId: number
  let streamedId: number
  let bigRun: LogRow

  beforeAll(async () => {
    bigId = (await makeIntegration(test, 'acme')).id
    streamedId = (await makeIntegration(test, 'acme')).id
    const otherId = (await makeIntegration(test, 'acme')).id
    bigRun = await makeRun(test, bigId)
    // What is asked for is older than what stands before it, and rare: a walk from the newest id would be long.
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, status)
      select ${bigId}, ${bigRun.id}, 'test.thing', 'x' || n, case when n % 500 = 0 then 'failed' else 'success' end
      from generate_series(1, 20000) n`
    // Three of a thousand are of a rare stream.
    await test.sql`
      insert into integration_sync_items (integration_id, stream, event_class, external_id, status, created_at)
      select ${streamedId}, case when n % 1000 < 3 then 'rare' else 'large' end, 'test.thing', 'x' || n, 'success',
             now() - make_interval(mins => 20000 - n)
      from generate_series(1, 20000) n`
    await test.sql`
      insert into integration_sync_items (integration_id, event_class, external_id, status)
      select ${otherId}, 'test.thing', 'x' || n, 'success' from generate_series(1, 20000) n`
    await test.sql`
      insert into integration_logs (integration_id, operation, direction, status)
      select ${bigId}, 'sync', 'inbound', 'success' from generate_series(1, 200)`
    await test.sql`
      insert into integration_logs (integration_id, operation, direction, status)
      select ${otherId}, 'webhook', 'inbound', 'success' from generate_series(1, 20000)`
    await test.sql`analyze integration_sync_items, integration_logs`
  })

  const minutesAgo = (minutes: number): Date => new Date(Date.now() - minutes * 60_000)

  /** Rows that were looked at and dropped, or found by an index beside others, over the whole plan. */
  async function droppedBy(query: { toSQL(): { sql: string; params: unknown[] } }): Promise<number> {
    const { sql: text, params } = query.toSQL()
    const rows = await test.sql.unsafe(`explain (analyze, timing off) ${text}`, params as never[])
    const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n')
    expect(plan).not.toContain('Seq Scan')
    const counts = /Rows Removed by Filter: (\d+)|Bitmap Index Scan .*\(actual rows=(\d+)/g
    return [...plan.matchAll(counts)].reduce((sum, [, removed, found]) => sum + Number(removed ?? found), 0)
  }

  it.each<[string, 'of each' | 'of all', () => Parameters<typeof pageOfSyncItems>[2]]>([
    ['the failed ones of an integration', 'of each', () => ({ integrationId: bigId, status: 'failed' })],
    ['the failed ones of a run', 'of all', () => ({ syncLogId: bigRun.id, status: 'failed' })],
    ['one external id', 'of each', () => ({ integrationId: bigId, externalId: 'x7' })],
    [
      'one external id of a stream',
      'of each',
      () => ({ integrationId: streamedId, stream: 'large', externalId: 'x7' }),
    ],
    [
      'what a stream had at a time',
      'of each',
      () => ({ integrationId: streamedId, stream: 'large', since: minutesAgo(90), until: minutesAgo(60) }),
    ],
    ['those of a rare stream', 'of all', () => ({ integrationId: streamedId, stream: 'rare' })],
  ])('%s are found by an index, %s', async (_, how, given) => {
    const filter = given()
    const few = how === 'of each' ? [Number(filter.integrationId)] : null
    const { db, tables } = test.framework
    expect(await droppedBy(pageOfSyncItems(db, tables, filter, few, PAGE))).toBeLessThan(100)
  })

  it('the runs of an integration are found by an index', async () => {
    const { db, tables } = test.framework
    expect(await droppedBy(pageOfSyncRuns(db, tables, { integrationId: bigId }, [bigId], PAGE))).toBeLessThan(100)
  })
})
