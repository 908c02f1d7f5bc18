/**
 * A small run goes on in the activity that opens it: it lists, runs its items and ends there, as far as that is quick.
 *
 * Rule: docs/behaviour/sync-listing.md, "A small run".
 */

import type { ApplicationFailure } from '@temporalio/activity'
import type { Framework } from '../framework/context.ts'
import { boundLogger, errorLine, integrationLogger } from '../framework/logger.ts'
import { LONGEST_TIMER_MS } from '../framework/waiting.ts'
import type { Finalisation } from '../syncs/finalisation.ts'
import { endRun } from '../syncs/finalisation.ts'
import type { BegunListing } from '../syncs/listing/listing-queries.ts'
import type { FailedTry, Listing } from '../syncs/listing/listing-try.ts'
import { listBegun } from '../syncs/listing/listing-try.ts'
import { runSettings } from '../syncs/start.ts'
import type { SyncBegan } from '../syncs/sync-jobs.ts'
import { BATCH_ROWS, pendingOf } from '../syncs/sync-jobs.ts'
import type { SyncRow } from '../syncs/sync-rows.ts'

import { asFailure } from './activity-failures.ts'
import type { ItemBatchResult } from './item-activities.ts'
import { runItemBatch } from './item-activities.ts'
import type { Surroundings } from './surroundings.ts'

/** A run that has not ended by then is no small one: its workflow goes on with it, step by step. */
const QUICK_MS = 5_000

/** Why the listing of a small run did not come to its end. `tookMs`: as that of a deferral; absent: it is not known. */
export type ListingFault =
  | { readonly kind: 'worker lost'; readonly tookMs?: number }
  | {
      readonly kind: 'own'
      readonly reason: string
      readonly type?: string
      readonly isFinal: boolean
      readonly tookMs?: number
      /** As of a failed try. */
      readonly minimumWaitSeconds?: number
    }

/** How far the opening went on with its run. */
export interface FirstSteps {
  readonly listing: Listing | ListingFault
  /** Absent: no item was begun. */
  readonly batch?: ItemBatchResult
  /** Absent: not all items have ended, or the time was up. */
  readonly end?: Finalisation
}

interface BegunRun extends BegunListing {
  readonly row: SyncRow
  /** Of the run's first batch. */
  readonly claim: string
}

/** @throws when the run is cancelled or the worker stops while it lists; the next steps find what it holds */
export async function firstSteps(
  framework: Framework,
  { claim, ...begun }: BegunRun,
  { cancellationSignal: cancelled, info }: Surroundings,
): Promise<FirstSteps> {
  const { id: integrationId } = begun.row
  const { id: syncLogId } = begun.log
  const quickUntil = performance.now() + QUICK_MS
  const leftMs = (): number => quickUntil - performance.now()
  const settings = runSettings(framework)
  let reached: Omit<SyncBegan, 'syncLogId'> = { phase: 'listing', listed: null }
  const slow = setTimeout(() => {
    // The workflow learns it from the result, too.
    framework.workflows
      .tellSyncBegan({ integrationId, stream: begun.row.stream }, { syncLogId, ...reached })
      .catch((error: unknown) =>
        boundLogger(integrationLogger(framework, begun.row), { sync_log: syncLogId }).debug(
          { event: 'sync.beginning_untold', error: errorLine(error, 300) },
          'a run could not be told how far its beginning is',
        ),
      )
  }, QUICK_MS)
  try {
    const listing = await firstListing(framework, begun, cancelled)
    if (listing.kind === 'listed') {
      const { listed, unchanged } = listing
      reached = { phase: 'processing', listed, ...(unchanged === undefined ? {} : { unchanged }) }
    }
    const goesOn =
      listing.kind === 'listed' && pendingOf(listing) <= BATCH_ROWS && settings.itemTaskQueue === info.taskQueue
    if (!goesOn || leftMs() <= 0 || cancelled.aborted) return { listing }
    const first = { syncLogId, claim, take: { kind: 'pending', limit: BATCH_ROWS } } as const
    const how = { cancelled, startWithinMs: leftMs(), isFirst: true }
    const batch = pendingOf(listing) === 0 ? undefined : await runItemBatch(framework, first, how)
    const steps = { listing, ...(batch === undefined ? {} : { batch }) }
    // Its workflow was told by then, and may have been paused.
    if (cancelled.aborted || leftMs() <= 0) return steps
    if (batch !== undefined && batch.succeeded + batch.failed < pendingOf(listing)) return steps
    const announces = !settings.isListenedTo
    return { ...steps, end: await endRun(framework, { integrationId, syncLogId }, { announces }) }
  } finally {
    clearTimeout(slow)
  }
}

/** As Temporal bounds the listing that is an activity of its own. */
async function firstListing(
  framework: Framework,
  begun: Omit<BegunRun, 'claim'>,
  cancelled: AbortSignal,
): Promise<Listing | ListingFault> {
  const { job_timeout: callSeconds, lock_ttl: totalSeconds } = framework.config.sync
  const seconds = Math.min(callSeconds, totalSeconds)
  const timeUp = new AbortController()
  const timer = setTimeout(() => timeUp.abort(new Error('its time is up')), Math.min(seconds * 1_000, LONGEST_TIMER_MS))
  try {
    const signal = AbortSignal.any([cancelled, timeUp.signal])
    const tried = await listBegun(framework, { ...begun, attempt: 1 }, signal)
    if (tried.kind !== 'failed') return tried
    const { message: reason, type } = failureOfTry(tried)
    return { kind: 'own', reason, isFinal: tried.isFinal, ...(type == null ? {} : { type }), ...detailsOf(tried) }
  } catch (error) {
    if (cancelled.aborted) throw error
    if (!timeUp.signal.aborted) return { kind: 'own', reason: errorLine(error, 500), isFinal: false }
    const setting = seconds < callSeconds ? 'lock_ttl' : 'job_timeout'
    return {
      kind: 'own',
      reason: `it took longer than sync.${setting} (${seconds} s)`,
      isFinal: seconds < callSeconds,
      tookMs: seconds * 1_000,
    }
  } finally {
    clearTimeout(timer)
  }
}

export function failureOfTry(tried: FailedTry): ApplicationFailure {
  const { error, secrets, isFinal } = tried
  return asFailure(error, { secrets, nonRetryable: isFinal, details: [detailsOf(tried)], category: 'BENIGN' })
}

/** What a workflow learns of a failed try beside its error. */
export type TryDetails = Pick<FailedTry, 'tookMs' | 'minimumWaitSeconds'>

function detailsOf({ tookMs = 0, minimumWaitSeconds }: FailedTry): TryDetails {
  return { tookMs, ...(minimumWaitSeconds === undefined ? {} : { minimumWaitSeconds }) }
}
