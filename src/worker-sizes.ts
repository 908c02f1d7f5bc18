/** What a Temporal worker may do at once, and how long it may take to end. Rule: docs/behaviour/workers.md. */
import type { WorkerOptions } from '@temporalio/worker'
import type { Integrations } from './integrations.ts'

/** Of one of the process's workers. Why fixed numbers: docs/decisions/0029-workers.md. */
export function workerSizes(worker: Integrations['config']['worker']): Partial<WorkerOptions> {
  return {
    maxConcurrentActivityTaskExecutions: worker.activity_slots,
    maxConcurrentLocalActivityExecutions: worker.local_activity_slots,
    maxConcurrentWorkflowTaskExecutions: worker.workflow_task_slots,
    // Few while there is little to do: Temporal answers the calls in the order in which they came, and those of a process come
    // together, so that with ten of each the first ten batches would all go to one process.
    activityTaskPollerBehavior: { type: 'autoscaling', minimum: 1, initial: 1, maximum: worker.activity_pollers },
    // Not `maxConcurrent…Polls`, which the SDK takes and does not obey (1.24).
    workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: worker.workflow_task_pollers },
    ...(worker.cached_workflows === null ? {} : { maxCachedWorkflows: worker.cached_workflows }),
    shutdownGraceTime: worker.shutdown_grace * 1_000,
  }
}
