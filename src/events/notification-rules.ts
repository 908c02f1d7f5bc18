/** What a notification target is told. Rule: docs/behaviour/notifications.md. */

export const NOTIFICATION_TYPES = [
  'incident.opened',
  'incident.escalated',
  'incident.closed',
  'integration.disabled',
  'integration.reauth_required',
  'sync.stale',
  'sync.recovered',
  'sync.item_stuck',
  'failure_rate.elevated',
  'failure_rate.recovered',
] as const
export type NotificationType = (typeof NOTIFICATION_TYPES)[number]

/** The type of the message about an event, by the event's name. */
export const NOTIFICATION_TYPE_OF = {
  IncidentOpened: 'incident.opened',
  IncidentEscalated: 'incident.escalated',
  IncidentClosed: 'incident.closed',
  IntegrationDisabled: 'integration.disabled',
  ReauthRequired: 'integration.reauth_required',
  SyncBecameStale: 'sync.stale',
  SyncStalenessRecovered: 'sync.recovered',
  SyncItemStuck: 'sync.item_stuck',
  ElevatedFailureRate: 'failure_rate.elevated',
  FailureRateRecovered: 'failure_rate.recovered',
} as const satisfies Readonly<Record<string, NotificationType>>

/** Whether one of the targets is notified of an event of this name. */
export function isNotified(
  targets: readonly { readonly types?: readonly NotificationType[] | undefined }[],
  name: string,
): boolean {
  const types: Readonly<Record<string, NotificationType>> = NOTIFICATION_TYPE_OF
  const type = Object.hasOwn(types, name) ? types[name] : undefined
  return type !== undefined && targets.some((target) => target.types === undefined || target.types.includes(type))
}

/**
 * Messages that repeat the trouble of an incident. They are not sent while it is acknowledged or snoozed. What opens, worsens or
 * ends trouble, and what needs a person's own step, is always sent.
 */
const REPEATS: ReadonlySet<NotificationType> = new Set(['sync.stale', 'sync.item_stuck', 'failure_rate.elevated'])

export function isRepeat(name: string): boolean {
  const types: Readonly<Record<string, NotificationType>> = NOTIFICATION_TYPE_OF
  const type = Object.hasOwn(types, name) ? types[name] : undefined
  return type !== undefined && REPEATS.has(type)
}
