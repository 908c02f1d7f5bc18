/** What pruning takes and what it leaves, on real rows. */
import { eq, sql } from 'drizzle-orm'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { Tables } from '../../src/db/schema/tables.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { countPrunableRows, prunedRows, pruneRows } from '../../src/retention/pruning.ts'
import type { Position, Pruned } from '../../src/retention/queries.ts'
import { blankChunk, pruneChunk } from '../../src/retention/queries.ts'
import type { PruneCounts, PruningStep } from '../../src/retention/rules.ts'
import { PRUNING_STEPS } from '../../src/retention/rules.ts'
import { isCursorHeld, stuckItems } from '../../src/syncs/end-queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { syncProvider } from '../support/providers.ts'
import { itemOf, makeIntegration, makeItem, makeRun, makeWebhook, setIntegration } from '../support/rows.ts'

const DAY_MS = 86_400_000
const NOW_MS = Date.parse('2031-06-01T12:00:00Z')
const daysAgo = (days: number, ms = 0): Date => new Date(NOW_MS - days * DAY_MS + ms)

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
const others: TestIntegrations[] = []

function deployment(config: ConfigInput = {}): TestIntegrations {
  const made = testIntegrations(database.url, {
    clock: { now: () => new Date(NOW_MS) },
    providers: { acme: syncProvider(() => {}) },
    config,
  })
  others.push(made)
  return made
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = deployment()
})
afterAll(async () => {
  for (const each of others) await each.close()
  await database?.drop()
})
beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`delete from integration_cache`
  integration = await makeIntegration(test, 'acme')
})

let runs = 0
/** A whole run, as the workflow takes it. */
async function prune({ framework } = test, runId = `run-${++runs}`): Promise<PruneCounts> {
  const counts: Partial<Record<PruningStep, number>> = {}
  for (const step of PRUNING_STEPS) counts[step] = await pruneRows(framework, { step, runId }, { signal: quiet() })
  return counts as PruneCounts
}

const quiet = (): AbortSignal => new AbortController().signal
const NOTHING: PruneCounts = {
  requests: 0,
  logs: 0,
  idempotency_keys: 0,
  sync_items: 0,
  incidents_closed: 0,
  incidents: 0,
  cache: 0,
  events: 0,
  webhooks: 0,
  audit: 0,
}

type Name = 'requests' | 'logs' | 'idempotencyKeys' | 'incidents' | 'events'
async function insert<Table extends Name>(
  name: Table,
  ...rows: Partial<Tables[Table]['$inferInsert']>[]
): Promise<number[]> {
  const { db, tables } = test.framework
  const table: Tables[Name] = tables[name]
  const values = rows.map((row) => ({ integrationId: integration.id, ...row }))
  const made = await db
    .insert(table)
    .values(values as never)
    .returning({ id: table.id })
  return made.map(({ id }) => id)
}

async function left(name: Name | 'syncItems' | 'webhooks' | 'deliveries'): Promise<number[]> {
  const { db, tables } = test.framework
  const table = tables[name]
  const rows = await db
    .select({ id: table.id })
    .from(table)
    .where(eq(table.integrationId, integration.id))
    .orderBy(table.id)
  return rows.map(({ id }) => id)
}

const request = (createdAt: Date, more: object = {}) => ({ endpoint: '/v1', method: 'GET', createdAt, ...more })
const log = (createdAt: Date, more: object = {}) => ({
  operation: 'import',
  direction: 'inbound' as const,
  status: 'success',
  createdAt,
  ...more,
})
const incident = (more: object) => ({
  status: 'closed' as const,
  source: 'health' as const,
  reason: 'health_degraded',
  peakSeverity: 'failing' as const,
  openedAt: daysAgo(500),
  ...more,
})
const event = (deliveredAt: Date | null) => ({
  name: 'CircuitOpened',
  payload: {},
  createdAt: daysAgo(500),
  deliveredAt,
})

