import { continueAsNew, proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { batch } from './activity-options.ts'
import { workOff } from './inbox.ts'
import type { InboxState, OutboxInput } from './messages.ts'

const { deliverEvents } = proxyActivities<Activities>(batch)

/**
 * Delivers durable events: the twin of the webhook inbox.
 *
 * Durable promise: an event that is stored and signalled is delivered to each of its consumers or given up, whichever
 * worker dies. A listener or target that is slow holds up its own lane only: events that arrive meanwhile are taken by
 * another one. It has no fast lane, in which a signal would wait for the slow one, too. Its id allows one outbox per deployment. While an event waits for another try it sleeps until that is due.
 * When it ends and what bounds its history: inbox.ts.
 */
export async function eventOutbox({ carried }: OutboxInput = {}): Promise<InboxState> {
  return workOff(
    {
      title: 'Durable events',
      hint: 'Rows: `integrations notifications`. Terminating this loses nothing.',
      about: { outbox: 'events' },
      takeMany: (take) => deliverEvents.executeWithOptions({ ...batch, summary: `up to ${take.limit} events` }, [take]),
      opensLanesForArrivals: true,
      goOn: (state) => continueAsNew<typeof eventOutbox>({ carried: state }),
    },
    carried,
  )
}
