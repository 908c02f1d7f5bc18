/** Workflows whose tasks fail again and again: none goes on by itself. Rule: docs/behaviour/webhook-recovery.md, "Wedged workflows". */
import type { Client } from '@temporalio/client'
import type { WedgedWorkflow } from '../framework/context.ts'
import { REPLACEABLE_WORKFLOWS } from '../observability/metrics.ts'
import { WORKFLOW, workflowId } from '../workflows/ids.ts'
import { sdk } from './connection.ts'

/** Tries of one task; a worker that restarts, or stands still, costs one or two. */
const MANY_TRIES = 5
/** The newest ones: of more, many are wedged for the same reason, and the next look finds the others. */
const MAX_LOOKED_AT = 200
const ASKED_AT_ONCE = 10

/** @param prefix of the deployment's workflow ids */
export async function wedgedWorkflows(client: Client, prefix: string): Promise<WedgedWorkflow[]> {
  const types = REPLACEABLE_WORKFLOWS.map((type) => `'${WORKFLOW[type]}'`).join(', ')
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
      const seen = await lookAt(client, id)
      if (seen !== null && seen.attempts >= MANY_TRIES) wedged.push(seen)
    }
  }
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, look))
  return wedged.sort((a, b) => a.id.localeCompare(b.id))
}

/** Null: it is gone, or its type is not one that recovery may end. */
async function lookAt(client: Client, id: string): Promise<WedgedWorkflow | null> {
  try {
    const { type: name, runId, raw } = await client.workflow.getHandle(id).describe()
    const type = REPLACEABLE_WORKFLOWS.find((one) => one === name)
    return type === undefined ? null : { id, runId, type, attempts: raw.pendingWorkflowTask?.attempt ?? 0 }
  } catch (error) {
    if (error instanceof sdk().WorkflowNotFoundError) return null
    throw error
  }
}
