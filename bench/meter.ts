/** What a piece of work costs: statements and write-ahead log of Postgres, and processor time of all that this process has started. */
import postgres from 'postgres'
import { cpuOfDescendants } from './cpu.ts'

/** Settings of a server whose statements are counted. Others do without: it costs each statement a little. */
export const METERED = { shared_preload_libraries: 'pg_stat_statements', 'pg_stat_statements.max': '10000' }
/** The bench's own statements run as this role, and are left out. */
export const METER_ROLE = 'bench_meter'

export interface Reading {
  readonly statements: number
  readonly walBytes: number
  readonly cpuMs: number
}

export async function prepareMeter(databaseUrl: string): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  try {
    await sql.unsafe(`create extension pg_stat_statements; create role ${METER_ROLE} superuser`)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** @param sql of a connection as {@link METER_ROLE} @returns what has been used since, all of it */
export async function startMeter(sql: postgres.Sql): Promise<() => Promise<Reading>> {
  const before = await read(sql)
  return async () => {
    const { statements, walBytes, cpuMs } = await read(sql)
    return {
      statements: statements - before.statements,
      walBytes: walBytes - before.walBytes,
      cpuMs: cpuMs - before.cpuMs,
    }
  }
}

async function read(sql: postgres.Sql): Promise<Reading> {
  const [row] = await sql<{ statements: number; walBytes: number }[]>`
    select coalesce(sum(calls), 0)::float8 as statements,
           pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as "walBytes"
    from pg_stat_statements where userid <> ${METER_ROLE}::regrole`
  if (row === undefined) throw new Error('Postgres gave no reading')
  return { ...row, cpuMs: cpuOfDescendants() }
}
