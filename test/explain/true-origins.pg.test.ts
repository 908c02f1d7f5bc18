/** Rows that real work has written name that work as their origin. Rule: docs/behaviour/explain.md, "Origin". */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import type { EventDelivery } from '../../src/events/listeners.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { currentSyncItem } from '../../src/providers/sync-session.ts'
import { deliverDueEvents, processPending } from '../../src/testing/jobs-in-process.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook } from '../support/rows.ts'

const INTEGRATIONS = 4
const WEBHOOKS = 30
const ITEMS = 20
const SAMPLE = 200

let database: TestDatabase
let test: TestIntegrations
/** What the test itself knows: each row's true origin, by the row's reference. */
const truth = new Map<string, string | null>()

beforeAll(async () => {
  database = await createTestDatabase()
  const acme = {
    ...syncProvider(
      async (session) => {
        await call(session.integration, `run:${session.syncLogId}`)
        for (let n = 0; n < ITEMS; n += 1)
          await session.dispatch(new ThingSynced(session.integration, { n }), null, `thing-${session.syncLogId}-${n}`)
      },
      { defaultRateLimit: () => RateLimit.perMinute(100_000) },
    ),
    ...webhookProvider({
      async handleWebhook(integration, _request, { webhookId }) {
        await work(integration, `webhook:${webhookId}`, webhookId)
        if (webhookId % 5 === 0) throw new Error('this one fails')
      },
    }),
  }
  test = testIntegrations(database.url, {
    providers: { acme },
    config: { sync: { item_tries: 1 } },
  })
  test.integrations.on(ThingSynced, async ({ integration, payload: { n } }) => {
    const { syncItemId } = currentSyncItem() as { syncItemId: number }
    await work(integration, `item:${syncItemId}`, syncItemId)
    if (n % 7 === 0) throw new Error('this one fails')
  })
  const later = ({ integration }: IntegrationEvents['SyncCompleted'], { id }: EventDelivery) =>
    call(integration, `event:${id.slice(4)}`)
  test.framework.listeners.on('SyncCompleted', later as never, { queued: true, name: 'tells' })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

/** Each call says in its endpoint which work has made it. */
async function call(integration: Integration, origin: string): Promise<void> {
  await integration.request(`/of/${origin}`, 'GET', async () => ({ ok: true }))
}

/** What a handler does: a call, a mapping, and an operation with a call inside it. */
async function work(integration: Integration, origin: string, id: number): Promise<void> {
  const name = origin.replace(':', '-')
  await Promise.all([
    call(integration, origin),
    integration.mapExternalId(`mapped-by-${origin}`, { type: 'thing', id: name }),
    integration.startOperation({ operation: `of ${origin}`, direction: 'outbound' }).then(async (operation) => {
      truth.set(`log:${operation.id}`, origin)
      await operation.run(() => call(integration, `log:${operation.id}`))
      await (id % 3 === 0 ? operation.fail(new Error('no')) : operation.succeed())
    }),
  ])
}

describe('explain()', () => {
  it(`names the true origin of ${SAMPLE} random rows that webhooks, syncs and events have written`, async () => {
    for (let n = 0; n < INTEGRATIONS; n += 1) {
      const integration = await makeIntegration(test, 'acme', { name: `tenant ${n}` })
      for (let m = 0; m < WEBHOOKS / 2; m += 1) await makeWebhook(test, integration.id)
    }
    const integrations = await test.sql<{ id: string }[]>`select id from integrations order by id`
    const ids = integrations.map(({ id }) => Number(id))
    // At the same time, so that the work of one could be taken for another's.
    const clock = new ManualClock(new Date())
    await Promise.all([
      processPending(test.framework),
      ...ids.map((id) => runSync(test.framework, clock, { integrationId: id })),
    ])
    await deliverDueEvents(test.framework)
    for (const id of ids) {
      const integration = await test.integrations.get(id)
      await call(integration, 'host')
    }
    await learn()

    // No random of the machine: a sample that fails can be looked at again.
    const references = [...truth.keys()].sort((a, b) => (order(a) < order(b) ? -1 : 1)).slice(0, SAMPLE)
    expect(references).toHaveLength(SAMPLE)
    const kinds = new Set<string>()
    for (const reference of references) {
      const explained = await test.integrations.admin.explain(reference)
      if (explained.outcome !== 'found') throw new Error(`${reference} is ambiguous`)
      const [nearest] = explained.origins
      const link = nearest?.link ?? null
      expect([reference, link === null ? null : `${link.kind}:${link.id}`]).toEqual([reference, truth.get(reference)])
      kinds.add(`${reference.split(':')[0]} of ${truth.get(reference)?.split(':')[0]}`)
      if (link === null) continue
      // And the origin knows it, unless it has caused more than is shown.
      const origin = await test.integrations.admin.explain(`${link.kind}:${link.id}`)
      if (origin.outcome !== 'found') throw new Error('ambiguous')
      if (!origin.more) expect(origin.caused).toContainEqual(explained.ref)
    }
    // The sample is of everything.
    for (const kind of [
      'request of webhook',
      'request of item',
      'request of log',
      'mapping of webhook',
      'mapping of item',
    ])
      expect(kinds).toContain(kind)
    expect(kinds).toContain('item of run')
    expect(kinds).toContain('log of item')
    expect(kinds).toContain('log of webhook')
  })

  it('follows the chain to its beginning', async () => {
    const [request] = await test.sql<{ id: string }[]>`
      select r.id from integration_requests r join integration_logs l on r.origin = 'log:' || l.id
      where l.origin like 'item:%' limit 1`
    const explained = await test.integrations.admin.explain(`request:${request?.id}`)
    if (explained.outcome !== 'found') throw new Error('ambiguous')
    expect(explained.origins.map(({ how, link }) => link?.kind ?? how)).toEqual(['log', 'item', 'run', 'request'])
  })

  it('names the event that a queued listener was told of', async () => {
    const rows = await test.sql<{ id: string; endpoint: string }[]>`
      select id, endpoint from integration_requests where endpoint like '/of/event:%'`
    expect(rows).toHaveLength(INTEGRATIONS)
    for (const { id, endpoint } of rows) {
      const explained = await test.integrations.admin.explain(`request:${id}`)
      if (explained.outcome !== 'found') throw new Error('ambiguous')
      expect(explained.origins.slice(0, 2).map(({ link }) => `${link?.kind}:${link?.id}`)).toEqual([
        endpoint.slice('/of/'.length),
        expect.stringMatching(/^run:/),
      ])
    }
  })
})

/** What the rows say in columns that explain() does not go by. */
async function learn(): Promise<void> {
  const requests = await test.sql<{ id: string; endpoint: string }[]>`select id, endpoint from integration_requests`
  for (const { id, endpoint } of requests)
    truth.set(`request:${id}`, endpoint === '/of/host' ? null : endpoint.slice('/of/'.length))
  const mappings = await test.sql<
    { id: string; external_id: string }[]
  >`select id, external_id from integration_mappings`
  for (const { id, external_id: externalId } of mappings)
    truth.set(`mapping:${id}`, externalId.slice('mapped-by-'.length))
  const items = await test.sql<
    { id: string; external_id: string }[]
  >`select id, external_id from integration_sync_items`
  for (const { id, external_id: externalId } of items) truth.set(`item:${id}`, `run:${externalId.split('-')[1]}`)
  const attempts = await test.sql<{ id: string; webhook: string }[]>`
    select l.id, w.id as webhook from integration_logs l join integration_webhooks w
    on w.delivery_id = l.external_id and w.integration_id = l.integration_id where l.operation = 'webhook'`
  for (const { id, webhook } of attempts) truth.set(`log:${id}`, `webhook:${webhook}`)
}

/** Has nothing to do with the order of the references. */
const order = (reference: string): string => createHash('sha256').update(reference).digest('hex')
