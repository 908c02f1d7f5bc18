/** Workflows whose tasks fail again and again: none goes on by itself. Rule: docs/behaviour/webhook-recovery.md, "Wedged workflows". */
import type { Client } from '@temporalio/client'
import type { WedgedWorkflow } from '../framework.ts'
import { WORKFLOW, workflowId } from '../workflows/ids.ts'
import { sdk } from './sdk.ts'

/** Those that may be ended at any time, since rows say what is left to do: another one is started for them. */
const REPLACEABLE = [WORKFLOW.webhookInbox, WORKFLOW.eventOutbox, WORKFLOW.incident, WORKFLOW.syncIntegration]
/** Tries of one task; a worker that restarts, or stands still, costs one or two. */
const MANY_TRIES = 5
/** The newest ones: of more, many are wedged for the same reason, and the next look finds the others. */
const MAX_LOOKED_AT = 200
const ASKED_AT_ONCE = 10

/** @param prefix of the deployment's workflow ids */
export async function wedgedWorkflows(client: Client, prefix: string): Promise<WedgedWorkflow[]> {
  const types = REPLACEABLE.map((type) => `'${type}'`).join(', ')
  // These two are all integrations': they are looked at, however many newer ones there are.
  const found = new Set([workflowId.webhookInbox(prefix), workflowId.eventOutbox(prefix)])
  for await (const { workflowId: id } of client.workflow.list({
    query: `ExecutionStatus = 'Running' AND WorkflowType IN (${types})`,
    pageSize: MAX_LOOKED_AT,
  })) {
    if (id.startsWith(`${prefix}:`)) found.add(id)
    if (found.size >= MAX_LOOKED_AT) break
  }
  const ids = [...found]
  const wedged: WedgedWorkflow[] = []
  const look = async (): Promise<void> => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      const attempts = await attemptsOf(client, id)
      if (attempts >= MANY_TRIES) wedged.push({ id, attempts })
    }
  }
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, look))
  return wedged.sort((a, b) => a.id.localeCompare(b.id))
}

/** Of the task that waits to be tried again; 0: none does. */
async function attemptsOf(client: Client, id: string): Promise<number> {
  try {
    const { raw } = await client.workflow.getHandle(id).describe()
    return raw.pendingWorkflowTask?.attempt ?? 0
  } catch (error) {
    if (error instanceof sdk().WorkflowNotFoundError) return 0
    throw error
  }
}
