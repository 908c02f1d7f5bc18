import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { InvalidArgumentException, SchemaBehind } from '../framework/errors.ts'
import type { Logger } from '../framework/logger.ts'
import { errorLine } from '../framework/logger.ts'
import { packageVersion } from '../framework/package-version.ts'
import type { Statements } from './pool.ts'
import { Pool } from './pool.ts'
import { PREFIX_TOKEN, SCHEMA_TOKEN } from './schema/columns.ts'

/** Migrations of the tables; below it, in `functions/`, the functions. Two folders up, from `src/db` and from `dist/db` alike. */
const DRIZZLE = new URL('../../drizzle/', import.meta.url)

/** For the look at what is applied. A migration has no limit: it may have to write a large table again. */
const LOOK_SECONDS = 60

/**
 * How long a statement of a migration waits for a table that others hold, such as pg_dump for as long as a backup takes. All who come
 * after it wait behind it, so it steps back. Longer than `deadlock_timeout` (1 s): by then Postgres ends an autovacuum that is in the way.
 */
const LOCK_WAIT_MS = 2_000
/** Those who have waited go first. */
const STEP_BACK_MS = 2_000
/** https://www.postgresql.org/docs/current/errcodes-appendix.html: lock_not_available, deadlock_detected */
const HELD_BY_OTHERS = ['55P03', '40P01']

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
  /** Told when a migration waits for others. */
  logger?: Logger
}

/**
 * Brings the tables and functions of one prefix up to this code. Run again, it does nothing.
 *
 * Each migration of the tables is a transaction of its own; the functions that have changed are one transaction, since they call
 * each other. An advisory lock ends with each transaction: several processes may migrate at the same moment, also through a
 * transaction-mode pooler, and what fails leaves nothing behind.
 * Rule: docs/behaviour/database.md, "Migrations" and "Functions".
 *
 * @returns the names of what this call applied
 */
export async function migrate(target: MigrationTarget): Promise<{ applied: string[] }> {
  const names = identifiers(target)
  const release = packageVersion()
  const pending = await pendingFiles(target, release)
  const functions = pending.filter(isFunction)
  const groups = pending.filter((file) => !isFunction(file)).map((migration) => [migration])
  if (functions.length > 0) groups.push(functions)
  const applied: string[] = []
  for (const files of groups) {
    const apply = (transaction: Statements) => applyFiles(transaction, names, files, release)
    const inOneTransaction = () => overOneConnection(target, 0, (pool) => pool.begin(apply))
    applied.push(...(await steppingBack(target.logger, files, inOneTransaction)))
  }
  return { applied }
}

/** Tries again, for as long as it takes, what others' locks kept from its tables. A transaction that failed has left nothing behind. */
async function steppingBack<T>(
  logger: Logger | undefined,
  files: readonly SqlFile[],
  apply: () => Promise<T>,
): Promise<T> {
  for (;;)
    try {
      return await apply()
    } catch (error) {
      if (!HELD_BY_OTHERS.includes((error as { code?: string }).code ?? '')) throw error
      logger?.warn(
        { event: 'database.migration_waits', migration: files[0]?.name, error: errorLine(error, 300) },
        'others hold a table that the migration needs; it has stepped back for 2 s and is tried again',
      )
      await sleep(STEP_BACK_MS)
    }
}

/** What {@link migrate} would apply, in order. */
export async function pendingMigrations(target: MigrationTarget): Promise<string[]> {
  const pending = await pendingFiles(target, packageVersion())
  return pending.map(({ name }) => name)
}

/** Throws {@link SchemaBehind} unless all files of this code are applied. What a newer release has applied does no harm. */
export async function assertMigrated(target: MigrationTarget): Promise<void> {
  const [known, pending] = await Promise.all([knownFiles(), pendingMigrations(target)])
  if (pending.length > 0) throw new SchemaBehind(known.length - pending.length, known.length)
}

/** A file of `drizzle/`. */
interface SqlFile {
  /** Its path there, without `.sql`. */
  readonly name: string
  /** With the tokens in place of prefix and schema. */
  readonly template: string
  /** Of a function: SHA-256 of `template`. Null: a migration of the tables. */
  readonly hash: string | null
}

