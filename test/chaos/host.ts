/**
 * The host of the chaos tests: the module that their API and worker processes load.
 *
 * Its handler works for as long as the payload says and then notes its run in a table of the host's own, so that runs can be
 * counted without our word for it.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { z } from 'zod'
import { createIntegrations } from '../../src/index.ts'
import { webhookProvider } from '../support/providers.ts'
import { patiently } from './patient-sql.ts'

/** A run that is noted. */
interface HandlerRun {
  readonly id: string
  readonly delivery_id: string
  readonly attempt: number
}

/** The sender's payload says how long the handler works. */
const Payload = z.object({ work_ms: z.number() })

const sql = postgres(process.env.DATABASE_URL ?? '', { max: 10, fetch_types: false, onnotice: () => {} })

const provider = webhookProvider({
  async handleWebhook(_integration, request, { deliveryId, attempt }) {
    const run: HandlerRun = { id: randomUUID(), delivery_id: deliveryId, attempt }
    await sleep(Payload.parse(request.json()).work_ms)
    // The run's id keeps a note whose answer was lost from being made twice.
    await patiently(() => sql`insert into handler_runs ${sql(run)} on conflict (id) do nothing`)
  },
})

const integrations = createIntegrations({ database: process.env.DATABASE_URL, providers: { chaos: provider } })

/** The host's own table. */
export async function prepare(): Promise<void> {
  await sql`create table if not exists handler_runs (id uuid primary key, delivery_id text not null, attempt int not null)`
  await sql.end()
}

export default integrations
