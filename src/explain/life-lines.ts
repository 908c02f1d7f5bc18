/** The lines of a record's life: what each kind of row says of itself. Rule: docs/behaviour/explain.md, "The life of a record". */
import { getTableColumns } from 'drizzle-orm'
import { classOfCall } from '../calls/failure-class-rules.ts'
import type { LogRow, Tables } from '../db/schema/tables.ts'
import type { RowKind } from './reference-rules.ts'

/** `model` is a host's row, `external` a record at the provider, `key` an idempotency key. */
export type RecordKind = RowKind | 'model' | 'external' | 'key'

export interface RecordRef {
  readonly kind: RecordKind
  /** Of our rows a number; of `model`, `external` and `key` their text. */
  readonly id: number | string
  /** Null: of a host's row, which several may know, and of an act on none. */
  readonly integrationId: number | null
}

export interface LifeLine {
  readonly at: Date
  readonly text: string
  /** The record that the line is about, where it is another one. */
  readonly link: RecordRef | null
}

const MAX_TEXT = 300

export const short = (text: string | null): string => {
  const line = (text ?? '').replaceAll(/\s+/g, ' ').trim()
  return line.length > MAX_TEXT ? `${line.slice(0, MAX_TEXT)}…` : line
}
export const because = (error: string | null): string => (error === null ? '' : `: ${short(error)}`)
export const line = (at: Date | null, text: string, link: RecordRef | null = null): LifeLine[] =>
  at === null ? [] : [{ at, text, link }]

export function requestColumns({ requests }: Tables) {
  const { id, integrationId, endpoint, method, statusCode, error, failureClass, durationMs, retryOf } = requests
  const { relatedType, relatedId, providerRequestId, idempotencyKey, createdAt, origin, cacheHits, staleHits } =
    requests
  const call = { id, integrationId, endpoint, method, statusCode, error, failureClass, durationMs, retryOf }
  return { ...call, relatedType, relatedId, providerRequestId, idempotencyKey, createdAt, origin, cacheHits, staleHits }
}

export function logColumns({ logs }: Tables) {
  const { resultData: _resultData, metadata: _metadata, ...columns } = getTableColumns(logs)
  return columns
}

type Call = Pick<
  Tables['requests']['$inferSelect'],
  'endpoint' | 'method' | 'statusCode' | 'error' | 'failureClass' | 'durationMs'
>

export function requestText(call: Call): string {
  const { endpoint, method, statusCode, error, durationMs } = call
  const failureClass = classOfCall(call.failureClass, error)
  const answer =
    failureClass === null ? `answered ${statusCode ?? 'well'}` : `failed (${failureClass})${because(error)}`
  return `${method} ${short(endpoint)} ${answer}${durationMs === null ? '' : ` after ${durationMs} ms`}`
}

export function logText({
  operation,
  stream,
  status,
  summary,
  error,
  attempt,
}: Omit<LogRow, 'resultData' | 'metadata'>): string {
  const nth = attempt === null ? '' : `, attempt ${attempt}`
  const what = stream === null ? operation : `${operation} of ${stream}`
  return `${what}${nth}: ${status}${summary === null ? '' : `, ${short(summary)}`}${because(error)}`
}

export const mappingText = ({ externalId, internalType, internalId }: Tables['mappings']['$inferSelect']): string =>
  `external id ${JSON.stringify(short(externalId))} mapped to ${internalType} ${internalId}`
