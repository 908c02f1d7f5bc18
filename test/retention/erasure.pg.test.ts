/** Erasing an integration: others' data goes, ids, counts, statuses and times stay. */
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { integrationKey } from '../../src/cache/integration-keys.ts'
import { FAILURE_CLASSES } from '../../src/db/schema/requests-table.ts'
import { untilGivenUp } from '../../src/framework/waiting.ts'
import { CHUNK_ROWS } from '../../src/retention/deletion.ts'
import type { Position, Pruned } from '../../src/retention/queries.ts'
import { changeChunk } from '../../src/retention/queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { countRows, makeFullIntegration, PERSONAL } from '../support/full-integration.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import {
  itemOf,
  logOf,
  logsOf,
  makeIntegration,
  makeItem,
  makeRun,
  setIntegration,
  webhookOf,
} from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: webhookProvider() } })
})

beforeEach(() => {
  test.lines.length = 0
  test.starts.running.clear()
  test.starts.cancelled.length = 0
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

/** The whole database as text: what is stored anywhere is in it. */
async function everything(): Promise<string> {
  const tables = await test.sql`select tablename from pg_tables where schemaname = 'public'`
  const texts = await Promise.all(tables.map(({ tablename }) => test.sql`select * from ${test.sql(tablename)}`))
  return JSON.stringify(texts)
}

describe('erase', () => {
  it('leaves nothing of others’ data anywhere, every row, and a log row of who asked', async () => {
    const { integration } = await makeFullIntegration(test)
    const before = await countRows(test, integration.id)
    expect(await everything()).toContain(PERSONAL)

    const erased = await test.integrations.erase(integration.id, { by: 'grace' })
    expect(erased).toEqual({
      webhooks: 4,
      deliveries: 0,
      requests: 2,
      syncItems: 3,
      recordHashes: 1,
      writtenRecords: 1,
      logs: 3,
      incidents: 1,
      events: 1,
      webhookSubscriptions: 0,
      cache: 1,
    })
    expect(await everything()).not.toContain(PERSONAL)
    // The log row came; of the cache the value went and the lock stayed.
    expect(await countRows(test, integration.id)).toEqual({ ...before, logs: 6, cache: 1 })
    expect(await logsOf(test, integration.id, 'erase')).toEqual([
      expect.objectContaining({ status: 'success', metadata: { by: 'grace', counts: erased } }),
    ])
    expect(test.lines.find(({ fields }) => fields.event === 'integration.erased')).toMatchObject({
      level: 'info',
      fields: { integration: integration.id, by: 'grace', rows: erased },
    })
    expect(await test.framework.cache.get(integrationKey(integration.id, 'identity'))).toBeUndefined()
  })

  it('switches it off and empties its credentials; name, owner, metadata and cursor stay', async () => {
    const owner = { type: 'team', id: 5 }
    const made = await makeIntegration(test, 'plain', { owner, metadata: { region: 'eu' } })
    await setIntegration(test, made.id, {
      syncCursor: 'c9',
      lastSyncedAt: new Date('2031-01-01'),
      consecutiveFailures: 3,
    })
    await test.integrations.erase(made.id)
    const after = await made.refresh()
    expect(after.credentialsArray()).toEqual({})
    expect(after).toMatchObject({
      isActive: false,
      healthStatus: 'healthy',
      name: 'of a test',
      owner,
      metadata: { region: 'eu' },
      syncCursor: 'c9',
      lastSyncedAt: new Date('2031-01-01'),
    })
  })

  it('keeps what counts: statuses, attempts, ids and times of what had ended', async () => {
    const { integration, webhooks, items, run } = await makeFullIntegration(test)
    const [request] =
      await test.sql`select id, created_at from integration_requests where integration_id = ${integration.id} and error is null`
    await test.integrations.erase(integration.id)
    expect(await webhookOf(test, webhooks.processed)).toMatchObject({
      status: 'processed',
      attempts: 1,
      error: null,
      payload: '',
      headers: {},
      processedAt: new Date('2031-01-01'),
    })
    expect(await webhookOf(test, webhooks.failed)).toMatchObject({ status: 'failed', attempts: 3, error: 'erased' })
    expect(await itemOf(test, items.success)).toMatchObject({
      status: 'success',
      error: null,
      externalId: 'e-1',
      checkpointValue: 'c2',
      attempts: 1,
      payload: null,
      completedAt: new Date('2031-01-01'),
    })
    expect(await itemOf(test, items.failed)).toMatchObject({ status: 'failed', error: 'erased' })
    expect(await logOf(test, run)).toMatchObject({
      status: 'partial',
      metadata: { cursor_before: 'c1', success_count: 1, enumerated: true },
    })
    expect(await logsOf(test, integration.id, 'cursor')).toMatchObject([{ metadata: { to: 'c0' } }])
    expect(await logsOf(test, integration.id, 'import')).toMatchObject([
      { status: 'success', metadata: null, summary: null, durationMs: 7 },
    ])
    expect(
      await test.sql`select status_code, duration_ms, request_data, response_data, request_hash, expires_at, created_at
                     from integration_requests where id = ${request?.id}`,
    ).toEqual([
      {
        status_code: 200,
        duration_ms: 12,
        request_data: null,
        response_data: null,
        request_hash: null,
        expires_at: null,
        created_at: request?.created_at,
      },
    ])
  })

  it('ends what had not ended: without its content nothing can handle it', async () => {
    const { integration, webhooks, items } = await makeFullIntegration(test)
    await test.integrations.erase(integration.id)
    for (const id of [webhooks.pending, webhooks.processing])
      expect(await webhookOf(test, id)).toMatchObject({
        status: 'failed',
        error: 'erased',
        claim: null,
        processedAt: expect.any(Date),
      })
    expect(await itemOf(test, items.pending)).toMatchObject({
      status: 'failed',
      error: 'erased',
      completedAt: expect.any(Date),
    })
    const runs = await logsOf(test, integration.id, 'sync')
    expect(runs.map(({ status, error }) => [status, error])).toEqual([
      ['partial', null],
      ['failed', 'erased'],
    ])
    const [event] =
      await test.sql`select delivered_at, claim from integration_events where integration_id = ${integration.id}`
    expect(event).toEqual({ delivered_at: expect.any(Date), claim: null })
  })

  it('blanks what people have written about incidents, and not who wrote it when', async () => {
    const { integration } = await makeFullIntegration(test)
    const incident = async () =>
      (await test.sql`select * from integration_incidents where integration_id = ${integration.id}`)[0]
    const before = await incident()
    await test.integrations.admin.erase(integration.id)
    const erased = { at: '2031-01-01T00:00:00.000Z', by: 'grace', text: 'erased' }
    expect(await incident()).toEqual({ ...before, annotations: [erased, erased] })
  })

  it('touches no other integration, and finds nothing the second time', async () => {
    const [mine, other] = [await makeFullIntegration(test), await makeFullIntegration(test)]
    await test.integrations.erase(mine.integration.id)
    expect((await webhookOf(test, other.webhooks.pending)).payload).toContain(PERSONAL)
    const again = await test.integrations.erase(mine.integration.id)
    expect(again).toEqual({
      webhooks: 0,
      deliveries: 0,
      requests: 0,
      syncItems: 0,
      recordHashes: 0,
      writtenRecords: 0,
      logs: 0,
      incidents: 0,
      events: 0,
      webhookSubscriptions: 0,
      cache: 0,
    })
    await test.integrations.delete(other.integration.id)
  })

  it('takes more rows than one chunk', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const rows = CHUNK_ROWS + 1
    await test.sql`
      insert into integration_requests (integration_id, endpoint, method, response_data)
      select ${id}, 'users', 'GET', ${PERSONAL} from generate_series(1, ${rows}::int)`
    expect((await test.integrations.erase(id)).requests).toBe(rows)
    expect(await everything()).not.toContain(PERSONAL)
  })

  it.each(['id', 'created_at'] as const)(
    'goes past rows that are blank, and looks at no more than a chunk of them in a statement (by %s)',
    async (at) => {
      const { id: integrationId } = await makeIntegration(test, 'plain')
      const other = await makeIntegration(test, 'plain')
      // The order of age is not that of ids; four rows are of one moment.
      await test.sql`
        insert into integration_requests (integration_id, endpoint, method, response_data, created_at)
        select ${integrationId}, 'users', 'GET', case when n in (12, 13) then ${PERSONAL} end,
          timestamptz '2031-01-01' - interval '1 hour' * (n / 4)
        from generate_series(1, 13) n`
      await test.sql`
        insert into integration_requests (integration_id, endpoint, method, response_data)
        values (${other.id}, 'users', 'GET', ${PERSONAL})`
      const { db, tables } = test.framework
      const { requests } = tables
      const change = {
        which: sql`t.response_data is not null`,
        lock: sql`for update`,
        change: sql`update ${requests} t set response_data = null from chunk where t.id = chunk.id`,
      }
      const rows: number[] = []
      let after: Position | null = null
      do {
        const look = { integrationId, walk: { rows: sql`true`, at }, after, limit: 5 }
        const chunk: Pruned = await changeChunk(db, requests, change, look)
        rows.push(chunk.rows)
        after = chunk.next
      } while (after !== null)
      expect(rows).toEqual(at === 'id' ? [0, 0, 2] : [2, 0, 0])
      const [left] = await test.sql`
        select count(*)::int as n from integration_requests where response_data = ${PERSONAL}`
      expect(left?.n).toBe(1)
      await test.integrations.delete(other.id)
    },
  )

  it('takes requests of every failure class', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const classes = [null, ...FAILURE_CLASSES]
    for (const failureClass of classes)
      await test.sql`
        insert into integration_requests (integration_id, endpoint, method, response_data, failure_class)
        values (${id}, 'users', 'GET', ${PERSONAL}, ${failureClass})`
    expect((await test.integrations.erase(id)).requests).toBe(classes.length)
    expect(await everything()).not.toContain(PERSONAL)
  })

  it('keeps one that its health disabled from taking deliveries, and leaves its health as it is', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { isActive: false, healthStatus: 'disabled' })
    await test.integrations.erase(id)
    const arrival = await test.integrations.webhooks.receive({
      provider: 'plain',
      integrationId: id,
      method: 'POST',
      path: '/',
      query: '',
      headers: new Headers(),
      readBody: async () => ({ kind: 'read', bytes: new Uint8Array() }),
    })
    expect(arrival).toEqual({ kind: 'unknown integration' })
    expect(await test.integrations.get(id)).toMatchObject({ healthStatus: 'disabled', switchedOffAt: expect.any(Date) })
  })

  it('works on credentials that can not be read', async () => {
    const made = await makeIntegration(test, 'plain')
    await setIntegration(test, made.id, { credentials: 'plain text' })
    await test.integrations.erase(made.id)
    expect((await made.refresh()).credentialsArray()).toEqual({})
  })
})

