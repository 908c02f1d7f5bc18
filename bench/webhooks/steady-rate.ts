/** A constant rate for a while: how the answers, the processing, the histories and the worker's memory stand it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Figure } from '../frame.ts'
import { median, percentile } from '../frame.ts'
import { openLoop } from '../open-loop.ts'
import { signedDelivery } from './delivery.ts'
import type { Stage } from './stage.ts'
import { createIntegration, deliveryPath, inboxCost, wallClock } from './stage.ts'

const RATE = { perSecond: 500, seconds: 60 }
/** Memory is compared with what it was by then. */
const MEMORY_SETTLED_SECONDS = 15
const MIB = 2 ** 20

export interface SteadyFigures {
  readonly answerMedian: Figure
  readonly answerP99: Figure
  readonly slowest: Figure
  readonly longestHistory: Figure
  readonly actions: Figure
  readonly heapGrowth: Figure
  readonly residentGrowth: Figure
  readonly resident: Figure
}

export async function measureSteadyRate(stage: Stage): Promise<SteadyFigures> {
  const { tables, integrations, worker } = stage
  const integration = await createIntegration(integrations)
  const path = deliveryPath(integration)
  stage.say(`steady: ${RATE.perSecond} deliveries a second for ${RATE.seconds} s`)
  await tables.clear()
  const before = await inboxCost(stage)
  const sentAt = new Map<string, number>()
  const load = openLoop(RATE, async () => {
    const delivery = signedDelivery()
    sentAt.set(delivery.id, wallClock())
    await stage.ours.send(path, delivery)
  })
  const settled = sleep(MEMORY_SETTLED_SECONDS * 1_000).then(() => worker.ask('memory', null))
  const [answers, early] = await Promise.all([load, settled])
  const late = await worker.ask('memory', null)
  await tables.untilProcessed('ours', answers.length)
  const processed = await tables.processed('ours')
  const slowestMs = processed.reduce(
    (slowest, { deliveryId, processedAtMs }) =>
      Math.max(slowest, processedAtMs - (sentAt.get(deliveryId) ?? Number.NaN)),
    0,
  )
  const cost = await inboxCost(stage)
  const figure = (name: string, value: number, unit: string): Figure => ({ name: `500/s: ${name}`, value, unit })
  return {
    answerMedian: figure('answer, median', median(answers), 'ms'),
    answerP99: figure('answer, p99', percentile(answers, 0.99), 'ms'),
    slowest: figure('sent to processed, slowest', slowestMs / 1_000, 's'),
    longestHistory: figure('longest history', cost.longestHistory, 'events'),
    actions: figure(
      'Temporal actions per 1,000',
      ((cost.actions - before.actions) / answers.length) * 1_000,
      'actions',
    ),
    heapGrowth: figure("worker's heap, 60 s / 15 s", late.heapBytes / early.heapBytes, 'times'),
    residentGrowth: figure("worker's resident memory, 60 s / 15 s", late.residentBytes / early.residentBytes, 'times'),
    resident: figure("worker's resident memory", late.residentBytes / MIB, 'MiB'),
  }
}
