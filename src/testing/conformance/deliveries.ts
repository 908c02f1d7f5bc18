/** Deliveries of the fixtures, signed as they say, and spoilt in one way or another. */
import type { WebhookRequest } from '../../providers/webhook-request.ts'
import { webhookRequest } from '../../providers/webhook-request.ts'
import type { WebhookFixture } from '../conformance.ts'
import { signedWebhook } from '../signed-webhook.ts'

/** Config `webhook.timestamp_tolerance`, its default: for schemes that sign no time it is not asked for. */
const DEFAULT_TOLERANCE_SECONDS = 300
const UUID = '6d9f2b1c-3a54-4e0e-9d6b-0c1f5e7a8b90'
/** A digest is longer than any time or version that stands beside it. */
const DIGEST = /[A-Za-z0-9+/_-]{16,}={0,2}/g

export interface Signing {
  readonly secret?: string
  readonly at: Date
  readonly body?: unknown
  readonly deliveryId?: string
}

/** As the provider sends it. */
export function delivery(fixture: WebhookFixture, { secret, at, body, deliveryId }: Signing): Request {
  return signedWebhook(fixture.signer, body === undefined ? fixture.body : body, {
    secret: secret ?? fixture.secret,
    at,
    deliveryId: deliveryId ?? fixture.deliveryId ?? UUID,
    ...(fixture.event === undefined ? {} : { event: fixture.event }),
    ...(fixture.headers === undefined ? {} : { headers: fixture.headers }),
  })
}

/** As the provider's code sees it. */
export async function received(
  { toleranceSeconds }: Pick<WebhookFixture, 'toleranceSeconds'>,
  request: Request,
  receivedAt: Date,
): Promise<WebhookRequest> {
  return webhookRequest({
    method: request.method,
    path: '/integrations/webhook',
    query: '',
    headers: new Headers(request.headers),
    rawBody: new Uint8Array(await request.clone().arrayBuffer()),
    receivedAt,
    toleranceSeconds: toleranceSeconds ?? DEFAULT_TOLERANCE_SECONDS,
  })
}

/** The delivery with another signature header; null: without it. */
export function withSignature(request: Request, header: string, value: string | null): Request {
  const headers = new Headers(request.headers)
  if (value === null) headers.delete(header)
  else headers.set(header, value)
  return new Request(request.clone(), { headers })
}

export async function withBody(request: Request, change: (body: Uint8Array) => Uint8Array): Promise<Request> {
  const { method, headers, url } = request
  const body = change(new Uint8Array(await request.clone().arrayBuffer()))
  return new Request(url, { method, headers, body: body as Uint8Array<ArrayBuffer> })
}

/** The header with its digest changed; null where none is found. */
export function withDigest(header: string, change: (digest: string) => string): string | null {
  const digests = header.match(DIGEST) ?? []
  const digest = digests.reduce((longest, each) => (each.length > longest.length ? each : longest), '')
  return digest === '' ? null : header.replace(digest, () => change(digest))
}

/** The text with another character of the same alphabet at one place. */
export function withCharacterAt(text: string, at: number): string {
  return `${text.slice(0, at)}${text[at] === '0' ? '1' : '0'}${text.slice(at + 1)}`
}

export function withByteAt(bytes: Uint8Array, at: number): Uint8Array {
  return bytes.map((byte, index) => (index === at ? byte ^ 1 : byte))
}
