/** What happened beside the figures of a chart. Rule: docs/behaviour/charts.md, "Marks". */

import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import { aroundCallStateId } from '../calls/call-target.ts'
import type { Framework } from '../framework/context.ts'
import { checkPeriod } from '../framework/list-filter.ts'
import { momentOf } from './facts.ts'
import { releases } from './releases.ts'
import type { ChartFilter } from './series.ts'
import { checkFilter } from './series.ts'

export const CHART_MARKS = [
  'incident opened',
  'incident closed',
  'circuit opened',
  'deployment',
  'key rotation',
  'webhook secret rotation',
] as const

export interface ChartMark {
  readonly at: Date
  readonly kind: (typeof CHART_MARKS)[number]
  /** Such as `health_degraded` or a release. */
  readonly text: string
  /** Null: of the whole deployment. */
  readonly integrationId: number | null
  /** Of marks of incidents. */
  readonly incidentId: number | null
}

/** Of each kind the newest: more lines than that are no help. */
const MOST_OF_A_KIND = 20
/** Incidents of one integration that are looked at for it, the newest first. Of several integrations, all of the time are. */
const INCIDENTS_LOOKED_AT = 1_000

/** Oldest first. @throws InvalidArgumentException */
export async function chartMarks(
  framework: Framework,
  { from, to, ...filter }: ChartFilter & { readonly from: Date; readonly to: Date },
): Promise<ChartMark[]> {
  checkPeriod(from, to)
  checkFilter(filter)
  const within = (at: SQL): SQL => sql`${at} >= ${momentOf(from.getTime())} and ${at} < ${momentOf(to.getTime())}`
  const [rows, deployments] = await Promise.all([
    framework.db.execute<{
      at: string
      kind: ChartMark['kind']
      text: string
      integration: string | null
      incident: string | null
    }>(statement(framework, filter, { within, since: momentOf(from.getTime()) })),
    releases(framework),
  ])
  const marks = rows.map(
    ({ at, kind, text, integration, incident }): ChartMark => ({
      at: new Date(Number(at)),
      kind,
      text,
      integrationId: integration === null ? null : Number(integration),
      incidentId: incident === null ? null : Number(incident),
    }),
  )
  const deployed = deployments
    .filter(({ at }) => at >= from && at < to)
    .slice(-MOST_OF_A_KIND)
    .map(
      ({ at, release }): ChartMark => ({
        at,
        kind: 'deployment',
        text: release,
        integrationId: null,
        incidentId: null,
      }),
    )
  return [...marks, ...deployed].sort((a, b) => a.at.getTime() - b.at.getTime())
}

function statement(
  framework: Framework,
  filter: ChartFilter,
  { within, since }: { readonly within: (at: SQL) => SQL; readonly since: SQL },
): SQL {
  const { incidents, integrations, audit, cache } = framework.tables
  const { provider, integrationId, owner } = filter
  const [before, after] = aroundCallStateId(framework)
  const ofRow = (row: SQL): SQL => {
    const conditions = [
      integrationId === undefined ? undefined : sql`${row}.integration_id = ${integrationId}`,
      provider === undefined ? undefined : sql`${row}.provider = ${provider}`,
      owner === undefined ? undefined : sql`${row}.owner_type = ${owner.type} and ${row}.owner_id = ${owner.id}`,
    ].filter((condition) => condition !== undefined)
    return conditions.length === 0 ? sql`true` : sql`(${sql.join(conditions, sql` and `)})`
  }
  const newest = (select: SQL, at: SQL): SQL => sql`(${select} order by ${at} desc limit ${MOST_OF_A_KIND})`
  const ofOne = sql`where integration_id = ${integrationId} order by opened_at desc limit ${INCIDENTS_LOOKED_AT}`
  const ofTime = sql`where status = 'open' or (status = 'closed' and closed_at >= ${since})`
  const looked = integrationId === undefined ? ofTime : ofOne
  const known = sql`
    select n.*, i.provider, i.owner_type, i.owner_id from (
      select id, integration_id, source, reason, opened_at, closed_at from ${incidents} ${looked}
    ) n join ${integrations} i on i.id = n.integration_id`
  return sql`
    with known as materialized (select * from (${known}) known where ${ofRow(sql`known`)})
    select extract(epoch from mark.at) * 1000 as at, mark.kind, mark.text, mark.integration_id as integration, mark.incident_id as incident
    from (
      ${newest(
        sql`select opened_at as at, case when source = 'circuit' then 'circuit opened' else 'incident opened' end as kind,
          reason as text, integration_id, id as incident_id from known where ${within(sql`opened_at`)}`,
        sql`opened_at`,
      )}
      union all
      ${newest(
        sql`select closed_at as at, 'incident closed' as kind, reason as text, integration_id, id as incident_id
          from known where ${within(sql`closed_at`)}`,
        sql`closed_at`,
      )}
      union all
      -- A breaker that opened while an incident was open already, and is open still.
      ${newest(
        sql`select to_timestamp((c.value #>> '{breaker,openedAt}')::float8 / 1000) as at, 'circuit opened' as kind,
          'open now' as text, known.integration_id, known.id as incident_id
          from known join ${cache} c on c.key = ${before}::text || known.integration_id || ${after}::text
          where known.closed_at is null and known.source <> 'circuit' and c.value #>> '{breaker,state}' <> 'closed'
            and ${within(sql`to_timestamp((c.value #>> '{breaker,openedAt}')::float8 / 1000)`)}`,
        sql`at`,
      )}
      union all
      ${newest(
        sql`select a.created_at as at,
          case when a.action = 'keys rotate' then 'key rotation' else 'webhook secret rotation' end as kind, a.target as text, a.integration_id, null::bigint as incident_id
          from ${audit} a where a.action in ('keys rotate', 'rotate-webhook-secret') and ${within(sql`a.created_at`)}
            and (a.action = 'keys rotate' or ${ofRow(sql`a`)})`,
        sql`a.created_at`,
      )}
    ) mark`
}
