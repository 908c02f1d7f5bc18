/**
 * The listing of a sync run or of a backfill's slice.
 *
 * Rule: docs/behaviour/sync-listing.md, "Faults, lost workers, deferrals".
 */
import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  isCancellation,
  proxyActivities,
  sleep,
  TimeoutFailure,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { ListingFault, TryDetails } from '../activities/small-run.ts'
import { delayAfter } from '../syncs/items/item-rules.ts'
import type { Listing } from '../syncs/listing/listing-try.ts'
import type { RunSettings } from '../syncs/start.ts'
import type { ListingFailure } from '../syncs/sync-jobs.ts'
import { pendingOf } from '../syncs/sync-jobs.ts'
import { listing, step } from './activity-options.ts'
import { withRemedy } from './readable-failure.ts'
import { hasLongHistory } from './workflow-end.ts'

/** The listing is given up after this number of faults of its own. */
const MAX_FAULTS = 3
const FAULT_WAITS_SECONDS = [10, 30]
/** The listing is given up after this number of lost workers: it may be what kills them. */
const MAX_LOST_WORKERS = 5
/** Most deferrals in a row without a new bookmark. */
const MAX_IDLE_DEFERRALS = 3
/** Of a failure, in the query `progress`: as long as that of an item. */
const MAX_TOLD_LENGTH = 300
/** With less than this left of `sync.lock_ttl`, another call is not made. */
const LEAST_LEFT_MS = 1_000

/** How far a listing is. Carried over when the run goes on in a new history. */
export interface ListingState {
  readonly calls: number
  readonly faults: number
  readonly lostWorkers: number
  /** Deferrals in a row without a new bookmark. */
  readonly idleDeferrals: number
  /** Of calls and of the waits after faults. Deferrals, pauses and waits for a worker do not count. */
  readonly spentMs: number
}

export const NEW_LISTING: ListingState = { calls: 0, faults: 0, lostWorkers: 0, idleDeferrals: 0, spentMs: 0 }

export type ListingEnd =
  | { readonly kind: 'listed'; readonly listed: number; readonly unchanged: number; readonly pending: number }
  /** `remedied`: the reason, with the command that is its remedy where there is one. */
  | { readonly kind: 'given up'; readonly reason: string; readonly remedied: string }
  | { readonly kind: 'long history'; readonly state: ListingState }

/** How one call ended. */
export interface ListingCall {
  readonly result: Listing | ListingFault
  /** From its request to its result, a wait for a worker included. Counts where the result does not say what it took. */
  readonly spentMs: number
}

/** A run that is open: the ids that its steps name, and its settings as of its start. */
export interface OpenRun {
  readonly integrationId: number
  readonly syncLogId: number
  readonly settings: RunSettings
}

const { failSyncRun } = proxyActivities<Activities>(step)

/** Ends a run that is given up: also when it is being cancelled. */
export async function giveUpRun({ integrationId, syncLogId }: OpenRun, reason: string): Promise<void> {
  await CancellationScope.nonCancellable(() => failSyncRun({ integrationId, syncLogId, reason }))
}

export interface ListingGate {
  /** A paused run makes no new call to its provider. */
  untilResumed(): Promise<void>
  /** @param moment of the next call, in milliseconds since the epoch */
  onDeferred?(moment: number): void
  onFailed?(failure: ListingFailure): void
}

/**
 * Makes the whole listing, call after call. Three faults of its own (10 and 30 s apart, or a breaker's cooldown), five lost workers or
 * `sync.lock_ttl` end it. A deferral by the provider counts as none of these while the listing makes progress.
 *
 * @param first the call that the run's opening made; null: it made no call
 */