describe('what is kept no longer', () => {
  it.each<[keyof PruneCounts, Name, number, (at: Date) => object]>([
    ['requests', 'requests', 90, (at) => request(at)],
    ['logs', 'logs', 365, (at) => log(at)],
    ['idempotency_keys', 'idempotencyKeys', 90, (at) => ({ key: at.toISOString(), createdAt: at })],
    ['incidents', 'incidents', 365, (closedAt) => incident({ closedAt })],
    ['events', 'events', 7, (at) => event(at)],
  ])('of %s is what is strictly older', async (step, name, days, row) => {
    const [old, exact, younger] = await insert(name, row(daysAgo(days, -1)), row(daysAgo(days)), row(daysAgo(days, 1)))
    expect(old).toBeDefined()
    expect(await countPrunableRows(test.framework)).toEqual({ ...NOTHING, [step]: 1 })
    expect(await prune()).toEqual({ ...NOTHING, [step]: 1 })
    expect(await left(name)).toEqual([exact, younger])
    expect(await prune()).toEqual(NOTHING)
  })

  it('is in the cache what has expired, locks too', async () => {
    const { db, tables } = test.framework
    const entry = (key: string, expiresAt: Date | null, owner: string | null = null) => ({
      key,
      expiresAt,
      owner,
      value: 1,
    })
    await db
      .insert(tables.cache)
      .values([
        entry('old', daysAgo(0, -1)),
        entry('old lock', daysAgo(3), 'somebody'),
        entry('exact', daysAgo(0)),
        entry('younger', daysAgo(0, 1)),
        entry('for ever', null),
      ])
    expect(await countPrunableRows(test.framework)).toEqual({ ...NOTHING, cache: 2 })
    expect(await prune()).toEqual({ ...NOTHING, cache: 2 })
    const keys = (await db.select({ key: tables.cache.key }).from(tables.cache)).map(({ key }) => key)
    expect(keys.filter((key) => !key.includes(':pruning:')).sort()).toEqual(['exact', 'for ever', 'younger'])
  })

  it('goes in chunks, also where many have the same moment, and each row once', async () => {
    const small = deployment({ pruning: { chunk_size: 3 } })
    await insert('requests', ...Array.from({ length: 20 }, (_, n) => request(daysAgo(n < 14 ? 100 : 100 + n))))
    const progress: number[] = []
    const rows = await pruneRows(
      small.framework,
      { step: 'requests', runId: 'chunks' },
      { signal: quiet(), onProgress: (done) => void progress.push(done) },
    )
    expect(rows).toBe(20)
    expect(progress).toEqual([3, 6, 9, 12, 15, 18, 20])
    expect(await left('requests')).toEqual([])
  })

  it('is nothing where rows are kept for longer than there were computers', async () => {
    const forever = 2_147_483_647
    const keeping = deployment({
      pruning: {
        requests_days: forever,
        logs_days: forever,
        idempotency_keys_days: forever,
        sync_items_days: forever,
        incidents_days: forever,
        incidents_stale_after_days: forever,
        webhooks_days: forever,
      },
    })
    await insert('requests', request(new Date('1971-01-01')))
    expect(await prune(keeping)).toEqual(NOTHING)
    expect(await countPrunableRows(keeping.framework)).toEqual(NOTHING)
  })

  it('leaves what somebody holds at this moment, and takes it with the next run', async () => {
    const [held, free] = await insert('requests', request(daysAgo(100)), request(daysAgo(99)))
    await test.sql.begin(async (tx) => {
      await tx`select 1 from integration_requests where id = ${held as number} for update`
      expect(await prune()).toEqual({ ...NOTHING, requests: 1 })
    })
    expect(free).toBeDefined()
    expect(await left('requests')).toEqual([held])
    expect(await prune()).toEqual({ ...NOTHING, requests: 1 })
  })

  it('goes once when two runs come at the same time', async () => {
    const small = deployment({ pruning: { chunk_size: 5 } })
    await insert('requests', ...Array.from({ length: 60 }, (_, n) => request(daysAgo(100 + n))))
    const both = await Promise.all([prune(small), prune(small)])
    expect(both.map(({ requests }) => requests).reduce((a, b) => a + b)).toBe(60)
    expect(await left('requests')).toEqual([])
  })

  it.each<[Name, 'retryOf' | 'parentId', (at: Date, pointer?: number) => object]>([
    ['requests', 'retryOf', (at, retryOf) => request(at, { retryOf })],
    ['logs', 'parentId', (at, parentId) => log(at, { parentId })],
  ])('is pointed to by none of the %s that stay', async (name, column, row) => {
    const [gone] = await insert(name, row(daysAgo(400)))
    const [kept] = await insert(name, row(daysAgo(80)))
    await insert(name, row(daysAgo(399), gone))
    const [survivor, other] = await insert(name, row(daysAgo(89), gone), row(daysAgo(80), kept))
    expect(await prune()).toEqual({ ...NOTHING, [name]: 2 })
    const { db, tables } = test.framework
    const table = tables[name as 'requests']
    const rows = await db
      .select({ id: table.id, pointer: tables[name as 'logs'][column as 'parentId'] })
      .from(table)
      .orderBy(table.id)
    expect(rows).toEqual([
      { id: kept, pointer: null },
      { id: survivor, pointer: null },
      { id: other, pointer: kept },
    ])
  })

  it('is pointed to by none of many, which are told so a chunk at a time', async () => {
    const small = deployment({ pruning: { chunk_size: 3 } })
    const [first, parent] = await insert('logs', log(daysAgo(401)), log(daysAgo(400)))
    const parts = await insert('logs', ...Array.from({ length: 10 }, () => log(daysAgo(80), { parentId: parent })))
    expect(await prune(small)).toEqual({ ...NOTHING, logs: 2 })
    expect(await left('logs')).toEqual(parts)
    expect(first).toBeDefined()
    const cleared = await test.sql`
      select count(*)::int as rows from integration_logs where parent_id is null group by xmin::text order by 1 desc`
    expect(cleared.map(({ rows }) => rows)).toEqual([3, 3, 3, 1])
  })

  it('is never a mapping', async () => {
    const { db, tables } = test.framework
    await db.insert(tables.mappings).values({
      integrationId: integration.id,
      externalId: 'x',
      internalType: 'note',
      internalId: '1',
      createdAt: daysAgo(4_000),
    })
    expect(await prune()).toEqual(NOTHING)
    expect(await db.select({ id: tables.mappings.id }).from(tables.mappings)).toHaveLength(1)
  })
})

