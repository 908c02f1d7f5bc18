/**
 * A small run goes on in the activity that opens it: it lists, runs its items and ends there, as far as that is quick.
 *
 * Rule: docs/behaviour/sync-listing.md, "A small run".
 */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import type { BegunListing } from '../syncs/listing/listing-queries.ts'
import { BATCH_ROWS } from '../syncs/sync-jobs.ts'
import type { ItemBatchResult } from './item-activities.ts'
import { runItemBatch } from './item-activities.ts'
import type { Listing } from './listing-activities.ts'
import { listBegun } from './listing-activities.ts'
import type { Surroundings } from './surroundings.ts'
import { sdk } from './surroundings.ts'
import type { Finalisation } from './sync-ends.ts'
import { syncEndActivities } from './sync-ends.ts'
import type { RunSettings } from './sync-runs.ts'

/** What is not done by then is no small run: its workflow goes on with it, step by step. */
const QUICK_MS = 5_000

/** What the listing of a small run came to, if it did not come to its end. */
export type ListingFault =
  | { readonly kind: 'worker lost' }
  | { readonly kind: 'own'; readonly reason: string; readonly type?: string; readonly isFinal: boolean }

/** How far the opening went on with its run. */
export interface FirstSteps {
  readonly listing: Listing | ListingFault
  /** Not there: no item was begun. */
  readonly batch?: ItemBatchResult
  /** Not there: not all items have ended, or nobody has asked. */
  readonly end?: Finalisation
}

export interface BegunRun extends BegunListing {
  readonly row: IntegrationRow
  /** Of the run's first batch. */
  readonly claim: string
}

/**
 * @throws when the run is cancelled or the worker stops while it lists; what it holds is found by the next steps
 */
export async function firstSteps(
  framework: Framework,
  { claim, ...begun }: BegunRun,
  surroundings: Surroundings,
): Promise<FirstSteps> {
  const { cancellationSignal: cancelled, info } = surroundings
  const { id: integrationId } = begun.row
  const { id: syncLogId } = begun.log
  const quickUntil = performance.now() + QUICK_MS
  const leftMs = (): number => quickUntil - performance.now()
  const settings = runSettings(framework)
  let listed: number | null = null
  const slow = setTimeout(() => {
    const how = { syncLogId, phase: listed === null ? 'listing' : 'processing', listed } as const
    // Its end tells it, too.
    framework.workflows.tellSyncBegan(integrationId, how).catch((error: unknown) =>
      framework.logger.debug(
        {
          event: 'sync.beginning_untold',
          integration: integrationId,
          provider: begun.row.provider,
          sync_log: syncLogId,
          error: errorLine(error, 300),
        },
        'a run could not be told how far its beginning is',
      ),
    )
  }, QUICK_MS)
  try {
    const listing = await firstListing(framework, begun, surroundings)
    if (listing.kind === 'listed') listed = listing.listed
    const goesOn =
      listing.kind === 'listed' && listing.listed <= BATCH_ROWS && settings.itemTaskQueue === info.taskQueue
    if (!goesOn || leftMs() <= 0 || cancelled.aborted) return { listing }
    const first = { syncLogId, claim, take: { kind: 'pending', limit: BATCH_ROWS } } as const
    const how = { cancelled, startWithinMs: leftMs(), isFirst: true }
    const batch = listing.listed === 0 ? undefined : await runItemBatch(framework, first, how)
    const steps = { listing, ...(batch === undefined ? {} : { batch }) }
    // Its workflow has been told, and may have been paused.
    if (cancelled.aborted || leftMs() <= 0) return steps
    if (batch !== undefined && batch.succeeded + batch.failed < listing.listed) return steps
    const { finaliseSyncRun } = syncEndActivities(framework)
    return {
      ...steps,
      end: await finaliseSyncRun({ integrationId, syncLogId, announces: !settings.isListenedTo }),
    }
  } finally {
    clearTimeout(slow)
  }
}

/** As Temporal bounds the listing that is an activity of its own. */
async function firstListing(
  framework: Framework,
  begun: Omit<BegunRun, 'claim'>,
  surroundings: Surroundings,
): Promise<Listing | ListingFault> {
  const { job_timeout: callSeconds, lock_ttl: totalSeconds } = framework.config.sync
  const seconds = Math.min(callSeconds, totalSeconds)
  const timeUp = new AbortController()
  const timer = setTimeout(() => timeUp.abort(new Error('its time is up')), seconds * 1_000)
  const { cancellationSignal: cancelled } = surroundings
  const cancellationSignal = AbortSignal.any([cancelled, timeUp.signal])
  try {
    return await listBegun(framework, { ...begun, attempt: 1 }, { ...surroundings, cancellationSignal })
  } catch (error) {
    if (cancelled.aborted) throw error
    if (timeUp.signal.aborted)
      return {
        kind: 'own',
        reason: `it took longer than sync.${seconds < callSeconds ? 'lock_ttl' : 'job_timeout'} (${seconds} s)`,
        isFinal: seconds < callSeconds,
      }
    if (error instanceof sdk().ApplicationFailure)
      return {
        kind: 'own',
        reason: error.message,
        isFinal: error.nonRetryable === true,
        ...(error.type == null ? {} : { type: error.type }),
      }
    return { kind: 'own', reason: errorLine(error, 500), isFinal: false }
  } finally {
    clearTimeout(timer)
  }
}

/** Events that a run's announcement may tell. */
const END_EVENTS = ['SyncStalenessRecovered', 'IncidentClosed', 'SyncItemStuck', 'SyncCompleted'] as const

/** The settings when a run opens. They travel with the run as data, so that a replay sees what the run saw. */
export function runSettings({ config, listeners }: Framework): RunSettings {
  return {
    listingTimeoutSeconds: config.sync.job_timeout,
    listingTotalSeconds: config.sync.lock_ttl,
    itemTaskQueue: `${config.cache_prefix}-${config.sync.item_queue ?? config.sync.queue}`,
    isListenedTo: END_EVENTS.some((name) => listeners.has(name)),
  }
}
