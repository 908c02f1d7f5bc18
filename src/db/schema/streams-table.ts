import { sql } from 'drizzle-orm'
import { doublePrecision, index, integer, primaryKey } from 'drizzle-orm/pg-core'
import { STREAM_LENGTH } from '../../syncs/stream-rules.ts'
import type { Name, TableFactory } from './columns.ts'
import { json, moment, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

/** Null: the integration's own stream, which its row describes. */
export const streamColumn = () => string('stream', STREAM_LENGTH)

/**
 * Where each named stream of an integration stands. The columns are those that the integration's own row has for a provider with one
 * `sync()`. Ours.
 *
 * Rule: docs/behaviour/sync-streams.md.
 */
export const streamsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_streams'),
    {
      integrationId: reference('integration_id').notNull(),
      /** A key of the provider's `streams`. */
      stream: streamColumn().notNull(),
      /** End of the last run without failed items. */
      lastSyncedAt: moment('last_synced_at'),
      /** End of the last run that was finalised, clean or not; null: none was. */
      lastRunAt: moment('last_run_at'),
      nextSyncAt: moment('next_sync_at'),
      consecutiveSyncFailures: integer('consecutive_sync_failures').notNull().default(0),
      syncStaleAlertedAt: moment('sync_stale_alerted_at'),
      /** Overrides what the stream declares. */
      syncIntervalSeconds: integer('sync_interval_seconds'),
      syncCursor: json('sync_cursor'),
      /** When the last run by `fullEvery` began; null: none did. */
      fullBegunAt: moment('full_begun_at'),
      /** End of the last run by `fullEvery` without failed items. */
      lastFullAt: moment('last_full_at'),
      /** Where the stream declares an adaptive interval: what its clean runs have shown, older evidence faded. */
      changesSeen: doublePrecision('changes_seen').notNull().default(0),
      /** The time in which they happened. */
      secondsSeen: doublePrecision('seconds_seen').notNull().default(0),
      /** Smoothed; null: no run has shown it. */
      callsPerRun: doublePrecision('calls_per_run'),
      /** Beginning of the last run that counts in these; null: none does. */
      observedAt: moment('observed_at'),
      /** The interval that follows from them, by the end of the last run; null: none has ended. */
      adaptiveSeconds: doublePrecision('adaptive_seconds'),
      /** What decided about it. */
      adaptiveReason: string('adaptive_reason', 20),
      ...timestamps(),
    },
    (column) => [
      primaryKey({ name: name('_streams_pkey'), columns: [column.integrationId, column.stream] }),
      // Which streams are due: never planned first, then the longest overdue.
      index(name('_streams_due_idx')).on(column.nextSyncAt.asc().nullsFirst(), column.integrationId, column.stream),
      // Which streams count as stale.
      index(name('_streams_stale_idx')).on(column.integrationId).where(sql`${column.syncStaleAlertedAt} is not null`),
      ofIntegration(name('_streams_integration_fk'), column.integrationId, integrations),
    ],
  )
