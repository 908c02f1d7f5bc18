/**
 * Every configuration key: exact name, kind, default, unit, meaning. One registry, from which come the checks, the typed
 * `Config`, the names of the environment variables and docs/configuration.md.
 * Rule: docs/behaviour/configuration.md.
 */

import type { ValueKind } from './value-kinds.ts'
import {
  anyString,
  backoff,
  bool,
  hostVariables,
  int,
  MAX_INT,
  MAX_PORT,
  matching,
  middlewareNames,
  notificationTargets,
  nullable,
  oidc,
  oneOf,
  operatorTokens,
  pageUrl,
  queueName,
  queuesByProvider,
  redirectTarget,
  routePath,
  routePrefix,
} from './value-kinds.ts'

export type ConfigUnit = 'seconds' | 'minutes' | 'days' | 'bytes' | 'percent'

export interface ConfigKey<T> extends ValueKind<T> {
  readonly default: T
  readonly meaning: string
  readonly unit: ConfigUnit | null
}

/** The smallest cap on a stored body that is obeyed; a smaller one would cut every body to nothing of use. */
export const MIN_RESPONSE_BYTES = 1024

/** More would only be memory: what a process does at once is bounded by its pool of connections long before. */
const MAX_SLOTS = 100_000
/** No supervisor waits longer than an hour for a process to end. */
const MAX_GRACE_SECONDS = 3_600

/** The activity that runs handlers takes a day at the most, and items of a lost worker run one after the other. */
const MAX_HANDLER_SECONDS = 3_600

const TABLE_PREFIX = /^[a-z_][a-z0-9_]{0,29}$/ // Postgres names hold 63 bytes; index names need the other 33
const CACHE_PREFIX = /^[A-Za-z0-9_.-]{1,64}$/

const ROOT = {
  table_prefix: key(matching(TABLE_PREFIX), 'integration', 'table prefix'),
  cache_prefix: key(matching(CACHE_PREFIX), 'integrations', 'prefix of cache keys, workflow ids and task queues'),
}

const WEBHOOK = {
  prefix: key(routePrefix(), 'integrations', 'route prefix'),
  queue: key(queueName(), 'default', 'queue for webhook jobs'),
  generic_route: key(
    bool(),
    true,
    'false: only the routes with the id of an integration are there, and those of a provider alone are 404',
  ),
  max_payload_bytes: key(int(), 1_048_576, 'larger payloads are rejected (413)', 'bytes'),
  processing_timeout: key(int(60), 1800, 'time before a processing webhook is stale', 'seconds'),
  pending_timeout: key(int(), 3600, 'time before a pending webhook gets another job', 'seconds'),
  max_attempts: key(
    int(1, 1000),
    1,
    'processing attempts at most, the first included; 1: a failed webhook is not tried again by itself',
  ),
  retry_backoff: key(
    backoff(),
    [60, 300, 1800, 7200, 21600],
    'least wait before each retry; recovery makes it, every 5 minutes; the last entry is reused',
    'seconds',
  ),
  middleware: key(middlewareNames(), [], 'extra middleware of the webhook routes'),
  concurrency: key(int(), 10, 'handlers of one integration that run at once in a pump'),
  handler_timeout: key(
    int(1, MAX_HANDLER_SECONDS),
    300,
    'time that one handler may take, less than webhook.processing_timeout; unless set, the smaller of 300 and half of it',
    'seconds',
  ),
  replay_window: key(
    int(0),
    300,
    'how long the same signed bytes under another id are a duplicate, where the delivery id is unsigned; 0 = off',
    'seconds',
  ),
  timestamp_tolerance: key(int(), 300, 'how far the time in a signature may be off, past or future', 'seconds'),
  secret_overlap: key(int(), 86_400, 'how long the old secret stays valid after a rotation', 'seconds'),
  subscribe: key(
    bool(),
    false,
    'true: each integration that is switched on gets its webhook registered at the provider, where the adapter can; else `register-webhooks` does it',
  ),
  subscription_check: key(int(), 3600, 'how often a registered webhook is compared with the provider', 'seconds'),
}

