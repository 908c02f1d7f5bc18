/**
 * Deliveries of Stripe: signature, id, type, payload.
 *
 * Source: https://docs.stripe.com/webhooks/signature. Rule: docs/behaviour/stripe.md, "Webhooks".
 */
import { z } from 'zod'
import type { HmacScheme, Integration, Json, Told, WebhookRequest } from '../../provider.ts'
import { ProviderEvent, signedPart } from '../../provider.ts'

/** The whole secret is the key, `whsec_` included. While Stripe rolls a secret the header has several signatures. */
export const stripeSignature: HmacScheme = {
  scheme: 'hmac',
  hash: 'sha256',
  header: 'stripe-signature',
  encoding: 'hex',
  fields: { separator: ',', signature: 'v1' },
  timestamp: { field: 't' },
  signed: [signedPart.timestamp, '.', signedPart.body],
}

/** The event's `id`, which is signed with the body; null when the body has none. */
export function deliveryIdOf(request: WebhookRequest): string | null {
  return textIn(request, 'id')
}

/** Such as `payment_intent.succeeded`; null if the body has none. */
export function eventTypeOf(request: WebhookRequest): string | null {
  return textIn(request, 'type')
}

/** The event as it was delivered; null if the body is not JSON. */
export function payloadOf(request: WebhookRequest): Json {
  return request.json() ?? null
}

function textIn(request: WebhookRequest, field: 'id' | 'type'): string | null {
  const payload = payloadOf(request)
  const found = typeof payload === 'object' && payload !== null ? Object.entries(payload) : []
  const value = found.find(([name]) => name === field)?.[1]
  return typeof value === 'string' && value !== '' ? value : null
}

/** Events that say how an object is now, and nothing beside it. */
const VERSION_OF_OBJECT = /\.(created|updated)$/

/**
 * The object of an answer or of such an event, whole: an event has what the call that caused it was answered with. Null for every other
 * event, such as `payment_intent.succeeded`, which is news even to the caller. Rule: docs/behaviour/stripe.md, "Echoes".
 */
export function toldRecord(told: Told): { key: string; content: Json } | null {
  if (told.kind === 'item') return null
  if (told.kind === 'answer') return recordIn(told.body)
  if (!VERSION_OF_OBJECT.test(eventTypeOf(told.request) ?? '')) return null
  const event = z.object({ data: z.object({ object: z.json() }) }).safeParse(payloadOf(told.request)).data
  return recordIn(event?.data.object)
}

function recordIn(value: unknown): { key: string; content: Json } | null {
  const object = z.looseObject({ id: z.string(), object: z.string() }).safeParse(value).data
  return object === undefined ? null : { key: object.id, content: object as Json }
}

/** A verified webhook of Stripe. A listener that throws fails the webhook, so that it can be tried again. */
export class StripeWebhookReceived extends ProviderEvent {
  static override readonly type = 'stripe.webhook_received'

  constructor(
    integration: Integration,
    /** Of Stripe's event, such as `payment_intent.succeeded`; `unknown` when the body names none. */
    readonly type: string,
    /** Of Stripe's event, such as `evt_…`; empty when the body names none. */
    readonly id: string,
    /** The whole event; null when the body was no JSON. */
    readonly payload: Json,
  ) {
    super(integration)
  }
}
