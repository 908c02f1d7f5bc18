/** The task queues of a configuration. Rule: docs/behaviour/workflows.md, "Task queues". */
import type { Config } from '../config/schema.ts'
import { taskQueue } from '../workflows/ids.ts'

/** Each once, prefix included: a worker process runs a Worker for each. */
export function taskQueuesOf({ cache_prefix, webhook, sync }: Config): string[] {
  const names = [webhook.queue, sync.queue, ...Object.values(sync.queues)]
  if (sync.item_queue !== null) names.push(sync.item_queue)
  return [...new Set(names)].map((name) => taskQueue(cache_prefix, name))
}
