import { sql } from 'drizzle-orm'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { drizzle } from 'drizzle-orm/postgres-js'
import type { Options, Sql } from 'postgres'
import postgres from 'postgres'
import { BackendUnreachable, InvalidConfiguration } from '../framework/errors.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import { passwordOf, readsOnly, socketOfOneTry } from './connecting.ts'
import { readDatabaseUrl } from './database-url.ts'
import type { PoolSettings } from './pool.ts'
import { Pool } from './pool.ts'

export type Database = PostgresJsDatabase
/** What `db.transaction()` hands to its callback. */
export type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0]

export interface ConnectOptions {
  /**
   * A URL, or a host's postgres.js client. Of a client only the settings are taken, never its connections: our statements
   * must not wait for, or land in, a transaction that the host has open.
   */
  database: string | Sql
  /**
   * False: its statements have no names, whatever the connection and the URL. For tables whose columns may change while we run: a
   * named statement keeps the types of its parameters.
   */
  names?: false
  /** Defaults: 10 connections, 60 s idle, 60 s a statement, no limit for a lock. */
  pool?: Partial<Omit<PoolSettings, 'names'>>
}

export interface Connection {
  /** For queries built with Drizzle. Errors are Postgres' own (`error.code` is the SQLSTATE), see {@link withPlainErrors}. */
  readonly db: Database
  /**
   * For SQL written by hand, over one connection of its own. Speaks the same types: bigint as number, timestamptz as Date, jsonb
   * as the parsed value.
   */
  readonly sql: Sql
  /** Host and port, no password. */
  readonly address: string
  /** Waits up to 5 s for the statements under way. */
  close(): Promise<void>
}

/** The oldest Postgres that we test on. */
const MINIMUM_VERSION = 14

/** How long one attempt to open a connection may take. */
const CONNECT_SECONDS = 5

/**
 * Opens a pool. No connection is made before the first statement; {@link checkConnection} makes one.
 *
 * Statements that Drizzle builds have names where a connection leads to the server itself: that saves a round trip each. A
 * named one lives in a session, and behind a transaction-mode pooler the next transaction runs in another. `?prepare=false`
 * and `?prepare=true` in the URL settle it; a host's client with `prepare: false` does, too. Those written by hand have
 * names with `?prepare=true` only.
 */
export function connect({ database, pool = {}, ...only }: ConnectOptions): Connection {
  const { max = 10, idleSeconds = 60, statementSeconds = 60, lockSeconds } = pool
  const options: Options<Record<string, never>> = {
    prepare: false,
    max: 1,
    idle_timeout: idleSeconds,
    connect_timeout: CONNECT_SECONDS,
    // A connection's first query would ask for the array types; if the connection is cut meanwhile, the driver (3.4) lets the
    // rejection go unhandled, which ends the process. We send lists as JSON.
    fetch_types: false,
    // Notices ("relation already exists, skipping") help no reader.
    onnotice: () => {},
  }
  const { sql, names } =
    typeof database === 'string'
      ? fromUrl(database, options)
      : {
          sql: postgres({ ...settingsOf(database), ...options }),
          names: database.options.prepare ? undefined : false,
        }
  const statements = new Pool(sql.options, { max, idleSeconds, statementSeconds, lockSeconds, names, ...only })
  const db = withPlainErrors(drizzle(statements as unknown as Sql))
  speakOurTypes(sql)
  const close = async (): Promise<void> => {
    await Promise.all([statements.close(), sql.end({ timeout: 5 })])
  }
  return { db, sql, address: addressOf(sql), close }
}

/**
 * Throws unless Postgres answers in time, is recent enough and takes writes.
 *
 * Asks over a connection of its own: a busy pool is not an unreachable server, and a failed check leaves nothing waiting.
 *
 * @throws BackendUnreachable with host and port, never the password
 * @throws InvalidConfiguration when it is too old
 */
export async function checkConnection(
  { sql, address }: Pick<Connection, 'sql' | 'address'>,
  { timeoutSeconds = CONNECT_SECONDS, minimumVersion = MINIMUM_VERSION } = {},
): Promise<void> {
  const { version, takesWrites } = await askAside(sql, serverState, timeoutSeconds).catch((cause: unknown) => {
    throw new BackendUnreachable('Postgres', address, { cause, remedy: connectRemedy(cause) })
  })
  if (!takesWrites)
    throw new BackendUnreachable('Postgres', address, {
      trouble: `Postgres at ${address} takes no writes`,
      remedy: STANDBY,
    })
  const major = Math.floor(version / 10_000)
  if (major < minimumVersion) {
    const received = `Postgres ${major} at ${address}`
    throw new InvalidConfiguration([{ key: 'database', expected: `Postgres ${minimumVersion} or newer`, received }])
  }
}

