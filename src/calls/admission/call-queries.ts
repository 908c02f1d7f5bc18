/**
 * Admission and settlement of outbound calls: an integration's own statements. The functions that they call, admit_calls and
 * settle_calls, hold the whole rule (drizzle/functions/).
 */
import { randomBytes } from 'node:crypto'
import { sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import { jsonText } from '../../db/schema/columns.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { functionName } from '../../db/sql-functions.ts'
import type { DurableEventName } from '../../events/durable-event-rules.ts'
import type { HealthStatus, HealthThresholds } from '../../integrations/rules.ts'
import type { FailureClass } from '../failure-class-rules.ts'
import type { Admission, BreakerSettings, CircuitOverride, Limit } from './state-rules.ts'

/** What the statements need to know of the configuration and of the provider. */
export interface CallRules {
  readonly breaker: BreakerSettings
  /** The provider's own limit; null: none. */
  readonly limit: Limit | null
  /** Whether the override columns are obeyed. */
  readonly circuitOverrides: boolean
  readonly limitOverrides: boolean
  readonly health: HealthThresholds
  /** Whether incidents are opened and escalated. */
  readonly incidents: boolean
}

export interface Admissions {
  /** One per owner, in order. */
  readonly verdicts: readonly Admission[]
  readonly override: CircuitOverride | null
  /** The override column holds no override: it was ignored. */
  readonly overrideMalformed: boolean
  readonly limitSource: 'override' | 'provider' | 'none'
  /** The override column holds something that is no limit: it was ignored. */
  readonly limitMalformed: boolean
}

/** The row of one attempt, by its column names. */
export interface RequestValues {
  readonly endpoint: string
  readonly method: string
  readonly status_code: number | null
  readonly request_data: string | null
  readonly idempotency_key: string | null
  readonly provider_request_id: string | null
  readonly response_data: string | null
  readonly error: string | null
  readonly failure_class: FailureClass | null
  readonly duration_ms: number
  readonly retry_of: number | null
  readonly related_type: string | null
  readonly related_id: number | null
  /** How long the response may be served again; null: it may not. */
  readonly expires_in_ms: number | null
  readonly request_hash: string | null
  /** The row whose work this call is part of. */
  readonly origin: string | null
}

export interface CallOutcome {
  readonly owner: string
  /** As the admission gave it. */
  readonly generation: number | null
  /** Null is success. */
  readonly class: FailureClass | null
  /** A throttle's wait, capped. */
  readonly quietForMs: number | null
  /** When an exhausted quota is whole again, in milliseconds since the epoch. */
  readonly quietUntil: number | null
  /** Null: an outcome without a call, from `recordFailure()`. */
  readonly row: RequestValues | null
}

/** What a settlement changed. `at` is the position of the outcome that did. */
export type CallEvent = { readonly at: number } & (
  | {
      readonly kind: 'circuit_opened'
      readonly reason: 'threshold_reached' | 'half_open_probe_failed'
      readonly openedAt: number
    }
  | { readonly kind: 'circuit_closed'; readonly reason: 'half_open_probe_succeeded' }
  | { readonly kind: 'disabled' }
  | { readonly kind: 'health'; readonly previous: HealthStatus; readonly new: HealthStatus }
  | { readonly kind: 'incident_opened' | 'incident_closed'; readonly incidentId: number }
  | { readonly kind: 'incident_escalated'; readonly incidentId: number; readonly rises: boolean }
)

export interface Settlements {
  /** Id of each outcome's row, in order; null where there was none to write. */
  readonly ids: readonly (number | null)[]
  readonly events: readonly CallEvent[]
}

export interface CallTarget {
  readonly integrationId: number
  /** Key of the shared state in the cache table, prefix included. */
  readonly key: string
  readonly rules: CallRules
  /** Null: the database's clock. */
  readonly nowMs: number | null
  /** By kind, the names of the durable events that changes are recorded as. Null: none is recorded. */
  readonly eventNames: Partial<Record<CallEvent['kind'], DurableEventName>> | null
}

/** Decides for all owners at once, in order. Null when the integration is gone. */
export function admitCalls(
  db: Database,
  tables: Tables,
  target: CallTarget,
  owners: readonly string[],
): Promise<Admissions | null> {
  return answerOf<Admissions>(db, tables, 'admit_calls', target, jsonLiteral(owners))
}

/** Writes all rows and what follows from them, in order. Null when the integration is gone. */
export function settleCalls(
  db: Database,
  tables: Tables,
  target: CallTarget,
  outcomes: readonly CallOutcome[],
): Promise<Settlements | null> {
  const { eventNames } = target
  const list = outcomeList(outcomes)
  if (eventNames === null) return answerOf<Settlements>(db, tables, 'settle_calls', target, list)
  return answerOf<Settlements>(db, tables, 'settle_calls_recorded', target, list, jsonLiteral(eventNames))
}

/** In characters. To escape a longer text, as JSON and as a literal, would hold up the process. */
const LONG_TEXT = 1_048_576

/** As SQL. A long answer stands beside the list, unescaped: it holds only what Postgres can hold. */
function outcomeList(outcomes: readonly CallOutcome[]): string {
  const apart: { readonly at: number; readonly text: string }[] = []
  const others = outcomes.map((outcome, at) => {
    const text = outcome.row?.response_data ?? ''
    if (outcome.row === null || text.length <= LONG_TEXT) return outcome
    apart.push({ at, text })
    return { ...outcome, row: { ...outcome.row, response_data: null } }
  })
  return apart.reduce(
    (list, { at, text }) => `jsonb_set(${list}, '{${at},row,response_data}', to_jsonb(${literal(text)}::text))`,
    jsonLiteral(others),
  )
}

/**
 * As a text without parameters: it takes one round trip, and with parameters the driver, which names no statements here
 * (docs/decisions/0009-connections.md), takes two.
 */
async function answerOf<Answer>(
  db: Database,
  tables: Tables,
  name: string,
  { integrationId, key, rules, nowMs }: CallTarget,
  list: string,
  names?: string,
): Promise<Answer | null> {
  const given = [
    Number(integrationId),
    literal(key),
    jsonLiteral(rules),
    list,
    nowMs === null ? 'null' : Number(nowMs),
    ...(names === undefined ? [] : [names]),
  ]
  const [row] = await db.execute<{ answer: Answer | null }>(
    sql.raw(`select ${functionName(tables, name)}(${given.join(', ')}) as answer`),
  )
  return row?.answer ?? null
}

/**
 * An escape string reads the same whatever `standard_conforming_strings` says: PostgreSQL manual, 4.1.2.2. A long text stands
 * between tags that it does not hold: 4.1.2.4.
 */
export function literal(text: string): string {
  const tag = text.length > LONG_TEXT ? `$t${randomBytes(16).toString('hex')}$` : ''
  if (tag !== '' && !text.includes(tag)) return `${tag}${text}${tag}`
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
}

export function jsonLiteral(value: unknown): string {
  return `${literal(jsonText(value))}::jsonb`
}
