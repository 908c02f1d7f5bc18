/** The only caller of `client.workflow`: starts and signals workflows for operations and activities. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, WorkflowHandle } from '@temporalio/client'
import type { Config } from '../config/schema.ts'
import { BackendUnreachable } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import { errorLine } from '../core/logger.ts'
import type { WorkflowStarters } from '../framework.ts'
import type { InboxInput, SyncInput } from '../workflows/messages.ts'
import { arrived, taskQueue, WORKFLOW, workflowId } from '../workflows/messages.ts'
import { sdk } from './sdk.ts'

/** Wake-ups of one integration are so far apart at least; the inbox takes many rows at once anyway. */
const WAKE_EVERY_MS = 200
/** How long a question may wait for Temporal's answer. */
const ANSWER_TIMEOUT_MS = 5_000
/** A run ends its activities first; a dead worker's are given up after 20 s (activity-options.ts). */
const CANCEL_TIMEOUT_MS = 30_000
/** How long a wake-up that is under way at the end is waited for. */
const LAST_WAKE_MS = 2_000
const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 60_000

/** @param client made when first asked for: a process without Temporal (a CLI that only reads) never connects */
export function temporalStarters(
  client: () => Client,
  config: Config,
  logger: Logger,
  { cancelTimeoutMs = CANCEL_TIMEOUT_MS }: { cancelTimeoutMs?: number } = {},
): WorkflowStarters {
  const prefix = config.cache_prefix
  const syncHandle = (integrationId: number) =>
    client().workflow.getHandle(workflowId.syncIntegration(prefix, integrationId))
  const inboxes = new Map<number, Waker>()

  return {
    wakeInbox(integrationId) {
      let waker = inboxes.get(integrationId)
      if (waker === undefined) {
        waker = new Waker(
          () =>
            client().workflow.signalWithStart(WORKFLOW.webhookInbox, {
              workflowId: workflowId.webhookInbox(prefix, integrationId),
              taskQueue: taskQueue(prefix, config.webhook.queue),
              args: [{ integrationId } satisfies InboxInput],
              signal: arrived,
              signalArgs: [],
            }),
          (error, waitMs) =>
            logger.warn(
              {
                event: 'inbox.wake_failed',
                integration: integrationId,
                retry_in_ms: waitMs,
                error: errorLine(error, 300),
              },
              'an inbox could not be woken; the rows are stored, it is tried again',
            ),
          () => inboxes.delete(integrationId),
        )
        inboxes.set(integrationId, waker)
      }
      waker.wake()
    },

    async startSync(integrationId, provider) {
      const input: SyncInput = { integrationId }
      const start = () =>
        client().workflow.start(WORKFLOW.syncIntegration, {
          workflowId: workflowId.syncIntegration(prefix, integrationId),
          taskQueue: taskQueue(prefix, config.sync.queues[provider] ?? config.sync.queue),
          args: [input],
          workflowIdConflictPolicy: 'FAIL',
        })
      try {
        await answered(client(), start)
        return 'started'
      } catch (error) {
        if (error instanceof sdk().WorkflowExecutionAlreadyStartedError) return 'already running'
        throw error
      }
    },

    async startHandler(handler, input) {
      try {
        await client().workflow.start(handler.workflow, {
          workflowId: workflowId.webhookHandler(prefix, input.webhookId),
          taskQueue: handler.taskQueue ?? taskQueue(prefix, config.webhook.queue),
          args: [input],
          workflowIdReusePolicy: 'REJECT_DUPLICATE',
        })
      } catch (error) {
        // The attempt before this one started it, and died before it could say so.
        if (!(error instanceof sdk().WorkflowExecutionAlreadyStartedError)) throw error
      }
    },

    isSyncRunning: (integrationId) => isRunning(client(), syncHandle(integrationId)),

    async cancelSync(integrationId) {
      const handle = syncHandle(integrationId)
      if (!(await isRunning(client(), handle))) return
      await unlessGone(answered(client(), () => handle.cancel()))
      if (await isOverWithin(client(), handle, cancelTimeoutMs)) return
      // No worker is there, or one does not listen. It has been asked, and what it would do next is not wanted any more.
      const reason = `cancelled; it did not end within ${cancelTimeoutMs} ms`
      await unlessGone(answered(client(), () => handle.terminate(reason)))
      logger.warn({ event: 'sync.terminated', integration: integrationId }, `a sync run was ${reason}: terminated`)
    },

    async close() {
      // A command that ends right after its wake-up was asked for must not take it along.
      await Promise.all([...inboxes.values()].map((waker) => waker.stop(LAST_WAKE_MS)))
      await client().connection.close()
    },
  }
}

