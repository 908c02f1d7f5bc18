import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { FindOrphansInput, FindOrphansResult } from '../core/orphan-jobs.ts'
import { step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

/** A table of a host's has as many rows as it likes. */
const { findOrphanRows } = proxyActivities<Activities>({
  ...step,
  startToCloseTimeout: '6 hours',
  // A host's model that always throws, each time after hours: somebody should hear of it.
  retry: { ...step.retry, maximumAttempts: 3 },
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
})

/** The command `find-orphans`: changes nothing. Its input must name a model: without one the activity refuses it. */
export async function findOrphans(input: Partial<FindOrphansInput> = {}): Promise<FindOrphansResult> {
  return readably(() => findOrphanRows({ ...input, model: input.model ?? '' }))
}
