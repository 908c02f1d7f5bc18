/** Deliveries of the fixtures, signed as they say, and spoilt in one way or another. */
import { InvalidArgumentException } from '../../framework/errors.ts'
import type { Json } from '../../framework/json.ts'
import type { HandlesWebhooks } from '../../providers/contracts.ts'
import { signatureOf } from '../../providers/signatures/declared-signature.ts'
import type { SignatureScheme } from '../../providers/signatures/scheme-rules.ts'
import { signDelivery } from '../../providers/signatures/sign-delivery.ts'
import type { WebhookRequest } from '../../providers/webhook-request.ts'
import { DEFAULT_TOLERANCE_SECONDS, webhookRequest } from '../../providers/webhook-request.ts'
import type { WebhookFixture } from '../conformance.ts'
import { signedWebhook } from '../signed-webhook.ts'
import type { Bench } from './bench.ts'

const UUID = '6d9f2b1c-3a54-4e0e-9d6b-0c1f5e7a8b90'
/** A digest is longer than any time or version that stands beside it. */
const DIGEST = /[A-Za-z0-9+/_-]{16,}={0,2}/g

/** A fixture with all that its provider's `signature` says. */
export interface SignedFixture extends Omit<WebhookFixture, 'signatureHeader' | 'toleranceSeconds'> {
  /** Null: the fixture has a signer. */
  readonly scheme: SignatureScheme | null
  /** Null: the signature stands elsewhere. */
  readonly signatureHeader: string | null
  readonly toleranceSeconds: number | null
  /** False: the scheme has a tolerance of its own. */
  readonly isToleranceConfigured: boolean
  /** Whether every byte of the body is signed. */
  readonly coversBody: boolean
  /** Whether it is checked by the secrets of the credentials, so that they can be rotated. */
  readonly hasSecrets: boolean
  readonly metadata: Readonly<Record<string, Json>>
}

/** @throws InvalidArgumentException where neither the fixture nor the provider says how deliveries are signed */
export function signedFixture(
  provider: Partial<HandlesWebhooks>,
  fixture: WebhookFixture,
  metadata: Readonly<Record<string, Json>>,
): SignedFixture {
  const { signer, signatureHeader = null, toleranceSeconds = null } = fixture
  const { webhookSecrets } = provider
  const signature = signatureOf(provider)
  if (signer !== undefined || signature === undefined) {
    if (signer === undefined || signatureHeader === null)
      throw new InvalidArgumentException(
        'webhook',
        'a provider without `signature` needs fixtures with `signer` and `signatureHeader`',
      )
    const isOwn = { isToleranceConfigured: true, coversBody: true, hasSecrets: true }
    return { ...fixture, scheme: null, signatureHeader, toleranceSeconds, ...isOwn, metadata }
  }
  const tolerance = toleranceOf(signature)
  const ownKeys = ['publicKeys', 'jwks', 'certificate'].some((name) => name in signature)
  return {
    ...fixture,
    scheme: signature,
    signatureHeader: headerOf(signature),
    toleranceSeconds: tolerance === undefined ? DEFAULT_TOLERANCE_SECONDS : tolerance,
    isToleranceConfigured: tolerance === undefined,
    coversBody: coversBody(signature),
    hasSecrets: !ownKeys && webhookSecrets === undefined,
    metadata,
  }
}

/** Undefined: the configured one; null: no time is signed. */
function toleranceOf(scheme: SignatureScheme): number | null | undefined {
  if (scheme.scheme === 'token' || scheme.scheme === 'jwt') return null
  if (scheme.scheme === 'standard-webhooks') return scheme.tolerance
  return scheme.timestamp === undefined ? null : scheme.tolerance
}

function headerOf(scheme: SignatureScheme): string | null {
  if (scheme.scheme === 'standard-webhooks') return `${scheme.names ?? 'webhook'}-signature`
  if (scheme.scheme === 'token' && scheme.basic === true) return 'authorization'
  return (typeof scheme.header === 'string' ? scheme.header : scheme.header?.[0]) ?? null
}

function coversBody(scheme: SignatureScheme): boolean {
  if (scheme.scheme === 'token') return false
  if (scheme.scheme === 'jwt') return scheme.bodyHash !== undefined
  if (scheme.scheme === 'standard-webhooks' || scheme.signed === undefined) return true
  const whole = ['body', 'crc32', 'bodyDigest', 'sortedForm']
  return scheme.signed.some((part) => typeof part === 'object' && whole.includes(part.part))
}

export interface Signing {
  readonly secret?: string
  readonly at: Date
  readonly body?: unknown
  readonly deliveryId?: string
}

/** As the provider sends it. */
export function delivery(
  fixture: SignedFixture,
  { secret = fixture.secret, at, body = fixture.body, deliveryId = fixture.deliveryId ?? UUID }: Signing,
): Request {
  const { scheme, signer, event, headers = {}, deliveryIdHeader } = fixture
  if (scheme === null && signer !== undefined)
    return signedWebhook(signer, body, { secret, at, deliveryId, ...(event === undefined ? {} : { event }), headers })
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const signed = signDelivery(
    scheme as SignatureScheme,
    {
      headers: {
        'content-type': 'application/json',
        ...headers,
        ...(deliveryIdHeader && { [deliveryIdHeader]: deliveryId }),
      },
      body: text,
    },
    { key: keyOf(fixture, secret), at, deliveryId, metadata: fixture.metadata, baseUrl: BASE_URL },
  )
  return new Request(`http://localhost${signed.url}`, {
    method: signed.method,
    headers: signed.headers,
    body: signed.body as Uint8Array<ArrayBuffer>,
  })
}

/** Of the checks that judge a signature by itself; the door has its own, or the metadata's `webhook_url`. */
export const BASE_URL = 'http://localhost'

function keyOf({ secret, otherSecret, signingKey, otherSigningKey }: SignedFixture, given: string): string {
  if (given === secret && signingKey !== undefined) return signingKey
  return given === otherSecret && otherSigningKey !== undefined ? otherSigningKey : given
}

/** As the provider's code sees it. */
export async function received(
  { toleranceSeconds }: Pick<SignedFixture, 'toleranceSeconds'>,
  request: Request,
  receivedAt: Date,
): Promise<WebhookRequest> {
  const { pathname, search } = new URL(request.url)
  return webhookRequest({
    method: request.method,
    path: pathname,
    query: search.slice(1),
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

/** Bodies that a provider may meet: its signature says who sent it, not what it holds. */
const ODD_BODIES = [
  '',
  'no JSON',
  'null',
  '7',
  '"text"',
  '[]',
  '{}',
  '{"id":7,"type":{},"event":[]}',
  '\ufeff{}',
  '\u0000',
]

/** The delivery of the fixtures with each of these bodies. */
export function oddRequests(
  bench: Bench,
  fixture: SignedFixture,
): Promise<{ readonly body: string; readonly request: WebhookRequest }[]> {
  const at = bench.kit.clock.now()
  return Promise.all(
    ODD_BODIES.map(async (body) => {
      const odd = await withBody(delivery(fixture, { at }), () => Buffer.from(body))
      return { body, request: await received(fixture, odd, at) }
    }),
  )
}