/**
 * Asks over a connection that is made for it, and closed: those of a pool may all be waiting for a lock. Of several servers the
 * one that takes writes answers, else the last.
 *
 * @param like where and as whom it connects
 */
export async function askAside<T>(
  like: Sql,
  question: (sql: Sql) => Promise<T>,
  timeoutSeconds = CONNECT_SECONDS,
): Promise<T> {
  const { host, port } = like.options
  const asked = host.map((name, at) =>
    askServer(like, { host: name, port: port[at] ?? 0 }, timeoutSeconds, async (sql) => ({
      isStandby: host.length > 1 && (await readsOnly(sql)),
      answer: await question(sql),
    })),
  )
  try {
    return await Promise.any(
      asked.map(async (one) => {
        const { isStandby, answer } = await one
        if (isStandby) throw new Error('it takes no writes')
        return answer
      }),
    )
  } catch {
    const last = await asked.at(-1)
    if (last === undefined) throw new TypeError('an address without a host')
    return last.answer
  }
}

async function askServer<T>(
  like: Sql,
  server: { readonly host: string; readonly port: number },
  timeoutSeconds: number,
  question: (sql: Sql) => Promise<T>,
): Promise<T> {
  let isOpen = true
  let refuse: (error: Error) => void = () => {}
  const noPassword = new Promise<never>((_, reject) => {
    refuse = reject
  })
  noPassword.catch(() => {})
  const aside = postgres({
    ...settingsOf(like),
    ...server,
    target_session_attrs: undefined,
    max: 1,
    connect_timeout: CONNECT_SECONDS,
    fetch_types: false,
    pass: passwordOf(
      like.options,
      () => isOpen,
      (error) => {
        isOpen = false
        refuse(error)
      },
    ),
    socket: socketOfOneTry({ ...like.options, host: [server.host], port: [server.port] }),
  } as unknown as Options<Record<string, never>>)
  const late = () => new Error(`no answer within ${timeoutSeconds} s`)
  return await withTimeLimit(timeoutSeconds, late, () => Promise.race([question(aside), noPassword])).finally(() => {
    isOpen = false
    void aside.end({ timeout: 0 })
  })
}

const STANDBY =
  'It is a standby, or default_transaction_read_only is on: let the `database` URL lead to the primary. A URL may name all servers (postgres://user:password@one,two/name): the one that takes writes is used.'

/** @returns `version` as a number, such as 150004 */
async function serverState(sql: Sql): Promise<{ readonly version: number; readonly takesWrites: boolean }> {
  const [row] = await sql<{ version: number; takesWrites: boolean }[]>`
    select current_setting('server_version_num')::int as version, current_setting('transaction_read_only') = 'off' as "takesWrites"`
  if (row === undefined) throw new TypeError('a select without a row')
  return row
}

function connectRemedy(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case '28000': // invalid_authorization_specification
    case '28P01': // invalid_password
      return 'It refused the user or the password: check the `database` URL.'
    case '3D000': // invalid_catalog_name
      return 'It has no database of that name: create it, or check the `database` URL.'
    case '53300': // too_many_connections
      return 'It has no connection left: lower `pool.max`, raise its max_connections, or put a pooler before it.'
    case '57P03': // cannot_connect_now
      return 'It is starting up or shutting down: try again.'
    default:
      return `Check that it runs and that the \`database\` URL is right (${error instanceof Error && error.message !== '' ? error.message : String(code ?? error)}).`
  }
}

/** How Postgres writes dates, whatever the default of the role or the database: the driver reads ISO 8601. PgBouncer tracks it. */
const READABLE_DATES = { DateStyle: 'ISO' }

function fromUrl(
  text: string,
  options: Options<Record<string, never>>,
): { readonly sql: Sql; readonly names: boolean | undefined } {
  const { url, options: read, prepare: names } = readDatabaseUrl(text)
  const connection = { application_name: 'durable-integrations', ...READABLE_DATES } // in pg_stat_activity; the URL may say another
  // Its types know no lists of hosts.
  const settings = { ...options, ...read, connection, prepare: names ?? false } as Options<Record<string, never>>
  return { sql: postgres(url, settings), names }
}

