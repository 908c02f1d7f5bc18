import {
  allHandlersFinished,
  condition,
  continueAsNew,
  log,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { WebhookBatch, WebhookBatchResult } from '../activities/webhooks.ts'
import { claimOf } from '../core/claim.ts'
import { batch, fastBatch } from './activity-options.ts'
import type { InboxInput, InboxState } from './messages.ts'
import { arrived, inboxState } from './messages.ts'

/** The fast lane is for a few rows with quick handlers; slow ones would hold up other integrations' workflow tasks. */
const FAST_ROWS = 20
const FAST_HANDLER_MS = 1_000
const BATCH_ROWS = 200
const MAX_LANES = 4
/** An inbox without work ends after this time; the next signal starts it again. */
const IDLE_TIMEOUT = '5 minutes'
/** Keeps a history short of 5,000 events: a batch costs some six, and with a signal and a wait of its own eleven. */
const MAX_BATCHES = 400

const fast = proxyLocalActivities<Activities>(fastBatch)

/**
 * Works off the stored webhooks of one integration.
 *
 * Durable promise: a row that is stored and signalled is claimed, handled and settled, whichever worker dies. Its id
 * allows one inbox per integration. It ends when the last claim was empty and nothing arrived since that claim began;
 * continue-as-new bounds its history.
 */
export async function webhookInbox({ integrationId, carried }: InboxInput): Promise<InboxState> {
  const { processPendingWebhooks } = proxyActivities<Activities>({
    ...batch,
    priority: { fairnessKey: String(integrationId) },
  })
  let state: InboxState = carried ?? EMPTY
  let batches = 0
  let hasArrived = true
  let lastClaimed = 0
  setHandler(arrived, () => {
    hasArrived = true
  })
  setHandler(inboxState, () => state)

  const request = (limit: number): WebhookBatch => {
    batches += 1
    return { integrationId, limit, claim: claimOf(workflowInfo().runId, batches) }
  }
  const note = (result: WebhookBatchResult): void => {
    lastClaimed = result.claimed
    const isEmpty = result.processed + result.failed === 0
    state = {
      ...state,
      batches: state.batches + 1,
      processed: state.processed + result.processed,
      failed: state.failed + result.failed,
      // An empty batch tells nothing about the handlers.
      slowestMs: isEmpty ? state.slowestMs : result.slowestMs,
      lastBatchAt: new Date().toISOString(),
    }
  }

  // Signals make a history long, too, while slow batches run.
  const mustContinueAsNew = (): boolean => batches >= MAX_BATCHES || workflowInfo().continueAsNewSuggested

  /** One batch after the other while they come back full; a full one calls for another lane. */
  const lane = async (): Promise<void> => {
    state = { ...state, lanes: state.lanes + 1 }
    const helpers: Promise<void>[] = []
    for (;;) {
      const result = await processPendingWebhooks(request(BATCH_ROWS))
      note(result)
      if (result.claimed < BATCH_ROWS || mustContinueAsNew()) break
      if (state.lanes < MAX_LANES) helpers.push(lane())
    }
    await Promise.all(helpers)
    state = { ...state, lanes: state.lanes - 1 }
  }

  for (;;) {
    // From here on a signal may tell of a row that the coming claim does not see.
    hasArrived = false
    let mayHaveMore = true
    if (state.slowestMs < FAST_HANDLER_MS) {
      state = { ...state, phase: 'fast' }
      const result = await fast.processPendingWebhooks(request(FAST_ROWS))
      note(result)
      mayHaveMore = result.claimed === FAST_ROWS
    }
    if (mayHaveMore) {
      state = { ...state, phase: 'batches' }
      await lane()
    }
    if (mustContinueAsNew()) {
      await condition(allHandlersFinished)
      await continueAsNew<typeof webhookInbox>({ integrationId, carried: { ...state, phase: 'waiting' } })
    }
    if (hasArrived) continue
    state = { ...state, phase: 'waiting' }
    const isWoken = await condition(() => hasArrived, IDLE_TIMEOUT)
    // After a claim that took something comes one more look: docs/behaviour/webhooks.md, "The inbox".
    if (!isWoken && lastClaimed === 0) break
  }
  log.info('inbox is empty', { integration: integrationId, processed: state.processed, failed: state.failed })
  return state
}

const EMPTY: InboxState = {
  phase: 'waiting',
  lanes: 0,
  batches: 0,
  processed: 0,
  failed: 0,
  slowestMs: 0,
  lastBatchAt: null,
}
