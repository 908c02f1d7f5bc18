/** The host of the chaos test about streams: five streams of one provider, one of them with a poison item. */
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { z } from 'zod'
import { createIntegrations } from '../../src/index.ts'
import type { SyncStream } from '../../src/providers/contracts.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import { reduceCheckpointsByMax } from '../../src/syncs/checkpoint-rules.ts'
import { patiently } from './patient-sql.ts'
import { checkpointOf, POISONED, STREAM_ITEMS, STREAMS } from './sync-plan.ts'

const POISON = 17
const PAGE = 10

const sql = postgres(process.env.DATABASE_URL ?? '', { max: 10, fetch_types: false, onnotice: () => {} })

class Listed extends SyncItemEvent<{ stream: string; n: number }> {
  static override readonly type = 'chaos.listed'
  static override readonly schema = z.object({ stream: z.string(), n: z.number().int() })
}

function streamOf(name: string): SyncStream {
  return {
    events: [Listed],
    reduceCheckpoints: reduceCheckpointsByMax,
    sync: async (integration, session) => {
      for (let n = 1; n <= STREAM_ITEMS; n += 1) {
        await session.dispatch(new Listed(integration, { stream: name, n }), checkpointOf(n), `${name}-${n}`)
        if (n % PAGE === 0) await sleep(150)
      }
    },
  }
}

const integrations = createIntegrations({
  database: process.env.DATABASE_URL,
  providers: {
    chaos: { defaultRateLimit: () => null, streams: Object.fromEntries(STREAMS.map((name) => [name, streamOf(name)])) },
  },
  config: { sync: { item_tries: 2, item_backoff: [1] }, schedules: { enabled: false } },
})

integrations.on(Listed, async ({ integration, payload: { stream, n } }) => {
  await patiently(
    () => sql`insert into stream_runs (integration, stream, n) values (${integration.id}, ${stream}, ${n})`,
  )
  await sleep(100 + ((n * 37) % 300))
  if (stream === POISONED && n === POISON) throw new Error('poison')
  const effect = { integration: integration.id, stream, n }
  await patiently(() => sql`insert into stream_effects ${sql(effect)} on conflict do nothing`)
})

integrations.on('SyncCompleted', async ({ integration, stream = null, result: { kind } }) => {
  await patiently(() => sql`insert into stream_ends ${sql({ integration: integration.id, stream, kind })}`)
})

/** The host's own tables. */
export async function prepare(): Promise<void> {
  await sql`create table if not exists stream_runs (integration int not null, stream text not null, n int not null)`
  await sql`create table if not exists stream_effects (integration int, stream text, n int, primary key (integration, stream, n))`
  await sql`create table if not exists stream_ends (integration int not null, stream text, kind text not null)`
  await sql.end()
}

export default integrations
