/** (d) From the sender to the processed row: ours beside Hono, an HMAC, `addJob()` and a tuned graphile-worker. */
import { closedLoop } from '../closed-loop.ts'
import type { Contender, Figure } from '../frame.ts'
import { inTurn } from '../frame.ts'
import { signedDelivery } from './delivery.ts'
import type { Stage } from './stage.ts'
import { CONNECTIONS, createIntegration, deliveryPath, wallClock } from './stage.ts'
import type { Side } from './tables.ts'

export interface EndToEndFigures {
  readonly ours: Figure
  readonly built: Figure
}

export async function measureEndToEnd(stage: Stage): Promise<EndToEndFigures> {
  const { tables, integrations, lengths } = stage
  const integration = await createIntegration(integrations)
  const contender = (name: string, side: Side, path: string): Contender => ({
    name,
    async measure() {
      await tables.clear()
      const startedAt = wallClock()
      const load = { concurrency: CONNECTIONS, seconds: lengths.seconds }
      const { calls } = await closedLoop(load, () => stage[side].send(path, signedDelivery()))
      await tables.untilProcessed(side, calls)
      return calls / (((await tables.lastProcessedAtMs(side)) - startedAt) / 1_000)
    },
  })
  stage.say(`end to end: ${CONNECTIONS} senders`)
  const medians = await inTurn(
    [contender('ours', 'ours', deliveryPath(integration)), contender('built', 'peer', '/job')],
    lengths.rounds,
  )
  const figure = (name: string, contender: string): Figure => ({
    name: `end to end: ${name}`,
    value: medians.get(contender) as number,
    unit: 'webhooks/s',
  })
  return { ours: figure('ours', 'ours'), built: figure('Hono + HMAC + addJob, tuned', 'built') }
}
