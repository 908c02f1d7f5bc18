/**
 * The composition root: one object that a host makes once and gives to its API, its workers and the CLI alike. Each
 * method binds one operation; the logic is in the parts.
 */

import type { Client } from '@temporalio/client'
import type { MiddlewareHandler } from 'hono'
import { pino } from 'pino'
import type { Sql } from 'postgres'
import { createAccess } from './access/tokens-and-links.ts'
import type { IntegrationsAdmin } from './admin.ts'
import { createAdmin } from './admin.ts'
import { postgresCache } from './cache/postgres.ts'
import { closeBudgets } from './calls/admission/call-state.ts'
import { performRequest } from './calls/request.ts'
import { readPromise } from './claims/lease-queries.ts'
import type { PumpedQueue } from './claims/pump-jobs.ts'
import { EVENT_OUTBOX, WEBHOOK_INBOX } from './claims/pump-jobs.ts'
import { InboxPromise } from './claims/pump-promise.ts'
import { unknownProviders } from './config/cross-checks.ts'
import { attempt } from './config/faults.ts'
import { collectConfig } from './config/load.ts'
import { nameModel } from './config/model-names.ts'
import { checkOptions } from './config/options.ts'
import type { Config, ConfigInput } from './config/schema.ts'
import { certificateEnd } from './config/temporal-tls.ts'
import { verifyKeys } from './credentials/encryption-keys.ts'
import { assertMigrated, migrate } from './db/apply-migrations.ts'
import type { Transaction } from './db/client.ts'
import { checkConnection } from './db/client.ts'
import { openConnections } from './db/connections.ts'
import { readDatabaseUrl } from './db/database-url.ts'
import { createTables } from './db/schema/tables.ts'
import type { EgressPolicy } from './egress/guarded-fetch.ts'
import { createEgress } from './egress/guarded-fetch.ts'
import { createEncryption, parseKeyRing } from './encryption.ts'
import type { EventName, IntegrationEvents } from './events/events.ts'
import type { EventDelivery, EventKey, Listener, ListenerOptions } from './events/listeners.ts'
import { Listeners } from './events/listeners.ts'
import { isNotified } from './events/notification-rules.ts'
import type { HandledBy } from './forwarding/target.ts'
import { checkHandledBy } from './forwarding/target.ts'
import type { Framework } from './framework/context.ts'
import type { ConfigurationProblem } from './framework/errors.ts'
import { InvalidConfiguration } from './framework/errors.ts'
import type { Json } from './framework/json.ts'
import { isRecord } from './framework/json.ts'
import type { Clock, Logger } from './framework/logger.ts'
import { systemClock, unfailingLogger } from './framework/logger.ts'
import type { HasTransactions } from './framework/transactions.ts'
import { runInTransaction, trackTransactions } from './framework/transactions.ts'
import { disableIntegration, enableIntegration } from './integrations/enabled.ts'
import { getIntegration } from './integrations/handle.ts'
import type { ListIntegrations } from './integrations/list.ts'
import { listIntegrations } from './integrations/list.ts'
import type { CreateIntegration, UpdateIntegration } from './integrations/records.ts'
import { createIntegration, findIntegrationById, updateIntegrationRow } from './integrations/records.ts'
import { reportUnfitModels } from './mappings/mapped-table.ts'
import type { BegunAuthorization, CompletedAuthorization, OAuthCallback, OAuthPlace } from './oauth/authorization.ts'
import { beginAuthorization, completeAuthorization, startAuthorization } from './oauth/authorization.ts'
import type { OAuthStatus } from './oauth/authorization-status.ts'
import { oauthStatus } from './oauth/authorization-status.ts'
import type { OAuthLink } from './oauth/links.ts'
import { oauthLink } from './oauth/links.ts'
import type { RefreshTokensInput, RefreshTokensResult } from './oauth/oauth-jobs.ts'
import type { Revocation } from './oauth/revocation.ts'
import { revokeAuthorization } from './oauth/revocation.ts'
import { storeTokensUnderWay } from './oauth/unstored-tokens.ts'
import { subjectOf } from './observability/metric-subject.ts'
import { prometheusMetrics } from './observability/prometheus.ts'
import { traceFields } from './observability/spans.ts'
import { hasOAuth2, reconcilesWebhooks } from './providers/contracts.ts'
import type { Integration } from './providers/integration.ts'
import type { MappedModel } from './providers/mapped-model.ts'
import type {
  ProviderEvent,
  ProviderEventClass,
  SyncItemEvent,
  SyncItemEventClass,
} from './providers/provider-events.ts'
import type { ProviderSource } from './providers/registry.ts'
import { ProviderRegistry } from './providers/registry.ts'
import { streamsOf, syncSource } from './providers/streams.ts'
import type { DeletedRows, DeleteIntegration } from './retention/deletion.ts'
import { deleteIntegration } from './retention/deletion.ts'
import type { ErasedRows, EraseIntegration } from './retention/erasure.ts'
import { eraseIntegration } from './retention/erasure.ts'
import type { SubscriptionView } from './subscriptions/acts.ts'
import { checkSubscription, registerSubscription, removeSubscription, showSubscription } from './subscriptions/acts.ts'
import type { StartSync, SyncStart } from './syncs/ask-rules.ts'
import { startBackfill } from './syncs/backfill.ts'
import type { OfStream, OnEachStream } from './syncs/by-hand.ts'
import {
  advanceCursor,
  cancelSyncNow,
  finaliseOneRun,
  pauseSync,
  progressOfSync,
  resumeSync,
  setSyncCursor,
  startSyncNow,
} from './syncs/by-hand.ts'
import type { CursorChange } from './syncs/cursor.ts'
import { roundSeconds } from './syncs/due.ts'
import { prunedBetweenListings } from './syncs/listing/full-listings.ts'
import type { ConfirmedMissing, ConfirmMissing } from './syncs/listing/missing.ts'
import { confirmMissing } from './syncs/listing/missing.ts'
import type { SampleOptions, SyncSample } from './syncs/listing/sample.ts'
import { sampleSync } from './syncs/listing/sample.ts'
import type { ListSyncRuns, SyncRunDetail, SyncRunSummary } from './syncs/run-list.ts'
import { getSyncRun, listSyncRuns } from './syncs/run-list.ts'
import { setStreamInterval } from './syncs/stream-list.ts'
import type {
  AdvanceCursorInput,
  AdvanceCursorResult,
  BackfillInput,
  DispatchResult,
  SyncProgress,
} from './syncs/sync-jobs.ts'
import type { TemporalOptions } from './temporal/connection.ts'
import { lazyClient, temporalAddress, withTemporalEnvironment } from './temporal/connection.ts'
import { temporalInspection } from './temporal/inspection.ts'
import type { ScheduleNeeds } from './temporal/keep-schedules.ts'
import { deploymentId } from './temporal/keep-schedules.ts'
import { temporalStarters } from './temporal/starters.ts'
import type { ExpectHandshake } from './webhooks/answers.ts'
import { expectHandshake } from './webhooks/answers.ts'
import type { Arrival, Delivery } from './webhooks/arrival.ts'
import { receiveDelivery } from './webhooks/arrival.ts'
import type { OnChangedWebhooks } from './webhooks/bulk.ts'
import type {
  Dismissal,
  DismissalPreview,
  DismissedWebhook,
  DismissedWebhooks,
  DismissWebhooks,
} from './webhooks/dismissal.ts'
import { dismissWebhook, dismissWebhooks, previewDismissals } from './webhooks/dismissal.ts'
import type { ListWebhooks, WebhookDetail, WebhookSummary } from './webhooks/list.ts'
import { getWebhook, listWebhooks } from './webhooks/list.ts'
import { reconcileNow } from './webhooks/reconciliation.ts'
import type { ReplayedWebhooks, ReplayPreview, ReplayWebhooks, StartedReplay } from './webhooks/replay.ts'
import { previewReplays, replayWebhook, replayWebhooks, startReplay } from './webhooks/replay.ts'
import type { RotatedWebhookSecret, RotateWebhookSecret } from './webhooks/secrets.ts'
import { rotateWebhookSecret } from './webhooks/secrets.ts'
import { wakePendingInbox } from './webhooks/wake.ts'
import type {
  ProcessWebhookResult,
  ReconcileWebhooksInput,
  ReconcileWebhooksResult,
  RecoverWebhooksResult,
} from './webhooks/webhook-jobs.ts'
import { workflowId } from './workflows/ids.ts'

