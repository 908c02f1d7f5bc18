import {
  ActivityFailure,
  CancellationScope,
  log,
  ParentClosePolicy,
  proxyActivities,
  setHandler,
  startChild,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { ProcessSyncItemInput, ProcessSyncItemResult } from '../core/sync-jobs.ts'
import { step } from './activity-options.ts'
import { WORKFLOW, workflowId } from './ids.ts'
import { retryItem, skipItem } from './messages.ts'

const { skipFailedItem } = proxyActivities<Activities>(step)

/**
 * Retry and skip of one item, asked of the run. Both outlive a cancelled run: they change failed rows, which the run
 * itself never takes.
 *
 * @param integrationId of the run, for log lines
 * @param onChange the row has changed: the run looks again
 * @param tryNow for an item that waits for another attempt in this very run; false: it does not wait here
 */
export function handleItemSignals(
  integrationId: number,
  onChange: () => void,
  tryNow: (itemId: number) => boolean,
): void {
  const retryOrTryNow = async (input: ProcessSyncItemInput): Promise<void> => {
    if (!tryNow(input.itemId)) await CancellationScope.nonCancellable(() => retry(integrationId, input, onChange))
  }
  setHandler(retryItem, retryOrTryNow, {
    description:
      'Tries an item that waits for another attempt now, or a failed one again in a workflow of its own. Input: {"itemId": 5}, or {"itemId": 5, "tries": 3}; 1 try by default. With "force": true also one of which a later run has a newer copy.',
  })
  setHandler(skipItem, (input) => CancellationScope.nonCancellable(() => skip(integrationId, input, onChange)), {
    description: 'Gives one failed item up for good. Input: {"itemId": 5}.',
  })
}

async function skip(integration: number, { itemId }: { itemId: number }, onChange: () => void): Promise<void> {
  try {
    await skipFailedItem({ itemId })
  } catch (error) {
    // A signal has no answer: whoever sent it sees the row, and the log says why nothing became of it.
    if (!(error instanceof ActivityFailure)) throw error
    log.warn('an item was not skipped', {
      event: 'item.not_skipped',
      integration,
      sync_item: itemId,
      error: error.cause?.message,
    })
  }
  onChange()
}

async function retry(
  integration: number,
  { itemId, tries, force }: ProcessSyncItemInput,
  onChange: () => void,
): Promise<void> {
  const prefix = prefixOf(workflowInfo().workflowId)
  if (prefix === null) {
    log.warn('an item was not retried: the run was not started under the id of its integration', {
      event: 'item.not_retried',
      integration,
      sync_item: itemId,
    })
    return
  }
  try {
    const child = await startChild<(input: ProcessSyncItemInput) => Promise<ProcessSyncItemResult>>(
      WORKFLOW.processSyncItem,
      {
        workflowId: workflowId.processSyncItem(prefix, itemId),
        args: [{ itemId, ...(tries === undefined ? {} : { tries }), ...(force === undefined ? {} : { force }) }],
        parentClosePolicy: ParentClosePolicy.ABANDON,
        // It works for the same integration; empty where the run has none.
        typedSearchAttributes: workflowInfo().typedSearchAttributes,
        staticSummary: `Retry of sync item ${itemId}`,
      },
    )
    child.result().then((result) => {
      if (result.outcome === 'outdated')
        log.warn('an item was not retried: a later run has a newer copy of it', {
          event: 'item.not_retried',
          integration,
          sync_item: itemId,
        })
      onChange()
    }, onChange)
  } catch (error) {
    // By its name: workflow code imports `@temporalio/workflow` alone, which does not export the class.
    if (!(error instanceof Error && error.name === 'WorkflowExecutionAlreadyStartedError')) throw error
    log.info('the retry of an item is under way already', {
      event: 'item.retry_running',
      integration,
      sync_item: itemId,
    })
  }
}

/** A run has the id `<prefix>:sync:<integration id>`. */
function prefixOf(id: string): string | null {
  return /^(.*):sync:\d+$/.exec(id)?.[1] ?? null
}
