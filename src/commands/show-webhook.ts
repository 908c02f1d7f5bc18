import type { Command } from 'commander'
import { webhookId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/frame.ts'

/** `integrations show-webhook <id>`: one webhook, its payload only on request. */
export function showWebhookCommand(frame: Frame): Command {
  return frame
    .command('show-webhook', 'Shows one webhook; its payload only on request.', [
      'integrations show-webhook 4711',
      'integrations show-webhook 4711 --payload --json',
    ])
    .argument('<id>', 'id of the webhook', webhookId)
    .option('--payload', 'show what was delivered, too', false)
    .action(
      frame.action(async ({ integrations }, id: number, { payload: wanted }: { payload: boolean }) => {
        const webhook = await integrations.admin.operator.webhook(id)
        const document = {
          id,
          integration_id: webhook.integrationId,
          delivery_id: webhook.deliveryId,
          event_type: webhook.eventType,
          status: webhook.status,
          attempts: webhook.attempts,
          error: webhook.error,
          created_at: webhook.createdAt.toISOString(),
          updated_at: webhook.updatedAt.toISOString(),
          processed_at: webhook.processedAt?.toISOString() ?? null,
          dismissed_at: webhook.dismissedAt?.toISOString() ?? null,
          claim: webhook.claim,
          replay_attempt: webhook.replayAttempt,
          headers: webhook.headers,
          ...(wanted ? { payload: webhook.payload, encoding: webhook.encoding } : {}),
        }
        const { headers, ...fields } = document
        const rows = [
          ...Object.entries(fields),
          ...Object.entries(headers).flatMap(([name, values]) => values.map((value) => [`header ${name}`, value])),
        ]
        return { document, text: table(['Field', 'Value'], rows) }
      }),
    )
}
