import { continueAsNew, proxyActivities, setHandler, sleep, workflowInfo } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { claimOf } from '../core/claim.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult } from '../core/sync-jobs.ts'
import { batch } from './activity-options.ts'
import { hasLongHistory } from './long-history.ts'
import type { ProcessSyncItemState } from './messages.ts'
import { processSyncItemState } from './messages.ts'

const { processOneSyncItem } = proxyActivities<Activities>(batch)

/**
 * One failed item again: a retry by hand.
 *
 * Durable promise: the item ends as success or failed, whichever worker dies, and its run is finalised anew after it. Its
 * id allows one retry per item, and its claim tells a run that the row is held; waits between tries are durable timers.
 *
 * @param attemptsBefore those of an earlier history
 * @param deferralsBefore those of them that were none of its tries
 */
export async function processSyncItem(
  input: ProcessSyncItemInput,
  attemptsBefore = 0,
  deferralsBefore = 0,
): Promise<ProcessSyncItemResult> {
  const { itemId, tries = 1 } = input
  let uncounted = deferralsBefore
  let state: ProcessSyncItemState = { phase: 'running', attempts: attemptsBefore }
  setHandler(processSyncItemState, () => state)

  for (;;) {
    if (hasLongHistory()) await continueAsNew<typeof processSyncItem>(input, state.attempts, uncounted)
    const attempt = state.attempts + 1
    state = { phase: 'running', attempts: attempt }
    const claim = `retry-${claimOf(workflowInfo().runId, attempt)}`
    const one = { itemId, claim, attempt, tries: tries + uncounted }
    const { waitSeconds, isCounted, ...result } = await processOneSyncItem(one)
    if (waitSeconds === null) {
      state = { phase: 'done', attempts: attempt }
      return result
    }
    if (!isCounted) uncounted += 1
    state = { phase: 'waiting', attempts: attempt }
    await sleep(waitSeconds * 1_000)
  }
}
