import { sql } from 'drizzle-orm'
import { check, index, uniqueIndex } from 'drizzle-orm/pg-core'
import { INCIDENT_SOURCES, INCIDENT_STATUSES } from '../../incidents/rules.ts'
import type { Name, TableFactory } from './columns.ts'
import { id, isOneOf, json, moment, oneOf, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { HEALTH_STATUSES, ofIntegration } from './integrations-table.ts'

/** A span of trouble of one integration, from the first sign to recovery. */
export const incidentsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_incidents'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      status: oneOf('status', INCIDENT_STATUSES, 16).notNull().default('open'),
      source: oneOf('source', INCIDENT_SOURCES, 16).notNull(),
      /** What opened it: `health_degraded`, `threshold_reached`, ... */
      reason: string('reason').notNull(),
      /** The worst health reached. */
      peakSeverity: oneOf('peak_severity', HEALTH_STATUSES).notNull(),
      openedAt: moment('opened_at').notNull(),
      lastErrorAt: moment('last_error_at'),
      closedAt: moment('closed_at'),
      /** When its workflow last read the row; before `updated_at`: it has not seen the last change. Ours, beyond the specification. */
      followedAt: moment('followed_at'),
      /** A person has seen it, until it gets worse. Ours, as the four below. */
      acknowledgedAt: moment('acknowledged_at'),
      acknowledgedBy: string('acknowledged_by'),
      /** Its repeats are not notified until then, or until it gets worse. */
      snoozedUntil: moment('snoozed_until'),
      snoozedBy: string('snoozed_by'),
      /** What people have written about it, oldest first: `{at, by, text}`. */
      annotations: json('annotations').notNull().default([]),
      ...timestamps(),
    },
    (column) => [
      index(name('_incidents_status_idx')).on(column.integrationId, column.status),
      index(name('_incidents_opened_at_idx')).on(column.integrationId, column.openedAt),
      // What its workflow has not seen.
      index(name('_incidents_unseen_idx'))
        .on(column.id)
        .where(sql`${column.followedAt} is null or ${column.followedAt} < ${column.updatedAt}`),
      // Pruning.
      index(name('_incidents_closed_at_idx')).on(column.closedAt).where(sql`${column.status} = 'closed'`),
      // At most one open incident per integration. All that is open is few rows, so no other index has them: without
      // statistics Postgres would take that one for an integration's own, and read it whole.
      uniqueIndex(name('_incidents_one_open_key')).on(column.integrationId).where(sql`${column.status} = 'open'`),
      ofIntegration(name('_incidents_integration_fk'), column.integrationId, integrations),
      check(name('_incidents_status_check'), isOneOf(column.status, INCIDENT_STATUSES)),
      check(name('_incidents_source_check'), isOneOf(column.source, INCIDENT_SOURCES)),
      check(name('_incidents_severity_check'), isOneOf(column.peakSeverity, HEALTH_STATUSES)),
    ],
  )
