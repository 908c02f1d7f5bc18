/**
 * Deliveries that bring several events: each event is a webhook of its own, and the whole is kept once.
 *
 * Rule: docs/behaviour/webhook-parts.md.
 */
import { eq } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import type { HandlesWebhooks, WebhookPart } from '../providers/contracts.ts'
import type { WebhookRequest } from '../providers/webhook-request.ts'
import { webhookRequest } from '../providers/webhook-request.ts'
import type { Ordering } from './order.ts'
import { deliveryId, eventType, storeDelivery, storedBody } from './rules.ts'

/** A body of 1 MiB could hold 300,000 empty objects. One statement stores them all. */
const MAX_PARTS = 10_000

/** An event as its row has it. */
export interface NewPart {
  readonly deliveryId: string
  readonly eventType: string | null
  readonly payload: string
  /** Only how the payload is encoded. */
  readonly headers: Readonly<Record<string, readonly string[]>>
  /** Its number in the delivery, from 1. */
  readonly part: number
  readonly ordering?: Ordering
}

/**
 * The events of a delivery, in its order. Null: the provider does not split.
 *
 * @param wholeId of the delivery
 * @throws what the provider throws; TypeError for parts that cannot be stored
 */
export function partsOf(provider: HandlesWebhooks, request: WebhookRequest, wholeId: string): NewPart[] | null {
  if (provider.splitWebhook === undefined) return null
  const given: unknown = provider.splitWebhook(request)
  if (!Array.isArray(given)) throw new TypeError('splitWebhook() gives a list')
  if (given.length > MAX_PARTS) throw new TypeError(`splitWebhook() gives ${MAX_PARTS} parts at most`)
  return given.map((part: WebhookPart, index) => partOf(part, index + 1, wholeId))
}

/** A request of one part, as its handler gets it: the body is its own, all else is the whole's. */
export function partRequest(whole: WebhookRequest, part: Pick<NewPart, 'payload' | 'headers'>): WebhookRequest {
  const [path = '', query = ''] = whole.url.split(/\?(.*)/s)
  return webhookRequest({
    ...whole,
    path,
    query,
    rawBody: storedBody(part),
  })
}

function partOf({ id, type, payload }: WebhookPart, part: number, wholeId: string): NewPart {
  const rawBody = bytesOf(payload)
  if (rawBody.length === 0) throw new TypeError('a part of a delivery has a payload')
  const name = typeof id === 'string' && id !== '' ? id : `${wholeId}/${part}`
  const stored = storeDelivery({ method: 'POST', query: '', headers: [], rawBody })
  return {
    deliveryId: deliveryId(name, { rawBody, query: '' }),
    eventType: eventType(typeof type === 'string' ? type : null),
    payload: stored.payload,
    headers: stored.headers,
    part,
  }
}

function bytesOf(payload: WebhookPart['payload']): Uint8Array {
  if (payload instanceof Uint8Array) return payload
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload)
  if (text === undefined) throw new TypeError('a part of a delivery has a payload')
  return Buffer.from(text)
}

/** The row as its handler gets it: a part has the headers of the whole. A pump's claim brings them itself (claim_webhooks.sql). */
export async function withDeliveryHeaders<Row extends Pick<WebhookRow, 'partOf' | 'headers'>>(
  db: Database,
  { deliveries }: Tables,
  row: Row,
): Promise<Row> {
  if (row.partOf === null) return row
  const [whole] = await db.select({ headers: deliveries.headers }).from(deliveries).where(eq(deliveries.id, row.partOf))
  return { ...row, headers: { ...whole?.headers, ...row.headers } }
}
