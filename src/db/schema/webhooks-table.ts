import { sql } from 'drizzle-orm'
import { boolean, check, foreignKey, index, integer, smallint, text, unique, uniqueIndex } from 'drizzle-orm/pg-core'
import { WEBHOOK_STATUSES } from '../../webhooks/rules.ts'
import type { Name, TableFactory } from './columns.ts'
import { id, isOneOf, json, moment, oneOf, reference, string, timestamps } from './columns.ts'
import type { deliveriesTable } from './deliveries-table.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

/** One row per delivery, or per event of a delivery of many. A `pending` row is the queue's entry. */
export const webhooksTable = (
  table: TableFactory,
  name: Name,
  integrations: IntegrationsTable,
  deliveries: ReturnType<typeof deliveriesTable>,
) =>
  table(
    name('_webhooks'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      /** One row per delivery id and integration: the first copy is the stored one. */
      deliveryId: string('delivery_id').notNull(),
      eventType: string('event_type'),
      /** The body's very bytes: as text, or in base64 when the headers say so. */
      payload: text('payload').notNull(),
      /** Lower-case name to values; names that start with a colon are ours. */
      headers: json('headers').$type<Record<string, string[]>>().notNull(),
      status: oneOf('status', WEBHOOK_STATUSES).notNull().default('pending'),
      /** How often the row has been claimed. */
      attempts: smallint('attempts').notNull().default(0),
      /** Null unless `failed`. */
      error: text('error'),
      /** Set with `processed` and `failed`. */
      processedAt: moment('processed_at'),
      /** Claim that holds the row while it is `processing`. Ours, beyond the specification. */
      claim: string('claim', 120),
      /**
       * The attempt that began the last replay; null: never replayed. Later attempts belong to that replay until the next one.
       * Ours, beyond the specification.
       */
      replayAttempt: smallint('replay_attempt'),
      /**
       * How often a worker was lost while it held the row, since it was settled last. A row that has lost one leaves the inbox for a
       * workflow of its own. Ours, beyond the specification.
       */
      lostWorkers: smallint('lost_workers').notNull().default(0),
      /** When a person gave up a `failed` row: it is hidden, and not tried again. Null in any other status. Ours, beyond the specification. */
      dismissedAt: moment('dismissed_at'),
      /** The span that stored the row, as W3C's `traceparent` of 55 characters; null: it was not traced. Ours, beyond the specification. */
      traceparent: string('traceparent', 55),
      /** Whether it said only what we wrote ourselves, when its last attempt began; null: not judged. Ours, beyond the specification. */
      isOwn: boolean('is_own'),
      /** The delivery that brought it beside other events; null: its own. That one has the headers, too. Ours, beyond the specification. */
      partOf: reference('part_of'),
      /** Its number in the delivery, from 1; null: it came alone. Ours, beyond the specification. */
      part: integer('part'),
      /** Webhooks of one key run one after the other; null: in any order. Ours, beyond the specification. */
      orderingKey: string('ordering_key'),
      /** Whether it is this row's turn among those of its key: false: it waits; null: it has no key, or has had its turn. Ours. */
      keyTurn: boolean('key_turn'),
      /** Of those that wait one after the other only the newest runs. Null: it has no key. Ours, beyond the specification. */
      coalesces: boolean('coalesces'),
      ...timestamps(),
    },
    (column) => [
      unique(name('_webhooks_delivery_id_key')).on(column.integrationId, column.deliveryId),
      index(name('_webhooks_created_at_idx')).on(column.integrationId, column.createdAt),
      index(name('_webhooks_status_idx')).on(column.status, column.updatedAt),
      // The next rows of an inbox.
      index(name('_webhooks_pending_idx'))
        .on(column.integrationId, column.id)
        .where(sql`${column.status} = 'pending' and ${column.keyTurn} is not false`),
      // One of a key at a time.
      uniqueIndex(name('_webhooks_turn_idx'))
        .on(column.integrationId, column.orderingKey)
        .where(sql`${column.keyTurn}`),
      // The next of a key.
      index(name('_webhooks_waiting_idx'))
        .on(column.integrationId, column.orderingKey, column.id)
        .where(sql`${column.keyTurn} is false`),
      // Rows that wait for a workflow of their own.
      index(name('_webhooks_apart_idx'))
        .on(column.id)
        .where(sql`${column.status} = 'pending' and ${column.lostWorkers} > 0`),
      // What a claim still holds.
      index(name('_webhooks_claim_idx')).on(column.claim).where(sql`${column.status} = 'processing'`),
      // What may be tried again, and what is counted as failed: rows that have used up their attempts are many, and are not walked.
      index(name('_webhooks_failed_idx'))
        .on(column.attempts, column.processedAt)
        .where(sql`${column.status} = 'failed' and ${column.dismissedAt} is null`),
      // What has failed lately. The moment is never null here, but says so: a statement without it takes the index of one integration.
      index(name('_webhooks_failed_at_idx'))
        .on(column.processedAt)
        .where(
          sql`${column.status} = 'failed' and ${column.dismissedAt} is null and ${column.processedAt} is not null`,
        ),
      // What has failed of all integrations, by id: failures come in clusters, and the primary key leads past all others.
      // No id is below 1, but it says so: what counts or recovers them takes the indexes above.
      index(name('_webhooks_failed_id_idx'))
        .on(column.id)
        .where(sql`${column.status} = 'failed' and ${column.dismissedAt} is null and ${column.id} > 0`),
      // What has failed of an integration, newest first: without it the list walks through all webhooks where few have.
      index(name('_webhooks_own_failed_idx'))
        .on(column.integrationId, column.id)
        .where(sql`${column.status} = 'failed'`),
      // The parts of a delivery.
      index(name('_webhooks_part_of_idx')).on(column.partOf, column.id).where(sql`${column.partOf} is not null`),
      foreignKey({
        name: name('_webhooks_part_of_fk'),
        columns: [column.partOf],
        foreignColumns: [deliveries.id],
      }).onDelete('set null'),
      ofIntegration(name('_webhooks_integration_fk'), column.integrationId, integrations),
      check(name('_webhooks_status_check'), isOneOf(column.status, WEBHOOK_STATUSES)),
      check(name('_webhooks_attempts_check'), sql`${column.attempts} >= 0`),
    ],
  )
