import { continueAsNew, proxyActivities, proxyLocalActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { batch, fastBatch } from './activity-options.ts'
import { workOff } from './inbox.ts'
import type { InboxInput, InboxState } from './messages.ts'

const fast = proxyLocalActivities<Activities>(fastBatch)

/**
 * Works off the stored webhooks of one integration.
 *
 * Durable promise: a row that is stored and signalled is claimed, handled and settled, whichever worker dies. Its id
 * allows one inbox per integration. When it ends and what bounds its history: inbox.ts.
 */
export async function webhookInbox({ integrationId, carried }: InboxInput): Promise<InboxState> {
  const { processPendingWebhooks } = proxyActivities<Activities>({
    ...batch,
    priority: { fairnessKey: String(integrationId) },
  })
  return workOff(
    {
      about: { integration: integrationId },
      takeFew: (take) => fast.processPendingWebhooks({ integrationId, ...take }),
      takeMany: (take) => processPendingWebhooks({ integrationId, ...take }),
      goOn: (state) => continueAsNew<typeof webhookInbox>({ integrationId, carried: state }),
    },
    carried,
  )
}
