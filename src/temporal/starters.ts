/** The only caller of `client.workflow`: starts and signals workflows for operations and activities. */
import type { Client } from '@temporalio/client'
import { Connection, WorkflowExecutionAlreadyStartedError } from '@temporalio/client'
import type { Config } from '../config/schema.ts'
import { BackendUnreachable } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import { errorLine } from '../core/logger.ts'
import type { WorkflowStarters } from '../framework.ts'
import type { InboxInput, SyncInput } from '../workflows/messages.ts'
import { arrived, taskQueue, WORKFLOW, workflowId } from '../workflows/messages.ts'

/** Wake-ups of one integration are so far apart at least; the inbox takes many rows at once anyway. */
const WAKE_EVERY_MS = 200
/** How long a start may wait for Temporal's answer. */
const START_TIMEOUT_MS = 5_000
const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 60_000

/** @param client made when first asked for: a process without Temporal (a CLI that only reads) never connects */
export function temporalStarters(client: () => Client, config: Config, logger: Logger): WorkflowStarters {
  const prefix = config.cache_prefix
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
        await client().withDeadline(Date.now() + START_TIMEOUT_MS, start)
        return 'started'
      } catch (error) {
        if (error instanceof WorkflowExecutionAlreadyStartedError) return 'already running'
        throw new BackendUnreachable('Temporal', addressOf(client()), {
          cause: error,
          remedy: `Check that it runs, that TEMPORAL_ADDRESS is right and that the namespace exists (${errorLine(error, 300)}).`,
        })
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
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error
      }
    },

    async close() {
      for (const waker of inboxes.values()) waker.stop()
      await client().connection.close()
    },
  }
}

function addressOf({ connection }: Client): string {
  return connection instanceof Connection ? connection.options.address : 'its address'
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

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  async #run(): Promise<void> {
    this.#inFlight = true
    this.#dirty = false
    let waitMs = WAKE_EVERY_MS
    try {
      await this.#send()
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
