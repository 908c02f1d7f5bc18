/**
 * A whole run without Temporal: the activities of the workflow `syncIntegration`, in its order. Where the workflow waits,
 * the clock is moved on.
 *
 * Rule: docs/behaviour/syncs.md, "A run".
 */
import { randomUUID } from 'node:crypto'
import type { ItemBatch, ItemBatchResult } from '../activities/sync-items.ts'
import { syncItemActivities } from '../activities/sync-items.ts'
import type { Listing } from '../activities/sync-runs.ts'
import { syncRunActivities } from '../activities/sync-runs.ts'
import { claimOf } from '../core/claim.ts'
import type { Framework } from '../framework.ts'
import { SyncDidNotEnd } from './errors.ts'
import type { ManualClock } from './manual-clock.ts'

const BATCH_ROWS = 200
/** Seconds after the first and the second attempt: docs/behaviour/syncs.md, "A run". */
const LISTING_WAITS_SECONDS = [10, 30]

interface WaitingItem {
  readonly id: number
  readonly dueAt: number
}

/** @returns the id of the run's log @throws SyncDidNotEnd */
export async function runSync(framework: Framework, clock: ManualClock, integrationId: number): Promise<number> {
  let attempt = 1
  const surroundings = { cancellationSignal: new AbortController().signal, info: { attempt } }
  const runs = syncRunActivities(framework, () => ({ ...surroundings, info: { attempt } }))
  const items = syncItemActivities(framework, () => surroundings)
  const runId = randomUUID()

  const opened = await runs.openSyncRun({ integrationId, runId })
  if (opened.kind === 'nothing to do') throw new SyncDidNotEnd(integrationId, opened.reason, null)
  const { syncLogId } = opened
  const giveUp = async (reason: string): Promise<never> => {
    await runs.failSyncRun({ integrationId, syncLogId, reason })
    throw new SyncDidNotEnd(integrationId, reason, syncLogId)
  }

  const list = async (): Promise<Listing> => {
    for (; ; attempt += 1)
      try {
        return await runs.listSyncItems({ integrationId, syncLogId })
      } catch (error) {
        const wait = LISTING_WAITS_SECONDS[attempt - 1]
        const isFinal = (error as { nonRetryable?: boolean }).nonRetryable === true
        if (isFinal || wait === undefined) return giveUp(`the listing failed: ${(error as Error).message}`)
        clock.advance(wait)
      }
  }
  await list()

  let batches = 0
  const run = (take: ItemBatch['take']): Promise<ItemBatchResult> => {
    batches += 1
    return items.processSyncItems({ syncLogId, take, claim: claimOf(runId, batches) })
  }
  let waiting: WaitingItem[] = []
  let intakeFrom = 0
  let isDrained = false
  const note = (result: ItemBatchResult): void => {
    const now = clock.now().getTime()
    waiting.push(...result.waiting.map(({ id, seconds }) => ({ id, dueAt: now + seconds * 1_000 })))
    if (result.deferredSeconds > 0) intakeFrom = Math.max(intakeFrom, now + result.deferredSeconds * 1_000)
  }
  for (;;) {
    const now = clock.now().getTime()
    const due = waiting.filter(({ dueAt }) => dueAt <= now).slice(0, BATCH_ROWS)
    if (due.length > 0) {
      waiting = waiting.filter((item) => !due.includes(item))
      note(await run({ kind: 'due', ids: due.map(({ id }) => id) }))
    } else if (!isDrained && intakeFrom <= now) {
      const result = await run({ kind: 'pending', limit: BATCH_ROWS })
      isDrained = result.claimed < BATCH_ROWS
      note(result)
    } else if (waiting.length > 0 || !isDrained) {
      const moments = waiting.map(({ dueAt }) => dueAt)
      const next = Math.min(...(isDrained ? moments : [...moments, intakeFrom]))
      clock.advance((next - now) / 1_000)
    } else break
  }

  const finalisation = await runs.finaliseSyncRun({ integrationId, syncLogId })
  if (finalisation.kind === 'reducer threw') return giveUp(`reduceCheckpoints() threw: ${finalisation.reason}`)
  if (finalisation.kind === 'not this time') throw new SyncDidNotEnd(integrationId, finalisation.reason, syncLogId)
  // Nothing else works on these rows, so none is left behind: this is a fault of the kit.
  if (finalisation.kind === 'unfinished') throw new Error('items of the run are unfinished')
  await runs.announceSyncRun({ integrationId, syncLogId })
  return syncLogId
}
