import { sql } from 'drizzle-orm'
import { boolean, check, foreignKey, index, smallint, text } from 'drizzle-orm/pg-core'
import { SYNC_ITEM_STATUSES } from '../../syncs/items/item-rules.ts'
import type { Name, TableFactory } from './columns.ts'
import { id, isOneOf, json, moment, oneOf, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'
import type { LogsTable } from './logs-table.ts'
import { HASH_LENGTH } from './record-hashes-table.ts'
import { streamColumn } from './streams-table.ts'

/** One row per item that a sync run dispatched. */
export const syncItemsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable, logs: LogsTable) =>
  table(
    name('_sync_items'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      /** For correlation only. */
      batchId: string('batch_id', 36),
      /** The log of the run. */
      syncLogId: reference('sync_log_id'),
      /** Null: the integration's own. Ours. */
      stream: streamColumn(),
      /** The `type` of the item's event. */
      eventClass: string('event_class').notNull(),
      externalId: string('external_id', 500),
      /** The cursor token that this item stands for. */
      checkpointValue: json('checkpoint_value'),
      status: oneOf('status', SYNC_ITEM_STATUSES, 16).notNull().default('pending'),
      error: text('error'),
      attempts: smallint('attempts').notNull().default(0),
      completedAt: moment('completed_at'),
      /** The event's data between the listing and the item's run. Ours, beyond the specification. */
      payload: json('payload'),
      /** Claim that holds the row while it is `processing`. Ours, beyond the specification. */
      claim: string('claim', 120),
      /** What the last attempt ended with, while another one is due: `error` is null until the item has failed. Ours. */
      lastError: text('last_error'),
      /** When the next attempt is due; null: the item does not wait. Ours. */
      nextAttemptAt: moment('next_attempt_at'),
      /** How often a listener has put the item off with `NotYet`. Ours. */
      putOff: smallint('put_off').notNull().default(0),
      /** Of the payload, where its stream has `skipUnchanged`. Ours. */
      recordHash: string('record_hash', HASH_LENGTH),
      /** Whether it said only what we wrote ourselves, when its last attempt began; null: not judged. Ours. */
      isOwn: boolean('is_own'),
      ...timestamps(),
    },
    (column) => [
      index(name('_sync_items_status_idx')).on(column.integrationId, column.status),
      index(name('_sync_items_created_at_idx')).on(column.integrationId, column.createdAt),
      index(name('_sync_items_log_idx')).on(column.syncLogId, column.status),
      index(name('_sync_items_batch_idx')).on(column.batchId, column.status),
      // The next rows of a run, however many wait behind them.
      // The sum: the claim asks by it, so that no plan takes another index, reads all of them and sorts.
      index(name('_sync_items_pending_idx'))
        .on(sql`(${column.syncLogId} + 0)`, column.id)
        .where(sql`${column.status} = 'pending'`),
      // Items of a named stream, beside others with many. The sum: as above, asked by itemsOf() (syncs/sync-rows.ts).
      index(name('_sync_items_stream_idx'))
        .on(sql`(${column.integrationId} + 0)`, column.stream, column.status)
        .where(sql`${column.stream} is not null`),
      // What an operator has to look at, of all integrations.
      index(name('_sync_items_failed_idx')).on(column.id).where(sql`${column.status} = 'failed'`),
      // The same of one integration, beside others with many. What counts those that nothing made up for needs no rows.
      index(name('_sync_items_own_failed_idx'))
        .on(column.integrationId, column.id, column.externalId, column.eventClass)
        .where(sql`${column.status} = 'failed'`),
      // What has failed lately. The moment is never null here, but says so: a statement without it takes an index of one integration.
      index(name('_sync_items_failed_at_idx'))
        .on(column.completedAt)
        .where(sql`${column.status} = 'failed' and ${column.completedAt} is not null`),
      // What waits for another attempt, of all integrations.
      index(name('_sync_items_waiting_idx')).on(column.id).where(sql`${column.nextAttemptAt} is not null`),
      // What a claim still holds.
      index(name('_sync_items_claim_idx')).on(column.claim).where(sql`${column.status} = 'processing'`),
      // Whether a later item of the same external id made up for a failed one.
      index(name('_sync_items_external_id_idx'))
        .on(column.integrationId, column.externalId, column.id)
        .where(sql`${column.externalId} is not null`),
      // Pruning.
      index(name('_sync_items_completed_at_idx'))
        .on(column.completedAt)
        .where(sql`${column.status} in ('success', 'skipped')`),
      ofIntegration(name('_sync_items_integration_fk'), column.integrationId, integrations),
      foreignKey({
        name: name('_sync_items_log_fk'),
        columns: [column.syncLogId],
        foreignColumns: [logs.id],
      }).onDelete('set null'),
      check(name('_sync_items_status_check'), isOneOf(column.status, SYNC_ITEM_STATUSES)),
    ],
  )
