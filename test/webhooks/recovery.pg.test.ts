/** Which webhooks recovery takes up, once each, and what it starts for them. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import type { Tables, WebhookRow } from '../../src/db/schema/tables.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import type { WorkflowStarters } from '../../src/framework/context.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { claimNextWebhooks } from '../../src/webhooks/queries.ts'
import type { Due } from '../../src/webhooks/recovery.ts'
import { recoverWebhooks, takeUpDue, undoTakeUp } from '../../src/webhooks/recovery.ts'
import type { RecoverWebhooksResult } from '../../src/webhooks/webhook-jobs.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook, setIntegration, webhookOf } from '../support/rows.ts'

const NOTHING: RecoverWebhooksResult = { processing: 0, pending: 0, failed: 0 }
const CONFIG = {
  webhook: {
    processing_timeout: 600,
    pending_timeout: 900,
    max_attempts: 4,
    retry_backoff: [60, 300],
    handler_timeout: 9,
  },
}
const DUE = {
  processing: { status: 'processing', timeoutSeconds: 600 },
  pending: { status: 'pending', timeoutSeconds: 900 },
  failed: { status: 'failed', maxAttempts: 4, backoffSeconds: [60, 300] },
} as const satisfies Record<string, Due>

let database: TestDatabase
let test: TestIntegrations
/** Another process: pool, framework and recorded starts of its own. */
let second: TestIntegrations
/** Another connection, for whoever is in the middle of something. */
let other: Connection
let tables: Tables
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  const providers = { acme: webhookProvider() }
  test = testIntegrations(database.url, { providers, config: CONFIG })
  second = testIntegrations(database.url, { providers, config: CONFIG })
  other = connect({ database: database.url, pool: { max: 1 } })
  tables = test.framework.tables
})
afterAll(async () => {
  await other?.close()
  await second?.close()
  await test?.close()
  await database?.drop()
})
beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
})
afterEach(async () => {
  await test.sql`delete from integrations`
  for (const { starts } of [test, second]) {
    starts.webhookJobs.length = 0
    starts.wakes.length = 0
    starts.runningWebhooks.clear()
  }
})

const signal = new AbortController().signal
const recover = (by = test) => recoverWebhooks(by.framework, signal)
const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
const stuck = (seconds: number, values: Parameters<typeof makeWebhook>[2] = {}) =>
  makeWebhook(test, integration.id, {
    status: 'processing',
    attempts: 2,
    claim: 'dead:1',
    updatedAt: ago(seconds),
    ...values,
  })
const waiting = (seconds: number, values: Parameters<typeof makeWebhook>[2] = {}) =>
  makeWebhook(test, integration.id, { updatedAt: ago(seconds), ...values })
const failed = (seconds: number, values: Parameters<typeof makeWebhook>[2] = {}) =>
  makeWebhook(test, integration.id, {
    status: 'failed',
    attempts: 1,
    error: 'boom',
    processedAt: ago(seconds),
    ...values,
  })

