/**
 * What is counted, kept by prom-client and written in Prometheus' text format. Rule: docs/behaviour/metrics.md.
 *
 * A registry of its own for each: two Integrations objects of a process never count each other's work.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { BudgetStanding } from '../calls/admission/shared-budgets.ts'
import { FailureClass } from '../calls/failure-class-rules.ts'
import type { Metrics, Subject } from './metrics.ts'
import {
  ECHOES,
  ENDED_RUNS,
  RECEIVED_OUTCOMES,
  REPLACEABLE_WORKFLOWS,
  SETTLED_ITEMS,
  SETTLED_WEBHOOKS,
  UNKNOWN_PROVIDER,
} from './metrics.ts'
import type { Standing } from './standing.ts'

const PREFIX = 'integrations_'
/** The label of a call that has not failed: an empty one would be no label at all. */
const NO_FAILURE = 'none'
/** Series of as many shared budgets at most: there may be one for each API key. */
const MOST_BUDGETS = 100
const SYNC_LABELS = ['provider', 'stream', 'status'] as const
/** Seconds. From a quick handler to `webhook.handler_timeout` and `request.timeout` at their defaults, and beyond. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

export interface PrometheusMetrics extends Metrics {
  /** Of what `text()` gives. */
  readonly contentType: string
  /**
   * @param standing what the database says; null: it did not answer, so its gauges are left out
   * @param providers registered ones: each has all its series from the beginning, at 0, so that a first failure is a rise
   * @param budgets shared ones that this process has asked lately
   */
  text(standing: Standing | null, providers: readonly string[], budgets?: readonly BudgetStanding[]): Promise<string>
  /** Node's own figures of the process as well. For one object of a process: they are of all that runs in it. A second call does nothing. */
  includeProcess(): void
}

export interface CountedBy {
  /** `metrics.by_integration`: counters have the label `integration`, histograms and gauges never. */
  readonly byIntegration: boolean
  /** Of a provider, as it declares them now. None, the default: it has one `sync()`. */
  readonly streamsOf?: (provider: string) => readonly string[]
}

export function prometheusMetrics({ byIntegration, streamsOf = () => [] }: CountedBy): PrometheusMetrics {
  const registry = new Registry()
  const registers = [registry]
  let includesProcess = false
  let isPolling: (() => boolean) | null = null
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
    new Counter<Label | 'integration'>({
      name: PREFIX + name,
      help,
      labelNames: byIntegration ? [...labelNames, 'integration'] : labelNames,
      registers,
    })
  const histogram = (name: string, help: string) =>
    new Histogram({ name: PREFIX + name, help, buckets: BUCKETS, registers })

  const received = counter('webhooks_received_total', 'Deliveries, by what became of them before they were answered', [
    'provider',
    'outcome',
  ])
  const processed = counter('webhooks_processed_total', 'Attempts of webhooks that were settled', [
    'provider',
    'status',
  ])
  const webhookSeconds = histogram('webhook_duration_seconds', 'How long the handlers of webhooks ran')
  const requests = counter('requests_total', 'Outbound calls that were made, retries included', [
    'provider',
    'failure_class',
  ])
  const requestSeconds = histogram('request_duration_seconds', 'How long outbound calls took')
  const rateLimited = counter('rate_limited_total', 'Outbound calls refused before they were made: no capacity', [])
  const runs = counter('sync_runs_total', 'Sync runs and slices of backfills that ended', [...SYNC_LABELS])
  const items = counter('sync_items_total', 'Sync items that were settled', [...SYNC_LABELS])
  const deferrals = counter('sync_deferrals_total', 'Attempts of sync items put off until there is capacity', [])
  const echoes = counter('echoes_total', 'Deliveries and sync items that said only what we wrote ourselves', [
    'provider',
    'kind',
  ])
  const wakeUps = counter('wakeups_failed_total', 'Wake-ups of workflows that did not reach Temporal', [])
  const replaced = counter('workflows_replaced_total', 'Workflows ended since their task failed again and again', [
    'workflow',
  ])
  for (const workflow of REPLACEABLE_WORKFLOWS) replaced.inc({ workflow }, 0)

  const ownerOf = ({ id }: Subject) => (byIntegration && id !== null ? { integration: String(id) } : undefined)
  /** No more values than the provider declares: an earlier release may have left others in the database. */
  const streamOf = ({ provider, stream }: Subject) => {
    // No label: the series of a provider with one sync().
    if (stream == null) return {}
    return { stream: streamsOf(provider).includes(stream) ? stream : UNKNOWN_PROVIDER }
  }
  const syncOf = (of: Subject) => ({ provider: of.provider, ...streamOf(of), ...ownerOf(of) })
  const seeded = new Set<string>()
  const seed = (provider: string): void => {
    if (seeded.has(provider)) return
    seeded.add(provider)
    for (const outcome of RECEIVED_OUTCOMES) received.inc({ provider, outcome }, 0)
    for (const status of SETTLED_WEBHOOKS) processed.inc({ provider, status }, 0)
    const streams = streamsOf(provider)
    for (const of of streams.length === 0 ? [{}] : streams.map((stream) => ({ stream }))) {
      for (const status of ENDED_RUNS) runs.inc({ provider, ...of, status }, 0)
      for (const status of SETTLED_ITEMS) items.inc({ provider, ...of, status }, 0)
    }
    for (const kind of ECHOES) echoes.inc({ provider, kind }, 0)
    for (const failure_class of [NO_FAILURE, ...Object.values(FailureClass)])
      requests.inc({ provider, failure_class }, 0)
  }

  return {
    contentType: registry.contentType,
    webhookReceived: (of, outcome, count = 1) =>
      received.inc({ provider: of.provider, outcome, ...ownerOf(of) }, count),
    webhookSettled(of, status, seconds) {
      processed.inc({ provider: of.provider, status, ...ownerOf(of) })
      if (seconds !== null) webhookSeconds.observe(seconds)
    },
    requestMade(of, failureClass, seconds) {
      requests.inc({ provider: of.provider, failure_class: failureClass ?? NO_FAILURE, ...ownerOf(of) })
      requestSeconds.observe(seconds)
    },
    requestRateLimited: (of) => rateLimited.inc({ ...ownerOf(of) }),
    syncRunEnded: (of, status) => runs.inc({ ...syncOf(of), status }),
    syncItemSettled: (of, status, count = 1) => items.inc({ ...syncOf(of), status }, count),
    syncItemDeferred: (of) => deferrals.inc({ ...ownerOf(of) }),
    echoArrived: (of, kind) => echoes.inc({ provider: of.provider, kind, ...ownerOf(of) }),
    wakeUpFailed: () => wakeUps.inc(),
    workflowReplaced: (workflow) => replaced.inc({ workflow }),
    workersMade(asked) {
      isPolling = asked
    },
    async text(standing, providers, budgets = []) {
      // By integration there is no telling whose series will come.
      if (!byIntegration) for (const provider of providers) seed(provider)
      return `${await registry.metrics()}\n${await gaugesOf(standing, streamsOf, budgets, isPolling).metrics()}`
    },
    includeProcess() {
      if (includesProcess) return
      includesProcess = true
      collectDefaultMetrics({ register: registry })
    },
  }
}

