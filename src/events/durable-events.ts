/** Stores events for queued listeners and notification targets. Rule: docs/behaviour/events.md, "Durable events". */

import type { CallEvent } from '../calls/admission/call-queries.ts'
import type { Database, Transaction } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import type { DurableEventName } from './durable-event-rules.ts'
import type { EventPayload } from './event-payloads.ts'
import { encodeEvent } from './event-payloads.ts'
import { insertEvents } from './queries.ts'

/** An event without its integration, which is loaded when it is delivered. */
export type DurableEvent = {
  [Name in DurableEventName]: { readonly name: Name; readonly payload: EventPayload<Name> }
}[DurableEventName]

/** With the id of its integration. */
export type OwnedEvent = DurableEvent & {
  readonly integrationId: number
  /** What its error may quote: {@link secretsKnownTo}. */
  readonly secrets?: readonly string[]
}

/**
 * Stores the events that a consumer gets later, in the transaction of their change. After its commit `listeners.emit()` wakes the
 * outbox.
 */
export async function recordEvents(
  framework: Framework,
  db: Database | Transaction,
  integrationId: number,
  events: readonly DurableEvent[],
): Promise<void> {
  await recordOwnedEvents(
    framework,
    db,
    events.map((event) => ({ ...event, integrationId })),
  )
}

/** {@link recordEvents} for events of many integrations, in one statement. */
export async function recordOwnedEvents(
  { listeners, tables }: Framework,
  db: Database | Transaction,
  events: readonly OwnedEvent[],
): Promise<void> {
  const told = events.filter(({ name }) => listeners.isDurable(name))
  await insertEvents(
    db,
    tables,
    told.map(({ integrationId, name, payload, secrets }) => ({
      integrationId,
      name,
      payload: encodeEvent(payload, secrets),
    })),
  )
}

const SETTLEMENT_EVENTS = {
  circuit_opened: 'CircuitOpened',
  circuit_closed: 'CircuitClosed',
  disabled: 'IntegrationDisabled',
  health: 'IntegrationHealthChanged',
  incident_opened: 'IncidentOpened',
  incident_escalated: 'IncidentEscalated',
  incident_closed: 'IncidentClosed',
} as const satisfies Record<CallEvent['kind'], DurableEventName>

/** The event names of a settlement's changes, by kind; null: no consumer gets any of them later. */
export function settlementEventNames({
  listeners,
}: Framework): Partial<Record<CallEvent['kind'], DurableEventName>> | null {
  const told = Object.entries(SETTLEMENT_EVENTS).filter(([, name]) => listeners.isDurable(name))
  return told.length === 0 ? null : Object.fromEntries(told)
}
