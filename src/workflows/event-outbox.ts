import { continueAsNew, proxyActivities, proxyLocalActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { batch, fastBatch } from './activity-options.ts'
import { workOff } from './inbox.ts'
import type { InboxState, OutboxInput } from './messages.ts'

const fast = proxyLocalActivities<Activities>(fastBatch)
const { deliverEvents } = proxyActivities<Activities>(batch)

/**
 * Delivers durable events: the twin of the webhook inbox.
 *
 * Durable promise: an event that is stored and signalled is delivered to each of its consumers or given up, whichever
 * worker dies. Its id allows one outbox per deployment. While an event waits for another try it sleeps until that is due.
 * When it ends and what bounds its history: inbox.ts.
 */
export async function eventOutbox({ carried }: OutboxInput = {}): Promise<InboxState> {
  return workOff(
    {
      about: { outbox: 'events' },
      takeFew: (take) => fast.deliverEvents(take),
      takeMany: (take) => deliverEvents(take),
      goOn: (state) => continueAsNew<typeof eventOutbox>({ carried: state }),
    },
    carried,
  )
}
