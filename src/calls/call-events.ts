/** Tells the host what a settlement changed, also that of a call it made elsewhere: after the commit, listeners in order. Rule: docs/behaviour/events.md. */

import type { IncidentRecord, RequestRecord } from '../events/events.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException } from '../framework/errors.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import type { IncidentEvent } from '../incidents/queries.ts'
import { findIncident } from '../incidents/queries.ts'
import type { Integration } from '../providers/integration.ts'
import type { CallEvent, CallOutcome } from './admission/call-queries.ts'
import { settleCalls } from './admission/call-queries.ts'
import type { SettledCall } from './admission/call-state.ts'
import type { Attempt } from './attempt.ts'
import type { PlannedCall } from './call.ts'
import { callTarget } from './call-target.ts'
import { FailureClass } from './failure-class-rules.ts'

const MS_PER_SECOND = 1_000

/** Announces what the attempt changed, then the attempt itself; that needs its row. It is counted either way: the call was made. */
export async function announce(
  { framework, integration, observe }: PlannedCall,
  written: SettledCall,
  record: CallOutcome,
  outcome: Attempt['outcome'],
): Promise<void> {
  framework.metrics.requestMade(integration, record.class, (record.row?.duration_ms ?? 0) / MS_PER_SECOND)
  const request = recordOf(integration.id, written, record)
  if (request !== null) observe?.(request)
  await announceChanges(framework, integration, written.events)
  if (request === null) return
  const { listeners } = framework
  if (outcome.kind === 'succeeded') await listeners.emit('RequestCompleted', { integration, request })
  else await listeners.emit('RequestFailed', { integration, request, error: outcome.error })
}

/**
 * The outcome of a call that a host makes elsewhere. Counts for health as a call's would, and not for the breaker: nothing admitted
 * the call. Null is success. Rule: docs/behaviour/requests.md, "Health".
 *
 * @throws IntegrationNotFound
 */
export async function recordOutcome(
  framework: Framework,
  integration: Integration,
  failureClass: FailureClass | null,
): Promise<void> {
  const { db, tables } = framework
  // Not joined with the outcomes of calls: the caller must learn of a failed write.
  const settled = await settleCalls(db, tables, callTarget(framework, integration), [
    { owner: '', generation: null, class: failureClass, quietForMs: null, quietUntil: null, row: null },
  ])
  if (settled === null) throw new IntegrationNotFound(integration.id)
  await announceChanges(framework, integration, settled.events)
}

/** @throws InvalidArgumentException, for null too: it would count as a success */
export function checkFailureClass(given: FailureClass): void {
  const known = Object.values(FailureClass)
  if (!known.includes(given))
    throw new InvalidArgumentException('failure class', `${known.join(', ')} are allowed, ${String(given)} was given`)
}

/** In the order of the settlement: `IntegrationDisabled` before `IntegrationHealthChanged`, an incident after its cause. */
export async function announceChanges(
  framework: Framework,
  integration: Integration,
  events: readonly CallEvent[],
): Promise<void> {
  const { listeners } = framework
  for (const event of events)
    switch (event.kind) {
      case 'circuit_opened':
        await listeners.emit('CircuitOpened', {
          integration,
          reason: event.reason,
          openedAt: new Date(event.openedAt),
        })
        break
      case 'circuit_closed':
        await listeners.emit('CircuitClosed', { integration, reason: event.reason })
        break
      case 'disabled':
        await listeners.emit('IntegrationDisabled', { integration })
        break
      case 'health':
        await listeners.emit('IntegrationHealthChanged', {
          integration,
          previousStatus: event.previous,
          newStatus: event.new,
        })
        break
      default:
        await announceIncident(framework, integration, event)
    }
}

const INCIDENT_EVENTS = {
  incident_opened: 'IncidentOpened',
  incident_escalated: 'IncidentEscalated',
  incident_closed: 'IncidentClosed',
} as const

/** Tells its workflow, then its listeners with the row as it is now. A row that can't be read costs the event, never the call. */
async function announceIncident(framework: Framework, integration: Integration, event: IncidentEvent): Promise<void> {
  const { db, tables, listeners, workflows } = framework
  const { kind, incidentId } = event
  workflows.followIncident(integration.id, kind === 'incident_closed' ? 'recovered' : 'escalate')
  const name = INCIDENT_EVENTS[kind]
  if (!listeners.has(name)) return
  let incident: IncidentRecord | null
  try {
    incident = await findIncident(db, tables, incidentId)
  } catch (error) {
    integrationLogger(framework, integration).error(
      { event: name, incident: incidentId, error: errorLine(error, 500) },
      'an incident could not be read; its listeners are not told',
    )
    return
  }
  // Null: deleted together with its integration.
  if (incident === null) return
  if (event.kind === 'incident_escalated')
    await listeners.emit('IncidentEscalated', { integration, incident, rises: event.rises })
  else await listeners.emit(INCIDENT_EVENTS[event.kind], { integration, incident })
}

/** Null when the row could not be written, which is logged. */
function recordOf(integrationId: number, { rowId }: SettledCall, { row }: CallOutcome): RequestRecord | null {
  if (rowId === null || row === null) return null
  return {
    id: rowId,
    integrationId,
    endpoint: row.endpoint,
    method: row.method,
    statusCode: row.status_code,
    requestData: row.request_data,
    idempotencyKey: row.idempotency_key,
    providerRequestId: row.provider_request_id,
    responseData: row.response_data,
    error: row.error,
    failureClass: row.failure_class,
    durationMs: row.duration_ms,
    retryOf: row.retry_of,
    relatedType: row.related_type,
    relatedId: row.related_id,
    // It was written just now: no call has been served by it yet.
    cacheHits: 0,
    staleHits: 0,
  }
}
