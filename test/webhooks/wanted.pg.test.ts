/** What an integration does not want is answered, counted and not stored; and payloads that go before their rows. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { Integration } from '../../src/providers/integration.ts'
import { pruneRows } from '../../src/retention/pruning.ts'
import { getWebhook, listWebhooks } from '../../src/webhooks/list.ts'
import { recoverWebhooks } from '../../src/webhooks/recovery.ts'
import { replayWebhooks, startReplay } from '../../src/webhooks/replay.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import { workOff } from '../support/work-off.ts'
import type { Thing } from './split-provider.ts'
import { splitProvider } from './split-provider.ts'

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  const { splitWebhook: _, ...single } = splitProvider()
  const providers = {
    single: { ...single, resolveWebhookEvent: ({ headers }: { headers: Headers }) => headers.get('x-event') },
    many: splitProvider(),
    picky: splitProvider({
      acceptsWebhook(_integration, request) {
        const { id } = request.json() as unknown as Thing
        if (id === 'throws') throw new Error('cannot say')
        return id !== 'unwanted'
      },
    }),
  }
  test = testIntegrations(database.url, {
    providers,
    config: { webhook: { max_attempts: 3, retry_backoff: [0] }, pruning: { webhook_payloads_days: 10 } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

let sent = 0
const deliver = (to: Integration, body: unknown, event?: string) =>
  test.integrations.webhooks.receive({
    provider: to.provider,
    integrationId: to.id,
    method: 'POST',
    path: '/',
    query: '',
    headers: new Headers({ 'x-delivery': String(++sent), ...(event === undefined ? {} : { 'x-event': event }) }),
    readBody: async () => ({ kind: 'read', bytes: Buffer.from(JSON.stringify(body)) }),
  })
const idsOf = async ({ id }: Integration) =>
  (await test.sql`select delivery_id from integration_webhooks where integration_id = ${id} order by id`).map(
    (row) => row.delivery_id,
  )
it('is stored only if its type is in the list of the metadata; what has no type is stored', async () => {
  const to = await makeIntegration(test, 'single', { metadata: { webhook_events: ['a', 'b'] } })
  expect((await deliver(to, {}, 'a')).kind).toBe('queued')
  expect((await deliver(to, {}, 'c')).kind).toBe('unwanted')
  expect((await deliver(to, {})).kind).toBe('queued')
  expect(await idsOf(to)).toHaveLength(2)
})

it.each([[['*']], [['a', '*']]])('is stored whatever its type is if the list is %j', async (webhook_events) => {
  const to = await makeIntegration(test, 'single', { metadata: { webhook_events } })
  expect((await deliver(to, {}, 'c')).kind).toBe('queued')
})

it('leaves out parts that are not wanted, by type or by the provider, and keeps what it cannot judge', async () => {
  const to = await makeIntegration(test, 'picky', { metadata: { webhook_events: ['a'] } })
  const counted = vi.spyOn(test.framework.metrics, 'webhookReceived')
  const parts = [
    { id: 'wanted', type: 'a' },
    { id: 'unwanted', type: 'a' },
    { id: 'throws', type: 'a' },
    { id: 'other', type: 'b' },
  ]
  expect(await deliver(to, parts)).toMatchObject({ kind: 'queued', parts: { duplicates: 0, unwanted: 2 } })
  expect(await idsOf(to)).toEqual(['wanted', 'throws'])
  // Their numbers count in all that it brought: "event 3 of 4".
  expect(await test.sql`select part from integration_webhooks where integration_id = ${to.id} order by id`).toEqual([
    { part: 1 },
    { part: 3 },
  ])
  expect(await test.sql`select parts from integration_deliveries where integration_id = ${to.id}`).toEqual([
    { parts: 4 },
  ])
  expect(await deliver(to, parts.slice(1, 2))).toMatchObject({ kind: 'unwanted', parts: { stored: [], unwanted: 1 } })
  expect(counted.mock.calls.map(([, outcome, count]) => [outcome, count])).toEqual([
    ['queued', 2],
    ['unwanted', 2],
    ['unwanted', 1],
  ])
})

it.each<[unknown]>([[[]], ['a'], [['a', 'a']], [[7]], [['']], [Array.from({ length: 201 }, String)]])(
  'has a list that is one: %j is refused',
  async (webhook_events) => {
    await expect(makeIntegration(test, 'single', { metadata: { webhook_events } })).rejects.toMatchObject({
      code: 'invalid_credentials',
      message: expect.stringContaining('webhook_events'),
    })
  },
)

it('payloads go before their rows: lists say so, and nothing replays or tries them again', async () => {
  const to = await makeIntegration(test, 'many')
  await deliver(to, [
    { id: 'old', type: null },
    { id: 'failed', type: null, isPoisonous: true },
  ])
  await deliver(to, [{ id: 'young', type: null }])
  await workOff(test.framework)
  await test.sql`
    update integration_webhooks set created_at = now() - interval '11 days', processed_at = now() - interval '11 days'
    where integration_id = ${to.id} and delivery_id <> 'young'`
  await test.sql`update integration_deliveries set created_at = now() - interval '11 days' where integration_id = ${to.id} and parts = 2`
  const step = { step: 'webhooks', runId: crypto.randomUUID() } as const
  expect(await pruneRows(test.framework, step, { signal: new AbortController().signal })).toBe(0)
  const listed: [string, boolean][] = []
  for await (const { deliveryId, hasPayload } of listWebhooks(test.framework, { integration: to.id }))
    listed.push([deliveryId, hasPayload])
  expect(listed).toEqual([
    ['young', true],
    ['failed', false],
    ['old', false],
  ])
  const wholes =
    await test.sql`select payload = '' as is_blank from integration_deliveries where integration_id = ${to.id} order by id`
  expect(wholes.map(({ is_blank }) => is_blank)).toEqual([true, false])
  expect(await replayWebhooks(test.framework, { integration: to.id, status: 'processed' })).toMatchObject({
    replayed: 1,
  })
  expect(await recoverWebhooks(test.framework, new AbortController().signal)).toMatchObject({ failed: 0 })
  const [old] = await test.sql`select id from integration_webhooks where delivery_id = 'old'`
  expect(await getWebhook(test.framework, Number(old?.id))).toMatchObject({ payload: '', hasPayload: false })
  await expect(startReplay(test.framework, Number(old?.id), 'id')).rejects.toMatchObject({ isErased: true })
})
