/**
 * Pauses of syncs as the audit has them: a list asks Postgres alone, while Temporal, which knows them, takes a query for each run.
 * So a pause that was made or ended in Temporal itself is not seen here, unless a run has begun since.
 * Rule: docs/behaviour/syncs.md, "Pause and resume".
 */
import { sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { PauseAct } from './pause-rules.ts'

/** Newest acts of an integration that are looked through for these. */
const ACTS_LOOKED_AT = 200

/** By integration, newest first; one without such an act is left out. */
export async function pauseActs(
  db: Database,
  { audit, logs }: Tables,
  integrationIds: readonly number[],
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
  }>(sql`
    select i.id, act.verb, act.stream, act.actor as by, extract(epoch from act.created_at)::float8 * 1000 as at,
      coalesce(act.created_at < case when act.stream is null
        then (select l.created_at from ${logs} l where l.integration_id = i.id and l.operation = 'sync'
          order by l.id desc limit 1)
        else (select l.created_at from ${logs} l
          where l.integration_id = i.id and l.stream = act.stream and l.operation = 'sync' order by l.id desc limit 1)
        end, false) as "hasRunSince"
    from (values ${ids}) as i (id)
    cross join lateral (
      select a.id, split_part(a.action, ' ', 1) as verb, substring(a.action from ' --stream (.+)$') as stream, a.actor,
        a.created_at
      from (select * from ${audit} where integration_id = i.id order by id desc limit ${ACTS_LOOKED_AT}) a
      where a.action ~ '^(pause|resume|cancel)( --stream .+)?$'
    ) act
    order by i.id, act.id desc`)
  for (const { id, at, ...act } of rows) {
    const of = acts.get(Number(id)) ?? []
    acts.set(Number(id), [...of, { ...act, at: new Date(Number(at)) }])
  }
  return acts
}
