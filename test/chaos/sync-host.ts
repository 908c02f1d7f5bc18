/**
 * The host of the chaos tests about syncs: the module that their worker loads.
 *
 * Its provider lists what the integration's metadata says. Its listener notes each run, works for a while and leaves its effect
 * in tables of the host's own, so that runs and effects can be counted without our word for it.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { z } from 'zod'
import { createIntegrations } from '../../src/index.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import { syncProvider } from '../support/providers.ts'
import { patiently } from './patient-sql.ts'
import type { Listed } from './sync-plan.ts'
import { checkpointOf, kindOf, Plan } from './sync-plan.ts'

const sql = postgres(process.env.DATABASE_URL ?? '', { max: 10, fetch_types: false, onnotice: () => {} })

/** Their effect is one row each, however often their listener runs. */
class EntrySynced extends SyncItemEvent<Listed> {
  static override readonly type = 'chaos.entry'
  static override readonly schema = z.object({
    n: z.number().int(),
    kind: z.enum(['good', 'flaky', 'poison']),
    work_ms: z.number(),
  })
}

const provider = syncProvider(
  async (session) => {
    const plan = Plan.parse(session.integration.metadata)
    for (let n = 1; n <= plan.items; n += 1) {
      const entry: Listed = { n, kind: kindOf(plan, n), work_ms: (n * plan.work_step_ms) % plan.max_work_ms }
      await session.dispatch(new EntrySynced(session.integration, entry), checkpointOf(n), n)
      if (n % plan.page === 0) await sleep(plan.page_ms)
    }
  },
  // A run starts when the test says so.
  { defaultSyncInterval: () => null, defaultRateLimit: () => null, syncItemEvents: () => [EntrySynced] },
)

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  providers: { chaos: provider },
  config: { sync: { item_tries: 3, item_backoff: [1] }, schedules: { enabled: false } },
})

integrations.on(EntrySynced, async ({ payload: { n, kind, work_ms } }: EntrySynced) => {
  const run = { id: randomUUID(), n }
  await patiently(() => sql`insert into entry_runs ${sql(run)} on conflict (id) do nothing`)
  await sleep(work_ms)
  if (kind === 'flaky') {
    await patiently(() => sql`insert into first_failures (n, run) values (${n}, ${run.id}) on conflict (n) do nothing`)
    const isFirst = await patiently(() => sql`select from first_failures where n = ${n} and run = ${run.id}`)
    if (isFirst.length > 0) throw new Error(`entry ${n} fails once`)
  }
  if (kind === 'poison') {
    const isCured = await patiently(() => sql`select from cures where n = ${n}`)
    if (isCured.length === 0) throw new Error(`entry ${n} is poison`)
  }
  await patiently(() => sql`insert into effects (n, run) values (${n}, ${run.id}) on conflict (n) do nothing`)
})

integrations.on('SyncCompleted', async ({ result }) => {
  const told = { id: randomUUID(), kind: result.kind, succeeded: result.successCount, failed: result.failureCount }
  await patiently(() => sql`insert into completions ${sql(told)} on conflict (id) do nothing`)
})

integrations.on('SyncItemFailed', async ({ item }) => {
  const told = { id: randomUUID(), n: Number(item.externalId) }
  await patiently(() => sql`insert into told_failures ${sql(told)} on conflict (id) do nothing`)
})

/** The host's own tables. */
export async function prepare(): Promise<void> {
  await sql`create table if not exists entry_runs (id uuid primary key, n int not null, at timestamptz not null default clock_timestamp())`
  await sql`create table if not exists first_failures (n int primary key, run uuid not null)`
  await sql`create table if not exists cures (n int primary key)`
  await sql`create table if not exists effects (n int primary key, run uuid not null)`
  await sql`create table if not exists completions (id uuid primary key, kind text not null, succeeded int not null, failed int not null)`
  await sql`create table if not exists told_failures (id uuid primary key, n int not null)`
  await sql.end()
}

export default integrations
