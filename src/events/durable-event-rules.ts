/** Events that can be told later, by a job of their own. Rule: docs/behaviour/events.md, "Durable events". */

/** Each tells of something that is stored: its row is written in the transaction of that change. */
export const DURABLE_EVENTS = [
  'IntegrationCreated',
  'CredentialsUpdated',
  'IntegrationDisabled',
  'IntegrationHealthChanged',
  'CircuitOpened',
  'CircuitClosed',
  'IncidentOpened',
  'IncidentEscalated',
  'IncidentClosed',
  'WebhookReceived',
  'SyncCompleted',
  'SyncItemFailed',
  'SyncItemStuck',
  'SyncBecameStale',
  'SyncStalenessRecovered',
  'ElevatedFailureRate',
  'FailureRateRecovered',
  'OAuthCompleted',
  'OAuthRevoked',
  'ReauthRequired',
] as const

export type DurableEventName = (typeof DURABLE_EVENTS)[number]

export function canBeDurable(name: string): name is DurableEventName {
  return (DURABLE_EVENTS as readonly string[]).includes(name)
}

export const STORED_EVENT_STATUSES = ['waiting', 'retrying', 'given_up', 'delivered'] as const
