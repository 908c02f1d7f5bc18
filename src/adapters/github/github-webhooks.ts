/**
 * Deliveries of GitHub: signature, id, type, payload.
 *
 * Source: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
import type { HmacScheme, Json, WebhookRequest } from '../../provider.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** The SHA-1 header beside it is ignored. */
export const gitHubSignature: HmacScheme = {
  scheme: 'hmac',
  hash: 'sha256',
  header: 'x-hub-signature-256',
  prefix: 'sha256=',
  encoding: 'hex',
}

/** `X-GitHub-Delivery`, if it is a UUID as GitHub sends it; null otherwise. */
export function deliveryIdOf(request: WebhookRequest): string | null {
  return uuidOf(request.headers.get('x-github-delivery'))
}

/** In lower case; null for any other text. */
export function uuidOf(id: string | null): string | null {
  return id !== null && UUID.test(id) ? id.toLowerCase() : null
}

export function eventOf(request: WebhookRequest): string | null {
  return request.headers.get('x-github-event')
}

/** The payload, from JSON or from the form field `payload`; null if it is neither. */
export function payloadOf(request: WebhookRequest): Json {
  const direct = request.json()
  if (direct !== undefined) return direct
  const field = new URLSearchParams(request.text()).get('payload')
  if (field === null) return null
  try {
    return JSON.parse(field) as Json
  } catch {
    return null
  }
}

/** The payload's `action`, such as `opened`. */
export function actionOf(payload: Json): string | null {
  const action = typeof payload === 'object' && payload !== null && 'action' in payload ? payload.action : null
  return typeof action === 'string' ? action : null
}
