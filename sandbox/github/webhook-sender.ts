import { createHash, createHmac, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import type { IssueEvent } from './issue-events.ts'

/** One webhook as GitHub would send it, not yet signed. */
export interface Delivery {
  event: string
  deliveryId: string
  body: Buffer
  payload: unknown
}

export interface SendOptions {
  url: string
  secret: string
  /** How many deliveries. Default: each payload once (329). More begins again with the first payload and new ids. */
  limit?: number
  /** The place in the list to begin at. Default 0. */
  offset?: number
  /** Deliveries started in a second at most. Default: no limit but the concurrency. */
  ratePerSecond?: number
  /** Deliveries under way at once. */
  concurrency?: number
  /** Random delivery ids. Default: the same id for the same place in the list, so that a second sending repeats itself. */
  fresh?: boolean
  /** A connection error, a time-out or a 5xx is tried again until this long after the delivery's first attempt. */
  retryForSeconds?: number
  /** Wait before the second attempt; doubles up to 2 s. */
  backoffMs?: number
  /** Told of each attempt when it has ended. */
  onAttempt?: (attempt: Attempt) => void
}

/** One POST, as the hook's list of deliveries shows it. */
export interface Attempt {
  guid: string
  event: string
  url: string
  deliveredAt: Date
  durationMs: number
  status: string
  /** 502 when no answer came. */
  statusCode: number
  requestHeaders: Record<string, string>
  payload: unknown
  /** Null, and so is the body: no answer came. */
  responseHeaders: Record<string, string> | null
  responseBody: string | null
}

export interface SendResult {
  /** Deliveries, however many attempts each took; `accepted` and `failed` together. */
  sent: number
  /** Answered 2xx in the end, duplicates among them. */
  accepted: number
  /** Of the accepted, those whose answer said `{"status": "duplicate"}`. */
  duplicates: number
  failed: number
  /** Last answer of each delivery: status → deliveries. `unreachable` is no answer at all. */
  byStatus: Record<string, number>
  /** Requests made, retries included. */
  attempts: number
  durationMs: number
  /** In the order of the payloads. */
  deliveryIds: string[]
}

interface WebhookDefinition {
  name: string
  examples: unknown[]
}

const ATTEMPT_TIMEOUT_MS = 10_000 // GitHub gives a receiver 10 seconds: docs.github.com, "Best practices for using webhooks".
const MAX_BACKOFF_MS = 2_000
export const HOOK_ID = 500_000_001

/** The real payloads of `@octokit/webhooks-examples`, in its order. */
export function webhookExamples(): { event: string; payload: unknown }[] {
  const file = createRequire(import.meta.url).resolve('@octokit/webhooks-examples')
  const definitions = JSON.parse(readFileSync(file, 'utf8')) as WebhookDefinition[]
  return definitions.flatMap(({ name, examples }) => examples.map((payload) => ({ event: name, payload })))
}

type Example = Omit<Delivery, 'deliveryId'>
let examples: Example[] | undefined

export function deliveries(limit?: number, fresh = false, offset = 0): Delivery[] {
  examples ??= webhookExamples().map((example) => ({ ...example, body: Buffer.from(JSON.stringify(example.payload)) }))
  const all = examples
  return Array.from({ length: limit ?? all.length }, (_, nth) => {
    const index = offset + nth
    return { ...(all[index % all.length] as Example), deliveryId: fresh ? randomUUID() : deliveryIdAt(index) }
  })
}

/** `X-Hub-Signature-256`: HMAC SHA-256 over the raw bytes, in hex. */
function signature(body: Buffer, secret: string): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
}

/**
 * Sends signed deliveries the way GitHub does. GitHub itself gives each one attempt and leaves redelivery to its users;
 * this sender redelivers at once, with the same id, so that it survives the restart of a receiver.
 */
export async function sendWebhooks({
  url,
  secret,
  limit,
  offset = 0,
  ratePerSecond,
  concurrency = 8,
  fresh = false,
  retryForSeconds = 60,
  backoffMs = 100,
  onAttempt = () => {},
}: SendOptions): Promise<SendResult> {
  const queue = deliveries(limit, fresh, offset)
  const startedAt = performance.now()
  const result: SendResult = {
    sent: 0,
    accepted: 0,
    duplicates: 0,
    failed: 0,
    byStatus: {},
    attempts: 0,
    durationMs: 0,
    deliveryIds: queue.map((delivery) => delivery.deliveryId),
  }
  let next = 0

  const lane = async (): Promise<void> => {
    for (let index = next++; index < queue.length; index = next++) {
      if (ratePerSecond !== undefined) await sleepUntil(startedAt + (index * 1000) / ratePerSecond)
      const answer = await deliver(queue[index] as Delivery)
      const status = answer === null ? 'unreachable' : String(answer.status)
      result.sent++
      result.byStatus[status] = (result.byStatus[status] ?? 0) + 1
      if (answer?.ok) result.accepted++
      else result.failed++
      if (answer?.ok && answer.isDuplicate) result.duplicates++
    }
  }

  const deliver = async (delivery: Delivery): Promise<DeliveryAnswer | null> => {
    const giveUpAt = performance.now() + retryForSeconds * 1000
    for (let wait = backoffMs; ; wait = Math.min(wait * 2, MAX_BACKOFF_MS)) {
      result.attempts++
      const answer = await attempt(url, secret, delivery, onAttempt)
      const isFinal = answer !== null && answer.status < 500
      if (isFinal || performance.now() + wait > giveUpAt) return answer
      await sleep(wait)
    }
  }

  await Promise.all(Array.from({ length: concurrency }, lane))
  result.durationMs = Math.round(performance.now() - startedAt)
  return result
}

