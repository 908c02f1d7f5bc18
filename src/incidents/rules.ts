/** What an incident's row may say. Rule: docs/behaviour/incidents.md. */

export const INCIDENT_STATUSES = ['open', 'closed'] as const
export type IncidentStatus = (typeof INCIDENT_STATUSES)[number]

/** What has opened it. */
export const INCIDENT_SOURCES = ['health', 'circuit', 'sync', 'echo', 'webhooks', 'oauth'] as const
export type IncidentSource = (typeof INCIDENT_SOURCES)[number]