describe('what a run notes', () => {
  const window = { from: '2031-01-01T00:00:00.000Z', to: '2031-01-02T00:00:00.000Z' }

  it.each(['processing', 'partial'])('stays in a %s slice of a backfill, whose end reads it', async (status) => {
    const { id: integrationId } = await makeIntegration(test, 'plain')
    const slice = await makeRun(test, integrationId, { window }, { operation: 'backfill', status })
    const failed = await makeItem(test, slice, { status: 'failed', externalId: 'e-1' })
    await test.integrations.erase(integrationId)
    expect(await logOf(test, slice.id)).toMatchObject({ metadata: { window, enumerated: true } })

    const run = { integrationId, syncLogId: slice.id }
    expect(await test.activities.finaliseSyncRun(run)).toMatchObject({ kind: 'finalised', failed: 1 })
    const { skip } = test.integrations.admin.syncItems
    await skip(failed.id)
    expect(await itemOf(test, failed.id)).toMatchObject({ status: 'skipped' })
  })

  it('may be gone, from an erasure by an earlier release: such a run ends, too', async () => {
    const { id: integrationId } = await makeIntegration(test, 'plain')
    const slice = await makeRun(test, integrationId, {}, { operation: 'backfill', status: 'failed', metadata: null })
    const run = { integrationId, syncLogId: slice.id }
    expect(await test.activities.finaliseSyncRun(run)).toMatchObject({ kind: 'not this time' })
  })

  it('loses the bookmark of a listing: it is the provider’s text', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const bookmark = { position: `https://api.example.com/contacts?after=${PERSONAL}`, count: 5 }
    const run = await makeRun(test, id, { enumerated: false, bookmark }, { status: 'failed' })
    expect((await test.integrations.erase(id)).logs).toBe(1)
    expect((await logOf(test, run.id))?.metadata).toMatchObject({ run_id: expect.any(String) })
    expect((await logOf(test, run.id))?.metadata).not.toHaveProperty('bookmark')
    expect(await everything()).not.toContain(PERSONAL)
  })
})

