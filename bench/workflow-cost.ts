/** What a workflow costs in Temporal, read off the histories of its chain. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'

export interface WorkflowCost {
  /** Starts, signals, activities (local ones too) and timers: what Temporal Cloud bills, as far as our workflows use it. */
  readonly actions: number
  readonly activities: number
  readonly localActivities: number
  readonly longestHistory: number
}

const LOCAL_ACTIVITY_MARKER = 'core_local_activity'

/** @param id of a workflow that runs or has run once: a long life goes on in a new run, from whose end the next one is known */
export async function workflowCost(temporal: Client, id: string): Promise<WorkflowCost> {
  const cost = { actions: 0, activities: 0, localActivities: 0, longestHistory: 0 }
  let runId: string | undefined = await firstRunId(temporal, id)
  while (runId !== undefined) {
    const { events } = await temporal.workflow.getHandle(id, runId).fetchHistory()
    if (!events || events.length === 0) throw new Error(`the history of ${id} is empty`)
    for (const event of events) {
      if (
        event.workflowExecutionStartedEventAttributes ||
        event.workflowExecutionSignaledEventAttributes ||
        event.activityTaskScheduledEventAttributes ||
        event.markerRecordedEventAttributes ||
        event.timerStartedEventAttributes
      )
        cost.actions += 1
      if (event.activityTaskScheduledEventAttributes) cost.activities += 1
      if (event.markerRecordedEventAttributes?.markerName === LOCAL_ACTIVITY_MARKER) cost.localActivities += 1
    }
    cost.longestHistory = Math.max(cost.longestHistory, events.length)
    runId = events.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined
  }
  return cost
}

const HEARTBEAT_SECONDS = 5
/** The list of workflows lags behind the workflows. */
const LIST_LAG_MS = 1_500

/** Of all runs of an id that starts over and over, with the heartbeats of its activities, which a server counts as actions, too. */
export async function costOfAllRuns(
  temporal: Client,
  id: string,
): Promise<Pick<WorkflowCost, 'actions' | 'longestHistory'>> {
  await sleep(LIST_LAG_MS)
  const cost = { actions: 0, longestHistory: 0 }
  for await (const { runId } of temporal.workflow.list({ query: `WorkflowId = '${id}'` })) {
    const { events } = await temporal.workflow.getHandle(id, runId).fetchHistory()
    const startedAt = new Map<string, number>()
    for (const event of events ?? []) {
      const atSeconds = Number(event.eventTime?.seconds ?? 0)
      if (event.workflowExecutionStartedEventAttributes || event.workflowExecutionSignaledEventAttributes)
        cost.actions += 1
      if (event.activityTaskScheduledEventAttributes) {
        cost.actions += 1
        startedAt.set(String(event.eventId), atSeconds)
      }
      const ended = event.activityTaskCompletedEventAttributes
      if (ended)
        cost.actions += Math.floor(
          (atSeconds - (startedAt.get(String(ended.scheduledEventId)) ?? atSeconds)) / HEARTBEAT_SECONDS,
        )
    }
    cost.longestHistory = Math.max(cost.longestHistory, events?.length ?? 0)
  }
  return cost
}

async function firstRunId(temporal: Client, id: string): Promise<string> {
  const { raw } = await temporal.workflow.getHandle(id).describe()
  const first = raw.workflowExecutionInfo?.firstRunId
  if (!first) throw new Error(`${id} has no first run`)
  return first
}
