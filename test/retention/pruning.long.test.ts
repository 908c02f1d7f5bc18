/**
 * Pruning a million old rows while webhooks arrive: what it costs those who wait for an answer, and what is left of it when it is
 * killed midway.
 */
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openLoop } from '../../bench/open-loop.ts'
import { createApi } from '../../src/api/app.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { sign, webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import type { TalkingProcess } from '../support/talking-process.ts'
import { startTalkingProcess } from '../support/talking-process.ts'
import type { Said } from './pruning-process.ts'

const SCRIPT = fileURLToPath(new URL('pruning-process.ts', import.meta.url))
const KEY = encryptionKey('long')

const OLD_REQUESTS = 1_000_000
const YOUNG_REQUESTS = 20_000
/** Every so many old requests there is a retry of the one before it, and one young retry of an old request. */
const RETRY_EVERY = 50
const LOGS = 50_000
/** Every so many old logs there is one with a failed item. */
const FAILED_EVERY = 500
const COMPLETED_ITEMS = 50_000

const PER_SECOND = 200
const WINDOW_SECONDS = 5
/** Before and after pruning, each. */
const QUIET_WINDOWS = 4
const KILL_AT_ROWS = 300_000
const MAX_GROWTH = 2

let database: TestDatabase
let test: TestIntegrations
let integrationId: number
let pruning: TalkingProcess<Said> | undefined

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() }, encryptionKeys: KEY })
  integrationId = (await makeIntegration(test, 'acme')).id
  const { sql } = test
  // As calls write them: the old ones first, over 300 days.
  await sql`insert into integration_requests
      (integration_id, endpoint, method, status_code, request_data, response_data, duration_ms, retry_of, created_at)
    select ${integrationId}, '/v1/contacts/' || n, 'GET', 200, null, ${'x'.repeat(400)}, 120,
      case when n % ${RETRY_EVERY}::int = 0 then n - 1 end,
      clock_timestamp() - interval '391 days' + n * interval '300 days' / ${OLD_REQUESTS}::int
    from generate_series(1, ${OLD_REQUESTS}::int) n`
  await sql`insert into integration_requests (integration_id, endpoint, method, status_code, duration_ms, retry_of, created_at)
    select ${integrationId}, '/v1/contacts/' || n, 'GET', 200, 120,
      case when n % ${RETRY_EVERY}::int = 0 then n end,
      clock_timestamp() - interval '89 days' + n * interval '80 days' / ${YOUNG_REQUESTS}::int
    from generate_series(1, ${YOUNG_REQUESTS}::int) n`
  await sql`insert into integration_logs (integration_id, operation, direction, status, metadata, created_at)
    select ${integrationId}, 'sync', 'inbound', 'partial', '{}', clock_timestamp() - interval '400 days' + n * interval '1 minute'
    from generate_series(1, ${LOGS}::int) n`
  await sql`insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, status, completed_at)
    select integration_id, id, 'test.thing', 'failed-' || id, 'failed', created_at
    from integration_logs where id % ${FAILED_EVERY}::int = 0`
  // A quarter of the completed ones is young, and the last quarter made up for one that had failed.
  await sql`insert into integration_sync_items (integration_id, event_class, external_id, status, completed_at)
    select ${integrationId}, 'test.thing', 'thing-' || n % ${COMPLETED_ITEMS}::int,
      case when n <= ${COMPLETED_ITEMS / 4}::int then 'failed' else 'success' end,
      case when n <= ${COMPLETED_ITEMS / 4}::int or n > ${COMPLETED_ITEMS / 2}::int
        then clock_timestamp() - interval '60 days' else clock_timestamp() - interval '2 days' end
    from generate_series(1, ${(COMPLETED_ITEMS * 5) / 4}::int) n`
  for (const table of ['requests', 'logs', 'sync_items']) await sql`vacuum analyze ${sql(`integration_${table}`)}`
  await sql`checkpoint`
})
afterAll(async () => {
  await pruning?.process.stop()
  await test.close()
  await database.drop()
})

/** From its source: the long tests install no package. */
const start = (runId: string) =>
  startTalkingProcess<Said>('--conditions=durable-source', ['--import', 'tsx', SCRIPT, runId], {
    DATABASE_URL: database.url,
    INTEGRATIONS_ENCRYPTION_KEYS: KEY,
  })

