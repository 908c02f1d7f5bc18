/** Rule: docs/behaviour/failures.md. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import { rowsOfAct } from '../../src/failures/act-progress.ts'
import { groupId } from '../../src/failures/failure-rules.ts'
import type { FailureGroup, ListFailures } from '../../src/failures/failures.ts'
import { BackendUnreachable, isIntegrationsError } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun, makeWebhook, setIntegration, webhookOf } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let ours: Integration
let theirs: Integration

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
  await test.sql`delete from integration_audit`
  test.starts.itemJobs.length = 0
  test.starts.wakes.length = 0
  ours = await makeIntegration(test, 'acme', { owner: { type: 'team', id: 7 } })
  theirs = await makeIntegration(test, 'other', { owner: { type: 'team', id: 8 } })
})

const HOUR = 3_600_000
const ago = (hours: number): Date => new Date(Math.floor(Date.now() - hours * HOUR))

interface Failed {
  readonly at?: Date
  readonly of?: Integration
  readonly [column: string]: unknown
}

async function failedItem(error: string, { at = ago(1), of = ours, ...values }: Failed = {}) {
  const run = await makeRun(test, of.id)
  return makeItem(test, run, { status: 'failed', error, completedAt: at, attempts: 3, ...values })
}

const failedWebhook = (error: string, { at = ago(1), of = ours, ...values }: Failed = {}) =>
  makeWebhook(test, of.id, { status: 'failed', error, processedAt: at, attempts: 5, ...values })

async function failedRequest(
  error: string,
  { at = ago(1), of = ours, failureClass = 'upstream' as FailureClass | null } = {},
): Promise<void> {
  const { db, tables } = test.framework
  const call = { endpoint: '/x', method: 'GET', failureClass } as const
  await db.insert(tables.requests).values({ integrationId: of.id, ...call, error, createdAt: at })
}

const groupsOf = async (filter?: ListFailures): Promise<readonly FailureGroup[]> =>
  (await test.integrations.admin.failures(filter)).groups
const errorsOf = async (filter?: ListFailures): Promise<string[]> => (await groupsOf(filter)).map(({ error }) => error)

describe('failures', () => {
  it('of the same error are one group, with its figures and its newest example', async () => {
    const first = ago(5)
    const last = ago(2)
    await failedItem('no order 1', { at: first })
    const newest = await failedItem('no order 2222', { at: last, of: theirs })
    await failedItem('no order 3', { at: ago(3) })
    expect(await test.integrations.admin.failures()).toEqual({
      since: expect.any(Date),
      groups: [
        {
          group: groupId('item', 'no order <n>'),
          kind: 'item',
          failureClass: null,
          error: 'no order <n>',
          count: 3,
          firstSeen: first,
          lastSeen: last,
          integrations: 2,
          example: { reference: `item:${newest.id}`, integrationId: theirs.id, error: 'no order 2222' },
          retryable: true,
        },
      ],
      truncated: false,
      more: false,
      waiting: { count: 0, error: null, truncated: false },
    })
  })

  it('of different kinds are apart, the most frequent first', async () => {
    await failedItem('bad')
    await failedWebhook('bad')
    await failedWebhook('bad')
    await failedRequest('bad')
    await failedRequest('bad')
    await failedRequest('bad')
    expect((await groupsOf()).map(({ kind, count, retryable }) => [kind, count, retryable])).toEqual([
      ['request', 3, false],
      ['webhook', 2, true],
      ['item', 1, true],
    ])
    expect((await groupsOf({ kind: 'webhook' })).map(({ kind }) => kind)).toEqual(['webhook'])
  })

  it('of requests are apart by class, also with the same text: the one passes by itself, the other does not', async () => {
    const error = 'HttpError: HTTP 403: Forbidden'
    for (const failureClass of ['client', 'client', 'throttle'] as const) await failedRequest(error, { failureClass })
    const groups = await groupsOf({ kind: 'request' })
    expect(groups).toMatchObject([
      { group: groupId('request', error, 'client'), failureClass: 'client', count: 2, error },
      { group: groupId('request', error, 'throttle'), failureClass: 'throttle', count: 1, error },
    ])
  })

  it('of requests without a class are among the unknown ones', async () => {
    const error = 'Error: bad'
    for (const failureClass of ['unknown', null] as const) await failedRequest(error, { failureClass })
    expect(await groupsOf({ kind: 'request' })).toMatchObject([
      { group: groupId('request', error, 'unknown'), failureClass: 'unknown', count: 2, error },
    ])
  })

  it('are those that failed: no success, nothing dismissed or waiting', async () => {
    await makeItem(test, await makeRun(test, ours.id), { status: 'success', completedAt: ago(1) })
    await makeItem(test, await makeRun(test, ours.id), { status: 'processing', lastError: 'x', nextAttemptAt: ago(-1) })
    await failedWebhook('x', { dismissedAt: ago(1) })
    await makeWebhook(test, ours.id, { status: 'processed', processedAt: ago(1) })
    expect(await groupsOf()).toEqual([])
  })

  it('are not yet the items that wait for another try after an error: those are counted beside, with what most failed of', async () => {
    const waits = async (lastError: string | null, { of = ours, attempts = 2 } = {}) => {
      const values = { status: 'processing', lastError, attempts, nextAttemptAt: ago(-1) } as const
      await makeItem(test, await makeRun(test, of.id), values)
    }
    const waiting = async (filter?: ListFailures) => (await test.integrations.admin.failures(filter)).waiting
    for (const order of [1, 22, 333]) await waits(`no order ${order}`)
    await waits('timeout')
    await waits('no order 4', { of: theirs })
    // Put off, or held back by a limit: no attempt has failed.
    await waits(null)
    await waits('not yet', { attempts: 0 })
    expect(await groupsOf()).toEqual([])
    expect(await waiting()).toEqual({ count: 5, error: 'no order <n>', truncated: false })
    expect(await waiting({ integrationId: theirs.id })).toEqual({ count: 1, error: 'no order <n>', truncated: false })
    expect(await waiting({ provider: 'acme', since: ago(0.01) })).toMatchObject({ count: 4 })
    expect(await waiting({ owner: { type: 'team', id: 9 } })).toEqual({ count: 0, error: null, truncated: false })
    expect(await waiting({ kind: 'webhook' })).toBeNull()
    const run = await makeRun(test, ours.id)
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, status, attempts, last_error, next_attempt_at)
      select ${ours.id}, ${run.id}, 'test.thing', 'processing', 1, 'busy', now() from generate_series(1, 4000)`
    expect(await waiting()).toEqual({ count: 4_000, error: 'busy', truncated: true })
  })

  it('are chosen by integration, provider, owner and time', async () => {
    await failedItem('ours', { at: ago(3) })
    await failedItem('theirs', { of: theirs, at: ago(2) })
    await failedWebhook('old', { at: ago(25) })
    await failedRequest('older', { at: ago(50) })
    expect(await errorsOf()).toEqual(['theirs', 'ours'])
    expect(await errorsOf({ integrationId: ours.id })).toEqual(['ours'])
    expect(await errorsOf({ provider: 'other' })).toEqual(['theirs'])
    expect(await errorsOf({ owner: { type: 'team', id: 7 } })).toEqual(['ours'])
    expect(await errorsOf({ owner: { type: 'team', id: 7 }, provider: 'other' })).toEqual([])
    expect(await errorsOf({ since: ago(26) })).toEqual(['theirs', 'ours', 'old'])
    expect(await errorsOf({ since: ago(51), until: ago(10) })).toEqual(['old', 'older'])
    expect(await errorsOf({ since: ago(51), until: ago(10), provider: 'acme' })).toEqual(['old', 'older'])
    expect(await errorsOf({ since: ago(2.5), until: ago(1) })).toEqual(['theirs'])
  })

  it('say when there are more groups than were asked for', async () => {
    for (const error of ['a', 'b', 'c']) await failedItem(error)
    expect(await test.integrations.admin.failures({ limit: 2 })).toMatchObject({ more: true, truncated: false })
    expect(await groupsOf({ limit: 2 })).toHaveLength(2)
  })

  it('say when there were more than are looked at, and then look at the newest', async () => {
    await test.sql`
      insert into integration_requests (integration_id, endpoint, method, failure_class, error, created_at)
      select ${ours.id}::bigint, '/x', 'GET', 'upstream', 'old ' || n, now() - interval '2 hours' from generate_series(1, 50) n
      union all
      select ${ours.id}::bigint, '/x', 'GET', 'upstream', 'new ' || n, now() - interval '1 hour' from generate_series(1, 4000) n`
    await failedRequest('quiet', { of: theirs, at: ago(3) })
    const all = await test.integrations.admin.failures()
    expect(all.truncated).toBe(true)
    expect(all.groups.map(({ error, count }) => [error, count])).toEqual([['new <n>', 4_000]])
    await test.sql`delete from integration_requests where error like 'old %'`
    // As many as are looked at: none is left out, but for the other integration's.
    expect(await test.integrations.admin.failures({ provider: 'acme' })).toMatchObject({
      truncated: false,
      groups: [{ error: 'new <n>', count: 4_000 }],
    })
    await failedRequest('old', { at: ago(2) })
    expect(await test.integrations.admin.failures({ provider: 'other' })).toMatchObject({
      truncated: false,
      groups: [{ error: 'quiet' }],
    })
    expect((await test.integrations.admin.failures({ provider: 'acme' })).truncated).toBe(true)
  })

  it.each([
    [{ kind: 'log' as never }],
    [{ limit: 0 }],
    [{ limit: 501 }],
    [{ integrationId: 1.5 }],
    [{ provider: '' }],
    [{ provider: 'a\u0000' }],
    [{ owner: { type: '', id: 1 } }],
    [{ since: new Date('x') }],
    [{ since: ago(1), until: ago(2) }],
    [{ until: ago(48) }],
  ])('%j is refused', async (filter) => {
    await expect(test.integrations.admin.failures(filter)).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it('take any text for a provider', async () => {
    await failedItem('x')
    for (const provider of ["' or 1=1 --", '%', '(a+)+$', 'x'.repeat(10_000)])
      expect(await groupsOf({ provider })).toEqual([])
  })
})

const WHO = { by: 'ada', from: '10.0.0.7' }
const retry = (group: string, which: object = {}) => test.integrations.admin.retryGroup(group, { ...WHO, ...which })

async function acts(): Promise<string[]> {
  const rows = await test.sql<{ action: string; target: string; actor: string; detail: string }[]>`
    select action, target, actor, detail from integration_audit order by id`
  return rows.map(({ action, target, actor, detail }) => `${actor} ${action} ${target}: ${detail}`)
}

describe('a group', () => {
  it('of items is counted, then retried, and each act is written down', async () => {
    const items = [await failedItem('no order 1'), await failedItem('no order 2', { of: theirs })]
    await failedItem('another')
    const group = groupId('item', 'no order <n>')
    const ids = items.map(({ id }) => id)
    expect(await test.integrations.admin.previewRetryGroup(group)).toEqual({
      group,
      kind: 'item',
      error: 'no order <n>',
      count: 2,
      ids,
      integrations: 2,
      waiting: 0,
      leftOut: 0,
      more: false,
    })
    expect(test.starts.itemJobs).toEqual([])
    expect(await acts()).toEqual([])
    const done = { group, kind: 'item', retried: ids, refused: [], stopped: null, waiting: 0, leftOut: 0, more: false }
    expect(await retry(group)).toEqual(done)
    expect(test.starts.itemJobs.map(({ itemId }) => itemId)).toEqual(ids)
    expect(await acts()).toEqual([
      ...ids.map((id) => `ada retry sync-item:${id}: with its group ${group}`),
      `ada retry-group failures:${group}: 2 of 2 items: no order <n>`,
    ])
    const explained = await test.integrations.admin.explain(`item:${ids[0]}`)
    expect(explained).toMatchObject({ lines: expect.arrayContaining([expect.objectContaining({ by: 'ada' })]) })
  })

  it('of webhooks waits again, as a replay', async () => {
    const webhook = await failedWebhook('no order 1')
    const erased = await failedWebhook('no order 2', { payload: '', headers: {} })
    const group = groupId('webhook', 'no order <n>')
    const done = { kind: 'webhook', retried: [webhook.id], refused: [], leftOut: 1 }
    expect(await retry(group)).toMatchObject(done)
    expect(await webhookOf(test, webhook.id)).toMatchObject({ status: 'pending', error: null, replayAttempt: 6 })
    expect((await webhookOf(test, erased.id)).status).toBe('failed')
    expect(test.starts.wakes).toEqual(['arrived'])
    expect(await acts()).toEqual([
      `ada replay webhook:${webhook.id}: with its group ${group}`,
      `ada retry-group failures:${group}: 1 of 1 webhooks: no order <n>`,
    ])
  })

  it('of webhooks says how many will wait: their integration is disabled by its health', async () => {
    const ids = [(await failedWebhook('x')).id, (await failedWebhook('x', { of: theirs })).id]
    await setIntegration(test, theirs.id, { healthStatus: 'disabled', isActive: false })
    const group = groupId('webhook', 'x')
    expect(await test.integrations.admin.previewRetryGroup(group)).toMatchObject({ count: 2, waiting: 1 })
    expect(await test.integrations.admin.previewRetryGroup(group, { limit: 1 })).toMatchObject({ count: 1, waiting: 0 })
    expect(await retry(group)).toMatchObject({ retried: ids, waiting: 1 })
  })

  it('of webhooks gets past the erased ones, and says which ones were changed meanwhile', async () => {
    for (let n = 0; n < 2; n += 1) await failedWebhook('x', { payload: '', headers: {} })
    const held = await failedWebhook('x')
    const webhook = await failedWebhook('x')
    const group = groupId('webhook', 'x')
    expect(await test.integrations.admin.previewRetryGroup(group)).toMatchObject({ count: 2, leftOut: 2 })
    await test.sql.begin(async (sql) => {
      await sql`select 1 from integration_webhooks where id = ${held.id} for update`
      expect(await retry(group, { limit: 2 })).toMatchObject({
        retried: [webhook.id],
        refused: [{ id: held.id, code: 'webhook_not_replayable' }],
        leftOut: 2,
        more: false,
      })
    })
  })

  it('is retried up to a limit, within the filter', async () => {
    const items = [await failedItem('x 1'), await failedItem('x 2'), await failedItem('x 3', { of: theirs })]
    const group = groupId('item', 'x <n>')
    expect(await retry(group, { limit: 1 })).toMatchObject({ retried: [items[0]?.id], more: true })
    expect(await retry(group, { provider: 'other' })).toMatchObject({ retried: [items[2]?.id], more: false })
    await expect(retry(group, { until: ago(2) })).rejects.toMatchObject({ code: 'record_not_found' })
  })

  it('of items that failed in several runs is tried with the newest copy of each record', async () => {
    await failedItem('x', { externalId: 'tk' })
    await failedItem('x', { externalId: 'other', of: theirs })
    const newest = await failedItem('x', { externalId: 'tk' })
    const ofTheirs = await failedItem('x', { externalId: 'tk', of: theirs })
    // The newest copy of "other" is in no group of x; an item of another class is another record.
    await failedItem('y', { externalId: 'other', of: theirs })
    await failedItem('y', { externalId: 'tk', eventClass: 'test.other' })
    const group = groupId('item', 'x')
    expect((await groupsOf()).find((one) => one.group === group)).toMatchObject({ count: 4 })
    const chosen = { leftOut: 2, more: false }
    expect(await test.integrations.admin.previewRetryGroup(group)).toMatchObject({ count: 2, ...chosen })
    expect(await retry(group)).toMatchObject({ retried: [newest.id, ofTheirs.id], refused: [], ...chosen })
  })

  it('leaves out what a later run made up for, or has no payload, before it counts up to the limit', async () => {
    for (const externalId of ['a', 'b', 'c']) await failedItem('x', { externalId })
    await failedItem('x', { payload: null })
    for (const [externalId, status] of [
      ['a', 'success'],
      ['b', 'skipped'],
      ['c', 'pending'],
    ] as const)
      await makeItem(test, await makeRun(test, ours.id), { externalId, status, completedAt: ago(0) })
    const item = await failedItem('x')
    const group = groupId('item', 'x')
    expect(await retry(group, { limit: 2 })).toMatchObject({
      retried: [item.id],
      refused: [],
      leftOut: 4,
      more: false,
    })
  })

  it('says what was refused, and goes on', async () => {
    const held = await failedItem('x')
    const item = await failedItem('x')
    test.starts.runningItems.add(held.id)
    const { retried, refused } = await retry(groupId('item', 'x'))
    expect(retried).toEqual([item.id])
    expect(refused).toMatchObject([{ id: held.id, code: 'sync_item_not_failed' }])
  })

  it('ends when Temporal does not answer, and says how far it came', async () => {
    const items = [await failedItem('x'), await failedItem('x')]
    const { workflows } = test.framework
    const start = workflows.startProcessSyncItem
    let calls = 0
    let good = 1
    workflows.startProcessSyncItem = async (...given) => {
      calls += 1
      if (calls > good) throw new BackendUnreachable('Temporal', '127.0.0.1:7233', { remedy: 'Start it.' })
      return start(...given)
    }
    try {
      const group = groupId('item', 'x')
      expect(await retry(group)).toMatchObject({
        retried: [items[0]?.id],
        stopped: expect.stringContaining('Temporal'),
      })
      expect(await acts()).toHaveLength(2)
      good = 0
      await expect(retry(group)).rejects.toMatchObject({ code: 'backend_unreachable' })
    } finally {
      workflows.startProcessSyncItem = start
    }
  })

  it.each(['item', 'webhook'] as const)('of %ss is retried, also where the audit takes nothing', async (kind) => {
    const make = kind === 'item' ? failedItem : failedWebhook
    const ids = [(await make('x')).id, (await make('x')).id]
    const group = groupId(kind, 'x')
    await test.sql.unsafe(`
      create function refuse_act() returns trigger language plpgsql as $$ begin raise 'the disk is full'; end $$;
      create trigger refuse_act before insert on integration_audit for each row execute function refuse_act()`)
    test.lines.length = 0
    try {
      expect(await retry(group)).toMatchObject({ retried: ids, refused: [], stopped: null })
    } finally {
      await test.sql.unsafe('drop function refuse_act() cascade')
    }
    const noted = test.lines.filter(({ fields }) => fields.event === 'operator.change_not_recorded')
    const record = kind === 'item' ? 'sync-item' : 'webhook'
    expect(noted.map(({ level, fields }) => [level, fields.by, fields.target, fields.error])).toEqual(
      [...ids.map((id) => `${record}:${id}`), `failures:${group}`].map((target) => [
        'error',
        'ada',
        target,
        expect.stringContaining('the disk is full'),
      ]),
    )
  })

  it('whose retries break off is written down as far as it came', async () => {
    const items = [await failedItem('x'), await failedItem('x', { of: theirs })]
    const group = groupId('item', 'x')
    const { workflows } = test.framework
    const start = workflows.startProcessSyncItem
    workflows.startProcessSyncItem = async (...given) => {
      if (given[0].itemId === items[1]?.id) throw new TypeError('a fault of ours')
      return start(...given)
    }
    try {
      await expect(retry(group)).rejects.toThrow('a fault of ours')
    } finally {
      workflows.startProcessSyncItem = start
    }
    expect(await acts()).toEqual([
      `ada retry sync-item:${items[0]?.id}: with its group ${group}`,
      `ada retry-group failures:${group}: 1 of 2 items: x`,
    ])
  })

  it('of requests cannot be retried, an unknown one neither', async () => {
    await failedRequest('x')
    await expect(retry(groupId('request', 'x', 'upstream'))).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(retry('0123456789ab')).rejects.toMatchObject({ code: 'record_not_found' })
    expect(await acts()).toEqual([])
  })

  it.each([
    ['', {}],
    ['x', {}],
    ["' or 1=1 --", {}],
    ['x'.repeat(1_000_000), {}],
    [null as never, {}],
    ['0123456789ab', { limit: 0 }],
    ['0123456789ab', { limit: 1_001 }],
    ['0123456789ab', { by: '' }],
    ['0123456789ab', { by: undefined as never }],
  ])('%#: a bad call is refused', async (group, which) => {
    const error: unknown = await retry(group, which).catch((thrown: unknown) => thrown)
    expect(isIntegrationsError(error, 'invalid_argument')).toBe(true)
    expect((error as Error).message.length).toBeLessThan(300)
  })
})

describe('how far an act on many is', () => {
  it('is read from the rows that changed since, however wide its span is', async () => {
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers, status, updated_at)
      select ${ours.id}, n, '{}', '{}', 'processed', now() - interval '2 days' from generate_series(1, 20000) n`
    await test.sql`analyze integration_webhooks`
    for (const status of ['pending', 'processed'] as const)
      await makeWebhook(test, ours.id, { status, replayAttempt: 1 })
    const act = { kind: 'webhook', spans: [[1, 1_000_000]], since: ago(1) } as const
    const { sql: text, params } = rowsOfAct(test.framework, act).toSQL()
    const rows = await test.sql.unsafe(`explain (analyze, timing off) ${text}`, params as never[])
    const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n')
    expect(plan).not.toContain('Seq Scan')
    const dropped = [...plan.matchAll(/Rows Removed by Filter: (\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0)
    expect(dropped).toBeLessThan(100)
    const states = await test.integrations.admin.actProgress(act)
    expect([...states].sort()).toEqual([
      ['pending', 1],
      ['processed', 1],
    ])
  })
})
