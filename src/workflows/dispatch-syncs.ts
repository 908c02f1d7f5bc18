import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { DispatchResult } from '../syncs/sync-jobs.ts'
import { scheduledStep, step } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { startDueSyncs } = proxyActivities<Activities>(step)
const { evaluateStaleness, rewakeFollowers } = proxyActivities<Activities>(scheduledStep)

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
