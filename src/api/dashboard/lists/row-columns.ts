/** Columns of lists of records: on their own pages, and in parts of an integration's page. */
import { html } from 'hono/html'
import { runKind } from '../../../syncs/run-rules.ts'
import type { Section } from '../frame/frame.ts'
import type { Column, Markup } from '../frame/markup.ts'
import { badge, outcomeBadge, time } from '../frame/markup.ts'
import { originLink, rowLink } from '../records/record-links.ts'

/** A row as a list of the API has it. */
export type Row = Readonly<Record<string, unknown>> & { readonly id: number }
type Columns = (root: string) => readonly Column<Row>[]

/** Of a text in a row; the record's own page has it whole. */
const MAX_TEXT = 120

function text(value: unknown): Markup | null {
  if (value === null || value === undefined) return null
  const whole = String(value)
  return html`${whole.length > MAX_TEXT ? `${whole.slice(0, MAX_TEXT)}…` : whole}`
}

const own =
  (section: Section) =>
  (root: string): Column<Row> => ({ head: 'ID', cell: ({ id }) => rowLink(root, section, id) })
const integration = (root: string): Column<Row> => ({
  head: 'Integration',
  cell: (row) => rowLink(root, 'integrations', row.integration_id, row.integration_name ?? row.integration_id),
})
/** Leads to all streams of its integration, with their schedules and cursors. */
const stream = (root: string): Column<Row> => ({
  head: 'Stream',
  cell: (row) =>
    row.stream === null || row.stream === ''
      ? null
      : html`<a href="${root}/integrations/${row.integration_id}#syncs">${row.stream}</a>`,
})
const plain = (head: string, column: string): Column<Row> => ({ head, cell: (row) => text(row[column]) })
const number = (head: string, column: string): Column<Row> => ({ head, isNumber: true, cell: (row) => row[column] })
const moment = (head: string, column: string): Column<Row> => ({
  head,
  cell: (row) => (row[column] == null ? '' : time(row[column] as Date)),
})
const state = (column: string, head = 'Status'): Column<Row> => ({ head, cell: (row) => badge(String(row[column])) })
const outcome: Column<Row> = {
  head: 'Outcome',
  cell: ({ failure_class: failure, error }) => outcomeBadge(failure as string | null, error),
}

export const ROW_COLUMNS = {
  webhooks: (root) => [
    own('webhooks')(root),
    integration(root),
    plain('Event', 'event_type'),
    state('status'),
    number('Attempts', 'attempts'),
    plain('Error', 'error'),
    moment('Stored', 'created_at'),
    moment('Settled', 'processed_at'),
    plain('Delivery', 'delivery_id'),
  ],
  'sync-runs': (root) => [
    own('sync-runs')(root),
    integration(root),
    stream(root),
    { head: 'Operation', cell: runKind },
    state('status'),
    number('Listed', 'listed'),
    number('Succeeded', 'succeeded'),
    number('Failed', 'failed'),
    number('Skipped', 'skipped'),
    {
      head: 'Took (s)',
      isNumber: true,
      cell: ({ duration_ms: ms }) => (typeof ms === 'number' ? (ms / 1_000).toFixed(1) : ''),
    },
    plain('Error', 'error'),
    moment('Begun', 'created_at'),
  ],
  'sync-items': (root) => [
    own('sync-items')(root),
    integration(root),
    stream(root),
    { head: 'Run', cell: (row) => rowLink(root, 'sync-runs', row.sync_log_id) },
    plain('Event', 'event_class'),
    plain('External id', 'external_id'),
    {
      head: 'Status',
      cell: (row) =>
        html`${badge(row.next_attempt_at === null ? String(row.status) : 'waiting')}${row.holds_cursor === true ? ' holds the cursor' : ''}`,
    },
    number('Attempts', 'attempts'),
    { head: 'Error', cell: (row) => text(row.error ?? row.last_error) },
    moment('Next attempt', 'next_attempt_at'),
    moment('Listed', 'created_at'),
  ],
  requests: (root) => [
    own('requests')(root),
    integration(root),
    { head: 'Call', cell: (row) => text(`${row.method} ${row.endpoint}`) },
    outcome,
    number('Status', 'status_code'),
    number('Took (ms)', 'duration_ms'),
    plain('Error', 'error'),
    { head: 'Retry of', cell: (row) => rowLink(root, 'requests', row.retry_of) },
    { head: 'Made by', cell: (row) => originLink(root, row.origin) },
    moment('Made', 'created_at'),
  ],
  incidents: (root) => [
    own('incidents')(root),
    integration(root),
    plain('Provider', 'provider'),
    state('status'),
    state('peak_severity', 'At worst'),
    plain('Source', 'source'),
    plain('Reason', 'reason'),
    moment('Opened', 'opened_at'),
    moment('Last failure', 'last_error_at'),
    moment('Closed', 'closed_at'),
    plain('Acknowledged by', 'acknowledged_by'),
  ],
  events: (root) => [
    own('events')(root),
    integration(root),
    plain('Event', 'name'),
    state('status'),
    number('Attempts', 'attempts'),
    moment('Due', 'due_at'),
    moment('Stored', 'created_at'),
  ],
  logs: (root) => [
    own('logs')(root),
    integration(root),
    plain('Operation', 'operation'),
    state('status'),
    plain('Summary', 'summary'),
    plain('Error', 'error'),
    { head: 'Parts', cell: (row) => (row.has_parts === true ? 'yes' : '') },
    { head: 'Begun by', cell: (row) => originLink(root, row.origin) },
    moment('Begun', 'created_at'),
  ],
  mappings: (root) => [
    own('mappings')(root),
    integration(root),
    plain('External id', 'external_id'),
    plain('Model', 'internal_type'),
    plain('Row', 'internal_id'),
    { head: 'Made by', cell: (row) => originLink(root, row.origin) },
    moment('Made', 'created_at'),
  ],
  'idempotency-keys': (root) => [
    own('idempotency-keys')(root),
    integration(root),
    plain('Key', 'key'),
    state('state', 'State'),
    { head: 'Request', cell: (row) => rowLink(root, 'requests', row.prior_request_id) },
    moment('Spent', 'reserved_at'),
  ],
  audit: (root) => [
    plain('ID', 'id'),
    moment('At', 'at'),
    plain('By', 'by'),
    plain('Action', 'action'),
    { head: 'Target', cell: (row) => targetLink(root, row.target) },
    { head: 'Integration', cell: (row) => ofAudit(root, row.integration) },
    plain('Detail', 'detail'),
    plain('From', 'from'),
  ],
} as const satisfies Readonly<Record<string, Columns>>

/** It may be gone: what was done with it is there. */
function ofAudit(root: string, integration: unknown): Markup | null {
  if (integration === null) return null
  const { id, name } = integration as { readonly id: number; readonly name: string | null }
  return html`<a href="${root}/audit?integration=${id}">${name ?? id}</a>`
}

/** Such as `webhook:4711`; what has no page stays a text. */
function targetLink(root: string, target: unknown): Markup | null {
  const said = String(target).replace(/^sync-(run|item):/, '$1:')
  return originLink(root, said) ?? text(target)
}
