/** The only caller of `client.workflow`: starts and signals workflows for operations and activities. */
import type {
  Client,
  Workflow,
  WorkflowHandle,
  WorkflowHandleWithFirstExecutionRunId,
  WorkflowResultType,
  WorkflowSignalWithStartOptions,
  WorkflowStartOptions,
} from '@temporalio/client'
import type { PumpedQueue } from '../claims/pump-jobs.ts'
import { EVENT_OUTBOX, WEBHOOK_INBOX } from '../claims/pump-jobs.ts'
import type { Config } from '../config/schema.ts'
import type { ItemOwner, WorkflowStarters } from '../framework/context.ts'
import type { BackendUnreachable } from '../framework/errors.ts'
import { isIntegrationsError, NonRetryable, NoWorkerAnswered, WorkflowFailed } from '../framework/errors.ts'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import { untilAborted } from '../framework/waiting.ts'
import type { EvaluateFailuresResult, FollowIncidentInput } from '../incidents/incident-jobs.ts'
import type { RefreshTokensResult } from '../oauth/oauth-jobs.ts'
import type { Metrics } from '../observability/metrics.ts'
import { UNKNOWN_PROVIDER } from '../observability/metrics.ts'
import type { PruneResult } from '../retention/rules.ts'
import type { KeepSubscriptionInput } from '../subscriptions/subscription-jobs.ts'
import type {
  DispatchResult,
  ProcessSyncItemInput,
  ProcessSyncItemResult,
  SyncBegan,
  SyncInput,
  SyncOf,
  SyncProgress,
} from '../syncs/sync-jobs.ts'
import type {
  ProcessWebhookInput,
  ProcessWebhookResult,
  ReconcileWebhooksInput,
  ReconcileWebhooksResult,
  RecoverWebhooksResult,
} from '../webhooks/webhook-jobs.ts'
import { QUERY, SIGNAL, taskQueue, WORKFLOW, workflowId } from '../workflows/ids.ts'
import type { PumpedQueueInput } from '../workflows/messages.ts'
import { closeClient, sdk, temporalUnreachable } from './connection.ts'
import type { WorksFor } from './label-rules.ts'
import type { StartLabels } from './search-attributes.ts'
import { withSearchAttributes } from './search-attributes.ts'
import { WakeUps } from './wake-ups.ts'
import { wedgedLooks } from './wedged.ts'
import type { SharedName } from './workflow-starts.ts'
import { sharedStart, startTexts } from './workflow-starts.ts'

/** How long a question may wait for Temporal's answer. */
const ANSWER_TIMEOUT_MS = 5_000
/** A run gives its running items 30 s first; a dead worker's activities are given up after 20 s (activity-options.ts). */
const CANCEL_TIMEOUT_MS = 45_000
/** How long a wake-up that is under way at the end is waited for. */
const LAST_WAKE_MS = 2_000
/** What a workflow's failure says: with the command that mends it at its end. */
const MAX_WORDS = 2_000
const GRPC_INVALID_ARGUMENT = 3 // https://grpc.io/docs/guides/status-codes/

const UNPROMISED = { unless: (wake: () => void) => wake() }

export interface StarterOptions {
  readonly cancelTimeoutMs?: number
  /** For log lines; never rejects. */
  readonly providerOf?: (integrationId: number) => Promise<string>
  /** Calls `wake` unless those pumps have promised to look. Default: calls it. */
  readonly promises?: Readonly<Record<PumpedQueue, { unless(wake: () => void): void }>>
}

/**
 * @param client made when first asked for: a process without Temporal (a CLI that only reads) never connects
 */
