/** The sender of webhooks: single ones, deliveries of many and ordered ones, to two APIs in turn. It remembers what was answered 2xx. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Tally } from '../signed-sender.ts'
import { deliver } from '../signed-sender.ts'
import type { Payload } from './world.ts'

const KEYS = 6
/** Between two of a key, on average. */
const KEY_GAP_MS = 2_500
const MOST_EVENTS = 8
const FILLER = 'x'.repeat(1_000)

export interface SentLoad extends Tally {
  /** Ids of the webhooks that were answered 2xx, those of parts too: what must not be lost. */
  readonly answered: Set<string>
  /** Events of each delivery of many that was answered 2xx. */
  readonly many: Map<string, number>
  /** Of each key the ids in the order of their answers. */
  readonly ordered: Map<string, string[]>
}

export interface Doors {
  readonly apis: readonly string[]
  /** Ids of the integrations, of each provider. */
  readonly shops: readonly number[]
  readonly batches: readonly number[]
  readonly banks: readonly number[]
}

/** Sends until it is told that it is over. @throws when a delivery is not answered 2xx for two minutes */
export async function sendLoad(
  doors: Doors,
  { random, perSecond, isOver }: { random: () => number; perSecond: number; isOver: () => boolean },
): Promise<SentLoad> {
  const sent: SentLoad = { answers: {}, refusals: [], answered: new Set(), many: new Map(), ordered: new Map() }
  let tries = 0
  const one = async (provider: string, ids: readonly number[], body: string, deliveryId: string): Promise<void> => {
    const id = ids[Math.floor(random() * ids.length)]
    await deliver(
      // The next try goes to the other one.
      () => `${doors.apis[tries++ % doors.apis.length]}/integrations/${provider}/${id}/webhook`,
      { deliveryId, body },
      sent,
    )
  }
  const payload = (key: string | null = null, n = 0): Payload => ({ work_ms: workMs(random), key, n, filler: FILLER })

  const single = async (provider: 'shop' | 'bank'): Promise<void> => {
    const id = randomUUID()
    await one(provider, provider === 'shop' ? doors.shops : doors.banks, JSON.stringify(payload()), id)
    sent.answered.add(id)
  }
  const many = async (): Promise<void> => {
    const id = randomUUID()
    const events = Array.from({ length: 1 + Math.floor(random() * MOST_EVENTS) }, (_, index) => ({
      id: `${id}/${index + 1}`,
      payload: payload(),
    }))
    await one('batch', doors.batches, JSON.stringify({ events }), id)
    sent.many.set(id, events.length)
    for (const event of events) sent.answered.add(event.id)
  }
  /** The next one of a key is sent once the one before it is answered: that is its order of arrival. */
  const inOrder = async (key: string): Promise<void> => {
    const ids: string[] = []
    sent.ordered.set(key, ids)
    const [shop = 0] = doors.shops
    while (!isOver()) {
      const id = randomUUID()
      await one('shop', [shop], JSON.stringify(payload(key, ids.length + 1)), id)
      ids.push(id)
      sent.answered.add(id)
      await sleep(random() * 2 * KEY_GAP_MS)
    }
  }

  const underWay: Promise<void>[] = Array.from({ length: KEYS }, (_, index) => inOrder(`key-${index + 1}`))
  while (!isOver()) {
    await sleep((random() * 2_000) / perSecond)
    const kind = random()
    const delivery = kind < 0.65 ? single('shop') : kind < 0.85 ? single('bank') : many()
    // Awaited with all others; until then a rejection is not to count as unhandled.
    delivery.catch(() => {})
    underWay.push(delivery)
  }
  await Promise.all(underWay)
  return sent
}

/** Most are short, so that order and budget are kept busy; some are in hand for seconds when their worker dies. */
function workMs(random: () => number): number {
  const [from, to] = random() < 0.95 ? [5, 150] : [1_000, 4_000]
  return Math.round(from + random() * (to - from))
}