export interface IntegrationsOptions {
  /** URL of a Postgres of 14 or newer, or a postgres.js client. Default: DATABASE_URL. */
  readonly database?: string | Sql | undefined
  readonly temporal?: TemporalOptions
  /** `kid:base64,…`, 32 bytes each; the first writes, all read. Default: INTEGRATIONS_ENCRYPTION_KEYS or …_FILE. */
  readonly encryptionKeys?: string | readonly string[] | undefined
  readonly config?: ConfigInput
  readonly providers?: Readonly<Record<string, ProviderSource>>
  /** The host's models by the name stored in `internal_type`. */
  // biome-ignore lint/suspicious/noExplicitAny: each model has row and attribute types of its own
  readonly models?: Readonly<Record<string, MappedModel<any, any>>>
  readonly logger?: Logger
  readonly clock?: Clock
  /** Where the API is reached from outside, such as `https://api.example.com`. Default: INTEGRATIONS_BASE_URL. */
  readonly baseUrl?: string
  /** Middleware by the names that `webhook.middleware` and the like may use; adds to the built-in ones, or replaces one. */
  readonly middleware?: Readonly<Record<string, MiddlewareHandler>>
  /**
   * Makes an operator token from the key ring and logs the address that signs a browser in with it. For development only; refused
   * where NODE_ENV is production.
   * Default: whether INTEGRATIONS_DEV is 1.
   */
  readonly dev?: boolean
  /**
   * Where deliveries and sync items of a provider are handled in place of handlers and listeners in our worker: a door of the host's
   * own (`{ url, secrets }`) or a workflow of the host's own in any language (`{ workflow, taskQueue }`).
   */
  readonly handledBy?: HandledBy
  /** What `context.fetch` and calls by URL may reach beyond public addresses, or not at all. */
  readonly egress?: EgressPolicy
  /** Connections of each of our two large pools at most (default 10), and after how long an unused one is closed (default 60 s). */
  readonly pool?: { readonly max?: number; readonly idleSeconds?: number; readonly statementSeconds?: number }
  /** Postgres schema of our tables. Default `public`. */
  readonly schema?: string
}

