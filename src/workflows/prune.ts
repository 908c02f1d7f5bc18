import type { ActivityOptions } from '@temporalio/workflow'
import { ActivityFailure, isCancellation, log, proxyActivities, workflowInfo } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { PruneResult, PruneStepInput, PruningStep } from '../core/pruning.ts'
import { PRUNING_STEPS } from '../core/pruning.ts'
import { pass } from './activity-options.ts'
import { showing } from './current-details.ts'

/**
 * A step that fails for good must not keep the next ones waiting: tomorrow's run takes it up again. Ten tries outlast the
 * database's restart, and a worker that is lost costs one.
 */
const options: ActivityOptions = { ...pass, retry: { ...pass.retry, maximumAttempts: 10 } }
const { pruneStep, readPrunedRows } = proxyActivities<Activities>(options)

/**
 * The command `prune`: deletes what is kept no longer.
 *
 * Durable promise: each step is taken, whatever becomes of the others; what a killed worker had deleted is counted once. Runs may
 * overlap: they pass over what the other one has locked. A few activities, so its history is short.
 */
export async function prune(): Promise<PruneResult> {
  const { runId } = workflowInfo()
  const counts: Partial<Record<PruningStep, number>> = {}
  const failed: { step: PruningStep; error: string }[] = []
  for (const step of PRUNING_STEPS) {
    const input: PruneStepInput = { step, runId }
    showing(`Pruning: ${step}`, { ...counts, failed: failed.map((fault) => fault.step).join(', ') || 'none' })
    try {
      counts[step] = await pruneStep.executeWithOptions({ ...options, summary: step }, [input])
    } catch (failure) {
      const error = messageOf(failure)
      log.warn('a step of pruning failed; the next run takes it up', { event: 'prune.step_failed', step, error })
      failed.push({ step, error })
      counts[step] = await countedBy(input)
    }
  }
  showing('Pruned', { ...counts, failed: failed.map((fault) => fault.step).join(', ') || 'none' })
  return { counts: counts as PruneResult['counts'], failed }
}

async function countedBy(input: PruneStepInput): Promise<number> {
  try {
    return await readPrunedRows(input)
  } catch (failure) {
    const error = messageOf(failure)
    log.warn('what a step of pruning had done is not known', { event: 'prune.count_unknown', step: input.step, error })
    return 0
  }
}

/** Of an activity that was given up. Anything else ends the workflow, a cancellation too. */
function messageOf(failure: unknown): string {
  if (isCancellation(failure) || !(failure instanceof ActivityFailure)) throw failure
  return failure.cause?.message ?? failure.message
}
