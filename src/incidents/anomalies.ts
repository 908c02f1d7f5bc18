/** Which integrations fail too often. Rule: docs/behaviour/failure-rates.md. */

import { sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { OwnedEvent } from '../events/durable-events.ts'
import { recordOwnedEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs, integrationLogger } from '../framework/logger.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { integrationsById } from '../integrations/queries.ts'
import { CLASS_OF_REQUEST } from '../observability/traffic-queries.ts'
import type { ObservedRequests } from './anomaly-rules.ts'
import { failureRateVerdict } from './anomaly-rules.ts'
import type { ElevatedRate, EvaluateFailuresResult } from './incident-jobs.ts'

/** Changes of either kind in one evaluation: the next one, a minute later, takes the rest. */
const MAX_EDGES = 1_000

/** Sets and clears the markers. Each change is announced once, after its commit; durable events are written with the markers. */
export async function evaluateFailureRates(framework: Framework): Promise<EvaluateFailuresResult> {
  const { db, tables, config } = framework
  const { observability } = config
  if (!observability.anomaly_enabled) return { enabled: false, checked: 0, elevated: [], recovered: [] }
  const windowMinutes = observability.anomaly_window_minutes
  const minimumRequests = observability.anomaly_minimum_requests
  const rule = { minimumRequests, thresholdPercent: observability.anomaly_failure_rate_threshold }
  const { active, integrations } = await observeWindow(db, tables, {
    windowMinutes,
    minimumRequests,
    nowMs: givenNowMs(framework),
  })
  const judged = integrations.map((observed) => ({ ...observed, verdict: failureRateVerdict(observed, rule) }))
  const rising = judged
    .flatMap(({ id, requests, isMarked, verdict }): ElevatedRate[] => {
      if (verdict.kind !== 'elevated' || isMarked) return []
      const { failureRate, dominantClass } = verdict
      return [{ integrationId: id, failureRate, requests, dominantClass }]
    })
    .slice(0, MAX_EDGES)
  const falling = judged
    .filter(({ isMarked, verdict }) => isMarked && verdict.kind === 'normal')
    .map(({ id }) => id)
    .slice(0, MAX_EDGES)
  if (rising.length + falling.length === 0) return { enabled: true, checked: active, elevated: [], recovered: [] }

  const changed = await db.transaction(async (tx) => {
    const ids = rising.map(({ integrationId }) => integrationId)
    const marked = await mark(tx, tables, ids, 'elevated')
    const cleared = await mark(tx, tables, falling, 'normal')
    const elevated = rising.filter(({ integrationId }) => marked.has(integrationId))
    const recovered = falling.filter((id) => cleared.has(id))
    await recordOwnedEvents(framework, tx, [
      ...elevated.map((rate) => elevatedEvent(rate, windowMinutes)),
      ...recovered.map((id): OwnedEvent => ({ integrationId: id, name: 'FailureRateRecovered', payload: {} })),
    ])
    return { elevated, recovered }
  })
  await tell(framework, changed, windowMinutes)
  return { enabled: true, checked: active, ...changed }
}

/** After the commit. An integration that is not there was deleted since. */
async function tell(
  framework: Framework,
  { elevated, recovered }: Pick<EvaluateFailuresResult, 'elevated' | 'recovered'>,
  windowMinutes: number,
): Promise<void> {
  const { db, tables, listeners } = framework
  const rows = await integrationsById(db, tables, [...elevated.map(({ integrationId }) => integrationId), ...recovered])
  for (const rate of elevated) {
    const row = rows.get(rate.integrationId)
    if (row === undefined) continue
    integrationLogger(framework, row).warn(
      {
        event: 'failure_rate.elevated',
        failure_rate: Math.round(rate.failureRate * 10) / 10,
        requests: rate.requests,
        dominant_class: rate.dominantClass,
      },
      'the failure rate is elevated',
    )
    await listeners.emit('ElevatedFailureRate', {
      integration: integrationHandle(framework, row),
      ...elevatedEvent(rate, windowMinutes).payload,
    })
  }
  for (const id of recovered) {
    const row = rows.get(id)
    if (row === undefined) continue
    integrationLogger(framework, row).info(
      { event: 'failure_rate.recovered' },
      'the failure rate is no longer elevated',
    )
    await listeners.emit('FailureRateRecovered', { integration: integrationHandle(framework, row) })
  }
}

function elevatedEvent({ integrationId, failureRate, requests, dominantClass }: ElevatedRate, windowMinutes: number) {
  return {
    integrationId,
    name: 'ElevatedFailureRate',
    payload: { failureRate, windowMinutes, observedRequests: requests, dominantClass },
  } as const satisfies OwnedEvent
}

interface ObservedIntegration extends ObservedRequests {
  readonly id: number
  /** Whether its marker is set. */
  readonly isMarked: boolean
}

interface ObservedWindow {
  /** Active integrations. */
  readonly active: number
  /** Those of them whose marker may have to change, by id: marked, or with enough requests. */
  readonly integrations: readonly ObservedIntegration[]
}

/**
 * A statement of its own: Postgres never runs one in parallel that also writes or locks rows (manual, 15.2), and this one may read
 * a million rows.
 *
 * @param nowMs the window's end; null: the database's clock
 */
async function observeWindow(
  db: Database,
  { integrations, requests }: Tables,
  { windowMinutes, minimumRequests, nowMs }: { windowMinutes: number; minimumRequests: number; nowMs: number | null },
): Promise<ObservedWindow> {
  const end = nowMs === null ? sql`now()` : sql`to_timestamp(${nowMs}::double precision / 1000)`
  const rows = await db.execute<{
    active: number
    id: string | null
    is_marked: boolean
    requests: number
    upstream: number
    throttle: number
    client: number
    unknown: number
  }>(sql`
    with observed as (
      select integration_id, count(*)::int as requests,
             count(*) filter (where failure_class = 'upstream')::int as upstream,
             count(*) filter (where failure_class = 'throttle')::int as throttle,
             count(*) filter (where failure_class = 'client')::int as client,
             count(*) filter (where ${CLASS_OF_REQUEST} = 'unknown')::int as unknown
      from ${requests}
      where created_at >= ${end} - make_interval(mins => ${windowMinutes}::int)
      group by integration_id
    )
    select counted.active, of.*
    from (select count(*)::int as active from ${integrations} where is_active) counted
    left join (
      select i.id, i.anomaly_alerted_at is not null as is_marked, coalesce(o.requests, 0) as requests,
             coalesce(o.upstream, 0) as upstream, coalesce(o.throttle, 0) as throttle,
             coalesce(o.client, 0) as client, coalesce(o.unknown, 0) as unknown
      from ${integrations} i left join observed o on o.integration_id = i.id
      where i.is_active and (i.anomaly_alerted_at is not null or o.requests >= ${minimumRequests}::int)
    ) of on true
    order by of.id`)
  return {
    active: rows[0]?.active ?? 0,
    integrations: rows.flatMap(({ id, is_marked, requests, upstream, throttle, client, unknown }) =>
      id === null
        ? []
        : [{ id: Number(id), isMarked: is_marked, requests, failures: { upstream, throttle, client, unknown } }],
    ),
  }
}

/**
 * Sets or clears the markers of these integrations. Of two evaluations at once one changes each; a row that is locked is left
 * to the next evaluation.
 *
 * @returns the integrations whose marker was changed
 */
async function mark(
  tx: Transaction,
  { integrations }: Tables,
  ids: readonly number[],
  to: 'elevated' | 'normal',
): Promise<Set<number>> {
  const [change, isOther] = to === 'elevated' ? [sql`clock_timestamp()`, sql`is null`] : [sql`null`, sql`is not null`]
  const rows = await tx.execute<{ id: string }>(sql`
    with held as (
      select i.id from ${integrations} i
      where i.id in (select value::bigint from jsonb_array_elements_text(${jsonText(ids)}::jsonb))
        and i.is_active and i.anomaly_alerted_at ${isOther}
      order by i.id
      for no key update of i skip locked
    )
    update ${integrations} i set anomaly_alerted_at = ${change} from held where i.id = held.id
    returning i.id`)
  return new Set(rows.map(({ id }) => Number(id)))
}