describe('webhooks', () => {
  const old = { createdAt: daysAgo(50), processedAt: daysAgo(40) }

  it('stay unless they are asked for', async () => {
    await makeWebhook(test, integration.id, { status: 'processed', ...old })
    expect(await prune()).toEqual(NOTHING)
  })

  it('go by the moment they were settled, with a retention of theirs; those that wait never', async () => {
    const pruning = deployment({ pruning: { webhooks_days: 30 } })
    const second = await makeIntegration(test, 'acme')
    await makeWebhook(test, integration.id, { status: 'processed', ...old })
    await makeWebhook(test, integration.id, { status: 'failed', ...old })
    await makeWebhook(test, second.id, { status: 'processed', ...old })
    const kept = [
      await makeWebhook(test, integration.id, { status: 'pending', createdAt: daysAgo(50) }),
      await makeWebhook(test, integration.id, { status: 'processing', createdAt: daysAgo(50) }),
      await makeWebhook(test, integration.id, {
        status: 'processed',
        createdAt: daysAgo(50),
        processedAt: daysAgo(30),
      }),
      await makeWebhook(test, integration.id, { status: 'failed', createdAt: daysAgo(50), processedAt: daysAgo(29) }),
    ]
    expect(await countPrunableRows(pruning.framework)).toEqual({ ...NOTHING, webhooks: 3 })
    expect(await prune(pruning)).toEqual({ ...NOTHING, webhooks: 3 })
    expect(await left('webhooks')).toEqual(kept.map(({ id }) => id))
  })
})

describe.each(['webhooks', 'logs', 'deliveries'] as const)('a chunk of %s', (step) => {
  /** Seven rows that stay, and behind them four that go. */
  const rows: Readonly<Record<typeof step, () => Promise<void>>> = {
    async webhooks() {
      for (let n = 0; n < 7; n += 1) await makeWebhook(test, integration.id, { createdAt: daysAgo(500, n) })
      const old = { status: 'processed', createdAt: daysAgo(490), processedAt: daysAgo(480) } as const
      for (let n = 0; n < 4; n += 1) await makeWebhook(test, integration.id, old)
    },
    async logs() {
      for (let n = 0; n < 7; n += 1) {
        const run = await makeRun(test, integration.id, {}, { createdAt: daysAgo(500, n) })
        await makeItem(test, run, { status: 'failed', externalId: 'stuck' })
      }
      for (let n = 0; n < 4; n += 1) await insert('logs', log(daysAgo(490, n)))
    },
    async deliveries() {
      await test.sql`
        insert into integration_deliveries (integration_id, delivery_id, payload, headers, parts, created_at)
        select ${integration.id}, n, '[]', '{}', 1, ${daysAgo(500)}::timestamptz + n * interval '1 s' from generate_series(1, 11) n`
      await test.sql`
        insert into integration_webhooks (integration_id, delivery_id, part_of, payload, headers)
        select integration_id, delivery_id, id, '{}', '{}' from integration_deliveries where delivery_id::int <= 7`
    },
  }

  it('is looked at, whether they go or stay: as many to delete may be behind millions', async () => {
    await rows[step]()
    const { db, tables } = test.framework
    const of = step === 'webhooks' ? { integrationId: integration.id } : {}
    const input = { before: daysAgo(400).toISOString(), limit: 3, ...of }
    const gone: number[] = []
    let after: Position | null = null
    do {
      const chunk: Pruned = await db.transaction((tx) => pruneChunk(tx, tables, step, { ...input, after }))
      gone.push(chunk.rows)
      after = chunk.next
    } while (after !== null)
    expect(gone).toEqual([0, 0, 2, 2])
    expect(await left(step)).toHaveLength(7)
  })
})

