import { boolean, integer, uniqueIndex } from 'drizzle-orm/pg-core'
import { STREAM_LENGTH } from '../../syncs/stream-rules.ts'
import type { Name, TableFactory } from './columns.ts'
import { id, moment, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

/** SHA-256 in hex. */
export const HASH_LENGTH = 64

/**
 * What the listeners have had of each record of a stream with `skipUnchanged`. Ours.
 *
 * Rule: docs/behaviour/sync-changes.md.
 */
export const recordHashesTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_record_hashes'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      /** Empty: the integration's own. */
      stream: string('stream', STREAM_LENGTH).notNull().default(''),
      eventClass: string('event_class').notNull(),
      externalId: string('external_id', 500).notNull(),
      /** Of the payload that was last handled with success; null: it was erased. */
      hash: string('hash', HASH_LENGTH),
      /** False: an attempt began after that success, and what the host has is not known. */
      isHandled: boolean('is_handled').notNull().default(true),
      /** When the provider was told that the record is gone; null: it is there. */
      deletedAt: moment('deleted_at'),
      /** The last run that listed it unchanged, which then has no item of it. */
      listedLogId: reference('listed_log_id'),
      /** The last full listing before that one that named it, unchanged too. */
      fullLogId: reference('full_log_id'),
      /** Which part of that listing, from 1: a resumed one knows those before its bookmark. Null: of a try that has failed since. */
      listedPart: integer('listed_part'),
      ...timestamps(),
    },
    (column) => [
      uniqueIndex(name('_record_hashes_key')).on(
        column.integrationId,
        column.stream,
        column.externalId,
        column.eventClass,
      ),
      ofIntegration(name('_record_hashes_integration_fk'), column.integrationId, integrations),
    ],
  )
