/** The host's own table. */
import { bigint, pgTable, text, timestamp } from 'drizzle-orm/pg-core'

export const tickets = pgTable('tickets', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  desklineId: text('deskline_id').notNull(),
  subject: text('subject').notNull(),
  status: text('status').notNull(),
  requesterEmail: text('requester_email').notNull(),
  updatedAt: timestamp('updated_at', { withTimezone: true, mode: 'date' }).notNull(),
  /** Null: it is there. */
  deletedAt: timestamp('deleted_at', { withTimezone: true, mode: 'date' }),
})

/** A real host has migrations of its own. */
export const SCHEMA = `
  create table if not exists tickets (
    id bigint primary key generated always as identity,
    deskline_id text not null,
    subject text not null,
    status text not null,
    requester_email text not null,
    updated_at timestamptz not null,
    deleted_at timestamptz
  );`
