import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { DispatchResult } from '../syncs/sync-jobs.ts'
import { step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { startDueSyncs } = proxyActivities<Activities>(step)
const { evaluateStaleness, rewakeFollowers } = proxyActivities<Activities>({
  ...step,
  // Few tries: the Schedule starts no further dispatch while this one runs, and the next one evaluates again.
  retry: { ...step.retry, maximumAttempts: 5 },
})

/**
 * Starts the runs that are due, notes stale integrations, and wakes incidents and the outbox where a wake-up was lost.
 *
 * Durable promise: each due integration gets a run of its own, or keeps the run that it has. Dispatches may overlap with each
 * other and with a command: a run's id refuses a second start, and each edge of staleness is noted once.
 */
export async function dispatchSyncs(): Promise<DispatchResult> {
  return readably(async () => {
    const starts = await startDueSyncs()
    const edges = await evaluateStaleness()
    await rewakeFollowers()
    return { ...starts, ...edges }
  })
}
