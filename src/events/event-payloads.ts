/**
 * The stored payload of a durable event: the event without its integration, as JSON. Another release may have written the row, so the
 * payload is checked when it is read.
 * Rule: docs/behaviour/events.md, "Durable events". The function `record_events` (drizzle/functions/) writes the events of a settlement.
 */

import { z } from 'zod'
import { FailureClass } from '../calls/failure-class-rules.ts'
import { redactStart } from '../framework/redaction.ts'
import { thrownTexts } from '../framework/thrown.ts'
import { INCIDENT_SOURCES, INCIDENT_STATUSES } from '../incidents/rules.ts'
import { HealthStatus } from '../integrations/rules.ts'
import { SYNC_ITEM_STATUSES } from '../syncs/items/item-rules.ts'
import type { DurableEventName } from './durable-event-rules.ts'
import type { IntegrationEvents } from './events.ts'

/** An event without its integration, which is loaded when it is delivered. */
export type EventPayload<Name extends DurableEventName> = Omit<IntegrationEvents[Name], 'integration'>

const MAX_ERROR_LENGTH = 1_000

const Moment = z.iso.datetime({ offset: true }).transform((text) => new Date(text))

/** Of an event that says no more than its name. */
const Nothing = z.object({})
const OfStream = z.object({ stream: z.string().exactOptional() })

const Incident = z.object({
  id: z.number(),
  // An event that an earlier release has stored lacks it.
  integrationId: z.number().exactOptional(),
  status: z.enum(INCIDENT_STATUSES),
  source: z.enum(INCIDENT_SOURCES),
  reason: z.string(),
  peakSeverity: z.enum(HealthStatus),
  openedAt: Moment,
  lastErrorAt: Moment.nullable(),
  closedAt: Moment.nullable(),
})

const Item = z.object({
  id: z.number(),
  integrationId: z.number(),
  syncLogId: z.number().nullable(),
  eventClass: z.string(),
  externalId: z.string().nullable(),
  checkpointValue: z.json(),
  error: z.string().nullable(),
  attempts: z.number(),
  // An event that an earlier release has stored lacks these. It sent failed items only.
  batchId: z.string().nullable().default(null),
  status: z.enum(SYNC_ITEM_STATUSES).default('failed'),
  completedAt: Moment.nullable().default(null),
  createdAt: Moment.exactOptional(),
  updatedAt: Moment.exactOptional(),
})

/** An error again, as listeners that hear of it at once have one. The place that threw it was another process's. */
const StoredError = z.object({ name: z.string(), message: z.string() }).transform(({ name, message }) => {
  const error = Object.assign(new Error(message), { name })
  error.stack = `${name}: ${message}`
  return error
})

const PAYLOADS: { readonly [Name in DurableEventName]: z.ZodType<EventPayload<Name>> } = {
  IntegrationCreated: Nothing,
  CredentialsUpdated: z.object({ keys: z.array(z.string()) }),
  IntegrationDisabled: Nothing,
  IntegrationHealthChanged: z.object({ previousStatus: z.enum(HealthStatus), newStatus: z.enum(HealthStatus) }),
  CircuitOpened: z.object({
    reason: z.enum(['threshold_reached', 'half_open_probe_failed', 'forced_open']),
    openedAt: Moment,
  }),
  CircuitClosed: z.object({ reason: z.enum(['half_open_probe_succeeded', 'forced_closed']) }),
  IncidentOpened: z.object({ incident: Incident }),
  IncidentEscalated: z.object({ incident: Incident, rises: z.boolean() }),
  IncidentClosed: z.object({ incident: Incident }),
  WebhookReceived: z.object({
    provider: z.string(),
    webhookId: z.number(),
    deliveryId: z.string(),
    eventType: z.string().nullable(),
  }),
  SyncCompleted: OfStream.extend({
    result: z.object({
      kind: z.enum(['success', 'partial', 'failed']),
      successCount: z.number(),
      failureCount: z.number(),
      skippedCount: z.number(),
      // An event that an earlier release has stored lacks it.
      unchangedCount: z.number().default(0),
      safeSyncedAt: Moment.nullable(),
      cursor: z.json(),
    }),
  }),
  SyncItemFailed: z.object({ item: Item, error: StoredError }),
  SyncItemStuck: z.object({ item: Item, consecutiveFailedRuns: z.number() }),
  SyncBecameStale: OfStream.extend({ secondsSinceSync: z.number(), intervalMinutes: z.number() }),
  SyncStalenessRecovered: OfStream,
  ElevatedFailureRate: z.object({
    failureRate: z.number(),
    windowMinutes: z.number(),
    observedRequests: z.number(),
    dominantClass: z.enum(FailureClass),
  }),
  FailureRateRecovered: Nothing,
  OAuthCompleted: Nothing,
  OAuthRevoked: Nothing,
  ReauthRequired: z.object({ reason: z.string() }),
}

/**
 * As it is stored: moments as ISO 8601, an error as its name and message, whatever was thrown.
 *
 * @param secrets what the integration knows; an error may quote it
 */
export function encodeEvent<Name extends DurableEventName>(
  payload: EventPayload<Name>,
  secrets: readonly string[] = [],
): Readonly<Record<string, unknown>> {
  return 'error' in payload ? { ...payload, error: storedError(payload.error, secrets) } : { ...payload }
}

/** @throws zod's error for what this release can't read: a newer one may have written it */
export function decodeEvent<Name extends DurableEventName>(name: Name, stored: unknown): EventPayload<Name> {
  return PAYLOADS[name].parse(stored)
}

function storedError(error: unknown, secrets: readonly string[]): { name: string; message: string } {
  const clean = (text: string): string => redactStart(text, secrets, MAX_ERROR_LENGTH)
  const { name, message } = thrownTexts(error)
  return { name: clean(name ?? 'Error'), message: clean(message) }
}
