/** What operators do and see, bound to one deployment. Each method binds one operation; there is no logic here. */

import type { MiddlewareHandler } from 'hono'
import type { CreateToken, ListTokens, TokenSummary } from './access/operator-tokens.ts'
import { createToken, listTokens, revokeToken } from './access/operator-tokens.ts'
import type { Access } from './access/tokens-and-links.ts'
import { budgetsNow } from './calls/admission/call-state.ts'
import type {
  ForgetIdempotencyKey,
  IdempotencyKeyDetail,
  IdempotencyKeySummary,
  ListIdempotencyKeys,
} from './calls/idempotency-list.ts'
import { forgetIdempotencyKeyOf, getIdempotencyKey, listIdempotencyKeys } from './calls/idempotency-list.ts'
import type { ListRequests, RequestDetail, RequestSummary } from './calls/request-list.ts'
import { getRequest, listRequests } from './calls/request-list.ts'
import type { ConfigEntry, LoadedConfig } from './config/load.ts'
import { describeConfig } from './config/load.ts'
import { credentialsVersion } from './credentials/credentials-version.ts'
import type { KeyStatus } from './credentials/encryption-keys.ts'
import { keyStatus, verifyKeys } from './credentials/encryption-keys.ts'
import type { KeyRotation, RotateOptions } from './credentials/key-rotation.ts'
import { rotateKeys } from './credentials/key-rotation.ts'
import type { MigrationTarget } from './db/apply-migrations.ts'
import { assertMigrated, pendingMigrations } from './db/apply-migrations.ts'
import type { Connection, Database } from './db/client.ts'
import { askAside, checkConnection } from './db/client.ts'
import type { ListStoredEvents, StoredEventDetail, StoredEventSummary } from './events/event-list.ts'
import { getStoredEvent, listStoredEvents } from './events/event-list.ts'
import type { SentNotification } from './events/notify.ts'
import { testNotifications } from './events/notify.ts'
import type { OutboxStatus } from './events/outbox.ts'
import { outboxStatus, retryGivenUp, wakePendingOutbox } from './events/outbox.ts'
import type { ExplainOptions, Explanation } from './explain/explain.ts'
import { explain } from './explain/explain.ts'
import type { FoundPayloads, PayloadSearch } from './explain/payload-search.ts'
import { searchPayloads } from './explain/payload-search.ts'
import type { ActOnMany } from './failures/act-progress.ts'
import { actProgress } from './failures/act-progress.ts'
import type { Failures, ListFailures } from './failures/failures.ts'
import { listFailures } from './failures/failures.ts'
import type { GroupActor, RetriedGroup, RetryGroup, RetryGroupPreview } from './failures/retry-group.ts'
import { previewRetryGroup, retryGroup } from './failures/retry-group.ts'
import type { Framework, TemporalInspection } from './framework/context.ts'
import type { Logger } from './framework/logger.ts'
import type { IncidentActor } from './incidents/acts.ts'
import { acknowledgeIncident, annotateIncident, snoozeIncident } from './incidents/acts.ts'
import type { EvaluateFailuresResult } from './incidents/incident-jobs.ts'
import type { IncidentSummary, ListIncidents } from './incidents/list.ts'
import { getIncident, listIncidents } from './incidents/list.ts'
import type { Diagnosis, WantedDiagnosis } from './integrations/doctor/kept-diagnosis.ts'
import { keptDiagnosis } from './integrations/doctor/kept-diagnosis.ts'
import { localCommands } from './integrations/doctor/local-commands.ts'
import type { Finding } from './integrations/doctor/run-doctor.ts'
import { runDoctor } from './integrations/doctor/run-doctor.ts'
import type { HealthCheckResult } from './integrations/health-check.ts'
import { checkIntegrationHealth } from './integrations/health-check.ts'
import type { HealthReport, HealthReportOptions } from './integrations/health-report.ts'
import { healthReport } from './integrations/health-report.ts'
import { linksOut } from './integrations/links-out.ts'
import type { IntegrationSummary, ListIntegrations } from './integrations/list.ts'
import { summariseIntegrations } from './integrations/list.ts'
import type { OperatorView } from './integrations/operator-view.ts'
import { operatorView } from './integrations/operator-view.ts'
import type { ProviderDescription } from './integrations/provider-list.ts'
import { describeProviders } from './integrations/provider-list.ts'
import type { Readiness, ReadinessOptions } from './integrations/readiness.ts'
import { createReadiness } from './integrations/readiness.ts'
import type { MappingActor, RepointMapping } from './mappings/mapping-acts.ts'
import { forgetMapping, repointByHand } from './mappings/mapping-acts.ts'
import type { FindOrphansInput, FindOrphansResult } from './mappings/mapping-jobs.ts'
import type { ListMappings, MappingSummary } from './mappings/mapping-list.ts'
import { getMapping, listMappings } from './mappings/mapping-list.ts'
import type { OrphanSearch } from './mappings/orphans.ts'
import { findOrphans } from './mappings/orphans.ts'
import type { AuditEntry, ListAudit } from './observability/audit.ts'
import { listAudit } from './observability/audit.ts'
import type { ListLogs, LogSummary, LogTree, LogTreeOptions } from './observability/log-list.ts'
import { listLogs, logTree } from './observability/log-list.ts'
import type { PrometheusMetrics } from './observability/prometheus.ts'
import { standingReader } from './observability/standing.ts'
import type { Statistics, StatisticsInput } from './observability/statistics.ts'
import { statistics } from './observability/statistics.ts'
import type { ShownRecord } from './providers/contracts.ts'
import type { Playing } from './rehearsal/play.ts'
import { play } from './rehearsal/play.ts'
import type { Recording, RehearsalInput } from './rehearsal/rehearsal-jobs.ts'
import type { Scratch } from './rehearsal/scratch-copy.ts'
import { openScratch } from './rehearsal/scratch-copy.ts'
import type { ErasedRows, EraseIntegration } from './retention/erasure.ts'
import { eraseIntegration } from './retention/erasure.ts'
import { countPrunableRows } from './retention/pruning.ts'
import type { PruneResult } from './retention/rules.ts'
import type { ChartMark } from './rollups/marks.ts'
import { chartMarks } from './rollups/marks.ts'
import type { RollUpResult } from './rollups/roll-up.ts'
import { rollUp } from './rollups/roll-up.ts'
import type { ChartWindow } from './rollups/rollup-rules.ts'
import type { BusiestBy, BusiestIntegration, ChartFilter, ChartSeries, Sparkline } from './rollups/series.ts'
import { busiestIntegrations, chartSeries, sparklines } from './rollups/series.ts'
import type { RetryItem, StartedRetry } from './syncs/items/item-acts.ts'
import { retrySyncItem, skipSyncItem, startItemRetry } from './syncs/items/item-acts.ts'
import type { ListSyncItems, SyncItemDetail, SyncItemSummary } from './syncs/items/item-list.ts'
import { getSyncItem, listFailedItems, listSyncItems } from './syncs/items/item-list.ts'
import type { FailedItem, ListFailedItemsInput, ProcessSyncItemResult, SkipSyncItemResult } from './syncs/sync-jobs.ts'
import type { TestableProvider, TestDelivery, TestDeliveryInput } from './webhooks/test-delivery.ts'
import { makeTestDelivery, testableProviders } from './webhooks/test-delivery.ts'
import { workflowId } from './workflows/ids.ts'

