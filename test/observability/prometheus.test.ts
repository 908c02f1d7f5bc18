/** The text that Prometheus reads. Rule: docs/behaviour/metrics.md. */
import { describe, expect, it } from 'vitest'
import { prometheusMetrics } from '../../src/observability/prometheus.ts'
import { readMetrics, sumsBy } from './prometheus-text.ts'

const STANDING = {
  webhooks: { pending: 3, processing: 1, failed: 2 },
  oldestPendingSeconds: 12.5,
  syncItems: { pending: 0, processing: 0, failed: 7 },
  stale: 1,
  staleStreams: [
    { provider: 'acme', stream: 'contacts', count: 2 },
    { provider: 'acme', stream: 'of an earlier release', count: 5 },
  ],
  circuitsOpen: 2,
  incidentsOpen: { health: 1, circuit: 0, sync: 2 },
  incidentsUnattended: { health: 1, circuit: 0, sync: 0 },
  health: { healthy: 4, degraded: 0, failing: 1, disabled: 0 },
}
/** The names and labels that dashboards and alerts are written by: a change here is a change for whoever runs this. */
const NAMES = {
  webhooks_received_total: ['provider', 'outcome'],
  webhooks_processed_total: ['provider', 'status'],
  webhook_duration_seconds: [],
  webhooks: ['status'],
  webhook_oldest_pending_seconds: [],
  requests_total: ['provider', 'failure_class'],
  request_duration_seconds: [],
  sync_runs_total: ['provider', 'stream', 'status'],
  sync_items_total: ['provider', 'stream', 'status'],
  sync_items: ['status'],
  echoes_total: ['provider', 'kind'],
  sync_deferrals_total: [],
  sync_stale: [],
  sync_streams_stale: ['provider', 'stream'],
  circuit_open: [],
  rate_limited_total: [],
  incidents_open: ['source'],
  incidents_unattended: ['source'],
  health: ['status'],
  wakeups_failed_total: [],
  workflows_replaced_total: ['workflow'],
  worker_polling: [],
  database_up: [],
}
const acme = { provider: 'acme', id: 7 }

const samplesOf = async (metrics: ReturnType<typeof prometheusMetrics>, providers: string[] = ['acme']) =>
  readMetrics(await metrics.text(STANDING, providers))

