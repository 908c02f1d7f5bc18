/**
 * What a provider's webhooks look like, as data: where a new provider begins.
 *
 * Rule: docs/webhook-doors.md, which lists all of them.
 */
import type { DeliveryPlace, HmacScheme, SignatureScheme, SignedPart } from '../../providers/signatures/scheme-rules.ts'
import type { DoorAnswer } from '../../providers/webhook-door.ts'

/** What the provider does to a new address before it sends deliveries there. */
export type Handshake =
  /** GET with a parameter that the answer's body repeats. `verify`: a parameter that must hold a token of ours. */
  | { readonly kind: 'echo query'; readonly name: string; readonly verify?: string }
  /** A delivery with a member that the answer repeats. */
  | { readonly kind: 'echo json'; readonly path: string }
  /** A delivery whose header the answer repeats; it is the secret of later deliveries. */
  | { readonly kind: 'echo header'; readonly name: string }
  /** GET with a header that the answer repeats in JSON. */
  | { readonly kind: 'echo header in json'; readonly name: string; readonly path: string }
  | { readonly kind: 'head' }
  /** CloudEvents: OPTIONS with `WebHook-Request-Origin`, answered by `WebHook-Allowed-Origin`. */
  | { readonly kind: 'options' }
  /** A delivery with a text that the answer repeats, and holds signed by the secret: HMAC-SHA256 in hex, under `signature`. */
  | { readonly kind: 'signed answer'; readonly path: string; readonly signature: string }
  /** A delivery with a token that a person gives back to the provider. */
  | { readonly kind: 'token to keep'; readonly path: string }
  /** A delivery with an address that must be visited. */
  | { readonly kind: 'visit'; readonly path: string }
  /** Deliveries with right and wrong signatures, which must be answered by 2xx and by `badSignatureStatus`. */
  | { readonly kind: 'probes' }
  /** A delivery that the answer's body must match, such as Discord's ping. */
  | { readonly kind: 'ping'; readonly answer: string }

export interface WebhookDoor {
  /** The provider's name; empty: a door that is invented for a new provider. */
  readonly label: string
  readonly signature: SignatureScheme
  /** What the provider calls the secret, or public key, and whose it is. */
  readonly secret: string
  /** Left out: the provider names no delivery; the body's digest is the id. */
  readonly deliveryId?: DeliveryPlace
  /** Left out: a delivery has no type, or its events have one each. */
  readonly eventType?: DeliveryPlace
  readonly handshake?: Handshake
  /** The answer to a delivery. Default: 200 and JSON. */
  readonly accepted?: DoorAnswer
  /** Default: 403. */
  readonly badSignatureStatus?: number
  /** Dot path of the list of events in a delivery of many; empty: the body is the list. */
  readonly batch?: string
  /** Where an event of a delivery of many has its own id, and its type: dot paths. */
  readonly batchEvent?: { readonly id?: string; readonly type?: string }
  readonly sample: {
    readonly headers?: Readonly<Record<string, string>>
    readonly body: string
    readonly metadata?: Readonly<Record<string, string>>
  }
  readonly note?: string
  /** The provider's own page that says so, and when it was looked at. Left out: written from memory. */
  readonly source?: { readonly page: string; readonly seen: string }
  /** The maker's own code that judges the same deliveries as ours does, in test/webhooks/differential. */
  readonly checkedBy?: { readonly package: string; readonly version: string }
}

/** HMAC-SHA256 in hex over the raw body, which most providers sign by. */
export function hmac(header: string, more: Partial<HmacScheme> = {}): HmacScheme {
  return { scheme: 'hmac', hash: 'sha256', header, encoding: 'hex', ...more }
}

/** Signed parts with a text between them. */
export function separated(by: string, first: SignedPart, ...others: SignedPart[]): SignedPart[] {
  return [first, ...others.flatMap((part) => [by, part])]
}

/** Whether the signature covers the id: Standard Webhooks sign theirs, no other scheme signs that header; a JWT may leave the body out. */
export function signsDeliveryId({ signature, deliveryId }: WebhookDoor): boolean {
  if (deliveryId !== undefined && 'header' in deliveryId) return signature.scheme === 'standard-webhooks'
  return signature.scheme !== 'jwt' || signature.bodyHash !== undefined
}

export function seen(page: string): NonNullable<WebhookDoor['source']> {
  return { page, seen: '2026-11-26' }
}

export function json(value: unknown): string {
  return JSON.stringify(value)
}
