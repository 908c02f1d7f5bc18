/**
 * The host of the inbox's proofs: the module that their API and worker processes load.
 *
 * Its handler notes when it begins and when it ends, by the database's clock, in a table of the host's own: whether two runs were
 * beside each other is told without our word for it. A handler whose worker was killed has no end.
 *
 * Where CALLED_PROVIDER_URL is given, each run calls that provider as it begins and before it ends, and notes what came of it.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { z } from 'zod'
import { lostDatabase } from '../../src/framework/lost-database.ts'
import type { Integration } from '../../src/index.ts'
import { createIntegrations } from '../../src/index.ts'
import { webhookProvider } from '../support/providers.ts'
import { patiently } from './patient-sql.ts'

const MEMBER = process.env.FLEET_MEMBER ?? 'worker'
// Never longer between two tries: a note that waits is a handler that works.
const sql = postgres(process.env.NOTES_DATABASE_URL ?? '', {
  max: 10,
  fetch_types: false,
  backoff: () => 0.2,
  onnotice: () => {},
})

/** In place of a time: the handler ends its process, as code does that uses all memory. */
const KILLS = -1
const KILLS_AFTER_MS = 1_000
/** The sender's payload says how long the handler works. */
const Payload = z.object({ work_ms: z.number() })
const Answer = z.object({ answer: z.string() })

/** What no call came of, or no answer, does not fail the handler: whether that may be is judged by the notes. */
async function callProvider(integration: Integration): Promise<void> {
  const url = process.env.CALLED_PROVIDER_URL
  if (url === undefined) return
  const id = randomUUID()
  const endpoint = `/calls/${id}`
  const came = await integration
    .requestAs(Answer, endpoint, 'POST', ({ signal }) =>
      fetch(`${url}${endpoint}?member=${MEMBER}`, { method: 'POST', signal }),
    )
    .then(
      ({ answer }) => ({ answer, error: null }),
      (error: unknown) => ({ answer: null, error: lostDatabase(error) ?? String(error) }),
    )
  const note = { id, member: MEMBER, ...came }
  await patiently(() => sql`insert into handler_calls ${sql(note)} on conflict (id) do nothing`)
}

const provider = webhookProvider({
  async handleWebhook(integration, request, { deliveryId, attempt, signal }) {
    const run = { id: randomUUID(), delivery_id: deliveryId, attempt, member: MEMBER }
    await patiently(() => sql`insert into handler_runs ${sql(run)} on conflict (id) do nothing`)
    await callProvider(integration)
    const { work_ms: workMs } = Payload.parse(request.json())
    if (workMs === KILLS) {
      await sleep(KILLS_AFTER_MS)
      process.kill(process.pid, 'SIGKILL')
    }
    const aborted = await sleep(workMs, undefined, { signal }).then(
      () => false,
      () => true,
    )
    if (!aborted) await callProvider(integration)
    await patiently(
      () => sql`
        update handler_runs set ended_at = clock_timestamp(), was_aborted = ${aborted}
        where id = ${run.id} and ended_at is null`,
    )
    signal.throwIfAborted()
  },
})

const integrations = createIntegrations({ database: process.env.DATABASE_URL, providers: { proof: provider } })

/** The host's own tables. */
export async function prepare(): Promise<void> {
  await sql`
    create table if not exists handler_runs (
      id uuid primary key, delivery_id text not null, attempt int not null, member text not null,
      begun_at timestamptz not null default clock_timestamp(), ended_at timestamptz, was_aborted boolean)`
  await sql`create index if not exists handler_runs_delivery on handler_runs (delivery_id)`
  await sql`
    create table if not exists handler_calls (
      id text primary key, member text not null, answer text, error text,
      noted_at timestamptz not null default clock_timestamp())`
  await sql.end()
}

export default integrations
