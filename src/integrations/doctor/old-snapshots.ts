/**
 * What keeps Postgres from removing dead rows of our tables: an old snapshot, which no VACUUM may clean behind. A claim walks over the
 * dead rows: 353 ms after 300,000 of them. Rule: docs/behaviour/doctor.md, "Old snapshots".
 */
import type { Connection } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { quotedName } from '../../db/sql-functions.ts'
import type { Session } from './database-sessions.ts'
import { endCommand, endWords, sessionColumns, wordsOf } from './database-sessions.ts'
import type { Observation } from './doctor-check.ts'
import { MAX_LOOKED_AT, moment, psqlCommand, warning } from './doctor-check.ts'

export interface OldSnapshotLimits {
  /** Of the transaction. */
  readonly minutes: number
  /** Of a replication slot, whose age has no time. */
  readonly transactions: number
  /** Of one of our tables. With fewer, an old snapshot does no harm yet. */
  readonly deadRows: number
}

/** A backup may take half an hour. Autovacuum removes dead rows long before there are 100,000. */
export const OLD_SNAPSHOT: OldSnapshotLimits = { minutes: 30, transactions: 100_000, deadRows: 100_000 }

interface Prepared {
  readonly gid: string
  readonly owner: string
  readonly since: Date
}

export interface Slot {
  readonly name: string
  readonly isActive: boolean
  readonly transactions: number
}

/** @param named pids that other findings have named */
export async function aboutOldSnapshots(
  sql: Connection['sql'],
  tables: Tables,
  { minutes, transactions, deadRows }: OldSnapshotLimits,
  named: ReadonlySet<number>,
): Promise<Observation[]> {
  const dead = await deadRowsOf(sql, tables, deadRows)
  if (dead === null) return []
  const harm = `Postgres can not remove dead rows that are younger, and claims walk over them: ${dead}`
  return [
    ...(await oldSessions(sql, minutes))
      .filter(({ pid }) => !named.has(pid))
      .map((session) =>
        warning(
          `The session with pid ${session.pid} has an old snapshot: ${wordsOf(session)}. ${harm}. ${endWords(session)}`,
          endCommand(session),
          { since: session.transactionSince },
        ),
      ),
    ...(await oldPrepared(sql, minutes)).map(({ gid, owner, since }) =>
      warning(
        `The prepared transaction "${gid}" of the user "${owner}" was left open at ${moment(since)}. ${harm}. Find out first whose it is. The command rolls it back; \`commit prepared\` keeps what it did.`,
        psqlCommand(`rollback prepared ${literal(gid)}`),
        { since },
      ),
    ),
    ...(await oldSlots(sql, transactions)).map((slot) => aboutSlot(slot, harm)),
  ]
}

/** @param harm what its snapshot does, in a sentence without its end */
export function aboutSlot({ name, isActive, transactions }: Slot, harm: string): Observation {
  const what = `The replication slot "${name}" holds a snapshot that is ${transactions} transactions old. ${harm}.`
  return isActive
    ? warning(
        `${what} A standby uses it: end the long query there. The command shows which standby.`,
        psqlCommand('select pid, usename, application_name, client_addr, backend_start from pg_stat_replication'),
      )
    : warning(
        `${what} No standby is connected to it: connect it again, or drop the slot by the command.`,
        psqlCommand(`select pg_drop_replication_slot(${literal(name)})`),
      )
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** `integration_webhooks has 310000`; null: no table has as many. By the statistics: no table is read. */
async function deadRowsOf(sql: Connection['sql'], tables: Tables, least: number): Promise<string | null> {
  const ours = JSON.stringify(Object.values(tables).map(quotedName))
  const rows = await sql<{ name: string; dead: number }[]>`
    select to_regclass(name)::text as name, pg_stat_get_dead_tuples(to_regclass(name))::float8 as dead
    from json_array_elements_text(${ours}::text::json) as ours (name)
    where pg_stat_get_dead_tuples(to_regclass(name)) >= ${least}
    order by dead desc
    limit 3`
  return rows.length === 0 ? null : rows.map(({ name, dead }) => `${name} has ${dead}`).join(', ')
}

/** A vacuum's own snapshot holds nothing back. Sessions whose state our role may not see are left out. */
async function oldSessions(sql: Connection['sql'], minutes: number): Promise<Session[]> {
  const rows = await sql<Omit<Session, 'tables'>[]>`
    select session.pid, ${sessionColumns(sql)}
    from pg_stat_activity session
    where session.datname = current_database() and session.pid <> pg_backend_pid() and session.backend_type <> 'autovacuum worker'
      and (session.backend_xmin is not null or session.backend_xid is not null)
      and session.xact_start < clock_timestamp() - make_interval(mins => ${minutes})
    order by session.xact_start
    limit ${MAX_LOOKED_AT}`
  return rows.map((row) => ({ ...row, tables: [] }))
}

async function oldPrepared(sql: Connection['sql'], minutes: number): Promise<Prepared[]> {
  return sql<Prepared[]>`
    select gid, owner::text, prepared as since
    from pg_prepared_xacts
    where database = current_database() and prepared < clock_timestamp() - make_interval(mins => ${minutes})
    order by prepared
    limit ${MAX_LOOKED_AT}`
}

/** A slot of logical decoding holds back the catalogue alone, in `catalog_xmin`. */
async function oldSlots(sql: Connection['sql'], transactions: number): Promise<Slot[]> {
  return sql<Slot[]>`
    select slot_name::text as name, active as "isActive", age(xmin)::int as transactions
    from pg_replication_slots
    where age(xmin) >= ${transactions}
    order by age(xmin) desc
    limit ${MAX_LOOKED_AT}`
}
