/**
 * A delivery as a provider sees it: the raw bytes and what they say.
 *
 * The same object is made from an HTTP request and from a stored row, so a replay sees what the first run saw.
 */
import type { Json } from '../framework/json.ts'
import { isoTimeMs } from '../oauth/rules.ts'
import type { StoredDelivery } from '../webhooks/rules.ts'
import { deliveryId, PSEUDO_HEADER, storedBody } from '../webhooks/rules.ts'
import type { HandlesWebhooks } from './contracts.ts'
import type { Integration } from './integration.ts'

export interface WebhookRequest {
  readonly method: string
  /** Path and query; the host is left out, since a replay does not have it. */
  readonly url: string
  readonly query: URLSearchParams
  readonly headers: Headers
  /** The very bytes that were delivered; signatures are over these. */
  readonly rawBody: Uint8Array
  /** By our clock; of a stored delivery: when it was stored. */
  readonly receivedAt: Date
  /** Seconds that a signed time may lie before or after `receivedAt`: config `webhook.timestamp_tolerance`. */
  readonly toleranceSeconds: number
  /** The body as UTF-8, byte-order mark kept; bytes that are no UTF-8 are replaced by U+FFFD. */
  text(): string
  /** The parsed body; undefined when it is no JSON. */
  json(): Json | undefined
}

/** A delivery that need not say when it came in, such as one that a test of the host makes. */
export type DeliveryToCheck = Omit<WebhookRequest, keyof DeliveryTime> & Partial<DeliveryTime>

/** Config `webhook.timestamp_tolerance`, its default. */
export const DEFAULT_TOLERANCE_SECONDS = 300

/** The delivery as it came in: just now, unless it says when. */
export function asReceived(delivery: DeliveryToCheck): WebhookRequest {
  return { receivedAt: new Date(), toleranceSeconds: DEFAULT_TOLERANCE_SECONDS, ...delivery }
}

export interface DeliveryTime {
  readonly receivedAt: Date
  readonly toleranceSeconds: number
}

export function webhookRequest(
  delivery: {
    method: string
    path: string
    query: string
    headers: Headers
    rawBody: Uint8Array
  } & DeliveryTime,
): WebhookRequest {
  let parsed: { value: Json | undefined } | undefined
  const text = (): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(delivery.rawBody)
  return {
    method: delivery.method,
    url: delivery.query === '' ? delivery.path : `${delivery.path}?${delivery.query}`,
    query: new URLSearchParams(delivery.query),
    headers: delivery.headers,
    rawBody: delivery.rawBody,
    receivedAt: delivery.receivedAt,
    toleranceSeconds: delivery.toleranceSeconds,
    text,
    json: () => {
      parsed ??= { value: parseJson(text()) }
      return parsed.value
    },
  }
}

/**
 * The request of a stored row. Pseudo-headers become what they stand for; real ones are as delivered.
 *
 * @param path of the integration's own route, whichever route brought it
 */
export function storedWebhookRequest(stored: StoredDelivery & DeliveryTime, path = ''): WebhookRequest {
  const headers = new Headers()
  for (const [name, values] of Object.entries(stored.headers)) {
    if (name.startsWith(':')) continue
    for (const value of values) headers.append(name, value)
  }
  return webhookRequest({
    method: stored.headers[PSEUDO_HEADER.method]?.[0] ?? 'POST',
    path,
    query: stored.headers[PSEUDO_HEADER.query]?.[0] ?? '',
    headers,
    rawBody: storedBody(stored),
    receivedAt: stored.receivedAt,
    toleranceSeconds: stored.toleranceSeconds,
  })
}

/** The de-duplication key of a request, given what the provider calls it. */
export function deliveryIdOf(request: WebhookRequest, fromProvider: string | null): string {
  const query = request.url.slice(request.url.indexOf('?') + 1)
  return deliveryId(fromProvider, { rawBody: request.rawBody, query: request.url.includes('?') ? query : '' })
}

/** The most secrets in force at once: each one costs an HMAC of the body, for a forger's delivery too. */
export const MAX_WEBHOOK_SECRETS = 5

/**
 * The webhook secrets in force: `webhook_secret` and those of `webhook_secrets` that have not expired, five at most.
 *
 * @param credentials decrypted
 * @param now the request's `receivedAt`
 */
export function activeWebhookSecrets(credentials: Record<string, unknown>, now: Date): string[] {
  const current = typeof credentials.webhook_secret === 'string' ? [credentials.webhook_secret] : []
  const secrets = [...current, ...furtherWebhookSecrets(credentials, now).map(({ secret }) => secret)]
  return secrets.filter((secret) => secret !== '').slice(0, MAX_WEBHOOK_SECRETS)
}

/** Of `webhook_secrets`, those that have not expired, as they stand there. */
export function furtherWebhookSecrets(
  credentials: Record<string, unknown>,
  now: Date,
): { readonly secret: string; readonly expires_at?: unknown }[] {
  if (!Array.isArray(credentials.webhook_secrets)) return []
  return (credentials.webhook_secrets as unknown[]).filter((entry): entry is { secret: string } => {
    if (typeof entry !== 'object' || entry === null) return false
    const { secret, expires_at } = entry as { secret?: unknown; expires_at?: unknown }
    if (typeof secret !== 'string') return false
    return secretEndMs(expires_at) > now.getTime()
  })
}

/** When one of `webhook_secrets` ends: never without an `expires_at`; NaN for one that is no time. */
export function secretEndMs(expiresAt: unknown): number {
  if (expiresAt === null || expiresAt === undefined) return Number.POSITIVE_INFINITY
  return typeof expiresAt === 'string' ? isoTimeMs(expiresAt) : Number.NaN
}

/**
 * What the signature of a delivery is checked by: what the provider's `webhookSecrets()` gives, or the {@link activeWebhookSecrets}.
 *
 * @param provider one whose `verifyWebhookSignature()` asks
 */
export function webhookSecretsOf(
  provider: HandlesWebhooks,
  integration: Integration,
  delivery: DeliveryToCheck,
): readonly string[] {
  const request = asReceived(delivery)
  const own = provider.webhookSecrets?.(integration, request)
  return own?.slice(0, MAX_WEBHOOK_SECRETS) ?? activeWebhookSecrets(integration.credentialsArray(), request.receivedAt)
}

function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, '')) as Json
  } catch {
    return undefined
  }
}
