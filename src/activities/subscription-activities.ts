/** A look at the webhook subscription of an integration. Rule: docs/behaviour/webhook-subscriptions.md. */
import type { Framework } from '../framework/context.ts'
import { keepSubscription } from '../subscriptions/keep.ts'
import type { KeepSubscriptionInput, SubscriptionSight } from '../subscriptions/subscription-jobs.ts'
import { temporalSurroundings } from './surroundings.ts'

export function subscriptionActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Compares the subscription with what is wanted and puts it right; null: no one has asked for one. May be run twice, also at
     * the same time: the later look takes the row from the earlier one, and what that has created is found in the provider's list.
     */
    async keepWebhookSubscription({ integrationId }: KeepSubscriptionInput): Promise<SubscriptionSight | null> {
      const { cancellationSignal: signal } = surroundings()
      const look = await keepSubscription(framework, integrationId, signal)
      return look?.sight ?? null
    },
  }
}
