/**
 * What a host notes of its handlers' runs and of the calls that they make, in tables of its own and by the database's clock:
 * whether two runs were beside each other, and which calls were made, is told without our word for it.
 */
import { randomUUID } from 'node:crypto'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { z } from 'zod'
import { lostDatabase } from '../../src/framework/lost-database.ts'
import type { Integration, WebhookContext } from '../../src/provider.ts'
import { patiently } from './patient-sql.ts'

const Answer = z.object({ answer: z.string() })

export interface HostNotes {
  readonly sql: Sql
  readonly member: string
  /** Makes the tables. */
  prepare(): Promise<void>
  /** Notes when a run begins and when it ends. A handler whose worker was killed has no end. */
  run(context: WebhookContext, work: () => Promise<void>): Promise<void>
  /** One call, and what came of it. A failure does not fail the handler: whether it may be is judged by the notes. */
  call(integration: Integration, providerUrl: string, context: WebhookContext): Promise<void>
}

/** By a link of its own, which is no part of what is cut. */
export function hostNotes(): HostNotes {
  const member = process.env.FLEET_MEMBER ?? 'worker'
  const sql = postgres(process.env.NOTES_DATABASE_URL ?? '', {
    max: 10,
    fetch_types: false,
    // Never longer between two tries: a note that waits is a handler that works.
    backoff: () => 0.2,
    onnotice: () => {},
  })
  return {
    sql,
    member,
    async prepare() {
      await sql`
        create table if not exists handler_runs (
          id uuid primary key, delivery_id text not null, attempt int not null, member text not null,
          begun_at timestamptz not null default clock_timestamp(), ended_at timestamptz, was_aborted boolean)`
      await sql`create index if not exists handler_runs_delivery on handler_runs (delivery_id)`
      await sql`
        create table if not exists handler_calls (
          id text primary key, delivery_id text not null, member text not null, answer text, error text,
          noted_at timestamptz not null default clock_timestamp())`
    },
    async run({ deliveryId, attempt, signal }, work) {
      const run = { id: randomUUID(), delivery_id: deliveryId, attempt, member }
      await patiently(() => sql`insert into handler_runs ${sql(run)} on conflict (id) do nothing`)
      const aborted = await work().then(
        () => false,
        (error: unknown) => {
          if (!signal.aborted) throw error
          return true
        },
      )
      await patiently(
        () => sql`
          update handler_runs set ended_at = clock_timestamp(), was_aborted = ${aborted}
          where id = ${run.id} and ended_at is null`,
      )
      signal.throwIfAborted()
    },
    async call(integration, providerUrl, { deliveryId }) {
      const id = randomUUID()
      const endpoint = `/calls/${id}`
      const came = await integration
        .requestAs(Answer, endpoint, 'POST', ({ signal }) =>
          fetch(`${providerUrl}${endpoint}?member=${member}`, { method: 'POST', signal }),
        )
        .then(
          ({ answer }) => ({ answer, error: null }),
          (error: unknown) => ({ answer: null, error: lostDatabase(error) ?? String(error) }),
        )
      const note = { id, delivery_id: deliveryId, member, ...came }
      await patiently(() => sql`insert into handler_calls ${sql(note)} on conflict (id) do nothing`)
    },
  }
}
