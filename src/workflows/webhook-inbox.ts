import type { ActivityOptions } from '@temporalio/workflow'
import { continueAsNew, proxyActivities, proxyLocalActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import { batch, fastBatch } from './activity-options.ts'
import { workOff } from './inbox.ts'
import type { InboxInput, InboxState } from './messages.ts'
import { askingLabels } from './search-attributes.ts'

const fast = proxyLocalActivities<Activities>(fastBatch)

/**
 * Works off the stored webhooks of one integration.
 *
 * Durable promise: a row that is stored and signalled is claimed, handled and settled, whichever worker dies. Its id
 * allows one inbox per integration. When it ends and what bounds its history: inbox.ts.
 */
export async function webhookInbox({ integrationId, carried }: InboxInput): Promise<InboxState> {
  const lanes: ActivityOptions = { ...batch, priority: { fairnessKey: String(integrationId) } }
  const { processPendingWebhooks } = proxyActivities<Activities>(lanes)
  return workOff(
    {
      title: `Webhooks of integration ${integrationId}`,
      hint: `Rows: \`integrations list-webhooks --integration ${integrationId}\`. Terminating this loses nothing.`,
      about: { integration: integrationId },
      takeFew: (take) => fast.processPendingWebhooks({ integrationId, ...take, ...askingLabels() }),
      takeMany: (take) =>
        processPendingWebhooks.executeWithOptions({ ...lanes, summary: `up to ${take.limit} webhooks` }, [
          { integrationId, ...take, ...askingLabels() },
        ]),
      goOn: (state) => continueAsNew<typeof webhookInbox>({ integrationId, carried: state }),
    },
    carried,
  )
}
