/**
 * Deliveries of Stripe: signature, id, type, payload.
 *
 * Source: https://docs.stripe.com/webhooks/signature. Rule: docs/behaviour/stripe.md, "Webhooks".
 */

import { createHmac, randomUUID } from 'node:crypto'
import Stripe from 'stripe'
import { z } from 'zod'
import type { Integration, Json, TestWebhook, Told, WebhookRequest, WebhookSample } from '../../provider.ts'
import { activeWebhookSecrets, isTimely, ProviderEvent, soleHeader } from '../../provider.ts'

const SIGNED_AT = /^t=(\d{1,12})$/

/**
 * The SDK's own check, with each secret in force, and two more that the SDK leaves out: it accepts a time in the future, and
 * takes the last of several times.
 */
export function verifySignature(integration: Integration, request: WebhookRequest): boolean {
  const header = soleHeader(request, 'stripe-signature')
  const signedAt = header === null ? null : signedAtOf(header)
  if (header === null || signedAt === null || !isTimely(request, signedAt)) return false
  const text = request.text()
  // The SDK hashes text. Bytes that are not UTF-8 have no text of their own, so other bytes could pass in their place.
  if (!Buffer.from(text).equals(request.rawBody)) return false
  const secrets = activeWebhookSecrets(integration.credentialsArray(), request.receivedAt)
  // Tries every secret, so that the time does not show which one matched.
  return secrets.filter((secret) => isSignedWith(secret, header, text, request)).length > 0
}

/** The whole secret is the key, `whsec_` included. */
function isSignedWith(secret: string, header: string, text: string, request: WebhookRequest): boolean {
  const { toleranceSeconds, receivedAt } = request
  try {
    const { signature } = Stripe.webhooks
    return signature?.verifyHeader(text, header, secret, toleranceSeconds, undefined, receivedAt.getTime()) ?? false
  } catch (error) {
    if (error instanceof Stripe.errors.StripeSignatureVerificationError) return false
    throw error
  }
}

/** As Stripe sends it, for the test console. */
export function signTest(integration: Integration, { body, at }: TestWebhook): Record<string, string> | null {
  const [secret] = activeWebhookSecrets(integration.credentialsArray(), at)
  if (secret === undefined) return null
  const seconds = Math.floor(at.getTime() / 1_000)
  const digest = createHmac('sha256', secret).update(`${seconds}.`).update(body).digest('hex')
  return { 'stripe-signature': `t=${seconds},v1=${digest}`, 'user-agent': 'Stripe/1.0 (console)' }
}

/** Short forms of https://docs.stripe.com/api/events, each with an id of its own: the id is the delivery's. */
export function samples(): readonly WebhookSample[] {
  const sample = (type: string, object: Json): WebhookSample => ({
    name: type,
    event: type,
    body: {
      id: `evt_test_${randomUUID().replaceAll('-', '')}`,
      object: 'event',
      type,
      livemode: false,
      data: { object },
    },
  })
  return [
    sample('payment_intent.succeeded', { id: 'pi_console', object: 'payment_intent', amount: 1_099, currency: 'eur' }),
    sample('customer.updated', { id: 'cus_console', object: 'customer', email: 'jenny@example.com' }),
  ]
}

/** Seconds since 1970; null unless the header names one time. */
function signedAtOf(header: string): number | null {
  const [time, ...further] = header.split(',').filter((part) => part.startsWith('t='))
  const seconds = further.length === 0 ? SIGNED_AT.exec(time ?? '')?.[1] : undefined
  return seconds === undefined ? null : Number(seconds)
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
