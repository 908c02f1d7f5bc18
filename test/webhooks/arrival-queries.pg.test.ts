/** The one statement of arrival, as two connections see it. */
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { lockIntegration } from '../../src/integrations/queries.ts'
import type { DeliveryOwner, NewDelivery, OwnedDelivery } from '../../src/webhooks/arrival-queries.ts'
import { ANY_VERSION, integrationsOfRoute, storeDeliveries } from '../../src/webhooks/arrival-queries.ts'
import { integrationsToWake } from '../../src/webhooks/wake.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { planModesAround } from '../support/plans.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook, setIntegration } from '../support/rows.ts'

const WINDOW_SECONDS = 300

let database: TestDatabase
let test: TestIntegrations
let other: Connection
let owner: DeliveryOwner

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider(), woken: webhookProvider() } })
  other = connect({ database: database.url })
})

afterAll(async () => {
  await other.close()
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  owner = await ownerOf((await makeIntegration(test, 'acme')).id)
})

describe('storing deliveries', () => {
  it('gives each its row, in their order, and repeats none', async () => {
    const given = [delivery('b'), delivery('a'), delivery('b', { payload: 'another copy' })]
    const results = await storeAll(given)
    expect(results).toEqual([{ id: expect.any(Number) }, { id: expect.any(Number) }, 'duplicate'])
    expect(await storeAll(given)).toEqual(['duplicate', 'duplicate', 'duplicate'])
    const rows = await rowsOf(owner.integrationId)
    expect(rows.map(({ delivery_id, payload }) => [delivery_id, payload])).toEqual([
      ['a', '{}'],
      ['b', '{}'],
    ])
    const idOf = (name: string) => Number(rows.find((row) => row.delivery_id === name)?.id)
    expect(results.slice(0, 2)).toEqual([{ id: idOf('b') }, { id: idOf('a') }])
  })

  it.each<[string, Partial<NewDelivery>]>([
    ['an empty body', { payload: '' }],
    ['no type', { eventType: null }],
    [
      'quotes, backslashes and lines',
      { payload: `{"a":"\\"\\n'"}\r\n\t,{}NULL`, eventType: `it's "{x}" \\ NULL, null` },
    ],
    ['other characters', { payload: '\uFEFF€😀', headers: { 'x-a': ['ä', '€'] } }],
    ['nothing at all', { payload: '', eventType: null, headers: {} }],
  ])('keeps %s', async (_, more) => {
    // Alone, and between others.
    const given = [delivery('x'), delivery('y', more), delivery('z')]
    await storeAll([delivery('alone', more)])
    await storeAll(given)
    const rows = await rowsOf(owner.integrationId)
    for (const name of ['alone', 'y'])
      expect(rows.find((row) => row.delivery_id === name)).toMatchObject({
        payload: '{}',
        event_type: 'thing.made',
        headers: { 'x-header': ['value'] },
        ...(more.payload !== undefined && { payload: more.payload }),
        ...(more.eventType !== undefined && { event_type: more.eventType }),
        ...(more.headers !== undefined && { headers: more.headers }),
      })
    expect(rows).toHaveLength(4)
  })

  it('of many owners at once gives each its own, and to one who has changed nothing', async () => {
    const second = await ownerOf((await makeIntegration(test, 'acme')).id)
    const changed = await ownerOf((await makeIntegration(test, 'acme')).id)
    await setIntegration(test, changed.integrationId, { name: 'renamed' })
    const results = await storeAll([
      delivery('same id'),
      delivery('same id', { owner: changed }),
      delivery('same id', { owner: second }),
    ])
    expect(results).toEqual([{ id: expect.any(Number) }, 'changed', { id: expect.any(Number) }])
    expect(await rowsOf(changed.integrationId)).toEqual([])
    expect(await rowsOf(second.integrationId)).toHaveLength(1)
  })

  it('tells the copy that was stored, where an earlier one came by a version that is over', async () => {
    const before = owner
    await setIntegration(test, owner.integrationId, { name: 'renamed' })
    const now = await ownerOf(owner.integrationId)
    const results = await storeAll([delivery('twice', { owner: before }), delivery('twice', { owner: now })])
    expect(results).toEqual(['changed', { id: expect.any(Number) }])
  })

  it.each([
    ['updated by anybody', (id: number) => test.sql`update integrations set name = 'by psql' where id = ${id}`],
    ['switched off', (id: number) => test.sql`update integrations set is_active = false where id = ${id}`],
    ['deleted', (id: number) => test.sql`delete from integrations where id = ${id}`],
  ])('says that its owner was %s since', async (_, change) => {
    await change(owner.integrationId)
    expect(await storeAll([delivery('late')])).toEqual(['changed'])
    expect(await rowsOf(owner.integrationId)).toEqual([])
  })

  it('says so, too, when the owner is deleted while the statement waits for it', async () => {
    const { tables } = test.framework
    let stored: Promise<unknown> | undefined
    await other.db.transaction(async (tx) => {
      await lockIntegration(tx, tables, owner.integrationId, 'update')
      stored = storeAll([delivery('late')])
      await waitingForLock()
      await tx.execute(`delete from integrations where id = ${owner.integrationId}`)
    })
    expect(await stored).toEqual(['changed'])
  })

  it('does not wait for who holds the row to write it', async () => {
    await other.db.transaction(async (tx) => {
      await lockIntegration(tx, test.framework.tables, owner.integrationId)
      expect(await storeAll([delivery('meanwhile')])).toEqual([{ id: expect.any(Number) }])
    })
  })

  it('keeps the plans of its foreign key checks', async () => {
    const modes = await planModesAround(other.db, (tx) =>
      storeDeliveries(tx as never, test.framework.tables, [delivery('a')], { replayWindowSeconds: WINDOW_SECONDS }),
    )
    expect(modes).toEqual(['force_custom_plan', 'auto'])
    expect(await rowsOf(owner.integrationId)).toHaveLength(1)
  })

  it('of a trusted owner asks for no version, and tells when it is gone', async () => {
    const trusted = { integrationId: owner.integrationId, version: null }
    const rows = [delivery('a'), delivery('b')]
    await setIntegration(test, owner.integrationId, { isActive: false })
    expect(await storeFor(trusted, rows)).toEqual([{ id: expect.any(Number) }, { id: expect.any(Number) }])
    expect(await storeFor(trusted, rows)).toEqual(['duplicate', 'duplicate'])
    expect(await storeFor(owner, rows)).toEqual(['changed', 'changed'])
    expect(await storeFor(trusted, [])).toEqual([])
    await test.integrations.delete(owner.integrationId)
    expect(await storeFor(trusted, rows)).toEqual(['changed', 'changed'])
  })

  it('of an owner in any version asks only that it accepts deliveries', async () => {
    const any = { integrationId: owner.integrationId, version: ANY_VERSION }
    const stored = [{ id: expect.any(Number) }]
    await setIntegration(test, owner.integrationId, { name: 'renamed' })
    expect(await storeFor(any, [delivery('renamed')])).toEqual(stored)
    await setIntegration(test, owner.integrationId, { isActive: false })
    expect(await storeFor(any, [delivery('switched off')])).toEqual(['changed'])
    await setIntegration(test, owner.integrationId, { healthStatus: 'disabled' })
    expect(await storeFor(any, [delivery('disabled by health')])).toEqual(stored)
  })

  it('gives one row to two connections that store the same ids in another order', async () => {
    const names = Array.from({ length: 50 }, (_, n) => `delivery ${n}`)
    const [here, there] = await Promise.all([
      storeAll(names.map((name) => delivery(name))),
      storeDeliveries(
        other.db,
        test.framework.tables,
        names.toReversed().map((name) => delivery(name)),
        { replayWindowSeconds: WINDOW_SECONDS },
      ),
    ])
    expect([...here, ...there].filter((result) => typeof result === 'object')).toHaveLength(50)
    expect(await rowsOf(owner.integrationId)).toHaveLength(50)
  })
})

