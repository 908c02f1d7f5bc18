/** How a workflow ends: a long history goes on in a new one, open signal handlers finish first, a cancellation waits a while. */
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  isCancellation,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'

/**
 * A worker that takes over a run replays its history first, so histories are short. Four lanes and a burst of signals add
 * events after this number is reached, and stay far below 5,000.
 */
const MAX_EVENTS = 2_000

/** How long work under way may take to end after a cancellation. The guards of the rows refuse what it writes later. */
const GRACE = '30 seconds'

/** Whether the workflow should go on in a new history. */
export function hasLongHistory(): boolean {
  const { historyLength, continueAsNewSuggested } = workflowInfo()
  return historyLength >= MAX_EVENTS || continueAsNewSuggested
}

/** Waits until each signal's work is done, also after a cancellation: a new history would not know of that work. */
export async function handlersFinished(): Promise<void> {
  if (!allHandlersFinished()) await CancellationScope.nonCancellable(() => condition(allHandlersFinished))
}

type Ended<T> = { readonly kind: 'ended'; readonly value: T } | { readonly kind: 'cancelled' }

/** Runs `work` in `scope` until it ends. After a cancellation of the scope: until what runs has ended, or `GRACE` is over. */
export function untilCancelled<T>(scope: CancellationScope, work: () => Promise<T>): Promise<Ended<T>> {
  const ended = scope.run(work).then(
    (value): Ended<T> => ({ kind: 'ended', value }),
    (error: unknown): Ended<T> => {
      if (scope.consideredCancelled && isCancellation(error)) return { kind: 'cancelled' }
      throw error
    },
  )
  const graceOver = scope.cancelRequested.catch(async (): Promise<Ended<T>> => {
    await CancellationScope.nonCancellable(() => sleep(GRACE, { summary: 'grace period for work that still runs' }))
    return { kind: 'cancelled' }
  })
  return Promise.race([ended, graceOver])
}