describe('the text of /metrics', () => {
  it('has every metric, with its labels and no other', async () => {
    const labels: Record<string, string[]> = {}
    const metrics = prometheusMetrics({ byIntegration: false, streamsOf: () => ['contacts'] })
    metrics.workersMade(() => true)
    for (const sample of await samplesOf(metrics)) {
      const name = sample.name.replace(/^integrations_/, '').replace(/_(bucket|sum|count)$/, '')
      labels[name] = Object.keys(sample.labels).filter((label) => label !== 'le')
    }
    expect(labels).toEqual(NAMES)
  })

  it('counts what it is told, by label', async () => {
    const metrics = prometheusMetrics({ byIntegration: false })
    metrics.webhookReceived(acme, 'queued')
    metrics.webhookReceived(acme, 'reconciled', 5)
    metrics.webhookSettled(acme, 'processed', 0.2)
    metrics.webhookSettled(acme, 'failed', null)
    metrics.requestMade(acme, null, 0.1)
    metrics.requestMade({ provider: 'other', id: 8 }, 'throttle', 2)
    metrics.syncRunEnded(acme, 'partial')
    metrics.syncItemSettled(acme, 'failed', 3)
    metrics.syncItemDeferred(acme)
    metrics.requestRateLimited(acme)
    metrics.wakeUpFailed()
    metrics.workflowReplaced('eventOutbox')
    const samples = await samplesOf(metrics)
    expect(sumsBy(samples, 'webhooks_received_total', 'outcome')).toEqual({ queued: 1, reconciled: 5 })
    expect(sumsBy(samples, 'webhooks_processed_total', 'status')).toEqual({ processed: 1, failed: 1 })
    // Of what no handler has run for there is no duration.
    expect(sumsBy(samples, 'webhook_duration_seconds_count')).toEqual({ '': 1 })
    expect(sumsBy(samples, 'requests_total', 'failure_class')).toEqual({ none: 1, throttle: 1 })
    expect(sumsBy(samples, 'requests_total', 'provider')).toEqual({ acme: 1, other: 1 })
    expect(sumsBy(samples, 'request_duration_seconds_sum')).toEqual({ '': 2.1 })
    expect(sumsBy(samples, 'sync_runs_total', 'status')).toEqual({ partial: 1 })
    expect(sumsBy(samples, 'sync_items_total', 'status')).toEqual({ failed: 3 })
    for (const name of ['sync_deferrals_total', 'rate_limited_total', 'wakeups_failed_total'])
      expect(sumsBy(samples, name)).toEqual({ '': 1 })
    expect(sumsBy(samples, 'workflows_replaced_total', 'workflow')).toEqual({ eventOutbox: 1 })
  })

  it('counts syncs by stream, and what the provider does not declare under one name', async () => {
    const metrics = prometheusMetrics({ byIntegration: false, streamsOf: () => ['contacts', 'deals'] })
    metrics.syncRunEnded({ ...acme, stream: 'contacts' }, 'success')
    metrics.syncRunEnded({ ...acme, stream: 'of an earlier release' }, 'failed')
    metrics.syncItemSettled({ ...acme, stream: 'deals' }, 'failed', 3)
    const samples = await samplesOf(metrics)
    expect(sumsBy(samples, 'sync_runs_total', 'stream')).toEqual({ contacts: 1, '(unknown)': 1 })
    expect(sumsBy(samples, 'sync_items_total', 'stream')).toEqual({ deals: 3 })
    expect(sumsBy(samples, 'sync_streams_stale', 'stream')).toEqual({ contacts: 2 })
    // At 0 from the beginning.
    const failed = samples.filter(({ labels }) => labels.stream === 'deals' && labels.status === 'cancelled')
    expect(failed).toEqual([expect.objectContaining({ name: 'integrations_sync_runs_total', value: 0 })])
  })

  it('has no label of a stream where the provider has one sync()', async () => {
    const metrics = prometheusMetrics({ byIntegration: false })
    metrics.syncRunEnded({ ...acme, stream: null }, 'success')
    metrics.syncItemSettled(acme, 'failed', 3)
    const lines = (await metrics.text(STANDING, ['acme'])).split('\n')
    expect(lines).toContain('integrations_sync_runs_total{provider="acme",status="success"} 1')
    expect(lines).toContain('integrations_sync_runs_total{provider="acme",status="partial"} 0')
    expect(lines).toContain('integrations_sync_items_total{provider="acme",status="failed"} 3')
    expect(lines.filter((line) => line.includes('stream=""'))).toEqual([])
  })

  it('has the series of a registered provider from the beginning, at 0', async () => {
    const samples = await samplesOf(prometheusMetrics({ byIntegration: false }))
    const ofFailures = samples.filter(
      ({ name, labels }) => name === 'integrations_webhooks_processed_total' && labels.status === 'failed',
    )
    expect(ofFailures).toEqual([
      { name: 'integrations_webhooks_processed_total', labels: { provider: 'acme', status: 'failed' }, value: 0 },
    ])
  })

  it.each([false, true])(
    'has a series of each workflow that can be replaced, at 0 (by integration: %s)',
    async (by) => {
      const samples = await samplesOf(prometheusMetrics({ byIntegration: by }))
      const series = samples.filter(({ name }) => name === 'integrations_workflows_replaced_total')
      expect(series.map(({ labels, value }) => ({ ...labels, value }))).toEqual(
        [
          'webhookInbox',
          'eventOutbox',
          'incident',
          'webhookSubscription',
          'syncIntegration',
          'dispatchSyncs',
          'evaluateFailures',
          'recoverWebhooks',
          'reconcileWebhooks',
          'refreshTokens',
          'prune',
        ].map((workflow) => ({ workflow, value: 0 })),
      )
    },
  )

  it('shows how things stand', async () => {
    const samples = await samplesOf(prometheusMetrics({ byIntegration: false }))
    expect(sumsBy(samples, 'webhooks', 'status')).toEqual({ pending: 3, processing: 1, failed: 2 })
    expect(sumsBy(samples, 'webhook_oldest_pending_seconds')).toEqual({ '': 12.5 })
    expect(sumsBy(samples, 'incidents_open', 'source')).toEqual({ health: 1, sync: 2 })
    expect(sumsBy(samples, 'incidents_unattended', 'source')).toEqual({ health: 1 })
    expect(sumsBy(samples, 'health', 'status')).toEqual({ healthy: 4, failing: 1 })
    expect(sumsBy(samples, 'database_up')).toEqual({ '': 1 })
  })

  it('says whether the workers of a process poll, and nothing of it where there are none', async () => {
    const metrics = prometheusMetrics({ byIntegration: false })
    const polling = async () =>
      readMetrics(await metrics.text(null, []))
        .filter(({ name }) => name === 'integrations_worker_polling')
        .map(({ value }) => value)
    expect(await polling()).toEqual([])
    let isPolling = false
    metrics.workersMade(() => isPolling)
    expect(await polling()).toEqual([0])
    isPolling = true
    expect(await polling()).toEqual([1])
  })

  it('leaves out what the database does not say, and says so', async () => {
    const metrics = prometheusMetrics({ byIntegration: false })
    metrics.requestMade(acme, null, 0.1)
    await samplesOf(metrics)
    const samples = readMetrics(await metrics.text(null, ['acme']))
    expect(samples.find(({ name }) => name === 'integrations_database_up')?.value).toBe(0)
    expect(samples.filter(({ name }) => name === 'integrations_webhooks')).toEqual([])
    expect(sumsBy(samples, 'requests_total')).toEqual({ '': 1 })
  })

  it('says of which integration where it is asked to, in counters alone', async () => {
    const metrics = prometheusMetrics({ byIntegration: true })
    metrics.webhookReceived(acme, 'queued')
    metrics.webhookReceived({ provider: '(unknown)', id: null }, 'unknown_provider')
    metrics.requestMade({ provider: 'acme', id: 8 }, null, 0.1)
    const samples = await samplesOf(metrics)
    expect(sumsBy(samples, 'webhooks_received_total', 'integration')).toEqual({ '7': 1, '': 1 })
    expect(sumsBy(samples, 'requests_total', 'integration')).toEqual({ '8': 1 })
    const others = samples.filter(({ name }) => /_(bucket|sum|count)$|webhooks$/.test(name))
    expect(others.filter(({ labels }) => 'integration' in labels)).toEqual([])
  })

  it('is of one object alone, however many a process has', async () => {
    const [one, other] = [prometheusMetrics({ byIntegration: false }), prometheusMetrics({ byIntegration: false })]
    one.wakeUpFailed()
    one.includeProcess()
    other.includeProcess()
    // A host may call it where a worker's port has done so already.
    other.includeProcess()
    expect(sumsBy(await samplesOf(one), 'wakeups_failed_total')).toEqual({ '': 1 })
    expect(sumsBy(await samplesOf(other), 'wakeups_failed_total')).toEqual({})
    expect((await samplesOf(other)).some(({ name }) => name === 'process_cpu_seconds_total')).toBe(true)
  })
})
