import { log, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { pump } from './activity-options.ts'
import type { PumpedQueueInput, PumpedQueueState } from './messages.ts'
import { pumpedQueue } from './pumped-queue.ts'

const { pumpEvents } = proxyActivities<Activities>(pump)

/**
 * Delivers the durable events of all integrations.
 *
 * Durable promise: an event that is stored and signalled is delivered to each of its consumers or given up, whichever worker dies.
 * While an event waits for another try and no pump works, it sleeps until that is due. Its id allows one per deployment. It ends with
 * its last pump when no event is left.
 *
 * Rule: docs/behaviour/events.md, "The outbox".
 */
export async function eventOutbox(input: PumpedQueueInput = {}): Promise<PumpedQueueState> {
  const work = { pump: pumpEvents, what: 'Durable events', command: 'integrations notifications' }
  const state = await pumpedQueue(input, work)
  const { processed, failed } = state
  log.info('outbox is empty', { event: 'outbox.emptied', processed, failed })
  return state
}
