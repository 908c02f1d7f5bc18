import type { Command } from 'commander'
import { Option } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { WEBHOOK_STATUSES } from '../webhooks/rules.ts'
import { instant, integrationId, limit, webhookId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/frame.ts'

const DEFAULT_LIMIT = 50
/** So that a row fits a line; `show-webhook` has it whole. */
const ERROR_LENGTH = 60

interface Filters {
  readonly integration?: number
  readonly provider?: string
  readonly status?: (typeof WEBHOOK_STATUSES)[number]
  readonly dismissed: boolean
  readonly event?: string
  readonly since?: Date
  readonly until?: Date
  readonly after?: number
  readonly limit: number
}

/** `integrations list-webhooks`: the newest first. */
export function listWebhooksCommand(frame: Frame): Command {
  return frame
    .command('list-webhooks', 'Lists webhooks, the newest first.', [
      'integrations list-webhooks --status failed',
      'integrations list-webhooks --integration 7 --event issues --since 2026-06-01T12:00:00Z --json',
    ])
    .option('--integration <id>', 'only of this integration', integrationId)
    .option('--provider <key>', 'only of this provider')
    .addOption(new Option('--status <status>', 'only of this status').choices(WEBHOOK_STATUSES))
    .option('--dismissed', 'failed ones that were dismissed, which are left out otherwise', false)
    .option('--event <type>', 'only of this event type')
    .option('--since <instant>', 'only those stored then or later', instant)
    .option('--until <instant>', 'only those stored before', instant)
    .option('--after <id>', 'only ids below this one: the next page', webhookId)
    .option('--limit <n>', 'at most so many', limit, DEFAULT_LIMIT)
    .action(
      frame.action(async ({ integrations, warn }, { limit, ...filters }: Filters) => {
        if (filters.integration !== undefined) await integrations.get(filters.integration)
        const rows: Row[] = []
        // One more than asked for says whether there is more.
        for await (const webhook of integrations.webhooks.list({ ...filters, limit: limit + 1 }))
          rows.push(rowOf(webhook))
        if (rows.length > limit) {
          rows.length = limit
          warn(`There are more than ${limit}; --limit shows more, --after ${rows.at(-1)?.id} the next ones.`)
        }
        return { document: rows, text: rows.length === 0 ? 'No webhooks.' : textOf(rows) }
      }),
    )
}

type Webhook = ReturnType<Integrations['webhooks']['list']> extends AsyncIterable<infer Item> ? Item : never
type Row = ReturnType<typeof rowOf>

function rowOf(webhook: Webhook) {
  return {
    id: webhook.id,
    integration_id: webhook.integrationId,
    event_type: webhook.eventType,
    delivery_id: webhook.deliveryId,
    status: webhook.status,
    attempts: webhook.attempts,
    error: webhook.error,
    created_at: webhook.createdAt.toISOString(),
    processed_at: webhook.processedAt?.toISOString() ?? null,
    dismissed_at: webhook.dismissedAt?.toISOString() ?? null,
  }
}

function textOf(rows: readonly Row[]): string {
  return table(
    ['ID', 'Integration', 'Event', 'Delivery', 'Status', 'Attempts', 'Error', 'Created'],
    rows.map((row) => [
      row.id,
      row.integration_id,
      row.event_type,
      row.delivery_id,
      row.status,
      row.attempts,
      row.error?.slice(0, ERROR_LENGTH),
      row.created_at,
    ]),
  )
}
