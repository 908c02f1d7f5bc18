/** The judge is not blind: a campaign that kept every promise is told so, and each promise that is broken is found, and no other. */
import type { Sql } from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { webhookProvider } from '../../support/providers.ts'
import type { Received } from '../inbox-calls.ts'
import { checkpointOf } from '../sync-plan.ts'
import { plantOldRows } from './attic.ts'
import type { Grants, Written } from './outside.ts'
import { prepareTables } from './providers.ts'
import type { Evidence } from './verdict.ts'
import { judge } from './verdicts.ts'
import { BUDGET, STREAM_NAMES } from './world.ts'

const ENTRIES = 3
const NOW_MS = Date.now()

let database: TestDatabase
let test: TestIntegrations
let shop: number
let crm: number
let attic: number

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { shop: webhookProvider(), crm: {} } })
  const { integrations, sql } = test
  const create = async (provider: string): Promise<number> =>
    (await integrations.create({ provider, name: provider, credentials: { key: 'a secret' } })).id
  shop = await create('shop')
  crm = await create('crm')
  attic = await create('shop')
  await prepareTables({ sql })
  await sql`
    create table handler_runs (
      id uuid primary key default gen_random_uuid(), delivery_id text, attempt int default 1, member text default 'worker',
      begun_at timestamptz, ended_at timestamptz, was_aborted boolean default false)`
  await sql`create table handler_calls (id text, delivery_id text, member text, answer text, error text, noted_at timestamptz default now())`
  await happyCampaign(sql)
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

