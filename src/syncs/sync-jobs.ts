/** What the workflows about syncs take and give: plain data, which Temporal keeps as JSON. */
import type { Json } from '../framework/json.ts'
import type { RunStatus } from './run-rules.ts'

/** Items of one batch; a run that lists no more may be a small one. */
export const BATCH_ROWS = 200

/** Items of a listing that are to run: no item is stored for an unchanged record. */
export const pendingOf = ({
  listed,
  unchanged = 0,
}: {
  readonly listed: number
  readonly unchanged?: number
}): number => listed - unchanged

/** One stream of one integration. */
export interface SyncOf {
  readonly integrationId: number
  /** Null, or not given: the integration's own. */
  readonly stream?: string | null | undefined
}

/** One run: what its workflow takes. */
export interface SyncInput {
  readonly integrationId: number
  /** A key of the provider's `streams`; not given: the integration's own. */
  readonly stream?: string
  /** Set by a dispatch: the run does not open if another one has ended since the dispatch read its list. */
  readonly onlyIfDue?: boolean
  /** Set for a remembered start: the run does not open if another one has taken what was asked. */
  readonly onlyIfAsked?: boolean
}

/** An integration whose syncs have not ended clean for too long. */
export interface StaleSync {
  readonly integrationId: number
  /** Not there: the integration's own. */
  readonly stream?: string
  /** ISO 8601; null: never. */
  readonly lastSyncedAt: string | null
}

export interface DispatchResult {
  readonly due: number
  readonly started: number
  readonly alreadyRunning: number
  /** That became stale with this dispatch. */
  readonly stale: readonly StaleSync[]
  /** Integrations that are not stale any more. */
  readonly recovered: readonly number[]
}

/** One failed item again. */
export interface ProcessSyncItemInput {
  readonly itemId: number
  /** Attempts that it gets; default 1. No retry window holds for them. */
  readonly tries?: number
  /** Also where a later run has a newer copy, over which it would write older data. Default false. */
  readonly force?: boolean
}

export interface ProcessSyncItemResult {
  readonly itemId: number
  /**
   * `not failed`: the row is in a state that is not retried, or gone. `outdated`: a later run has a newer copy, so it was not
   * retried. `tried now`: it waited for another attempt, which its run, or the retry that has it, makes now.
   */
  readonly outcome: 'success' | 'failed' | 'not failed' | 'outdated' | 'tried now'
  /** As it is afterwards; null: the row is gone. */
  readonly status: string | null
  readonly attempts: number | null
  /** Of a failed item. */
  readonly error: string | null
}

export interface SkipSyncItemInput {
  readonly itemId: number
}

export interface SkipSyncItemResult {
  readonly itemId: number
  readonly integrationId: number
  /** Whose run listed it; null: the integration's own. */
  readonly stream: string | null
  /** Whether the cursor moved by it. */
  readonly cursorMoved: boolean
  /** What the provider's `reduceCheckpoints()` threw, so that the cursor stayed; null: it did not. */
  readonly reducerThrew: string | null
}

export interface ListFailedItemsInput {
  readonly integrationId?: number
  readonly stream?: string | undefined
  /** ISO 8601, inclusive: of the item's creation. */
  readonly since?: string
  /** Default 50. */
  readonly limit?: number
  /** Also those that a later run made up for: a retry of one would write older data over newer. Default false. */
  readonly all?: boolean
  /** Those that wait for another attempt, in place of those that have failed. Default false. */
  readonly waiting?: boolean
}

export interface FailedItem {
  readonly id: number
  readonly integrationId: number
  /** Null: the integration's own. */
  readonly stream: string | null
  readonly eventClass: string
  readonly externalId: string | null
  /** Of one that waits: what its last attempt ended with. */
  readonly error: string | null
  readonly attempts: number
  /** ISO 8601. */
  readonly createdAt: string
  /** Whether the cursor stays because of it. */
  readonly holdsCursor: boolean
  /** The item of a later run that made up for it; null: none did. */
  readonly madeUpForBy: number | null
  /** ISO 8601; of one that waits: when it is tried again. */
  readonly nextAttemptAt: string | null
}

/** The last attempt of an item that did not succeed. */
export interface LastFailure {
  readonly itemId: number
  readonly attempt: number
  /** Class and message, without secrets, 300 characters at most. */
  readonly error: string
}

