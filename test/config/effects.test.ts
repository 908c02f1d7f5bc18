/** Every configuration key changes what the system does, or says which issue will make it do so. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Hono } from 'hono'
import { describe, expect, it, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { freePort } from '../../src/bin/free-port.ts'
import { startWorkerMetrics } from '../../src/bin/worker-metrics.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { CONFIG_KEYS } from '../../src/config/schema.ts'
import type { IntegrationRow, WebhookRow } from '../../src/db/schema/tables.ts'
import { integrationContext } from '../../src/integrations/integration-contexts.ts'
import { runWebhook } from '../../src/webhooks/handling.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, webhookProvider } from '../support/providers.ts'
import { effect, OPEN } from './effects-table.ts'

const here = fileURLToPath(new URL('.', import.meta.url))
const keys = [...CONFIG_KEYS.keys()].sort()
/** The rows of the table, read from the calls of `effect()` in the test files. */
const shown = readdirSync(here)
  .filter((file) => /^effects\..*test\.ts$/.test(file))
  .flatMap((file) => [...readFileSync(join(here, file), 'utf8').matchAll(/^\s*effect\(\s*'([^']*)'/gm)])
  .map(([, key]) => key as string)

describe('the table of effects', () => {
  it('has each key once: with an effect, or open', () => {
    const rows = [...new Set(shown), ...Object.keys(OPEN)].sort()
    expect(rows).toEqual(keys)
  })

  it('is what the page says has an effect today', () => {
    const page = readFileSync(join(here, '../../docs/behaviour/configuration.md'), 'utf8')
    const section = page.split('## Which keys have an effect today\n')[1]?.split('\n## ')[0] ?? ''
    const firstColumn = [...section.matchAll(/^\| ([^|]*) \|/gm)].map(([, cell]) => cell).join(' ')
    const named = [...firstColumn.matchAll(/`([^`]+)`/g)].map(([, key]) => key as string)
    expect(named.sort()).toEqual([...new Set(shown)].sort())
  })
})

effect('webhook.processing_timeout', 'halved is the default of webhook.handler_timeout', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    expect([await secondsAllowed(60), await secondsAllowed(120)]).toEqual([30, 60])
  } finally {
    vi.useRealTimers()
  }

  async function secondsAllowed(processing_timeout: number): Promise<number> {
    let elapsed = 0
    let hasEnded = false
    const attempt = runHangingHandler({ webhook: { processing_timeout } }).then((outcome) => {
      hasEnded = true
      expect(outcome).toMatchObject({ status: 'failed', error: expect.stringContaining('did not end within') })
    })
    for (; !hasEnded; elapsed += 1) await vi.advanceTimersByTimeAsync(1_000)
    await attempt
    return elapsed
  }
})

effect('mappings.collation', 'is ignored, which a warning says', async () => {
  const warningsOf = (collation: string | null) =>
    withoutServers({ mappings: { collation } }, async ({ lines }) => lines.map(({ message }) => message))
  expect(await warningsOf('utf8mb4_bin')).toEqual([expect.stringContaining('mappings.collation is ignored')])
  expect(await warningsOf(null)).toEqual([])
})

effect('operator.prefix', 'moves the operator API', async () => {
  const statusOf = (prefix: string, path: string) =>
    withoutServers(
      { operator: { prefix } },
      async ({ integrations }) => (await createApi(integrations).request(path)).status,
    )
  expect(await statusOf('ops', '/ops/api/v1/healthz')).toBe(200)
  expect(await statusOf('ops', '/operator/api/v1/healthz')).toBe(404)
  expect(await statusOf('operator', '/operator/api/v1/healthz')).toBe(200)
})

effect('metrics.open', 'asks nobody for a token', async () => {
  const statusWith = (open: boolean) =>
    withoutServers(
      { metrics: { open } },
      async ({ integrations }) => (await createApi(integrations).request('/metrics')).status,
    )
  expect(await statusWith(true)).toBe(200)
  expect(await statusWith(false)).toBe(404)
})

effect('metrics.path', 'moves the metrics of the API, or takes them away', async () => {
  const statusOf = (given: string | null, path: string) =>
    withoutServers({ metrics: { open: true, path: given } }, async ({ integrations }) => {
      // What a host has of its own there.
      const host = new Hono().route('/', createApi(integrations)).get('/metrics', (context) => context.text('', 418))
      return (await host.request(path)).status
    })
  expect(await statusOf('/metrics', '/metrics')).toBe(200)
  expect(await statusOf('/ours/metrics', '/ours/metrics')).toBe(200)
  expect(await statusOf('/ours/metrics', '/metrics')).toBe(418)
  expect(await statusOf(null, '/metrics')).toBe(418)
})

effect('metrics.port', 'serves the metrics of a worker', async () => {
  // Below the range that Linux gives ports of: no other test gets it meanwhile.
  const port = await freePort(20_000 + Math.floor(Math.random() * 12_000))
  const statusWith = (given: number | null) =>
    withoutServers({ metrics: { port: given } }, async ({ integrations }) => {
      const metrics = await startWorkerMetrics(integrations, () => {})
      const answer = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => null)
      metrics.close()
      return answer?.status ?? 'nobody listens'
    })
  expect(await statusWith(port)).toBe(200)
  expect(await statusWith(null)).toBe('nobody listens')
})

effect('metrics.by_integration', 'gives counters a label', async () => {
  const seriesWith = (by_integration: boolean) =>
    withoutServers({ metrics: { by_integration } }, async ({ framework, integrations }) => {
      framework.metrics.webhookSettled({ provider: 'acme', id: 7 }, 'processed', null)
      return (await integrations.admin.metrics.text()).match(/^integrations_webhooks_processed_total.* 1$/m)?.[0]
    })
  expect(await seriesWith(false)).toBe('integrations_webhooks_processed_total{provider="acme",status="processed"} 1')
  expect(await seriesWith(true)).toBe(
    'integrations_webhooks_processed_total{provider="acme",status="processed",integration="7"} 1',
  )
})

/** A deployment whose Postgres nobody asks. */
async function withoutServers<Result>(
  config: ConfigInput,
  play: (test: TestIntegrations) => Promise<Result>,
  handle: () => unknown = () => null,
): Promise<Result> {
  const providers = { acme: webhookProvider({ handleWebhook: handle }) }
  const test = testIntegrations('postgres://nobody@127.0.0.1:1/none', { config, providers })
  try {
    return await play(test)
  } finally {
    await test.close()
  }
}

function runHangingHandler(config: ConfigInput) {
  return withoutServers(
    config,
    ({ framework }) => {
      const credentials = framework.encryption.encrypt(1, CREDENTIALS)
      const integration = {
        id: 1,
        provider: 'acme',
        isActive: true,
        switchedOffAt: null,
        healthStatus: 'healthy',
        credentials,
      }
      const row = { id: 1, integrationId: 1, eventType: null, payload: '{}', headers: {}, attempts: 1, claim: 'a:1' }
      const context = integrationContext(framework, integration as unknown as IntegrationRow)
      return runWebhook(framework, row as unknown as WebhookRow, context)
    },
    () => new Promise(() => {}),
  )
}
