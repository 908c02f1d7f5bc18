import { sql } from 'drizzle-orm'
import { check, index, integer, smallint, text } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, isOneOf, json, oneOf, origin, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'
import { streamColumn } from './streams-table.ts'

export const LOG_DIRECTIONS = ['inbound', 'outbound'] as const

/** One row per operation: a sync run, a handled webhook, an import, an operator's act. */
export const logsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_logs'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      operation: string('operation').notNull(),
      direction: oneOf('direction', LOG_DIRECTIONS).notNull(),
      /** Free-form: `success`, `failed`, `processing`, `pending`, `partial`, ... */
      status: string('status').notNull(),
      summary: string('summary'),
      externalId: string('external_id'),
      metadata: json('metadata'),
      resultData: json('result_data'),
      error: text('error'),
      /** Null outside a sync item's run. */
      attempt: smallint('attempt'),
      /** Null outside a sync item's run. */
      maxAttempts: smallint('max_attempts'),
      durationMs: integer('duration_ms'),
      /** The log of the operation that this one is part of. No foreign key: pruning may take the parent earlier. */
      parentId: reference('parent_id'),
      /** Of a run, and of what is done to its cursor; null: the integration's own. Ours. */
      stream: streamColumn(),
      origin: origin(),
      ...timestamps(),
    },
    (column) => [
      // The runs of an integration, newest last.
      index(name('_logs_operation_idx')).on(column.integrationId, column.operation, column.id),
      // The newest operations of an integration that are no part of another one, however many are.
      index(name('_logs_roots_idx'))
        .on(column.integrationId, column.operation, column.id)
        .where(sql`${column.parentId} is null`),
      // The runs of all integrations, among many times as many other logs.
      index(name('_logs_runs_idx')).on(column.id).where(sql`${column.operation} in ('sync', 'backfill')`),
      // The runs of one stream, newest last.
      index(name('_logs_stream_idx'))
        .on(column.integrationId, column.stream, column.operation, column.id)
        .where(sql`${column.stream} is not null`),
      // Pruning.
      index(name('_logs_created_at_idx')).on(column.createdAt),
      // Pruning forgets the parent that a surviving log points to.
      index(name('_logs_parent_idx')).on(column.parentId).where(sql`${column.parentId} is not null`),
      // The attempts of a webhook, an item or an event, and what was done in them.
      index(name('_logs_origin_idx')).on(column.origin, column.id).where(sql`${column.origin} is not null`),
      ofIntegration(name('_logs_integration_fk'), column.integrationId, integrations),
      check(name('_logs_direction_check'), isOneOf(column.direction, LOG_DIRECTIONS)),
    ],
  )

export type LogsTable = ReturnType<typeof logsTable>