/** The last call of a listing that failed. */
export interface ListingFailure {
  /** The error's class, or its code; null: its worker was lost, or its time was up. */
  readonly type: string | null
  /** Class and message, without secrets, 300 characters at most. */
  readonly error: string
  /** Number of the call, from 1. */
  readonly attempt: number
  /** ISO 8601. */
  readonly failedAt: string
  /** ISO 8601: when the next call begins; null: it has begun, or none comes. */
  readonly nextAttemptAt: string | null
}

export interface AdvanceCursorInput {
  readonly integrationId: number
  /** Needed where the provider has several. */
  readonly stream?: string | undefined
  /** Fails what has been in flight for too long first. */
  readonly reclaimStale?: boolean
  /** Runs looked at, newest first. Default 100. */
  readonly limit?: number
}

export interface AdvanceCursorResult {
  /** Runs that were finalised. */
  readonly runs: number
  readonly from: Json
  readonly to: Json
  /** Items that were failed as abandoned. */
  readonly reclaimed: number
}

/** A window of the past, listed and processed apart from the ordinary runs. */
export interface BackfillInput {
  readonly integrationId: number
  /** Needed where the provider has several. */
  readonly stream?: string | undefined
  /** ISO 8601, inclusive. */
  readonly from: string
  /** ISO 8601, exclusive. */
  readonly to: string
}

const DAY_MS = 86_400_000
/** Ten years, leap days included. A longer window is likely a typing error. */
const MAX_DAYS = 3_660

/**
 * What is wrong with the end of a backfill's window; null: nothing.
 *
 * @param fromMs of its beginning, in milliseconds since the epoch
 */
export function windowProblem(fromMs: number, toMs: number): string | null {
  const days = (toMs - fromMs) / DAY_MS
  if (days <= 0) {
    const [begin, end] = [new Date(fromMs).toISOString(), new Date(toMs).toISOString()]
    return `a time after ${begin}, the beginning, is allowed; ${end} was given`
  }
  if (days <= MAX_DAYS) return null
  return `at most ${MAX_DAYS} days after the beginning are allowed, ${Math.ceil(days)} were given`
}

export interface BackfillResult {
  readonly slices: number
  readonly listed: number
  readonly succeeded: number
  readonly failed: number
  /** Items with a newer copy in a later run, and failed ones that a person has let go of meanwhile. */
  readonly skipped: number
}

/** How far a run is: the query `progress`. */
export interface SyncProgress {
  readonly phase: 'held' | 'opening' | 'listing' | 'processing' | 'finalising' | 'done'
  /** Nothing new is taken in until `resume`. */
  readonly isPaused: boolean
  /** The run's row in the operation logs. */
  readonly syncLogId: number | null
  /** Null until the listing is complete. */
  readonly listed: number | null
  /** Listed records that were as they were handled last: no item runs for them. */
  readonly unchanged: number
  readonly succeeded: number
  readonly failed: number
  /** Items between two attempts. */
  readonly waiting: number
  /** ISO 8601: when the first of them is tried again; null: none waits. */
  readonly nextAttemptAt: string | null
  /** Null: none yet. */
  readonly lastFailure: LastFailure | null
  /** Null: no call of the listing has failed, or the listing is complete. */
  readonly listingFailure: ListingFailure | null
  /** Items that ended in a second, over the processing so far; null before the first. */
  readonly perSecond: number | null
  /** Seconds until the rest is done at that rate, and not before what waits is tried again; null while it can't be told. */
  readonly secondsLeft: number | null
  /** ISO 8601; until then nothing new is taken in: the provider's limit was met. Null: no limit. */
  readonly intakeFrom: string | null
  /** ISO 8601. */
  readonly startedAt: string
}

/** How far the activity that opens a run has got, where that takes its time: the signal `began`. */
export type SyncBegan = Pick<SyncProgress, 'syncLogId' | 'phase' | 'listed'> & {
  /** Not there: none. */
  readonly unchanged?: number
}

/** A run that has ended, with its items. */
export interface FinalisedRun {
  readonly kind: 'finalised'
  readonly status: RunStatus
  readonly succeeded: number
  readonly failed: number
  readonly skipped: number
  /** Records that were as they were handled last; not there: none. */
  readonly unchanged?: number
}

/** How a run ended, as its workflow says. */
export type SyncOutcome =
  | FinalisedRun
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'not this time'; readonly reason: string }
