/** What an activity gets from its runner: Temporal's worker, or the testing kit in its own process. */
import { createRequire } from 'node:module'

export interface Surroundings {
  /** Aborted when the worker stops or the run is cancelled. Temporal does not tell a local activity that the worker stops. */
  readonly cancellationSignal: AbortSignal
  /** Whether it was cancelled because Temporal counts the activity as dead. It may live, if Temporal was away. */
  isForgotten?(): boolean
  /** Aborted when the worker's grace is over; it outlives the activity. Without it there is no worker. */
  readonly graceIsOver?: AbortSignal
  /** Aborted as soon as the worker begins to stop. */
  readonly stopping?: AbortSignal
  /** Has the stopping worker go on with its workflows for a moment, until this has ended. */
  beforeEnd?(work: Promise<unknown>): void
  /** Whether such work is still under way. */
  isHandingOver?(): boolean
  /** `attempt` is counted from 1. `heartbeatDetails` are those of an earlier try, which has ended without a result. */
  readonly info: { readonly attempt: number; readonly taskQueue?: string; readonly heartbeatDetails?: unknown }
  /** Sends a heartbeat with details. Missing if Temporal does not run the activity. */
  heartbeat?(details: unknown): void
}

export function temporalSurroundings(): Surroundings {
  return sdk().Context.current()
}

/** A worker's own signals. */
export interface WorkerEnd {
  /** Aborted as soon as it begins to stop. */
  readonly stopping: AbortSignal
  /** Aborted when its grace is over. */
  readonly graceIsOver: AbortSignal
  /** As in {@link Surroundings}. */
  beforeEnd(work: Promise<unknown>): void
  isHandingOver(): boolean
}

/** The surroundings in a worker that signals its stop and the end of its grace itself. */
export function surroundingsUntil(end: WorkerEnd): () => Surroundings {
  return () => {
    const context = sdk().Context.current()
    const { cancellationSignal, info } = context
    const isForgotten = (): boolean => {
      const why = context.cancellationDetails
      return why?.notFound === true || why?.timedOut === true
    }
    return { cancellationSignal, isForgotten, info, heartbeat: (details) => context.heartbeat(details), ...end }
  }
}

type Sdk = typeof import('@temporalio/activity')

const require = createRequire(import.meta.url)

/**
 * Temporal's package for activities, loaded when a worker first needs it: the testing kit runs the same activities without Temporal.
 * An import of the package by name gives the same module, so `instanceof` holds.
 */
export function sdk(): Sdk {
  return require('@temporalio/activity') as Sdk
}
