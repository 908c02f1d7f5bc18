/** (a) A delivery's way to its answer: the whole route of ours beside bare Hono, an HMAC and one INSERT. */
import { closedLoop } from '../closed-loop.ts'
import type { Contender, Figure } from '../frame.ts'
import { inTurn } from '../frame.ts'
import { signedDelivery } from './delivery.ts'
import type { Stage } from './stage.ts'
import { CONNECTIONS, createIntegration, deliveryPath } from './stage.ts'
import type { Side } from './tables.ts'

export interface IngestFigures {
  readonly ours: Figure
  readonly bare: Figure
}

/** No worker runs meanwhile: what is stored stays where it is. */
export async function measureIngest(stage: Omit<Stage, 'worker' | 'queues'>): Promise<IngestFigures> {
  const { tables, integrations, lengths } = stage
  const integration = await createIntegration(integrations)
  const made = { ours: 0, peer: 0 }
  const contender = (name: string, side: Side, path: string): Contender => ({
    name,
    async measure() {
      const load = { concurrency: CONNECTIONS, seconds: lengths.seconds }
      const { calls, perSecond } = await closedLoop(load, () => stage[side].send(path, signedDelivery()))
      made[side] += calls
      return perSecond
    },
  })
  stage.say(`ingest: ${CONNECTIONS} senders`)
  await tables.clear()
  const medians = await inTurn(
    [contender('ours', 'ours', deliveryPath(integration)), contender('bare', 'peer', '/insert')],
    lengths.rounds,
  )
  for (const side of ['ours', 'peer'] as const) {
    const { webhooks } = await tables.count(side)
    if (webhooks !== made[side])
      throw new Error(`${side}: ${made[side]} deliveries were answered, ${webhooks} are stored`)
  }
  const figure = (name: string, contender: string): Figure => ({
    name: `ingest: ${name}`,
    value: medians.get(contender) as number,
    unit: 'webhooks/s',
  })
  return { ours: figure('ours', 'ours'), bare: figure('Hono + HMAC + INSERT', 'bare') }
}
