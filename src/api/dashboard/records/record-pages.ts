/** The pages of an incident, a durable event, an operation and a mapping. */
import { html } from 'hono/html'
import type { z } from 'zod'
import type { Branch } from '../../../commands/records/logs.ts'
import type { EventRow, IncidentRow, MappingRow } from '../../../commands/shapes.ts'
import { ask } from '../acts/operation-door.ts'
import type { Markup } from '../frame/markup.ts'
import { badge, json, NOTHING, tableOf, time } from '../frame/markup.ts'
import type { Asking, Detail } from './detail-page.ts'
import { part } from './detail-page.ts'
import { originLink, rowLink } from './record-links.ts'

type Incident = z.infer<typeof IncidentRow>
type Event = z.infer<typeof EventRow> & { readonly payload: unknown }
type Mapping = z.infer<typeof MappingRow>
type Log = Branch & { readonly metadata: unknown; readonly result_data: unknown; readonly shown: number }

export async function incidentDetail({ integrations, context, reader: { root }, id }: Asking): Promise<Detail> {
  const incident = await ask<Incident>(integrations, context, 'get /incidents/:id', { id: String(id) })
  const { status, integration_id: of } = incident
  const words = { id: String(id) }
  const annotate = { operation: 'post /incidents/:id/annotations', label: 'Annotate', words }
  return {
    title: `Incident ${id}`,
    reference: `incident:${id}`,
    isLive: status === 'open',
    acts:
      status === 'open'
        ? [
            { operation: 'post /incidents/:id/acknowledge', label: 'Acknowledge', words },
            { operation: 'post /incidents/:id/snooze', label: 'Snooze', words },
            annotate,
          ]
        : [annotate],
    links: { 'Temporal UI': integrations.admin.links.workflow({ kind: 'incident', id: of }) },
    facts: {
      Status: badge(status),
      Integration: rowLink(root, 'integrations', of, incident.integration_name),
      Provider: incident.provider,
      'At worst': badge(incident.peak_severity),
      Source: incident.source,
      Reason: incident.reason,
      Opened: time(incident.opened_at),
      'Last failure': time(incident.last_error_at),
      Closed: time(incident.closed_at),
      Acknowledged:
        incident.acknowledged_at === null
          ? undefined
          : html`by ${incident.acknowledged_by} ${time(incident.acknowledged_at)}`,
      Snoozed:
        incident.snoozed_until === null
          ? undefined
          : html`by ${incident.snoozed_by} until ${time(incident.snoozed_until)}`,
    },
    parts: [
      incident.annotations.length === 0
        ? NOTHING
        : part(
            'Annotations',
            html`<ol class="life">${incident.annotations.map(({ at, by, text }) => html`<li><span class="when">${time(at)}</span> <span>${text} <span class="quiet">by ${by}</span></span></li>`)}</ol>`,
          ),
    ],
    states: [
      {
        chart: 'incident',
        current: status,
        reached: [
          ['open', incident.opened_at],
          ['closed', incident.closed_at],
        ],
      },
    ],
  }
}

