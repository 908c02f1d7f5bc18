import type { Integrations } from 'durable-integrations'
import type { Sql } from 'postgres'
import { ContactSynced, DealSynced } from './crm-provider.ts'

export const TABLES = `
  create table contacts (id text primary key, name text not null, updated_at timestamptz not null);
  create table deals (id text primary key, contact_id text not null, title text not null, updated_at timestamptz not null);
`

/** Keeps the host's tables as the CRM has them. An item may come twice, and an older one after a newer. */
export function keepCrm(integrations: Integrations, sql: Sql) {
  integrations.on(ContactSynced, async ({ payload: contact }) => {
    await sql`insert into contacts ${sql(contact)}
      on conflict (id) do update set name = excluded.name, updated_at = excluded.updated_at
      where contacts.updated_at <= excluded.updated_at`
  })
  integrations.on(DealSynced, async ({ payload: deal }) => {
    await sql`insert into deals ${sql(deal)}
      on conflict (id) do update
      set contact_id = excluded.contact_id, title = excluded.title, updated_at = excluded.updated_at
      where deals.updated_at <= excluded.updated_at`
  })
}
