/**
 * From the first tables across every later migration, filled, beside statements of every release; then today's worker goes on with
 * what was under way, beside a Temporal that knows nothing of it. docs/upgrading.md, "In which order" and "Back again".
 */
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { loadHost } from '../../src/bin/host.ts'
import { migrate } from '../../src/db/apply-migrations.ts'
import { createEncryption, parseKeyRing } from '../../src/encryption.ts'
import { scratchDatabase } from '../db/scratch-database.ts'
import { until } from '../e2e/own-stack.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { startDeployed } from './deployed-process.ts'
import { fillFirstTables, forget, forgetFunctions, makeFirstTables } from './earlier-tables.ts'
import { writeAllTheTime } from './upgrade-load.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const HOST = fileURLToPath(new URL('./upgrade-host.ts', import.meta.url))
const EACH = 100_000
const OPEN = EACH / 100
/** Of tables this large. Reads wait, too: docs/upgrading.md, "What a migration does". */
const LONGEST_WAIT_MS = 5_000
const CHECKPOINT = '2026-01-01T00:00:20.000Z'

let sql: Sql
let temporal: Awaited<ReturnType<typeof shareDevServer>>
let databaseUrl: string

beforeAll(async () => {
  databaseUrl = await scratchDatabase()
  sql = postgres(databaseUrl, { max: 6, onnotice: () => {} })
  temporal = await shareDevServer()
})
afterAll(async () => {
  await sql?.end({ timeout: 5 })
  await temporal?.release()
})

it('goes on with all that was under way, and loses and repeats nothing', async () => {
  const encryptionKeys = `k1:${randomBytes(32).toString('base64')}`
  const later = await makeFirstTables(sql)
  const credentials = createEncryption(parseKeyRing({ encryptionKeys })).encrypt(1, { token: 'of before' })
  await fillFirstTables(sql, { each: EACH, credentials, provider: 'acme', eventClass: 'test.thing' })
  await sql`analyze`
  const target = { sql, tablePrefix: 'integration' }
  for (const name of later) {
    await forget(sql, name)
    const load = writeAllTheTime(sql)
    const startedAt = performance.now()
    expect((await migrate(target)).applied).toEqual([name])
    const tookMs = performance.now() - startedAt
    const { longestMs, slowest } = await load.stop()
    console.log(`${name}: ${Math.round(tookMs)} ms; longest wait ${Math.round(longestMs)} ms, ${slowest}`)
    expect(longestMs, name).toBeLessThan(LONGEST_WAIT_MS)
  }
  await forgetFunctions(sql)
  // The statements of the first release go on beside today's functions: the way back.
  const load = writeAllTheTime(sql)
  await migrate(target)
  expect((await load.stop()).longestMs).toBeLessThan(LONGEST_WAIT_MS)

  const env = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: temporal.address,
    INTEGRATIONS_ENCRYPTION_KEYS: encryptionKeys,
    INTEGRATIONS_CONFIG: HOST,
  }
  Object.assign(process.env, env)
  const { integrations, prepare } = await loadHost(HOST)
  await sql`update integration_migrations set hash = null, release = '0.0.1' where name not like 'functions/%'`
  await integrations.migrate()
  await prepare?.()
  const worker = startDeployed(
    [process.execPath, '--conditions=durable-source', '--import', 'tsx', 'src/bin/worker.ts'],
    { cwd: ROOT, env: { PATH: String(process.env.PATH), HOME: String(process.env.HOME), ...env } },
  )
  try {
    const ours = await integrations.get(1)
    expect(ours.credentialsArray()).toEqual({ token: 'of before' })
    await worker.said('"worker.ready"')
    await integrations.syncs.start(1)
    await until(
      'every webhook is settled',
      () => isEmpty(sql`select from integration_webhooks where status in ('pending', 'processing') limit 1`),
      240,
    )
    await until(
      'every item is settled',
      () => isEmpty(sql`select from integration_sync_items where status in ('pending', 'processing') limit 1`),
      240,
    )
    await until(
      'the run has ended',
      () => isEmpty(sql`select from integration_logs where operation = 'sync' and status = 'processing'`),
      240,
    )

    const runs = await sql<{ kind: string; ids: number; runs: number }[]>`
      select kind, count(*)::int as ids, sum(runs)::int as runs from upgrade_runs group by 1 order by 1`
    expect(runs).toEqual([
      { kind: 'item', ids: OPEN, runs: OPEN },
      { kind: 'webhook', ids: OPEN, runs: OPEN },
    ])
    const [run] =
      await sql`select status, metadata ->> 'adopted_by' is not null as is_adopted from integration_logs where id = 1`
    expect(run).toEqual({ status: 'success', is_adopted: true })
    const [cursor] = await sql`select sync_cursor #>> '{}' as cursor from integrations where id = 1`
    expect(cursor).toEqual({ cursor: CHECKPOINT })
    expect(await countOf('integration_webhooks')).toBe(EACH)
    expect(await countOf('integration_mappings')).toBe(EACH)

    // A write that was answered, and one whose process died before its answer was stored: neither is made again.
    for (const key of ['key-10', 'key-101']) {
      let calls = 0
      const write = ours.request('/things', 'POST', async () => ({ calls: ++calls }), { idempotencyKey: key })
      await expect(write).rejects.toMatchObject({ code: 'idempotency_conflict' })
      expect(calls).toBe(0)
    }
    expect((await worker.terminate()).code).toBe(0)
  } finally {
    await worker.kill()
    await integrations.close()
  }
}, 900_000)

async function isEmpty(rows: PromiseLike<readonly unknown[]>): Promise<boolean> {
  return (await rows).length === 0
}

async function countOf(table: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from ${sql(table)}`
  return row?.count ?? 0
}