describe('blanking payloads', () => {
  /** Ten old rows, of which the sixth waits and all but the last four are blank; and a young one. */
  async function makeRows(): Promise<void> {
    const settled = { status: 'processed', processedAt: daysAgo(20) } as const
    for (let n = 0; n < 10; n++)
      await makeWebhook(test, integration.id, {
        ...(n === 5 ? { status: 'pending' } : settled),
        payload: n < 5 ? '' : 'full',
        createdAt: daysAgo(21, n),
      })
    await makeWebhook(test, integration.id, {
      ...settled,
      payload: 'full',
      createdAt: daysAgo(5),
      processedAt: daysAgo(5),
    })
  }
  const payloads = async () =>
    (await test.sql`select payload from integration_webhooks order by created_at, id`).map((row) => row.payload)
  const blanks = Array.from({ length: 9 }, () => '')

  it('goes past rows that are blank or wait, and looks at no more than a chunk of them in a statement', async () => {
    await makeRows()
    const { db, tables } = test.framework
    const input = { before: daysAgo(10).toISOString(), limit: 3, integrationId: integration.id }
    const rows: number[] = []
    let after: Position | null = null
    do {
      const chunk: Pruned = await db.transaction((tx) => blankChunk(tx, tables, 'webhooks', { ...input, after }))
      rows.push(chunk.rows)
      after = chunk.next
    } while (after !== null)
    expect(rows).toEqual([0, 0, 3, 1])
    expect(await payloads()).toEqual([...blanks.slice(0, 5), 'full', ...blanks.slice(5), 'full'])
  })

  it('leaves what somebody holds, and takes it with the next run', async () => {
    const days = deployment({ pruning: { webhook_payloads_days: 10, chunk_size: 3 } })
    await makeRows()
    await test.sql.begin(async (tx) => {
      await tx`select from integration_webhooks where payload = 'full' and created_at = ${daysAgo(21, 7)} for update`
      await prune(days)
    })
    expect((await payloads()).filter((payload) => payload === 'full')).toHaveLength(3)
    await prune(days)
    expect((await payloads()).filter((payload) => payload === 'full')).toHaveLength(2)
  })
})

