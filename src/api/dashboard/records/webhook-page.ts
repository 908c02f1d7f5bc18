/** The page of a webhook: what was delivered, what became of it. */
import { html } from 'hono/html'
import type { Columns } from '../../../commands/command.ts'
import type { Integrations } from '../../../create-integrations.ts'
import type { Json } from '../../../framework/json.ts'
import { ask } from '../acts/operation-door.ts'
import { badge, body, tableOf, time } from '../frame/markup.ts'
import type { Asking, Detail } from './detail-page.ts'
import { part } from './detail-page.ts'
import { rowLink } from './record-links.ts'

type Webhook = Columns<Awaited<ReturnType<Integrations['admin']['operator']['webhook']>>>

export async function webhookDetail({ integrations, context, reader, id }: Asking): Promise<Detail> {
  const webhook = await ask<Webhook>(integrations, context, 'get /webhooks/:id', { id: String(id) })
  const { status, integration_id: of, dismissed_at: dismissedAt, event_type: type } = webhook
  const { links } = integrations.admin
  // The inbox runs the first attempt of most: only another one has a workflow of its own.
  const hasWorkflow = webhook.replay_attempt !== null || webhook.lost_workers > 0 || webhook.attempts > 1
  const words = { id: String(id) }
  const isSettled = status === 'processed' || status === 'failed'
  return {
    title: `Webhook ${id}`,
    reference: `webhook:${id}`,
    isLive: !isSettled,
    acts: [
      ...(isSettled ? [{ operation: 'post /webhooks/:id/replay', label: 'Replay', words }] : []),
      ...(status === 'failed' && dismissedAt === null
        ? [{ operation: 'post /webhooks/:id/dismiss', label: 'Dismiss', words }]
        : []),
      ...(dismissedAt === null
        ? []
        : [
            {
              operation: 'post /webhooks/:id/dismiss',
              label: 'Take the dismissal back',
              words: { ...words, undo: 'true' },
            },
          ]),
    ],
    links: {
      'Temporal UI': hasWorkflow ? links.workflow({ kind: 'webhook', id }) : null,
      Trace: links.trace(webhook.traceparent),
      "Provider's page": await links.page(of, { kind: 'delivery', type, externalId: null, payload: jsonIn(webhook) }),
    },
    facts: {
      Status: badge(status),
      Integration: rowLink(reader.root, 'integrations', of, webhook.integration_name),
      Event: type,
      Delivery: webhook.delivery_id,
      Attempts: webhook.attempts,
      Error: webhook.error,
      Stored: time(webhook.created_at),
      Settled: time(webhook.processed_at),
      Dismissed: dismissedAt === null ? undefined : time(dismissedAt),
      'Lost workers': webhook.lost_workers === 0 ? undefined : webhook.lost_workers,
      'Our own echo': webhook.is_own === null ? undefined : webhook.is_own ? 'yes' : 'no',
    },
    parts: [
      part(
        'Delivered',
        html`<p class="quiet">As it was delivered; secrets are redacted.${webhook.encoding === 'base64' ? ' It is no text: this is its base64.' : ''}</p>
${body(webhook.payload, 'Payload')}`,
      ),
      part(
        'Headers',
        tableOf({
          caption: 'Headers of the delivery; those that begin with a colon are ours.',
          columns: [
            { head: 'Name', cell: ([name]: [string, readonly string[]]) => name },
            { head: 'Value', cell: ([, values]: [string, readonly string[]]) => values.join(', ') },
          ],
          rows: Object.entries(webhook.headers),
          none: 'No header is stored.',
        }),
      ),
    ],
    states: [
      {
        chart: 'webhook',
        current: status,
        reached: [
          ['pending', webhook.created_at],
          [status, webhook.processed_at],
        ],
      },
    ],
  }
}

function jsonIn({ payload, encoding }: Webhook): Json {
  if (encoding === 'base64') return null
  try {
    return JSON.parse(payload) as Json
  } catch {
    return null
  }
}
