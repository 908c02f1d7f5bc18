/**
 * What every operation and activity works with: its first argument. Made once by `createIntegrations()`.
 */
import type { z } from 'zod'
import type { CacheStore } from '../cache/store.ts'
import type { PumpCall, PumpedQueue } from '../claims/pump-jobs.ts'
import type { Config } from '../config/schema.ts'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Egress } from '../egress/guarded-fetch.ts'
import type { Encryption } from '../encryption.ts'
import type { RequestRecord } from '../events/events.ts'
import type { Listeners } from '../events/listeners.ts'
import type { HandledBy } from '../forwarding/target.ts'
import type { EvaluateFailuresResult } from '../incidents/incident-jobs.ts'
import type { RefreshTokensInput, RefreshTokensResult } from '../oauth/oauth-jobs.ts'
import type { Metrics, ReplaceableWorkflow } from '../observability/metrics.ts'
import type { Call, Credentials, Integration, RequestOptions } from '../providers/integration.ts'
import type { MappedModel } from '../providers/mapped-model.ts'
import type { ProviderRegistry } from '../providers/registry.ts'
import type { PruneResult } from '../retention/rules.ts'
import type {
  BackfillInput,
  DispatchResult,
  ProcessSyncItemInput,
  ProcessSyncItemResult,
  SyncBegan,
  SyncInput,
  SyncOf,
  SyncProgress,
} from '../syncs/sync-jobs.ts'
import type { AppliedSearchAttributes, SearchAttributeState } from '../temporal/label-rules.ts'
import type {
  ProcessWebhookInput,
  ProcessWebhookResult,
  ReconcileWebhooksInput,
  ReconcileWebhooksResult,
  RecoverWebhooksResult,
  ReplacedWorkflow,
} from '../webhooks/webhook-jobs.ts'
import type { Json } from './json.ts'
import type { Clock, Logger } from './logger.ts'

/** A row's run of a host's own workflow. */
export interface HandlerRun {
  readonly workflow: string
  readonly taskQueue: string
  /** Of the row; the same for each attempt. */
  readonly id: string
  readonly input: Json
  readonly timeoutSeconds: number
}

