/** Deliveries of many events: a webhook each, all of them or none. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { explain } from '../../src/explain/explain.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { deleteIntegration } from '../../src/retention/deletion.ts'
import { eraseIntegration } from '../../src/retention/erasure.ts'
import { pruneRows } from '../../src/retention/pruning.ts'
import type { WebhookSummary } from '../../src/webhooks/list.ts'
import { getWebhook, listWebhooks } from '../../src/webhooks/list.ts'
import { replayWebhooks } from '../../src/webhooks/replay.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import { workOff } from '../support/work-off.ts'
import type { Thing } from './split-provider.ts'
import { splitProvider } from './split-provider.ts'

const KEYS = encryptionKey('parts')
let database: TestDatabase
let test: TestIntegrations
let integration: Integration
const handled: { body: unknown; headers: Headers; query: string | null; type: string | null }[] = []

beforeAll(async () => {
  database = await createTestDatabase()
  const acme = splitProvider()
  const watched: HandlesWebhooks = {
    ...acme,
    handleWebhook(of, request, context) {
      handled.push({
        body: request.json(),
        headers: request.headers,
        query: request.query.get('q'),
        type: context.eventType,
      })
      return acme.handleWebhook(of, request, context)
    },
  }
  const providers = {
    acme: watched,
    broken: splitProvider({
      splitWebhook() {
        throw new Error('not an array')
      },
    }),
    odd: splitProvider({ splitWebhook: () => [{ id: 'x', type: null, payload: '' }] }),
    unsigned: splitProvider({ deliveryIdSigned: false }),
    bytes: splitProvider({ splitWebhook: () => [{ id: null, type: 't', payload: new Uint8Array([255, 0, 1]) }] }),
  }
  test = testIntegrations(database.url, { providers, encryptionKeys: KEYS, config: { pruning: { webhooks_days: 30 } } })
  integration = await makeIntegration(test, 'acme')
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

const things = (name: string, count: number): Thing[] =>
  Array.from({ length: count }, (_, at) => ({ id: `${name}/${at}`, type: 'thing.made' }))

function deliver(body: unknown, name: string, { to = integration, query = '' } = {}) {
  return test.integrations.webhooks.receive({
    provider: to.provider,
    integrationId: to.id,
    method: 'POST',
    path: '/',
    query,
    headers: new Headers({ 'x-delivery': name, 'x-of': 'the whole' }),
    readBody: async () => ({ kind: 'read', bytes: Buffer.from(JSON.stringify(body)) }),
  })
}

const rowsOf = (to: Integration) =>
  test.sql`select * from integration_webhooks where integration_id = ${to.id} order by id`
const wholesOf = (to: Integration) =>
  test.sql`select * from integration_deliveries where integration_id = ${to.id} order by id`

describe('a delivery of many events', () => {
  it('is a webhook for each, in its order, and is kept once', async () => {
    const to = await makeIntegration(test, 'acme')
    const told: unknown[] = []
    listen(
      test,
      'WebhookReceived',
      ({ integration: { id }, deliveryId }: never) => id === to.id && told.push(deliveryId),
    )
    const body = things('order', 12)
    const arrival = await deliver(body, 'order', { to })
    const rows = await rowsOf(to)
    expect(arrival).toMatchObject({
      kind: 'queued',
      webhookId: Number(rows[0]?.id),
      parts: { stored: rows.map(({ id }) => Number(id)), duplicates: 0, unwanted: 0 },
    })
    expect(rows.map(({ delivery_id, part, event_type }) => [delivery_id, part, event_type])).toEqual(
      body.map(({ id }, at) => [id, at + 1, 'thing.made']),
    )
    expect(rows.map(({ payload }) => JSON.parse(payload))).toEqual(body)
    const [whole, ...others] = await wholesOf(to)
    expect(others).toEqual([])
    expect(JSON.parse(whole?.payload)).toEqual(body)
    expect(whole).toMatchObject({ delivery_id: 'order', parts: 12, headers: { 'x-of': ['the whole'] } })
    expect(rows.map(({ part_of, headers }) => [part_of, headers])).toEqual(body.map(() => [whole?.id, {}]))
    expect(told).toEqual(body.map(({ id }) => id))
  })

  it('gives each handler its event, with the headers and the query of the whole', async () => {
    const to = await makeIntegration(test, 'acme')
    await workOff(test.framework)
    await deliver(things('handed', 3), 'handed', { to, query: 'q=1' })
    handled.length = 0
    await workOff(test.framework)
    expect(handled.map(({ body }) => body)).toEqual(things('handed', 3))
    expect(handled.map(({ headers, query, type }) => [headers.get('x-of'), query, type])).toEqual(
      Array(3).fill(['the whole', '1', 'thing.made']),
    )
  })

  it('fails in the poisonous event alone, which is replayed alone', async () => {
    const to = await makeIntegration(test, 'acme')
    await deliver([...things('good', 4), { id: 'bad', type: 'thing.made', isPoisonous: true }], 'mixed', { to })
    await workOff(test.framework)
    const rows = await rowsOf(to)
    expect(rows.map(({ status }) => status)).toEqual([...Array(4).fill('processed'), 'failed'])
    await replayWebhooks(test.framework, { integration: to.id })
    handled.length = 0
    await workOff(test.framework)
    expect(handled.map(({ body, headers }) => [(body as Thing).id, headers.get('x-of')])).toEqual([
      ['bad', 'the whole'],
    ])
  })

  it('is replayed as a whole, listed as a whole, and shown with the headers of the whole', async () => {
    const to = await makeIntegration(test, 'acme')
    await deliver(things('whole', 5), 'whole', { to })
    await deliver(things('beside', 1), 'beside', { to })
    await workOff(test.framework)
    const [whole] = await wholesOf(to)
    const delivery = Number(whole?.id)
    const listed: WebhookSummary[] = []
    for await (const webhook of listWebhooks(test.framework, { delivery })) listed.push(webhook)
    expect(listed.map(({ partOf, part }) => [partOf, part])).toEqual([5, 4, 3, 2, 1].map((part) => [delivery, part]))
    expect(await getWebhook(test.framework, listed[0]?.id ?? 0)).toMatchObject({ headers: { 'x-of': ['the whole'] } })
    const replayed = await replayWebhooks(test.framework, { delivery, status: 'processed' })
    expect(replayed.replayed).toBe(5)
    const told = await explain(test.framework, `webhook:${listed[0]?.id}`)
    expect(told).toMatchObject({ origins: [{ text: "event 5 of 5 of the provider's delivery whole" }] })
    expect(JSON.stringify(told)).toContain(`list-webhooks --delivery ${delivery}`)
    await workOff(test.framework)
  })

  it('is a duplicate when all of it is known; what is new of it is stored', async () => {
    const to = await makeIntegration(test, 'acme')
    await deliver(things('again', 3), 'again', { to })
    expect(await deliver(things('again', 3), 'again', { to })).toMatchObject({
      kind: 'duplicate',
      parts: { stored: [], duplicates: 3, unwanted: 0 },
    })
    expect(await wholesOf(to)).toHaveLength(1)
    expect(await deliver(things('again', 5), 'another', { to })).toMatchObject({
      kind: 'queued',
      parts: { stored: [expect.any(Number), expect.any(Number)], duplicates: 3 },
    })
    expect((await rowsOf(to)).map(({ part }) => part)).toEqual([1, 2, 3, 4, 5])
    expect(await wholesOf(to)).toHaveLength(2)
  })

  it('is stored once when 20 copies come at once, in two processes', async () => {
    const to = await makeIntegration(test, 'acme')
    const arrivals = await Promise.all(Array.from({ length: 20 }, () => deliver(things('once', 50), 'once', { to })))
    expect(arrivals.filter(({ kind }) => kind === 'queued')).toHaveLength(1)
    expect([(await rowsOf(to)).length, (await wholesOf(to)).length]).toEqual([50, 1])
  })

  it('counts an event twice in it as one', async () => {
    const to = await makeIntegration(test, 'acme')
    const twice = [...things('same', 1), ...things('same', 1)]
    expect(await deliver(twice, 'twice', { to })).toMatchObject({
      parts: { stored: [expect.any(Number)], duplicates: 1 },
    })
  })

  it('names events without an id by the delivery and their number', async () => {
    const to = await makeIntegration(test, 'acme')
    await deliver(
      [
        { id: null, type: null },
        { id: null, type: null },
      ],
      'nameless',
      { to },
    )
    expect((await rowsOf(to)).map(({ delivery_id }) => delivery_id)).toEqual(['nameless/1', 'nameless/2'])
  })

  it('without an event is accepted, and nothing is stored', async () => {
    const to = await makeIntegration(test, 'acme')
    expect(await deliver([], 'none', { to })).toMatchObject({ kind: 'unwanted' })
    expect([await rowsOf(to), await wholesOf(to)]).toEqual([[], []])
  })

  it.each(['broken', 'odd'])(
    'that its provider cannot split (%s) is stored whole, and never lost',
    async (provider) => {
      const to = await makeIntegration(test, provider)
      expect(await deliver(things('x', 2), 'unsplit', { to })).toMatchObject({ kind: 'queued' })
      const [row, ...others] = await rowsOf(to)
      expect(others).toEqual([])
      expect(row).toMatchObject({ delivery_id: 'unsplit', part_of: null, payload: JSON.stringify(things('x', 2)) })
    },
  )

  it('may have bytes for an event', async () => {
    const to = await makeIntegration(test, 'bytes')
    await deliver(null, 'bytes', { to })
    expect((await rowsOf(to))[0]).toMatchObject({ payload: '/wAB', headers: { ':encoding': ['base64'] } })
  })

  it('under another, unsigned id is a duplicate as a whole within the window', async () => {
    const to = await makeIntegration(test, 'unsigned')
    expect(await deliver([{ id: null, type: null }], 'first', { to })).toMatchObject({ kind: 'queued' })
    expect(await deliver([{ id: null, type: null }], 'renamed', { to })).toMatchObject({ kind: 'duplicate' })
    expect(await deliver([{ id: null, type: null }], 'first', { to })).toMatchObject({ kind: 'duplicate' })
    expect(await rowsOf(to)).toHaveLength(1)
  })

  it('is verified again, and stored, where its owner has changed', async () => {
    const to = await makeIntegration(test, 'acme')
    await deliver(things('before', 1), 'before', { to })
    await test.sql`update integrations set name = 'changed' where id = ${to.id}`
    expect(await deliver(things('after', 2), 'after', { to })).toMatchObject({ kind: 'queued' })
    await to.disable()
    expect(await deliver(things('off', 2), 'off', { to })).toMatchObject({ kind: 'unknown integration' })
    expect(await rowsOf(to)).toHaveLength(3)
  })
})

describe('what was delivered', () => {
  it('is pruned with the last of its events', async () => {
    const to = await makeIntegration(test, 'acme')
    await deliver([...things('old', 2), { id: 'late', type: null, isPoisonous: true }], 'old', { to })
    await workOff(test.framework)
    const age = (which: string) =>
      test.sql`update integration_webhooks set created_at = now() - interval '40 days', processed_at = now() - interval '40 days'
        where integration_id = ${to.id} and status = ${which}`
    await test.sql`update integration_deliveries set created_at = now() - interval '40 days' where integration_id = ${to.id}`
    const prune = () =>
      pruneRows(
        test.framework,
        { step: 'webhooks', runId: crypto.randomUUID() },
        { signal: new AbortController().signal },
      )
    await age('processed')
    expect(await prune()).toBe(2)
    expect([(await rowsOf(to)).length, (await wholesOf(to)).length]).toEqual([1, 1])
    await age('failed')
    expect(await prune()).toBe(1)
    expect([(await rowsOf(to)).length, (await wholesOf(to)).length]).toEqual([0, 0])
  })

  it('is erased and deleted with its integration', async () => {
    const to = await makeIntegration(test, 'acme')
    await deliver(things('personal', 2), 'personal', { to })
    expect(await eraseIntegration(test.framework, to.id)).toMatchObject({ webhooks: 2, deliveries: 1 })
    expect(await wholesOf(to)).toMatchObject([{ payload: '', headers: {} }])
    expect(await replayWebhooks(test.framework, { integration: to.id })).toMatchObject({ replayed: 0 })
    expect(await deleteIntegration(test.framework, to.id)).toMatchObject({ webhooks: 2, deliveries: 1 })
    await test.sql`delete from integrations where id = ${integration.id}`
    expect(await wholesOf(integration)).toEqual([])
    integration = await makeIntegration(test, 'acme')
  })
})

describe('a process that is killed', () => {
  it('has stored all events of a delivery of 1, 100 or 1,000, or none, and all that it has answered', {
    timeout: 120_000,
  }, async () => {
    const to = await makeIntegration(test, 'acme')
    const answered: string[] = []
    for (let round = 0; round < 5; round += 1) {
      const child = fork('test/webhooks/storing-process.ts', {
        execArgv: ['--conditions=durable-source', '--import', 'tsx'],
        env: { ...process.env, DATABASE_URL: database.url, INTEGRATION_ID: String(to.id), KEYS, ROUND: String(round) },
      })
      const exited = once(child, 'exit')
      // In the middle of a delivery of each size, by now and then another number of milliseconds.
      const killAt = 4 + round
      let sent = 0
      child.on('message', ({ answered: name, sending }: { answered?: string; sending?: string }) => {
        if (name !== undefined) answered.push(name)
        if (sending !== undefined && ++sent === killAt) setTimeout(() => child.kill('SIGKILL'), (round * 7) % 23)
      })
      await exited
    }
    // A backend of the killed process may still be at work.
    await expect
      .poll(
        async () =>
          (
            await test.sql`
        select 1 from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()`
          ).length,
      )
      .toBe(0)
    const stored = await test.sql<{ name: string; rows: number }[]>`
      select split_part(delivery_id, '/', 1) as name, count(*)::int as rows
      from integration_webhooks where integration_id = ${to.id} group by 1`
    const counts = new Map(stored.map(({ name, rows }) => [name, rows]))
    expect(answered.length).toBeGreaterThan(12)
    for (const [name, rows] of counts) expect([name, rows]).toEqual([name, Number(name.split('-')[2])])
    for (const name of answered) expect(counts.has(name)).toBe(true)
    expect((await wholesOf(to)).map(({ delivery_id }) => delivery_id).sort()).toEqual([...counts.keys()].sort())
  })

  it.each(['integration_deliveries', 'integration_webhooks'])('by an error at %s stores nothing', async (table) => {
    const to = await makeIntegration(test, 'acme')
    await test.sql.unsafe(`
      create or replace function fault() returns trigger language plpgsql as $$
        begin if new.delivery_id like 'fault%7' then raise exception 'fault' using errcode = '53100'; end if; return new; end $$;
      create trigger fault after insert on ${table} for each row execute function fault()`)
    try {
      expect(await deliver(things('fault', 100), 'fault 7', { to })).toEqual({ kind: 'unavailable' })
    } finally {
      await test.sql.unsafe(`drop trigger fault on ${table}`)
    }
    expect([await rowsOf(to), await wholesOf(to)]).toEqual([[], []])
    expect(await deliver(things('fault', 100), 'fault 7', { to })).toMatchObject({ kind: 'queued' })
  })
})
