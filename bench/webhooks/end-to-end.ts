/** (d), (e), (f) From the sender to the processed row: ours beside Hono, an HMAC and a queue. */
import { closedLoop } from '../closed-loop.ts'
import type { Contender, Figure } from '../frame.ts'
import { inTurn } from '../frame.ts'
import { signedDelivery } from './delivery.ts'
import type { Stage } from './stage.ts'
import { CONNECTIONS, createIntegration, deliveryPath, wallClock } from './stage.ts'
import type { Side } from './tables.ts'

const BUILT = 'Hono + HMAC + addJob, tuned'

export interface EndToEndFigures {
  readonly ours: Figure
  readonly built: Figure
  readonly figures: readonly Figure[]
}

export async function measureEndToEnd(stage: Stage): Promise<EndToEndFigures> {
  const { tables, integrations, lengths, queues } = stage
  const integration = await createIntegration(integrations)
  const contender = (name: string, side: Side, path: string, prepare?: () => Promise<unknown>): Contender => ({
    name,
    async measure() {
      await prepare?.()
      await tables.clear()
      const startedAt = wallClock()
      const load = { concurrency: CONNECTIONS, seconds: lengths.seconds }
      const { calls } = await closedLoop(load, () => stage[side].send(path, signedDelivery()))
      await tables.untilProcessed(side, calls)
      return calls / (((await tables.lastProcessedAtMs(side)) - startedAt) / 1_000)
    },
  })
  stage.say(`end to end: ${CONNECTIONS} senders`)
  const contenders = [contender('ours', 'ours', deliveryPath(integration)), contender(BUILT, 'peer', '/job')]
  if (queues !== null)
    contenders.push(
      contender('Hono + HMAC + BullMQ', 'peer', '/bullmq', () => queues.fsyncRedis('everysec')),
      contender('Hono + HMAC + BullMQ, each write on disk', 'peer', '/bullmq', () => queues.fsyncRedis('always')),
      contender('Hono + HMAC + pg-boss', 'peer', '/pg-boss', () => tables.sql`truncate pgboss.job`),
    )
  const medians = await inTurn(contenders, lengths.rounds)
  const figure = (name: string): Figure => ({
    name: `end to end: ${name}`,
    value: medians.get(name) as number,
    unit: 'webhooks/s',
  })
  return { ours: figure('ours'), built: figure(BUILT), figures: [...medians.keys()].map(figure) }
}
