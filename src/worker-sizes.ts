/** What a Temporal worker may do at once, and how long it may take to end. Rule: docs/behaviour/workers.md. */
import type { WorkerOptions } from '@temporalio/worker'
import type { Integrations } from './create-integrations.ts'

/**
 * How long the workflow thread may be at one task. The SDK takes it and does not declare it (`addDefaultWorkerOptions()` in
 * @temporalio/worker/lib/worker-options.js, 1.24; its default is 5 s).
 *
 * After that Node cuts the code off in the middle, by the wall clock, also in a worker that stood still. Seen after stops of 11 to
 * 13 s with the default: the worker refused histories (TMPRL1100) that fit in a fresh process, and Node once aborted with "async
 * hook stack has become corrupted". That the cut leaves the thread in a wrong async context is our reading of it, not proven.
 */
export const WORKFLOW_THREAD: Partial<WorkerOptions> & { readonly isolateExecutionTimeout: string } = {
  isolateExecutionTimeout: '10 minutes',
}

/** Of one of the process's workers. Why fixed numbers: docs/decisions/0029-workers.md. */
export function workerSizes(worker: Integrations['config']['worker']): Partial<WorkerOptions> {
  return {
    ...WORKFLOW_THREAD,
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