/** Webhooks for so long as it is asked, in milliseconds until each was answered. */
async function answered(goOn: (windows: number) => boolean): Promise<number[]> {
  const api = createApi(test.integrations)
  const durationsMs: number[] = []
  for (let windows = 0; goOn(windows); windows += 1)
    durationsMs.push(
      ...(await openLoop({ perSecond: PER_SECOND, seconds: WINDOW_SECONDS }, async () => {
        const body = JSON.stringify({ id: randomUUID(), data: 'y'.repeat(500) })
        const headers = { 'x-signature': sign(body), 'x-delivery': randomUUID() }
        const { status } = await api.request(`/integrations/acme/${integrationId}/webhook`, {
          method: 'POST',
          headers,
          body,
        })
        if (status !== 200) throw new Error(`a webhook was answered with ${status}`)
      })),
    )
  return durationsMs
}

function percentile(durationsMs: readonly number[], percent: number): number {
  const sorted = durationsMs.toSorted((a, b) => a - b)
  return sorted[Math.ceil((sorted.length * percent) / 100) - 1] ?? Number.NaN
}

const rowsOf = async (statement: string): Promise<number> => {
  const [row] = await test.sql.unsafe<{ count: string }[]>(`select count(*) from ${statement}`)
  return Number(row?.count)
}

it('prunes a million rows beside 200 webhooks a second, killed midway, and counts each once', async () => {
  // What is cold at the start is not what is measured.
  await answered((windows) => windows < 1)
  const quiet = await answered((windows) => windows < QUIET_WINDOWS)

  const runId = randomUUID()
  let isPruned = false
  const busy = answered(() => !isPruned)
  const killed = await start(runId)
  pruning = killed
  await new Promise<void>((resolve) => {
    killed.process.child.on('message', (said: Said) => {
      if (said.kind === 'progress' && said.rows >= KILL_AT_ROWS) resolve()
    })
  })
  killed.process.child.kill('SIGKILL')
  await killed.process.exited
  const leftByKilled = await rowsOf('integration_requests')
  pruning = await start(runId)
  const { counts, seconds } = await pruning.next('pruned').finally(() => {
    isPruned = true
  })
  const durationsMs = await busy
  quiet.push(...(await answered((windows) => windows < QUIET_WINDOWS)))

  const figures = (name: string, of: readonly number[]): string =>
    `${name}: ${of.length} answers, median ${percentile(of, 50).toFixed(1)} ms, p99 ${percentile(of, 99).toFixed(1)} ms, longest ${Math.max(...of).toFixed(1)} ms`
  console.log(figures('quiet', quiet))
  console.log(figures('pruning', durationsMs))
  console.log(
    `the second process: ${seconds.toFixed(1)} s for ${leftByKilled - YOUNG_REQUESTS} requests and all other steps`,
  )

  expect(leftByKilled).toBeLessThanOrEqual(OLD_REQUESTS + YOUNG_REQUESTS - KILL_AT_ROWS)
  expect(leftByKilled).toBeGreaterThan(YOUNG_REQUESTS)
  expect(counts).toEqual({
    requests: OLD_REQUESTS,
    logs: LOGS - LOGS / FAILED_EVERY,
    idempotency_keys: 0,
    sync_items: COMPLETED_ITEMS,
    incidents_closed: 0,
    incidents: 0,
    cache: 0,
    events: 0,
    webhooks: 0,
    audit: 0,
  })
  expect(await rowsOf('integration_requests')).toBe(YOUNG_REQUESTS)
  expect(await rowsOf('integration_requests where retry_of is not null')).toBe(0)
  expect(await rowsOf('integration_logs')).toBe(LOGS / FAILED_EVERY)
  expect(await rowsOf("integration_sync_items where status = 'failed'")).toBe(LOGS / FAILED_EVERY)
  expect(await rowsOf("integration_sync_items where status = 'success'")).toBe(COMPLETED_ITEMS / 4)
  expect(await rowsOf("integration_webhooks where status = 'pending'")).toBe(
    durationsMs.length + quiet.length + PER_SECOND * WINDOW_SECONDS,
  )
  expect(percentile(durationsMs, 99)).toBeLessThanOrEqual(MAX_GROWTH * percentile(quiet, 99))
})
