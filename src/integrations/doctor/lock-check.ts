/**
 * Sessions of ours that wait for a lock, and the session that holds it; sessions that were left in a transaction; what keeps Postgres
 * from cleaning up. Rule: docs/behaviour/doctor.md, "Locks".
 */
import type { Connection } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import { quotedName } from '../../db/sql-functions.ts'
import type { Session } from './database-sessions.ts'
import { endCommand, endWords, sessionColumns, wordsOf } from './database-sessions.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, psqlCommand, warning } from './doctor-check.ts'
import type { OldSnapshotLimits } from './old-snapshots.ts'
import { aboutOldSnapshots, OLD_SNAPSHOT } from './old-snapshots.ts'

/** Our own statements hold locks for milliseconds. A provider hangs up after some ten seconds. */
const WAITING_SECONDS = 5
/** A transaction of ours is idle for milliseconds. */
const IDLE_MINUTES = 5

export const databaseBlocked = blockedFor(WAITING_SECONDS)

/**
 * @param seconds that a session of ours has waited for at least
 * @param idleMinutes that a session has been idle in a transaction for at least
 * @param old what counts as an old snapshot
 */
export function blockedFor(seconds: number, idleMinutes = IDLE_MINUTES, old: OldSnapshotLimits = OLD_SNAPSHOT): Check {
  return {
    name: 'database.blocked',
    needs: ['database.reachable'],
    async look({ tables }, { askAside }) {
      return askAside(async (sql) => {
        const holders = await lockHolders(sql, seconds)
        const waitedFor = new Set(holders.map(({ pid }) => pid))
        const idle = (await idleHolders(sql, tables, idleMinutes)).filter(({ pid }) => !waitedFor.has(pid))
        const named = new Set([...waitedFor, ...idle.map(({ pid }) => pid)])
        return capped(
          [...holders.map(about), ...idle.map(aboutIdle), ...(await aboutOldSnapshots(sql, tables, old, named))],
          `No session of ours has waited for a lock for ${seconds} s, none has been idle for ${idleMinutes} minutes in a transaction with locks on our tables, and no old snapshot keeps dead rows in them.`,
        )
      })
    },
  }
}

interface LockHolder extends Session {
  readonly waiting: number
  /** Names of the applications that wait, quoted. */
  readonly waitingOf: string
  readonly waitingSince: Date
}

function about(holder: LockHolder): Observation {
  const { pid, waiting, waitingOf, waitingSince, tables } = holder
  const since = waitingSince
  const told = `${counted(waiting, 'session')} of ours (${waitingOf}) ${waiting === 1 ? 'waits' : 'wait'} for a lock${tables.length === 0 ? '' : ` on ${tables.join(', ')}`}, the longest since ${moment(since)}`
  if (pid === 0)
    return fault(
      `${told}. A prepared transaction holds it, without a session: find out whose it is, then commit or roll it back by its gid.`,
      psqlCommand('select gid, owner, database, prepared from pg_prepared_xacts order by prepared'),
      { since },
    )
  return fault(
    `${told}. The session with pid ${pid} holds it: ${wordsOf(holder)}. ${endWords(holder)}`,
    endCommand(holder),
    { since },
  )
}

function aboutIdle(session: Session): Observation {
  const { pid, tables, stateSince } = session
  return warning(
    `The session with pid ${pid} has been left in a transaction, and holds locks on ${tables.join(', ')}: ${wordsOf(session)}. No session of ours waits for it yet; a migration would, and a write to a row that it has changed. ${endWords(session)}`,
    endCommand(session),
    { since: stateSince },
  )
}

/**
 * Sessions that wait behind others that wait are counted for the one at their head. Locks and pids are seen by every role; state and
 * moments by a role with pg_read_all_stats, or of the same user. No table of ours is read, so nothing here waits for a lock on one.
 */
