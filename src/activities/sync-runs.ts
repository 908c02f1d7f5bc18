/**
 * How a sync run begins: opened, or taken over from a dead one, and listed.
 *
 * Rule: docs/behaviour/sync-listing.md.
 */

import type { Framework } from '../framework/context.ts'
import type { AdoptedRun } from '../syncs/adoption.ts'
import { takeOverRun } from '../syncs/adoption.ts'
import type { RunIds } from '../syncs/run-rules.ts'
import type { RunStart } from '../syncs/start.ts'
import { openedBy, startRun } from '../syncs/start.ts'
import type { Listing, ListingInput } from './listing-activities.ts'
import { listItems } from './listing-activities.ts'
import type { FirstSteps } from './small-run.ts'
import { firstSteps, runSettings } from './small-run.ts'
import { temporalSurroundings } from './surroundings.ts'

export type { AdoptedRun } from '../syncs/adoption.ts'
export type { Listing } from './listing-activities.ts'

export type OpenedRun =
  | {
      readonly kind: 'open'
      readonly syncLogId: number
      readonly settings: RunSettings
      /** How far it went on at once. Not there: it was not asked to. */
      readonly first?: FirstSteps
    }
  /** A run whose workflow is gone left a whole listing behind: it is gone on with, after so long. */
  | {
      readonly kind: 'adopted'
      readonly syncLogId: number
      readonly settings: RunSettings
      readonly waitSeconds: number
    }
  /** Abandoned items were failed and their runs finalised: that is all this time. */
  | Extract<RunStart, { kind: 'reclaimed' | 'nothing to do' }>

/** What the workflow needs to know of the configuration; it travels as data, so that a replay sees what the run saw. */
export interface RunSettings {
  readonly listingTimeoutSeconds: number
  readonly listingTotalSeconds: number
  /** Task queue of the item batches, prefix included. */
  readonly itemTaskQueue: string
  /** Somebody listens to the end of runs: how long that takes nobody knows. */
  readonly isListenedTo: boolean
}

interface OpenInput {
  readonly integrationId: number
  /** Of the workflow's first run. */
  readonly runId: string
  /** Asked by the dispatch: no run is opened when another one has ended since the integration was found to be due. */
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
      // Opened before: that try may have got anywhere until its worker was lost. The workflow's own steps find out.
      if (start.listing === undefined) return { ...opened, first: { listing: { kind: 'worker lost' } } }
      const begun = { ...start.listing, claim: goesOnAs }
      return { ...opened, first: await firstSteps(framework, begun, surroundings()) }
    },

    /** The run that a workflow has opened, or has taken over; null: none. For one whose opening was cut off. */
    async findOpenedRun({ integrationId, runId }: Pick<OpenInput, 'integrationId' | 'runId'>): Promise<number | null> {
      return openedBy(framework, integrationId, runId)
    },

    /** One try of the listing. What an earlier one stored after its last bookmark goes first. */
    async listSyncItems(input: ListingInput): Promise<Listing> {
      return listItems(framework, input, surroundings())
    },

    /** Gives back rows that a dead workflow's batches, or lost ones of the run's own, still hold. May be run twice. */
    async takeOverSyncRun(run: RunIds & { readonly olderThanSeconds?: number }): Promise<AdoptedRun> {
      return takeOverRun(framework, run)
    },
  }
}
