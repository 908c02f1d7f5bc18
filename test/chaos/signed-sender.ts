/**
 * Sends signed deliveries under ids of its own and sends each again, under its id, until it is answered 2xx, as a provider
 * redelivers. It remembers what was answered: that is what must not be lost.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sign } from '../support/providers.ts'

const ATTEMPT_TIMEOUT_MS = 10_000 // GitHub's: docs.github.com, "Best practices for using webhooks"
const FIRST_WAIT_MS = 100
const LAST_WAIT_MS = 1_000
const GIVE_UP_AFTER_MS = 120_000
const FILLER = 'x'.repeat(1_900)

export interface SendPlan {
  /** Taken in turn. */
  readonly urls: readonly string[]
  readonly ratePerSecond: number
  /** Whether so many deliveries will do. */
  isEnough(sent: number): boolean
  /** Ids are added as they are answered 2xx. */
  readonly answered: Set<string>
  /** How long the handler is to work for the delivery. */
  workMs(): number
}

export interface Sent {
  readonly deliveries: number
  /** What came of the requests: a status, or `no answer`. */
  readonly answers: Readonly<Record<string, number>>
  /** Whatever is neither 2xx nor 5xx nor silence. */
  readonly refusals: readonly string[]
}

/** What came of requests so far. */
export interface Tally {
  readonly answers: Record<string, number>
  readonly refusals: string[]
}

/**
 * Sends a delivery until it is answered 2xx.
 *
 * @param url of the next try
 * @throws when it is not for so long that no provider would try on
 */
export async function deliver(
  url: () => string,
  { deliveryId, body }: { readonly deliveryId: string; readonly body: string },
  { answers, refusals }: Tally,
): Promise<void> {
  const giveUpAt = performance.now() + GIVE_UP_AFTER_MS
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LAST_WAIT_MS)) {
    const status = await post(url(), deliveryId, body)
    answers[status ?? 'no answer'] = (answers[status ?? 'no answer'] ?? 0) + 1
    if (status !== null && status >= 200 && status < 300) return
    if (status !== null && status < 500) refusals.push(`${deliveryId} ${status}`)
    if (performance.now() > giveUpAt) throw new Error(`${deliveryId} was not answered 2xx; last: ${status}`)
    await sleep(waitMs)
  }
}

/** @throws as {@link deliver} */
export async function sendSigned(plan: SendPlan): Promise<Sent> {
  const startedAt = performance.now()
  const tally: Tally = { answers: {}, refusals: [] }
  const send = async (url: string): Promise<void> => {
    const deliveryId = randomUUID()
    await deliver(() => url, { deliveryId, body: bodyOf(deliveryId, plan.workMs()) }, tally)
    plan.answered.add(deliveryId)
  }

  const underWay: Promise<void>[] = []
  for (let index = 0; !plan.isEnough(index); index += 1) {
    const waitMs = startedAt + (index * 1_000) / plan.ratePerSecond - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    const delivery = send(plan.urls[index % plan.urls.length] as string)
    // Awaited with all others; until then a rejection is not to count as unhandled.
    delivery.catch(() => {})
    underWay.push(delivery)
  }
  await Promise.all(underWay)
  return { deliveries: underWay.length, ...tally }
}

/** About 2 KB; every body differs, as a provider's do. */
function bodyOf(deliveryId: string, workMs: number): string {
  return JSON.stringify({ id: deliveryId, work_ms: workMs, filler: FILLER })
}

/** Null: no whole answer came. */
async function post(url: string, deliveryId: string, body: string): Promise<number | null> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-delivery': deliveryId,
        'x-event': 'thing.changed',
        'x-signature': sign(body),
      },
      body,
      signal: AbortSignal.timeout(ATTEMPT_TIMEOUT_MS),
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return null
  }
}
