import type { ActivityOptions } from '@temporalio/workflow'
import { ActivityFailure, isCancellation, log, proxyActivities, workflowInfo } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { PruneResult, PruneStepInput, PruningStep } from '../retention/rules.ts'
import { PRUNING_STEPS } from '../retention/rules.ts'
import { pass } from './activity-options.ts'
import { showing } from './temporal-ui.ts'

/**
 * Ten tries outlast a restart of the database; a lost worker costs one of them. A step that still fails is left to the next
 * day's run, so that the steps after it do not wait.
 */
const options: ActivityOptions = { ...pass, retry: { ...pass.retry, maximumAttempts: 10 } }
const { pruneStep, readPrunedRows } = proxyActivities<Activities>(options)

/**
 * The command `prune`: deletes rows that are older than the configuration keeps them.
 *
 * Durable promise: each step is taken, whatever happens to the others. Rows that a killed worker had deleted are counted once.
 * Runs may overlap: each skips the rows that the other has locked. A few activities, so its history is short.
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
    log.warn('it is not known how many rows a step of pruning has deleted', {
      event: 'prune.count_unknown',
      step: input.step,
      error,
    })
    return 0
  }
}

/** The message of an activity's last failure. Any other failure ends the workflow, a cancellation too. */
function messageOf(failure: unknown): string {
  if (isCancellation(failure) || !(failure instanceof ActivityFailure)) throw failure
  return failure.cause?.message ?? failure.message
}