/** How operations reach Temporal; the only implementation that talks to a server is temporal/starters.ts. */
export interface WorkflowStarters {
  /**
   * Tells the inbox that webhooks wait for it, unless it has promised to look: rows are committed before this is called. Returns at
   * once and never throws: a wake-up that fails is tried again in the background, and recovery sweeps what is left.
   */
  wakeInbox(): void
  /** A pump asks its workflow for another one. @throws BackendUnreachable */
  callPump(queue: PumpedQueue, call: PumpCall): Promise<void>
  /**
   * Starts a run, on the queue of its provider. Its id is the overlap lock: a second start is refused by the server.
   *
   * @throws BackendUnreachable when Temporal does not answer within 5 s
   */
  startSync(
    integrationId: number,
    provider: string,
    options?: Omit<SyncInput, 'integrationId'>,
  ): Promise<{ readonly runId: string } | 'already running'>
  /**
   * Starts a host's own workflow as the handler of one webhook; a second start does nothing.
   *
   * @param replayAttempt the attempt that began the row's last replay: each replay is a start of its own
   * @throws BackendUnreachable when Temporal does not answer within 5 s
   */
  startHandler(
    handler: { workflow: string; taskQueue?: string },
    input: HandlerInput,
    replayAttempt: number | null,
  ): Promise<void>
  /**
   * Runs a host's own workflow for one row, and waits for its result. One that lives is joined, one that has succeeded is not run
   * again, and one that has failed is.
   *
   * @param signal aborted when its result is not waited for any more
   * @throws NonRetryable when the workflow says so; WorkflowFailed; BackendUnreachable
   */
  runHandler(run: HandlerRun, signal: AbortSignal): Promise<unknown>
  /** Starts the job of one webhook; while one lives, a second start is refused by the server. @throws BackendUnreachable */
  startProcessWebhook(input: ProcessWebhookInput, integrationId: number): Promise<'started' | 'already running'>
  /** Starts the job of one webhook and waits for its end. @throws BackendUnreachable */
  runProcessWebhook(
    input: ProcessWebhookInput,
    integrationId: number,
  ): Promise<ProcessWebhookResult | 'already running'>
  /**
   * Ends workflows that do not go on by themselves; another one goes on with their rows.
   *
   * @param told called for each workflow that this call has ended
   * @throws BackendUnreachable
   */
  replaceWedged(told: (replaced: ReplacedWorkflow) => void): Promise<void>
  /** Starts recovery, or joins the one that runs, and waits for its end. @throws BackendUnreachable */
  runRecovery(): Promise<RecoverWebhooksResult>
  /** Starts reconciliation and waits for its end. @throws BackendUnreachable */
  runReconciliation(input: ReconcileWebhooksInput): Promise<ReconcileWebhooksResult | 'already running'>
  /** Starts what is due and evaluates staleness, or joins the dispatch that runs, and waits for its end. @throws BackendUnreachable */
  runDispatch(): Promise<DispatchResult>
  /** Refreshes tokens, or joins the run that refreshes the same ones, and waits for its end. @throws BackendUnreachable */
  runTokenRefresh(input: RefreshTokensInput): Promise<RefreshTokensResult>
  /** Tells the outbox that events wait for it, as {@link wakeInbox} does the inbox. */
  wakeOutbox(): void
  /** Tells the workflow of an integration's incident that its row has changed. Returns at once and never throws, as {@link wakeInbox}. */
  followIncident(integrationId: number, change: 'escalate' | 'recovered'): void
  /**
   * Has the workflow of an integration's webhook subscription look at it, and starts it where none lives. Returns at once and never
   * throws, as {@link wakeInbox}.
   */
  keepWebhookSubscription(integrationId: number): void
  /** Evaluates the failure rates, or joins the run that does, and waits for its end. @throws BackendUnreachable */
  runEvaluateFailures(): Promise<EvaluateFailuresResult>
  /** Prunes, or joins the run that does, and waits for its end. @throws BackendUnreachable */
  runPrune(): Promise<PruneResult>
  /** Pauses the run; without one it holds the id, so that none starts. @throws BackendUnreachable */
  pauseSync(of: SyncOf, provider: string): Promise<void>
  /** False: no run lives. @throws BackendUnreachable */
  resumeSync(of: SyncOf): Promise<boolean>
  /** Null: no run lives. @throws BackendUnreachable, also when no worker answers */
  /** @throws BackendUnreachable, NoWorkerAnswered */
  syncProgress(of: SyncOf): Promise<SyncProgress | null>
  /** Tells a run whose beginning takes its time how far it is, for its progress. @throws BackendUnreachable */
  tellSyncBegan(of: SyncOf, began: SyncBegan): Promise<void>
  /** Tells a living run that one of its items was changed from outside; does nothing without a run. */
  nudgeSync(of: SyncOf): Promise<void>
  /** Starts the retry of one item; while one lives, a second start is refused by the server. @throws BackendUnreachable */
  startProcessSyncItem(input: ProcessSyncItemInput, owner: ItemOwner): Promise<'started' | 'already running'>
  /** Starts the retry of one item and waits for its end. @throws BackendUnreachable */
  runProcessSyncItem(input: ProcessSyncItemInput, owner: ItemOwner): Promise<ProcessSyncItemResult | 'already running'>
  /**
   * Has an item that waits for another attempt tried now by the workflow that it waits in: of its run, of its backfill, or its
   * retry. False: that one is gone. @throws BackendUnreachable
   */
  tryItemNow(item: SyncOf & { readonly itemId: number }, waitsIn: 'run' | 'backfill' | 'retry'): Promise<boolean>
  /** Whether the retry of this item lives. @throws BackendUnreachable */
  isSyncItemRunning(itemId: number): Promise<boolean>
  /** Its id allows one backfill of a stream at a time. @throws BackendUnreachable */
  startBackfill(input: BackfillInput, provider: string): Promise<'started' | 'already running'>
  /** Whether a run of this stream lives, paused ones too. @throws BackendUnreachable */
  isSyncRunning(of: SyncOf): Promise<boolean>
  /** Ends a living run and waits until it is over; does nothing without a run. @throws BackendUnreachable */
  cancelSync(of: SyncOf): Promise<void>
  /** Whether a backfill of this stream lives. @throws BackendUnreachable */
  isBackfillRunning(of: SyncOf): Promise<boolean>
  /** As {@link cancelSync}, a backfill. @throws BackendUnreachable */
  cancelBackfill(of: SyncOf): Promise<void>
  close(): Promise<void>
}

