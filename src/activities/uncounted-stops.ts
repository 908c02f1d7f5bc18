/**
 * Activities that Temporal tries a few times only. That their worker stopped is none of those tries: how often it has is kept in
 * the heartbeat's details, which outlast a try. Rule: docs/behaviour/workers.md, "The end of a worker".
 */
import { failureOf } from './failures.ts'
import { sdk } from './sdk.ts'
import type { Surroundings } from './surroundings.ts'

/** As `repeatable` of workflows/activity-options.ts counts them; lost workers are among them. */
const MAX_TRIES = 3
/** Another worker takes it up; less than the wait after a fault. */
const AGAIN_MS = 1_000

/**
 * Runs one try of it.
 *
 * @param asFailure what the workflow is told of a fault; `isLast`: it is not tried again
 * @throws ApplicationFailure; of a workflow that is cancelled, the cancellation
 */
export async function withUncountedStops<T>(
  { cancellationSignal, heartbeat, info }: Surroundings,
  work: () => Promise<T>,
  asFailure: (error: unknown, isLast: boolean) => Error,
): Promise<T> {
  const stops = stopsIn(info.heartbeatDetails)
  const tries = info.attempt - stops
  if (tries > MAX_TRIES) throw failureOf({ message: LOST, type: 'WorkerLost', nonRetryable: true })
  try {
    return await work()
  } catch (error) {
    if (!cancellationSignal.aborted) throw asFailure(error, tries === MAX_TRIES)
    // Temporal knows a cancellation by the error itself.
    if (!isWorkerStop(cancellationSignal.reason)) throw cancellationSignal.reason
    heartbeat?.({ stops: stops + 1 })
    throw sdk().ApplicationFailure.create({
      message: 'The worker stopped; another one goes on.',
      type: 'WorkerShutdown',
      nextRetryDelay: AGAIN_MS,
    })
  }
}

const LOST = `Its worker was lost, or it took too long, ${MAX_TRIES} times.`

/** The SDK's own word for it: https://typescript.temporal.io/api/classes/activity.CancelledFailure */
function isWorkerStop(reason: unknown): boolean {
  return reason instanceof sdk().CancelledFailure && reason.message === 'WORKER_SHUTDOWN'
}

function stopsIn(details: unknown): number {
  if (typeof details !== 'object' || details === null || !('stops' in details)) return 0
  return typeof details.stops === 'number' ? details.stops : 0
}