/** What the object is made of, beside the framework. */
export interface AdminParts {
  readonly access: IntegrationsAdmin['access']
  readonly connection: Connection
  /** Of the gauges of /metrics. */
  readonly standing: Database
  readonly target: MigrationTarget
  readonly loaded: LoadedConfig
  readonly metrics: PrometheusMetrics
  readonly checkNames: () => void
}

export interface IntegrationsAdmin {
  /** As {@link Integrations.erase}. */
  erase(id: number, options?: EraseIntegration): Promise<ErasedRows>
  /** As an operator lists them, with traffic of the last 24 hours. */
  summaries(filter?: ListIntegrations): AsyncIterable<IntegrationSummary>
  /**
   * Asks the provider's `healthCheck()`, 30 s at most; null when it has none. What goes wrong there is in the result.
   * @throws IntegrationNotFound, UnknownProvider
   */
  testCredentials(id: number): Promise<HealthCheckResult | null>
  /** The registered providers, by their identifier. */
  providers(): readonly ProviderDescription[]
  readonly syncItems: {
    /** Newest first, without payloads. */
    list(filter?: ListSyncItems): AsyncIterable<SyncItemSummary>
    /** Failed items whose record no later run has synced, or items that wait for another attempt, newest first. @throws InvalidArgumentException */
    failed(input?: ListFailedItemsInput): Promise<FailedItem[]>
    /** @throws SyncItemNotFound */
    get(id: number): Promise<SyncItemDetail>
    /** Gives a failed item up for good. @throws SyncItemNotFound, SyncItemNotFailed */
    skip(id: number): Promise<SkipSyncItemResult>
    /**
     * Runs a failed item again on a worker and waits; one that waits for another attempt is tried now.
     *
     * @throws SyncItemNotFound, SyncItemNotFailed, BackendUnreachable; SyncItemOutdated when a later run has a newer copy,
     *   unless forced
     */
    retry(id: number, options?: RetryItem): Promise<ProcessSyncItemResult>
    /** Starts the same and does not wait. @throws as {@link retry} */
    startRetry(id: number, options?: RetryItem): Promise<StartedRetry>
  }
  /**
   * Rows of a host's model that nothing maps.
   *
   * @throws InvalidArgumentException naming the registered models, IntegrationNotFound
   */
  findOrphans(input: FindOrphansInput, search?: OrphanSearch): Promise<FindOrphansResult>