async function isRunning(client: Client, handle: WorkflowHandle): Promise<boolean> {
  const description = await unlessGone(answered(client, () => handle.describe()))
  return description?.status.name === 'RUNNING'
}

/** Waits for the end of a workflow, whichever it is; a run that goes on in a new history is the same one. */
async function isOverWithin(client: Client, handle: WorkflowHandle, timeoutMs: number): Promise<boolean> {
  try {
    await unlessGone(client.withDeadline(Date.now() + timeoutMs, () => handle.result()))
    return true
  } catch (error) {
    if (error instanceof sdk().WorkflowFailedError) return true
    if (sdk().isGrpcDeadlineError(error)) return false
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

/** What Temporal answers to one question; its own refusals pass as they are. @throws BackendUnreachable */
async function answered<T>(client: Client, ask: () => Promise<T>): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + ANSWER_TIMEOUT_MS, ask)
  } catch (error) {
    if (error instanceof sdk().WorkflowExecutionAlreadyStartedError || error instanceof sdk().WorkflowNotFoundError)
      throw error
    throw unreachable(client, error)
  }
}

function unreachable(client: Client, error: unknown): BackendUnreachable {
  return new BackendUnreachable('Temporal', addressOf(client), {
    cause: error,
    remedy: `Check that it runs, that TEMPORAL_ADDRESS is right and that the namespace exists (${errorLine(error, 300)}).`,
  })
}

function addressOf({ connection }: Client): string {
  return connection instanceof sdk().Connection ? connection.options.address : 'its address'
}

/**
 * One wake-up in flight at a time; what comes meanwhile is one more afterwards. A failed one is tried again, ever more
 * slowly: nothing is lost by it, since the rows are stored.
 */
class Waker {
  #inFlight = false
  #dirty = false
  #stopped = false
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<unknown> = Promise.resolve()
  #retryMs = FIRST_RETRY_MS
  readonly #send: () => Promise<unknown>
  readonly #onFailure: (error: unknown, waitMs: number) => void
  readonly #onIdle: () => void

  constructor(send: () => Promise<unknown>, onFailure: (error: unknown, waitMs: number) => void, onIdle: () => void) {
    this.#send = send
    this.#onFailure = onFailure
    this.#onIdle = onIdle
  }

  wake(): void {
    if (this.#inFlight) this.#dirty = true
    else void this.#run()
  }

  /** Nothing new; what is under way may still arrive, and so may one that waits its turn. */
  async stop(withinMs: number): Promise<void> {
    const isOwed = this.#dirty
    this.#stopped = true
    clearTimeout(this.#timer)
    const last = this.#sending.then(() => (isOwed ? this.#send() : undefined)).catch(() => {})
    await Promise.race([last, sleep(withinMs, undefined, { ref: false })])
  }

  async #run(): Promise<void> {
    this.#inFlight = true
    this.#dirty = false
    let waitMs = WAKE_EVERY_MS
    try {
      const sent = this.#send()
      this.#sending = sent
      await sent
      this.#retryMs = FIRST_RETRY_MS
    } catch (error) {
      if (this.#stopped) return
      waitMs = this.#retryMs
      this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS)
      this.#dirty = true
      this.#onFailure(error, waitMs)
    }
    if (this.#stopped) return
    this.#timer = setTimeout(() => this.#next(), waitMs)
    // A wake-up that waits must not keep a process alive that has nothing else to do.
    this.#timer.unref()
  }

  #next(): void {
    if (this.#dirty) void this.#run()
    else {
      this.#inFlight = false
      this.#onIdle()
    }
  }
}
