/**
 * How a sync run begins: opened, or taken over from a dead one, and listed.
 *
 * Rule: docs/behaviour/sync-listing.md.
 */

import type { Framework } from '../framework/context.ts'
import type { AdoptedRun } from '../syncs/leftovers.ts'
import { takeOverRun } from '../syncs/leftovers.ts'
import type { Listing, ListingInput } from '../syncs/listing/listing-try.ts'
import { listItems } from '../syncs/listing/listing-try.ts'
import type { RunIds } from '../syncs/run-rules.ts'
import type { RunSettings, RunStart } from '../syncs/start.ts'
import { openedBy, runSettings, startRun } from '../syncs/start.ts'
import type { FirstSteps } from './small-run.ts'
import { failureOfTry, firstSteps } from './small-run.ts'
import { temporalSurroundings } from './surroundings.ts'

export type { AdoptedRun } from '../syncs/leftovers.ts'
export type { Listing } from '../syncs/listing/listing-try.ts'
export type { RunSettings } from '../syncs/start.ts'

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

interface OpenInput {
  readonly integrationId: number
  /** Of the workflow's first run. */
  readonly runId: string
  /** Asked by the dispatch: opens no run when another one has ended since the integration was found to be due. */
  readonly onlyIfDue?: boolean
  /** The claim of the run's first batch: a run that is opened goes on at once, as far as that is quick. */
  readonly goesOnAs?: string
}

export function syncRunActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Opens the run's log, once what an earlier run left behind is settled, and goes on with it if asked to. A second try
     * finds what the first one did, and leaves the rest to other steps.
     */
    async openSyncRun({ integrationId, goesOnAs, ...run }: OpenInput): Promise<OpenedRun> {
      const start = await startRun(framework, integrationId, { ...run, lists: goesOnAs !== undefined })
      if (start.kind === 'reclaimed' || start.kind === 'nothing to do') return start
      const settings = runSettings(framework)
      if (start.kind === 'adopted') return { ...start, settings }
      const opened = { kind: start.kind, syncLogId: start.syncLogId, settings }
      if (goesOnAs === undefined) return opened
      // An earlier try opened it, and got to an unknown point before its worker was lost. The workflow's own steps find out.
      if (start.listing === undefined) return { ...opened, first: { listing: { kind: 'worker lost' } } }
      const begun = { ...start.listing, claim: goesOnAs }
      return { ...opened, first: await firstSteps(framework, begun, surroundings()) }
    },

    /** The run that a workflow has opened, or has taken over; null: it has none. For one whose opening was cut off. */
    async findOpenedRun({ integrationId, runId }: Pick<OpenInput, 'integrationId' | 'runId'>): Promise<number | null> {
      return openedBy(framework, integrationId, runId)
    },

    /** One try of the listing. It first deletes what an earlier one stored after its last bookmark. */
    async listSyncItems(input: ListingInput): Promise<Listing> {
      const tried = await listItems(framework, input, surroundings().cancellationSignal)
      if (tried.kind === 'failed') throw failureOfTry(tried)
      return tried
    },

    /** Gives back rows that a dead workflow's batches, or lost ones of the run's own, still hold. May be run twice. */
    async takeOverSyncRun(run: RunIds & { readonly olderThanSeconds?: number }): Promise<AdoptedRun> {
      return takeOverRun(framework, run)
    },
  }
}
