/** What the framework would ask of Temporal: written down, so that the test runs it when it wants to. */

import { randomUUID } from 'node:crypto'
import type { HandlerInput, HandlerRun, TemporalInspection, WorkflowStarters } from '../framework/context.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult, SyncOf } from '../syncs/sync-jobs.ts'
import type { ProcessWebhookInput } from '../webhooks/webhook-jobs.ts'
import { workflowId } from '../workflows/ids.ts'
import type { jobsInProcess } from './jobs-in-process.ts'

export interface StartedWorkflow {
  readonly workflow: string
  readonly taskQueue?: string
  readonly input: HandlerInput
  /** The attempt that began the webhook's last replay; null: never replayed. */
  readonly replayAttempt: number | null
}

export interface StartedSync {
  readonly integrationId: number
  /** Null: the integration's own sync. */
  readonly stream: string | null
}

export interface Started {
  /** Integrations whose inbox was woken, once a wake. */
  wokenInbox: number
  /** Runs that were asked for: `syncs.start()`, `syncs.dispatch()`. */
  readonly startedSyncs: StartedSync[]
  /** Workflows of the host's own that handle a webhook. */
  readonly startedWorkflows: StartedWorkflow[]
  /** What `handledBy` gave to workflows of the host's own: each counts as handled. */
  readonly handedOver: HandlerRun[]
  /** Jobs of one webhook that recovery or a replay asked for: `processWebhooks()` runs them. */
  readonly startedWebhookJobs: ProcessWebhookInput[]
}

/** The runs of syncs that Temporal would know: asked for, or under way. */
export class LivingRuns {
  readonly #asked = new Set<string>()
  readonly #underWay = new Set<string>()

  has(of: SyncOf): boolean {
    const id = workflowId.syncIntegration('', of)
    return this.#asked.has(id) || this.#underWay.has(id)
  }

  ask(of: SyncOf): void {
    this.#asked.add(workflowId.syncIntegration('', of))
  }

  /** What was asked for no longer waits. @returns whether it did */
  take(of: SyncOf): boolean {
    return this.#asked.delete(workflowId.syncIntegration('', of))
  }

  /** Runs what plays the run. It lives until the end of it, also where it is given up. */
  async during<T>(of: SyncOf, play: () => Promise<T>): Promise<T> {
    const id = workflowId.syncIntegration('', of)
    this.#underWay.add(id)
    try {
      return await play()
    } finally {
      this.#underWay.delete(id)
    }
  }
}

/**
 * @param jobs run at once, to their end: the caller waits for the result
 * @param retryItem runs the retry of one item to its end
 */
export function recordingStarters(
  started: Started,
  runs: LivingRuns,
  jobs: ReturnType<typeof jobsInProcess>,
  retryItem: (input: ProcessSyncItemInput) => Promise<ProcessSyncItemResult>,
): WorkflowStarters {
  const handled = new Set<string>()
  const countWake = (): void => {
    started.wokenInbox += 1
  }
  return {
    wakeInbox: countWake,
    callPump: async () => {},
    replaceWedged: async () => {},
    async startSync(integrationId, _provider, { stream } = {}) {
      // Until the test has run it, it lives: a second start is refused, as by a workflow's id.
      if (runs.has({ integrationId, stream })) return 'already running'
      started.startedSyncs.push({ integrationId, stream: stream ?? null })
      runs.ask({ integrationId, stream })
      return { runId: randomUUID() }
    },
    async startHandler(handler, input, replayAttempt) {
      const id = JSON.stringify([input.webhookId, replayAttempt])
      if (handled.has(id)) return
      handled.add(id)
      started.startedWorkflows.push({ ...handler, input, replayAttempt })
    },
    async runHandler(run) {
      started.handedOver.push(run)
      return null
    },
    async startProcessWebhook(input) {
      started.startedWebhookJobs.push(input)
      return 'started'
    },
    ...jobs,
    wakeOutbox: () => {},
    followIncident: () => {},
    keepWebhookSubscription: () => {},
    pauseSync: () => needsServer('a pause'),
    resumeSync: () => needsServer('the end of a pause'),
    syncProgress: async () => null,
    tellSyncBegan: async () => {},
    nudgeSync: async () => {},
    async startProcessSyncItem(input) {
      await retryItem(input)
      return 'started'
    },
    runProcessSyncItem: (input) => retryItem(input),
    tryItemNow: async () => false,
    isSyncItemRunning: async () => false,
    startBackfill: () => needsServer('a backfill'),
    isSyncRunning: async (of) => runs.has(of),
    // One that is under way finds its log ended.
    async cancelSync(of) {
      if (!runs.take(of)) return
      const isMeant = ({ integrationId, stream }: StartedSync): boolean =>
        integrationId === of.integrationId && stream === (of.stream ?? null)
      const at = started.startedSyncs.findIndex(isMeant)
      if (at >= 0) started.startedSyncs.splice(at, 1)
    },
    isBackfillRunning: async () => false,
    cancelBackfill: async () => {},
    close: async () => {},
  }
}

async function needsServer(what: string): Promise<never> {
  throw new TypeError(`${what} needs a Temporal server, and the testing kit has none`)
}

/** A Temporal that answers and has nothing in it. What it can't stand in for says so. */
const ANSWERS: Partial<TemporalInspection> = {
  address: 'none (testing kit)',
  namespace: 'none',
  check: async () => {},
  schedules: async () => [],
  dispatchPause: async () => null,
  applySchedules: async () => [],
  searchAttributes: async () => [],
  applySearchAttributes: async () => ({ states: [], added: [], problem: null }),
  pollers: async () => [],
  wedged: async () => [],
  isInboxRunning: async () => false,
  isOutboxRunning: async () => false,
  isIncidentFollowed: async () => false,
}

export const NO_TEMPORAL = new Proxy(ANSWERS as TemporalInspection, {
  get(answers, name, receiver) {
    if (typeof name === 'symbol' || name in answers) return Reflect.get(answers, name, receiver)
    throw new TypeError(`"${name}" needs a Temporal server, and the testing kit has none`)
  },
})
