/** A delivery that a provider's API lists, as its arrival would have stored it. */

import { InvalidArgumentException } from '../framework/errors.ts'
import { isInstant } from '../framework/instant.ts'
import type { ListedWebhook, MissedWebhook } from '../providers/contracts.ts'
import type { StoredDelivery } from './rules.ts'
import { deliveryId, eventType, PSEUDO_HEADER, storeDelivery } from './rules.ts'

/** A delivery with an id needs no body to get one. */
const NO_BODY = new Uint8Array()

export interface FoundDelivery {
  readonly deliveryId: string
  readonly eventType: string | null
  readonly occurredAt: Date
  readonly content: DeliveryContent
}

export type DeliveryContent =
  /** `delivery` null: the payload is too large. */
  | { readonly kind: 'given'; readonly delivery: StoredDelivery | null }
  /** Asked for only if the delivery has not arrived. Null: the provider has forgotten it. @throws as {@link foundDelivery} */
  | { readonly kind: 'listed'; load(): Promise<{ readonly delivery: StoredDelivery | null } | null> }

/** @throws InvalidArgumentException naming the member that a provider got wrong */
export function foundDelivery(missed: MissedWebhook | ListedWebhook, maxBytes: number): FoundDelivery {
  const { occurredAt } = missed
  if (!isInstant(occurredAt))
    throw new InvalidArgumentException(
      'occurredAt of a missed webhook',
      `a valid Date is needed, ${String(occurredAt)} was given`,
    )
  if (typeof missed.deliveryId !== 'string' || missed.deliveryId === '')
    throw new InvalidArgumentException(
      'deliveryId of a missed webhook',
      `a text that is not empty is needed, ${JSON.stringify(missed.deliveryId)} was given`,
    )
  return {
    deliveryId: deliveryId(missed.deliveryId, { rawBody: NO_BODY, query: '' }),
    eventType: eventType(typeof missed.eventType === 'string' ? missed.eventType : null),
    occurredAt,
    content: 'load' in missed ? listed(missed, maxBytes) : { kind: 'given', delivery: contentOf(missed, maxBytes) },
  }
}

function listed(missed: ListedWebhook, maxBytes: number): DeliveryContent {
  return {
    kind: 'listed',
    async load() {
      const loaded = await missed.load()
      return loaded === null ? null : { delivery: contentOf(loaded, maxBytes) }
    },
  }
}

type Content = Pick<MissedWebhook, 'payload' | 'headers'>

/** Null: too large. */
function contentOf(given: Content, maxBytes: number): StoredDelivery | null {
  const { headers } = given as { headers?: unknown }
  if (typeof headers !== 'object' || headers === null)
    throw new InvalidArgumentException(
      'headers of a missed webhook',
      `an object of names and values is needed, ${String(headers)} was given`,
    )
  const rawBody = bytesOf(given.payload)
  return rawBody.byteLength > maxBytes ? null : storedAs(given, rawBody)
}

function storedAs({ headers }: Content, rawBody: Uint8Array): StoredDelivery {
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