export async function lockHolders(sql: Connection['sql'], seconds: number): Promise<LockHolder[]> {
  const rows = await sql<(Omit<LockHolder, 'tables'> & { tables: string })[]>`
    with recursive asked as materialized (
      select pid, relation, waitstart from pg_locks where not granted
    ),
    waiting as materialized (
      select asked.*, pg_blocking_pids(asked.pid) as blockers,
             coalesce('"' || nullif(session.application_name, '') || '"', 'without an application_name') as application,
             session.usename = session_user
               or session.application_name = nullif(current_setting('application_name'), '') as is_ours
      from asked join pg_stat_activity session on session.pid = asked.pid
      where session.datname = current_database()
      order by is_ours desc nulls last, asked.waitstart
      limit ${MAX_LOOKED_AT}
    ),
    behind as (
      select pid as waiter, unnest(blockers) as blocker from waiting
      where is_ours and waitstart < clock_timestamp() - make_interval(secs => ${seconds})
      union
      select behind.waiter, unnest(waiting.blockers) from behind join waiting on waiting.pid = behind.blocker
    ),
    held as (
      select * from behind where not exists (select 1 from asked where asked.pid = behind.blocker)
    ),
    written as materialized (
      select lock.pid, lock.relation from pg_locks lock join pg_class on pg_class.oid = lock.relation
      where lock.granted and lock.locktype = 'relation' and lock.mode <> 'AccessShareLock' and pg_class.relkind in ('r', 'p')
        and lock.database = (select oid from pg_database where datname = current_database())
    ),
    -- Of a row's lock the server names the transaction alone: then the tables that both have written to.
    locked as (
      select held.blocker, waiting.relation from held join waiting on waiting.pid = held.waiter
      where waiting.relation is not null
      union
      select held.blocker, theirs.relation
      from held
      join waiting on waiting.pid = held.waiter and waiting.relation is null
      join written ours on ours.pid = held.waiter
      join written theirs on theirs.pid = held.blocker and theirs.relation = ours.relation
    )
    select held.blocker as pid, ${sessionColumns(sql)}, count(distinct held.waiter)::int as waiting,
           string_agg(distinct waiting.application, ', ') as "waitingOf", min(waiting.waitstart) as "waitingSince",
           (select coalesce(json_agg(relation::regclass::text order by relation::regclass::text), '[]')::text
            from locked where locked.blocker = held.blocker) as tables
    from held
    join waiting on waiting.pid = held.waiter
    left join pg_stat_activity session on session.pid = held.blocker
    group by held.blocker, session.usename, session.application_name, session.client_addr, session.state, session.backend_type,
             session.state_change, session.xact_start, session.backend_start, session.usesysid
    order by "waitingSince"`
  return rows.map(({ tables, ...row }) => ({ ...row, tables: JSON.parse(tables) as string[] }))
}

/**
 * Sessions that are idle in a transaction with locks on these tables, the longest first. A session whose state our role may not see
 * is left out.
 */
async function idleHolders(sql: Connection['sql'], tables: Tables, minutes: number): Promise<Session[]> {
  const ours = JSON.stringify(Object.values(tables).map(quotedName))
  const rows = await sql<(Omit<Session, 'tables'> & { tables: string })[]>`
    select session.pid, ${sessionColumns(sql)}, held.tables
    from pg_stat_activity session
    cross join lateral (
      select json_agg(distinct lock.relation::regclass::text)::text as tables
      from pg_locks lock
      join json_array_elements_text(${ours}::text::json) as ours (name) on lock.relation = to_regclass(ours.name)
      where lock.pid = session.pid and lock.granted and lock.locktype = 'relation'
        and lock.database = (select oid from pg_database where datname = current_database())
    ) held
    where session.datname = current_database() and session.state = 'idle in transaction' and held.tables is not null
      and session.state_change < clock_timestamp() - make_interval(mins => ${minutes})
    order by session.state_change
    limit ${MAX_LOOKED_AT}`
  return rows.map(({ tables: held, ...row }) => ({ ...row, tables: JSON.parse(held) as string[] }))
}
