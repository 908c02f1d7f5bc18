/** A delivery that a provider's API lists, as its arrival would have stored it. */
import { createHash } from 'node:crypto'
import { InvalidArgumentException } from '../core/errors.ts'
import type { StoredDelivery } from '../core/webhook.ts'
import { deliveryId, eventType, PSEUDO_HEADER, storeDelivery } from '../core/webhook.ts'
import type { MissedWebhook } from '../providers/provider.ts'

export interface FoundDelivery {
  readonly deliveryId: string
  readonly eventType: string | null
  readonly occurredAt: Date
  /** Null: the payload is too large. */
  readonly stored: StoredDelivery | null
}

/** @throws InvalidArgumentException naming the member that a provider got wrong */
export function foundDelivery(missed: MissedWebhook, maxBytes: number): FoundDelivery {
  const { occurredAt } = missed
  if (!(occurredAt instanceof Date) || Number.isNaN(occurredAt.getTime()))
    throw new InvalidArgumentException(
      'occurredAt of a missed webhook',
      `a Date is needed, ${String(occurredAt)} was given`,
    )
  if (typeof missed.deliveryId !== 'string' || missed.deliveryId === '')
    throw new InvalidArgumentException(
      'deliveryId of a missed webhook',
      `a text that is not empty is needed, ${JSON.stringify(missed.deliveryId)} was given`,
    )
  const { headers } = missed as { headers?: unknown }
  if (typeof headers !== 'object' || headers === null)
    throw new InvalidArgumentException(
      'headers of a missed webhook',
      `an object of names and values is needed, ${String(headers)} was given`,
    )
  const rawBody = bytesOf(missed.payload)
  return {
    deliveryId: deliveryId(missed.deliveryId, { rawBody, query: '' }, sha256Hex),
    eventType: eventType(typeof missed.eventType === 'string' ? missed.eventType : null),
    occurredAt,
    stored: rawBody.byteLength > maxBytes ? null : storedAs(missed, rawBody),
  }
}

function storedAs({ headers }: MissedWebhook, rawBody: Uint8Array): StoredDelivery {
  const sent = Object.entries(headers).flatMap(([name, values]) =>
    // A colon before a name is ours.
    name.startsWith(':') ? [] : [values].flat().map((value): [string, string] => [name.toLowerCase(), value]),
  )
  const stored = storeDelivery({ method: 'POST', query: '', headers: sent, rawBody })
  return { ...stored, headers: { ...stored.headers, [PSEUDO_HEADER.source]: ['reconcile'] } }
}

function bytesOf(payload: MissedWebhook['payload']): Uint8Array {
  if (payload instanceof Uint8Array) return payload
  const text = typeof payload === 'string' ? payload : (JSON.stringify(payload) as string | undefined)
  if (text === undefined)
    throw new InvalidArgumentException(
      'payload of a missed webhook',
      `text, bytes or a JSON value is needed, ${String(payload)} was given`,
    )
  return new TextEncoder().encode(text)
}

function sha256Hex(data: Uint8Array | string): string {
  return createHash('sha256').update(data).digest('hex')
}
