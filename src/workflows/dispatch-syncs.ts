import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { DispatchResult } from '../activities/sync-runs.ts'
import { step } from './activity-options.ts'

/**
 * Starts the runs that are due.
 *
 * Durable promise: each due integration gets a run of its own; one that has a run already keeps it. Runs may overlap with
 * each other and with a command, since a run's id refuses a second start.
 */
export async function dispatchSyncs(): Promise<DispatchResult> {
  const { startDueSyncs } = proxyActivities<Activities>(step)
  return startDueSyncs()
}
