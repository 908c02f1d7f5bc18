/**
 * A whole run without Temporal: the activities of the workflow `syncIntegration`, in its order. Where the workflow waits,
 * the clock is moved on.
 *
 * Rule: docs/behaviour/syncs.md, "A run".
 */
import { randomUUID } from 'node:crypto'
import type { ItemBatch, ItemBatchResult } from '../activities/item-activities.ts'
import { syncItemActivities } from '../activities/item-activities.ts'
import { syncActivities } from '../activities/sync-activities.ts'
import { claimOf } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import type { RunIds } from '../syncs/run-rules.ts'
import type { SyncInput } from '../syncs/sync-jobs.ts'
import { BATCH_ROWS } from '../syncs/sync-jobs.ts'
import type { ManualClock } from './manual-clock.ts'
import { SyncDidNotEnd } from './testing-errors.ts'

/** Seconds after the first and the second attempt: docs/behaviour/sync-listing.md, "Faults, lost workers, deferrals". */
const LISTING_WAITS_SECONDS = [10, 30]

interface WaitingItem {
  readonly id: number
  readonly dueAt: number
}

/** Deferrals of a listing in a row that bring no new bookmark. */
const MAX_FRUITLESS_DEFERRALS = 3

/** @returns the id of the run's log @throws SyncDidNotEnd */
export async function runSync(
  framework: Framework,
  clock: ManualClock,
  { integrationId, ...of }: Pick<SyncInput, 'integrationId' | 'stream'>,
): Promise<number> {
  const surroundings = () => ({ cancellationSignal: new AbortController().signal, info: { attempt: 1 } })
  const runs = syncActivities(framework, surroundings)
  const items = syncItemActivities(framework, surroundings)

  let runId = randomUUID()
  let opened = await runs.openSyncRun({ integrationId, ...of, runId })
  if (opened.kind === 'reclaimed') {
    for (const syncLogId of opened.syncLogIds) await runs.announceSyncRun({ integrationId, syncLogId })
    // The workflow ends here, and the next dispatch starts another one.
    runId = randomUUID()
    opened = await runs.openSyncRun({ integrationId, ...of, runId })
  }
  if (opened.kind === 'nothing to do') throw new SyncDidNotEnd(integrationId, opened.reason, null)
  if (opened.kind === 'reclaimed') throw new SyncDidNotEnd(integrationId, 'abandoned items were failed again', null)
  const { syncLogId } = opened
  const giveUp = async (reason: string): Promise<never> => {
    await runs.failSyncRun({ integrationId, syncLogId, reason })
    throw new SyncDidNotEnd(integrationId, reason, syncLogId)
  }

  let waiting: WaitingItem[] = []
  const wait = (item: { id: number; seconds: number }): void => {
    waiting.push({ id: item.id, dueAt: clock.now().getTime() + item.seconds * 1_000 })
  }
  if (opened.kind === 'adopted') {
    clock.advance(opened.waitSeconds)
    for (const item of (await runs.takeOverSyncRun({ integrationId, syncLogId })).waiting) wait(item)
  } else await listed(runs, clock, { integrationId, syncLogId }, giveUp)

  let batches = 0
  const run = (take: ItemBatch['take']): Promise<ItemBatchResult> => {
    batches += 1
    return items.processSyncItems({ syncLogId, take, claim: claimOf(runId, batches) })
  }
  let intakeFrom = 0
  let isDrained = false
  const note = (result: ItemBatchResult): void => {
    result.waiting.forEach(wait)
    if (result.deferredSeconds > 0)
      intakeFrom = Math.max(intakeFrom, clock.now().getTime() + result.deferredSeconds * 1_000)
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
  if (finalisation.fullListing) await runs.handleMissingItems({ integrationId, syncLogId })
  return syncLogId
}

/** The listing, try by try. The clock is moved on over the waits between them. */
async function listed(
  runs: ReturnType<typeof syncActivities>,
  clock: ManualClock,
  run: RunIds,
  giveUp: (reason: string) => Promise<never>,
): Promise<void> {
  let faults = 0
  let fruitless = 0
  for (let attempt = 1; ; attempt += 1)
    try {
      const listing = await runs.listSyncItems({ ...run, attempt })
      if (listing.kind === 'listed') return
      fruitless = listing.isBookmarked ? 0 : fruitless + 1
      if (fruitless > MAX_FRUITLESS_DEFERRALS)
        return await giveUp(
          `the listing failed: the provider's limit was met ${fruitless} times without a new bookmark`,
        )
      clock.advance(listing.retryAfterSeconds)
    } catch (error) {
      if (error instanceof SyncDidNotEnd) throw error
      const wait = LISTING_WAITS_SECONDS[faults]
      const isFinal = (error as { nonRetryable?: boolean }).nonRetryable === true
      if (isFinal || wait === undefined) return giveUp(`the listing failed: ${(error as Error).message}`)
      faults += 1
      clock.advance(wait)
    }
}
