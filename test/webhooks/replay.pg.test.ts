/** Replaying settled webhooks, one and many, on real rows. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { webhookRecoveryActivities } from '../../src/activities/webhook-recovery.ts'
import type { WebhookRow } from '../../src/db/schema/tables.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, makeWebhook, setIntegration, webhookOf } from '../support/rows.ts'
import { workOff } from '../support/work-off.ts'

const NEVER = 999_999_999
const AT = new Date('2031-06-01T12:00:00.000Z')
const BEFORE = new Date('2031-06-01T11:59:59.999Z')
const SETTLED_AT = new Date('2031-06-01T12:00:01Z')
const ERASED = { payload: '', headers: {} }

let database: TestDatabase
let test: TestIntegrations
/** Another process on the same tables. */
let other: TestIntegrations
let integration: Integration
const handle = vi.fn<HandlesWebhooks['handleWebhook']>()
let jobs = 0

beforeAll(async () => {
  database = await createTestDatabase()
  const providers = {
    acme: webhookProvider({
      handleWebhook: (...given) => handle(...given),
      webhookHandlers: () => ({ flow: { workflow: 'hostFlow' }, plain: (...given) => handle(...given) }),
    }),
  }
  test = testIntegrations(database.url, { providers })
  other = testIntegrations(database.url, { providers })
  // What the workflow does: one activity, with a claim of its own.
  const { processOneWebhook } = webhookRecoveryActivities(test.framework)
  Object.assign(test.framework.workflows, {
    runProcessWebhook: async (input: { webhookId: number }) => {
      if (test.starts.runningWebhooks.has(input.webhookId)) return 'already running'
      jobs += 1
      return runActivity(processOneWebhook, { ...input, claim: `job-${jobs}:1` })
    },
  })
})

afterAll(async () => {
  await test.close()
  await other.close()
  await database.drop()
})

beforeEach(async () => {
  handle.mockReset()
  handle.mockReturnValue({ done: true })
  test.starts.wakes.length = 0
  test.starts.webhookJobs.length = 0
  integration = await makeIntegration(test, 'acme')
})

const replay = (id: number) => test.integrations.webhooks.replay(id)

/** A settled row, failed unless the test says otherwise. */
function settled(values: Parameters<typeof makeWebhook>[2] = {}, of = integration): Promise<WebhookRow> {
  const { status = 'failed' } = values
  return makeWebhook(test, of.id, {
    status,
    attempts: 1,
    processedAt: SETTLED_AT,
    ...(status === 'failed' && { error: 'Error: no' }),
    ...values,
  })
}

