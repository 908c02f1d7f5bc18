/** Sessions of Postgres as findings name them, with the command that ends one. Rule: docs/behaviour/doctor.md, "Locks". */
import type { Connection } from '../../db/client.ts'
import { moment, psqlCommand } from './doctor-check.ts'

export interface Session {
  /** 0: a prepared transaction, which has no session. */
  readonly pid: number
  readonly user: string | null
  readonly application: string | null
  readonly client: string | null
  /** Null where the role may not see it, and for a process of the server. */
  readonly state: string | null
  readonly kind: string | null
  readonly stateSince: Date | null
  readonly transactionSince: Date | null
  readonly startedAt: string | null
  /** Whether our role may end it. */
  readonly mayEnd: boolean
  readonly role: string
  readonly tables: readonly string[]
}

export function wordsOf(session: Session): string {
  const { user, application, client, kind } = session
  const words = [
    application === null || application === '' ? 'without an application_name' : `application_name "${application}"`,
    ...(user === null ? [] : [`user "${user}"`]),
    ...(client === null ? [] : [`from ${client}`]),
    ...(kind === null || kind === 'client backend' ? [] : [kind]),
    standing(session),
  ]
  return words.join(', ')
}

export function endWords({ mayEnd, role, user }: Session): string {
  const refused = mayEnd
    ? ''
    : ` The role "${role}" may not: run it as ${user === null ? '' : `"${user}" or as `}a superuser.`
  return `Find out first whose it is. The command ends that session; what it has not committed is undone.${refused}`
}

/** A pid may be given to another session meanwhile: its start tells it apart. */
export function endCommand({ pid, startedAt }: Session): string {
  const same = startedAt === null ? '' : ` and backend_start = $$${startedAt}$$`
  return psqlCommand(
    `select pid, usename, application_name, client_addr, state, pg_terminate_backend(pid) as ended from pg_stat_activity where pid = ${pid}${same}`,
  )
}

function standing({ state, kind, stateSince, transactionSince, role }: Session): string {
  if (kind === null)
    return `its state can't be seen by the role "${role}" (a superuser lets it: grant pg_read_all_stats to "${role}")`
  const began = transactionSince === null ? '' : `, in a transaction since ${moment(transactionSince)}`
  if (state === null || stateSince === null) return `state not known${began}`
  return `${state} since ${moment(stateSince)}${began}`
}

/** What pg_stat_activity, as `session`, has of it, and whether our role may end it. */
export function sessionColumns(sql: Connection['sql']) {
  return sql`
    session.usename as user, session.application_name as application, session.client_addr::text as client,
    session.state, session.backend_type as kind, session.state_change as "stateSince",
    session.xact_start as "transactionSince", session.backend_start::text as "startedAt",
    (select rolsuper from pg_roles where rolname = session_user)
      or coalesce(pg_has_role(session_user, session.usesysid, 'usage'), false)
      or pg_has_role(session_user, 'pg_signal_backend', 'usage')
        and not coalesce((select rolsuper from pg_roles where oid = session.usesysid), true) as "mayEnd",
    session_user::text as role`
}
