/** What a check of a signature asks of the request besides the signature itself. Rule: docs/behaviour/webhook-signatures.md. */
import type { WebhookRequest } from './webhook-request.ts'

/**
 * The value of a header that was sent once; null when it is missing, empty or repeated.
 *
 * For headers that sign: none of them has a comma with a space after it of its own, which is what stands between repeats
 * (https://fetch.spec.whatwg.org/#concept-header-list-get).
 */
export function soleHeader({ headers }: WebhookRequest, name: string): string | null {
  const value = headers.get(name)
  return value === null || value === '' || value.includes(', ') ? null : value
}

export interface SignedTimeOptions {
  /** Seconds. Default: config `webhook.timestamp_tolerance`. */
  readonly tolerance?: number
  /** Default: when the delivery came in. */
  readonly now?: Date
}

/**
 * Whether a signed time lies within the tolerance of now, past or future: exactly so many seconds off passes.
 *
 * @param signedAt seconds since 1970, as they were signed
 */
export function isTimely(
  request: WebhookRequest,
  signedAt: number,
  { tolerance = request.toleranceSeconds, now = request.receivedAt }: SignedTimeOptions = {},
): boolean {
  // A signed time is in whole seconds, so now is counted in whole seconds too: NaN is within no tolerance.
  return Math.abs(Math.floor(now.getTime() / 1_000) - signedAt) <= tolerance
}
