/** What an activity takes from whoever runs it: Temporal's worker, or the testing kit in its own process. */
import { sdk } from './sdk.ts'

export interface Surroundings {
  /** Aborted when the worker stops or the run is cancelled. Temporal does not tell a local activity that the worker stops. */
  readonly cancellationSignal: AbortSignal
  /** Aborted when the worker's grace is over; it outlives the activity. Without it there is no worker. */
  readonly graceIsOver?: AbortSignal
  /** `attempt` is counted from 1. */
  readonly info: { readonly attempt: number }
}

export function temporalSurroundings(): Surroundings {
  return sdk().Context.current()
}

/** Those of a worker that says itself when its grace is over, for activities that are run as local ones, too. */
export function surroundingsUntil(graceIsOver: AbortSignal): () => Surroundings {
  return () => {
    const { cancellationSignal, info } = sdk().Context.current()
    return { cancellationSignal, info, graceIsOver }
  }
}
