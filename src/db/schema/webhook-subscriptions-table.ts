import { sql } from 'drizzle-orm'
import { boolean, index, integer, text } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { moment, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

/**
 * What is known of an integration's subscription at its provider. Without a row no one has asked for one. Ours.
 *
 * Rule: docs/behaviour/webhook-subscriptions.md.
 */
export const webhookSubscriptionsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_webhook_subscriptions'),
    {
      integrationId: reference('integration_id').primaryKey(),
      /** False: a person has removed it, and it stays away. */
      isWanted: boolean('is_wanted').notNull(),
      /** The provider's id; null: none is known. */
      subscriptionId: string('subscription_id'),
      /** Where it delivers. Set before it is created: from then on there may be one. Null: there is none. */
      url: text('url'),
      /** When it ends unless it is renewed; null: never. */
      expiresAt: moment('expires_at'),
      /** When it was created or renewed last. */
      renewedAt: moment('renewed_at'),
      /** Keyed digest of the secret that the provider signs with; null: none. */
      secretMark: string('secret_mark', 64),
      /** Number of the newest look: an earlier one that is still under way stores nothing any more. */
      claim: integer('claim').notNull().default(0),
      /** The last look that succeeded; null: none has since a creation was begun. */
      checkedAt: moment('checked_at'),
      /** When it is looked at next; null: never, for there is nothing to look after. */
      nextCheckAt: moment('next_check_at'),
      /** Looks in a row that failed. */
      failures: integer('failures').notNull().default(0),
      /** When the first of them failed. */
      failingSince: moment('failing_since'),
      /** Why the last of them failed, redacted. */
      lastError: text('last_error'),
      /** Since when they count as an incident; null: they do not. */
      alertedAt: moment('alerted_at'),
      ...timestamps(),
    },
    (column) => [
      // Which workflows are late.
      index(name('_webhook_subs_next_check_idx')).on(column.nextCheckAt).where(sql`${column.nextCheckAt} is not null`),
      // Which ones count as an incident.
      index(name('_webhook_subs_alerted_idx')).on(column.integrationId).where(sql`${column.alertedAt} is not null`),
      ofIntegration(name('_webhook_subs_integration_fk'), column.integrationId, integrations),
    ],
  )
