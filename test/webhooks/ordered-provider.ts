/** A provider whose deliveries have an ordering key, and whose handler notes each beginning in a table of the test. */
import type { Sql } from 'postgres'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'

const told = (request: WebhookRequest) => request.json() as { key: string; n: number }

export function orderedProvider(sql: Sql): HandlesWebhooks {
  return {
    verifyWebhookSignature: () => true,
    orderingKey: (request) => told(request).key,
    async handleWebhook(_integration, request) {
      const { key, n } = told(request)
      await sql`insert into handled (key, n) values (${key}, ${n})`
    },
  }
}
