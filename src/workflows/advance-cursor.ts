import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { AdvanceCursorInput, AdvanceCursorResult } from '../core/sync-jobs.ts'
import { step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { advanceSyncCursor } = proxyActivities<Activities>(step)

/**
 * The command `advance-cursor`: finalises again what earlier runs left behind.
 *
 * Durable promise: it is done once more whenever a worker dies with it; each run is finalised under its guards, so that
 * twice changes nothing.
 */
export async function advanceCursor(input: AdvanceCursorInput): Promise<AdvanceCursorResult> {
  return readably(() => advanceSyncCursor(input))
}
