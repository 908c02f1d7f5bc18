/** Deleting an integration: all of it, nothing else, whatever happens meanwhile. */
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import { CHUNK_ROWS } from '../../src/retention/deletion.ts'
import { storeDeliveries } from '../../src/webhooks/arrival-queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { countRows, makeFullIntegration } from '../support/full-integration.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const NOTHING = {
  webhooks: 0,
  requests: 0,
  logs: 0,
  sync_items: 0,
  mappings: 0,
  idempotency_keys: 0,
  incidents: 0,
  events: 0,
  record_hashes: 0,
  written_records: 0,
  rollups: 0,
  cache: 0,
}

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
  test.starts.runningBackfills.clear()
  test.starts.cancelledBackfills.length = 0
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

describe('delete', () => {
  it('removes the row and all its rows, and nobody else’s; the log line says who asked', async () => {
    const [mine, other] = [await makeFullIntegration(test), await makeFullIntegration(test)]
    const { id } = mine.integration
    const others = await countRows(test, other.integration.id)

    const deleted = await test.integrations.delete(id, { by: 'grace' })
    expect(deleted).toEqual({
      webhooks: 4,
      deliveries: 0,
      requests: 2,
      logs: 5,
      syncItems: 3,
      mappings: 1,
      idempotencyKeys: 1,
      incidents: 1,
      events: 1,
      recordHashes: 1,
      writtenRecords: 1,
      rollups: 1,
      cache: 2,
    })
    expect(await test.integrations.find(id)).toBeNull()
    expect(await countRows(test, id)).toEqual(NOTHING)
    expect(await countRows(test, other.integration.id)).toEqual(others)
    expect(Object.values(others).every((rows) => rows > 0)).toBe(true)
    expect(test.lines.find(({ fields }) => fields.event === 'integration.deleted')).toMatchObject({
      level: 'info',
      fields: { integration: id, provider: 'plain', name: 'of a test', by: 'grace', rows: deleted },
    })
  })

  it('takes every table chunk by chunk, but for the few rows that go with the integration itself', async () => {
    const deleted = await test.integrations.delete((await makeIntegration(test, 'plain')).id)
    const owned = Object.entries(test.framework.tables).filter(([, table]) => 'integrationId' in table)
    const others = owned.map(([name]) => name).filter((name) => !(name in deleted))
    // What people have done stays in the audit.
    expect(others.sort()).toEqual(['audit', 'streams', 'syncStarts', 'webhookSubscriptions'])
  })

  it('leaves the cache entries of an id that only begins the same', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const neighbour = `integration:${id}0:identity`
    await test.framework.cache.set(neighbour, 1, null)
    await test.integrations.delete(id)
    expect(await test.framework.cache.get(neighbour)).toBe(1)
  })

  it('takes more rows than one chunk', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const rows = CHUNK_ROWS * 2 + 1
    await test.sql`
      insert into integration_mappings (integration_id, external_id, internal_type, internal_id)
      select ${id}, n, 'thing', n from generate_series(1, ${rows}::int) n`
    expect((await test.integrations.delete(id)).mappings).toBe(rows)
    expect(await countRows(test, id)).toEqual(NOTHING)
  })

  it('goes on where a deletion broke off', async () => {
    const { integration } = await makeFullIntegration(test)
    const { id } = integration
    await test.sql`alter table integration_incidents rename to away`
    await expect(test.integrations.delete(id)).rejects.toThrow(/integration_incidents/)
    await test.sql`alter table away rename to integration_incidents`
    const left = await countRows(test, id)
    expect(left).toMatchObject({ webhooks: 0, incidents: 1 })
    expect(await test.integrations.find(id)).toMatchObject({ isActive: false })
    await test.integrations.delete(id)
    expect(await countRows(test, id)).toEqual(NOTHING)
    await expect(test.integrations.delete(id)).rejects.toMatchObject({ code: 'integration_not_found' })
  })

  it('works on a row of an unregistered provider whose credentials can not be read', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { provider: 'gone', credentials: 'plain text' })
    await test.integrations.delete(id)
    expect(await test.integrations.find(id)).toBeNull()
  })
})

