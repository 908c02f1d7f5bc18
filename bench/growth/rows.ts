/** A point of the curve of stored rows: half of them settled webhooks, half their lines of the operation log, over thirty days. */
import type { Sql } from 'postgres'
import { foldFigures } from '../all/fold.ts'
import type { BenchOptions, Outcome } from '../frame.ts'
import { EVENT_TYPE } from '../webhooks/delivery.ts'
import { startProcesses } from '../webhooks/processes.ts'
import { createIntegrations, roundsOfDeliveries } from './deliveries.ts'

const ROUNDS = 3
const DEFAULT_ROWS = 1_000
/** Those that have stored rows get the new deliveries. */
const INTEGRATIONS = 100
const CHUNK_ROWS = 250_000

export async function benchRows({ quick, rounds, size = DEFAULT_ROWS, say }: BenchOptions): Promise<Outcome> {
  const lengths = { rounds: 1, seconds: 1, backlog: 0, idleDeliveries: 0 }
  const processes = await startProcesses(lengths, say, 'none', true)
  try {
    const stage = await processes.startWorkers()
    const integrations = await createIntegrations(stage, INTEGRATIONS)
    await fill(stage.tables.sql, integrations[0]?.id ?? 1, size, say)
    const measured = await roundsOfDeliveries(stage, integrations, { quick, rounds: rounds ?? ROUNDS })
    return { figures: foldFigures(measured), comparisons: [] }
  } finally {
    await processes.stop()
  }
}

/** With their indexes in place, as rows come in; vacuumed, as after a while of peace. */
async function fill(sql: Sql, firstId: number, rows: number, say: (line: string) => void): Promise<void> {
  const webhooks = Math.ceil(rows / 2)
  for (let from = 0; from < webhooks; from += CHUNK_ROWS) {
    const to = Math.min(webhooks, from + CHUNK_ROWS)
    say(`stored rows: ${(2 * to).toLocaleString('en-US')} of ${rows.toLocaleString('en-US')}`)
    await sql.begin(async (transaction) => {
      // A crash of the bench's server loses nothing that anyone keeps; each row's integration is there.
      await transaction`set local synchronous_commit = off`
      await transaction`set local session_replication_role = replica`
      await transaction`
        insert into integration_webhooks
          (integration_id, delivery_id, event_type, payload, headers, status, attempts, processed_at, created_at, updated_at)
        select ${firstId} + n % ${INTEGRATIONS}, 'stored_' || md5(n::text), ${EVENT_TYPE}, '{"id":"stored_' || n || '"}',
               '{"content-type":["application/json"]}', 'processed', 1, at, at, at
        from generate_series(${from}::int, ${to - 1}::int) n
        cross join lateral (select now() - interval '30 days' * (1 - n::float8 / ${webhooks}::float8) as at) moment`
      await transaction`
        insert into integration_logs
          (integration_id, operation, direction, status, external_id, duration_ms, created_at, updated_at)
        select ${firstId} + n % ${INTEGRATIONS}, 'webhook', 'inbound', 'success', 'stored_' || md5(n::text), 5, at, at
        from generate_series(${from}::int, ${to - 1}::int) n
        cross join lateral (select now() - interval '30 days' * (1 - n::float8 / ${webhooks}::float8) as at) moment`
    })
  }
  await sql`vacuum analyze integration_webhooks`
  await sql`vacuum analyze integration_logs`
  await sql`checkpoint`
}