export interface Integrations {
  /**
   * The configuration in force.
   *
   * @example
   * integrations.config.sync.queue
   */
  readonly config: Config
  /**
   * Stores an integration of a provider; its credentials are encrypted.
   *
   * @example
   * const ours = await integrations.create({ provider: 'github', name: 'Ours', credentials: { token } })
   */
  create(integration: CreateIntegration): Promise<Integration>
  /**
   * One integration.
   * Null when it does not exist.
   *
   * @example
   * const integration = await integrations.find(7)
   * if (integration === null) return
   */
  find(id: number): Promise<Integration | null>
  /**
   * One integration that must be there.
   * @throws IntegrationNotFound
   *
   * @example
   * const integration = await integrations.get(7)
   * await integration.request('v1/me', 'GET', ({ fetch }) => fetch('https://api.acme.example/v1/me'))
   */
  get(id: number): Promise<Integration>
  /**
   * Integrations by ascending id, one at a time.
   *
   * @example
   * for await (const { id, name } of integrations.list({ provider: 'github', active: true })) console.log(id, name)
   */
  list(filter?: ListIntegrations): AsyncIterable<Integration>
  /**
   * Changes what is given and leaves the rest; null removes a key of the credentials.
   *
   * @example
   * await integrations.update(7, { credentials: { token }, syncIntervalMinutes: 5 })
   */
  update(id: number, patch: UpdateIntegration): Promise<Integration>
  /**
   * Removes the row and all its rows.
   *
   * @throws IntegrationNotFound; IntegrationBusy while a run lives, unless forced
   *
   * @example
   * const rows = await integrations.delete(7, { force: true })
   */
  delete(id: number, options?: DeleteIntegration): Promise<DeletedRows>
  /**
   * Blanks payloads, bodies, results and credentials of one integration; counts and times stay.
   *
   * @throws as {@link delete}
   *
   * @example
   * const blanked = await integrations.erase(7, { by: 'grace' })
   */
  erase(id: number, options?: EraseIntegration): Promise<ErasedRows>
  /**
   * Switches an integration on: active, healthy, due at once.
   *
   * @example
   * await integrations.enable(7)
   */
  enable(id: number): Promise<void>
  /**
   * Switches an integration off: no scheduled work, no webhooks. Nothing is deleted.
   *
   * @example
   * await integrations.disable(7)
   */
  disable(id: number): Promise<void>
  /**
   * Registers a provider after the start: a class, an object, or a function that makes one.
   *
   * @example
   * integrations.register('acme', AcmeProvider)
   */
  register(key: string, provider: ProviderSource, options?: { replace?: boolean }): void

  /**
   * Listens to an event by its name or its class; listeners are awaited in order.
   *
   * @example
   * integrations.on('IncidentOpened', ({ incident }) => page(incident.reason))
   * integrations.on(TicketSynced, async ({ payload }) => store(payload))
   */
  on<Name extends EventName>(
    name: Name,
    listener: (payload: IntegrationEvents[Name], delivery?: EventDelivery) => unknown,
    options?: ListenerOptions,
  ): void
  on<Event extends ProviderEvent>(
    eventClass: ProviderEventClass<Event>,
    listener: (event: Event) => unknown,
    options?: ListenerOptions,
  ): void
  on<Event extends SyncItemEvent<unknown>>(
    eventClass: SyncItemEventClass<Event>,
    listener: (event: Event) => unknown,
    options?: ListenerOptions,
  ): void
  /**
   * Listens no more.
   *
   * @example
   * integrations.off('IncidentOpened', listener)
   */
  off(key: EventKey, listener: Listener): void

