/**
 * One failed item again without Temporal: the activity of the workflow `processSyncItem`, attempt by attempt. Where the
 * workflow waits, the clock is moved on.
 *
 * Rule: docs/behaviour/sync-items.md.
 */
import { randomUUID } from 'node:crypto'
import { syncItemActivities } from '../activities/item-activities.ts'
import { claimOf } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult } from '../syncs/sync-jobs.ts'
import type { ManualClock } from './manual-clock.ts'

export async function retryItem(
  framework: Framework,
  clock: ManualClock,
  { itemId, tries = 1, force = false }: ProcessSyncItemInput,
): Promise<ProcessSyncItemResult> {
  const cancellationSignal = new AbortController().signal
  const { processOneSyncItem } = syncItemActivities(framework, () => ({ cancellationSignal, info: { attempt: 1 } }))
  const runId = randomUUID()
  let attempt = 1
  for (let call = 1; ; call += 1) {
    const claim = `retry-${claimOf(runId, call)}`
    const { waitSeconds, isCounted, ...result } = await processOneSyncItem({ itemId, claim, attempt, tries, force })
    if (waitSeconds === null) return result
    // A deferral is none of the tries.
    if (isCounted) attempt += 1
    clock.advance(waitSeconds)
  }
}