describe('a replay of one', () => {
  it.each(['failed', 'processed'] as const)(
    'runs what is %s again; status follows the last attempt',
    async (status) => {
      const { id } = await settled({ status })
      expect(await replay(id)).toEqual({ webhookId: id, outcome: 'processed', status: 'processed', attempts: 2 })
      expect(await webhookOf(test, id)).toMatchObject({
        status: 'processed',
        error: null,
        attempts: 2,
        replayAttempt: 2,
      })

      handle.mockRejectedValue(new Error('still no'))
      expect(await replay(id)).toEqual({ webhookId: id, outcome: 'failed', status: 'failed', attempts: 3 })
      const row = await webhookOf(test, id)
      expect(row).toMatchObject({
        status: 'failed',
        error: 'still no',
        attempts: 3,
        replayAttempt: 3,
        claim: null,
      })
      const logs = await logsOf(test, integration.id, 'webhook_replay')
      expect(logs.map((log) => [log.status, log.externalId])).toEqual([
        ['success', row.deliveryId],
        ['failed', row.deliveryId],
      ])
    },
  )

  it('asks for no signature, and gives the handler the very bytes', async () => {
    const { id } = await settled({ payload: '/wA=', headers: { ':encoding': ['base64'], 'x-event': ['plain'] } })
    await replay(id)
    expect(handle.mock.calls[0]?.[1].rawBody).toEqual(new Uint8Array([0xff, 0]))
  })

  it('runs although the integration’s health is disabled', async () => {
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    expect(await replay((await settled()).id)).toMatchObject({ outcome: 'processed' })
  })

  it('starts a handler that is a workflow once for each replay', async () => {
    const { id } = await settled({ eventType: 'flow' })
    await replay(id)
    await replay(id)
    const starts = test.starts.handlers.filter(({ input }) => input.webhookId === id)
    expect(starts.map(({ replayAttempt }) => replayAttempt)).toEqual([2, 3])
  })

  it.each(['pending', 'processing'] as const)('is refused of what is %s', async (status) => {
    const { id } = await makeWebhook(test, integration.id, { status })
    for (const ask of [replay, test.integrations.webhooks.startReplay])
      await expect(ask(id)).rejects.toMatchObject({ code: 'webhook_not_replayable', status, isErased: false })
    expect(await webhookOf(test, id)).toMatchObject({ status, attempts: 0 })
    expect(handle).not.toHaveBeenCalled()
  })

  it.each(['failed', 'processed'] as const)('is refused of what has been erased, %s', async (status) => {
    const { id } = await settled({ status, ...ERASED, error: status === 'failed' ? 'erased' : null })
    await expect(replay(id)).rejects.toMatchObject({ code: 'webhook_not_replayable', status, isErased: true })
    expect(handle).not.toHaveBeenCalled()
  })

  it('runs one whose handler said "erased": that is a message like any other', async () => {
    const { id } = await settled({ error: 'erased' })
    expect(await replay(id)).toMatchObject({ outcome: 'processed' })
  })

  it.each([NEVER, 0, -1, 1.5, Number.NaN])('of %s says that there is none', async (id) => {
    await expect(replay(id)).rejects.toMatchObject({ code: 'webhook_not_found' })
    await expect(test.integrations.webhooks.startReplay(id)).rejects.toMatchObject({ code: 'webhook_not_found' })
  })

  it('is refused while a job of it runs, in whatever way it is asked for', async () => {
    const { id } = await settled()
    test.starts.runningWebhooks.add(id)
    for (const ask of [replay, test.integrations.webhooks.startReplay])
      await expect(ask(id)).rejects.toMatchObject({ code: 'webhook_not_replayable', status: 'processing' })
  })

  it('that loses its row to somebody else says in which state it is', async () => {
    const { id } = await settled()
    const { workflows } = other.framework
    Object.assign(workflows, {
      runProcessWebhook: async () => {
        await test.sql`update integration_webhooks set status = 'pending' where id = ${id}`
        return { webhookId: id, outcome: 'not claimed', status: 'pending', attempts: 1 }
      },
    })
    await expect(other.integrations.webhooks.replay(id)).rejects.toMatchObject({ status: 'pending' })
    Object.assign(workflows, {
      runProcessWebhook: async () => {
        await test.sql`delete from integration_webhooks where id = ${id}`
        return { webhookId: id, outcome: 'not claimed', status: null, attempts: null }
      },
    })
    await test.sql`update integration_webhooks set status = 'failed' where id = ${id}`
    await expect(other.integrations.webhooks.replay(id)).rejects.toMatchObject({ code: 'webhook_not_found' })
  })

  it('that nobody waits for names the job', async () => {
    const { id } = await settled()
    expect(await test.integrations.webhooks.startReplay(id)).toEqual({
      webhookId: id,
      integrationId: integration.id,
      workflowId: `integrations:webhook:${id}`,
    })
    expect(test.starts.webhookJobs).toEqual([{ webhookId: id, replay: true }])
  })
})