const OAUTH = {
  route_prefix: key(routePrefix(), 'integrations', 'route prefix'),
  middleware: key(middlewareNames(), ['web'], 'middleware of authorize and revoke'),
  callback_middleware: key(middlewareNames(), ['web'], 'middleware of the callback'),
  success_redirect: key(redirectTarget(), '/integrations', 'where the browser goes after OAuth'),
  state_ttl: key(int(), 600, 'validity of a state token', 'seconds'),
  refresh_lock_ttl: key(int(), 30, 'life of the refresh lock', 'seconds'),
  refresh_lock_wait: key(int(0), 15, 'longest wait for the refresh lock; 0 = one try', 'seconds'),
}

const MAPPINGS = {
  lock_ttl: key(int(), 10, 'life of the lock of upsertByExternalId()', 'seconds'),
  lock_wait: key(int(0), 10, 'longest wait for that lock; 0 = one try', 'seconds'),
  collation: key(
    nullable(anyString()),
    null,
    'column collation (MySQL and MariaDB only; ignored on Postgres, with a warning)',
  ),
}

const SYNC = {
  queue: key(queueName(), 'default', 'queue for syncs'),
  queues: key(queuesByProvider(), {}, 'queue for the syncs of single providers: {provider: queue}'),
  lock_ttl: key(int(), 1800, 'bound of all listing attempts of a run together; at least sync.job_timeout', 'seconds'),
  job_timeout: key(int(), 1800, 'bound of one listing attempt', 'seconds'),
  item_queue: key(nullable(queueName()), null, 'queue for items; null = sync.queue'),
  item_tries: key(int(1, 1000), 5, 'genuine listener exceptions before an item is failed'),
  item_backoff: key(
    backoff(),
    [10, 30, 120, 300, 900],
    'wait between retries of an item; the last entry is reused',
    'seconds',
  ),
  item_retry_window: key(int(), 21_600, 'how long an item may keep retrying, deferrals included', 'seconds'),
  max_items_per_batch: key(int(), 10_000, 'soft cap; a larger run is still processed as one, with a warning'),
  item_reclaim_after: key(int(), 43_200, 'time in flight before an item is presumed abandoned', 'seconds'),
  failure_backoff_max_multiplier: key(int(), 16, 'ceiling of the multiplier of next_sync_at'),
  stuck_item_after_runs: key(int(), 5, 'failed runs before SyncItemStuck'),
  stale_after_intervals: key(int(), 10, 'missed intervals before a sync is stale'),
  item_concurrency: key(int(), 10, 'items that run at once in a batch'),
  item_timeout: key(
    int(1, MAX_HANDLER_SECONDS),
    300,
    "time that an item's listeners may take; counts as an exception",
    'seconds',
  ),
}

const RETRY = {
  retry_after_max_seconds: key(int(), 600, 'cap on Retry-After', 'seconds'),
}

const RATE_LIMITING = {
  max_wait_seconds: key(
    int(0),
    10,
    'longest sleep for capacity (0 = immediate); for the suppression gate, the window and a shared budget, each',
    'seconds',
  ),
  overrides_enabled: key(bool(), true, "false ignores the override columns and uses the provider's defaultRateLimit()"),
}

const CIRCUIT_BREAKER = {
  enabled: key(bool(), true, 'master switch'),
  strategy: key(oneOf('rate', 'count'), 'rate', 'failure rate in a window, or consecutive failures'),
  time_window: key(int(), 60, 'rate strategy: window', 'seconds'),
  failure_rate_threshold: key(int(1, 100), 50, 'rate strategy: trips at or above', 'percent'),
  minimum_requests: key(int(), 10, 'rate strategy: requests in the window before it can trip'),
  threshold: key(int(), 5, 'count strategy: consecutive upstream failures'),
  cooldown_seconds: key(int(), 60, 'time open before the half-open probe', 'seconds'),
  overrides_enabled: key(bool(), true, 'obey the overrides of single integrations'),
}

const OBSERVABILITY = {
  anomaly_enabled: key(bool(), true, 'watch the failure rates'),
  anomaly_window_minutes: key(int(), 15, 'window of the failure rate', 'minutes'),
  anomaly_failure_rate_threshold: key(int(1, 100), 25, 'fires at or above', 'percent'),
  anomaly_minimum_requests: key(int(), 20, 'requests in the window before it can fire'),
  echo_loop_writes: key(int(2, 100), 5, 'writes of one record, each in answer to a change of it, that count as a loop'),
  echo_loop_window: key(int(1, 3_600), 60, 'within how long they come', 'seconds'),
  incidents_enabled: key(bool(), true, 'open and escalate incidents; open ones are closed all the same'),
}