it('stores the same by prepared statements, where the URL asks for them', async () => {
  const prepared = connect({ database: `${database.url}?prepare=true`, pool: { max: 1 } })
  onTestFinished(() => prepared.close())
  const store = (given: OwnedDelivery[]) =>
    storeDeliveries(prepared.db, test.framework.tables, given, { replayWindowSeconds: WINDOW_SECONDS })
  // From its sixth run on a plan is for any values (manual, PREPARE).
  for (let run = 1; run <= 7; run += 1) {
    const guarded = { signedKey: `integrations:prepared ${owner.integrationId} ${run}` }
    expect(await store([delivery(`a ${run}`), delivery(`b ${run}`), delivery(`a ${run}`)])).toEqual([
      { id: expect.any(Number) },
      { id: expect.any(Number) },
      'duplicate',
    ])
    expect(await store([delivery(`c ${run}`, guarded), delivery(`d ${run}`, guarded)])).toEqual([
      { id: expect.any(Number) },
      'duplicate',
    ])
  }
  expect(await rowsOf(owner.integrationId)).toHaveLength(21)
  const kept = await prepared.db.execute(sql`
    select 1 from pg_prepared_statements where statement like '%insert into%' and statement not like '%pg_prepared%'`)
  expect(kept).toHaveLength(2)
})

