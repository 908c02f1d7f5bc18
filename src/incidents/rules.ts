/** What an incident's row may say. Rule: docs/behaviour/incidents.md. */

export const INCIDENT_STATUSES = ['open', 'closed'] as const
export type IncidentStatus = (typeof INCIDENT_STATUSES)[number]

/** What has opened it. */
export const INCIDENT_SOURCES = ['health', 'circuit', 'sync', 'echo', 'webhooks', 'oauth'] as const
export type IncidentSource = (typeof INCIDENT_SOURCES)[number]

const CAUSES: Readonly<Record<string, string>> = {
  health_degraded: 'calls failed, and its health became degraded',
  health_failing: 'calls failed, and its health became failing',
  health_disabled: 'too many calls failed, and its health switched it off',
  threshold_reached: 'too many calls failed, and its circuit opened',
  half_open_probe_failed: 'the probe of its circuit failed, and the circuit opened again',
  sync_stale: 'its syncs became stale',
  echo_loop: 'a record is written again and again',
  tokens_refused: 'its tokens were refused',
  webhook_subscription_failed: "its webhook can't be kept registered",
}

/** What opened an incident, in words about its integration. Rule: docs/behaviour/incidents.md, "The beginning". */
export const causeWords = (reason: string): string => CAUSES[reason] ?? reason.replaceAll('_', ' ')