export async function eventDetail({ integrations, context, reader: { root }, id }: Asking): Promise<Detail> {
  const event = await ask<Event>(integrations, context, 'get /events/:id', { id: String(id) })
  const isGivenUp = event.deliveries.some(({ status }) => status === 'given_up')
  return {
    title: `Event ${id}`,
    reference: `event:${id}`,
    isLive: event.delivered_at === null,
    acts: isGivenUp
      ? [{ operation: 'post /notifications/retry', label: 'Try again what was given up', words: { event: String(id) } }]
      : [],
    facts: {
      Name: event.name,
      Status: badge(event.status),
      Integration: rowLink(root, 'integrations', event.integration_id, event.integration_name),
      Provider: event.provider,
      Stored: time(event.created_at),
      Due: event.due_at === null ? undefined : time(event.due_at),
      Delivered: time(event.delivered_at),
      'Being delivered': event.is_being_delivered ? 'yes' : 'no',
      'Lost workers': event.lost_workers === 0 ? undefined : event.lost_workers,
    },
    parts: [
      part(
        'Deliveries',
        tableOf<Event['deliveries'][number]>({
          caption: 'What became of it at each listener and target',
          columns: [
            { head: 'Consumer', cell: (row) => row.consumer },
            { head: 'Status', cell: (row) => badge(row.status) },
            { head: 'Attempts', isNumber: true, cell: (row) => row.attempts },
            { head: 'Last', cell: (row) => time(row.at) },
            { head: 'Next', cell: (row) => (row.due_at === null ? '' : time(row.due_at)) },
            { head: 'Error', cell: (row) => row.error },
          ],
          rows: event.deliveries,
          none: 'It has not been delivered to any yet.',
        }),
      ),
      part('Payload', json(event.payload ?? null, 'Payload')),
    ],
    states: [
      {
        chart: 'event',
        current: event.status,
        reached: [
          ['waiting', event.created_at],
          ['delivered', event.delivered_at],
        ],
      },
    ],
  }
}

export async function logDetail({ integrations, context, reader: { root }, id }: Asking): Promise<Detail> {
  const log = await ask<Log>(integrations, context, 'get /logs/:id', { id: String(id) })
  return {
    title: `Log ${id}`,
    reference: `log:${id}`,
    facts: {
      Operation: log.operation,
      Status: badge(log.status),
      Integration: rowLink(root, 'integrations', log.integration_id, log.integration_name),
      Provider: log.provider,
      Summary: log.summary,
      Error: log.error,
      'External id': log.external_id ?? undefined,
      'Part of': rowLink(root, 'logs', log.parent_id) ?? undefined,
      'Begun by': originLink(root, log.origin) ?? undefined,
      Begun: time(log.created_at),
      Took: log.duration_ms === null || log.duration_ms === undefined ? undefined : `${log.duration_ms} ms`,
    },
    parts: [
      log.parts.length === 0
        ? NOTHING
        : part('Parts', html`<ul class="tree">${log.parts.map((each) => branch(root, each))}</ul>`),
      part('Metadata', json(log.metadata ?? null, 'Metadata')),
      part('Result', json(log.result_data ?? null, 'Result')),
    ],
  }
}

function branch(root: string, { id, operation, status, summary, error, parts, is_cut: isCut }: Branch): Markup {
  return html`<li>${rowLink(root, 'logs', id)} ${operation} ${badge(status)} ${summary} ${error === null ? '' : html`<span class="bad">${error}</span>`}${
    parts.length === 0 && !isCut
      ? ''
      : html`<ul>${parts.map((each) => branch(root, each))}${isCut ? html`<li>${rowLink(root, 'logs', id, 'more')}</li>` : ''}</ul>`
  }</li>`
}

export async function mappingDetail({ integrations, context, reader: { root }, id }: Asking): Promise<Detail> {
  const mapping = await ask<Mapping>(integrations, context, 'get /mappings/:id', { id: String(id) })
  const words = { id: String(id) }
  const { external_id: externalId, internal_type: type, integration_id: of } = mapping
  return {
    title: `Mapping ${id}`,
    reference: `mapping:${id}`,
    acts: [
      { operation: 'put /mappings/:id', label: 'Point elsewhere', words: { ...words, internal_type: type } },
      { operation: 'delete /mappings/:id', label: 'Forget', words },
    ],
    links: {
      "Provider's page": await integrations.admin.links.page(of, { kind: 'mapping', type, externalId, payload: null }),
    },
    facts: {
      'External id': externalId,
      Model: type,
      Row: mapping.internal_id,
      Integration: rowLink(root, 'integrations', of, mapping.integration_name),
      Provider: mapping.provider,
      'Made by': originLink(root, mapping.origin) ?? 'the host',
      Made: time(mapping.created_at),
      Changed: time(mapping.updated_at),
    },
  }
}