  /**
   * Deliveries: received, stored, run by the inbox, replayed.
   *
   * @example
   * const { outcome } = await integrations.webhooks.replay(4711)
   */
  readonly webhooks: {
    /** What happens to a delivery before it is answered. The routes of `createApi()` use it. */
    receive(delivery: Delivery): Promise<Arrival>
    /**
     * Wakes the inbox of every integration that has pending rows: done by each API process at its start.
     *
     * @param options `olderThanSeconds`: only where the first of them has waited for longer
     */
    wakePending(options?: { readonly olderThanSeconds?: number }): Promise<number>
    /** Newest first, without payloads and headers. */
    list(filter?: ListWebhooks): AsyncIterable<WebhookSummary>
    /** The row with the very bytes that were delivered: for code, and not for a screen. @throws WebhookNotFound */
    get(id: number): Promise<WebhookDetail>
    /**
     * Runs a settled webhook again on a worker and waits for its end.
     *
     * @throws WebhookNotFound; WebhookNotReplayable when it is not settled, or erased; BackendUnreachable
     */
    replay(id: number): Promise<ProcessWebhookResult>
    /** Starts the same and does not wait. @throws as {@link replay} */
    startReplay(id: number): Promise<StartedReplay>
    /** What `replayMany()` would do; changes nothing. */
    previewReplay(filter?: ReplayWebhooks): Promise<ReplayPreview>
    /** Puts settled webhooks back into the queue, lowest id first; the inboxes run them. */
    replayMany(filter?: ReplayWebhooks, options?: OnChangedWebhooks): Promise<ReplayedWebhooks>
    /** Gives a failed webhook up: it is hidden, and not tried again; or takes that back. @throws WebhookNotFound, WebhookNotFailed */
    dismiss(id: number, dismissal?: Dismissal): Promise<DismissedWebhook>
    /** What `dismissMany()` would do; changes nothing. */
    previewDismissal(filter?: DismissWebhooks, dismissal?: Dismissal): Promise<DismissalPreview>
    /** The same for many, lowest id first. */
    dismissMany(filter?: DismissWebhooks, dismissal?: Dismissal & OnChangedWebhooks): Promise<DismissedWebhooks>
    /** Takes up what is stranded or due for another attempt, and waits for the end. @throws BackendUnreachable */
    recover(): Promise<RecoverWebhooksResult>
    /**
     * Asks providers for deliveries that never came, and waits for the end.
     *
     * @throws InvalidArgumentException, IntegrationNotFound, UnknownProvider, UnsupportedByProvider, BackendUnreachable
     */
    reconcile(input?: ReconcileWebhooksInput): Promise<ReconcileWebhooksResult | 'already running'>
    /**
     * Puts a new webhook secret in place of the present one, which stays valid for `webhook.secret_overlap`.
     *
     * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, InvalidCredentials, CredentialsUnreadable
     */
    rotateSecret(id: number, rotation?: RotateWebhookSecret): Promise<RotatedWebhookSecret>
    /** What is known of the integration's subscription at the provider, which is not asked. */
    subscription(id: number): Promise<SubscriptionView>
    /**
     * Registers the webhook at the provider, and keeps it registered from here on.
     *
     * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, BaseUrlMissing; WebhookSubscriptionFailed: it is tried again
     */
    register(id: number): Promise<SubscriptionView>
    /** Compares it with what the provider has, and puts it right. @throws as {@link register} */
    checkSubscription(id: number): Promise<SubscriptionView>
    /** Removes it at the provider; forgets it where the provider has no `ManagesWebhooks` any more. @throws as {@link register} */
    unregister(id: number): Promise<SubscriptionView>
    /**
     * Lets the next handshake bring the provider's secret, for two minutes. Called just before the provider is asked to create its webhook.
     *
     * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, InvalidArgumentException
     */
    expectHandshake(id: number, options?: ExpectHandshake): Promise<void>
  }
  /**
   * Runs: started, paused, cancelled, watched; and the cursor.
   *
   * @example
   * await integrations.syncs.start(7)
   * await integrations.syncs.start(7, { stream: 'contacts' }) // one of the streams of its provider; default: all
   */
  readonly syncs: {
    /**
     * Starts a run, due or not. While one lives, one more follows it at once, however many asked. With `notBefore` or
     * `debounceSeconds` it begins later; the waits of an integration are one.
     *
     * @example
     * await integrations.syncs.start(7) // { kind: 'remembered' }
     * await integrations.syncs.start(7, { debounceSeconds: 5 }) // { kind: 'later', at: … }
     */
    start(integrationId: number, ask?: StartSync & OnEachStream): Promise<SyncStart>
    /** Starts every run that is due, and waits for that. @throws BackendUnreachable */
    dispatch(): Promise<DispatchResult>
    /** Takes nothing new in; what runs goes on. Without a run it keeps one from starting, until `resume()`. */
    pause(integrationId: number, of?: OfStream & OnEachStream): Promise<void>
    /** Ends a pause. @throws BackendUnreachable */
    resume(integrationId: number, of?: OfStream & OnEachStream): Promise<'resumed' | 'not running'>
    /**
     * Ends the run and waits until it is over; nothing of it moves the cursor. A remembered start follows it, unless
     * `forget` is given: then those that wait are gone, too.
     */
    cancel(
      integrationId: number,
      options?: OfStream & OnEachStream & { readonly forget?: boolean },
    ): Promise<'cancelled' | 'not running'>
    /** Null: no run lives. @throws BackendUnreachable, also when no worker answers */
    progress(integrationId: number, of?: OfStream): Promise<SyncProgress | null>
    /**
     * Sets the cursor, null for a full listing. Runs that began before never touch it again.
     *
     * @throws IntegrationNotFound, InvalidArgumentException; IntegrationBusy while a run lives, unless forced
     */
    setCursor(
      integrationId: number,
      cursor: Json,
      options?: OfStream & { readonly force?: boolean },
    ): Promise<CursorChange>
    /**
     * Sets how often a stream is synced, in whole seconds from 10 on; null: as its integration or its provider says.
     *
     * @throws IntegrationNotFound, UnsupportedByProvider, InvalidArgumentException
     */
    setInterval(integrationId: number, seconds: number | null, of: { readonly stream: string }): Promise<void>
    /** Finalises runs that were left unfinalised, and moves the cursor where a retry or a skip came late. @throws CheckpointsNotReduced */
    advanceCursor(input: AdvanceCursorInput): Promise<AdvanceCursorResult>
    /** Starts a run over a window of the past; the cursor and the times stay. */
    backfill(input: BackfillInput): Promise<'started' | 'already running'>
    /** Lists a few items in this process and stores none. */
    sample(integrationId: number, options?: SampleOptions): Promise<SyncSample>
    /** Newest first; backfills, too. */
    runs(filter?: ListSyncRuns): AsyncIterable<SyncRunSummary>
    /** One run, with how its items stand. @throws SyncRunNotFound */
    run(syncLogId: number): Promise<SyncRunDetail>
    /** Finalises one run, if its items are done. @throws SyncRunNotFound, CheckpointsNotReduced */
    finalise(syncLogId: number): Promise<AdvanceCursorResult>
    /**
     * Tells the provider what was withheld after a full listing, since more than half of all mapped ids are missing.
     *
     * @throws SyncRunNotFound, MissingNotWithheld; what `handleMissing()` throws
     */
    confirmMissing(syncLogId: number, options?: ConfirmMissing): Promise<ConfirmedMissing>
  }

