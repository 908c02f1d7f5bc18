/** What a notification target is sent. Rule: docs/behaviour/notifications.md, "The message". */
import type { Json } from '../framework/json.ts'
import type { Integration } from '../providers/integration.ts'
import type { DeliveredEvent } from './event-delivery.ts'
import type { IncidentRecord, IntegrationEvents } from './events.ts'
import type { NotificationType } from './notification-rules.ts'
import { NOTIFICATION_TYPE_OF } from './notification-rules.ts'

export type NotifiedName = keyof typeof NOTIFICATION_TYPE_OF
/** A durable event that may be sent to notification targets. */
export type NotifiedEvent = Extract<DeliveredEvent, { readonly name: NotifiedName }>

/** The body, as Standard Webhooks recommends it: specification, "Payload structure". */
export interface NotificationMessage {
  readonly type: NotificationType | 'test'
  /** When what it tells of happened: the same for every try. */
  readonly timestamp: string
  readonly data: Readonly<Record<string, Json>>
}

/** Whether the event may be sent to targets. An incident that goes on as bad as before is no news. */
export function isNews(event: DeliveredEvent): event is NotifiedEvent {
  return (
    Object.hasOwn(NOTIFICATION_TYPE_OF, event.name) && !(event.name === 'IncidentEscalated' && !event.payload.rises)
  )
}

export function notificationMessage(event: NotifiedEvent): NotificationMessage {
  return {
    type: NOTIFICATION_TYPE_OF[event.name],
    timestamp: event.createdAt.toISOString(),
    data: { ...dataOf(event), integration: integrationOf(event.payload.integration) },
  }
}

/** For {@link testNotifications}: it tells of no integration. */
export function testMessage(now: Date): NotificationMessage {
  return { type: 'test', timestamp: now.toISOString(), data: { message: 'A test. Nothing has happened.' } }
}

type DataOf<Name extends NotifiedName> = (payload: IntegrationEvents[Name]) => Record<string, Json>

/** No error text: it may quote what a stranger sent. */
const DATA: { readonly [Name in NotifiedName]: DataOf<Name> } = {
  IncidentOpened: ({ incident }) => ({ incident: incidentOf(incident) }),
  IncidentEscalated: ({ incident }) => ({ incident: incidentOf(incident) }),
  IncidentClosed: ({ incident }) => ({ incident: incidentOf(incident) }),
  IntegrationDisabled: () => ({}),
  // Its reason is what the authorization server answered.
  ReauthRequired: () => ({}),
  SyncBecameStale: ({ stream, secondsSinceSync, intervalMinutes }) => ({
    stream: stream ?? null,
    seconds_since_sync: secondsSinceSync,
    interval_minutes: intervalMinutes,
  }),
  SyncStalenessRecovered: ({ stream }) => ({ stream: stream ?? null }),
  SyncItemStuck: ({ item, consecutiveFailedRuns }) => ({
    item: { id: item.id, event_class: item.eventClass, external_id: item.externalId },
    consecutive_failed_runs: consecutiveFailedRuns,
  }),
  ElevatedFailureRate: ({ failureRate, windowMinutes, observedRequests, dominantClass }) => ({
    failure_rate: failureRate,
    window_minutes: windowMinutes,
    observed_requests: observedRequests,
    dominant_class: dominantClass,
  }),
  FailureRateRecovered: () => ({}),
}

function dataOf<Name extends NotifiedName>(event: {
  readonly name: Name
  readonly payload: IntegrationEvents[Name]
}): Record<string, Json> {
  return DATA[event.name](event.payload)
}

function incidentOf(incident: IncidentRecord): Json {
  return {
    id: incident.id,
    status: incident.status,
    source: incident.source,
    reason: incident.reason,
    peak_severity: incident.peakSeverity,
    opened_at: incident.openedAt.toISOString(),
    last_error_at: incident.lastErrorAt?.toISOString() ?? null,
    closed_at: incident.closedAt?.toISOString() ?? null,
  }
}

function integrationOf({ id, provider, name }: Integration): Json {
  return { id, provider, name }
}
