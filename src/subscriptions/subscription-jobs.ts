/** What goes into and comes out of the workflow of a webhook subscription. Rule: docs/behaviour/webhook-subscriptions.md. */

export interface KeepSubscriptionInput {
  readonly integrationId: number
}

/** What a look has found and done: ids, moments and verdicts. Moments are ISO 8601. */
export interface SubscriptionSight {
  readonly integrationId: number
  /** `registered`: it is there and as it should be. `removed`: the provider has no subscription, as it should be. `failing`: the last look failed, or no provider could be asked. */
  readonly standing: 'registered' | 'removed' | 'failing'
  /** What was done at the provider. */
  readonly did: 'nothing' | 'created' | 'renewed' | 'replaced' | 'removed'
  /** The provider's id; null: none is known. */
  readonly subscriptionId: string | null
  readonly expiresAt: string | null
  /** The kind of the error of a failed look. */
  readonly error: string | null
  /** Seconds until the next look, at least 1; null: there is nothing to look after. */
  readonly nextLookInSeconds: number | null
}
