import { proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { claimOf } from '../claims/rules.ts'
import type { ProcessWebhookInput, ProcessWebhookResult } from '../webhooks/webhook-jobs.ts'
import { single, step } from './activity-options.ts'
import { refuseUnlessFor } from './given-input.ts'
import type { ProcessWebhookState } from './messages.ts'
import { processWebhookState } from './messages.ts'
import { readably } from './readable-failure.ts'
import { showing } from './temporal-ui.ts'

const { readWebhookState } = proxyActivities<Activities>(step)
const { processOneWebhook } = proxyActivities<Activities>(single)

/**
 * Handles one webhook: a replay by hand, or a row that recovery took up.
 *
 * Durable promise: a row that it claims is settled, whichever worker dies. Its id allows one job per webhook. A row whose
 * state has changed since the start is left alone. A handler that fails is a result, not a failure of the workflow.
 */
export async function processWebhook(input: ProcessWebhookInput): Promise<ProcessWebhookResult> {
  refuseUnlessFor('webhookId', input)
  let state: ProcessWebhookState = { phase: 'claiming', outcome: null }
  setHandler(processWebhookState, () => state, { description: 'Whether it is done, and what became of the webhook.' })

  // A replay takes settled rows. A second try of the activity must tell its own settlement from the one before the replay.
  const { webhookId } = input
  const before = input.replay === true ? await readably(() => readWebhookState({ webhookId })) : null
  showing(`Handling webhook ${webhookId}`, { Attempts: before?.attempts ?? 0 })
  const outcome = await readably(() =>
    processOneWebhook.executeWithOptions({ ...single, summary: `webhook ${webhookId}` }, [
      {
        ...input,
        claim: claimOf(workflowInfo().runId, 1),
        ...(before === null ? {} : { attemptsBefore: before.attempts }),
      },
    ]),
  )
  state = { phase: 'done', outcome }
  showing(`Webhook ${webhookId}: ${outcome.outcome}`, { Status: outcome.status, Attempts: outcome.attempts })
  return outcome
}