  /** The request log. */
  readonly requests: {
    /** Newest first, without bodies. @throws InvalidArgumentException at once, before anything is read */
    list(filter?: ListRequests): AsyncIterable<RequestSummary>
    /** With its bodies and all attempts of the same call. @throws RequestNotFound */
    get(id: number): Promise<RequestDetail>
  }
  /** The operation logs. */
  readonly logs: {
    /** Newest first. @throws InvalidArgumentException at once, before anything is read */
    list(filter?: ListLogs): AsyncIterable<LogSummary>
    /** An operation with its parts, and theirs. @throws LogNotFound, InvalidArgumentException */
    tree(id: number, options?: LogTreeOptions): Promise<LogTree>
  }
  /** Which rows of the host the external ids stand for. */
  readonly mappings: {
    /** Newest first, by either side. @throws InvalidArgumentException at once, before anything is read */
    list(filter?: ListMappings): AsyncIterable<MappingSummary>
    /** @throws MappingNotFound */
    get(id: number): Promise<MappingSummary>
    /**
     * Points an external id at another row.
     *
     * @throws MappingNotFound, MappedRowNotFound, InvalidArgumentException; MappingAlreadyClaimed when a mapping of that model has
     *   the external id already
     */
    repoint(id: number, act: RepointMapping): Promise<MappingSummary>
    /** Removes a mapping; the row stays. @returns what it was. @throws MappingNotFound, InvalidArgumentException */
    forget(id: number, act: MappingActor): Promise<MappingSummary>
  }
  /** The ledger of keyed writes. */
  readonly idempotencyKeys: {
    /** Newest first. @throws InvalidArgumentException at once, before anything is read */
    list(filter?: ListIdempotencyKeys): AsyncIterable<IdempotencyKeySummary>
    /** With what the call was answered. @throws IdempotencyKeyNotFound */
    get(id: number): Promise<IdempotencyKeyDetail>
    /**
     * Frees a key. @returns what it was
     *
     * @throws IdempotencyKeyNotFound, InvalidArgumentException; IdempotencyKeyInUse while a call may be under way, unless forced
     */
    forget(id: number, act: ForgetIdempotencyKey): Promise<IdempotencyKeyDetail>
  }
  /** Durable events and the outbox, of the last seven days. */
  readonly storedEvents: {
    /** Newest first, without payloads. @throws InvalidArgumentException at once, before anything is read */
    list(filter?: ListStoredEvents): AsyncIterable<StoredEventSummary>
    /** @throws StoredEventNotFound */
    get(id: number): Promise<StoredEventDetail>
  }
  readonly incidents: {
    /** Newest first. */
    list(filter?: ListIncidents): AsyncIterable<IncidentSummary>
    /** @throws IncidentNotFound */
    get(id: number): Promise<IncidentSummary>
    /** A person has seen it, until it gets worse. @throws IncidentNotFound, IncidentNotOpen, InvalidArgumentException */
    acknowledge(id: number, act: IncidentActor & { readonly note?: string | undefined }): Promise<IncidentSummary>
    /** No repeats are notified until then, or until it gets worse; at most 30 days. @throws as `acknowledge()` */
    snooze(id: number, act: IncidentActor & { readonly until: Date }): Promise<IncidentSummary>
    /** Open or closed. @throws IncidentNotFound, InvalidArgumentException */
    annotate(id: number, act: IncidentActor & { readonly text: string }): Promise<IncidentSummary>
  }
  /** What people have done, over all integrations, also those that were deleted. */
  readonly audit: {
    /** Newest first. @throws InvalidArgumentException at once, before anything is read */
    list(filter?: ListAudit): AsyncIterable<AuditEntry>
  }
  /**
   * The life of any record: where it comes from, what it caused, each attempt, who acted.
   *
   * @param reference such as `webhook:4711`, `item:12`, `issue:17`, a delivery id or an external id: docs/behaviour/explain.md
   * @throws RecordNotFound; InvalidArgumentException for what cannot be a reference
   */
  explain(reference: string, options?: ExplainOptions): Promise<Explanation>
  /** Webhooks or sync items by what their payloads hold, of the last hours; bounded, and says where it was cut. */
  searchPayloads(search: PayloadSearch): Promise<FoundPayloads>
  /** Failures of items, webhooks and requests, the same ones together; of the last 24 hours by default. @throws InvalidArgumentException */
  failures(filter?: ListFailures): Promise<Failures>
  readonly testDeliveries: {
    /** Providers that take webhooks, and what can be tried with them. */
    providers(): readonly TestableProvider[]
    /**
     * A delivery as the provider would send it, or spoilt on purpose. Nothing is sent.
     *
     * @throws IntegrationNotFound, UnsupportedByProvider, WebhookNotFound, RecordNotFound for a sample; InvalidArgumentException where it
     *   can't be signed
     */
    make(integrationId: number, delivery: TestDeliveryInput): Promise<TestDelivery>
  }
  /** Rows of an act on many, by the status that they have now. @throws InvalidArgumentException */
  actProgress(act: ActOnMany): Promise<ReadonlyMap<string, number>>
  /** What `retryGroup()` would try. @throws as it does */
  previewRetryGroup(group: string, which?: RetryGroup): Promise<RetryGroupPreview>
  /**
   * Retries the items of a group of failures, or replays its webhooks, 100 unless a limit says more; all of it is audited.
   *
   * @throws RecordNotFound when no failure within the filter is of the group; InvalidArgumentException, also for a group of
   *   requests; BackendUnreachable when nothing could be started
   */
  retryGroup(group: string, which: RetryGroup & GroupActor): Promise<RetriedGroup>
  /** Operator tokens that are made at run time, beside those of the configuration. */
  readonly tokens: {
    /** @returns with the token itself, which is kept nowhere. @throws InvalidArgumentException, UnknownProvider */
    create(token: CreateToken): Promise<TokenSummary & { readonly token: string }>
    /** Newest first. */
    list(filter?: ListTokens): AsyncIterable<TokenSummary>
    /** Ends a token and its sessions at once; again, it changes nothing. @throws TokenNotFound */
    revoke(id: number, who: { readonly by: string; readonly from?: string | undefined }): Promise<TokenSummary>
  }
  readonly notifications: {
    /** Sends a test event from this process. @throws InvalidArgumentException for a target that is not there */
    test(options?: { readonly target?: number }): Promise<readonly SentNotification[]>
    /** Of the outbox: what waits for a queued listener or a target, and what was given up. */
    status(options?: { readonly limit?: number }): Promise<OutboxStatus>
    /** Gives what was given up in the last seven days another ten tries. @returns rows @throws StoredEventNotFound */
    retry(options?: { readonly eventId?: number }): Promise<number>
    /** Wakes the outbox if rows wait. @returns whether it did */
    wakePending(): Promise<boolean>
  }
  /** How one integration is, and why. @throws IntegrationNotFound */
  health(id: number, options?: HealthReportOptions): Promise<HealthReport>
  /** Figures over all integrations, or a provider's. */
  stats(input?: StatisticsInput): Promise<Statistics>
  /** Figures over time, from sums that each worker keeps up. Rule: docs/behaviour/charts.md. */
  readonly charts: {
    /** Calls, webhooks and items of a window, point by point. @throws InvalidArgumentException */
    series(asked: ChartFilter & { readonly window: ChartWindow }): Promise<ChartSeries>
    /** The integrations with the most calls or failures, or of each, 10 unless `limit` says more. @throws InvalidArgumentException */
    busiest(
      asked: ChartFilter & {
        readonly window: ChartWindow
        readonly by: BusiestBy
        readonly limit?: number | undefined
      },
    ): Promise<readonly BusiestIntegration[]>
    /** Calls and failures of the last 24 hours by the hour, of up to 200 integrations. @throws InvalidArgumentException */
    sparklines(integrationIds: readonly number[]): Promise<ReadonlyMap<number, Sparkline>>
    /** Incidents, circuits that opened, deployments and rotations of keys and webhook secrets, oldest first. @throws InvalidArgumentException */
    marks(asked: ChartFilter & { readonly from: Date; readonly to: Date }): Promise<readonly ChartMark[]>
    /** One pass of counting, here: workers do it by themselves. */
    rollUp(): Promise<RollUpResult>
  }
  /** Evaluates the failure rates on a worker and waits for it. @throws BackendUnreachable */
  evaluateFailures(): Promise<EvaluateFailuresResult>
  /**
   * Deletes what is kept no longer, on a worker, and waits for it.
   *
   * @param options `dryRun` only counts, here
   * @throws BackendUnreachable
   */
  prune(options?: { readonly dryRun?: boolean }): Promise<PruneResult>