  /**
   * Authorizations: links for people, refreshes, revocations.
   *
   * @example
   * const url = await integrations.oauth.link(7, { action: 'connect' })
   */
  readonly oauth: {
    /**
     * A link that opens one action of one integration, to any person with the link, for a while.
     *
     * @throws BaseUrlMissing, IntegrationNotFound, OAuthFailure where it needs no authorization
     */
    link(id: number, options: OAuthLink): Promise<string>
    /**
     * Begins an authorization for a host that leads the browser itself; the answer comes to our callback route.
     *
     * @throws BaseUrlMissing, IntegrationNotFound, UnknownProvider, OAuthFailure
     */
    start(id: number): Promise<{ url: string; state: string }>
    /** As `start()`, bound to the browser that is before us: the routes of `createApi()` use it. */
    begin(id: number, place: OAuthPlace): Promise<BegunAuthorization>
    /** Ends an authorization at the callback: takes the code to the provider, and stores the tokens. @throws OAuthFailure, IntegrationNotFound; then nothing is stored */
    complete(callback: OAuthCallback): Promise<CompletedAuthorization>
    /** Revokes the tokens at the provider and deletes them. @throws OAuthFailure when the provider refuses, unless forced; LockTimeoutException */
    revoke(id: number, options?: { readonly force?: boolean }): Promise<Revocation>
    /** How the authorization stands; asks no provider. @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, CredentialsUnreadable */
    status(id: number): Promise<OAuthStatus>
    /** Refreshes the tokens that are due, or those of one integration, on a worker, and waits for it. @throws BackendUnreachable */
    refresh(input?: RefreshTokensInput): Promise<RefreshTokensResult>
  }

