import { sql } from 'drizzle-orm'
import { index } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, reference, string, timestamps } from './columns.ts'

/** What people have done, over all integrations. Refers to no row: an act outlives what it was done to. Ours. */
export const auditTable = (table: TableFactory, name: Name) =>
  table(
    name('_audit'),
    {
      id: id(),
      /** A token's name, `cli:<user>`, or what a host said. */
      by: string('actor').notNull(),
      action: string('action').notNull(),
      /** Such as `webhook:4711`. */
      target: string('target').notNull(),
      /** IP address, a command's host, or a workflow's id; null: not known. */
      from: string('origin'),
      /** One line that says more; null: there is no more. */
      detail: string('detail', 500),
      /** Null: an act on no integration. The columns below are as they were at the time. */
      integrationId: reference('integration_id'),
      integrationName: string('integration_name'),
      provider: string('provider'),
      ownerType: string('owner_type'),
      ownerId: reference('owner_id'),
      ...timestamps(),
    },
    (column) => [
      // The acts on an integration, also on one that was deleted.
      index(name('_audit_integration_idx')).on(column.integrationId, column.id),
      // Who has paused a sync, behind however many other acts.
      index(name('_audit_pauses_idx'))
        .on(column.integrationId, column.id)
        .where(sql`split_part(${column.action}, ' ', 1) in ('pause', 'resume', 'cancel', 'cursor', 'erase')`),
      // The acts on a record.
      index(name('_audit_target_idx')).on(column.target, column.id),
      // Pruning.
      index(name('_audit_created_at_idx')).on(column.createdAt),
    ],
  )