export async function listWhole(
  run: OpenRun,
  carried: ListingState,
  gate: ListingGate,
  first: ListingCall | null = null,
): Promise<ListingEnd> {
  const { integrationId, settings } = run
  let state = carried
  let called = first
  const failed = (type: string | null, error: string, waitMs: number | null): void =>
    gate.onFailed?.({
      type,
      error: error.slice(0, MAX_TOLD_LENGTH),
      attempt: state.calls,
      failedAt: new Date().toISOString(),
      nextAttemptAt: waitMs === null ? null : new Date(Date.now() + waitMs).toISOString(),
    })
  for (;;) {
    if (called === null) {
      await gate.untilResumed()
      if (hasLongHistory()) return { kind: 'long history', state }
      const leftMs = settings.listingTotalSeconds * 1_000 - state.spentMs
      if (leftMs < LEAST_LEFT_MS)
        return givenUp(`it took longer than sync.lock_ttl (${settings.listingTotalSeconds} s)`)
      called = await call(run, state.calls + 1, leftMs)
    }
    const { result, spentMs } = called
    called = null
    const tookMs = ('tookMs' in result ? result.tookMs : undefined) ?? spentMs
    state = { ...state, calls: state.calls + 1, spentMs: state.spentMs + tookMs }
    if (result.kind === 'listed') {
      const { listed, unchanged = 0 } = result
      return { kind: 'listed', listed, unchanged, pending: pendingOf(result) }
    }
    if (result.kind === 'deferred') {
      state = { ...state, idleDeferrals: result.isBookmarked ? 0 : state.idleDeferrals + 1 }
      if (state.idleDeferrals > MAX_IDLE_DEFERRALS)
        return givenUp(`the provider's limit put it off ${state.idleDeferrals} times in a row without a new bookmark`)
      gate.onDeferred?.(Date.now() + result.retryAfterSeconds * 1_000)
      await sleep(result.retryAfterSeconds * 1_000, { summary: "the listing goes on when the provider's limit ends" })
    } else if (result.kind === 'worker lost') {
      state = { ...state, lostWorkers: state.lostWorkers + 1 }
      failed(null, 'its worker was lost', null)
      if (state.lostWorkers >= MAX_LOST_WORKERS) return givenUp(`its worker was lost ${state.lostWorkers} times`)
    } else {
      state = { ...state, faults: state.faults + 1 }
      const isLast = result.isFinal || state.faults >= MAX_FAULTS
      const { minimumWaitSeconds = 0 } = result
      const waitMs = Math.max(delayAfter(state.faults, FAULT_WAITS_SECONDS), minimumWaitSeconds) * 1_000
      // Such as an open circuit's cooldown: the run would sleep, and could not try then.
      const isTooLate = waitMs + LEAST_LEFT_MS > settings.listingTotalSeconds * 1_000 - state.spentMs
      failed(result.type || null, result.reason, isLast || isTooLate ? null : waitMs)
      if (isLast) return givenUp(result.reason, result.type, integrationId)
      if (isTooLate) {
        const reason = `${result.reason}; sync.lock_ttl (${settings.listingTotalSeconds} s) leaves no time for another try`
        return givenUp(reason, result.type, integrationId)
      }
      await sleep(waitMs, { summary: `after fault ${state.faults} of ${MAX_FAULTS} of the listing` })
      state = { ...state, spentMs: state.spentMs + waitMs }
    }
  }
}

async function call(
  { integrationId, syncLogId, settings }: OpenRun,
  attempt: number,
  leftMs: number,
): Promise<ListingCall> {
  const { listSyncItems } = proxyActivities<Activities>({
    ...listing(settings.listingTimeoutSeconds, leftMs),
    summary: `listing of run ${syncLogId}, call ${attempt}`,
  })
  const callMs = Math.min(settings.listingTimeoutSeconds * 1_000, leftMs)
  const calledAt = Date.now()
  const ended = (result: ListingCall['result']): ListingCall => ({
    result,
    spentMs: Math.min(Date.now() - calledAt, callMs),
  })
  try {
    return ended(await listSyncItems({ integrationId, syncLogId, attempt }))
  } catch (error) {
    if (!(error instanceof ActivityFailure) || isCancellation(error)) throw error
    return ended(faultOf(error, settings, callMs))
  }
}

function faultOf({ cause }: ActivityFailure, settings: RunSettings, callMs: number): ListingFault {
  if (cause instanceof TimeoutFailure) {
    if (cause.timeoutType === 'HEARTBEAT')
      return { kind: 'worker lost', tookMs: 0, ...detailsOf(cause.lastHeartbeatDetails) }
    if (cause.timeoutType === 'START_TO_CLOSE' && callMs === settings.listingTimeoutSeconds * 1_000)
      return {
        kind: 'own',
        reason: `it took longer than sync.job_timeout (${settings.listingTimeoutSeconds} s)`,
        isFinal: false,
        tookMs: callMs,
      }
    return {
      kind: 'own',
      reason: `it took longer than sync.lock_ttl (${settings.listingTotalSeconds} s)`,
      isFinal: true,
    }
  }
  if (cause instanceof ApplicationFailure) {
    // The SDK's report of a worker that was asked to stop while the listing ran.
    if (cause.type === 'WorkerShutdown') return { kind: 'worker lost', tookMs: 0 }
    const isFinal = cause.nonRetryable === true
    // One that does not say its time never began to list, as while Postgres is away. Faults in a row are bounded.
    return {
      kind: 'own',
      reason: cause.message,
      type: cause.type ?? '',
      isFinal,
      tookMs: 0,
      ...detailsOf(cause.details?.[0]),
    }
  }
  return { kind: 'own', reason: cause?.message ?? 'an unknown fault', isFinal: false }
}

/** @param details of a failure, or of a heartbeat; undefined or null: it has none */
function detailsOf(details: unknown): TryDetails {
  const { tookMs, minimumWaitSeconds } = (details ?? {}) as TryDetails
  return {
    ...(tookMs === undefined ? {} : { tookMs }),
    ...(minimumWaitSeconds === undefined ? {} : { minimumWaitSeconds }),
  }
}

function givenUp(reason: string, type = '', integrationId?: number): ListingEnd {
  return { kind: 'given up', reason, remedied: withRemedy(reason, type, integrationId) }
}
