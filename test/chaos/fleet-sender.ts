/** Sends signed deliveries to two APIs in turn, some of them to both at the same moment, and counts what each answers. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sign } from '../support/providers.ts'

/** One delivery in so many goes to both at once. */
export const TWICE_EVERY = 20
const ATTEMPT_TIMEOUT_MS = 10_000 // GitHub's: docs.github.com, "Best practices for using webhooks"
const ATTEMPTS = 10
const WAIT_MS = 200
const WORK_MS = 20
/** So many in a row go to one integration, so that they can share a wake-up. */
const BURST = 8

export interface FleetSent {
  /** Status, or `no answer`, → how many, for each API in their order. */
  readonly answers: readonly Readonly<Record<string, number>>[]
  readonly deliveryIds: ReadonlySet<string>
}

/**
 * What gets no answer is sent again under its id, as a provider does: on a busy machine a connection that is kept for the next
 * request may be closed in the very moment of its use.
 *
 * @throws when a delivery gets no answer for so long that no provider would try on
 */
export async function sendToFleet({
  apis,
  paths,
  deliveries,
  ratePerSecond,
}: {
  readonly apis: readonly string[]
  /** Of the integrations' webhooks, taken in turn. */
  readonly paths: readonly string[]
  readonly deliveries: number
  readonly ratePerSecond: number
}): Promise<FleetSent> {
  const startedAt = performance.now()
  const answers: Record<string, number>[] = apis.map(() => ({}))
  const deliveryIds = new Set<string>()
  const deliver = async (api: number, path: string, id: string, body: string): Promise<void> => {
    const counts = answers[api] ?? {}
    for (let attempt = 1; ; attempt += 1) {
      const status = await post(`${apis[api]}${path}`, id, body)
      const word = status ?? 'no answer'
      counts[word] = (counts[word] ?? 0) + 1
      if (status !== null) return
      if (attempt === ATTEMPTS) throw new Error(`${id} got no answer from ${apis[api]}, ${ATTEMPTS} times`)
      await sleep(WAIT_MS)
    }
  }
  const underWay: Promise<void>[] = []
  for (let n = 0; n < deliveries; n += 1) {
    const waitMs = startedAt + (n * 1_000) / ratePerSecond - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    const id = randomUUID()
    deliveryIds.add(id)
    const path = String(paths[Math.floor(n / BURST) % paths.length])
    const body = JSON.stringify({ n, work_ms: n % WORK_MS, id })
    const receivers = n % TWICE_EVERY === 0 ? apis.keys() : [n % apis.length]
    for (const api of receivers) {
      const sending = deliver(api, path, id, body)
      // Awaited with all others; until then a rejection is not to count as unhandled.
      sending.catch(() => {})
      underWay.push(sending)
    }
  }
  await Promise.all(underWay)
  return { answers, deliveryIds }
}

/** Null: no whole answer came. */
async function post(url: string, id: string, body: string): Promise<number | null> {
  const headers = {
    'content-type': 'application/json',
    'x-delivery': id,
    'x-event': 'thing.changed',
    'x-signature': sign(body),
  }
  try {
    const signal = AbortSignal.timeout(ATTEMPT_TIMEOUT_MS)
    const response = await fetch(url, { method: 'POST', headers, body, signal })
    await response.arrayBuffer()
    return response.status
  } catch {
    return null
  }
}