describe('while a run lives', () => {
  it('is refused, and changes nothing', async () => {
    const { integration } = await makeFullIntegration(test)
    test.starts.running.add(integration.id)
    const before = await countRows(test, integration.id)
    await expect(test.integrations.delete(integration.id)).rejects.toMatchObject({
      code: 'integration_busy',
      integrationId: integration.id,
    })
    expect(await countRows(test, integration.id)).toEqual(before)
    expect(await integration.refresh()).toMatchObject({ isActive: true })
    expect(test.starts.cancelled).toEqual([])
  })

  it('ends the run first when forced', async () => {
    const { integration } = await makeFullIntegration(test)
    test.starts.running.add(integration.id)
    await test.integrations.delete(integration.id, { force: true })
    expect(test.starts.cancelled).toEqual([integration.id])
    expect(await countRows(test, integration.id)).toEqual(NOTHING)
  })

  it('minds a backfill as well: its slices go on listing and storing items', async () => {
    const { integration } = await makeFullIntegration(test)
    const { id } = integration
    test.starts.runningBackfills.add(id)
    for (const remove of [test.integrations.delete, test.integrations.admin.erase])
      await expect(remove(id)).rejects.toMatchObject({ code: 'integration_busy', busyWith: 'backfill' })
    expect(await integration.refresh()).toMatchObject({ isActive: true })
    await test.integrations.admin.erase(id, { force: true })
    expect(test.starts.cancelledBackfills).toEqual([id])
    test.starts.runningBackfills.add(id)
    await test.integrations.delete(id, { force: true })
    expect(test.starts.cancelledBackfills).toEqual([id, id])
  })

  it.each([true, false])('changes nothing when Temporal can not be asked (force: %s)', async (force) => {
    const { integration } = await makeFullIntegration(test)
    const away = new BackendUnreachable('Temporal', 'nowhere:1', { remedy: 'Start it.' })
    const { isSyncRunning } = test.framework.workflows
    onTestFinished(() => void Object.assign(test.framework.workflows, { isSyncRunning }))
    Object.assign(test.framework.workflows, { isSyncRunning: () => Promise.reject(away) })
    const before = await countRows(test, integration.id)
    await expect(test.integrations.delete(integration.id, { force })).rejects.toMatchObject({
      code: 'backend_unreachable',
    })
    expect(await countRows(test, integration.id)).toEqual(before)
    expect(await integration.refresh()).toMatchObject({ isActive: true })
  })

  it('switches off before it ends the run, so that no other one opens; deliveries are not taken any more', async () => {
    const integration = await makeIntegration(test, 'plain')
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    let seen: unknown
    const { cancelSync } = test.framework.workflows
    onTestFinished(() => void Object.assign(test.framework.workflows, { cancelSync }))
    Object.assign(test.framework.workflows, {
      cancelSync: async ({ integrationId: id }: { integrationId: number }) => {
        seen = [(await test.integrations.get(id)).isActive, await deliver(id)]
      },
    })
    await test.integrations.delete(integration.id)
    expect(seen).toEqual([false, { kind: 'unknown integration' }])
  })
})