export function temporalStarters(
  client: () => Client,
  config: Config,
  logger: Logger,
  metrics: Pick<Metrics, 'wakeUpFailed' | 'workflowReplaced'>,
  {
    cancelTimeoutMs = CANCEL_TIMEOUT_MS,
    providerOf = async () => UNKNOWN_PROVIDER,
    promises = { [WEBHOOK_INBOX]: UNPROMISED, [EVENT_OUTBOX]: UNPROMISED },
  }: StarterOptions = {},
): WorkflowStarters {
  const prefix = config.cache_prefix
  const lookForWedged = wedgedLooks(config)
  const syncHandle = (of: SyncOf) => client().workflow.getHandle(workflowId.syncIntegration(prefix, of))
  const backfillHandle = (of: SyncOf) => client().workflow.getHandle(workflowId.backfillSync(prefix, of))
  const webhookQueue = taskQueue(prefix, config.webhook.queue)
  const syncQueueOf = (provider: string) => taskQueue(prefix, config.sync.queues[provider] ?? config.sync.queue)
  const syncStart = (of: SyncOf, provider: string) => ({
    workflowId: workflowId.syncIntegration(prefix, of),
    taskQueue: syncQueueOf(provider),
    ...startTexts.syncIntegration(of, provider),
  })
  const pumped = {
    [WEBHOOK_INBOX]: sharedStart(config, 'webhookInbox'),
    [EVENT_OUTBOX]: sharedStart(config, 'eventOutbox'),
  } as const
  const ended = async (handle: WorkflowHandle, { integrationId }: SyncOf, what: string): Promise<void> => {
    if (!(await isRunning(client(), handle))) return
    await unlessGone(answered(client(), () => handle.cancel()))
    if (await isOverWithin(client(), handle, cancelTimeoutMs)) return
    // No worker is there, or one does not listen. It has been asked, and what it would do next is not wanted any more.
    const reason = `cancelled; it did not end within ${cancelTimeoutMs} ms`
    await unlessGone(answered(client(), () => handle.terminate(reason)))
    // Not awaited: the caller does not wait for a word in a log line.
    void providerOf(integrationId).then((provider) =>
      logger.warn(
        { event: 'sync.terminated', integration: integrationId, provider },
        `a ${what} was ${reason}: terminated`,
      ),
    )
  }
  const worksFor = async (integrationId: number): Promise<WorksFor> => {
    const provider = await providerOf(integrationId)
    return { integrationId, provider: provider === UNKNOWN_PROVIDER ? null : provider }
  }

  const signalPumped = (asked: Client, queue: PumpedQueue, signal: string, signalArgs: unknown[]) => {
    const { workflow, texts, ...start } = pumped[queue]
    const args = [{} satisfies PumpedQueueInput]
    return asked.workflow.signalWithStart(workflow, { ...start, args, ...texts, signal, signalArgs })
  }
  const pumpWakeUps = (queue: PumpedQueue, warn: (retryInMs: number, error: string) => void): WakeUps =>
    new WakeUps({
      send(_, aborted) {
        const asked = client()
        return asked.withAbortSignal(aborted, () =>
          withAnswerLimit(asked, () => signalPumped(asked, queue, SIGNAL.arrived, [])),
        )
      },
      onFailure(_, error, waitMs) {
        metrics.wakeUpFailed()
        warn(waitMs, errorLine(error, 300))
      },
    })
  const inbox = pumpWakeUps(WEBHOOK_INBOX, (waitMs, error) =>
    logger.warn(
      { event: 'inbox.wake_failed', retry_in_ms: waitMs, error },
      'the inbox could not be woken; the rows are stored, it is tried again',
    ),
  )
  const outbox = pumpWakeUps(EVENT_OUTBOX, (waitMs, error) =>
    logger.warn(
      { event: 'outbox.wake_failed', retry_in_ms: waitMs, error },
      'the outbox could not be woken; the rows are stored, it is tried again',
    ),
  )
  /** Asks the workflow of an integration to look at its row: a signal with start. */
  const follower = (
    workflow: string,
    startOf: (works: WorksFor) => WorkflowSignalWithStartOptions,
    warn: (whose: { integration: number; provider: string }, fields: object) => void,
  ): WakeUps =>
    new WakeUps({
      async send(integrationId, aborted) {
        const asked = client()
        const works = await worksFor(integrationId)
        const send = (labels: StartLabels) => asked.workflow.signalWithStart(workflow, { ...startOf(works), ...labels })
        return asked.withAbortSignal(aborted, () =>
          withAnswerLimit(asked, () => withSearchAttributes(asked, works, send)),
        )
      },
      onFailure(integrationId, error, waitMs) {
        metrics.wakeUpFailed()
        const fields = { retry_in_ms: waitMs, error: errorLine(error, 300) }
        void providerOf(integrationId).then((provider) => warn({ integration: integrationId, provider }, fields))
      },
    })
  const incidents = (signal: string) =>
    follower(
      WORKFLOW.incident,
      ({ integrationId }) => ({
        workflowId: workflowId.incident(prefix, integrationId),
        taskQueue: taskQueue(prefix, config.sync.queue),
        args: [{ integrationId } satisfies FollowIncidentInput],
        signal,
        ...startTexts.incident(integrationId),
      }),
      ({ integration, provider }, fields) =>
        logger.warn(
          { event: 'incident.wake_failed', integration, provider, ...fields },
          'the workflow of an incident could not be signalled; the row is stored, it is tried again',
        ),
    )
  const followers = { escalate: incidents(SIGNAL.escalate), recovered: incidents(SIGNAL.recovered) }
  const subscriptions = follower(
    WORKFLOW.webhookSubscription,
    ({ integrationId, provider }) => ({
      workflowId: workflowId.webhookSubscription(prefix, integrationId),
      taskQueue: webhookQueue,
      args: [{ integrationId } satisfies KeepSubscriptionInput],
      signal: SIGNAL.look,
      ...startTexts.webhookSubscription(integrationId, provider ?? UNKNOWN_PROVIDER),
    }),
    ({ integration, provider }, fields) =>
      logger.warn(
        { event: 'webhook.subscription_wake_failed', integration, provider, ...fields },
        'the workflow of a webhook subscription could not be signalled; the row is stored, it is tried again',
      ),
  )

  const startWebhookJob = async (input: ProcessWebhookInput, integrationId: number) =>
    startOnce<(input: ProcessWebhookInput) => Promise<ProcessWebhookResult>>(
      client(),
      WORKFLOW.processWebhook,
      {
        workflowId: workflowId.processWebhook(prefix, input.webhookId),
        taskQueue: webhookQueue,
        args: [input],
        ...startTexts.processWebhook(input.webhookId, input.replay === true),
      },
      await worksFor(integrationId),
    )

  const startItemJob = (input: ProcessSyncItemInput, owner: ItemOwner) =>
    startOnce<(input: ProcessSyncItemInput) => Promise<ProcessSyncItemResult>>(
      client(),
      WORKFLOW.processSyncItem,
      {
        workflowId: workflowId.processSyncItem(prefix, input.itemId),
        taskQueue: syncQueueOf(owner.provider),
        args: [input],
        ...startTexts.processSyncItem(input.itemId, owner.provider),
      },
      owner,
    )

  /** A caller that comes later waits for the run that there is: it takes up all that is due. */
  const joined = async <R>(name: SharedName, input?: { readonly integrationId?: number }): Promise<R> => {
    const asked = client()
    const { workflow, texts, ...start } = sharedStart(config, name, input?.integrationId)
    const options = {
      ...start,
      args: input === undefined ? [] : [input],
      workflowIdConflictPolicy: 'USE_EXISTING',
      ...texts,
    } as const
    const run = await answered(asked, () => asked.workflow.start<(...args: unknown[]) => Promise<R>>(workflow, options))
    return resultOf(asked, run)
  }

  return {
    wakeInbox: () => promises[WEBHOOK_INBOX].unless(() => inbox.wake(0)),

    async callPump(queue, call) {
      const asked = client()
      await answered(asked, () => signalPumped(asked, queue, SIGNAL.pumpCalls, [call]))
    },

    async startSync(integrationId, provider, only = {}) {
      const input: SyncInput = { integrationId, ...only }
      const start = { ...syncStart(input, provider), args: [input] }
      const run = await startOnce(client(), WORKFLOW.syncIntegration, start, { integrationId, provider })
      return run === null ? 'already running' : { runId: run.firstExecutionRunId }
    },

    async startHandler(handler, input, replayAttempt) {
      // Null: the attempt before this one started it, and died before it could say so.
      await startOnce(client(), handler.workflow, {
        workflowId: workflowId.webhookHandler(prefix, input.webhookId, replayAttempt),
        taskQueue: handler.taskQueue ?? webhookQueue,
        args: [input],
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
      })
    },

    async runHandler({ workflow, taskQueue: queue, id, input, timeoutSeconds }, signal) {
      const asked = client()
      const options = {
        workflowId: workflowId.rowHandler(prefix, id),
        taskQueue: queue,
        args: [input],
        workflowExecutionTimeout: timeoutSeconds * 1_000,
        workflowIdConflictPolicy: 'USE_EXISTING',
        workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
      } as const
      // Null: it has succeeded, and the attempt before this one died before it could say so.
      const started = await startOnce(asked, workflow, options)
      const handle: WorkflowHandle = started ?? asked.workflow.getHandle(options.workflowId)
      try {
        return await untilAborted(resultOf(asked, handle), signal)
      } catch (error) {
        if (isFinal(error)) throw new NonRetryable((error as Error).message, { cause: error })
        throw error
      }
    },

    async startProcessWebhook(input, integrationId) {
      return outcomeOf(await startWebhookJob(input, integrationId))
    },

    async runProcessWebhook(input, integrationId) {
      return resultIfStarted(client(), await startWebhookJob(input, integrationId))
    },

    async replaceWedged(told) {
      const asked = client()
      for (const { id, runId, type, attempts, queue } of await answered(asked, () => lookForWedged(asked))) {
        if (type === 'backfillSync') continue
        const reason =
          queue === null
            ? `its task failed ${attempts} times`
            : `no worker polls its task queue ${queue}, and the configuration does not name it`
        // This run alone: another caller may have ended it meanwhile, and a new run may have begun.
        const ended = answered(asked, () => asked.workflow.getHandle(id, runId).terminate(reason))
        if ((await unlessGone(ended)) === null) continue
        metrics.workflowReplaced(type)
        logger.error(
          { event: 'workflow.replaced', workflow: id, run_id: runId, attempts, reason },
          'a workflow did not go on; it was terminated, and another one goes on with its rows',
        )
        told({ workflow: id, attempts, ...(queue === null ? {} : { queue }) })
        if (type === WORKFLOW.webhookInbox) inbox.wake(0)
        if (type === WORKFLOW.eventOutbox) outbox.wake(0)
        // Its id ends with the integration's.
        if (type === WORKFLOW.webhookSubscription) subscriptions.wake(Number(id.split(':').at(-1)))
        if (type === WORKFLOW.incident) followers.escalate.wake(Number(id.split(':').at(-1)))
      }
    },

    runRecovery: () => joined<RecoverWebhooksResult>('recoverWebhooks'),

    async runReconciliation(input) {
      const { workflow, texts, ...start } = sharedStart(config, 'reconcileWebhooks', input.integrationId)
      const run = await startOnce<(input: ReconcileWebhooksInput) => Promise<ReconcileWebhooksResult>>(
        client(),
        workflow,
        { ...start, args: [input], ...texts },
      )
      return resultIfStarted(client(), run)
    },

    runDispatch: () => joined<DispatchResult>('dispatchSyncs'),

    runTokenRefresh: (input) => joined<RefreshTokensResult>('refreshTokens', input),

    wakeOutbox: () => promises[EVENT_OUTBOX].unless(() => outbox.wake(0)),

    followIncident: (integrationId, change) => followers[change].wake(integrationId),

    keepWebhookSubscription: (integrationId) => subscriptions.wake(integrationId),

    runEvaluateFailures: () => joined<EvaluateFailuresResult>('evaluateFailures'),

    runPrune: () => joined<PruneResult>('prune'),

    async pauseSync({ integrationId, stream }, provider) {
      const asked = client()
      const input: SyncInput = { integrationId, ...(stream == null ? {} : { stream }) }
      await answered(asked, () =>
        withSearchAttributes(asked, { integrationId, provider }, (labels) =>
          asked.workflow.signalWithStart(WORKFLOW.syncIntegration, {
            ...syncStart(input, provider),
            ...labels,
            args: [input],
            signal: SIGNAL.pause,
            signalArgs: [],
          }),
        ),
      )
    },

    async resumeSync(of) {
      return isReached(answered(client(), () => syncHandle(of).signal(SIGNAL.resume)))
    },

    async syncProgress(of) {
      const handle = syncHandle(of)
      if (!(await isRunning(client(), handle))) return null
      try {
        return await unlessGone(answered(client(), () => handle.query<SyncProgress>(QUERY.progress)))
      } catch (error) {
        if (!isIntegrationsError(error, 'backend_unreachable')) throw error
        // A worker answers the query, Temporal itself what comes now: throws if Temporal is away.
        if (!(await isRunning(client(), handle))) return null
        throw new NoWorkerAnswered(handle.workflowId, ANSWER_TIMEOUT_MS / 1_000, { cause: error })
      }
    },

    async tellSyncBegan(of, began) {
      await unlessGone(answered(client(), () => syncHandle(of).signal<[SyncBegan]>(SIGNAL.began, began)))
    },

    async nudgeSync(of) {
      await unlessGone(answered(client(), () => syncHandle(of).signal(SIGNAL.itemsChanged)))
    },

    async startProcessSyncItem(input, owner) {
      return outcomeOf(await startItemJob(input, owner))
    },

    async runProcessSyncItem(input, owner) {
      return resultIfStarted(client(), await startItemJob(input, owner))
    },

    async tryItemNow({ itemId, ...of }, waitsIn) {
      const ids = {
        run: workflowId.syncIntegration(prefix, of),
        backfill: workflowId.backfillSync(prefix, of),
        retry: workflowId.processSyncItem(prefix, itemId),
      }
      const handle = client().workflow.getHandle(ids[waitsIn])
      return isReached(answered(client(), () => handle.signal(SIGNAL.retryItem, { itemId })))
    },

    isSyncItemRunning: (itemId) =>
      isRunning(client(), client().workflow.getHandle(workflowId.processSyncItem(prefix, itemId))),

    async startBackfill(input, provider) {
      const { integrationId } = input
      const start = {
        workflowId: workflowId.backfillSync(prefix, input),
        taskQueue: syncQueueOf(provider),
        args: [input],
        ...startTexts.backfillSync(input, provider),
      }
      return outcomeOf(await startOnce(client(), WORKFLOW.backfillSync, start, { integrationId, provider }))
    },

    isSyncRunning: (of) => isRunning(client(), syncHandle(of)),

    cancelSync: (of) => ended(syncHandle(of), of, 'sync run'),

    isBackfillRunning: (of) => isRunning(client(), backfillHandle(of)),

    cancelBackfill: (of) => ended(backfillHandle(of), of, 'backfill'),

    async close() {
      // A command that ends right after its wake-up was asked for must not take it along.
      await Promise.all(
        [inbox, outbox, subscriptions, followers.escalate, followers.recovered].map((wakeUps) =>
          wakeUps.stop(LAST_WAKE_MS),
        ),
      )
      await closeClient(client())
    },
  }
}

