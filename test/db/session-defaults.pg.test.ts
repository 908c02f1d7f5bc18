/** Defaults that an administrator has set for a role or a database do not reach our statements. */
import { eq, sql } from 'drizzle-orm'
import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import { migrate } from '../../src/db/apply-migrations.ts'
import { connect } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import { SOON } from '../support/soon.ts'
import { scratchDatabase } from './scratch-database.ts'

/** Longer than any statement takes here but the one that waits. */
const STATEMENT_TIMEOUT_MS = 2_000
/** As in apply-migrations.ts: all migrations of a database wait for it. */
const MIGRATION_LOCK = 0x64696e74

it.each(['a URL', 'a URL with prepare=true', "a host's client"])(
  'migrates, reads dates and writes rows over %s as ever',
  async (given) => {
    const url = await scratchDatabase()
    const admin = postgres(url, { max: 1, fetch_types: false })
    onTestFinished(() => admin.end())
    for (const setting of [
      `statement_timeout = ${STATEMENT_TIMEOUT_MS}`,
      "datestyle = 'SQL, DMY'",
      "default_transaction_isolation = 'repeatable read'",
    ])
      await admin.unsafe(`alter database ${new URL(url).pathname.slice(1)} set ${setting}`)
    const host = postgres(url, { max: 1 })
    onTestFinished(() => host.end())
    const connection = connect({
      database: { 'a URL': url, 'a URL with prepare=true': `${url}?prepare=true` }[given] ?? host,
    })
    onTestFinished(() => connection.close())

    // Another process migrates for longer than a statement of the role may take.
    await admin`select pg_advisory_lock(${MIGRATION_LOCK}::bigint)`
    const migrated = migrate({ sql: connection.sql, tablePrefix: 'integration' }).catch((error: unknown) => error)
    const waitsForMs = async (): Promise<number> => {
      const [row] = await admin`
      select extract(epoch from clock_timestamp() - query_start) * 1000 as ms from pg_stat_activity
      where datname = current_database() and wait_event = 'advisory'`
      return Number(row?.ms ?? 0)
    }
    const failed = migrated.then((outcome) => (outcome instanceof Error ? Number.POSITIVE_INFINITY : 0))
    await expect
      .poll(async () => Math.max(await waitsForMs(), await Promise.race([failed, 0])), SOON)
      .toBeGreaterThan(STATEMENT_TIMEOUT_MS + 500)
    await admin`select pg_advisory_unlock(${MIGRATION_LOCK}::bigint)`
    expect(await migrated).toEqual({ applied: expect.arrayContaining([expect.any(String)]) })

    const { integrations } = createTables('integration')
    // The third of February, or the second of March.
    const lastSyncedAt = new Date('2031-02-03T04:05:06Z')
    const [row] = await connection.db
      .insert(integrations)
      .values({ provider: 'github', name: 'ours', credentials: 'sealed', lastSyncedAt })
      .returning()
    expect(row?.lastSyncedAt).toEqual(lastSyncedAt)
    const [read] = await connection.sql`select last_synced_at from integrations`
    expect(read?.last_synced_at).toEqual(lastSyncedAt)

    const isolation = sql<{ transaction_isolation: string }>`show transaction_isolation`
    expect(await connection.db.execute(isolation)).toMatchObject([{ transaction_isolation: 'read committed' }])
    await connection.db.transaction(async (tx) => {
      await tx.select().from(integrations)
      // Committed meanwhile: "could not serialize access due to concurrent update" at any stricter level.
      await admin`update integrations set name = 'renamed'`
      await tx.update(integrations).set({ provider: 'gitlab' }).where(eq(integrations.name, 'renamed'))
    })
    expect(await connection.db.select().from(integrations)).toMatchObject([{ name: 'renamed', provider: 'gitlab' }])
  },
)
