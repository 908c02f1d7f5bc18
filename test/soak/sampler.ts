/** Everything that a soak measures, taken at one moment. */
import { readdirSync, readlinkSync } from 'node:fs'
import type { Sql } from 'postgres'
import { percentile } from '../../bench/frame.ts'
import type { Sent } from './load.ts'
import type { Kind, Reading } from './quantities.ts'
import type { SoakProcess, SoakStack } from './stack.ts'

/** Runs and webhooks are looked at this long after they began: by then most have ended. */
const LOOK_BACK_SECONDS = 10
/** It is kept for longer than a soak lasts, so it grows by design: docs/behaviour/charts.md. */
const KEPT = 'integration_rollups'

export interface Sampler {
  sample(): Promise<Reading[]>
}

/** @param sent what has been sent since; the answers' times are taken from it */
export async function startSampler(stack: SoakStack, sent: Sent): Promise<Sampler> {
  const { sql } = stack
  await sql`create extension if not exists pgstattuple`
  let [{ now: from }] = (await sql`select now() - ${`${LOOK_BACK_SECONDS} s`}::interval as now`) as [{ now: Date }]
  return {
    async sample() {
      const readings: Reading[] = []
      const calls: number[] = []
      // One after the other: a collection of garbage stops its process.
      for (const process of stack.processes) readings.push(...(await processReadings(process, calls)))
      const answers = sent.answersMs.splice(0)
      const [{ now: to }] = (await sql`select now() - ${`${LOOK_BACK_SECONDS} s`}::interval as now`) as [{ now: Date }]
      const times = {
        answers,
        calls,
        settlements: await settlementsMs(sql, from, to),
        runs: await runsMs(sql, from, to),
      }
      from = to
      readings.push(
        ...timeReadings('answers to webhooks', times.answers),
        ...timeReadings('webhooks, stored to settled', times.settlements),
        ...timeReadings('outbound calls', times.calls),
        ...timeReadings('sync runs', times.runs),
        { kind: 'connections', of: 'Postgres', value: await connections(sql) },
        ...(await tableReadings(sql)),
      )
      return readings
    },
  }
}

async function processReadings({ name, pid, insight }: SoakProcess, calls: number[]): Promise<Reading[]> {
  const { heapBytes, residentBytes, handles, callsMs } = await insight()
  calls.push(...callsMs)
  const descriptors = descriptorsOf(await pid())
  const values = {
    heap: heapBytes,
    resident: residentBytes,
    handles,
    descriptors: descriptors.length,
    sockets: descriptors.filter((target) => target.startsWith('socket:')).length,
  }
  return Object.entries(values).map(([kind, value]) => ({ kind: kind as keyof typeof values, of: name, value }))
}

/** What each open descriptor leads to: proc(5). */
function descriptorsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${name}`)]
    } catch {
      // It was closed meanwhile.
      return []
    }
  })
}

function timeReadings(of: string, timesMs: readonly number[]): Reading[] {
  if (timesMs.length === 0) return []
  const kinds: readonly (readonly [Kind, number])[] = [
    ['p50', 0.5],
    ['p95', 0.95],
  ]
  return kinds.map(([kind, share]) => ({ kind, of, value: percentile(timesMs, share) }))
}

/** One that is not settled yet counts as if it were settled now. */
async function settlementsMs(sql: Sql, from: Date, to: Date): Promise<number[]> {
  const rows = await sql<{ ms: number }[]>`
    select extract(epoch from coalesce(processed_at, now()) - created_at)::float8 * 1000 as ms
    from integration_webhooks where created_at > ${from} and created_at <= ${to}`
  return rows.map(({ ms }) => ms)
}

/** The same for one that has not ended yet. */
async function runsMs(sql: Sql, from: Date, to: Date): Promise<number[]> {
  const rows = await sql<{ ms: number }[]>`
    select coalesce(duration_ms, extract(epoch from now() - created_at) * 1000)::float8 as ms
    from integration_logs where operation = 'sync' and created_at > ${from} and created_at <= ${to}`
  return rows.map(({ ms }) => ms)
}

/** Of all processes; those of the soak itself are as many all the time. */
async function connections(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from pg_stat_activity where backend_type = 'client backend'`
  return row?.count ?? Number.NaN
}

interface TableSize {
  readonly name: string
  readonly bytes: number
  readonly index_bytes: number
  readonly rows: number
  readonly length: number
  readonly dead: number
  readonly free: number
}

async function tableReadings(sql: Sql): Promise<Reading[]> {
  const tables = await sql<TableSize[]>`
    select c.relname as name, pg_table_size(c.oid)::float8 as bytes, pg_indexes_size(c.oid)::float8 as index_bytes,
      s.tuple_count::float8 as rows, s.table_len::float8 as length, s.dead_tuple_len::float8 as dead, s.free_space::float8 as free
    from pg_class c, pgstattuple(c.oid) s
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname like 'integration%'
    order by 1`
  const readings = tables.flatMap(({ name, bytes, index_bytes, rows }): Reading[] => {
    if (name === KEPT) return rows === 0 ? [] : [{ kind: 'row', of: name, value: (bytes + index_bytes) / rows }]
    return [
      { kind: 'table', of: name, value: bytes },
      { kind: 'indexes', of: name, value: index_bytes },
    ]
  })
  const total = (of: 'length' | 'dead' | 'free'): number => tables.reduce((sum, table) => sum + table[of], 0)
  return [...readings, { kind: 'bloat', of: 'all tables', value: (total('dead') + total('free')) / total('length') }]
}