describe('a delivery at the same moment', () => {
  it('that is stored before the row is locked goes with it', async () => {
    const { id } = await makeIntegration(test, 'plain')
    const other = postgres(database.url, { max: 1 })
    onTestFinished(() => other.end())
    const stored = occasion()
    const commit = occasion()
    const delivery = other.begin(async (tx) => {
      await tx`insert into integration_webhooks (integration_id, delivery_id, payload, headers)
               values (${id}, 'late', '{}', '{}')`
      stored.happen()
      await commit.happened
    })
    await stored.happened
    const deletion = test.integrations.delete(id)
    await waitsForLock()
    commit.happen()
    await delivery
    expect((await deletion).webhooks).toBe(1)
    expect(await countRows(test, id)).toEqual(NOTHING)
  })

  it('that comes after finds its integration gone, and is not stored', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await test.sql`insert into integration_webhooks (integration_id, delivery_id, payload, headers)
                   values (${id}, 'held', '{}', '{}')`
    // Somebody holds a row: its chunk passes over it, and the last transaction waits for it with the integration locked.
    const other = postgres(database.url, { max: 1 })
    onTestFinished(() => other.end())
    const held = occasion()
    const letGo = occasion()
    const holder = other.begin(async (tx) => {
      await tx`select 1 from integration_webhooks where integration_id = ${id} for update`
      held.happen()
      await letGo.happened
    })
    await held.happened
    const deletion = test.integrations.delete(id)
    await waitsForLock()
    const owner = { integrationId: id, version: null }
    const late = storeDeliveries(test.framework.db, test.framework.tables, [
      { deliveryId: 'late', eventType: null, payload: '{}', headers: {}, owner },
    ])
    await waitsForLock(2)
    letGo.happen()
    await holder
    expect((await deletion).webhooks).toBe(1)
    expect(await late).toEqual(['changed'])
    expect(await countRows(test, id)).toEqual(NOTHING)
  })

  it('survives a deadlock with somebody who settles rows', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await test.sql`insert into integration_webhooks (integration_id, delivery_id, payload, headers)
                   values (${id}, 'held', '{}', '{}')`
    const other = postgres(database.url, { max: 1, onnotice: () => {} })
    onTestFinished(() => other.end())
    const held = occasion()
    const goOn = occasion()
    // Holds a row and then wants the integration, as a settlement that writes its log does; it is patient, we are not.
    const settlement = other.begin(async (tx) => {
      await tx`set local deadlock_timeout = '1h'`
      await tx`update integration_webhooks set status = 'processed' where integration_id = ${id}`
      held.happen()
      await goOn.happened
      await tx`insert into integration_logs (integration_id, operation, direction, status)
               values (${id}, 'webhook', 'inbound', 'success')`
    })
    await held.happened
    const deletion = test.integrations.delete(id)
    await waitsForLock()
    goOn.happen()
    await settlement
    expect(await deletion).toMatchObject({ webhooks: 1, logs: 1 })
    expect(await countRows(test, id)).toEqual(NOTHING)
  })
})

describe('a patch at the same moment', () => {
  it('that holds the row is waited for; one that comes after finds nothing', async () => {
    const integration = await makeIntegration(test, 'plain')
    const patches = Array.from({ length: 10 }, (_, n) =>
      integration.updateCredentials({ [`k${n}`]: n }).then(
        () => 'stored',
        (error) => error.code,
      ),
    )
    const deletion = test.integrations.delete(integration.id)
    const late = test.integrations.update(integration.id, { name: 'renamed' }).then(
      () => 'stored',
      (error) => error.code,
    )
    await deletion
    for (const outcome of [...(await Promise.all(patches)), await late])
      expect(['stored', 'integration_not_found']).toContain(outcome)
    expect(await test.integrations.find(integration.id)).toBeNull()
    await expect(integration.updateCredentials({ a: 1 })).rejects.toMatchObject({ code: 'integration_not_found' })
  })
})

/** Until so many of this database's sessions wait for a lock. */
async function waitsForLock(sessions = 1): Promise<void> {
  await expect
    .poll(async () => {
      const [row] = await test.sql`
          select count(*)::int as n from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`
      return row?.n
    }, SOON)
    .toBe(sessions)
}

function deliver(integrationId: number) {
  return test.integrations.webhooks.receive({
    provider: 'plain',
    integrationId,
    method: 'POST',
    path: '/',
    query: '',
    headers: new Headers(),
    readBody: async () => ({ kind: 'read', bytes: new Uint8Array() }),
  })
}
