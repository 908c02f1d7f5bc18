import { readdir, readFile } from 'node:fs/promises'
import type { Sql } from 'postgres'
import { InvalidArgumentException, SchemaBehind } from '../core/errors.ts'
import type { Statements } from './pool.ts'
import { Pool } from './pool.ts'
import { PREFIX_TOKEN, SCHEMA_TOKEN } from './schema/columns.ts'

/** The package's `drizzle/`: two folders up, from `src/db` and from `dist/db` alike. */
const MIGRATIONS = new URL('../../drizzle/', import.meta.url)

/** For the look at what is applied. A migration has no limit: it may have to write a large table again. */
const LOOK_SECONDS = 60

/** One lock for all prefixes of a database, since two of them may create the same schema. The bytes are arbitrary ("dint"). */
const MIGRATION_LOCK = 0x64696e74

export interface MigrationTarget {
  /**
   * Any postgres.js client of the database; its role may create tables in the schema. Its settings are taken, not its
   * connections.
   */
  sql: Sql
  /** Config `table_prefix`. */
  tablePrefix: string
  /** Created if it is missing. Default `public`. */
  schema?: string
}

/**
 * Brings the tables of one prefix up to this code. Run again, it does nothing.
 *
 * Each file is applied in a transaction of its own, under an advisory lock that ends with it: several processes may migrate
 * at the same moment, also through a transaction-mode pooler, and a file that fails leaves nothing behind.
 * Rule: docs/behaviour/database.md, "Migrations".
 *
 * @returns the names of what this call applied
 */
export async function migrate(target: MigrationTarget): Promise<{ applied: string[] }> {
  const names = identifiers(target)
  const applied: string[] = []
  for (const migration of await pendingMigrations(target)) {
    const statements = await statementsOf(migration, names)
    const apply = async (transaction: Statements): Promise<boolean> => {
      await transaction.unsafe('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK])
      if ((await history(transaction, names)).has(migration)) return false
      await createSchema(transaction, names)
      for (const statement of statements) await transaction.unsafe(statement)
      await transaction.unsafe(`insert into ${names.history} (name) values ($1)`, [migration])
      return true
    }
    const won = await overOneConnection(target, 0, (pool) => pool.begin(apply))
    if (won) applied.push(migration)
  }
  return { applied }
}

/** What {@link migrate} would apply, in order. */
export async function pendingMigrations(target: MigrationTarget): Promise<string[]> {
  const names = identifiers(target)
  const applied = await overOneConnection(target, LOOK_SECONDS, (pool) => history(pool, names))
  return (await knownMigrations()).filter((migration) => !applied.has(migration))
}

async function overOneConnection<T>(
  { sql }: MigrationTarget,
  statementSeconds: number,
  work: (pool: Pool) => Promise<T>,
): Promise<T> {
  const pool = new Pool(sql.options, { max: 1, idleSeconds: 0, statementSeconds })
  try {
    return await work(pool)
  } finally {
    await pool.close()
  }
}

/** Throws {@link SchemaBehind} unless every migration of this code is applied. Those of a newer release do no harm. */
export async function assertMigrated(target: MigrationTarget): Promise<void> {
  const [known, pending] = await Promise.all([knownMigrations(), pendingMigrations(target)])
  if (pending.length > 0) throw new SchemaBehind(known.length - pending.length, known.length)
}

/** The files' names without `.sql`. Their numbers have leading zeros, so that their order is the alphabet's. */
async function knownMigrations(): Promise<string[]> {
  const files = await readdir(MIGRATIONS)
  return files
    .filter((file) => file.endsWith('.sql'))
    .map((file) => file.slice(0, -'.sql'.length))
    .sort()
}

async function statementsOf(migration: string, names: Identifiers): Promise<string[]> {
  const template = await readFile(new URL(`${migration}.sql`, MIGRATIONS), 'utf8')
  return template
    .replaceAll(PREFIX_TOKEN, () => names.prefix)
    .replaceAll(SCHEMA_TOKEN, () => escaped(names.schema)) // stands in double quotes everywhere
    .split('--> statement-breakpoint')
}

/**
 * What is applied. The history's table is made by the first migration, so without it nothing is.
 *
 * `to_regclass()` would be shorter, but it may answer from the backend's cache what was true before the wait for the lock.
 */
async function history(statements: Statements, names: Identifiers): Promise<Set<string>> {
  const tables = (await statements.unsafe(
    'select from pg_class join pg_namespace on pg_namespace.oid = relnamespace where nspname = $1 and relname = $2',
    [names.schema, `${names.prefix}_migrations`],
  )) as unknown[]
  if (tables.length === 0) return new Set()
  const rows = (await statements.unsafe(`select name from ${names.history}`)) as { name: string }[]
  return new Set(rows.map((row) => row.name))
}

/** Looks first: `if not exists` asks for the right to create a schema even when there is nothing to create. */
async function createSchema(transaction: Statements, { schema }: Identifiers): Promise<void> {
  const found = (await transaction.unsafe('select from pg_namespace where nspname = $1', [schema])) as unknown[]
  if (found.length === 0) await transaction.unsafe(`create schema "${escaped(schema)}"`)
}

interface Identifiers {
  prefix: string
  schema: string
  /** The history's table, quoted. */
  history: string
}

function identifiers({ tablePrefix, schema = 'public' }: MigrationTarget): Identifiers {
  // The prefix goes into the text of the statements. The rule is that of config `table_prefix`.
  if (!/^[a-z_][a-z0-9_]{0,29}$/.test(tablePrefix)) {
    throw new InvalidArgumentException(
      'tablePrefix',
      `expected 1 to 30 of a-z, 0-9 and _, not starting with a digit, received ${JSON.stringify(tablePrefix)}`,
    )
  }
  const bytes = Buffer.byteLength(schema)
  if (bytes < 1 || bytes > 63 || schema.includes('\0')) {
    throw new InvalidArgumentException('schema', `expected 1 to 63 bytes, received ${JSON.stringify(schema)}`)
  }
  return { prefix: tablePrefix, schema, history: `"${escaped(schema)}"."${tablePrefix}_migrations"` }
}

const escaped = (identifier: string): string => identifier.replaceAll('"', '""')
