/**
 * An Integrations object on a test's own database. What it would ask of Temporal is recorded instead of sent; its log lines
 * are kept.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { onTestFinished } from 'vitest'
import { eventActivities } from '../../src/activities/event-activities.ts'
import { incidentActivities } from '../../src/activities/incident-activities.ts'
import type { Activities } from '../../src/activities/index.ts'
import { syncItemActivities } from '../../src/activities/item-activities.ts'
import { orphanActivities } from '../../src/activities/orphan-activities.ts'
import { pruningActivities } from '../../src/activities/pruning-activities.ts'
import { subscriptionActivities } from '../../src/activities/subscription-activities.ts'
import { syncActivities } from '../../src/activities/sync-activities.ts'
import { tokenActivities } from '../../src/activities/token-activities.ts'
import { webhookActivities } from '../../src/activities/webhook-activities.ts'
import { webhookRecoveryActivities } from '../../src/activities/webhook-recovery.ts'
import type { PumpCall, PumpedQueue } from '../../src/claims/pump-jobs.ts'
import type { Integrations, IntegrationsOptions } from '../../src/create-integrations.ts'
import { createIntegrations, partsOf } from '../../src/create-integrations.ts'
import type { EventKey, ListenerOptions } from '../../src/events/listeners.ts'
import type { Framework, HandlerInput, HandlerRun, WorkflowStarters } from '../../src/framework/context.ts'
import type { Logger } from '../../src/framework/logger.ts'
import type { BackfillInput, ProcessSyncItemInput } from '../../src/syncs/sync-jobs.ts'
import type { ProcessWebhookInput } from '../../src/webhooks/webhook-jobs.ts'

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: Record<string, unknown>
  readonly message: string
}

/** What was asked of Temporal, in order. */
export interface RecordedStarts {
  /** Of the inbox: unless it has promised to look, or whatever it has promised. */
  readonly wakes: 'arrived'[]
  readonly pumpCalls: (PumpCall & { readonly queue: PumpedQueue })[]
  readonly syncs: number[]
  /** Names of the streams among them. */
  readonly streams: string[]
  readonly handlerRuns: HandlerRun[]
  readonly handlers: {
    readonly workflow: string
    readonly taskQueue?: string
    readonly input: HandlerInput
    readonly replayAttempt: number | null
  }[]
  /** Jobs of one webhook, started or run. */
  readonly webhookJobs: ProcessWebhookInput[]
  /** Webhooks whose job lives already: another start is refused. */
  readonly runningWebhooks: Set<number>
  /** Integrations whose run lives already: another start is refused. */
  readonly running: Set<number>
  /** Runs that were ended. */
  readonly cancelled: number[]
  /** Integrations whose backfill lives. */
  readonly runningBackfills: Set<number>
  /** Backfills that were ended. */
  readonly cancelledBackfills: number[]
  /** Signals to the runs of integrations. */
  readonly signals: { readonly signal: 'pause' | 'resume' | 'itemsChanged'; readonly integrationId: number }[]
  /** Retries of one item, started or run. */
  readonly itemJobs: ProcessSyncItemInput[]
  /** Items that were to be tried at once, and where they wait. */
  readonly triedNow: { itemId: number; integrationId: number; waitsIn: string }[]
  /** Items whose retry lives already: another start is refused. */
  readonly runningItems: Set<number>
  readonly backfills: BackfillInput[]
  /** How often the outbox was woken. */
  readonly outboxWakes: { count: number }
  /** Signals to the workflows of incidents. */
  /** Integrations whose webhook subscription was to be looked at. */
  readonly subscriptions: number[]
  readonly followed: { readonly integrationId: number; readonly change: 'escalate' | 'recovered' }[]
}

export interface TestIntegrations {
  readonly integrations: Integrations
  readonly framework: Framework
  readonly activities: Activities
  readonly starts: RecordedStarts
  readonly lines: LogLine[]
  /** A connection of the test's own, to see what is committed. */
  readonly sql: Sql
  close(): Promise<void>
}

export function encryptionKey(kid: string): string {
  return `${kid}:${randomBytes(32).toString('base64')}`
}

export function testIntegrations(
  url: string,
  { recordStarts = true, ...options }: IntegrationsOptions & { recordStarts?: boolean } = {},
): TestIntegrations {
  const lines: LogLine[] = []
  const starts: RecordedStarts = {
    wakes: [],
    pumpCalls: [],
    syncs: [],
    streams: [],
    handlers: [],
    handlerRuns: [],
    webhookJobs: [],
    runningWebhooks: new Set(),
    running: new Set(),
    signals: [],
    itemJobs: [],
    triedNow: [],
    runningItems: new Set(),
    backfills: [],
    cancelled: [],
    runningBackfills: new Set(),
    cancelledBackfills: [],
    outboxWakes: { count: 0 },
    subscriptions: [],
    followed: [],
  }
  const integrations = createIntegrations({
    database: url,
    encryptionKeys: encryptionKey('test'),
    logger: recordingLogger(lines),
    ...options,
  })
  const { framework } = partsOf(integrations)
  if (recordStarts) Object.assign(framework, { workflows: recordingStarters(starts) })
  const sql = postgres(url, { max: 2, fetch_types: false, onnotice: () => {} })
  return {
    integrations,
    framework,
    // Without the heartbeat that a worker's have around them: most can be called as they are.
    activities: Object.assign(
      webhookActivities(framework),
      webhookRecoveryActivities(framework),
      syncActivities(framework),
      syncItemActivities(framework),
      tokenActivities(framework),
      orphanActivities(framework),
      pruningActivities(framework),
      incidentActivities(framework),
      subscriptionActivities(framework),
      eventActivities(framework),
    ),
    starts,
    lines,
    sql,
    async close() {
      await sql.end({ timeout: 5 })
      await integrations.close()
    },
  }
}

