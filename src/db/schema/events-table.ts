import type { AnyColumn, SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import { bigint, index, smallint } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, json, moment, origin, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

/** Whether a delivery was given up. To the letter what the index says: else Postgres would not use it. */
export function hasGivenUp(outcomes: AnyColumn): SQL {
  return sql`${outcomes} @? '$.* ? (@.status == "given_up")'`
}

/** Durable events: written in the transaction of the change, delivered to queued listeners and notification targets. Ours. */
export const eventsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_events'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      /** The event's name, as listeners know it. */
      name: string('name').notNull(),
      payload: json('payload').notNull(),
      /** Claim that holds the row while it is being delivered; null between tries. */
      claim: string('claim', 120),
      /** How often the row has been claimed. */
      attempts: smallint('attempts').notNull().default(0),
      /** Not to be claimed earlier. */
      dueAt: moment('due_at').notNull().defaultNow(),
      /** Outcome by listener: a listener that has the event does not get it again when another one's try is repeated. */
      outcomes: json('outcomes').notNull().default(sql`'{}'::jsonb`),
      /** Queue in which it waits for a pump: one of its integration for first tries, another for later ones, which hold up no new event. */
      queue: bigint('queue', { mode: 'number' })
        .notNull()
        .generatedAlwaysAs(sql`integration_id * 2 + (outcomes <> '{}'::jsonb)::int`),
      /** Workers lost since it was last settled. */
      lostWorkers: smallint('lost_workers').notNull().default(0),
      /** When every listener had it or was given up. */
      deliveredAt: moment('delivered_at'),
      origin: origin(),
      ...timestamps(),
    },
    (column) => [
      // When the next row is due, of any integration.
      index(name('_events_due_idx'))
        .on(column.dueAt, column.id)
        .where(sql`${column.deliveredAt} is null and ${column.claim} is null`),
      // The next rows of each queue.
      index(name('_events_queue_idx'))
        .on(column.queue, column.dueAt, column.id)
        .where(sql`${column.deliveredAt} is null and ${column.claim} is null and ${column.lostWorkers} = 0`),
      // Rows that have lost a worker and wait apart from the others.
      index(name('_events_apart_idx'))
        .on(column.lostWorkers, column.id)
        .where(sql`${column.deliveredAt} is null and ${column.claim} is null and ${column.lostWorkers} > 0`),
      // What a claim still holds.
      index(name('_events_claim_idx'))
        .on(column.claim)
        .where(sql`${column.deliveredAt} is null and ${column.claim} is not null`),
      // Pruning.
      index(name('_events_delivered_at_idx')).on(column.deliveredAt).where(sql`${column.deliveredAt} is not null`),
      // What an operator sees and can have tried again.
      index(name('_events_given_up_idx')).on(column.id).where(hasGivenUp(column.outcomes)),
      // Deleting an integration.
      index(name('_events_integration_idx')).on(column.integrationId),
      ofIntegration(name('_events_integration_fk'), column.integrationId, integrations),
    ],
  )
