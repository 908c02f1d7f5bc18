import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { SkipSyncItemInput, SkipSyncItemResult } from '../core/sync-jobs.ts'
import { step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { skipFailedItem } = proxyActivities<Activities>(step)

/**
 * The command `skip-sync-item`: gives one failed item up for good.
 *
 * Durable promise: the row is skipped and its run finalised anew, or the workflow fails with what forbids it.
 */
export async function skipSyncItem(input: SkipSyncItemInput): Promise<SkipSyncItemResult> {
  return readably(() => skipFailedItem(input))
}
