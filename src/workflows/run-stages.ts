/** Where a sync run is. */
import type { RunSettings } from '../activities/sync-runs.ts'
import type { SyncOutcome } from '../core/sync-jobs.ts'
import type { ItemRunState } from './item-run.ts'
import type { ListingCall, ListingState } from './listing-loop.ts'
import type { ControlState } from './run-controls.ts'
import type { ProgressState } from './run-progress.ts'

/** What a run that goes on in a new history takes along. */
export interface RunState {
  readonly controls: ControlState
  readonly progress: ProgressState
  readonly stage: RunStage
}

/** Where a run is: `held` by a pause before it was open, listing, or at its items. */
export type RunStage =
  | { readonly kind: 'held' }
  | { readonly kind: 'opening' }
  | { readonly kind: 'listing'; readonly run: OpenRun; readonly listing: ListingState; readonly first?: ListingCall }
  | { readonly kind: 'items'; readonly run: OpenRun; readonly items: ItemRunState; readonly reducerTries: number }

export interface OpenRun {
  readonly integrationId: number
  readonly syncLogId: number
  readonly settings: RunSettings
}

/** What a stage ends with: the next one, the run's end, or that the history is long. */
export type StageEnd =
  | { readonly kind: 'next'; readonly stage: RunStage }
  | { readonly kind: 'over'; readonly outcome: SyncOutcome }
  | { readonly kind: 'long history'; readonly stage: RunStage }