const EVENTS_AT_ONCE = 4

/** Events of the sandbox's own issues: one attempt each, some beside each other, as GitHub does. */
export async function sendEvents(
  { url, secret }: Pick<SendOptions, 'url' | 'secret'>,
  events: readonly IssueEvent[],
  onAttempt: (attempt: Attempt) => void,
): Promise<Attempt[]> {
  const attempts: Attempt[] = []
  const queue = events.values()
  const lane = async (): Promise<void> => {
    for (const { guid: deliveryId, event, payload } of queue) {
      const delivery = { event, deliveryId, payload, body: Buffer.from(JSON.stringify(payload)) }
      await attempt(url, secret, delivery, (made) => {
        attempts.push(made)
        onAttempt(made)
      })
    }
  }
  await Promise.all(Array.from({ length: EVENTS_AT_ONCE }, lane))
  return attempts
}

interface DeliveryAnswer {
  status: number
  ok: boolean
  isDuplicate: boolean
}

/** One POST. Null: no complete answer came. */
async function attempt(
  url: string,
  secret: string,
  delivery: Delivery,
  onAttempt: (attempt: Attempt) => void,
): Promise<DeliveryAnswer | null> {
  const { event, deliveryId, body, payload } = delivery
  const requestHeaders = headersOf(delivery, secret)
  const deliveredAt = new Date()
  const startedAt = performance.now()
  const tell = (outcome: Pick<Attempt, 'status' | 'statusCode' | 'responseHeaders' | 'responseBody'>): void => {
    const durationMs = Math.round(performance.now() - startedAt)
    onAttempt({ guid: deliveryId, event, url, deliveredAt, durationMs, requestHeaders, payload, ...outcome })
  }
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: requestHeaders,
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(ATTEMPT_TIMEOUT_MS),
    })
    const text = await response.text()
    tell({
      ...statusOf(response.status),
      responseHeaders: Object.fromEntries(response.headers),
      responseBody: text,
    })
    return { status: response.status, ok: response.ok, isDuplicate: saysDuplicate(text) }
  } catch {
    tell({ ...NO_ANSWER, responseHeaders: null, responseBody: null })
    return null
  }
}

/** An attempt of the sandbox's hook that no receiver knows of. */
export function lostAttempt(delivery: Delivery, url: string, statusCode: number | null, deliveredAt: Date): Attempt {
  const { event, deliveryId: guid, payload } = delivery
  return {
    guid,
    event,
    url,
    deliveredAt,
    durationMs: 0,
    ...(statusCode === null ? NO_ANSWER : statusOf(statusCode)),
    requestHeaders: headersOf(delivery, 'a secret that nobody knows'),
    payload,
    responseHeaders: statusCode === null ? null : {},
    responseBody: statusCode === null ? null : '',
  }
}

/** In the words of GitHub's documentation: https://docs.github.com/en/rest/repos/webhooks */
const NO_ANSWER = { status: 'failed to connect', statusCode: 502 }

function statusOf(statusCode: number): { status: string; statusCode: number } {
  const isSuccess = statusCode >= 200 && statusCode < 300
  return { status: isSuccess ? 'OK' : `Invalid HTTP Response: ${statusCode}`, statusCode }
}

function headersOf({ event, deliveryId, body }: Delivery, secret: string): Record<string, string> {
  return {
    Accept: '*/*',
    'Content-Type': 'application/json',
    'User-Agent': 'GitHub-Hookshot/5a4db0c',
    'X-GitHub-Delivery': deliveryId,
    'X-GitHub-Event': event,
    'X-GitHub-Hook-ID': String(HOOK_ID),
    'X-GitHub-Hook-Installation-Target-ID': '600000001',
    'X-GitHub-Hook-Installation-Target-Type': 'repository',
    // GitHub still sends the SHA-1 one for old receivers.
    'X-Hub-Signature': `sha1=${createHmac('sha1', secret).update(body).digest('hex')}`,
    'X-Hub-Signature-256': signature(body, secret),
  }
}

function saysDuplicate(text: string): boolean {
  try {
    return (JSON.parse(text) as { status?: unknown } | null)?.status === 'duplicate'
  } catch {
    return false
  }
}

/** A name-based UUID (RFC 9562, version 8), so that the nth delivery of two sendings is the same delivery. */
function deliveryIdAt(index: number): string {
  const bytes = createHash('sha256').update(`sandbox webhook ${index}`).digest().subarray(0, 16)
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

async function sleepUntil(moment: number): Promise<void> {
  const wait = moment - performance.now()
  if (wait > 0) await sleep(wait)
}
