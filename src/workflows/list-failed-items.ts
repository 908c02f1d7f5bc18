import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { FailedItem, ListFailedItemsInput } from '../core/sync-jobs.ts'
import { step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { listFailedSyncItems } = proxyActivities<Activities>(step)

/** The command `list-failed-items`: changes nothing. */
export async function listFailedItems(input: ListFailedItemsInput = {}): Promise<FailedItem[]> {
  return readably(() => listFailedSyncItems(input))
}
