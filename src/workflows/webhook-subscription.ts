import { condition, continueAsNew, proxyActivities, setHandler } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { KeepSubscriptionInput, SubscriptionSight } from '../subscriptions/subscription-jobs.ts'
import { subscriptionLook } from './activity-options.ts'
import { refuseUnlessFor } from './given-input.ts'
import type { WebhookSubscriptionState } from './messages.ts'
import { look, webhookSubscriptionState } from './messages.ts'
import { showing } from './temporal-ui.ts'
import { hasLongHistory } from './workflow-end.ts'

const { keepWebhookSubscription } = proxyActivities<Activities>(subscriptionLook)

/**
 * Looks after the webhook subscription of one integration.
 *
 * Durable promise: the row says what is wanted and what is known, and each look makes the provider agree, whichever worker dies. Its
 * id allows one keeper per integration. It ends when there is nothing to look after and no signal came since the last look began. A
 * look costs some ten events; continue-as-new bounds them.
 */
export async function webhookSubscription(input: KeepSubscriptionInput): Promise<SubscriptionSight | null> {
  refuseUnlessFor('integrationId', input)
  const { integrationId } = input
  let state: WebhookSubscriptionState = { sight: null, nextLookAt: null }
  let isSignalled = false
  setHandler(
    look,
    () => {
      isSignalled = true
    },
    { description: 'The subscription is looked at now. No input.' },
  )
  setHandler(webhookSubscriptionState, () => state, {
    description: 'The subscription as it was last seen, and when it is looked at again without a signal.',
  })
  for (;;) {
    // From here on a signal may mean a change that the next look does not see.
    isSignalled = false
    const sight: SubscriptionSight | null = await keepWebhookSubscription({ integrationId })
    const waitSeconds: number | null = sight?.nextLookInSeconds ?? null
    const nextLookAt = waitSeconds === null ? null : new Date(Date.now() + waitSeconds * 1_000).toISOString()
    state = { sight, nextLookAt }
    tell(integrationId, state)
    if (waitSeconds === null) {
      if (!isSignalled) return sight
      continue
    }
    // The new run looks at once, so it misses no signal.
    if (hasLongHistory()) await continueAsNew<typeof webhookSubscription>({ integrationId })
    await condition(() => isSignalled, waitSeconds * 1_000, { summary: 'the subscription is looked at again' })
  }
}

function tell(integrationId: number, { sight, nextLookAt }: WebhookSubscriptionState): void {
  const heading =
    sight === null
      ? `No one has asked for a webhook subscription of integration ${integrationId}`
      : `Webhook subscription of integration ${integrationId}: ${sight.standing}`
  const facts = {
    'At the provider': sight?.subscriptionId,
    Ends: sight?.expiresAt,
    'Last look did': sight?.did,
    'Last error': sight?.error,
    'Looked at again': nextLookAt,
  }
  showing(heading, facts, `\`integrations check-webhooks ${integrationId}\` looks now.`)
}
