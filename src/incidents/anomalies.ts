/** Which integrations fail too often. Rule: docs/behaviour/failure-rates.md. */

import type { OwnedEvent } from '../events/durable-events.ts'
import { recordOwnedEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { integrationsById } from '../integrations/queries.ts'
import type { ObservedIntegration } from './anomaly-queries.ts'
import { clearElevated, markElevated, observeWindow } from './anomaly-queries.ts'
import type { FailureRateVerdict } from './anomaly-rules.ts'
import { failureRateVerdict } from './anomaly-rules.ts'
import type { ElevatedRate, EvaluateFailuresResult } from './incident-jobs.ts'

/** Of either edge in one evaluation: the next one, a minute later, takes the rest. */
const MAX_EDGES = 1_000

/**
 * Sets and clears the markers; each edge is told once, after its commit. The rows for those who are told later are written
 * with the markers.
 */
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
  const judged = integrations.map((observed) => ({ observed, verdict: failureRateVerdict(observed, rule) }))
  const rising = judged.flatMap(risen).slice(0, MAX_EDGES)
  const falling = judged.flatMap(fallen).slice(0, MAX_EDGES)
  if (rising.length + falling.length === 0) return { enabled: true, checked: active, elevated: [], recovered: [] }

  const changed = await db.transaction(async (tx) => {
    const ids = rising.map(({ integrationId }) => integrationId)
    const marked = await markElevated(tx, tables, ids)
    const cleared = await clearElevated(tx, tables, falling)
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

/** After the commit. One that is not there was deleted since: there is nobody to tell about. */
async function tell(
  framework: Framework,
  { elevated, recovered }: Pick<EvaluateFailuresResult, 'elevated' | 'recovered'>,
  windowMinutes: number,
): Promise<void> {
  const { db, tables, listeners, logger } = framework
  const rows = await integrationsById(db, tables, [...elevated.map(({ integrationId }) => integrationId), ...recovered])
  for (const rate of elevated) {
    const row = rows.get(rate.integrationId)
    if (row === undefined) continue
    logger.warn(
      {
        event: 'failure_rate.elevated',
        integration: row.id,
        provider: row.provider,
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
    logger.info(
      { event: 'failure_rate.recovered', integration: id, provider: row.provider },
      'the failure rate is elevated no more',
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

interface Judged {
  readonly observed: ObservedIntegration
  readonly verdict: FailureRateVerdict
}

function risen({ observed, verdict }: Judged): ElevatedRate[] {
  if (verdict.kind !== 'elevated' || observed.isMarked) return []
  const { failureRate, dominantClass } = verdict
  return [{ integrationId: observed.id, failureRate, requests: observed.requests, dominantClass }]
}

function fallen({ observed, verdict }: Judged): number[] {
  return verdict.kind === 'normal' && observed.isMarked ? [observed.id] : []
}
