/**
 * The door of a provider that the catalogue does not name, and that signs its time with its body.
 *
 * Rule: docs/webhook-doors.md, "Of no provider".
 */
import type { DigestEncoding } from '../../providers/signatures/scheme-rules.ts'
import { signedPart } from '../../providers/signatures/scheme-rules.ts'
import type { WebhookDoor } from './door.ts'
import { hmac, json } from './door.ts'

export const TIMESTAMPED_HMAC = 'timestamped-hmac'

export interface TimestampedHmac {
  /** Names of headers, in lower case. */
  readonly signatureHeader: string
  readonly timestampHeader: string
  /** Stands between the time and the body in what is signed; may be empty. */
  readonly separator: string
  readonly encoding: DigestEncoding
  /** Seconds that the signed time may be off; undefined: `webhook.timestamp_tolerance`. */
  readonly tolerance?: number | undefined
}

/** @param dashed the provider's name in headers, such as `acme-crm` */
export const usualTimestampedHmac = (dashed: string): TimestampedHmac => ({
  signatureHeader: `x-${dashed}-signature`,
  timestampHeader: `x-${dashed}-timestamp`,
  separator: '.',
  encoding: 'hex',
})

/** HMAC-SHA256 over `<seconds><separator><body>`. Id and type stand in the body, so they are signed. */
export function timestampedHmac(given: TimestampedHmac): WebhookDoor {
  const { signatureHeader, timestampHeader, separator, encoding, tolerance } = given
  return {
    label: '',
    signature: hmac(signatureHeader, {
      encoding,
      timestamp: { header: timestampHeader },
      signed: [signedPart.timestamp, ...(separator === '' ? [] : [separator]), signedPart.body],
      ...(tolerance === undefined ? {} : { tolerance }),
    }),
    secret: '',
    deliveryId: { json: 'id' },
    eventType: { json: 'type' },
    sample: { body: json({ id: 'evt_1', type: 'item.updated', item: { id: '1' } }) },
  }
}