async function isRunning(client: Client, handle: WorkflowHandle): Promise<boolean> {
  const description = await unlessGone(answered(client, () => handle.describe()))
  return description?.status.name === 'RUNNING'
}

/** Waits for the end of a workflow, whichever it is; a run that goes on in a new history is the same one. */
async function isOverWithin(client: Client, handle: WorkflowHandle, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs
  try {
    await unlessGone(client.withDeadline(deadline, () => handle.result()))
    return true
  } catch (error) {
    if (error instanceof sdk().WorkflowFailedError) return true
    // Whichever side sees the end of the time first: the server cancels what it is asked for too long.
    const isOverTime = sdk().isGrpcCancelledError(error) && Date.now() >= deadline
    if (sdk().isGrpcDeadlineError(error) || isOverTime) return false
    throw unreachable(client, error)
  }
}

/** Null for a workflow that is not there, or has ended meanwhile. */
async function unlessGone<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof sdk().WorkflowNotFoundError) return null
    throw error
  }
}

/** Whether the signal has reached a workflow: one that is gone takes none. */
async function isReached(signalled: Promise<void>): Promise<boolean> {
  return (await unlessGone(signalled.then(() => true))) ?? false
}

function outcomeOf(started: WorkflowHandle | null): 'started' | 'already running' {
  return started === null ? 'already running' : 'started'
}