  readonly keys: {
    status(): Promise<KeyStatus>
    /** Encrypts again, with the key that writes, all that another key wrote. Online; run again, it goes on. */
    rotate(options?: RotateOptions): Promise<KeyRotation>
  }
  readonly schedules: Pick<
    TemporalInspection,
    'schedules' | 'applySchedules' | 'searchAttributes' | 'applySearchAttributes'
  >
  /** Addresses of other systems' pages about a record. */
  readonly links: {
    /** In the Temporal UI; null: `operator.temporal_ui` is not set. @param runId of one execution; else the newest */
    workflow(of: LinkedWorkflow, runId?: string | null): string | null
    /** Null: not traced, or `operator.trace_url` is not set. */
    trace(traceparent: string | null): string | null
    /** The provider's own page; null: it has none. @throws IntegrationNotFound */
    page(integrationId: number, record: ShownRecord): Promise<string | null>
  }
  /** New handlers over what was handled, in a copy of the database: docs/behaviour/rehearsal.md. */
  readonly rehearsal: {
    /**
     * A database to play in, made of a scratch copy of this object's one.
     *
     * @param signal breaks the copying off, and nothing of it is left
     * @throws InvalidArgumentException for this object's own database; BackendUnreachable
     */
    open(copyUrl: string, signal?: AbortSignal): Promise<Scratch>
    /** Handles again what was handled. The object is on the copy, in a process without a network, and no good for anything else after. */
    play(input: RehearsalInput, playing: Playing): Promise<Recording>
  }
  /** Every check, in order; looks only. */
  doctor(): Promise<readonly Finding[]>
  /** The same, or an earlier look of this process that is not too old. Null: none has ended within the patience. */
  diagnosis(wanted: WantedDiagnosis): Promise<Diagnosis | null>
  /** The configuration in force, key by key, secrets masked. */
  configuration(): readonly ConfigEntry[]
  /**
   * Whether the providers that `sync.queues` and `handledBy` name are registered. API, workers and commands ask before they begin.
   *
   * @throws InvalidConfiguration
   */
  checkNames(): void
  /** What this object's process has done, and how things stand in the database. */
  readonly metrics: {
    /**
     * As Prometheus reads it. Without the database's part when that does not answer within 4 s; asked again within 5 s it gives
     * the same for that part.
     */
    text(): Promise<string>
    /** Of `text()`. */
    readonly contentType: string
    /** From now on Node's own figures of this process, too: memory, event loop, garbage. Our API and worker processes do it. */
    includeProcess(): void
  }
  /** Access, and what the HTTP routes need for it. */
  readonly access: Access & {
    readonly baseUrl: string | null
    readonly dev: boolean
    readonly middleware: Readonly<Record<string, MiddlewareHandler>>
    /** The dashboard is served alone, without the OAuth routes. */
    readonly isAlone?: true
  }
  /** What the operator API shows and writes down. */
  readonly operator: OperatorView
  /** Tells changed credentials by a keyed digest; null: they can't be read. @throws IntegrationNotFound */
  credentialsVersion(id: number): Promise<string | null>
  readonly logger: Logger
  /** What `migrate()` would apply, in order. */
  pendingMigrations(): Promise<string[]>
  /** Whether it can do its work now, part by part. Never throws. */
  readiness(options?: ReadinessOptions): Promise<Readiness>
}