const HEALTH = {
  degraded_after: key(int(), 5, 'upstream failures in a row; at most health.failing_after'),
  failing_after: key(int(), 20, 'upstream failures in a row; at most health.disabled_after'),
  disabled_after: key(nullable(int()), 50, 'upstream failures in a row; null = never'),
  degraded_backoff: key(int(), 2, 'multiplier of the sync interval'),
  failing_backoff: key(int(), 10, 'multiplier of the sync interval'),
}

const LOGGING = {
  max_response_bytes: key(
    {
      ...nullable(int(-MAX_INT)),
      allowed: `an integer from ${MIN_RESPONSE_BYTES} to ${MAX_INT} (a smaller one is ignored), or null`,
    },
    null,
    'cap on the stored response body; null = whole. Bodies of cached calls and keyed writes are always stored whole',
    'bytes',
  ),
}

const PRUNING = {
  requests_days: key(int(), 90, 'retention of requests', 'days'),
  logs_days: key(int(), 365, 'retention of logs', 'days'),
  idempotency_keys_days: key(int(), 90, 'retention of idempotency keys; longer than any retry window', 'days'),
  sync_items_days: key(int(), 30, 'retention of completed items', 'days'),
  incidents_days: key(int(), 365, 'retention of closed incidents, by closed_at; open ones stay', 'days'),
  incidents_stale_after_days: key(int(), 7, 'closes open incidents of an integration that is healthy by now', 'days'),
  chunk_size: key(int(1, 10_000), 1000, 'rows deleted at once'),
  webhooks_days: key(nullable(int()), null, 'retention of processed and failed webhooks; null = never pruned', 'days'),
  webhook_payloads_days: key(
    nullable(int()),
    null,
    'retention of what processed and failed webhooks were delivered with, before their rows go; null = as long as the row',
    'days',
  ),
  audit_days: key(nullable(int()), 365, 'retention of the audit; null = never pruned', 'days'),
  rollups_days: key(int(31), 90, 'retention of the sums behind the charts, which show 30 days', 'days'),
}

const SCHEDULES = {
  enabled: key(bool(), true, 'the worker keeps the Temporal Schedules; false leaves the timing to the host'),
}

const NOTIFICATIONS = {
  targets: key(
    notificationTargets(),
    [],
    'URLs that get a signed webhook, or a Slack message, about incidents and other trouble',
  ),
}

const OPERATOR = {
  prefix: key(routePrefix(), 'operator', 'route prefix of the operator API and the dashboard'),
  tokens: key(operatorTokens(), [], 'who may read or operate; "operate" includes "read"'),
  oidc: key(nullable(oidc()), null, 'the OpenID provider that people sign in with; null = they sign in with a token'),
  temporal_ui: key(
    nullable(pageUrl()),
    null,
    'address of the Temporal UI, whose workflows the dashboard links to, such as https://cloud.temporal.io; null = no links',
  ),
  trace_url: key(
    nullable(pageUrl('{trace_id}')),
    null,
    'where a trace is seen, such as https://traces.example.com/trace/{trace_id}; null = no links',
  ),
}

const METRICS = {
  open: key(bool(), false, 'serve /metrics without a token'),
  path: key(nullable(routePath()), '/metrics', 'where the API serves its metrics; null = nowhere'),
  port: key(nullable(int(1, MAX_PORT)), null, 'port on which a worker serves /metrics; null = none'),
  by_integration: key(bool(), false, 'whether counters say of which integration: a series for each and each outcome'),
}