/** The integration of a sync item. */
export interface ItemOwner {
  readonly integrationId: number
  readonly provider: string
}

/** A workflow that does not go on by itself. */
export interface WedgedWorkflow {
  readonly id: string
  readonly runId: string
  /** A backfill is no replaceable one: a person ends it, and starts another one for the rest of its window. */
  readonly type: ReplaceableWorkflow | 'backfillSync'
  /** How often its task has been tried. */
  readonly attempts: number
  /** Its task queue, if no worker polls it and the configuration does not name it. Null: its task fails again and again. */
  readonly queue: string | null
}

/** A Schedule that we keep, as the server has it. */
export interface ScheduleState {
  readonly name: string
  readonly id: string
  /** `left over`: under our prefix, and the configuration does not ask for it. */
  readonly standing: 'in step' | 'missing' | 'differs' | 'left over'
  /** In words; empty unless it differs. */
  readonly differences: readonly string[]
  /** Paused by an operator. */
  readonly isPaused: boolean
  readonly note: string | null
  readonly lastRunAt: Date | null
  readonly nextRunAt: Date | null
}

/** What can be seen of Temporal from outside; the only implementation is temporal/inspection.ts. */
export interface TemporalInspection {
  readonly address: string
  readonly namespace: string
  /** Until when the client certificate that this process has read is valid; null or not there: it shows none. */
  readonly certificateEndsAt?: Date | null
  /** @throws BackendUnreachable */
  check(): Promise<void>
  /** The Schedules that the configuration asks for, and those of ours that are left over. */
  schedules(): Promise<readonly ScheduleState[]>
  /** The pause of the Schedule that starts due syncs; null: it is not paused, or does not exist. @throws BackendUnreachable */
  dispatchPause(): Promise<Pick<ScheduleState, 'id' | 'note'> | null>
  /** Creates what is missing, updates what differs, removes what the configuration no longer wants. */
  applySchedules(): Promise<readonly ScheduleState[]>
  /** As the namespace has them. @throws BackendUnreachable */
  searchAttributes(): Promise<readonly SearchAttributeState[]>
  /** Registers what is missing; a refusal is part of the answer. @throws BackendUnreachable */
  applySearchAttributes(): Promise<AppliedSearchAttributes>
  /**
   * The task queues of this configuration, each with how it is polled.
   *
   * @param now the moment that the last two minutes are counted back from. @throws BackendUnreachable
   */
  pollers(now: Date): Promise<readonly PolledQueue[]>
  /** Workflows that do not go on by themselves; rows say what is left to do. @throws BackendUnreachable */
  wedged(): Promise<readonly WedgedWorkflow[]>
  /** Whether the inbox of webhooks lives. @throws BackendUnreachable */
  isInboxRunning(): Promise<boolean>
  /** Whether the outbox lives, a waiting one too. @throws BackendUnreachable */
  isOutboxRunning(): Promise<boolean>
  /** Whether the workflow of an integration's incident lives. @throws BackendUnreachable */
  isIncidentFollowed(integrationId: number): Promise<boolean>
  readonly commands: TemporalCommands
}

export interface PolledQueue {
  readonly taskQueue: string
  /** Workers that polled it within two minutes. A killed one is counted until then. */
  readonly workers: number
  /** The worker that polled last, and when; null: none did within five minutes. */
  readonly lastPoll: LastPoll | null
  /** Of workflow tasks or activities, whichever have waited longer; null: none waits, or the server does not say. */
  readonly backlog: {
    readonly tasks: number
    readonly seconds: number
    /** The last poll for tasks of this kind: one after they came would have taken them. */
    readonly lastPoll: LastPoll | null
  } | null
}