/** Starts a workflow. Null: one of its id lives, or, with `REJECT_DUPLICATE`, has lived. @throws BackendUnreachable */
async function startOnce<T extends Workflow>(
  client: Client,
  workflow: string,
  options: WorkflowStartOptions<T>,
  worksFor: WorksFor | null = null,
): Promise<WorkflowHandleWithFirstExecutionRunId<T> | null> {
  const start = (labels: StartLabels): Promise<WorkflowHandleWithFirstExecutionRunId<T>> =>
    client.workflow.start<T>(workflow, { workflowIdConflictPolicy: 'FAIL', ...options, ...labels })
  try {
    return await answered(client, () => (worksFor === null ? start({}) : withSearchAttributes(client, worksFor, start)))
  } catch (error) {
    if (error instanceof sdk().WorkflowExecutionAlreadyStartedError) return null
    throw error
  }
}

/** Waits for a workflow's end, however long that takes. @throws BackendUnreachable; an error with what it ended with */
async function resultOf<T extends Workflow>(client: Client, handle: WorkflowHandle<T>): Promise<WorkflowResultType<T>> {
  try {
    return await handle.result()
  } catch (error) {
    if (!(error instanceof sdk().WorkflowFailedError)) throw unreachable(client, error)
    throw new WorkflowFailed(handle.workflowId, typeOf(error), wordsOf(error), { cause: error })
  }
}

