/** What a switch of an integration means for its subscription. Rule: docs/behaviour/webhook-subscriptions.md, "Asking for one". */
import type { Transaction } from '../db/client.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isSwitchedOffByPerson } from '../integrations/rules.ts'
import { managesWebhooks } from '../providers/contracts.ts'
import { makeDue, wantIfUnsaid } from './queries.ts'

/**
 * In the transaction that creates an integration, switches it or gives it other credentials: its subscription is to be
 * looked at.
 *
 * @returns whether `workflows.keepWebhookSubscription()` is to be called after the commit
 */
export async function noteSwitch(
  { config, tables, clock, providers }: Framework,
  tx: Transaction,
  row: IntegrationRow,
): Promise<boolean> {
  const provider = providers.find(row.provider)
  if (provider === null || !managesWebhooks(provider)) return false
  const now = clock.now()
  if (config.webhook.subscribe && !isSwitchedOffByPerson(row)) await wantIfUnsaid(tx, tables, row.id, now)
  return makeDue(tx, tables, row.id, now)
}
