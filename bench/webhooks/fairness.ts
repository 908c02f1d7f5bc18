/** Many integrations at once, and many beside one whose handlers are slow. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Integration } from 'durable-integrations'
import type { Figure } from '../frame.ts'
import { median } from '../frame.ts'
import type { Rate } from '../open-loop.ts'
import { openLoop } from '../open-loop.ts'
import { signedDelivery } from './delivery.ts'
import { PROVIDER } from './ours.ts'
import type { Stage } from './stage.ts'
import { createIntegration, deliveryPath, wallClock } from './stage.ts'

/** Twenty deliveries to each, and each wakes an inbox of its own: what two cores stand with the sender beside them. */
const MANY = { integrations: 100, perSecond: 100, seconds: 20 }
/** Of each, in an instant. */
const BURST_ROWS = 100
const OTHERS = { integrations: 20, perSecond: 40, seconds: 10 }
/** More than the others' time lets the slow one work off: so many are not waited for. */
const SLOW_ROWS = 400
const POLL_MS = 100
const PATIENCE_MS = 60_000

export interface FairnessFigures {
  readonly slowest: Figure
  readonly fastest: Figure
  readonly burstSlowest: Figure
  readonly burstFastest: Figure
  readonly besideSlow: Figure
  readonly alone: Figure
}

export async function measureFairness(stage: Stage): Promise<FairnessFigures> {
  const { tables, integrations, say } = stage
  const many = await Promise.all(Array.from({ length: MANY.integrations }, () => createIntegration(integrations)))
  say(`fairness: ${MANY.integrations} integrations at once`)
  // The first row starts an inbox, which counts for nothing, as a first round does elsewhere.
  await burstLatencies(stage, many, 1)
  await tables.clear()
  const medians = mediansOf(many, await latencies(stage, many, MANY))
  const burst = mediansOf(many, await burstLatencies(stage, many, BURST_ROWS))

  say(`fairness: ${OTHERS.integrations} integrations, without a slow one and beside it`)
  const others = many.slice(0, OTHERS.integrations)
  await tables.clear()
  const alone = median((await latencies(stage, others, OTHERS)).map(({ ms }) => ms))
  await tables.clear()
  const slow = await createIntegration(integrations, PROVIDER.slow)
  await tables.fill('ours', [slow.id], SLOW_ROWS)
  await integrations.webhooks.wakePending()
  const besideSlow = median((await latencies(stage, others, OTHERS)).map(({ ms }) => ms))
  const figure = (name: string, value: number): Figure => ({ name, value, unit: 'ms' })
  return {
    slowest: figure('100 at once: median of the slowest integration', Math.max(...medians)),
    fastest: figure('100 at once: median of the fastest', Math.min(...medians)),
    burstSlowest: figure('100 rows of each in an instant: median of the slowest', Math.max(...burst)),
    burstFastest: figure('100 rows of each in an instant: median of the fastest', Math.min(...burst)),
    besideSlow: figure('beside handlers of 5 s: median of the others', besideSlow),
    alone: figure('without them', alone),
  }
}

interface Latency {
  readonly integrationId: number
  readonly ms: number
}

/** From the sending to the processed row, at a constant rate to all of them in turn. */
async function latencies({ tables, ours }: Stage, to: readonly Integration[], rate: Rate): Promise<Latency[]> {
  const sentAt = new Map<string, number>()
  const sent = await openLoop(rate, async (number) => {
    const delivery = signedDelivery()
    sentAt.set(delivery.id, wallClock())
    await ours.send(deliveryPath(to[number % to.length] as Integration), delivery)
  })
  const deadline = performance.now() + PATIENCE_MS
  while (performance.now() < deadline) {
    const found = (await tables.processed('ours')).flatMap(({ deliveryId, integrationId, processedAtMs }) => {
      const at = sentAt.get(deliveryId)
      return at === undefined ? [] : [{ integrationId, ms: processedAtMs - at }]
    })
    if (found.length === sent.length) return found
    await sleep(POLL_MS)
  }
  throw new Error(`${sent.length} deliveries should have been processed`)
}

/** From the common start to the processed row, when all have a backlog at the same moment. */
async function burstLatencies(
  { tables, integrations }: Stage,
  of: readonly Integration[],
  rows: number,
): Promise<Latency[]> {
  await tables.clear()
  await tables.fill(
    'ours',
    of.map(({ id }) => id),
    rows,
  )
  const startedAt = wallClock()
  await integrations.webhooks.wakePending()
  await tables.untilProcessed('ours', of.length * rows)
  const processed = await tables.processed('ours')
  return processed.map(({ integrationId, processedAtMs }) => ({ integrationId, ms: processedAtMs - startedAt }))
}

function mediansOf(integrations: readonly Integration[], found: readonly Latency[]): number[] {
  return integrations.map(({ id }) =>
    median(found.flatMap(({ integrationId, ms }) => (integrationId === id ? [ms] : []))),
  )
}
