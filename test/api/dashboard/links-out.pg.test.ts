/** Links to the Temporal UI, to traces, and to the provider's own pages. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ShownRecord } from '../../../src/providers/contracts.ts'
import type { Dashboard } from '../../support/dashboard.ts'
import { openDashboard } from '../../support/dashboard.ts'
import { syncProvider, webhookProvider } from '../../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook } from '../../support/rows.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const RUN = '0198c2f4-7f3a-7c11-9d52-1b7a4f0e6c2d'

let dashboard: Dashboard
let asked: ShownRecord[] = []
let page: unknown = null

beforeAll(async () => {
  dashboard = await openDashboard({
    providers: {
      acme: {
        ...webhookProvider(),
        ...syncProvider(() => {}),
        pageOf: (_integration: unknown, record: ShownRecord) => {
          asked.push(record)
          if (page instanceof Error) throw page
          return page as string | null
        },
      },
    },
    config: {
      operator: {
        temporal_ui: 'https://temporal.example.com/',
        trace_url: 'https://traces.example.com/t/{trace_id}?view=all',
      },
    },
  })
})
afterAll(() => dashboard.close())

const linksOf = async (path: string): Promise<Record<string, string>> =>
  Object.fromEntries(
    [
      ...(await dashboard.page(path)).matchAll(/<a href="([^"]+)" rel="noreferrer noopener" target="_blank">([^<]+)</g),
    ].map(([, href = '', text = '']) => [text, href]),
  )

describe('links out', () => {
  it('lead from a run to its execution', async () => {
    const { id } = await makeIntegration(dashboard.test, 'acme')
    const run = await makeRun(dashboard.test, id, { run_id: RUN }, { status: 'success' })
    expect(await linksOf(`/sync-runs/${run.id}`)).toEqual({
      'Temporal UI': `https://temporal.example.com/namespaces/default/workflows/integrations%3Async%3A${id}/${RUN}/history`,
    })
  })

  it('lead from a webhook that was tried again to its workflow, and to its trace', async () => {
    const { id } = await makeIntegration(dashboard.test, 'acme')
    const webhook = await makeWebhook(dashboard.test, id, {
      attempts: 2,
      status: 'failed',
      traceparent: `00-${TRACE}-b7ad6b7169203331-01`,
    })
    expect(await linksOf(`/webhooks/${webhook.id}`)).toEqual({
      'Temporal UI': `https://temporal.example.com/namespaces/default/workflows/integrations%3Awebhook%3A${webhook.id}`,
      Trace: `https://traces.example.com/t/${TRACE}?view=all`,
    })
    const first = await makeWebhook(dashboard.test, id, { attempts: 1, status: 'processed' })
    expect(await linksOf(`/webhooks/${first.id}`)).toEqual({})
  })

  it('lead from an incident to the workflow that follows it', async () => {
    const { id } = await makeIntegration(dashboard.test, 'acme')
    const incident = await makeIncident(dashboard.test, id)
    expect(await linksOf(`/incidents/${incident.id}`)).toEqual({
      'Temporal UI': `https://temporal.example.com/namespaces/default/workflows/integrations%3Aincident%3A${id}`,
    })
  })

  it("lead to the provider's own page, which it makes of the record", async () => {
    asked = []
    page = 'https://acme.example.com/things/9'
    const { id } = await makeIntegration(dashboard.test, 'acme')
    const run = await makeRun(dashboard.test, id, {}, { status: 'success' })
    const item = await makeItem(dashboard.test, run, { externalId: 'e-9', status: 'success' })
    const webhook = await makeWebhook(dashboard.test, id, { eventType: 'thing', payload: '{"id":9}' })
    expect(await linksOf(`/sync-items/${item.id}`)).toEqual({ 'Provider&#39;s page': page })
    expect(await linksOf(`/webhooks/${webhook.id}`)).toEqual({ 'Provider&#39;s page': page })
    expect(asked).toEqual([
      { kind: 'item', type: 'test.thing', externalId: 'e-9', payload: { n: 1 } },
      { kind: 'delivery', type: 'thing', externalId: null, payload: { id: 9 } },
    ])
  })

  it.each([
    'javascript:alert(1)',
    'http://acme.example.com/',
    'https://user:secret@acme.example.com/',
    '/things/9',
    42,
    `https://acme.example.com/${'x'.repeat(3_000)}`,
    new Error('no page'),
  ])('do not lead to %s', async (given) => {
    page = given
    const { id } = await makeIntegration(dashboard.test, 'acme')
    const webhook = await makeWebhook(dashboard.test, id)
    expect(await linksOf(`/webhooks/${webhook.id}`)).toEqual({})
    const warned = dashboard.test.lines.some(({ fields }) => fields.event === 'provider.page_failed')
    expect(warned).toBe(given instanceof Error)
  })
})
