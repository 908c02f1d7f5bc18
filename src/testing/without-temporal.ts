/** What the framework would ask of Temporal: written down, so that the test runs it when it wants to. */
import type { HandlerInput, TemporalInspection, WorkflowStarters } from '../framework.ts'

export interface StartedWorkflow {
  readonly workflow: string
  readonly taskQueue?: string
  readonly input: HandlerInput
}

export interface Started {
  /** Integrations whose inbox was woken, once a wake. */
  readonly wokenInboxes: number[]
  /** Integrations of which a run was asked for: `syncs.start()`. */
  readonly startedSyncs: number[]
  /** Workflows of the host's own that handle a webhook. */
  readonly startedWorkflows: StartedWorkflow[]
}

export function recordingStarters(started: Started): WorkflowStarters {
  const handled = new Set<string>()
  return {
    wakeInbox: (integrationId) => void started.wokenInboxes.push(integrationId),
    async startSync(integrationId) {
      // Until the test runs it, it lives: a second start is refused, as by a workflow's id.
      if (started.startedSyncs.includes(integrationId)) return 'already running'
      started.startedSyncs.push(integrationId)
      return 'started'
    },
    async startHandler(handler, input) {
      const attempt = JSON.stringify([handler.workflow, input.webhookId])
      if (handled.has(attempt)) return
      handled.add(attempt)
      started.startedWorkflows.push({ ...handler, input })
    },
    isSyncRunning: async (integrationId) => started.startedSyncs.includes(integrationId),
    async cancelSync(integrationId) {
      const at = started.startedSyncs.indexOf(integrationId)
      if (at >= 0) started.startedSyncs.splice(at, 1)
    },
    close: async () => {},
  }
}

/** A Temporal that answers and has nothing in it. What it can't stand in for says so. */
const ANSWERS: Partial<TemporalInspection> = {
  address: 'none (testing kit)',
  namespace: 'none',
  check: async () => {},
  schedules: async () => [],
  applySchedules: async () => [],
  pollers: async () => [],
  isInboxRunning: async () => false,
}

export const NO_TEMPORAL = new Proxy(ANSWERS as TemporalInspection, {
  get(answers, name, receiver) {
    if (typeof name === 'symbol' || name in answers) return Reflect.get(answers, name, receiver)
    throw new TypeError(`"${name}" needs a Temporal server, and the testing kit has none`)
  },
})
