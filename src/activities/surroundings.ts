/** What an activity takes from whoever runs it: Temporal's worker, or the testing kit in its own process. */
import { sdk } from './sdk.ts'

export interface Surroundings {
  /** Aborted when the worker stops or the run is cancelled. */
  readonly cancellationSignal: AbortSignal
  /** `attempt` is counted from 1. */
  readonly info: { readonly attempt: number }
}

export function temporalSurroundings(): Surroundings {
  return sdk().Context.current()
}
