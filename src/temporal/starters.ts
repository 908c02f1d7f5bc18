/** Starts, signals and queries workflows for operations and activities. What wakes them is in wakers.ts. */
import type {
  Client,
  Workflow,
  WorkflowHandle,
  WorkflowHandleWithFirstExecutionRunId,
  WorkflowResultType,
  WorkflowStartOptions,
} from '@temporalio/client'
import type { PumpedQueue } from '../claims/pump-jobs.ts'
import { EVENT_OUTBOX, WEBHOOK_INBOX } from '../claims/pump-jobs.ts'
import type { Config } from '../config/schema.ts'
import type { ItemOwner, WorkflowStarters } from '../framework/context.ts'
import { isIntegrationsError, NonRetryable, NoWorkerAnswered, WorkflowFailed } from '../framework/errors.ts'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import { untilAborted } from '../framework/waiting.ts'
import type { EvaluateFailuresResult } from '../incidents/incident-jobs.ts'
import type { RefreshTokensResult } from '../oauth/oauth-jobs.ts'
import type { Metrics } from '../observability/metrics.ts'
import { UNKNOWN_PROVIDER } from '../observability/metrics.ts'
import type { PruneResult } from '../retention/rules.ts'
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
import { closeClient, sdk } from './connection.ts'
import type { WorksFor } from './label-rules.ts'
import { ANSWER_TIMEOUT_MS, answered, unlessGone, unreachable } from './questions.ts'
import type { StartLabels } from './search-attributes.ts'
import { withSearchAttributes } from './search-attributes.ts'
import { signalPumped, wakersOf } from './wakers.ts'
import { wedgedLooks } from './wedged.ts'
import type { SharedName } from './workflow-starts.ts'
import { sharedStart, startTexts } from './workflow-starts.ts'

/** A run gives its running items 30 s first; a dead worker's activities are given up after 20 s (activity-options.ts). */
const CANCEL_TIMEOUT_MS = 45_000
/** What a workflow's failure says: with the command that mends it at its end. */
const MAX_WORDS = 2_000

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
  const wakers = wakersOf({ client, config, logger, metrics, providerOf, worksFor })

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
    wakeInbox: () => promises[WEBHOOK_INBOX].unless(() => wakers.inbox.wake(0)),

    async callPump(queue, call) {
      const asked = client()
      await answered(asked, () => signalPumped(asked, config, queue, SIGNAL.pumpCalls, [call]))
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
        if (type === WORKFLOW.webhookInbox) wakers.inbox.wake(0)
        if (type === WORKFLOW.eventOutbox) wakers.outbox.wake(0)
        // Its id ends with the integration's.
        if (type === WORKFLOW.webhookSubscription) wakers.subscriptions.wake(Number(id.split(':').at(-1)))
        if (type === WORKFLOW.incident) wakers.incidents.escalate.wake(Number(id.split(':').at(-1)))
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

    wakeOutbox: () => promises[EVENT_OUTBOX].unless(() => wakers.outbox.wake(0)),

    followIncident: (integrationId, change) => wakers.incidents[change].wake(integrationId),

    keepWebhookSubscription: (integrationId) => wakers.subscriptions.wake(integrationId),

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
      await wakers.stop()
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
