/** Keeps the Temporal Schedules in step with the configuration. An operator's pause survives. */
import type { Client } from '@temporalio/client'
import { ScheduleAlreadyRunning, ScheduleOverlapPolicy } from '@temporalio/client'
import type { Config } from '../config/schema.ts'
import { scheduleId, taskQueue, WORKFLOW, workflowId } from '../workflows/messages.ts'

/** A worker that was away for longer does not make up for what it missed: the next run takes it all. */
const CATCH_UP_WINDOW = '60 seconds'

interface Timetable {
  readonly name: string
  readonly workflow: string
  readonly workflowId: string
  readonly every: string
  readonly queue: string
}

function timetable(config: Config): Timetable[] {
  const prefix = config.cache_prefix
  return [
    {
      name: 'dispatch-syncs',
      workflow: WORKFLOW.dispatchSyncs,
      workflowId: workflowId.dispatchSyncs(prefix),
      every: '1 minute',
      queue: config.sync.queue,
    },
  ]
}

/** Creates what is missing and updates what differs. Several workers may do it at the same moment. */
export async function ensureSchedules(client: Client, config: Config): Promise<void> {
  if (!config.schedules.enabled) return
  for (const entry of timetable(config)) {
    const id = scheduleId(config.cache_prefix, entry.name)
    const definition = {
      spec: { intervals: [{ every: entry.every as `${number} minute` }] },
      action: {
        type: 'startWorkflow' as const,
        workflowType: entry.workflow,
        workflowId: entry.workflowId,
        taskQueue: taskQueue(config.cache_prefix, entry.queue),
        args: [],
      },
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: CATCH_UP_WINDOW as '60 seconds' },
    }
    try {
      await client.schedule.create({ scheduleId: id, ...definition })
    } catch (error) {
      if (!(error instanceof ScheduleAlreadyRunning)) throw error
      await client.schedule.getHandle(id).update((previous) => ({ ...previous, ...definition }))
    }
  }
}
