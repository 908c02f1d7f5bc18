/** Keeps the Temporal Schedules in step with the configuration. An operator's pause survives. */
import type { Client, ScheduleDescription } from '@temporalio/client'
import type { Config } from '../config/schema.ts'
import type { ReconcileWebhooksInput } from '../core/webhook-jobs.ts'
import { scheduleId, taskQueue, WORKFLOW, workflowId } from '../workflows/messages.ts'
import { sdk } from './sdk.ts'

/** A worker that was away for longer does not make up for what it missed: the next run takes it all. */
const CATCH_UP_SECONDS = 60
const MINUTE_SECONDS = 60

/** What the wanted Schedules depend on, beyond the configuration. */
export interface ScheduleNeeds {
  /** Whether a provider is registered that can list what never arrived. */
  canReconcile(): boolean
  /** Whether a provider is registered whose tokens are refreshed. */
  canRefreshTokens(): boolean
}

interface Timetable {
  readonly name: string
  readonly workflow: string
  readonly workflowId: string
  readonly everySeconds: number
  readonly taskQueue: string
  readonly args: readonly unknown[]
  /** With `schedules.enabled`; false: it is removed. */
  readonly isWanted: boolean
}

/** Every Schedule that this release knows, wanted or not. */
function timetable(config: Config, { canReconcile, canRefreshTokens }: ScheduleNeeds): Timetable[] {
  const prefix = config.cache_prefix
  return [
    {
      name: 'dispatch-syncs',
      workflow: WORKFLOW.dispatchSyncs,
      workflowId: workflowId.dispatchSyncs(prefix),
      everySeconds: MINUTE_SECONDS,
      taskQueue: taskQueue(prefix, config.sync.queue),
      args: [],
      isWanted: true,
    },
    {
      name: 'recover-webhooks',
      workflow: WORKFLOW.recoverWebhooks,
      workflowId: workflowId.recoverWebhooks(prefix),
      everySeconds: 5 * MINUTE_SECONDS,
      taskQueue: taskQueue(prefix, config.webhook.queue),
      args: [],
      isWanted: true,
    },
    {
      name: 'refresh-tokens',
      workflow: WORKFLOW.refreshTokens,
      workflowId: workflowId.refreshTokens(prefix),
      everySeconds: 10 * MINUTE_SECONDS,
      taskQueue: taskQueue(prefix, config.sync.queue),
      args: [],
      isWanted: canRefreshTokens(),
    },
    {
      name: 'reconcile',
      workflow: WORKFLOW.reconcileWebhooks,
      workflowId: workflowId.reconcileWebhooks(prefix),
      everySeconds: 60 * MINUTE_SECONDS,
      taskQueue: taskQueue(prefix, config.webhook.queue),
      args: [{} satisfies ReconcileWebhooksInput],
      isWanted: canReconcile(),
    },
  ]
}

/** Names of the Schedules that the configuration and the providers ask for. */
export function wantedSchedules(config: Config, needs: ScheduleNeeds): string[] {
  if (!config.schedules.enabled) return []
  return timetable(config, needs).flatMap(({ name, isWanted }) => (isWanted ? [name] : []))
}

/**
 * Creates what is missing, updates what differs, and removes ours that are not wanted: where the host keeps the timing
 * itself, or no provider has a use for it. Several workers may do it at the same moment.
 *
 * A Schedule of a name that this release does not know stays: it may be a newer release's, whose workers run beside ours.
 */
export async function ensureSchedules(client: Client, config: Config, needs: ScheduleNeeds): Promise<void> {
  const wanted = wantedSchedules(config, needs)
  for (const entry of timetable(config, needs)) {
    const id = scheduleId(config.cache_prefix, entry.name)
    if (!wanted.includes(entry.name)) {
      await removeSchedule(client, id)
      continue
    }
    const definition = definitionOf(entry)
    try {
      await client.schedule.create({ scheduleId: id, ...definition })
    } catch (error) {
      if (!(error instanceof sdk().ScheduleAlreadyRunning)) throw error
      await client.schedule.getHandle(id).update((previous) => ({ ...previous, ...definition }))
    }
  }
}

/** Does nothing when it is gone already. */
export async function removeSchedule(client: Client, id: string): Promise<void> {
  try {
    await client.schedule.getHandle(id).delete()
  } catch (error) {
    if (!(error instanceof sdk().ScheduleNotFoundError)) throw error
  }
}

/** What of a Schedule on the server is not as the configuration says, in words; its pause is not ours to judge. */
export function scheduleDifferences(
  config: Config,
  needs: ScheduleNeeds,
  name: string,
  found: ScheduleDescription,
): string[] {
  const entry = timetable(config, needs).find((candidate) => candidate.name === name)
  if (entry === undefined) return []
  const { action, spec, policies } = found
  const intervals = spec.intervals?.map((interval) => `${interval.every / 1_000} s`) ?? []
  const others = (spec.calendars?.length ?? 0) > 0 ? ['a calendar'] : []
  const compared: [what: string, found: string | undefined, wanted: string][] = [
    ['workflow', action.workflowType, entry.workflow],
    ['workflow id', action.workflowId, entry.workflowId],
    ['task queue', action.taskQueue, entry.taskQueue],
    ['input', JSON.stringify(action.args ?? []), JSON.stringify(entry.args)],
    ['interval', [...intervals, ...others].join(' and ') || 'none', `${entry.everySeconds} s`],
    ['overlap policy', policies.overlap, sdk().ScheduleOverlapPolicy.SKIP],
    ['catch-up window', `${policies.catchupWindow / 1_000} s`, `${CATCH_UP_SECONDS} s`],
  ]
  return compared
    .filter(([, is, shouldBe]) => is !== shouldBe)
    .map(([what, is, shouldBe]) => `${what} ${is} instead of ${shouldBe}`)
}

function definitionOf(entry: Timetable) {
  return {
    spec: { intervals: [{ every: entry.everySeconds * 1_000 }] },
    action: {
      type: 'startWorkflow' as const,
      workflowType: entry.workflow,
      workflowId: entry.workflowId,
      taskQueue: entry.taskQueue,
      args: [...entry.args],
    },
    policies: { overlap: sdk().ScheduleOverlapPolicy.SKIP, catchupWindow: CATCH_UP_SECONDS * 1_000 },
  }
}