const WORKER = {
  // At least 2: deleting an integration by its workflow waits in one for the batches that its run has under way.
  activity_slots: key(int(2, MAX_SLOTS), 100, 'activities that run at once in a worker process, of each task queue'),
  local_activity_slots: key(
    int(1, MAX_SLOTS),
    100,
    'activities inside workflow tasks that run at once: those of your own workflows',
  ),
  workflow_task_slots: key(int(2, MAX_SLOTS), 40, 'workflow tasks that run at once; at most worker.cached_workflows'),
  activity_pollers: key(int(1, MAX_SLOTS), 10, 'most calls that wait for activities; at most worker.activity_slots'),
  workflow_task_pollers: key(
    int(2, MAX_SLOTS),
    10,
    'calls that wait for workflow tasks; at most worker.workflow_task_slots',
  ),
  cached_workflows: key(
    nullable(int(2, MAX_SLOTS)),
    null,
    "workflows kept in memory between their tasks; null = by the process's heap, 600 a GB above the first 200 MB",
  ),
  shutdown_grace: key(
    int(0, MAX_GRACE_SECONDS),
    10,
    'how long activities go on after SIGTERM; then they begin nothing new and give back what has not begun',
    'seconds',
  ),
  release: key(
    nullable(matching(/^[\w.+-]{1,60}$/)),
    null,
    "what charts call a deployment, such as your commit's hash; null = the version of this package",
  ),
  command_environment: key(
    hostVariables(),
    [],
    "variables of the worker's environment that a command may read as a credential (env:NAME) when it runs as a workflow",
  ),
}

type Values<Section extends Record<string, ConfigKey<unknown>>> = {
  readonly [Name in keyof Section]: Section[Name]['default']
}

const SECTIONS = {
  webhook: WEBHOOK,
  oauth: OAUTH,
  mappings: MAPPINGS,
  sync: SYNC,
  retry: RETRY,
  rate_limiting: RATE_LIMITING,
  circuit_breaker: CIRCUIT_BREAKER,
  observability: OBSERVABILITY,
  health: HEALTH,
  logging: LOGGING,
  pruning: PRUNING,
  schedules: SCHEDULES,
  notifications: NOTIFICATIONS,
  operator: OPERATOR,
  metrics: METRICS,
  worker: WORKER,
} satisfies Record<string, Record<string, ConfigKey<unknown>>>

type Sections = { readonly [Name in keyof typeof SECTIONS]: Values<(typeof SECTIONS)[Name]> }

/** The configuration in force, checked and complete. `config.webhook.max_attempts` is the key `webhook.max_attempts`. */
export interface Config extends Values<typeof ROOT>, Sections {}

/** What a host may write: any part of the configuration. `undefined` is unset. */
export type ConfigInput = {
  readonly [Name in keyof Config]?: Given<Config[Name]> | undefined
} & {
  /** Another place for the option `providers`; named in both is a problem. */
  readonly providers?: Readonly<Record<string, unknown>> | undefined
}

/** A section with any of its keys; a plain value stays as it is. */
type Given<Value> = { readonly [Name in keyof Value]?: Value[Name] | undefined }

export const SECTION_NAMES: ReadonlySet<string> = new Set(Object.keys(SECTIONS))

/** Every key by its exact dotted name, in the order of the reference table. */
export const CONFIG_KEYS: ReadonlyMap<string, ConfigKey<unknown>> = new Map<string, ConfigKey<unknown>>([
  ...Object.entries(ROOT),
  ...Object.entries(SECTIONS).flatMap(([section, keys]) =>
    Object.entries(keys).map(([name, entry]) => [`${section}.${name}`, entry] as const),
  ),
])

/** The value of a key by its dotted name. */
export function configValue(config: Config, name: string): unknown {
  return name.split('.').reduce<unknown>((inner, step) => (inner as Record<string, unknown>)[step], config)
}

export const ENVIRONMENT_PREFIX = 'INTEGRATIONS__'

/** `webhook.max_attempts` → `INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS`. */
export function environmentName(name: string): string {
  return ENVIRONMENT_PREFIX + name.replaceAll('.', '__').toUpperCase()
}

/** Half of the time after which the webhook counts as stale, so that a handler never runs into its own recovery. */
export function defaultHandlerTimeout(processingTimeoutSeconds: number): number {
  return Math.min(WEBHOOK.handler_timeout.default, Math.floor(processingTimeoutSeconds / 2))
}

function key<T>(
  kind: ValueKind<T>,
  defaultValue: NoInfer<T>,
  meaning: string,
  unit: ConfigUnit | null = null,
): ConfigKey<T> {
  return { ...kind, default: defaultValue, meaning, unit }
}
