/**
 * Deliveries signed as a provider would sign them.
 *
 * Rule: docs/testing.md, "Webhooks".
 */
import { createHmac, randomUUID } from 'node:crypto'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { HandlesWebhooks } from '../providers/contracts.ts'
import { signatureOf } from '../providers/signatures/declared-signature.ts'
import type { SignatureScheme } from '../providers/signatures/scheme-rules.ts'
import type { SignedDeliveryParts } from '../providers/signatures/sign-delivery.ts'
import { signDelivery } from '../providers/signatures/sign-delivery.ts'

export interface SignedWebhookOptions {
  readonly secret: string
  /** When it is signed, for schemes that sign the time. Default: the machine's time. */
  readonly at?: Date
  /** The event's type, for providers that name it in a header. */
  readonly event?: string
  /** The provider's id of the delivery. Default: a new one. */
  readonly deliveryId?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface DeliveryToSign {
  /** The raw body. */
  readonly body: string
  readonly secret: string
  readonly at: Date
  readonly event: string | null
  readonly deliveryId: string
}

/**
 * How a provider signs: the headers of one delivery. `signerOf()` makes one of a provider's `signature`; write one for a provider with a
 * check of its own.
 */
export type WebhookSigner = (delivery: DeliveryToSign) => Record<string, string>

/** What is needed of a provider that signs by data. */
export type SigningProvider = Pick<HandlesWebhooks, 'signature' | 'testWebhookHeaders'>

/**
 * @param signer or the provider itself, if its `signature` says how it signs
 * @param body text as it is, anything else as JSON
 * @throws InvalidArgumentException for a provider without `signature`
 */
export function signedWebhook(
  signer: WebhookSigner | SigningProvider,
  body: unknown,
  options: SignedWebhookOptions,
): Request {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const { secret, at = new Date(), event = null, deliveryId = randomUUID(), headers: given = {} } = options
  const delivery = { body: text, secret, at, event, deliveryId }
  const signed =
    typeof signer === 'function'
      ? { url: '/', headers: { ...JSON_TYPE, ...signer(delivery) }, body: text }
      : signedByProvider(signer, delivery, given)
  const headers = new Headers(signed.headers)
  for (const [name, value] of Object.entries(given)) headers.set(name, value)
  return new Request(`http://localhost${signed.url}`, {
    method: 'POST',
    headers,
    body: signed.body as string | Uint8Array<ArrayBuffer>,
  })
}

const JSON_TYPE = { 'content-type': 'application/json' }

/** With the headers that the provider sends beside the signature, which may stand in the address or in the body. */
function signedByProvider(
  provider: SigningProvider,
  { body, secret, at, event, deliveryId }: DeliveryToSign,
  given: Readonly<Record<string, string>>,
): Pick<SignedDeliveryParts, 'url' | 'headers' | 'body'> {
  const signature = signatureOf(provider)
  if (signature === undefined)
    throw new InvalidArgumentException(
      'provider',
      'one with `signature` is allowed; for one with a check of its own give a function ({body, secret, at, event, deliveryId}) => headers',
    )
  const headers = { ...JSON_TYPE, ...provider.testWebhookHeaders?.({ event, deliveryId }), ...given }
  return signDelivery(signature, { headers, body }, { key: secret, at, deliveryId })
}

/** HMAC-SHA256 of the raw body in one header. */
export function hmacSigner({
  header,
  prefix = '',
  encoding = 'hex',
}: {
  header: string
  prefix?: string
  encoding?: 'hex' | 'base64'
}): WebhookSigner {
  return ({ body, secret }) => ({ [header]: prefix + createHmac('sha256', secret).update(body).digest(encoding) })
}

const gitHubSignature = hmacSigner({ header: 'x-hub-signature-256', prefix: 'sha256=' })

/** https://docs.github.com/en/webhooks/webhook-events-and-payloads#delivery-headers */
export const gitHubSigner: WebhookSigner = (delivery) => ({
  ...gitHubSignature(delivery),
  'x-github-delivery': delivery.deliveryId,
  'x-github-event': delivery.event ?? 'ping',
  'user-agent': 'GitHub-Hookshot/kit',
})

/** https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, symmetric signatures */
export const standardWebhooksSigner: WebhookSigner = ({ body, secret, at, deliveryId }) => {
  const timestamp = Math.floor(at.getTime() / 1_000)
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const digest = createHmac('sha256', key).update(`${deliveryId}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': deliveryId, 'webhook-timestamp': String(timestamp), 'webhook-signature': `v1,${digest}` }
}

/** https://docs.stripe.com/webhooks/signature: the whole secret is the key. Type and id are in the event. */
export const stripeSigner: WebhookSigner = ({ body, secret, at }) => {
  const timestamp = Math.floor(at.getTime() / 1_000)
  const digest = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
  return {
    'stripe-signature': `t=${timestamp},v1=${digest}`,
    'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
  }
}

/**
 * A signer for `signedWebhook()` out of a provider's `signature`.
 *
 * @throws InvalidArgumentException when it signs, for a signature or a time that does not stand in a header
 */
export function signerOf(scheme: SignatureScheme): WebhookSigner {
  return ({ body, secret, at, deliveryId }) => {
    const signed = signDelivery(scheme, { url: '/', body }, { key: secret, at, deliveryId })
    const changed = [
      signed.url === '/' ? [] : ['the address'],
      Buffer.from(signed.body).equals(Buffer.from(body)) ? [] : ['the body'],
    ].flat()
    // Headers alone would be a delivery without its signature.
    if (changed.length > 0)
      throw new InvalidArgumentException(
        'scheme',
        `one whose signature and time stand in headers is allowed; this one is written into ${changed.join(' and ')}: give signedWebhook() the provider, or sign a Request of your own`,
      )
    return { ...signed.headers }
  }
}
