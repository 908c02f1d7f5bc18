/** What a workflow costs in Temporal, read off the histories of its chain. */
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

async function firstRunId(temporal: Client, id: string): Promise<string> {
  const { raw } = await temporal.workflow.getHandle(id).describe()
  const first = raw.workflowExecutionInfo?.firstRunId
  if (!first) throw new Error(`${id} has no first run`)
  return first
}