/** A row of the history. */
interface AppliedFile {
  readonly name: string
  readonly hash: string | null
  readonly release: string | null
}

const isFunction = ({ hash }: SqlFile): boolean => hash !== null

/**
 * A migration of the tables is applied once. A function is applied again when its text has changed, unless a newer release has put
 * its own there: a process of the release before, which goes on during an upgrade, must neither refuse to start nor put its own back.
 */
function isPending(file: SqlFile, applied: ReadonlyMap<string, AppliedFile>, release: string): boolean {
  const row = applied.get(file.name)
  if (row === undefined) return true
  return isFunction(file) && row.hash !== file.hash && !isLater(row.release ?? '0', release)
}

/** Whether a version comes after another one. A pre-release counts as its release. */
function isLater(version: string, than: string): boolean {
  const released = (each: string): string => each.replace(/[-+].*/, '')
  return released(version).localeCompare(released(than), 'en', { numeric: true }) > 0
}

async function applyFiles(
  transaction: Statements,
  names: Identifiers,
  files: readonly SqlFile[],
  release: string,
): Promise<string[]> {
  // A role's own limit, often set for ordinary statements, would end a long migration each time it is tried.
  await transaction.unsafe('set local statement_timeout = 0')
  await transaction.unsafe('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK])
  await transaction.unsafe(`set local lock_timeout = ${LOCK_WAIT_MS}`)
  // Looked at again under the lock: another process may have been faster.
  const applied = await history(transaction, names)
  const pending = files.filter((file) => isPending(file, applied, release))
  if (pending.length > 0) await createSchema(transaction, names)
  for (const file of pending) {
    for (const statement of statementsOf(file, names)) await transaction.unsafe(statement)
    await transaction.unsafe(
      `insert into ${names.history} (name, hash, release) values ($1, $2, $3)
        on conflict (name) do update set hash = excluded.hash, release = excluded.release, updated_at = clock_timestamp()`,
      [file.name, file.hash, release],
    )
  }
  return pending.map(({ name }) => name)
}

async function pendingFiles(target: MigrationTarget, release: string): Promise<SqlFile[]> {
  const names = identifiers(target)
  const applied = await overOneConnection(target, LOOK_SECONDS, (pool) => history(pool, names))
  return (await knownFiles()).filter((file) => isPending(file, applied, release))
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

/** The tables' migrations, then the functions, each in the order of their names: numbers have leading zeros. */
async function knownFiles(): Promise<SqlFile[]> {
  const migrations = (await sqlFilesIn('')).map((file) => ({ ...file, hash: null }))
  const functions = (await sqlFilesIn('functions/')).map((file) => ({
    ...file,
    hash: createHash('sha256').update(file.template).digest('hex'),
  }))
  return [...migrations, ...functions]
}

/** @param folder of `drizzle/`: empty, or with a slash at its end */
async function sqlFilesIn(folder: string): Promise<Omit<SqlFile, 'hash'>[]> {
  const files = (await readdir(new URL(folder, DRIZZLE))).filter((file) => file.endsWith('.sql')).sort()
  return Promise.all(
    files.map(async (file) => ({
      name: `${folder}${file.slice(0, -'.sql'.length)}`,
      template: await readFile(new URL(`${folder}${file}`, DRIZZLE), 'utf8'),
    })),
  )
}

function statementsOf({ template }: SqlFile, names: Identifiers): string[] {
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
async function history(statements: Statements, names: Identifiers): Promise<Map<string, AppliedFile>> {
  const tables = (await statements.unsafe(
    'select from pg_class join pg_namespace on pg_namespace.oid = relnamespace where nspname = $1 and relname = $2',
    [names.schema, `${names.prefix}_migrations`],
  )) as unknown[]
  if (tables.length === 0) return new Map()
  const rows = (await statements.unsafe(`select name, hash, release from ${names.history}`)) as AppliedFile[]
  return new Map(rows.map((row) => [row.name, row]))
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
