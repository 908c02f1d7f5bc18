import { log, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { pump } from './activity-options.ts'
import type { PumpedQueueInput, PumpedQueueState } from './messages.ts'
import { pumpedQueue } from './pumped-queue.ts'

const { pumpWebhooks } = proxyActivities<Activities>(pump)

/**
 * Works off the stored webhooks of all integrations.
 *
 * Durable promise: a row that is stored and signalled is claimed, handled and settled, whichever worker dies. Its id allows one per
 * deployment. It ends with its last pump, and waits for no timer.
 *
 * Rule: docs/behaviour/webhooks.md, "The inbox".
 */
export async function webhookInbox(input: PumpedQueueInput = {}): Promise<PumpedQueueState> {
  const work = { pump: pumpWebhooks, what: 'Webhooks', command: 'integrations list-webhooks' }
  const state = await pumpedQueue(input, work)
  const { processed, failed } = state
  log.info('inbox is empty', { event: 'inbox.emptied', processed, failed })
  return state
}