/** Where and as whom a host's client connects; not how it names columns or reads values. */
function settingsOf({ options }: Sql): Options<Record<string, never>> {
  // The driver understands what it has read once; its types are those of what a caller may write.
  const { host, port, path, database, user, pass, ssl, connection, target_session_attrs, socket } =
    options as unknown as Record<string, unknown>
  const readable = { ...(connection as object), ...READABLE_DATES }
  const settings = { host, port, database, user, pass, ssl, connection: readable, target_session_attrs, socket }
  return (path ? { ...settings, path } : settings) as Options<Record<string, never>>
}

function addressOf({ options: { host, port, path } }: Sql): string {
  return path ? String(path) : host.map((name, index) => `${name}:${port[index]}`).join(', ')
}

/**
 * Makes rows read by hand hold what rows read by Drizzle hold.
 *
 * Drizzle turns off the driver's conversion of timestamps and of written JSON, since it does both itself. That leaves SQL
 * written by hand with texts for dates, errors for Date parameters and "[object Object]" for JSON.
 */
function speakOurTypes({ options: { parsers, serializers } }: Sql): void {
  const BIGINT = 20
  const TIMESTAMPTZ = 1184
  const TIMESTAMPTZ_ARRAY = 1185
  const JSON_TEXT = 114
  const JSONB = 3802
  // Our ids and counts stay below 2^53 (docs/decisions/0002-table-types.md). A host's keys may not, and a rounded one would be
  // another row's.
  parsers[BIGINT] = (value: string) => {
    const number = Number(value)
    return Number.isSafeInteger(number) ? number : BigInt(value)
  }
  parsers[TIMESTAMPTZ] = (value: string) => new Date(value)
  serializers[TIMESTAMPTZ] = (value: unknown) => (value instanceof Date ? value.toISOString() : value)
  // Without an entry the driver makes one from the element's.
  delete parsers[TIMESTAMPTZ_ARRAY]
  delete serializers[TIMESTAMPTZ_ARRAY]
  // A string is JSON text already: Drizzle's columns hand it over so.
  for (const type of [JSON_TEXT, JSONB]) {
    serializers[type] = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
  }
}

/**
 * Lets Postgres' own error through.
 *
 * Drizzle wraps it in one whose message lists every parameter: payloads and credentials would reach logs and Temporal's
 * history. The error of Postgres names the constraint and has the SQLSTATE in `code`.
 */
function withPlainErrors<Handle extends Database | Transaction>(db: Handle): Handle {
  const { session } = db._
  const prepareQuery = session.prepareQuery.bind(session)
  session.prepareQuery = (...parameters) => Object.assign(prepareQuery(...parameters), { queryWithCache: runPlainly })
  const transaction = db.transaction.bind(db)
  db.transaction = (work, config) => transaction((inner) => work(withPlainErrors(inner as Transaction)), config)
  return db
}

/** Takes the place of an internal method of Drizzle's prepared queries, the one that wraps. */
async function runPlainly(_text: string, _parameters: unknown[], run: () => Promise<unknown>): Promise<unknown> {
  try {
    return await run()
  } catch (error) {
    // The driver's stack ends at its socket: say who asked, too.
    if (error instanceof Error) error.stack += `\n${new Error().stack?.replace(/^.*\n/, '')}`
    throw error
  }
}

/** Postgres ends one of two transactions that wait for each other; the other one's work is then done. */
const DEADLOCK_DETECTED = '40P01'
/** Two in a row are rare; this number means that something is wrong. */
const TRIES = 5

/** Does the work again when Postgres has ended it for a deadlock. The work is one transaction, so nothing of it is left. */
export async function despiteDeadlocks<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1)
    try {
      return await work()
    } catch (error) {
      const isDeadlock = error instanceof Error && 'code' in error && error.code === DEADLOCK_DETECTED
      if (!isDeadlock || tries >= TRIES) throw error
    }
}

/** The database's clock, in milliseconds. */
export async function databaseNowMs(db: Database): Promise<number> {
  const [row] = await db.execute<{ now: string }>(
    sql`select floor(extract(epoch from clock_timestamp()) * 1000)::text as now`,
  )
  return Number(row?.now)
}