describe('given up by its command', () => {
  it.each([
    ['between two chunks of the cache', CHUNK_ROWS + 1, 1],
    ['before the log row', 1, 0],
  ])('%s: it ends there, and nothing says that it was done', async (_, entries, left) => {
    const { id } = await makeIntegration(test, 'plain')
    const prefix = `integrations:${integrationKey(id, 'entry')}`
    await test.sql`
      insert into integration_cache (key, value) select ${prefix} || n, '1' from generate_series(1, ${entries}::int) n`
    const command = new AbortController()
    const held = await test.sql.reserve()
    try {
      await held`begin`
      await held`lock table integration_cache in access exclusive mode`
      const erased = untilGivenUp(command.signal, () => test.integrations.erase(id))
      const refused = expect(erased).rejects.toThrow('Interrupted')
      await expect.poll(cacheIsWaitedFor, SOON).toBe(true)
      command.abort(new Error('Interrupted'))
      await held`rollback`
      await refused
    } finally {
      held.release()
    }
    const [row] = await test.sql`select count(*)::int as n from integration_cache where starts_with(key, ${prefix})`
    expect(row?.n).toBe(left)
    expect(await logsOf(test, id, 'erase')).toEqual([])
  })
})

async function cacheIsWaitedFor(): Promise<boolean> {
  const [row] = await test.sql`
    select count(*)::int as n from pg_locks where not granted and relation = 'integration_cache'::regclass`
  return row?.n > 0
}

describe('while a run lives', () => {
  it('is refused, and changes nothing: its items need their payloads', async () => {
    const { integration } = await makeFullIntegration(test)
    test.starts.running.add(integration.id)
    const before = await everything()
    await expect(test.integrations.erase(integration.id)).rejects.toMatchObject({ code: 'integration_busy' })
    expect(await everything()).toBe(before)
  })

  it('ends the run first when forced', async () => {
    const { integration } = await makeFullIntegration(test)
    test.starts.running.add(integration.id)
    await test.integrations.erase(integration.id, { force: true })
    expect(test.starts.cancelled).toEqual([integration.id])
    expect((await integration.refresh()).credentialsArray()).toEqual({})
  })
})
