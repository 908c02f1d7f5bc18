/** How the syncs of integrations stand: what is left to do of their items, how their last run ended, and who has paused them. */
import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { PauseAct, SchedulePause, SyncPause } from './pause-rules.ts'
import { pauseOf } from './pause-rules.ts'

export interface SyncStanding {
  /** Items that failed, and that no later run made up for. */
  readonly failedItems: number
  /** Items between two attempts. */
  readonly waitingItems: number
  /** The last sync run that has ended, backfills left out; null: none has. */
  readonly lastRun: LastRun | null
  /** The sync run whose row says `processing`; of several streams the one that began first. Null: none does. */
  readonly openRun: OpenRun | null
  /** Of all its syncs; a stream's own is with the stream. Null: none that the audit knows. */
  readonly pause: SyncPause | null
}

export interface OpenRun {
  /** The run's row in the operation logs. */
  readonly id: number
  /** Null: the integration's own. */
  readonly stream: string | null
  readonly since: Date
}

export interface LastRun {
  /** The run's row in the operation logs. */
  readonly id: number
  readonly status: string
  readonly succeeded: number
  readonly failed: number
  /** Why its listing failed; null: it did not. */
  readonly error: string | null
}

/**
 * Newest runs among which the integration's own is looked for. A provider has `sync()` or streams, so the first one
 * is it, or none is. Only a release that changes between the two leaves both.
 */
const OWN_RUNS_DEPTH = 20

type Row = Pick<SyncStanding, 'failedItems' | 'waitingItems'> & {
  id: string
  lastRun: LastRun | null
  openRun: (Omit<OpenRun, 'since'> & { sinceMs: number }) | null
}

/** Two statements for all of them; those of a page are asked for together. */
export async function syncStandings(
  db: Database,
  tables: Tables,
  integrationIds: readonly number[],
): Promise<Map<number, SyncStanding>> {
  if (integrationIds.length === 0) return new Map()
  const ids = sql.join(
    integrationIds.map((id) => sql`(${id}::bigint)`),
    sql`, `,
  )
  const { syncItems, logs, streams } = tables
  const standings = db.execute<Row>(sql`
    select i.id, failed.items as "failedItems", waiting.items as "waitingItems", last_run.run as "lastRun",
           open_run.run as "openRun"
    from (values ${ids}) as i (id)
    cross join lateral (
      select count(*)::int as items from ${syncItems} f
      where f.integration_id = i.id and f.status = 'failed' and not exists (
        select 1 from ${syncItems} later
        where later.integration_id = f.integration_id and later.external_id = f.external_id
          and later.event_class = f.event_class and later.id > f.id and later.status in ('success', 'skipped'))
    ) failed
    cross join lateral (
      select count(*)::int as items from ${syncItems} w
      where w.integration_id = i.id and w.status = 'processing' and w.next_attempt_at is not null
    ) waiting
    left join lateral (
      select jsonb_build_object('id', l.id, 'status', l.status, 'error', l.error,
               'succeeded', coalesce((l.metadata ->> 'success_count')::int, 0),
               'failed', coalesce((l.metadata ->> 'failure_count')::int, 0)) as run
      from ${logs} l
      where l.integration_id = i.id and l.operation = 'sync' and l.status <> 'processing'
      order by l.id desc limit 1
    ) last_run on true
    left join lateral (
      select jsonb_build_object('id', newest.id, 'stream', newest.stream,
               'sinceMs', (extract(epoch from newest.created_at) * 1000)::bigint) as run
      from (
        (select lately.*
        from (
          select l.id, l.stream, l.status, l.created_at from ${logs} l
          where l.integration_id = i.id and l.operation = 'sync'
          order by l.id desc limit ${OWN_RUNS_DEPTH}
        ) lately
        where lately.stream is null
        order by lately.id desc limit 1)
        union all
        select of_stream.*
        from ${streams} st
        cross join lateral (
          select l.id, l.stream, l.status, l.created_at from ${logs} l
          where l.integration_id = i.id and l.stream = st.stream and l.operation = 'sync'
          order by l.id desc limit 1
        ) of_stream
        where st.integration_id = i.id
      ) newest
      where newest.status = 'processing'
      order by newest.id limit 1
    ) open_run on true`)
  const [rows, acts] = await Promise.all([standings, pauseActs(db, tables, integrationIds)])
  return new Map(
    rows.map(({ id, openRun: run, ...standing }) => {
      const openRun = run === null ? null : { id: run.id, stream: run.stream, since: new Date(run.sinceMs) }
      return [Number(id), { ...standing, openRun, pause: pauseOf(acts.get(Number(id)) ?? []) }]
    }),
  )
}

