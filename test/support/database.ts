/**
 * A database for one test file: a clone of a template that the first caller of the run has migrated.
 *
 * Needs the global setup postgres-setup.ts (or `adminUrl`).
 */
import { createHash, randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { inject } from 'vitest'
import { migrate } from '../../src/db/apply-migrations.ts'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'

/** Makes the test files of a run wait for the one that builds the template. The bytes are arbitrary ("tmpl"). */
const TEMPLATE_LOCK = 0x746d706c
const MIGRATIONS = new URL('../../drizzle/', import.meta.url)

export interface TestDatabase {
  readonly url: string
  /** Ends the connections that are still open, and the database. */
  drop(): Promise<void>
}

export async function createTestDatabase(
  options: {
    /** Config `table_prefix` of the tables in it. */
    prefix?: string
    /** A superuser's URL. Default: the run's Postgres. */
    adminUrl?: string
  } = {},
): Promise<TestDatabase> {
  const adminUrl = options.adminUrl ?? inject('postgresUrl')
  const name = `test_${randomBytes(8).toString('hex')}`
  await asAdmin(adminUrl, async (admin) => {
    const template = await ensureTemplate(admin, adminUrl, options.prefix ?? 'integration')
    await admin`create database ${admin(name)} template ${admin(template)}`
  })
  return {
    url: urlOf(adminUrl, name),
    drop: () => asAdmin(adminUrl, (admin) => admin`drop database if exists ${admin(name)} with (force)`),
  }
}

/** A connection to a database of its own, which goes with it. */
export async function connectTestDatabase(): Promise<Connection> {
  const database = await createTestDatabase()
  const connection = connect({ database: database.url })
  return {
    ...connection,
    async close() {
      await connection.close()
      await database.drop()
    },
  }
}

async function ensureTemplate(admin: Sql, adminUrl: string, prefix: string): Promise<string> {
  const template = `template_${prefix}_${await migrationsHash()}`
  // One session holds the lock and does the rest: `max: 1`.
  await admin`select pg_advisory_lock(${TEMPLATE_LOCK})`
  try {
    const [found] = await admin`select from pg_database where datname = ${template}`
    if (found === undefined) {
      const unfinished = `${template}_unfinished`
      await admin`drop database if exists ${admin(unfinished)} with (force)`
      await admin`create database ${admin(unfinished)}`
      await asAdmin(urlOf(adminUrl, unfinished), (sql) => migrate({ sql, tablePrefix: prefix, schema: 'public' }))
      await admin`alter database ${admin(unfinished)} rename to ${admin(template)}`
    }
  } finally {
    await admin`select pg_advisory_unlock(${TEMPLATE_LOCK})`
  }
  return template
}

/** A server that outlives the run may hold the template of older migrations. */
async function migrationsHash(): Promise<string> {
  const hash = createHash('sha256')
  for (const file of (await readdir(MIGRATIONS, { recursive: true })).filter((name) => name.endsWith('.sql')).sort()) {
    hash.update(file).update(await readFile(new URL(file, MIGRATIONS)))
  }
  return hash.digest('hex').slice(0, 8)
}

async function asAdmin(url: string, work: (sql: Sql) => Promise<unknown>): Promise<void> {
  const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

function urlOf(adminUrl: string, database: string): string {
  const url = new URL(adminUrl)
  url.pathname = `/${database}`
  return url.href
}
