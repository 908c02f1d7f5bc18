/** Workflows whose tasks fail again and again: none goes on by itself. Rule: docs/behaviour/webhook-recovery.md, "Wedged workflows". */
import type { Client } from '@temporalio/client'
import type { WedgedWorkflow } from '../framework/context.ts'
import { REPLACEABLE_WORKFLOWS } from '../observability/metrics.ts'
import { WORKFLOW, workflowId } from '../workflows/ids.ts'
import { sdk } from './connection.ts'

/** Tries of one task; a worker that restarts, or stands still, costs one or two. */
const MANY_TRIES = 5
/** Fits in the 5 s that a question may take. */
const MAX_LOOKED_AT = 200
const PAGE_SIZE = 200
const ASKED_AT_ONCE = 10

/**
 * Looks at the newest ones. Of more, each further look goes on with the older ones where the last look ended, and
 * after the oldest it begins with the newest again: a subscription's workflow runs for years, and each one has to be
 * looked at.
 *
 * @param prefix of the deployment's workflow ids
 * @param limit how many one look describes
 */
export function wedgedLooks(prefix: string, limit = MAX_LOOKED_AT): (client: Client) => Promise<WedgedWorkflow[]> {
  const types = REPLACEABLE_WORKFLOWS.map((type) => `'${WORKFLOW[type]}'`).join(', ')
  const running = `ExecutionStatus = 'Running' AND WorkflowType IN (${types})`
  /** Null: the next look begins with the newest. */
  let before: Date | null = null
  return async (client) => {
    // These two are all integrations': each look has them.
    const found = new Set([workflowId.webhookInbox(prefix), workflowId.eventOutbox(prefix)])
    let listed = 0
    let next: Date | null = null
    // Temporal lists the newest start first.
    for await (const { workflowId: id, startTime } of client.workflow.list({
      query: before === null ? running : `${running} AND StartTime < '${before.toISOString()}'`,
      pageSize: PAGE_SIZE,
    })) {
      if (!id.startsWith(`${prefix}:`)) continue
      found.add(id)
      listed += 1
      if (listed < limit) continue
      // A Date has no microseconds: what began in the same millisecond is looked at twice, so that none is left out.
      next = new Date(startTime.getTime() + 1)
      break
    }
    const wedged = await wedgedAmong(client, [...found])
    before = next
    return wedged
  }
}

async function wedgedAmong(client: Client, ids: string[]): Promise<WedgedWorkflow[]> {
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