  /**
   * A transaction of the host's models. Inside it no keyed write is made: a rollback would forget it.
   *
   * @example
   * await integrations.transaction((tx) => tx.insert(tickets).values(ticket))
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  /**
   * Makes the transactions of a host's Drizzle database known, for the same refusal.
   *
   * @example
   * const db = integrations.trackTransactions(drizzle(client))
   */
  trackTransactions<DB extends HasTransactions>(db: DB): DB

  /**
   * Brings tables and functions up to this code.
   *
   * @example
   * const { applied } = await integrations.migrate()
   */
  migrate(): Promise<{ applied: string[] }>
  /**
   * Checks what a process needs before it starts: Postgres answers, the tables are up to date, the keys read what is
   * stored, the providers that the configuration names are registered.
   *
   * @throws InvalidConfiguration, BackendUnreachable,
   * SchemaBehind, EncryptionKeyMismatch
   *
   * @example
   * await integrations.ready()
   */
  ready(): Promise<void>
  /**
   * Closes the connections. What runs is not waited for, but for tokens that are asked for: they are stored, within 6 s.
   *
   * @example
   * await integrations.close()
   */
  close(): Promise<void>

  /**
   * What operators do and see: the commands, the operator API and the dashboard use nothing else.
   *
   * @example
   * const findings = await integrations.admin.doctor()
   */
  readonly admin: IntegrationsAdmin
}

const MINUTE_SECONDS = 60

/**
 * Makes the one object that a host gives to its API, its workers and the command line alike. It opens no connection yet.
 *
 * @throws InvalidConfiguration with every fault at once: of keys, options, the database's URL, encryption keys, providers
 *
 * @example
 * // integrations.config.ts
 * export default createIntegrations({
 *   providers: { github: GitHubProvider, acme },
 *   config: { sync: { queue: 'syncs' } },
 * })
 */