describe.each([
  {
    state: 'processing' as const,
    due: () => stuck(700),
    not: () => stuck(500),
    job: (row: WebhookRow) => ({ webhookId: row.id, stuckAttempts: 2 }),
    after: { status: 'processing', attempts: 2, claim: 'dead:1' },
  },
  {
    state: 'pending' as const,
    due: () => waiting(1_000),
    not: () => waiting(800),
    job: (row: WebhookRow) => ({ webhookId: row.id }),
    after: { status: 'pending', attempts: 0, claim: null },
  },
  {
    state: 'failed' as const,
    due: () => failed(70),
    not: () => failed(50),
    job: (row: WebhookRow) => ({ webhookId: row.id }),
    after: { status: 'pending', attempts: 1, error: null, processedAt: null, claim: null },
  },
])('a $state row', ({ state, due, not, job, after }) => {
  it('that is due gets one job; its state follows the table', async () => {
    const row = await due()
    await not()
    expect(await recover()).toEqual({ ...NOTHING, [state]: 1 })
    expect(test.starts.webhookJobs).toEqual([job(row)])
    expect(test.starts.wakes).toEqual([])
    const now = await webhookOf(test, row.id)
    expect(now).toMatchObject(after)
    expect(now.updatedAt.getTime()).toBeGreaterThan(Date.now() - 60_000)
  })

  it('is not due any more, so that the next run finds nothing', async () => {
    await due()
    await recover()
    expect(await recover()).toEqual(NOTHING)
    expect(test.starts.webhookJobs).toHaveLength(1)
  })

  it('goes to one of two runs: the other passes over what the first is taking', async () => {
    await due()
    await other.db.transaction(async (tx) => {
      expect(await takeUpDue(tx as never, tables, DUE[state], { limit: 10 })).toHaveLength(1)
      expect(await recover()).toEqual(NOTHING)
    })
    expect(await recover()).toEqual(NOTHING)
    expect(test.starts.webhookJobs).toEqual([])
  })

  it('gets one job when two processes recover at the same moment', async () => {
    const rows = []
    for (let n = 0; n < 60; n += 1) rows.push(await due())
    const counts = await Promise.all([recover(test), recover(second)])
    expect(counts.map((count) => count[state]).reduce((a, b) => a + b)).toBe(60)
    const jobs = [...test.starts.webhookJobs, ...second.starts.webhookJobs]
    expect(jobs.map(({ webhookId }) => webhookId).sort((a, b) => a - b)).toEqual(rows.map(({ id }) => id))
  })

  it('that is settled or claimed at this moment is left to whoever does it', async () => {
    const row = await due()
    await other.db.transaction(async (tx) => {
      const { webhooks } = tables
      await tx.update(webhooks).set({ status: 'processed', processedAt: new Date(), claim: null })
      expect(await recover()).toEqual(NOTHING)
    })
    expect(await recover()).toEqual(NOTHING)
    expect((await webhookOf(test, row.id)).status).toBe('processed')
  })

  it('is as it was when its job can not be started, and due for the next run', async () => {
    const row = await due()
    const { startProcessWebhook } = test.framework.workflows
    const away = new BackendUnreachable('Temporal', 'nowhere:1', { remedy: 'Start it.' })
    Object.assign(test.framework.workflows, { startProcessWebhook: () => Promise.reject(away) })
    try {
      await expect(recover()).rejects.toBe(away)
    } finally {
      Object.assign(test.framework.workflows, { startProcessWebhook })
    }
    expect(await webhookOf(test, row.id)).toEqual(row)
    expect(await recover()).toEqual({ ...NOTHING, [state]: 1 })
  })

  it('is not put back once somebody has moved it', async () => {
    const row = await due()
    const taken = await takeUpDue(other.db, tables, DUE[state], { limit: 10 })
    await test.sql`update integration_webhooks set status = 'processing', attempts = attempts + 1, claim = 'living:1',
      updated_at = clock_timestamp() where id = ${row.id}`
    const before = await webhookOf(test, row.id)
    await undoTakeUp(other.db, tables, DUE[state], taken)
    expect(await webhookOf(test, row.id)).toEqual(before)
  })

  it('stays untouched while its integration is disabled by its health', async () => {
    const row = await due()
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    expect(await recover()).toEqual(NOTHING)
    expect(await webhookOf(test, row.id)).toEqual(row)
  })

  it('counts when its job runs already: that is the one it gets', async () => {
    const row = await due()
    test.starts.runningWebhooks.add(row.id)
    expect(await recover()).toEqual({ ...NOTHING, [state]: 1 })
    expect(await recover()).toEqual(NOTHING)
  })

  it('beyond the 500th of a pass waits for the next run', async () => {
    // Over six integrations, so that none is a crowd.
    for (let n = 0; n < 6; n += 1) {
      integration = await makeIntegration(test, 'acme')
      const row = await due()
      await test.sql`insert into integration_webhooks
        (integration_id, delivery_id, payload, headers, status, attempts, error, claim, processed_at, updated_at)
        select integration_id, 'copy-' || n, payload, headers, status, attempts, error, claim, processed_at, updated_at
        from integration_webhooks, generate_series(1, 83) n where id = ${row.id}`
    }
    expect(await recover()).toEqual({ ...NOTHING, [state]: 500 })
    expect(await recover()).toEqual({ ...NOTHING, [state]: 4 })
    const ids = test.starts.webhookJobs.map(({ webhookId }) => webhookId)
    expect(new Set(ids).size).toBe(504)
    expect(ids).toEqual([...ids].sort((a, b) => a - b))
  })
})

