/** A sync run from its dispatch to its end, step by step, and the commands about syncs. Rule: docs/behaviour/syncs.md. */

import { insideSync } from '../calls/inside-sync.ts'
import { isFinalFault } from '../calls/retry.ts'
import { Ending } from '../claims/ending.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { asPartOf } from '../framework/origin.ts'
import { announceOnce } from '../syncs/announcement.ts'
import type { Slice } from '../syncs/backfill.ts'
import { openSlice } from '../syncs/backfill.ts'
import { advanceCursor } from '../syncs/by-hand.ts'
import { cancelRun, failRun } from '../syncs/cut-short.ts'
import type { Pace } from '../syncs/dispatch.ts'
import { startDueSyncs } from '../syncs/dispatch.ts'
import type { Finalisation } from '../syncs/finalisation.ts'
import { endRun } from '../syncs/finalisation.ts'
import { runBegins } from '../syncs/items/giving-way.ts'
import { skipSyncItem } from '../syncs/items/item-acts.ts'
import { listFailedItems } from '../syncs/items/item-list.ts'
import type { AdoptedRun } from '../syncs/leftovers.ts'
import { takeOverRun } from '../syncs/leftovers.ts'
import type { Listing, ListingInput } from '../syncs/listing/listing-try.ts'
import { listItems } from '../syncs/listing/listing-try.ts'
import { handleMissing, missingItemsOf } from '../syncs/listing/missing.ts'
import { runLogger } from '../syncs/run-logger.ts'
import type { RunIds } from '../syncs/run-rules.ts'
import { evaluateStaleSyncs } from '../syncs/staleness.ts'
import type { RunSettings, RunStart } from '../syncs/start.ts'
import { openedBy, runSettings, startRun } from '../syncs/start.ts'
import type {
  AdvanceCursorInput,
  AdvanceCursorResult,
  DispatchResult,
  FailedItem,
  ListFailedItemsInput,
  SkipSyncItemInput,
  SkipSyncItemResult,
  SyncInput,
} from '../syncs/sync-jobs.ts'
import { asFailure } from './activity-failures.ts'
import { fittingResult } from './result-size.ts'
import type { FirstSteps } from './small-run.ts'
import { failureOfTry, firstSteps } from './small-run.ts'
import { temporalSurroundings } from './surroundings.ts'

export type OpenedRun =
  | {
      readonly kind: 'open'
      readonly syncLogId: number
      readonly settings: RunSettings
      /** How far it went on at once. Absent: it was not asked to. */
      readonly first?: FirstSteps
    }
  | (Extract<RunStart, { kind: 'adopted' }> & { readonly settings: RunSettings })
  /** Abandoned items were failed and their runs finalised: that is all this time. */
  | Extract<RunStart, { kind: 'reclaimed' | 'nothing to do' }>

export interface OpenInput extends SyncInput {
  /** Of the workflow's first run. */
  readonly runId: string
  /** The claim of the run's first batch: a run that is opened goes on at once, as far as that is quick. */
  readonly goesOnAs?: string
}