export interface LastPoll {
  /** Of a worker; by default `<pid>@<host>`. */
  readonly identity: string
  readonly at: Date
}

/** Lines for the `temporal` command line, ready to be pasted. */
export interface TemporalCommands {
  /** For when `check()` threw this error. */
  reach(error: unknown): string
  wakeInbox(): string
  askInbox(): string
  /** Ends a workflow that does not go on. */
  terminate(workflowId: string): string
  wakeOutbox(): string
  askOutbox(): string
  /** Tells the workflow of an integration's incident to look, and starts it where none lives. */
  followIncident(integrationId: number): string
  askIncident(integrationId: number): string
  /** Ends a Schedule's pause. */
  resume(scheduleId: string): string
  /** Starts what is due, now. */
  dispatchNow(): string
}

/** What a host's workflow gets as its one argument. The payload stays in the row: read it in an activity. */
export interface HandlerInput {
  readonly webhookId: number
  readonly integrationId: number
  readonly eventType: string | null
}

/** What a handle knows of its tokens, and is told when they change. */
export interface TokenHolder {
  readonly integration: Integration
  /** The newest credentials that the handle knows. */
  credentials(): Credentials
  /** The handle goes on with these. */
  adopt(credentials: Credentials): void
}

/** A call as it comes to the door. */
export interface OutboundCall<T> {
  readonly integration: Integration
  /** Those of the handle's snapshot, decrypted when first needed, and those that it was given or had before a refresh: their values are redacted. */
  readonly credentials: () => Credentials
  /** Refreshes a refused token. A call without it is not made again. */
  readonly tokens?: TokenHolder | undefined
  readonly endpoint: string
  readonly method: string
  readonly call: Call<T>
  readonly options: RequestOptions
  /** Given by a call by URL, whose endpoint is the path only: what the cache tells calls apart by. */
  readonly url?: string | undefined
  /** Given by `requestAs()`: the answer must fit. */
  readonly schema?: z.ZodType
  /** Sees each row, to be told which requests belong to a piece of work. */
  readonly observe?: ((request: RequestRecord) => void) | undefined
  /** Told the `Date` of each answer when its headers are there: what the provider's clock says then. */
  readonly observeDate?: ((date: Date) => void) | undefined
}

/** @returns what the call gives, of the type that its caller asked for */
export type RequestDoor = <T>(framework: Framework, outbound: OutboundCall<T>) => Promise<T>

export interface Framework {
  readonly config: Config
  readonly db: Database
  /** For the host's models and their mappings: a host's locked table must not hold up our own statements. */
  readonly modelDb: Database
  /** For the joined statements of outbound calls: few connections, whose caches stay warm, and never behind other work. */
  readonly callDb: Database
  /** For what stores deliveries as they arrive: it fails early enough for an answer that the provider still waits for. */
  readonly arrivalDb: Database
  readonly tables: Tables
  readonly cache: CacheStore
  readonly encryption: Encryption
  readonly egress: Egress
  /** Where providers and people reach the API; null: not configured. */
  readonly baseUrl: string | null
  readonly providers: ProviderRegistry
  readonly models: ReadonlyMap<string, MappedModel>
  readonly listeners: Listeners
  /** Where deliveries and items are handled outside of our worker, by provider. */
  readonly handledBy: HandledBy
  readonly workflows: WorkflowStarters
  readonly temporal: TemporalInspection
  /** The only door to a provider: `performRequest`, or what the testing kit puts in its place. */
  readonly request: RequestDoor
  readonly clock: Clock
  readonly logger: Logger
  /** What this process does is counted here, once it is committed. */
  readonly metrics: Metrics
  /**
   * By provider: what this process keeps of its integrations and read before this moment, by `performance.now()`, is behind a change
   * of its own.
   */
  readonly integrationsChanged: Map<string, number>
  /** A rehearsal handles arrivals as they were judged then: today's record of our writes says something else. */
  readonly isRehearsal?: true
}
