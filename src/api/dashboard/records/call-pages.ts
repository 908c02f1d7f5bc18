/** The pages of a call to a provider, and of an idempotency key. */
import { html } from 'hono/html'
import type { z } from 'zod'
import type { IdempotencyKeyRow, RequestRow } from '../../../commands/shapes.ts'
import { ask } from '../acts/operation-door.ts'
import { badge, body, json, outcomeBadge, tableOf, time } from '../frame/markup.ts'
import type { Asking, Detail } from './detail-page.ts'
import { part } from './detail-page.ts'
import { originLink, rowLink } from './record-links.ts'

type Attempt = z.infer<typeof RequestRow>
type Call = Attempt & {
  readonly request_data: string | null
  readonly response_data: string | null
  readonly attempts: readonly Attempt[]
  readonly attempts_cut: boolean
}
type Key = z.infer<typeof IdempotencyKeyRow> & { readonly prior_state: unknown; readonly prior_response: unknown }

export async function requestDetail({ integrations, context, reader: { root }, id }: Asking): Promise<Detail> {
  const call = await ask<Call>(integrations, context, 'get /requests/:id', { id: String(id) })
  return {
    title: `Request ${id}`,
    reference: `request:${id}`,
    facts: {
      Outcome: outcomeBadge(call.failure_class, call.error),
      Integration: rowLink(root, 'integrations', call.integration_id, call.integration_name),
      Provider: call.provider,
      Call: `${call.method} ${call.endpoint}`,
      Status: call.status_code,
      Error: call.error,
      Took: call.duration_ms === null ? null : `${call.duration_ms} ms`,
      'Retry of': rowLink(root, 'requests', call.retry_of) ?? undefined,
      'Made by': originLink(root, call.origin) ?? 'the host',
      'Idempotency key': call.idempotency_key ?? undefined,
      "Provider's id": call.provider_request_id ?? undefined,
      Made: time(call.created_at),
    },
    parts: [
      part(
        'Attempts',
        html`${tableOf<Attempt>({
          caption: 'All attempts of the same call, the first one first',
          columns: [
            {
              head: 'Attempt',
              cell: (row) => (row.id === id ? html`<strong>${row.id}</strong>` : rowLink(root, 'requests', row.id)),
            },
            { head: 'Status', cell: (row) => row.status_code },
            {
              head: 'Outcome',
              cell: (row) => outcomeBadge(row.failure_class, row.error),
            },
            { head: 'Took (ms)', isNumber: true, cell: (row) => row.duration_ms },
            { head: 'Error', cell: (row) => row.error },
            { head: 'Made', cell: (row) => time(row.created_at) },
          ],
          rows: call.attempts,
          none: 'It was the only attempt.',
        })}${call.attempts_cut ? html`<p class="quiet">There are more.</p>` : ''}`,
      ),
      part('Sent', html`<p class="quiet">Redacted, then cut, as it is stored.</p>${body(call.request_data, 'Sent')}`),
      part('Answered', body(call.response_data, 'Answered')),
    ],
  }
}

export async function keyDetail({ integrations, context, reader: { root }, id }: Asking): Promise<Detail> {
  const key = await ask<Key>(integrations, context, 'get /idempotency-keys/:id', { id: String(id) })
  return {
    title: `Idempotency key ${id}`,
    reference: `integration:${key.integration_id}/key:${key.key}`,
    acts: [{ operation: 'delete /idempotency-keys/:id', label: 'Free the key', words: { id: String(id) } }],
    facts: {
      State: badge(key.state),
      Key: key.key,
      Integration: rowLink(root, 'integrations', key.integration_id, key.integration_name),
      Provider: key.provider,
      Request: rowLink(root, 'requests', key.prior_request_id),
      Spent: time(key.reserved_at),
    },
    parts: [part('Answer', json(key.prior_response ?? null, 'What its call was answered'))],
    states: [{ chart: 'key', current: key.state, reached: [['spent', key.reserved_at]] }],
  }
}
