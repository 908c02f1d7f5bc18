import { allHandlersFinished, CancellationScope, condition, workflowInfo } from '@temporalio/workflow'

/**
 * A worker that takes a run over replays its history first, so it is kept short: four lanes and a burst of signals that
 * come before the run goes on leave it far below 5,000.
 */
const MAX_EVENTS = 2_000

/** Whether the run should go on in a new history. */
export function hasLongHistory(): boolean {
  const { historyLength, continueAsNewSuggested } = workflowInfo()
  return historyLength >= MAX_EVENTS || continueAsNewSuggested
}

/** What a signal has begun is done, whatever becomes of the run: a new history would not know of it. */
export async function handlersFinished(): Promise<void> {
  if (!allHandlersFinished()) await CancellationScope.nonCancellable(() => condition(allHandlersFinished))
}
