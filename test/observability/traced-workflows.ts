/** Workflows under names of ours, as short as can be: what run-trace.workflow.test.ts plays. */
import { continueAsNew, executeChild, proxyActivities } from '@temporalio/workflow'

const { step } = proxyActivities<{ step(): Promise<void> }>({ startToCloseTimeout: '30 seconds' })

/** Two executions, and a child of the second one. */
export async function syncIntegration(input: object, isSecond = false): Promise<void> {
  await step()
  if (!isSecond) return continueAsNew<typeof syncIntegration>(input, true)
  await executeChild(processSyncItem)
  await step()
}

export async function processSyncItem(): Promise<void> {
  await step()
}

export async function webhookInbox(input: object, isSecond = false): Promise<void> {
  await step()
  if (!isSecond) await continueAsNew<typeof webhookInbox>(input, true)
}

export async function prune(): Promise<void> {
  await step()
  await step()
}