function recordingLogger(lines: LogLine[]): Logger {
  const at = (level: LogLine['level']) => (fields: Record<string, unknown>, message: string) => {
    lines.push({ level, fields, message })
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function recordingStarters(starts: RecordedStarts): WorkflowStarters {
  return {
    wakeInbox: () => void starts.wakes.push('arrived'),
    callPump: async (queue, call) => void starts.pumpCalls.push({ queue, ...call }),
    replaceWedged: async () => {},
    async startSync(integrationId, _provider, { stream } = {}) {
      starts.syncs.push(integrationId)
      if (stream !== undefined) starts.streams.push(stream)
      return starts.running.has(integrationId) ? 'already running' : { runId: randomUUID() }
    },
    async startHandler(handler, input, replayAttempt) {
      starts.handlers.push({ ...handler, input, replayAttempt })
    },
    async runHandler(run) {
      starts.handlerRuns.push(run)
      return { status: 'handled' }
    },
    async startProcessWebhook(input) {
      starts.webhookJobs.push(input)
      return starts.runningWebhooks.has(input.webhookId) ? 'already running' : 'started'
    },
    runProcessWebhook: () => onlyRecorded('the replay of one webhook'),
    runRecovery: () => onlyRecorded('recovery'),
    runReconciliation: () => onlyRecorded('reconciliation'),
    runDispatch: () => onlyRecorded('a dispatch'),
    runTokenRefresh: () => onlyRecorded('the refresh of tokens'),
    wakeOutbox: () => {
      starts.outboxWakes.count += 1
    },
    followIncident: (integrationId, change) => void starts.followed.push({ integrationId, change }),
    keepWebhookSubscription: (integrationId) => void starts.subscriptions.push(integrationId),
    runEvaluateFailures: () => onlyRecorded('the evaluation of failure rates'),
    runPrune: () => onlyRecorded('pruning'),
    async pauseSync({ integrationId }) {
      starts.signals.push({ signal: 'pause', integrationId })
    },
    async resumeSync({ integrationId }) {
      starts.signals.push({ signal: 'resume', integrationId })
      return starts.running.has(integrationId)
    },
    syncProgress: async () => null,
    tellSyncBegan: async () => {},
    async nudgeSync({ integrationId }) {
      starts.signals.push({ signal: 'itemsChanged', integrationId })
    },
    async startProcessSyncItem(input) {
      starts.itemJobs.push(input)
      return starts.runningItems.has(input.itemId) ? 'already running' : 'started'
    },
    runProcessSyncItem: () => onlyRecorded('the retry of one item'),
    async tryItemNow({ itemId, integrationId }, waitsIn) {
      starts.triedNow.push({ itemId, integrationId, waitsIn })
      return waitsIn === 'retry' ? starts.runningItems.has(itemId) : starts.running.has(integrationId)
    },
    isSyncItemRunning: async (itemId) => starts.runningItems.has(itemId),
    async startBackfill(input) {
      starts.backfills.push(input)
      return 'started'
    },
    isSyncRunning: async ({ integrationId }) => starts.running.has(integrationId),
    cancelSync: async ({ integrationId }) => {
      starts.cancelled.push(integrationId)
      starts.running.delete(integrationId)
    },
    isBackfillRunning: async ({ integrationId }) => starts.runningBackfills.has(integrationId),
    cancelBackfill: async ({ integrationId }) => {
      if (starts.runningBackfills.delete(integrationId)) starts.cancelledBackfills.push(integrationId)
    },
    close: async () => {},
  }
}

async function onlyRecorded(what: string): Promise<never> {
  throw new TypeError(
    `${what} waits for a workflow's result: a test gives it with Object.assign(framework.workflows, …)`,
  )
}

/** A promise and the function that fulfils it: something a test waits for by name. */
export function occasion<T = void>(): { readonly happened: Promise<T>; readonly happen: (value: T) => void } {
  let happen: (value: T) => void = () => {}
  const happened = new Promise<T>((resolve) => {
    happen = resolve
  })
  return { happened, happen }
}

/** Listens until the test ends: tests of a file share one Integrations object. */
export function listen(
  test: TestIntegrations,
  key: EventKey,
  listener: (payload: never) => unknown,
  options?: ListenerOptions,
): void {
  test.framework.listeners.on(key, listener, options)
  onTestFinished(() => test.framework.listeners.off(key, listener))
}