describe('signed bytes that are reserved', () => {
  let signedKey: string
  beforeEach(() => {
    signedKey = `integrations:integration:${owner.integrationId}:webhook-signed:abc`
  })
  const renamed = (name: string) => delivery(name, { signedKey })

  it('under another id is a duplicate, also in the same statement and in another body’s company', async () => {
    expect(await storeAll([renamed('a'), renamed('b'), delivery('unguarded')])).toEqual([
      { id: expect.any(Number) },
      'duplicate',
      { id: expect.any(Number) },
    ])
    expect(await storeAll([renamed('c'), delivery('d', { signedKey: `${signedKey}d` })])).toEqual([
      'duplicate',
      { id: expect.any(Number) },
    ])
  })

  it('is one row when two connections bring it at once', async () => {
    const results = await Promise.all([
      storeAll([renamed('a')]),
      storeDeliveries(other.db, test.framework.tables, [renamed('b')], { replayWindowSeconds: WINDOW_SECONDS }),
    ])
    expect(results.flat().filter((result) => typeof result === 'object')).toHaveLength(1)
    expect(await rowsOf(owner.integrationId)).toHaveLength(1)
  })

  it.each([
    ['a minute before its window ends', '1 minute', 'duplicate'],
    ['when its window is over', '0 seconds', { id: expect.any(Number) }],
  ])('%s', async (_, left, result) => {
    await storeAll([renamed('a')])
    await test.sql`update integration_cache set expires_at = clock_timestamp() + ${left}::interval where key = ${signedKey}`
    expect(await storeAll([renamed('b')])).toEqual([result])
  })

  it('is reserved for the whole window, and not for longer by repeats of the same id', async () => {
    await storeAll([renamed('a')])
    const end = async () =>
      Number(
        (
          await test.sql`select extract(epoch from expires_at - clock_timestamp()) as s from integration_cache where key = ${signedKey}`
        )[0]?.s,
      )
    expect(await end()).toBeGreaterThan(WINDOW_SECONDS - 30)
    expect(await end()).toBeLessThanOrEqual(WINDOW_SECONDS)
    await test.sql`update integration_cache set expires_at = clock_timestamp() - interval '1 second' where key = ${signedKey}`
    expect(await storeAll([renamed('a')])).toEqual(['duplicate'])
    expect(await end()).toBeLessThan(0)
  })

  it('is not reserved for an owner who has changed', async () => {
    await setIntegration(test, owner.integrationId, { name: 'renamed' })
    expect(await storeAll([renamed('a')])).toEqual(['changed'])
    expect(await test.sql`select 1 from integration_cache where key = ${signedKey}`).toHaveLength(0)
  })
})

describe('the inboxes to be woken', () => {
  it('are those with pending rows, each once, without those that health disabled', async () => {
    const { db, tables } = test.framework
    const before = await integrationsToWake(db, tables)
    const [first, second, ill, idle] = [await another(), await another(), await another(), await another()]
    for (const id of [second, first, ill, second, first]) await makeWebhook(test, id)
    await makeWebhook(test, idle, { status: 'processed', processedAt: new Date() })
    await setIntegration(test, ill, { isActive: false, healthStatus: 'disabled' })
    const found = await integrationsToWake(db, tables)
    expect(found.filter((id) => !before.includes(id))).toEqual([first, second])
  })

  it('are only those whose first pending row is old enough, when that is asked', async () => {
    const { db, tables } = test.framework
    const [old, young] = [await another(), await another()]
    await makeWebhook(test, old, { createdAt: new Date(Date.now() - 60_000) })
    await makeWebhook(test, young)
    const found = await integrationsToWake(db, tables, { olderThanSeconds: 30 })
    expect(found.filter((id) => [old, young].includes(id))).toEqual([old])
  })

  const another = async () => (await makeIntegration(test, 'woken')).id
})

function storeAll(deliveries: readonly OwnedDelivery[]) {
  return storeDeliveries(test.framework.db, test.framework.tables, deliveries, { replayWindowSeconds: WINDOW_SECONDS })
}

function delivery(
  deliveryId: string,
  more: Partial<NewDelivery> & { readonly owner?: DeliveryOwner } = {},
): OwnedDelivery {
  return {
    deliveryId,
    eventType: 'thing.made',
    payload: '{}',
    headers: { 'x-header': ['value'] },
    owner,
    ...more,
  }
}

async function ownerOf(integrationId: number): Promise<DeliveryOwner> {
  const { db, tables } = test.framework
  const [found] = await integrationsOfRoute(db, tables, { provider: 'acme', integrationId }, 1)
  return { integrationId, version: found?.version ?? 'not found' }
}

function rowsOf(integrationId: number) {
  return test.sql`select * from integration_webhooks where integration_id = ${integrationId} order by delivery_id`
}

/** Until a statement of this database waits for another's lock. */
async function waitingForLock(): Promise<void> {
  for (;;) {
    const waiting = await test.sql`
      select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    if (waiting.length > 0) return
  }
}

function storeFor(owner: DeliveryOwner, deliveries: readonly NewDelivery[]) {
  return storeDeliveries(
    test.framework.db,
    test.framework.tables,
    deliveries.map((delivery) => ({ ...delivery, owner })),
  )
}