async function resultIfStarted<T extends Workflow>(client: Client, started: WorkflowHandle<T> | null) {
  return started === null ? 'already running' : resultOf(client, started)
}

/** The outermost text of our own code, which names the remedy; without one the innermost error, which names the cause. */
function wordsOf(error: Error): string {
  if (error instanceof sdk().ApplicationFailure) return error.message.slice(0, MAX_WORDS)
  return error.cause instanceof Error ? wordsOf(error.cause) : errorLine(error, MAX_WORDS)
}

/** Of the failure whose words are shown. */
function typeOf(error: Error): string | null {
  if (error instanceof sdk().ApplicationFailure) return error.type ?? null
  return error.cause instanceof Error ? typeOf(error.cause) : null
}

/** Whether the workflow, or an activity that it failed with, says that another attempt is of no use. */
function isFinal(error: unknown): boolean {
  if (error instanceof sdk().ApplicationFailure) return error.nonRetryable === true
  return error instanceof Error && error.cause !== undefined && isFinal(error.cause)
}

/** What Temporal answers to one question; its own refusals pass as they are. @throws BackendUnreachable */
async function answered<T>(client: Client, ask: () => Promise<T>): Promise<T> {
  try {
    return await withAnswerLimit(client, ask)
  } catch (error) {
    if (isRefusal(error)) throw error
    throw unreachable(client, error)
  }
}

/** A call that hangs on a connection of the time before an outage ends, and the next one takes a new connection. */
function withAnswerLimit<T>(client: Client, ask: () => Promise<T>): Promise<T> {
  return client.withDeadline(Date.now() + ANSWER_TIMEOUT_MS, ask)
}

/** Temporal has answered, and the same question would get the same answer. */
function isRefusal(error: unknown): boolean {
  if (error instanceof sdk().WorkflowExecutionAlreadyStartedError) return true
  if (error instanceof sdk().WorkflowNotFoundError) return true
  return (error as { cause?: { code?: unknown } }).cause?.code === GRPC_INVALID_ARGUMENT
}

function unreachable({ connection, options }: Client, error: unknown): BackendUnreachable {
  const address = connection instanceof sdk().Connection ? connection.options.address : 'its address'
  return temporalUnreachable({ address, namespace: options.namespace }, error)
}