describe('a replay of many', () => {
  const many = (filter: Parameters<TestIntegrations['integrations']['webhooks']['replayMany']>[0] = {}) =>
    test.integrations.webhooks.replayMany({ integration: integration.id, ...filter })
  const preview = (filter: Parameters<typeof many>[0] = {}) =>
    test.integrations.webhooks.previewReplay({ integration: integration.id, ...filter })
  const statuses = async (rows: readonly WebhookRow[]) =>
    Promise.all(rows.map(async ({ id }) => (await webhookOf(test, id)).status))

  it('makes failed rows pending, each the beginning of a replay, and wakes the inbox', async () => {
    const rows = [await settled({ attempts: 4 }), await settled({ replayAttempt: 1 })]
    const processed = await settled({ status: 'processed' })
    const before = await test.framework.db.execute<{ now: Date }>('select clock_timestamp() as now')
    expect(await many()).toMatchObject({
      replayed: 2,
      integrations: [{ id: integration.id, replayed: 2 }],
      more: false,
    })
    expect(test.starts.wakes).toEqual(['arrived'])
    const [first, second] = await Promise.all(rows.map(({ id }) => webhookOf(test, id)))
    const again = { status: 'pending', error: null, processedAt: null, claim: null }
    expect(first).toMatchObject({ ...again, attempts: 4, replayAttempt: 5 })
    expect(second).toMatchObject({ ...again, attempts: 1, replayAttempt: 2 })
    // Truncated to milliseconds.
    expect(first?.updatedAt.getTime()).toBeGreaterThanOrEqual(new Date(String(before[0]?.now)).getTime() - 1)
    expect(await webhookOf(test, processed.id)).toEqual(processed)
  })

  it('is run by the inbox, logged as a replay, and starts a handler that is a workflow anew', async () => {
    // A pump is of all integrations.
    await test.sql`delete from integration_webhooks`
    const plain = await settled({ eventType: 'plain' })
    const flow = await settled({ eventType: 'flow', status: 'processed' })
    await many()
    await many({ status: 'processed' })
    expect(await workOff(test.framework)).toMatchObject({ processed: 2 })
    expect(await logsOf(test, integration.id, 'webhook')).toEqual([])
    const logs = await logsOf(test, integration.id, 'webhook_replay')
    expect(logs.map((log) => log.externalId).sort()).toEqual([plain.deliveryId, flow.deliveryId].sort())
    expect(test.starts.handlers.filter(({ input: { webhookId } }) => webhookId === flow.id)).toMatchObject([
      { replayAttempt: 2 },
    ])
  })

  it.each<[string, Parameters<typeof many>[0], readonly number[]]>([
    ['failed rows by default', {}, [0, 1, 4]],
    ['processed ones', { status: 'processed' }, [2, 3]],
    ['those of an event type', { event: 'plain' }, [1]],
    ['since, this moment included', { since: AT }, [1, 4]],
    ['until, this moment excluded', { until: AT }, [0]],
    ['between the two', { since: BEFORE, until: AT }, [0]],
    ['none between equal moments', { since: AT, until: AT }, []],
    ['no more than the limit, the lowest ids', { limit: 2 }, [0, 1]],
    ['none', { event: 'constructor' }, []],
  ])('takes %s, as its preview says', async (_, filter, expected) => {
    const rows = [
      await settled({ createdAt: BEFORE }),
      await settled({ createdAt: AT, eventType: 'plain' }),
      await settled({ createdAt: AT, status: 'processed' }),
      await settled({ createdAt: AT, status: 'processed' }),
      await settled({ createdAt: AT }),
    ]
    const ids = expected.map((index) => rows[index]?.id)
    const more = filter?.limit !== undefined
    expect(await preview(filter)).toMatchObject({ count: ids.length, ids, waiting: 0, more })
    expect(await Promise.all(rows.map(({ id }) => webhookOf(test, id)))).toEqual(rows)
    expect(await many(filter)).toMatchObject({ replayed: ids.length, more })
    expect(await statuses(rows)).toEqual(rows.map((row, index) => (expected.includes(index) ? 'pending' : row.status)))
  })

  it('leaves what was erased, and what is not settled', async () => {
    const rows = [
      await settled({ ...ERASED, error: 'erased' }),
      await settled({ ...ERASED, error: null }),
      await makeWebhook(test, integration.id),
      await makeWebhook(test, integration.id, { status: 'processing', attempts: 1, claim: 'x:1' }),
    ]
    const empty = await settled({ payload: '', headers: { host: ['x'] } })
    expect(await preview()).toMatchObject({ ids: [empty.id] })
    expect(await many()).toMatchObject({ replayed: 1 })
    expect(await statuses(rows)).toEqual(rows.map((row) => row.status))
    expect(await many({ status: 'processed' })).toEqual({
      replayed: 0,
      integrations: [],
      span: null,
      more: false,
    })
  })

  it('goes over any number in chunks, and wakes the inbox after each', async () => {
    const second = await makeIntegration(test, 'acme')
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers, status, attempts, error)
      select case when n % 3 = 0 then ${second.id}::bigint else ${integration.id}::bigint end, 'many-' || n, 'many', '{}', '{}',
             'failed', 1, 'Error: no'
      from generate_series(1, 1203) n`
    expect(await test.integrations.webhooks.previewReplay({ event: 'many' })).toMatchObject({
      count: 1_000,
      ids: { length: 10 },
      more: true,
    })
    expect(await test.integrations.webhooks.replayMany({ event: 'many', limit: 1_102 })).toMatchObject({
      replayed: 1_102,
      more: true,
    })
    const { replayed, integrations, more } = await test.integrations.webhooks.replayMany({ event: 'many', limit: 101 })
    expect([replayed, more, integrations.map(({ id }) => id)]).toEqual([101, false, [integration.id, second.id]])
    expect(new Set(test.starts.wakes)).toEqual(new Set(['arrived']))
    const [row] = await test.sql`
      select count(*)::int as n from integration_webhooks
      where event_type = 'many' and status = 'pending' and replay_attempt = 2`
    expect(row?.n).toBe(1_203)
  })

  /** Stored in two chunks; what the trigger does to the first of them is there before the second begins. */
  async function inTwoChunks(event: string, trigger: string): Promise<number> {
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers, status, attempts)
      select ${integration.id}, ${event} || n, ${event}, '{}', '{}', 'failed', 1 from generate_series(1, 501) n`
    await test.sql.unsafe(`
      create function meddle() returns trigger language plpgsql as $$ begin ${trigger} return new; end $$;
      create trigger meddle before update on integration_webhooks for each row execute function meddle()`)
    try {
      return (await many({ event, limit: 10_000 })).replayed
    } finally {
      await test.sql.unsafe('drop trigger meddle on integration_webhooks; drop function meddle()')
    }
  }

  it('takes a row that fails again meanwhile no second time', async () => {
    expect(await inTwoChunks('again', "new.status = 'failed';")).toBe(501)
  })

  it('leaves what is stored after it began', async () => {
    const insert = `insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers, status)
      values (new.integration_id, 'behind', 'late', '{}', '{}', 'failed') on conflict do nothing;`
    expect(await inTwoChunks('late', insert)).toBe(501)
    const [row] = await test.sql`select status from integration_webhooks where delivery_id = 'behind'`
    expect(row).toEqual({ status: 'failed' })
  })

  it('of two at once takes each row once', async () => {
    const rows: WebhookRow[] = []
    for (let n = 0; n < 40; n += 1) rows.push(await settled({ eventType: 'plain' }))
    const filter = { integration: integration.id }
    const [a, b] = await Promise.all([
      test.integrations.webhooks.replayMany(filter),
      other.integrations.webhooks.replayMany(filter),
    ])
    expect(a.replayed + b.replayed).toBe(40)
    expect(await statuses(rows)).toEqual(rows.map(() => 'pending'))
  })

  it('passes over a row that somebody else is moving', async () => {
    const [taken, free] = [await settled(), await settled()]
    await other.sql.begin(async (sql) => {
      await sql`select from integration_webhooks where id = ${taken.id} for update`
      expect(await many()).toMatchObject({ replayed: 1 })
    })
    expect(await statuses([taken, free])).toEqual(['failed', 'pending'])
  })

  it('counts those that will wait until their integration is enabled', async () => {
    await settled()
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    expect(await preview()).toMatchObject({ count: 1, waiting: 1 })
  })

  it.each<[string, Parameters<typeof many>[0], string]>([
    ['another status', { status: 'pending' as never }, 'processed and failed are allowed, pending was given'],
    ['a limit of 0', { limit: 0 }, 'at least 1 is allowed, 0 was given'],
    ['a limit that is no number', { limit: '5' as never }, '5 was given'],
    ['an end before its beginning', { since: AT, until: BEFORE }, BEFORE.toISOString()],
    ['a moment that is none', { since: new Date('x') }, 'Invalid Date was given'],
    ['an empty event type', { event: '' }, 'not empty'],
    ['an id that can be none', { integration: 0 }, '0 was given'],
  ])('refuses %s', async (_, filter, said) => {
    for (const ask of [preview, many]) {
      await expect(ask(filter)).rejects.toMatchObject({ code: 'invalid_argument' })
      await expect(ask(filter)).rejects.toThrow(said)
    }
  })

  it('refuses an integration that does not exist', async () => {
    for (const ask of [preview, many])
      await expect(ask({ integration: NEVER })).rejects.toMatchObject({ code: 'integration_not_found' })
  })
})
