import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { DispatchResult } from '../core/sync-jobs.ts'
import { step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { startDueSyncs } = proxyActivities<Activities>(step)
// Given up soon: the next dispatch evaluates again, and none starts while this one goes on.
const { evaluateStaleness, rewakeFollowers } = proxyActivities<Activities>({
  ...step,
  retry: { ...step.retry, maximumAttempts: 5 },
})

/**
 * Starts the runs that are due, notes who is late, and tells those who should have been told of a change and were not.
 *
 * Durable promise: each due integration gets a run of its own; one that has a run already keeps it. Runs may overlap with
 * each other and with a command, since a run's id refuses a second start and each edge of staleness is noted once.
 */
export async function dispatchSyncs(): Promise<DispatchResult> {
  return readably(async () => {
    const starts = await startDueSyncs()
    const edges = await evaluateStaleness()
    await rewakeFollowers()
    return { ...starts, ...edges }
  })
}