/**
 * The newest acts that began or ended a pause, of all streams and of each, by integration, newest first; one without such an act is left
 * out. A list asks Postgres alone: Temporal, which knows pauses, takes a query for each run. So one that was made or ended in Temporal
 * itself is not seen here, unless a run has begun since. Rule: docs/behaviour/syncs.md, "Pause and resume".
 *
 * @param streams that `pauseOf()` will be asked about
 */
export async function pauseActs(
  db: Database,
  { audit, logs }: Tables,
  integrationIds: readonly number[],
  streams: readonly string[] = [],
): Promise<Map<number, PauseAct[]>> {
  const acts = new Map<number, PauseAct[]>()
  if (integrationIds.length === 0) return acts
  const ids = sql.join(
    integrationIds.map((id) => sql`(${id}::bigint)`),
    sql`, `,
  )
  const rows = await db.execute<{
    id: string
    verb: string
    stream: string | null
    by: string
    at: string
    hasRunSince: boolean
    streamsRunSince: string[]
  }>(sql`
    select i.id, act.verb, act.stream, act.actor as by, extract(epoch from act.created_at)::float8 * 1000 as at,
      coalesce(act.created_at < case when act.stream is null
        then (select l.created_at from ${logs} l where l.integration_id = i.id and l.operation = 'sync'
          order by l.id desc limit 1)
        else (select l.created_at from ${logs} l
          where l.integration_id = i.id and l.stream = act.stream and l.operation = 'sync' order by l.id desc limit 1)
        end, false) as "hasRunSince",
      coalesce((select jsonb_agg(asked.stream) from jsonb_array_elements_text(${jsonText(streams)}::jsonb) as asked (stream)
        where act.created_at < (select l.created_at from ${logs} l
          where l.integration_id = i.id and l.stream = asked.stream and l.operation = 'sync' order by l.id desc limit 1)
      ), '[]') as "streamsRunSince"
    from (values ${ids}) as i (id)
    cross join lateral (
      select distinct on (stream) *
      from (
        select a.id, split_part(a.action, ' ', 1) as verb, substring(a.action from ' --stream (.+)$') as stream, a.actor,
          a.created_at
        from ${audit} a
        where a.integration_id = i.id and split_part(a.action, ' ', 1) in ('pause', 'resume', 'cancel', 'cursor', 'erase')
      ) acts
      order by stream, id desc
    ) act
    order by i.id, act.id desc`)
  for (const { id, at, ...act } of rows) {
    const of = acts.get(Number(id)) ?? []
    acts.set(Number(id), [...of, { ...act, at: new Date(Number(at)) }])
  }
  return acts
}

/** Whether the Schedule that starts due syncs is paused. Temporal alone knows it; workers note it, so that pages and `explain` ask Postgres. */
const SCHEDULE_PAUSE_KEY = 'schedule-pause'

/** Kept as JSON. */
interface NotedPause {
  readonly id: string
  readonly note: string | null
  /** ISO 8601. */
  readonly since: string
}

/** Null: it is not paused, or no worker has looked since it was. */
export async function findSchedulePause({ cache }: Pick<Framework, 'cache'>): Promise<SchedulePause | null> {
  const noted = ((await cache.get(SCHEDULE_PAUSE_KEY)) ?? null) as NotedPause | null
  return noted === null ? null : { ...noted, since: new Date(noted.since) }
}

/**
 * Asks Temporal and notes the answer. Temporal does not say since when: the first look that sees a pause stamps it. Workers that
 * look at the same moment note the same. @throws BackendUnreachable
 */
export async function noteSchedulePause({ temporal, cache, clock }: Framework): Promise<void> {
  const [pause, noted] = await Promise.all([temporal.dispatchPause(), findSchedulePause({ cache })])
  if (pause === null) {
    if (noted !== null) await cache.delete(SCHEDULE_PAUSE_KEY)
    return
  }
  if (noted?.id === pause.id && noted.note === pause.note) return
  const since = noted?.id === pause.id ? noted.since : clock.now()
  await cache.set(SCHEDULE_PAUSE_KEY, { ...pause, since: since.toISOString() }, null)
}