/** What a workflow of ours works on. */
export type LinkedWorkflow =
  | { readonly kind: 'run' | 'backfill'; readonly integrationId: number; readonly stream: string | null }
  /** Of an incident the id of its integration. */
  | { readonly kind: 'item' | 'webhook' | 'incident'; readonly id: number }

function workflowIdOf(prefix: string, of: LinkedWorkflow): string {
  switch (of.kind) {
    case 'run':
      return workflowId.syncIntegration(prefix, of)
    case 'backfill':
      return workflowId.backfillSync(prefix, of)
    case 'item':
      return workflowId.processSyncItem(prefix, of.id)
    case 'webhook':
      return workflowId.processWebhook(prefix, of.id)
    case 'incident':
      return workflowId.incident(prefix, of.id)
  }
}

export function createAdmin(
  framework: Framework,
  { access, connection, standing, target, loaded, metrics, checkNames }: AdminParts,
): IntegrationsAdmin {
  const { config, providers, logger } = framework
  const { baseUrl, dev } = access
  const readStanding = standingReader(framework, standing)
  const startItem = (id: number, retry?: RetryItem) =>
    startItemRetry(
      framework,
      id,
      (of) => ({
        retry: workflowId.processSyncItem(config.cache_prefix, id),
        run: workflowId.syncIntegration(config.cache_prefix, of),
        backfill: workflowId.backfillSync(config.cache_prefix, of),
      }),
      retry,
    )
  const doctor = () =>
    runDoctor(framework, {
      checkDatabase: () => checkConnection(connection),
      askAside: (question) => askAside(connection.sql, question),
      pendingMigrations: () => pendingMigrations(target),
      baseUrl,
      dev,
      local: localCommands(process.env),
    })
  const links = linksOut(framework)
  return {
    erase: (id, erasure) => eraseIntegration(framework, id, erasure),
    summaries: (filter) => summariseIntegrations(framework, filter),
    testCredentials: (id) => checkIntegrationHealth(framework, id),
    providers: () => describeProviders(framework),
    syncItems: {
      list: (filter) => listSyncItems(framework, filter),
      failed: (input) => listFailedItems(framework, input ?? {}),
      get: (id) => getSyncItem(framework, id),
      skip: (id) => skipSyncItem(framework, id),
      retry: (id, retry) => retrySyncItem(framework, id, retry),
      startRetry: startItem,
    },
    requests: {
      list: (filter) => listRequests(framework, filter),
      get: (id) => getRequest(framework, id),
    },
    logs: {
      list: (filter) => listLogs(framework, filter),
      tree: (id, options) => logTree(framework, id, options),
    },
    mappings: {
      list: (filter) => listMappings(framework, filter),
      get: (id) => getMapping(framework, id),
      repoint: (id, act) => repointByHand(framework, id, act),
      forget: (id, act) => forgetMapping(framework, id, act),
    },
    idempotencyKeys: {
      list: (filter) => listIdempotencyKeys(framework, filter),
      get: (id) => getIdempotencyKey(framework, id),
      forget: (id, act) => forgetIdempotencyKeyOf(framework, id, act),
    },
    storedEvents: {
      list: (filter) => listStoredEvents(framework, filter),
      get: (id) => getStoredEvent(framework, id),
    },
    incidents: {
      list: (filter) => listIncidents(framework, filter),
      get: (id) => getIncident(framework, id),
      acknowledge: (id, act) => acknowledgeIncident(framework, id, act),
      snooze: (id, act) => snoozeIncident(framework, id, act),
      annotate: (id, act) => annotateIncident(framework, id, act),
    },
    audit: { list: (filter) => listAudit(framework, filter) },
    failures: (filter) => listFailures(framework, filter),
    testDeliveries: {
      providers: () => testableProviders(framework),
      make: (id, delivery) => makeTestDelivery(framework, id, delivery),
    },
    actProgress: (act) => actProgress(framework, act),
    previewRetryGroup: (group, which) => previewRetryGroup(framework, group, which),
    retryGroup: (group, which) => retryGroup(framework, group, which, (id) => startItem(id)),
    searchPayloads: (search) => searchPayloads(framework, search),
    explain: (reference, options) => explain(framework, reference, options),
    tokens: {
      create: (token) => createToken(framework, token),
      list: (filter) => listTokens(framework, filter),
      revoke: (id, who) => revokeToken(framework, id, who),
    },
    notifications: {
      test: (options) => testNotifications(framework, options),
      status: (options) => outboxStatus(framework, options),
      retry: (options) => retryGivenUp(framework, options),
      wakePending: () => wakePendingOutbox(framework),
    },
    health: (id, options) => healthReport(framework, id, options),
    stats: (input) => statistics(framework, input),
    charts: {
      series: (asked) => chartSeries(framework, asked),
      busiest: (asked) => busiestIntegrations(framework, asked),
      sparklines: (ids) => sparklines(framework, ids),
      marks: (asked) => chartMarks(framework, asked),
      rollUp: () => rollUp(framework),
    },
    evaluateFailures: () => framework.workflows.runEvaluateFailures(),
    prune: async ({ dryRun = false } = {}) =>
      dryRun ? { counts: await countPrunableRows(framework), failed: [] } : framework.workflows.runPrune(),
    keys: { status: () => keyStatus(framework), rotate: (rotation) => rotateKeys(framework, rotation) },
    // Asked at each call: the testing kit puts another one in its place.
    schedules: {
      schedules: () => framework.temporal.schedules(),
      applySchedules: () => framework.temporal.applySchedules(),
      searchAttributes: () => framework.temporal.searchAttributes(),
      applySearchAttributes: () => framework.temporal.applySearchAttributes(),
    },
    links: { ...links, workflow: (of, runId) => links.workflow(workflowIdOf(config.cache_prefix, of), runId) },
    rehearsal: {
      async open(copyUrl, signal) {
        await checkConnection(connection)
        return openScratch(framework, copyUrl, signal)
      },
      play: (input, playing) => play(framework, input, playing),
    },
    doctor,
    diagnosis: keptDiagnosis(doctor),
    configuration: () => describeConfig(loaded),
    checkNames,
    metrics: {
      contentType: metrics.contentType,
      text: async () =>
        metrics.text(
          await readStanding(),
          providers.entries().map(([key]) => key),
          budgetsNow(framework),
        ),
      includeProcess: () => metrics.includeProcess(),
    },
    findOrphans: (input, search) => findOrphans(framework, input, search),
    access,
    operator: operatorView(framework),
    credentialsVersion: (id) => credentialsVersion(framework, id),
    logger,
    readiness: createReadiness(framework, {
      postgres: () => checkConnection(connection),
      migrations: () => assertMigrated(target),
      keys: () => verifyKeys(framework),
    }),
    pendingMigrations: () => pendingMigrations(target),
  }
}
