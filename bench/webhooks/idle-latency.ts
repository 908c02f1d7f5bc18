/** One delivery now and then, into a system that has nothing else to do: from its sending to its processed row. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Figure } from '../frame.ts'
import { median, percentile } from '../frame.ts'
import { signedDelivery } from './delivery.ts'
import type { Stage } from './stage.ts'
import { createIntegration, deliveryPath, wallClock } from './stage.ts'

/** Longer than wake-ups of one integration are apart, so that none has to wait for its turn. */
const GAP_MS = { least: 250, most: 400 }
/** The first one starts the inbox. */
const WARM_UPS = 5

export interface IdleFigures {
  readonly median: Figure
  readonly p99: Figure
}

export async function measureIdleLatency(stage: Stage): Promise<IdleFigures> {
  const { tables, integrations, lengths } = stage
  const integration = await createIntegration(integrations)
  stage.say(`idle: ${lengths.idleDeliveries} deliveries one at a time`)
  await tables.clear()
  const sentAt = new Map<string, number>()
  for (let sent = 0; sent < WARM_UPS + lengths.idleDeliveries; sent += 1) {
    const delivery = signedDelivery()
    if (sent >= WARM_UPS) sentAt.set(delivery.id, wallClock())
    await stage.ours.send(deliveryPath(integration), delivery)
    await sleep(GAP_MS.least + Math.random() * (GAP_MS.most - GAP_MS.least))
  }
  await tables.untilProcessed('ours', WARM_UPS + lengths.idleDeliveries)
  const latencies = (await tables.processed('ours')).flatMap(({ deliveryId, processedAtMs }) => {
    const at = sentAt.get(deliveryId)
    return at === undefined ? [] : [processedAtMs - at]
  })
  return {
    median: { name: 'idle: sent to processed, median', value: median(latencies), unit: 'ms' },
    p99: { name: 'idle: sent to processed, p99', value: percentile(latencies, 0.99), unit: 'ms' },
  }
}