describe('a crowd', () => {
  it.each(['pending', 'failed'] as const)('of more than 100 %s rows is the inbox’s work', async (state) => {
    const due = () => (state === 'pending' ? waiting(1_000) : failed(70))
    for (let n = 0; n < 101; n += 1) await due()
    integration = await makeIntegration(test, 'acme')
    for (let n = 0; n < 2; n += 1) await due()
    expect(await recover()).toEqual({ ...NOTHING, [state]: 103 })
    expect(new Set(test.starts.wakes)).toEqual(new Set(['arrived']))
    expect(test.starts.webhookJobs).toHaveLength(2)
    expect(await recover()).toEqual(NOTHING)
  })

  it.each(['pending', 'failed'] as const)('of many integrations with %s rows is taken up together', async (state) => {
    const due = () => (state === 'pending' ? waiting(1_000) : failed(70))
    for (let n = 0; n < 20; n += 1) {
      integration = await makeIntegration(test, 'acme')
      const row = await due()
      // Of some moments, each of many rows, and of different attempts.
      await test.sql`insert into integration_webhooks
        (integration_id, delivery_id, payload, headers, status, attempts, error, processed_at, updated_at)
        select integration_id, 'copy-' || n, payload, headers, status,
          case status when 'failed' then 1 + n % 3 else 0 end, error,
          processed_at - make_interval(secs => 400 + n % 7), updated_at - make_interval(secs => n % 7)
        from integration_webhooks, generate_series(1, 119) n where id = ${row.id}`
    }
    const execute = vi.spyOn(test.framework.db, 'execute')
    onTestFinished(() => execute.mockRestore())
    expect(await recover()).toEqual({ ...NOTHING, [state]: 2_400 })
    // Three pages, and all that recovery asks anyway; a statement for each integration would be 20.
    expect(execute.mock.calls.length).toBeLessThan(15)
    expect(await recover()).toEqual(NOTHING)
    expect(test.starts.webhookJobs).toEqual([])
    expect(await test.sql`select 1 from integration_webhooks where status <> 'pending'`).toEqual([])
  })

  it('of exactly 100 gets jobs', async () => {
    for (let n = 0; n < 100; n += 1) await waiting(1_000)
    expect(await recover()).toEqual({ ...NOTHING, pending: 100 })
    expect(test.starts.webhookJobs).toHaveLength(100)
    expect(test.starts.wakes).toEqual([])
  })

  it('of stuck rows gets jobs: no inbox claims what a dead worker holds', async () => {
    for (let n = 0; n < 101; n += 1) await stuck(700)
    expect(await recover()).toEqual({ ...NOTHING, processing: 101 })
    expect(test.starts.webhookJobs).toHaveLength(101)
    expect(test.starts.wakes).toEqual([])
  })
})

describe('a failed row', () => {
  it.each([
    { attempts: 0, seconds: 100_000, again: false },
    { attempts: 1, seconds: 50, again: false },
    { attempts: 1, seconds: 61, again: true },
    { attempts: 2, seconds: 290, again: false },
    { attempts: 2, seconds: 301, again: true },
    { attempts: 3, seconds: 290, again: false },
    { attempts: 3, seconds: 301, again: true },
    { attempts: 4, seconds: 100_000, again: false },
    { attempts: 5, seconds: 100_000, again: false },
  ])('of $attempts attempts, $seconds s after the last: due is $again', async ({ attempts, seconds, again }) => {
    await failed(seconds, { attempts })
    expect(await recover()).toEqual({ ...NOTHING, failed: again ? 1 : 0 })
  })

  it('that was erased stays: its payload is gone', async () => {
    await failed(10_000, { payload: '', headers: {}, error: 'erased' })
    await failed(10_000, { payload: '', headers: {} })
    expect(await recover()).toEqual(NOTHING)
  })

  it('is not tried again by default', async () => {
    await failed(10_000_000)
    const byDefault = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
    try {
      expect(await recover(byDefault)).toEqual(NOTHING)
    } finally {
      await byDefault.close()
    }
  })

  it('may be claimed by the inbox before its job: attempts go on from where they were', async () => {
    const row = await failed(70)
    await recover()
    const room = { after: 0, integrations: 10, rows: 5, room: 5, rooms: {} }
    expect((await claimNextWebhooks(other.db, tables, 'pump:inbox:1', room)).rows).toMatchObject([
      { id: row.id, attempts: 2, error: null },
    ])
  })
})

