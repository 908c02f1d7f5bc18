/**
 * The host of the inbox's proofs: the module that their API and worker processes load.
 *
 * Its handler notes when it begins and when it ends, by the database's clock, in a table of the host's own: whether two runs were
 * beside each other is told without our word for it. A handler whose worker was killed has no end.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { z } from 'zod'
import { createIntegrations } from '../../src/index.ts'
import { webhookProvider } from '../support/providers.ts'
import { patiently } from './patient-sql.ts'

const MEMBER = process.env.FLEET_MEMBER ?? 'worker'
/** Of its own link: what is noted is no part of what is cut. */
const url = process.env.NOTES_DATABASE_URL ?? process.env.DATABASE_URL ?? ''
// Never longer between two tries: a note that waits is a handler that works.
const sql = postgres(url, { max: 10, fetch_types: false, backoff: () => 0.2, onnotice: () => {} })

/** The sender's payload says how long the handler works. */
const Payload = z.object({ work_ms: z.number() })

const provider = webhookProvider({
  async handleWebhook(_integration, request, { deliveryId, attempt, signal }) {
    const run = { id: randomUUID(), delivery_id: deliveryId, attempt, member: MEMBER }
    await patiently(() => sql`insert into handler_runs ${sql(run)} on conflict (id) do nothing`)
    const aborted = await sleep(Payload.parse(request.json()).work_ms, undefined, { signal }).then(
      () => false,
      () => true,
    )
    await patiently(
      () => sql`
        update handler_runs set ended_at = clock_timestamp(), was_aborted = ${aborted}
        where id = ${run.id} and ended_at is null`,
    )
    signal.throwIfAborted()
  },
})

const integrations = createIntegrations({ database: process.env.DATABASE_URL, providers: { proof: provider } })

/** The host's own table. */
export async function prepare(): Promise<void> {
  await sql`
    create table if not exists handler_runs (
      id uuid primary key, delivery_id text not null, attempt int not null, member text not null,
      begun_at timestamptz not null default clock_timestamp(), ended_at timestamptz, was_aborted boolean)`
  await sql`create index if not exists handler_runs_delivery on handler_runs (delivery_id)`
  await sql.end()
}

export default integrations