/** @param pace of the dispatch; default: the real one */
export function syncActivities(framework: Framework, surroundings = temporalSurroundings, pace?: Pace) {
  return {
    /** Harmless to repeat: a run's id refuses a second start. @throws as the dispatch does: the next try starts the rest */
    async startDueSyncs(): Promise<Pick<DispatchResult, 'due' | 'started' | 'alreadyRunning'>> {
      try {
        return await startDueSyncs(framework, surroundings().cancellationSignal, pace)
      } catch (error) {
        if (!isIntegrationsError(error, 'backend_unreachable')) throw error
        throw asFailure(error, { secrets: [], nonRetryable: false })
      }
    },

    /** Notes which integrations became stale or recovered, and tells the listeners of each edge. */
    async evaluateStaleness(): Promise<Pick<DispatchResult, 'stale' | 'recovered'>> {
      return evaluateStaleSyncs(framework)
    },

    /**
     * Opens the run's log, once what an earlier run left behind is settled, and goes on with it if asked to. A second try
     * finds what the first one did, and leaves the rest to other steps.
     */
    async openSyncRun({ integrationId, stream, goesOnAs, ...run }: OpenInput): Promise<OpenedRun> {
      const of = { integrationId, stream: stream ?? null }
      const isBegun = runBegins(framework)
      let isSmall = false
      try {
        const start = await startRun(framework, of, { ...run, lists: goesOnAs !== undefined })
        if (start.kind === 'reclaimed' || start.kind === 'nothing to do') return start
        const settings = runSettings(framework)
        if (start.kind === 'adopted') return { ...start, settings }
        const opened = { kind: start.kind, syncLogId: start.syncLogId, settings }
        if (goesOnAs === undefined) return opened
        // An earlier try opened it, and got to an unknown point before its worker was lost. The workflow's own steps find out.
        // How long it listed is not known, either: the time until now may be that of a deployment without workers.
        if (start.listing === undefined) return { ...opened, first: { listing: { kind: 'worker lost', tookMs: 0 } } }
        const begun = { ...start.listing, claim: goesOnAs }
        const first = await firstSteps(framework, begun, surroundings())
        isSmall = first.end !== undefined
        return { ...opened, first }
      } finally {
        isBegun(isSmall)
      }
    },

    /** The run that a workflow has opened, or has taken over; null: it has none. For one whose opening was cut off. */
    async findOpenedRun({
      runId,
      ...of
    }: Pick<OpenInput, 'integrationId' | 'stream' | 'runId'>): Promise<number | null> {
      return openedBy(framework, of, runId)
    },

    /** A second try finds the log of the first. */
    async openBackfillSlice(
      slice: Slice & { readonly startedAt: string },
    ): Promise<Extract<OpenedRun, { kind: 'open' | 'nothing to do' }>> {
      const opened = await openSlice(framework, slice)
      return opened.kind === 'nothing to do' ? opened : { ...opened, settings: runSettings(framework) }
    },

    /** One try of the listing. It first deletes what an earlier one stored after its last bookmark. */
    async listSyncItems(input: ListingInput): Promise<Listing> {
      const tried = await listItems(framework, input, surroundings().cancellationSignal)
      if (tried.kind === 'failed') throw failureOfTry(tried)
      return tried
    },

    /** May be run twice: the rows that the first try gave back are no longer held. */
    async takeOverSyncRun(run: RunIds & { readonly olderThanSeconds?: number }): Promise<AdoptedRun> {
      return takeOverRun(framework, run)
    },

    /** May be run twice: the second try finds the run ended. */
    async failSyncRun({ reason, ...run }: RunIds & { reason: string }): Promise<void> {
      if (await failRun(framework, run, reason))
        (await runLogger(framework, run)).error({ event: 'sync.failed', error: reason }, 'sync run failed')
    },

    /**
     * Ends the run once all its items have ended: status, counts, cursor and times. A second try finds it ended.
     *
     * @param announces announces the run, too, as `announceSyncRun` does
     */
    async finaliseSyncRun({ announces, ...run }: RunIds & { readonly announces?: boolean }): Promise<Finalisation> {
      return endRun(framework, run, { announces: announces === true })
    },

    /**
     * Tells the listeners how the run ended. At least once: a worker may die between telling and noting it. A worker that stops
     * before a listener has ended fails this try, and another worker tells all of them again.
     */
    async announceSyncRun(run: RunIds): Promise<void> {
      await announceOnce(framework, run)
    },

    /** May be run twice: the second try finds the run ended. */
    async cancelSyncRun(run: RunIds): Promise<void> {
      if (await cancelRun(framework, run))
        (await runLogger(framework, run)).info({ event: 'sync.cancelled' }, 'sync run cancelled')
    },

    /**
     * Tells the provider which mapped ids two full listings in a row did not name. At least once: a second try tells all of
     * them again. When the worker stops, the provider's call has its time to end.
     *
     * @returns the number of ids that it was told
     */
    async handleMissingItems(run: RunIds): Promise<{ missing: number }> {
      const { cancellationSignal: signal } = surroundings()
      const target = await missingItemsOf(framework, run)
      if (target === null) return { missing: 0 }
      const ending = new Ending(signal)
      try {
        const tell = () => insideSync({ signal }, () => handleMissing(framework, target, signal, ending.signal))
        const missing = await asPartOf(framework.tables, 'run', run.syncLogId, tell)
        return { missing }
      } catch (error) {
        // Temporal tells a cancellation and a stopping worker apart by this very error, and tries again after the second.
        signal.throwIfAborted()
        const nonRetryable = isFinalFault(error, target.provider)
        throw asFailure(error, { secrets: secretsIn(target.integration), nonRetryable })
      } finally {
        ending.release()
      }
    },

    /** May be run twice: a second try does what the first one has left. */
    skipFailedItem: ({ itemId }: SkipSyncItemInput): Promise<SkipSyncItemResult> =>
      skipSyncItem(framework, itemId, { isTriedAgain: surroundings().info.attempt > 1 }),
    listFailedSyncItems: async (input: ListFailedItemsInput): Promise<FailedItem[]> =>
      fittingResult('list-failed-items', await listFailedItems(framework, input)),
    advanceSyncCursor: (input: AdvanceCursorInput): Promise<AdvanceCursorResult> => advanceCursor(framework, input),
  }
}