/** New for each answer, so that a series which the database no longer has is gone. */
function gaugesOf(
  standing: Standing | null,
  streamsOf: (provider: string) => readonly string[],
  budgets: readonly BudgetStanding[],
  isPolling: (() => boolean) | null,
): Registry {
  const registry = new Registry()
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge<Label>({ name: PREFIX + name, help, labelNames, registers: [registry] })
  const sharedLimit = gauge('shared_limit', 'Calls that a shared budget allows in a window', ['budget'])
  const sharedUsed = gauge('shared_used', 'Calls of a shared budget that are under way or ended within the window', [
    'budget',
  ])
  const sharedWaiting = gauge('shared_waiting', 'Integrations whose calls wait for a shared budget', ['budget'])
  for (const { budget, limit, used, waiting } of budgets.slice(0, MOST_BUDGETS)) {
    sharedLimit.set({ budget }, limit)
    sharedUsed.set({ budget }, used)
    sharedWaiting.set({ budget }, waiting)
  }
  if (isPolling !== null)
    gauge('worker_polling', 'Whether the workers of this process ask Temporal for work').set(isPolling() ? 1 : 0)
  gauge('database_up', 'Whether the gauges below could be read from the database in time').set(
    standing === null ? 0 : 1,
  )
  if (standing === null) return registry
  const byLabel = <Label extends string>(
    name: string,
    help: string,
    label: Label,
    counts: Readonly<Record<string, number>>,
  ): void => {
    const counted = gauge(name, help, [label])
    for (const [value, count] of Object.entries(counts)) counted.labels(value).set(count)
  }
  byLabel(
    'webhooks',
    'Webhooks that are not processed; 100,000 stands for as many or more',
    'status',
    standing.webhooks,
  )
  gauge(
    'webhook_oldest_pending_seconds',
    'How long the next webhook of the slowest inbox has waited; 0: none waits',
  ).set(standing.oldestPendingSeconds)
  byLabel(
    'sync_items',
    'Sync items that are not done; 100,000 stands for as many or more',
    'status',
    standing.syncItems,
  )
  gauge('sync_stale', 'Integrations without a clean sync run for too long').set(standing.stale)
  const late = gauge('sync_streams_stale', 'Integrations of which this stream has had no clean run for too long', [
    'provider',
    'stream',
  ])
  for (const { provider, stream, count } of standing.staleStreams)
    if (streamsOf(provider).includes(stream)) late.set({ provider, stream }, count)
  gauge('circuit_open', 'Integrations whose circuit is open, or forced open').set(standing.circuitsOpen)
  byLabel('incidents_open', 'Incidents that are open', 'source', standing.incidentsOpen)
  byLabel(
    'incidents_unattended',
    'Incidents that are open, and neither acknowledged nor snoozed',
    'source',
    standing.incidentsUnattended,
  )
  byLabel('health', 'Integrations by their health', 'status', standing.health)
  return registry
}
