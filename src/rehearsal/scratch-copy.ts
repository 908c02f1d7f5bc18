/** The database that a rehearsal plays in: a copy of the copy, so that the next rehearsal begins alike. Rule: docs/behaviour/rehearsal.md, "The copy". */
import { randomBytes } from 'node:crypto'
import { sql } from 'drizzle-orm'
import type { Connection } from '../db/client.ts'
import { checkConnection, connect } from '../db/client.ts'
import { readDatabaseUrl } from '../db/database-url.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'

/** Postgres cuts a longer name. */
const MAX_NAME_BYTES = 63
const SUFFIX_BYTES = '_rehearsal_0123456789ab'.length
const OBJECT_IN_USE = '55006'
const INSUFFICIENT_PRIVILEGE = '42501'

export interface Scratch {
  readonly url: string
  /** Ends its sessions, and the database. */
  drop(): Promise<void>
}

/**
 * @param signal breaks the copying off, which may take minutes
 * @throws InvalidArgumentException for the configured database itself, and where it can't be copied; BackendUnreachable
 */
export async function openScratch(framework: Framework, copyUrl: string, signal?: AbortSignal): Promise<Scratch> {
  const name = await refuseLive(framework, copyUrl)
  const own = Buffer.from(name)
    .subarray(0, MAX_NAME_BYTES - SUFFIX_BYTES)
    .toString()
    .replace(/\ufffd+$/, '')
  const scratch = `${own}_rehearsal_${randomBytes(6).toString('hex')}`
  await asOwner(copyUrl, async ({ db }) => {
    const [session] = await db.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`)
    // Postgres would finish a copy whose client is gone, and nothing would drop it.
    const breakOff = (): void => {
      const cancel = sql`select pg_cancel_backend(${session?.pid ?? 0}::integer)`
      asOwner(copyUrl, async (aside) => void (await aside.db.execute(cancel))).catch(() => {})
    }
    signal?.throwIfAborted()
    signal?.addEventListener('abort', breakOff, { once: true })
    try {
      await db.execute(sql`create database ${sql.identifier(scratch)} template ${sql.identifier(name)}`)
    } catch (cause) {
      throw refusal(cause) ?? cause
    } finally {
      signal?.removeEventListener('abort', breakOff)
    }
  })
  const drop = sql`drop database if exists ${sql.identifier(scratch)} with (force)`
  return {
    url: urlOf(copyUrl, scratch),
    drop: () => asOwner(copyUrl, async ({ db }) => void (await db.execute(drop))),
  }
}

/**
 * Two databases are one when a lock that is held in the first can't be had in the second: advisory locks belong to a database. Names,
 * addresses and even the system identifier say less: a server has many addresses, and a copy of its files the same identifier.
 *
 * @returns the database's name
 */
async function refuseLive({ db }: Framework, copyUrl: string): Promise<string> {
  const key = randomBytes(7).readUIntBE(0, 6)
  return opened(copyUrl, async (copy) => {
    await checkConnection(copy)
    return db.transaction(async (live) => {
      await live.execute(sql`select pg_advisory_xact_lock(${key})`)
      const [found] = await copy.db.execute<{ free: boolean; name: string }>(sql`
        select pg_try_advisory_xact_lock(${key}) as free, current_database() as name`)
      if (found === undefined) throw new TypeError('a select without a row')
      if (!found.free)
        throw refused(
          'a scratch copy is allowed; this is the configured database itself, though its address may be another',
        )
      return found.name
    })
  })
}

const refused = (reason: string, cause?: unknown): InvalidArgumentException =>
  new InvalidArgumentException('database', reason, { cause })

function refusal(cause: unknown): InvalidArgumentException | null {
  const { code } = cause as { readonly code?: unknown }
  if (code === OBJECT_IN_USE)
    return refused('a copy without other connections is allowed; end its other sessions', cause)
  if (code === INSUFFICIENT_PRIVILEGE)
    return refused(
      'a role is needed that owns the copy and may create databases (createdb): each rehearsal plays in a copy of its own',
      cause,
    )
  return null
}

/** Each server has it, and it has no tables of a host: a database that is copied must have no session. */
const asOwner = (copyUrl: string, work: (connection: Connection) => Promise<void>): Promise<void> =>
  opened(urlOf(copyUrl, 'postgres'), work)

async function opened<T>(url: string, work: (connection: Connection) => Promise<T>): Promise<T> {
  // A large database takes its time to be copied.
  const connection = connect({ database: url, pool: { max: 1, statementSeconds: 86_400 } })
  try {
    return await work(connection)
  } finally {
    await connection.close()
  }
}

/** The same server and parameters, another database. */
function urlOf(url: string, database: string): string {
  readDatabaseUrl(url)
  const [, server = '', parameters = ''] = /^(postgres(?:ql)?:\/\/[^/?]*)(?:\/[^?]*)?(\?.*)?$/s.exec(url) ?? []
  return `${server}/${encodeURIComponent(database)}${parameters}`
}
