/** What an inbox costs in Temporal, read off its histories. */
import type { Client } from '@temporalio/client'
import type { Integrations } from 'durable-integrations'
import { workflowId } from '../../src/workflows/messages.ts'

export interface InboxCost {
  /** Starts, signals, activities (local ones too) and timers: what Temporal Cloud bills, as far as an inbox uses it. */
  readonly actions: number
  readonly longestHistory: number
}

export async function inboxCost(temporal: Client, { config }: Integrations, integrationId: number): Promise<InboxCost> {
  const id = workflowId.webhookInbox(config.cache_prefix, integrationId)
  let actions = 0
  let longestHistory = 0
  // A long life goes on in a new run, from whose beginning the next one is known.
  let runId: string | undefined = await firstRunId(temporal, id)
  while (runId !== undefined) {
    const { events } = await temporal.workflow.getHandle(id, runId).fetchHistory()
    if (!events || events.length === 0) throw new Error(`the history of ${id} is empty`)
    for (const event of events)
      if (
        event.workflowExecutionStartedEventAttributes ||
        event.workflowExecutionSignaledEventAttributes ||
        event.activityTaskScheduledEventAttributes ||
        event.markerRecordedEventAttributes ||
        event.timerStartedEventAttributes
      )
        actions += 1
    longestHistory = Math.max(longestHistory, events.length)
    runId = events.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined
  }
  return { actions, longestHistory }
}

/** No scenario lets an inbox end: its first run is the first of the chain that is running. */
async function firstRunId(temporal: Client, id: string): Promise<string> {
  const { raw } = await temporal.workflow.getHandle(id).describe()
  const first = raw.workflowExecutionInfo?.firstRunId
  if (!first) throw new Error(`${id} has no first run`)
  return first
}