export function createIntegrations(given: IntegrationsOptions = {}): Integrations {
  const problems: ConfigurationProblem[] = []
  const { baseUrl, dev, logLevel } = checkOptions(given, process.env, problems)
  const options: IntegrationsOptions = isRecord(given) ? given : {}
  const optionProviders = namesAndValues(options.providers)
  const providerSources = { ...namesAndValues(options.config?.providers), ...optionProviders }
  const loaded = collectConfig(
    {
      config: options.config,
      optionProviderKeys: Object.keys(optionProviders),
      middlewareNames: Object.keys(namesAndValues(options.middleware)),
    },
    problems,
  )
  const { config, warnings } = loaded
  const database = options.database === undefined ? (process.env.DATABASE_URL ?? '') : options.database
  if (typeof database === 'string') attempt(problems, 'database', () => readDatabaseUrl(database))
  const temporalOptions = withTemporalEnvironment(
    isRecord(options.temporal) ? options.temporal : {},
    process.env,
    problems,
  )
  const ring = attempt(problems, 'encryptionKeys', () => parseKeyRing({ encryptionKeys: options.encryptionKeys }))
  const logger = options.logger === undefined ? defaultLogger(logLevel) : unfailingLogger(options.logger)
  const listeners = new Listeners(logger, {
    isTold: (name) => isNotified(config.notifications.targets, name),
    wake: () => framework.workflows.wakeOutbox(),
  })
  const providers = new ProviderRegistry(Object.keys(options.models ?? {}))
  const register = (key: string, source: ProviderSource, registration?: { replace?: boolean }): void => {
    providers.register(key, source, registration)
    const provider = providers.get(key)
    for (const warning of prunedBetweenListings(key, provider, config.pruning))
      logger.warn({ event: 'configuration.warning' }, warning)
    for (const stream of streamsOf(provider))
      for (const eventClass of syncSource(provider, stream)?.syncItemEvents?.() ?? [])
        listeners.registerItemClass(eventClass)
  }
  for (const [key, source] of Object.entries(providerSources))
    attempt(problems, `providers.${key}`, () => register(key, source as ProviderSource))
  if (problems.length > 0 || ring === undefined) throw new InvalidConfiguration(problems)
  for (const [name, model] of Object.entries(options.models ?? {})) nameModel(model, name)
  for (const warning of warnings) logger.warn({ event: 'configuration.warning' }, warning)

  const encryption = createEncryption(ring)
  const connections = openConnections(database, options.pool)
  const tables = createTables(config.table_prefix, options.schema)
  let client: Client | undefined
  const temporal = (): Client => {
    client ??= lazyClient(temporalOptions)
    return client
  }

  const needs: ScheduleNeeds = {
    canRefreshTokens: () => providers.entries().some(([, provider]) => hasOAuth2(provider)),
    canReconcile: () => providers.entries().some(([, provider]) => reconcilesWebhooks(provider)),
    syncsWithinMinute: () => roundSeconds({ providers }) < MINUTE_SECONDS,
    deployment: (make) => deploymentId(framework.cache, make),
  }
  const metrics = prometheusMetrics({
    byIntegration: config.metrics.by_integration,
    streamsOf(key) {
      const provider = providers.find(key)
      return provider === null ? [] : streamsOf(provider).filter((name) => name !== null)
    },
  })
  const providerOf = async (id: number): Promise<string> => (await subjectOf(framework, id)).provider
  const promiseOf = (inbox: PumpedQueue) =>
    new InboxPromise(() => readPromise(connections.main.db, tables, { prefix: config.cache_prefix, inbox }))
  checkHandledBy(options.handledBy ?? {})
  const framework: Framework = {
    config,
    baseUrl,
    db: connections.main.db,
    modelDb: connections.models.db,
    callDb: connections.calls.db,
    arrivalDb: connections.arrivals.db,
    tables,
    cache: postgresCache(connections.main.db, tables, config.cache_prefix, options.clock),
    encryption,
    egress: createEgress(options.egress),
    providers,
    models: new Map(Object.entries(options.models ?? {})),
    listeners,
    handledBy: options.handledBy ?? {},
    workflows: temporalStarters(temporal, config, logger, metrics, {
      providerOf,
      promises: { [WEBHOOK_INBOX]: promiseOf(WEBHOOK_INBOX), [EVENT_OUTBOX]: promiseOf(EVENT_OUTBOX) },
    }),
    temporal: temporalInspection(
      temporal,
      config,
      { ...temporalAddress(temporalOptions), certificateEndsAt: certificateEnd(temporalOptions.tls) },
      needs,
      process.env.NODE_ENV !== 'production' && !temporalOptions.tls && temporalOptions.apiKey === undefined,
    ),
    request: performRequest,
    clock: options.clock ?? systemClock,
    logger,
    metrics,
    integrationsChanged: new Map(),
  }
  const target = {
    sql: connections.main.sql,
    tablePrefix: config.table_prefix,
    logger,
    ...(options.schema === undefined ? {} : { schema: options.schema }),
  }

  const access = { ...createAccess(framework, dev), baseUrl, dev, middleware: options.middleware ?? {} }

  /** Not among the problems above: providers may be registered after this. */
  const checkNames = (): void => {
    const unknown = unknownProviders(
      config,
      framework.handledBy,
      providers.entries().map(([key]) => key),
    )
    if (unknown.length > 0) throw new InvalidConfiguration(unknown)
  }
  const integrations: Integrations = {
    config,
    create: (integration) => createIntegration(framework, integration),
    find: (id) => findIntegrationById(framework, id),
    get: (id) => getIntegration(framework, id),
    list: (filter) => listIntegrations(framework, filter),
    update: (id, patch) => updateIntegrationRow(framework, id, patch),
    delete: (id, deletion) => deleteIntegration(framework, id, deletion),
    erase: (id, erasure) => eraseIntegration(framework, id, erasure),
    enable: async (id) => enableIntegration(framework, await getIntegration(framework, id)),
    disable: (id) => disableIntegration(framework, id),
    register,
    on: (key: EventKey, listener: Listener, listenerOptions?: ListenerOptions) =>
      listeners.on(key, listener, listenerOptions),
    off: (key, listener) => listeners.off(key, listener),
    webhooks: {
      receive: (delivery) => receiveDelivery(framework, delivery),
      // An API process does this at its start: what the first wake-up needs is loaded before a delivery could wait for it.
      wakePending: (options) => {
        temporal()
        return wakePendingInbox(framework, options)
      },
      list: (filter) => listWebhooks(framework, filter),
      get: (id) => getWebhook(framework, id),
      replay: (id) => replayWebhook(framework, id),
      startReplay: (id) => startReplay(framework, id, workflowId.processWebhook(config.cache_prefix, id)),
      previewReplay: (filter) => previewReplays(framework, filter),
      replayMany: (filter, options) => replayWebhooks(framework, filter, options),
      dismiss: (id, dismissal) => dismissWebhook(framework, id, dismissal),
      previewDismissal: (filter, dismissal) => previewDismissals(framework, filter, dismissal),
      dismissMany: (filter, dismissal) => dismissWebhooks(framework, filter, dismissal),
      recover: () => framework.workflows.runRecovery(),
      reconcile: (input) => reconcileNow(framework, input),
      rotateSecret: (id, rotation) => rotateWebhookSecret(framework, id, rotation),
      subscription: (id) => showSubscription(framework, id),
      register: (id) => registerSubscription(framework, id),
      checkSubscription: (id) => checkSubscription(framework, id),
      unregister: (id) => removeSubscription(framework, id),
      expectHandshake: (id, options) => expectHandshake(framework, id, options),
    },
    syncs: {
      start: (integrationId, ask) => startSyncNow(framework, integrationId, ask),
      dispatch: () => framework.workflows.runDispatch(),
      pause: (integrationId, of) => pauseSync(framework, integrationId, of),
      resume: (integrationId, of) => resumeSync(framework, integrationId, of),
      cancel: (integrationId, options) => cancelSyncNow(framework, integrationId, options),
      progress: (integrationId, of) => progressOfSync(framework, integrationId, of),
      setCursor: (integrationId, cursor, change) => setSyncCursor(framework, integrationId, cursor, change),
      setInterval: (integrationId, seconds, of) => setStreamInterval(framework, integrationId, seconds, of),
      advanceCursor: (input) => advanceCursor(framework, input),
      backfill: (input) => startBackfill(framework, input),
      sample: (integrationId, sampling) => sampleSync(framework, integrationId, sampling),
      runs: (filter) => listSyncRuns(framework, filter),
      run: (syncLogId) => getSyncRun(framework, syncLogId),
      finalise: (syncLogId) => finaliseOneRun(framework, syncLogId),
      confirmMissing: (syncLogId, confirmation) => confirmMissing(framework, syncLogId, confirmation),
    },
    oauth: {
      link: (id, link) => oauthLink(framework, access, id, link),
      start: (id) => startAuthorization(framework, access, id),
      begin: (id, place) => beginAuthorization(framework, place, id),
      complete: (callback) => completeAuthorization(framework, callback),
      revoke: (id, revocation) => revokeAuthorization(framework, id, revocation),
      status: (id) => oauthStatus(framework, id),
      refresh: (input) => framework.workflows.runTokenRefresh(input ?? {}),
    },
    transaction: (work) => runInTransaction(framework, work),
    trackTransactions,
    migrate: () => migrate(target),
    async ready() {
      checkNames()
      await checkConnection(connections.main)
      await assertMigrated(target)
      await verifyKeys(framework)
    },
    async close() {
      await Promise.all([storeTokensUnderWay(framework), client === undefined ? null : framework.workflows.close()])
      await closeBudgets(framework)
      await Promise.all([framework.egress.close(), connections.close()])
    },
    admin: createAdmin(framework, {
      access,
      connection: connections.main,
      standing: connections.standing.db,
      target,
      loaded,
      metrics,
      checkNames,
    }),
  }
  PARTS.set(integrations, {
    framework,
    temporal: temporalOptions,
    client: temporal,
    needs,
    providerOf,
    reportModels: () => reportUnfitModels(framework),
  })
  return integrations
}

