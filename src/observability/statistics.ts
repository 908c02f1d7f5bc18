/** Figures over many integrations. Rule: docs/behaviour/health.md, "Statistics". */

import type { Framework } from '../framework/context.ts'
import { checkChoice, checkTexts } from '../framework/list-filter.ts'
import { givenNowMs } from '../framework/logger.ts'
import { percentOf } from '../integrations/rules.ts'
import { RUN_STATUSES } from '../syncs/run-rules.ts'
import { WEBHOOK_STATUSES } from '../webhooks/rules.ts'
import { syncRunsByStatus, trafficFigures, webhooksByStatus } from './traffic-queries.ts'

export const STATISTICS_SPANS = ['24h', '7d', '30d'] as const
export type StatisticsSpan = (typeof STATISTICS_SPANS)[number]

const HOURS: Readonly<Record<StatisticsSpan, number>> = { '24h': 24, '7d': 7 * 24, '30d': 30 * 24 }

export interface StatisticsInput {
  readonly provider?: string | undefined
  /** Default 24h. */
  readonly since?: StatisticsSpan | undefined
}

export interface Statistics {
  readonly since: StatisticsSpan
  readonly provider: string | null
  readonly requests: number
  /** Percent, to one decimal; null without requests, as the next three. */
  readonly errorRate: number | null
  /** Whole milliseconds. */
  readonly meanMs: number | null
  readonly p95Ms: number | null
  /** Hits of the response cache among rows and hits: percent, to one decimal. */
  readonly cacheHitRate: number | null
  /** Runs of syncs by the status of their log. */
  readonly syncs: Readonly<Record<string, number>>
  readonly webhooks: Readonly<Record<string, number>>
}

/** @throws InvalidArgumentException */
export async function statistics(
  framework: Framework,
  { provider, since = '24h' }: StatisticsInput = {},
): Promise<Statistics> {
  checkTexts({ provider })
  checkChoice('since', since, STATISTICS_SPANS)
  const { db, tables } = framework
  const period = { hours: HOURS[since], nowMs: givenNowMs(framework) }
  const named = provider ?? null
  // At once: each reads a day of another table, or thirty.
  const [traffic, runs, webhooks] = await Promise.all([
    trafficFigures(db, tables, named === null ? 'all' : { provider: named }, period),
    syncRunsByStatus(db, tables, named, period),
    webhooksByStatus(db, tables, named, period),
  ])
  const { requests, failures, cacheHits } = traffic
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0)
  return {
    since,
    provider: named,
    requests,
    errorRate: percentOf(failed, requests),
    meanMs: traffic.meanMs === null ? null : Math.round(traffic.meanMs),
    p95Ms: traffic.p95Ms,
    cacheHitRate: percentOf(cacheHits, requests + cacheHits),
    syncs: counts(RUN_STATUSES, runs),
    webhooks: counts(WEBHOOK_STATUSES, webhooks),
  }
}

/** Known statuses first, with 0 where no row has them; then the others. */
function counts(known: readonly string[], found: ReadonlyMap<string, number>): Record<string, number> {
  return { ...Object.fromEntries(known.map((status) => [status, 0])), ...Object.fromEntries(found) }
}