describe('logs that stay however old they are', () => {
  const old = { createdAt: daysAgo(500), status: 'success' }

  it.each(['pending', 'processing', 'failed'] as const)('have a %s item', async (status) => {
    const run = await makeRun(test, integration.id, {}, old)
    await makeItem(test, run, { status, externalId: 'a', createdAt: daysAgo(500) })
    expect(await prune()).toEqual(NOTHING)
    expect(await left('logs')).toEqual([run.id])
  })

  it.each(['sync', 'backfill'])('are of a %s that has not ended', async (operation) => {
    const run = await makeRun(test, integration.id, {}, { ...old, operation, status: 'processing' })
    await insert('logs', log(daysAgo(500), { status: 'processing' }))
    // Any other log's word `processing` is a host's.
    expect(await prune()).toEqual({ ...NOTHING, logs: 1 })
    expect(await left('logs')).toEqual([run.id])
  })

  it('say that somebody set the cursor, while an earlier run can still end', async () => {
    const run = await makeRun(test, integration.id, {}, old)
    const failed = await makeItem(test, run, { status: 'failed', externalId: 'a' })
    const [set] = await insert('logs', log(daysAgo(490), { operation: 'cursor' }))
    expect(await prune()).toEqual(NOTHING)
    expect(await left('logs')).toEqual([run.id, set])
    await test.sql`update integration_sync_items set status = 'skipped', completed_at = ${daysAgo(0)} where id = ${failed.id}`
    expect(await prune()).toEqual({ ...NOTHING, logs: 2 })
  })

  it("hold the mark of an integration's last reconciliation", async () => {
    const reconciled = (days: number, more: object = {}) =>
      log(daysAgo(days), { operation: 'webhook_reconcile', metadata: { mark: daysAgo(days).toISOString() }, ...more })
    const [, newest] = await insert(
      'logs',
      reconciled(500),
      reconciled(450),
      reconciled(440, { status: 'failed' }),
      reconciled(430, { metadata: {} }),
    )
    expect(await prune()).toEqual({ ...NOTHING, logs: 3 })
    expect(await left('logs')).toEqual([newest])
  })

  it('lose their items, not the other way round', async () => {
    const run = await makeRun(test, integration.id, {}, old)
    const item = await makeItem(test, run, { status: 'success', completedAt: daysAgo(10) })
    expect(await prune()).toEqual({ ...NOTHING, logs: 1 })
    expect((await itemOf(test, item.id)).syncLogId).toBeNull()
  })

  it('lose many items a chunk at a time', async () => {
    const run = await makeRun(test, integration.id, {}, old)
    for (let n = 0; n < 10; n += 1) await makeItem(test, run, { status: 'success', completedAt: daysAgo(10) })
    expect(await prune(deployment({ pruning: { chunk_size: 3 } }))).toEqual({ ...NOTHING, logs: 1 })
    const cleared = await test.sql`
      select count(*)::int as rows from integration_sync_items where sync_log_id is null group by xmin::text order by 1 desc`
    expect(cleared.map(({ rows }) => rows)).toEqual([3, 3, 3, 1])
  })

  it('lose their items without a read of all items, however few runs these are of', async () => {
    await makeRun(test, integration.id, {}, old)
    const [one, two] = [await makeRun(test, integration.id), await makeRun(test, integration.id)]
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, status, completed_at)
      select ${integration.id}, case when n % 2 = 0 then ${one.id}::bigint else ${two.id}::bigint end, 'test.thing', n,
        'success', ${daysAgo(1)}
      from generate_series(1, 20000) n`
    await test.sql`analyze integration_sync_items`
    const { db, tables } = test.framework
    const [gone, readBefore, read] = await db.transaction(async (tx) => {
      const reads = async (): Promise<unknown> => {
        const [row] = await tx.execute(
          sql`select seq_scan from pg_stat_xact_user_tables where relname = 'integration_sync_items'`,
        )
        return row
      }
      const before = await reads()
      const input = { before: daysAgo(365).toISOString(), after: null, limit: 1_000 }
      return [(await pruneChunk(tx, tables, 'logs', input)).rows, before, await reads()]
    })
    expect(gone).toBe(1)
    expect(read).toEqual(readBefore)
  })
})

it('the newest pause of a sync stays, however old, until an act ends it or its integration is gone', async () => {
  const act = async (action: string, days: number) => {
    await test.sql`
      insert into integration_audit (actor, action, target, integration_id, created_at, updated_at)
      values ('ada', ${action}, ${`integration:${integration.id}`}, ${integration.id}, ${daysAgo(days)}, ${daysAgo(days)})`
  }
  const actions = async () =>
    (await test.sql`select action from integration_audit order by id`).map(({ action }) => action as string)
  await test.sql`delete from integration_audit`
  for (const [index, action] of ['pause', 'resume', 'pause', 'pause --stream a', 'sync'].entries())
    await act(action, 500 - index)
  expect((await prune()).audit).toBe(3)
  expect(await actions()).toEqual(['pause', 'pause --stream a'])
  await act('resume --stream a', 1)
  expect((await prune()).audit).toBe(1)
  expect(await actions()).toEqual(['pause', 'resume --stream a'])
  await test.sql`delete from integrations where id = ${integration.id}`
  expect((await prune()).audit).toBe(1)
  await test.sql`delete from integration_audit`
})

describe('sync items', () => {
  const ended = { createdAt: daysAgo(100), status: 'partial' }
  const done = { status: 'success', completedAt: daysAgo(40), externalId: 'a' } as const

  it('go once they are completed for longer than they are kept', async () => {
    const run = await makeRun(test, integration.id, {}, ended)
    await makeItem(test, run, { status: 'success', completedAt: daysAgo(30, -1) })
    await makeItem(test, run, { status: 'skipped', completedAt: daysAgo(30, -1), createdAt: daysAgo(1) })
    const kept = [
      await makeItem(test, run, { status: 'success', completedAt: daysAgo(30), createdAt: daysAgo(100) }),
      await makeItem(test, run, { status: 'failed', completedAt: daysAgo(99) }),
      await makeItem(test, run, { status: 'pending', createdAt: daysAgo(99) }),
      await makeItem(test, run, { status: 'processing', createdAt: daysAgo(99) }),
    ]
    expect(await countPrunableRows(test.framework)).toEqual({ ...NOTHING, sync_items: 2 })
    expect(await prune()).toEqual({ ...NOTHING, sync_items: 2 })
    expect(await left('syncItems')).toEqual(kept.map(({ id }) => id))
  })

  it('stay while their run lives: its counts and its cursor come of them', async () => {
    const run = await makeRun(test, integration.id, {}, { createdAt: daysAgo(100) })
    const item = await makeItem(test, run, done)
    expect(await prune()).toEqual(NOTHING)
    expect(await left('syncItems')).toEqual([item.id])
  })

  it('that failed go with the later one that made up for them, and are counted', async () => {
    const run = await makeRun(test, integration.id, {}, ended)
    await makeItem(test, run, { status: 'failed', externalId: 'a', completedAt: daysAgo(90) })
    await makeItem(test, run, { status: 'failed', externalId: 'a', completedAt: daysAgo(1) })
    await makeItem(test, run, done)
    const unresolved = await makeItem(test, run, { status: 'failed', externalId: 'a', completedAt: daysAgo(90) })
    expect(await countPrunableRows(test.framework)).toEqual({ ...NOTHING, sync_items: 3 })
    expect(await prune()).toEqual({ ...NOTHING, sync_items: 3 })
    expect(await left('syncItems')).toEqual([unresolved.id])
  })

  it.each<[string, Parameters<typeof makeItem>[2]]>([
    ['is waiting for its run', { status: 'pending' }],
    ['is tried again', { status: 'processing' }],
    ['failed and is of another class', { status: 'failed', eventClass: 'test.other' }],
  ])('stay while an earlier one of their external id %s', async (_why, values) => {
    const run = await makeRun(test, integration.id, {}, ended)
    const earlier = await makeItem(test, run, { externalId: 'a', ...values })
    const item = await makeItem(test, run, done)
    expect(await countPrunableRows(test.framework)).toEqual(NOTHING)
    expect(await prune()).toEqual(NOTHING)
    expect(await left('syncItems')).toEqual([earlier.id, item.id])
  })

  it('stay while the failed one that they made up for is being taken up', async () => {
    const run = await makeRun(test, integration.id, {}, ended)
    const failed = await makeItem(test, run, { status: 'failed', externalId: 'a' })
    const item = await makeItem(test, run, done)
    await test.sql.begin(async (tx) => {
      await tx`update integration_sync_items set status = 'processing' where id = ${failed.id}`
      expect(await prune()).toEqual(NOTHING)
    })
    expect(await left('syncItems')).toEqual([failed.id, item.id])
  })

  it('stay together with the failed one of a run that lives', async () => {
    const living = await makeRun(test, integration.id, {}, { createdAt: daysAgo(100) })
    const failed = await makeItem(test, living, { status: 'failed', externalId: 'a' })
    const item = await makeItem(test, await makeRun(test, integration.id, {}, ended), done)
    expect(await prune()).toEqual(NOTHING)
    expect(await left('syncItems')).toEqual([failed.id, item.id])
  })

  it('are many of the same moment, with some that stay among each chunk', async () => {
    const small = deployment({ pruning: { chunk_size: 2 } })
    const run = await makeRun(test, integration.id, {}, ended)
    const kept: number[] = []
    for (let n = 0; n < 9; n++) {
      const externalId = `x${n}`
      if (n % 3 !== 0) kept.push((await makeItem(test, run, { status: 'pending', externalId })).id)
      const item = await makeItem(test, run, { ...done, externalId })
      if (n % 3 !== 0) kept.push(item.id)
    }
    expect((await prune(small)).sync_items).toBe(3)
    expect(await left('syncItems')).toEqual(kept)
  })
})

describe('what the living runs ask', () => {
  const KEYS = ['a', 'b', 'c', null] as const
  const item = fc.record({
    run: fc.nat(4),
    key: fc.constantFrom(...KEYS),
    eventClass: fc.constantFrom('test.thing', 'test.other'),
    status: fc.constantFrom(
      'success',
      'success',
      'skipped',
      'skipped',
      'failed',
      'failed',
      'failed',
      'pending',
      'processing',
    ),
    ageDays: fc.constantFrom(1, 40, 50, 60),
  })
  const run = fc.record({
    operation: fc.constantFrom('sync', 'sync', 'sync', 'backfill'),
    lives: fc.constantFrom(true, false, false, false),
    ageDays: fc.constantFrom(10, 400),
    cursorSetAfter: fc.boolean(),
  })

  const RUNS = 40

  it('is answered as before, whatever pruning took', async () => {
    let taken = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(run, { minLength: 5, maxLength: 5 }),
        fc.array(item, { minLength: 5, maxLength: 30 }),
        fc.constantFrom(1, 3, 1_000),
        async (ranSo, items, chunk) => {
          await test.sql`delete from integrations`
          integration = await makeIntegration(test, 'acme')
          const logs: { id: number; integrationId: number; asks: boolean }[] = []
          for (const [n, { operation, lives, ageDays, cursorSetAfter }] of ranSo.entries()) {
            const createdAt = daysAgo(ageDays + 5 - n)
            const { id } = await makeRun(
              test,
              integration.id,
              {},
              { operation, createdAt, status: lives ? 'processing' : 'partial' },
            )
            logs.push({ id, integrationId: integration.id, asks: lives && operation === 'sync' })
            if (cursorSetAfter) await insert('logs', log(createdAt, { operation: 'cursor' }))
          }
          for (const { run: n, key, ageDays, ...values } of items) {
            const completedAt = ['pending', 'processing'].includes(values.status) ? null : daysAgo(ageDays)
            await makeItem(test, logs[n] as { id: number; integrationId: number }, {
              ...values,
              externalId: key,
              completedAt,
            })
          }
          const next = await makeRun(test, integration.id, {}, { createdAt: daysAgo(0) })
          // In this one all of them fail once more: how often, is counted from the last time that they did not.
          const failing = await makeRun(test, integration.id, {}, { createdAt: daysAgo(0) })
          for (const key of ['a', 'b', 'c'])
            await makeItem(test, failing, { status: 'failed', externalId: key, completedAt: daysAgo(0) })
          const asking = [...logs.filter(({ asks }) => asks), next, failing]
          const before = await answers(asking)
          const { sync_items, logs: goneLogs } = await prune(chunkOf(chunk))
          taken += sync_items + goneLogs
          expect(await answers(asking)).toEqual(before)
        },
      ),
      { numRuns: RUNS, endOnFailure: true },
    )
    expect(taken).toBeGreaterThan(RUNS)
  })

  const chunked = new Map<number, TestIntegrations>()
  function chunkOf(chunk_size: number): TestIntegrations {
    const made = chunked.get(chunk_size) ?? deployment({ pruning: { chunk_size } })
    chunked.set(chunk_size, made)
    return made
  }

  async function answers(asking: readonly { id: number; integrationId: number }[]) {
    const { db, tables } = test.framework
    return db.transaction(async (tx) => {
      const given = []
      for (const { id } of asking)
        given.push({
          id,
          held: await isCursorHeld(tx, tables, { id, integrationId: integration.id, stream: null }),
          stuck: await stuckItems(tx, tables, { id, integrationId: integration.id, stream: null }, 1),
        })
      return given
    })
  }
})

describe('incidents that stay open', () => {
  async function open(days: number, state: object = {}, breaker: object | null = null): Promise<number> {
    const { db, tables, config } = test.framework
    integration = await makeIntegration(test, 'acme')
    await setIntegration(test, integration.id, { healthStatus: 'healthy', ...state })
    if (breaker !== null)
      await db.insert(tables.cache).values({
        key: `${config.cache_prefix}:integration:${integration.id}:calls`,
        value: { breaker },
      })
    const [id] = await insert(
      'incidents',
      incident({ status: 'open', openedAt: daysAgo(days), createdAt: daysAgo(days) }),
    )
    return id as number
  }

  it('are closed where all is well, and told of', async () => {
    const told: number[] = []
    listen(test, 'IncidentClosed', ({ incident: { id } }: { incident: { id: number } }) => told.push(id))
    const closed = await open(8)
    const half = await open(8, {}, { state: 'closed' })
    const idle = await open(8, {}, { state: 'open', openedAt: NOW_MS - 61_000 })
    const probe = { owner: 'gone', until: NOW_MS - 1_000 }
    const silent = await open(8, {}, { state: 'half_open', openedAt: NOW_MS - 121_000, probe })
    const kept = [
      await open(7),
      await open(8, { healthStatus: 'degraded' }),
      await open(8, { syncStaleAlertedAt: daysAgo(1) }),
      await open(8, {}, { state: 'open', openedAt: NOW_MS - 59_000 }),
      await open(8, {}, { state: 'half_open', openedAt: NOW_MS - 61_000, probe: { ...probe, until: NOW_MS + 59_000 } }),
    ]
    expect(await countPrunableRows(test.framework)).toEqual({ ...NOTHING, incidents_closed: 4 })
    expect(await prune()).toEqual({ ...NOTHING, incidents_closed: 4 })
    const { db, tables } = test.framework
    const rows = await db
      .select({ id: tables.incidents.id, status: tables.incidents.status })
      .from(tables.incidents)
      .orderBy(tables.incidents.id)
    expect(rows).toEqual([
      { id: closed, status: 'closed' },
      { id: half, status: 'closed' },
      { id: idle, status: 'closed' },
      { id: silent, status: 'closed' },
      ...kept.map((id) => ({ id, status: 'open' })),
    ])
    expect(told.sort()).toEqual([closed, half, idle, silent].sort())
  })

  it('with the breakers off ask nothing of them', async () => {
    await open(8, {}, { state: 'open' })
    const unbroken = deployment({ circuit_breaker: { enabled: false } })
    expect(await countPrunableRows(unbroken.framework)).toEqual({ ...NOTHING, incidents_closed: 1 })
    expect(await prune(unbroken)).toEqual({ ...NOTHING, incidents_closed: 1 })
  })
})

describe('counts', () => {
  it('go on where an earlier try of the same run has ended', async () => {
    const small = deployment({ pruning: { chunk_size: 4 } })
    await insert('requests', ...Array.from({ length: 10 }, (_, n) => request(daysAgo(100 + n))))
    const stopped = new AbortController()
    const input = { step: 'requests', runId: 'tries' } as const
    const first = pruneRows(small.framework, input, {
      signal: stopped.signal,
      onProgress: () => stopped.abort(new Error('the worker stops')),
    })
    await expect(first).rejects.toThrow('the worker stops')
    expect(await prunedRows(small.framework, input)).toBe(4)
    expect(await left('requests')).toHaveLength(6)
    expect(await pruneRows(small.framework, input, { signal: quiet() })).toBe(10)
    expect(await prunedRows(small.framework, { ...input, step: 'logs' })).toBe(0)
  })

  it('are written with the rows, or neither is', async () => {
    await insert('requests', request(daysAgo(100)))
    const input = { step: 'requests', runId: 'atomic' } as const
    await test.sql`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`
    const refusals = [
      test.sql`create trigger refuse before insert on integration_cache for each row execute function refuse()`,
      // At the commit, when both statements have succeeded.
      test.sql`create constraint trigger refuse after delete on integration_requests
        deferrable initially deferred for each row execute function refuse()`,
    ]
    for (const [n, refusal] of refusals.entries()) {
      await refusal
      await expect(pruneRows(test.framework, input, { signal: quiet() })).rejects.toThrow('refused')
      await test.sql`drop trigger refuse on ${test.sql(n === 0 ? 'integration_cache' : 'integration_requests')}`
      expect(await left('requests')).toHaveLength(1)
      expect(await prunedRows(test.framework, input)).toBe(0)
    }
    await test.sql`drop function refuse()`
    expect(await pruneRows(test.framework, input, { signal: quiet() })).toBe(1)
  })

  it('of earlier runs go with the cache when a week has passed', async () => {
    await insert('requests', request(daysAgo(100)))
    await prune()
    const { db, tables } = test.framework
    await db.update(tables.cache).set({ expiresAt: sql`${tables.cache.expiresAt} - interval '169 hours'` })
    expect(await prune()).toEqual({ ...NOTHING, cache: 1 })
  })
})

it('judges by the clock of the database where the host has none of its own', async () => {
  const plain = testIntegrations(database.url, { providers: { acme: syncProvider(() => {}) } })
  others.push(plain)
  const [, young] = await insert(
    'requests',
    request(new Date(Date.now() - 91 * DAY_MS)),
    request(new Date(Date.now() - 89 * DAY_MS)),
  )
  expect(await prune(plain)).toEqual({ ...NOTHING, requests: 1 })
  expect(await left('requests')).toEqual([young])
})