/** What a worker needs beyond the public object. */
export interface Parts {
  readonly framework: Framework
  readonly temporal: TemporalOptions
  readonly client: () => Client
  readonly needs: ScheduleNeeds
  /** For log lines; never rejects. */
  readonly providerOf: (integrationId: number) => Promise<string>
  /** Says in the log which of the host's models do not fit their tables. */
  readonly reportModels: () => Promise<void>
}

const PARTS = new WeakMap<Integrations, Parts>()

/** For worker.ts: the object's inside. Not exported from the package. */
export function partsOf(integrations: Integrations): Parts {
  const parts = PARTS.get(integrations)
  if (parts === undefined) throw new TypeError('expected an object made by createIntegrations() of this very package')
  return parts
}

/** Lines of JSON at LOG_LEVEL (default `info`) to LOG_STREAM: `stdout`, the default, or `stderr`. */
function defaultLogger(level: string): Logger {
  const fd = process.env.LOG_STREAM === 'stderr' ? process.stderr.fd : process.stdout.fd
  return pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime, mixin: () => ({ ...traceFields() }) },
    pino.destination({ fd, sync: true }),
  )
}

/** Empty for what is not an object: the options' check has reported it. */
function namesAndValues(given: unknown): Record<string, unknown> {
  return isRecord(given) ? given : {}
}
