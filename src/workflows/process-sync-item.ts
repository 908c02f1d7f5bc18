import { condition, continueAsNew, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { claimOf } from '../claims/rules.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult } from '../syncs/sync-jobs.ts'
import { batch } from './activity-options.ts'
import { refuseUnlessFor } from './given-input.ts'
import type { ProcessSyncItemState } from './messages.ts'
import { processSyncItemState, retryItem } from './messages.ts'
import { readably } from './readable-failure.ts'
import { moment, showing } from './temporal-ui.ts'
import { hasLongHistory } from './workflow-end.ts'

const { processOneSyncItem } = proxyActivities<Activities>(batch)

/**
 * One failed item again: a retry by hand.
 *
 * Durable promise: the item ends as success or failed, whichever worker dies, and then its run is finalised again. Its id
 * allows one retry per item, and its claim shows the run that the row is held. Waits between tries are durable timers.
 *
 * @param attemptsBefore attempts in an earlier history
 * @param deferralsBefore how many of them were deferrals, which do not count as tries
 */
export async function processSyncItem(
  input: ProcessSyncItemInput,
  attemptsBefore = 0,
  deferralsBefore = 0,
): Promise<ProcessSyncItemResult> {
  refuseUnlessFor('itemId', input)
  const { itemId, tries = 1, force } = input
  let uncounted = deferralsBefore
  let state: ProcessSyncItemState = { phase: 'running', attempts: attemptsBefore }
  setHandler(processSyncItemState, () => state, {
    description: 'Whether it runs, waits for its next attempt or is done, and its attempts so far.',
  })
  let isAskedNow = false
  const askNow = (): void => {
    isAskedNow = true
  }
  setHandler(retryItem, askNow, {
    description: 'Makes the next attempt now, if it waits for one. No input is looked at.',
  })

  for (;;) {
    if (hasLongHistory()) await continueAsNew<typeof processSyncItem>(input, state.attempts, uncounted)
    const attempt = state.attempts + 1
    state = { phase: 'running', attempts: attempt }
    const claim = `retry-${claimOf(workflowInfo().runId, attempt)}`
    const one = {
      itemId,
      claim,
      attempt,
      tries: tries + uncounted,
      ...(force === undefined ? {} : { force }),
    }
    showing(`Attempt ${attempt} of item ${itemId}`, { Tries: tries, 'Put off by a limit': uncounted })
    const answer = await readably(() =>
      processOneSyncItem.executeWithOptions({ ...batch, summary: `attempt ${attempt} of item ${itemId}` }, [one]),
    )
    const { waitSeconds, isCounted, ...result } = answer
    if (waitSeconds === null) {
      state = { phase: 'done', attempts: attempt }
      showing(`Item ${itemId}: ${result.outcome}`, { Status: result.status, Attempts: attempt })
      return result
    }
    if (!isCounted) uncounted += 1
    state = { phase: 'waiting', attempts: attempt }
    showing(`Waiting for attempt ${attempt + 1} of item ${itemId}`, { Due: moment(Date.now() + waitSeconds * 1_000) })
    isAskedNow = false
    await condition(() => isAskedNow, waitSeconds * 1_000, { summary: `attempt ${attempt + 1} of item ${itemId}` })
  }
}
