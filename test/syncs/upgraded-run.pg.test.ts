/** A database of before the streams: it migrates, and the run that was under way goes on. */
import { readdir, readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { migrate } from '../../src/db/apply-migrations.ts'
import { connect } from '../../src/db/client.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import { scratchDatabase } from '../db/scratch-database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'

const DRIZZLE = new URL('../../drizzle/', import.meta.url)
const LAST_BEFORE = '0004'

let test: TestIntegrations
let connection: ReturnType<typeof connect>
const handled: number[] = []

beforeAll(async () => {
  const database = await scratchDatabase()
  connection = connect({ database })
  const { sql } = connection
  const files = (await readdir(DRIZZLE)).filter((file) => file.endsWith('.sql') && file.slice(0, 4) <= LAST_BEFORE)
  for (const file of files.sort()) {
    const text = await readFile(new URL(file, DRIZZLE), 'utf8')
    await sql.unsafe(text.replaceAll('__prefix__', 'integration').replaceAll('__schema__', 'public'))
    await sql`insert into integration_migrations (name, release) values (${file.replace('.sql', '')}, '0.0.1')`
  }
  test = testIntegrations(database, { providers: { acme: syncProvider(() => {}) } })
  test.integrations.on(ThingSynced, ({ payload }) => void handled.push(payload.n))
})

afterAll(async () => {
  await test?.close()
  await connection?.close()
})

it('keeps its cursor, its run, its items and what was asked', async () => {
  const { sql } = connection
  const sealed = test.framework.encryption.encrypt(1, { token: 't' })
  await sql`
    insert into integrations (id, provider, name, credentials, sync_cursor)
    overriding system value values (1, 'acme', 'old', ${sealed}, '"2026-01-01T00:00:00Z"')`
  const [log] = await sql<{ id: string }[]>`
    insert into integration_logs (integration_id, operation, direction, status, metadata)
    values (1, 'sync', 'inbound', 'processing', ${sql.json({
      run_id: 'old',
      incremental: false,
      cursor_before: '2026-01-01T00:00:00Z',
      enumerated: true,
      listing_began_at: '2026-03-01T00:00:00Z',
      listed: 2,
    })}) returning id`
  for (const n of [1, 2])
    await sql`
      insert into integration_sync_items (integration_id, sync_log_id, batch_id, event_class, external_id, checkpoint_value, payload)
      values (1, ${Number(log?.id)}, 'old', ${ThingSynced.type}, ${String(n)}, to_jsonb(${`2026-02-0${n}T00:00:00Z`}::text),
              ${sql.json({ v: 1, data: { n } })})`
  await sql`insert into integration_sync_starts (integration_id, again_at) values (1, now())`

  const { applied } = await migrate({ sql, tablePrefix: 'integration' })
  expect(applied).toContain('0005_streams')
  expect(await runSync(test.framework, new ManualClock(new Date().toISOString()), { integrationId: 1 })).toBe(
    Number(log?.id),
  )
  expect(handled).toEqual([1, 2])
  expect(await sql`select sync_cursor as cursor, consecutive_sync_failures as failures from integrations`).toEqual([
    { cursor: '2026-02-02T00:00:00Z', failures: 0 },
  ])
  expect(await sql`select stream, again_at is not null as again from integration_sync_starts`).toEqual([
    { stream: '', again: true },
  ])
  expect(await sql`select count(*)::int as streams from integration_streams`).toEqual([{ streams: 0 }])
})
