/** The host's own tables. Ours lie beside them in the same database, under their own prefix. */
import { bigint, boolean, integer, pgTable, text, timestamp } from 'drizzle-orm/pg-core'

export const issues = pgTable('issues', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  number: integer('number').notNull(),
  title: text('title').notNull(),
  state: text('state').notNull(),
  author: text('author'),
  updatedAt: timestamp('updated_at', { withTimezone: true, mode: 'date' }).notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, mode: 'date' }).notNull().defaultNow(),
})

/** What came in by webhook, counted by event and action: shows that each delivery was handled once. */
export const activity = pgTable('activity', {
  deliveryId: text('delivery_id').primaryKey(),
  event: text('event').notNull(),
  action: text('action'),
  repository: text('repository'),
  isBot: boolean('is_bot').notNull().default(false),
  /** How often the handler ran for this delivery. */
  runs: integer('runs').notNull().default(1),
})

/** A real host would have migrations of its own; this one is small enough to say it in two statements. */
export const SCHEMA = `
  create table if not exists issues (
    id bigint primary key generated always as identity,
    number integer not null,
    title text not null,
    state text not null,
    author text,
    updated_at timestamptz not null,
    created_at timestamptz not null default now()
  );
  create table if not exists activity (
    delivery_id text primary key,
    event text not null,
    action text,
    repository text,
    is_bot boolean not null default false,
    runs integer not null default 1
  );`
