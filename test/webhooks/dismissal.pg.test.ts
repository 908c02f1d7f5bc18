/** Failed webhooks that somebody gives up: a marker beside the exact status, and what it hides. */
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { webhookRecoveryActivities } from '../../src/activities/webhook-recovery.ts'
import { lateFailedWebhooks } from '../../src/integrations/doctor/backlog-checks.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook, webhookOf } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let webhooks: TestIntegrations['integrations']['webhooks']
let fails = false
/** The doctor names what failed in the last 24 hours. */
const FAILED_AT = new Date(Date.now() - 60_000)

beforeAll(async () => {
  database = await createTestDatabase()
  const handleWebhook = () => {
    if (fails) throw new Error('still no')
  }
  test = testIntegrations(database.url, {
    providers: { acme: webhookProvider({ handleWebhook }) },
    config: { webhook: { max_attempts: 9, retry_backoff: [0] } },
  })
  webhooks = test.integrations.webhooks
  const { processOneWebhook } = webhookRecoveryActivities(test.framework)
  Object.assign(test.framework.workflows, {
    runProcessWebhook: (input: { webhookId: number }) => runActivity(processOneWebhook, { ...input, claim: 'job:1' }),
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integration_webhooks`
  fails = false
  integration = await makeIntegration(test, 'acme')
})

const failed = (values: Parameters<typeof makeWebhook>[2] = {}) =>
  makeWebhook(test, integration.id, {
    status: 'failed',
    attempts: 1,
    error: 'no',
    processedAt: FAILED_AT,
    headers: { host: ['x'] },
    ...values,
  })
/** Where it shows: as a row of each, or as one that is counted. */
async function shownIn(id: number): Promise<string[]> {
  const { db, tables } = test.framework
  const listed: number[] = []
  for await (const row of webhooks.list()) listed.push(row.id)
  const doctor = await lateFailedWebhooks(db, tables)
  const { ids } = await webhooks.previewReplay()
  const { failed: recovered } = await runActivity(webhookRecoveryActivities(test.framework).recoverStuckWebhooks, {})
  // As it was before recovery had it.
  await test.sql`update integration_webhooks set status = 'failed', error = 'no', processed_at = ${FAILED_AT} where status = 'pending'`
  return [
    ...(listed.includes(id) ? ['list'] : []),
    ...(doctor.length > 0 ? ['doctor'] : []),
    ...(ids.includes(id) ? ['replay'] : []),
    ...(recovered > 0 ? ['recovery'] : []),
  ]
}
const EVERYWHERE = ['list', 'doctor', 'replay', 'recovery']

describe('a dismissed webhook', () => {
  it('is failed as before, and hidden from lists, doctor, replays of many and recovery, until that is undone', async () => {
    const row = await failed()
    expect(await shownIn(row.id)).toEqual(EVERYWHERE)
    const before = await webhookOf(test, row.id)
    const { dismissedAt } = await webhooks.dismiss(row.id)
    expect(await webhookOf(test, row.id)).toEqual({ ...before, dismissedAt: expect.any(Date) })
    expect(await shownIn(row.id)).toEqual([])
    const hidden: number[] = []
    for await (const { id } of webhooks.list({ dismissed: true })) hidden.push(id)
    expect(hidden).toEqual([row.id])
    expect(await webhooks.dismiss(row.id)).toEqual({ webhookId: row.id, integrationId: integration.id, dismissedAt })
    expect((await webhooks.dismiss(row.id, { undo: true })).dismissedAt).toBeNull()
    expect(await webhookOf(test, row.id)).toEqual(before)
    expect(await shownIn(row.id)).toEqual(EVERYWHERE)
  })

  it('that is replayed is dismissed no more, however that ends', async () => {
    const [one, other] = [await failed(), await failed()]
    for (const { id } of [one, other]) await webhooks.dismiss(id)
    fails = true
    expect(await webhooks.replay(one.id)).toMatchObject({ outcome: 'failed' })
    expect(await webhookOf(test, one.id)).toMatchObject({ status: 'failed', error: 'still no', dismissedAt: null })
    expect(await webhooks.replayMany({ dismissed: true })).toMatchObject({ replayed: 1 })
    expect(await webhookOf(test, other.id)).toMatchObject({ status: 'pending', dismissedAt: null })
  })

  it.each(['pending', 'processing', 'processed'] as const)('has failed: one that is %s is refused', async (status) => {
    const { id } = await makeWebhook(test, integration.id, { status })
    for (const undo of [false, true])
      await expect(webhooks.dismiss(id, { undo })).rejects.toMatchObject({ code: 'webhook_not_failed', status })
    await expect(webhooks.dismiss(999_999_999)).rejects.toMatchObject({ code: 'webhook_not_found' })
  })
})

describe('many', () => {
  it('are those of the filter, lowest id first, up to the limit; the same the other way', async () => {
    const rows = [await failed({ eventType: 'a' }), await failed({ eventType: 'a' }), await failed({ eventType: 'b' })]
    await makeWebhook(test, integration.id, { status: 'processed', eventType: 'a' })
    const [first, second] = rows.map(({ id }) => id)
    const filter = { integration: integration.id, event: 'a' }
    expect(await webhooks.previewDismissal({ ...filter, limit: 1 })).toEqual({
      count: 1,
      ids: [first],
      integrations: 1,
      more: true,
    })
    expect(await webhooks.dismissMany({ ...filter, limit: 1 })).toEqual({
      dismissed: 1,
      integrations: [{ id: integration.id, dismissed: 1 }],
      more: true,
    })
    expect(await webhooks.dismissMany(filter)).toMatchObject({ dismissed: 1 })
    expect(await webhooks.previewDismissal(filter)).toEqual({ count: 0, ids: [], integrations: 0, more: false })
    const undo = { undo: true }
    expect(await webhooks.previewDismissal({}, undo)).toEqual({
      count: 2,
      ids: [first, second],
      integrations: 1,
      more: false,
    })
    expect(await webhooks.dismissMany({}, undo)).toMatchObject({ dismissed: 2 })
    expect(await webhooks.previewDismissal()).toMatchObject({ count: 3 })
  })

  it('of one of which a replay has hold passes it over', async () => {
    const [held, free] = [await failed(), await failed()]
    const { db, tables } = test.framework
    await db.transaction(async (tx) => {
      await tx.select().from(tables.webhooks).where(eq(tables.webhooks.id, held.id)).for('update')
      expect(await webhooks.dismissMany()).toMatchObject({ dismissed: 1 })
    })
    expect((await webhookOf(test, held.id)).dismissedAt).toBeNull()
    expect((await webhookOf(test, free.id)).dismissedAt).not.toBeNull()
  })
})