/** Two webhooks of a key, a delivery of two, a call, a write, a run of each stream, its event; and an attic without what is old. */
async function happyCampaign(sql: Sql): Promise<void> {
  await sql`insert into integration_deliveries (integration_id, delivery_id, payload, headers, parts) values (${shop}, 'many', '[]', '{}', 2)`
  for (const [at, id] of ['key-1', 'key-2', 'many/1', 'many/2'].entries()) {
    const isOrdered = id.startsWith('key')
    await sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers, status, attempts, processed_at, ordering_key, part_of, part)
      values (${shop}, ${id}, '{}', '{}', 'processed', 1, now(), ${isOrdered ? 'key' : null},
        ${isOrdered ? null : sql`(select id from integration_deliveries)`}, ${isOrdered ? null : at - 1})`
    await sql`insert into integration_logs (integration_id, operation, direction, status, external_id) values (${shop}, 'webhook', 'inbound', 'success', ${id})`
    await sql`insert into handler_runs (delivery_id, begun_at, ended_at) values (${id}, ${new Date(NOW_MS + at * 1_000)}, ${new Date(NOW_MS + at * 1_000 + 500)})`
  }
  await sql`
    insert into integration_requests (integration_id, endpoint, method, status_code, response_data, origin)
    select ${shop}, '/calls/c', 'POST', 200, '{"answer":"yes"}', 'webhook:' || id from integration_webhooks where delivery_id = 'key-1'`
  await sql`insert into handler_calls (id, delivery_id, member, answer) values ('c', 'key-1', 'worker', 'yes')`
  await sql`insert into integration_idempotency_keys (integration_id, key) values (${shop}, 'w')`
  await sql`insert into keyed_writes values ('w', 'answered', 'done')`
  for (const stream of STREAM_NAMES) {
    await sql`insert into integration_streams (integration_id, stream, sync_cursor) values (${crm}, ${stream}, to_jsonb(${checkpointOf(ENTRIES)}::text))`
    for (let n = 1; n <= ENTRIES; n += 1) await sql`insert into entry_effects values (${crm}, ${stream}, ${n})`
  }
  await sql`insert into integration_logs (integration_id, operation, direction, status) values (${crm}, 'sync', 'inbound', 'success')`
  await sql`insert into integration_events (integration_id, name, payload, delivered_at) values (${crm}, 'SyncCompleted', '{}', now())`
  await sql`insert into told_events select 'evt_' || id from integration_events`
  await plantOldRows({ sql, atticId: attic } as never)
  for (const table of ['webhooks', 'sync_items', 'requests', 'idempotency_keys', 'logs'])
    await sql`
      delete from ${sql(`integration_${table}`)} t where integration_id = ${attic}
        and coalesce(to_jsonb(t) ->> 'status', 'success') in ('processed', 'success')`
}

interface Mutable {
  readonly sql: Sql
  readonly call: { times: number }
  readonly write: Written
  readonly grants: Grants
  readonly callsAtMs: number[]
  readonly subscriptions: Map<string, { url: string }>
  readonly answered: Set<string>
  readonly lines: string[]
  readonly quiet: { restless: string[]; doctor: string[]; tasks: string[] }
  published: number
}

/** The account of a campaign in which all was well, but for what is broken in it; what that does to tables is undone. */
async function judged(breakIt: (evidence: Mutable) => unknown): Promise<string[]> {
  let broken: string[] = []
  const undo = new Error('undo')
  await test.sql
    .begin(async (tx) => {
      const call: Received = { member: 'worker', atMs: NOW_MS, answer: 'yes', times: 1 }
      const grants: Grants = {
        given: 2,
        used: 1,
        withdrawn: 0,
        expiresAtMs: new Map(),
        underWay: 0,
        mostUnderWay: 1,
        refreshes: 1,
        refused: [],
      }
      const mutable: Mutable = {
        sql: tx as unknown as Sql,
        call,
        write: { answer: 'done', effects: 1 },
        grants,
        callsAtMs: [NOW_MS],
        subscriptions: new Map([['s', { url: 'https://hooks.example.com/integrations/acme/9/webhook' }]]),
        answered: new Set(['key-1', 'key-2', 'many/1', 'many/2']),
        lines: [],
        quiet: { restless: [], doctor: [], tasks: [] },
        published: ENTRIES,
      }
      await breakIt(mutable)
      const evidence = {
        stack: {
          sql: mutable.sql,
          lines: mutable.lines,
          parts: new Map(),
          crms: [crm],
          atticId: attic,
          subscriptions: { subscriptions: mutable.subscriptions, requests: [], note: () => {} },
          outside: {
            received: new Map([['c', call]]),
            callsAtMs: mutable.callsAtMs,
            writes: new Map([['w', mutable.write]]),
            grants: new Map([[5, grants]]),
            published: () => mutable.published,
          },
        },
        operators: {
          integrations: test.integrations,
          wanted: new Map([[9, true]]),
          acts: new Map(),
          rotations: 0,
        },
        sent: {
          answers: {},
          refusals: [],
          answered: mutable.answered,
          many: new Map([['many', 2]]),
          ordered: new Map([['key', ['key-1', 'key-2']]]),
        },
        story: [],
        watched: { looks: 0, torn: new Set(), passed: new Set() },
        quiet: { ...mutable.quiet, seconds: 1, tokens: new Map([[5, 'access-5-2']]) },
      }
      const verdicts = await judge(evidence as unknown as Evidence)
      broken = verdicts.filter((verdict) => verdict.broken.length > 0).map(({ promise }) => promise)
      throw undo
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error
    })
  return broken
}

it('finds nothing where all was well', async () => {
  expect(await judged(() => {})).toEqual([])
})

const STORED = 'every webhook answered 2xx is stored once'
const SETTLED = 'every stored webhook is settled once'
const WHOLE = 'a delivery of many is stored as a whole'
const ORDER = 'webhooks of a key are handled in the order of their arrival'
const CALLS = 'every outbound call has its row, but what a kill or a lost Postgres cost'
const WRITES = 'a write with a key takes effect once at most, and what is uncertain is said'
const STUCK = 'nothing is stuck at the end'
const AGAIN = 'a handler runs again only after its worker died or was silent'

it.each<[string, (evidence: Mutable) => unknown, string[]]>([
  ['an answered webhook has no row', ({ answered }) => answered.add('lost'), [STORED]],
  ['a row without an answer', ({ answered }) => answered.delete('key-1'), [STORED]],
  [
    'a webhook failed',
    ({ sql }) => sql`update integration_webhooks set status = 'failed' where delivery_id = 'key-1'`,
    [SETTLED],
  ],
  [
    'a success is logged twice',
    ({ sql }) =>
      sql`insert into integration_logs (integration_id, operation, direction, status, external_id) values (${shop}, 'webhook', 'inbound', 'success', 'key-1')`,
    [SETTLED],
  ],
  [
    'a handler ran again without a reason',
    ({ sql }) =>
      sql`insert into handler_runs (delivery_id, begun_at, ended_at) values ('many/1', now() + interval '9 s', now() + interval '9 s')`,
    [SETTLED, AGAIN],
  ],
  [
    'a part is missing',
    async ({ sql, answered }) => {
      answered.delete('many/2')
      await sql`delete from integration_webhooks where delivery_id = 'many/2'`
      await sql`delete from integration_logs where external_id = 'many/2'`
    },
    [WHOLE],
  ],
  ['a delivery of many is gone', ({ sql }) => sql`delete from integration_deliveries`, [WHOLE]],
  [
    'the second of a key began too early',
    ({ sql }) => sql`update handler_runs set begun_at = ${new Date(NOW_MS + 400)} where delivery_id = 'key-2'`,
    [ORDER],
  ],
  [
    'an entry is not handled',
    (evidence) => {
      evidence.published += 1
    },
    ['no entry of a sync is lost'],
  ],
  [
    'a cursor is ahead',
    ({ sql }) =>
      sql`update integration_streams set sync_cursor = to_jsonb(${checkpointOf(ENTRIES + 1)}::text) where stream = 'deals'`,
    ['no cursor passes an unfinished entry'],
  ],
  [
    'a run is open',
    ({ sql }) =>
      sql`insert into integration_logs (integration_id, operation, direction, status) values (${crm}, 'sync', 'inbound', 'processing')`,
    ['every run of a sync ends'],
  ],
  ['a call has no row', ({ sql }) => sql`delete from integration_requests`, [CALLS]],
  [
    'a call was made twice',
    ({ call }) => {
      call.times = 2
    },
    [CALLS],
  ],
  [
    'a row has another answer',
    ({ sql }) => sql`update integration_requests set response_data = '{"answer":"no"}'`,
    [CALLS],
  ],
  [
    'a call came from another webhook than its row tells',
    ({ sql }) => sql`update handler_calls set delivery_id = 'key-2'`,
    ['explain names where a record came from'],
  ],
  [
    'a budget is overrun',
    ({ callsAtMs }) => callsAtMs.push(...Array.from({ length: BUDGET.calls }, () => NOW_MS)),
    ["a shared budget holds by the provider's clock"],
  ],
  [
    'a write has two effects',
    ({ write }) => {
      write.effects = 2
    },
    [WRITES],
  ],
  ['an effect of a write is forgotten', ({ sql }) => sql`delete from integration_idempotency_keys`, [WRITES]],
  ['a write is said to have had no effect', ({ sql }) => sql`update keyed_writes set state = 'given up'`, [WRITES]],
  [
    'two refreshes at once',
    ({ grants }) => {
      grants.mostUnderWay = 2
    },
    ['one refresh at a time for each integration'],
  ],
  ['a refresh token is lost', ({ grants }) => grants.refused.push('refresh-5-1'), ['no refresh token is lost']],
  [
    'the last token is not the stored one',
    ({ grants }) => {
      grants.given = 3
    },
    ['no refresh token is lost'],
  ],
  [
    'a subscription too many',
    ({ subscriptions }) => subscriptions.set('t', { url: 'https://hooks.example.com/integrations/acme/9/webhook' }),
    ['subscriptions are exact at the end'],
  ],
  ['no subscription', ({ subscriptions }) => subscriptions.clear(), ['subscriptions are exact at the end']],
  ['an event is not told', ({ sql }) => sql`delete from told_events`, ['every durable event is told at least once']],
  [
    'pruning takes what waits',
    ({ sql }) => sql`delete from integration_sync_items where integration_id = ${attic} and status = 'failed'`,
    ['pruning takes what is old and done, and nothing that waits'],
  ],
  [
    'pruning leaves what is done',
    ({ sql }) =>
      sql`insert into integration_requests (integration_id, endpoint, method) values (${attic}, '/old', 'GET')`,
    ['pruning takes what is old and done, and nothing that waits'],
  ],
  [
    'an unhandled rejection',
    ({ lines }) => lines.push('worker {"event":"process.unhandled_rejection"}'),
    ['no process ends by itself, and no workflow is stuck in its task'],
  ],
  [
    'a workflow whose task fails',
    ({ quiet }) => quiet.tasks.push('sync:1: attempt 7'),
    ['no process ends by itself, and no workflow is stuck in its task'],
  ],
  [
    'a claim is held',
    ({ sql }) => sql`update integration_webhooks set claim = 'somebody' where delivery_id = 'many/1'`,
    [SETTLED, STUCK],
  ],
  ['an advisory lock is held', ({ sql }) => sql`select pg_advisory_xact_lock(1)`, [STUCK]],
  [
    'an item waits',
    ({ sql }) => sql`insert into integration_sync_items (integration_id, event_class) values (${crm}, 'x')`,
    [STUCK],
  ],
  ['something does not come to rest', ({ quiet }) => quiet.restless.push('streams'), [STUCK]],
  ['the doctor has a finding', ({ quiet }) => quiet.doctor.push('keys.match: no'), ['the doctor finds nothing']],
])('%s', async (_, breakIt, promises) => {
  expect(await judged(breakIt)).toEqual(promises)
})

it('finds credentials that have no key any more', async () => {
  await test.sql`update integrations set credentials = 'v1.gone.a.b.c' where id = ${crm}`
  try {
    expect(await judged(() => {})).toEqual(['all credentials decrypt after a rotation'])
  } finally {
    await test.integrations.update(crm, { name: 'crm' })
  }
})
