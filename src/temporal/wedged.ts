/**
 * Workflows whose tasks fail again and again, or wait on a task queue that is not worked on any more: none goes on by itself.
 * Rule: docs/behaviour/webhook-recovery.md, "Wedged workflows".
 */
import type { Client } from '@temporalio/client'
import type { Config } from '../config/schema.ts'
import type { WedgedWorkflow } from '../framework/context.ts'
import { REPLACEABLE_WORKFLOWS } from '../observability/metrics.ts'
import { WORKFLOW, workflowId } from '../workflows/ids.ts'
import { sdk } from './connection.ts'
import { taskQueuesOf } from './workflow-starts.ts'

/** Tries of one task; a worker that restarts, or stands still, costs one or two. */
const MANY_TRIES = 5
/** Fits in the 5 s that a question may take. */
const MAX_LOOKED_AT = 200
const PAGE_SIZE = 200
const ASKED_AT_ONCE = 10
const LOOKED_AT = [...REPLACEABLE_WORKFLOWS, 'backfillSync'] as const
/** `temporal.api.enums.v1.TaskQueueType` */
const WORKFLOW_TASKS = 1

/**
 * Looks at the newest ones. Of more, each further look goes on with the older ones where the last look ended, and
 * after the oldest it begins with the newest again: a subscription's workflow runs for years, and each one has to be
 * looked at.
 *
 * @param limit how many one look describes
 */
export function wedgedLooks(config: Config, limit = MAX_LOOKED_AT): (client: Client) => Promise<WedgedWorkflow[]> {
  const prefix = config.cache_prefix
  const queues = taskQueuesOf(config)
  const types = LOOKED_AT.map((type) => `'${WORKFLOW[type]}'`).join(', ')
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
    const wedged = await wedgedAmong(client, [...found], queues)
    before = next
    return wedged
  }
}

/** @param queues those that the configuration names: one of them may wait for its worker */
async function wedgedAmong(client: Client, ids: string[], queues: readonly string[]): Promise<WedgedWorkflow[]> {
  const seen: Seen[] = []
  const look = async (): Promise<void> => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      const one = await lookAt(client, id)
      if (one !== null) seen.push(one)
    }
  }
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, look))
  const abandoned = new Set<string>()
  for (const queue of new Set(seen.map((one) => one.queue)))
    if (!queues.includes(queue) && (await isUnpolled(client, queue))) abandoned.add(queue)
  return seen
    .map((one) => ({ ...one, queue: abandoned.has(one.queue) ? one.queue : null }))
    .filter(({ attempts, queue }) => attempts >= MANY_TRIES || queue !== null)
    .sort((a, b) => a.id.localeCompare(b.id))
}

/** The server remembers a poller for five minutes: a worker of another configuration may be about to restart. */
async function isUnpolled(client: Client, name: string): Promise<boolean> {
  const { pollers } = await client.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name },
    taskQueueType: WORKFLOW_TASKS,
  })
  return (pollers ?? []).length === 0
}

type Seen = WedgedWorkflow & { readonly queue: string }

/** Null: it is gone, or its type is not one of these. */
async function lookAt(client: Client, id: string): Promise<Seen | null> {
  try {
    const { type: name, runId, taskQueue: queue, raw } = await client.workflow.getHandle(id).describe()
    const type = LOOKED_AT.find((one) => one === name)
    return type === undefined ? null : { id, runId, type, queue, attempts: raw.pendingWorkflowTask?.attempt ?? 0 }
  } catch (error) {
    if (error instanceof sdk().WorkflowNotFoundError) return null
    throw error
  }
}
