/**
 * A whole run without Temporal: the activities of the workflow `syncIntegration`, in its order. Where the workflow waits,
 * the clock is moved on.
 *
 * Rule: docs/behaviour/syncs.md, "A run".
 */
import { randomUUID } from 'node:crypto'
import type { ItemBatch, ItemBatchResult } from '../activities/item-activities.ts'
import { syncItemActivities } from '../activities/item-activities.ts'
import type { TryDetails } from '../activities/small-run.ts'
import { syncActivities } from '../activities/sync-activities.ts'
import { claimOf } from '../claims/rules.ts'
import type { Framework } from '../framework/context.ts'
import type { Finalisation } from '../syncs/finalisation.ts'
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

/** The worker died while it performed an activity. */
export class WorkerLost extends Error {}

/** What a worker does for a run. */
export type SyncWork = ReturnType<typeof syncWork>

/**
 * Performs an activity, as Temporal does.
 *
 * @param once its errors, and the loss of its worker, are the caller's. Default false: it may be tried again
 */
export type Perform = <T>(work: (activities: SyncWork) => Promise<T>, options?: { readonly once?: true }) => Promise<T>

export function syncWork(framework: Framework) {
  const surroundings = () => ({ cancellationSignal: new AbortController().signal, info: { attempt: 1 } })
  return Object.assign(syncActivities(framework, surroundings), syncItemActivities(framework, surroundings))
}

/** @returns the id of the run's log @throws SyncDidNotEnd */
export function runSync(
  framework: Framework,
  clock: ManualClock,
  of: Pick<SyncInput, 'integrationId' | 'stream'>,
): Promise<number> {
  return playSync((work) => work(syncWork(framework)), clock, of)
}

/**
 * The same, by workers that may die.
 *
 * @param batchRows items of a batch. With one each outcome is stored before the next item runs
 */
export async function playSync(
  perform: Perform,
  clock: ManualClock,
  { integrationId, ...of }: Pick<SyncInput, 'integrationId' | 'stream'>,
  { batchRows = BATCH_ROWS } = {},
): Promise<number> {
  let runId = randomUUID()
  const open = () => perform((work) => work.openSyncRun({ integrationId, ...of, runId }))
  let opened = await open()
  if (opened.kind === 'reclaimed') {
    for (const syncLogId of opened.syncLogIds)
      await perform((work) => work.announceSyncRun({ integrationId, syncLogId }))
    // The workflow ends here, and the next dispatch starts another one.
    runId = randomUUID()
    opened = await open()
  }
  if (opened.kind === 'nothing to do') throw new SyncDidNotEnd(integrationId, opened.reason, null)
  if (opened.kind === 'reclaimed') throw new SyncDidNotEnd(integrationId, 'abandoned items were failed again', null)
  const { syncLogId } = opened
  const ids = { integrationId, syncLogId }
  /** @param told what the kit's caller reads; the log has the reason alone, as in production */
  const giveUp = async (reason: string, told = reason): Promise<never> => {
    await perform((work) => work.failSyncRun({ ...ids, reason }))
    throw new SyncDidNotEnd(integrationId, told, syncLogId)
  }

  let waiting: WaitingItem[] = []
  const wait = (item: { id: number; seconds: number }): void => {
    waiting.push({ id: item.id, dueAt: clock.now().getTime() + item.seconds * 1_000 })
  }
  if (opened.kind === 'adopted') {
    clock.advance(opened.waitSeconds)
    for (const item of (await perform((work) => work.takeOverSyncRun(ids))).waiting) wait(item)
  } else await listed(perform, clock, ids, (reason) => giveUp(reason, `the listing failed: ${reason}`))

  let batches = 0
  const run = (take: ItemBatch['take']): Promise<ItemBatchResult> => {
    batches += 1
    const claim = claimOf(runId, batches)
    return perform((work) => work.processSyncItems({ syncLogId, take, claim }))
  }
  let intakeFrom = 0
  let isDrained = false
  const note = (result: ItemBatchResult): void => {
    result.waiting.forEach(wait)
    if (result.deferredSeconds > 0)
      intakeFrom = Math.max(intakeFrom, clock.now().getTime() + result.deferredSeconds * 1_000)
  }
  const runItems = async (): Promise<void> => {
    for (;;) {
      const now = clock.now().getTime()
      const due = waiting.filter(({ dueAt }) => dueAt <= now).slice(0, batchRows)
      if (due.length > 0) {
        waiting = waiting.filter((item) => !due.includes(item))
        note(await run({ kind: 'due', ids: due.map(({ id }) => id) }))
      } else if (!isDrained && intakeFrom <= now) {
        const result = await run({ kind: 'pending', limit: batchRows })
        isDrained = result.claimed < batchRows
        note(result)
      } else if (waiting.length > 0 || !isDrained) {
        const moments = waiting.map(({ dueAt }) => dueAt)
        const next = Math.min(...(isDrained ? moments : [...moments, intakeFrom]))
        clock.advance((next - now) / 1_000)
      } else return
    }
  }

  let finalisation: Finalisation
  for (;;) {
    await runItems()
    finalisation = await perform((work) => work.finaliseSyncRun(ids))
    if (finalisation.kind !== 'unfinished') break
    // A worker that died could not say which items it had put to wait.
    finalisation.waiting.forEach(wait)
    isDrained = finalisation.pending === 0
    if (isDrained && finalisation.waiting.length === 0) throw new Error('items of the run are unfinished')
  }
  if (finalisation.kind === 'reducer threw') return giveUp(`reduceCheckpoints() threw: ${finalisation.reason}`)
  if (finalisation.kind === 'not this time') throw new SyncDidNotEnd(integrationId, finalisation.reason, syncLogId)
  const { fullListing } = finalisation
  await perform((work) => work.announceSyncRun(ids))
  if (fullListing) await perform((work) => work.handleMissingItems(ids))
  return syncLogId
}

/** The listing, try by try. The clock is moved on over the waits between them. */
async function listed(
  perform: Perform,
  clock: ManualClock,
  run: RunIds,
  giveUp: (reason: string) => Promise<never>,
): Promise<void> {
  let faults = 0
  let fruitless = 0
  for (let attempt = 1; ; attempt += 1)
    try {
      const listing = await perform((work) => work.listSyncItems({ ...run, attempt }), { once: true })
      if (listing.kind === 'listed') return
      fruitless = listing.isBookmarked ? 0 : fruitless + 1
      if (fruitless > MAX_FRUITLESS_DEFERRALS)
        return await giveUp(`the provider's limit put it off ${fruitless} times in a row without a new bookmark`)
      clock.advance(listing.retryAfterSeconds)
    } catch (error) {
      if (error instanceof SyncDidNotEnd) throw error
      if (error instanceof WorkerLost) continue
      const wait = LISTING_WAITS_SECONDS[faults]
      const { nonRetryable, details } = error as { nonRetryable?: boolean; details?: readonly TryDetails[] }
      if (nonRetryable === true || wait === undefined) return giveUp((error as Error).message)
      faults += 1
      clock.advance(Math.max(wait, details?.[0]?.minimumWaitSeconds ?? 0))
    }
}