describe('recovery', () => {
  const wedged = { workflow: 'integrations:webhook-inbox', attempts: 6 }

  async function recoverWhere(replaceWedged: WorkflowStarters['replaceWedged']): Promise<RecoverWebhooksResult> {
    const { workflows } = test.framework
    const before = workflows.replaceWedged
    Object.assign(workflows, { replaceWedged })
    try {
      return await recover()
    } finally {
      Object.assign(workflows, { replaceWedged: before })
    }
  }

  it('says which workflows it replaced, beside the rows that it took up', async () => {
    await waiting(1_000)
    const result = await recoverWhere(async (told) => told(wedged))
    expect(result).toEqual({ processing: 0, pending: 1, failed: 0, replaced: [wedged] })
  })

  it('says so of those that it had replaced when Temporal went away, and takes up rows all the same', async () => {
    await waiting(1_000)
    const result = await recoverWhere(async (told) => {
      told(wedged)
      throw new BackendUnreachable('Temporal', 'its address', { remedy: 'Start it.' })
    })
    expect(result).toEqual({ processing: 0, pending: 1, failed: 0, replaced: [wedged] })
    expect(test.lines.map(({ fields }) => fields.event)).toContain('workflow.not_checked')
  })

  it('takes up rows also where the look at the order of webhooks fails, and says so', async () => {
    await waiting(1_000)
    const transaction = vi.spyOn(test.framework.db, 'transaction').mockRejectedValueOnce(new Error('too late'))
    onTestFinished(() => transaction.mockRestore())
    expect(await recover()).toEqual({ ...NOTHING, pending: 1 })
    expect(test.lines.map(({ fields }) => fields)).toContainEqual(
      expect.objectContaining({ event: 'webhook.order_not_mended', error: 'Error: too late' }),
    )
  })

  it('stops between pages when the worker stops', async () => {
    await waiting(1_000)
    await expect(recoverWebhooks(test.framework, AbortSignal.abort(new Error('stop')))).rejects.toThrow('stop')
    expect(test.starts.webhookJobs).toEqual([])
  })

  it('goes on with the other rows of a page when one can not be started, and says so', async () => {
    const rows = [await waiting(1_000), await waiting(1_000), await waiting(1_000)]
    const { workflows } = test.framework
    const { startProcessWebhook } = workflows
    Object.assign(workflows, {
      startProcessWebhook: (input: { webhookId: number }, integrationId: number) =>
        input.webhookId === rows[1]?.id
          ? Promise.reject(new Error('refused'))
          : startProcessWebhook(input, integrationId),
    })
    try {
      await expect(recover()).rejects.toThrow('refused')
    } finally {
      Object.assign(workflows, { startProcessWebhook })
    }
    expect(test.starts.webhookJobs.map(({ webhookId }) => webhookId)).toEqual([rows[0]?.id, rows[2]?.id])
    expect(await webhookOf(test, rows[1]?.id ?? 0)).toEqual(rows[1])
  })
})

describe('at the very moment', () => {
  const FROZEN = new Date('2026-06-01T12:00:00.000Z')
  const earlier = (milliseconds: number) => new Date(FROZEN.getTime() - milliseconds)
  let still: TestDatabase
  let frozen: TestIntegrations

  beforeAll(async () => {
    still = await createTestDatabase()
    const setup = connect({ database: still.url, pool: { max: 1 } })
    await setup.sql`create schema frozen`
    await setup.sql.unsafe(
      `create function frozen.clock_timestamp() returns timestamptz language sql as $$ select timestamptz '${FROZEN.toISOString()}' $$`,
    )
    const [row] = await setup.sql<{ name: string }[]>`select current_database() as name`
    // Found before Postgres' own clock by every connection from here on.
    await setup.sql.unsafe(`alter database ${row?.name} set search_path = frozen, pg_catalog, public`)
    await setup.close()
    frozen = testIntegrations(still.url, { providers: { acme: webhookProvider() }, config: CONFIG })
  })
  afterAll(async () => {
    await frozen?.close()
    await still?.drop()
  })

  it.each([
    { state: 'processing' as const, values: { updatedAt: earlier(600_000) }, due: 0 },
    { state: 'processing' as const, values: { updatedAt: earlier(600_001) }, due: 1 },
    { state: 'pending' as const, values: { updatedAt: earlier(900_000) }, due: 0 },
    { state: 'pending' as const, values: { updatedAt: earlier(900_001) }, due: 1 },
    { state: 'failed' as const, values: { attempts: 1, processedAt: earlier(60_000) }, due: 1 },
    { state: 'failed' as const, values: { attempts: 1, processedAt: earlier(59_999) }, due: 0 },
  ])('$state $values: $due', async ({ state, values, due }) => {
    const { id } = await makeIntegration(frozen, 'acme')
    await makeWebhook(frozen, id, { status: state, ...values })
    const page = { crowd: { integrationIds: [id] }, limit: 10 }
    expect(await takeUpDue(frozen.framework.db, createTables('integration'), DUE[state], page)).toHaveLength(due)
  })
})

it('gives each row one job a pass, also where it fails again at once and may be tried at once', async () => {
  const config = { webhook: { ...CONFIG.webhook, max_attempts: 1_000, retry_backoff: [0] } }
  const eager = testIntegrations(database.url, { providers: { acme: webhookProvider() }, config })
  try {
    const ids: number[] = []
    for (let n = 0; n < 60; n += 1) ids.push((await failed(10)).id)
    Object.assign(eager.framework.workflows, {
      async startProcessWebhook({ webhookId }: { webhookId: number }) {
        eager.starts.webhookJobs.push({ webhookId })
        await eager.sql`update integration_webhooks
          set status = 'failed', attempts = attempts + 1, processed_at = clock_timestamp() where id = ${webhookId}`
        return 'started'
      },
    })
    expect(await recover(eager)).toEqual({ ...NOTHING, failed: 60 })
    expect(eager.starts.webhookJobs.map(({ webhookId }) => webhookId).sort((a, b) => a - b)).toEqual(ids)
  } finally {
    await eager.close()
  }
})
