/** The suite signs by a provider's `signature`, and attacks it: providers of each scheme, which have no signer and no check of their own. */
import { afterAll, describe, it } from 'vitest'
import type { HandlesWebhooks, WebhookRequest } from '../../../src/provider.ts'
import { readPlace } from '../../../src/providers/signatures/delivery-values.ts'
import type { DeliveryPlace } from '../../../src/providers/signatures/scheme-rules.ts'
import { describeProvider } from '../../../src/testing/index.ts'
import type { WebhookDoor } from '../../../src/webhooks/catalogue/door.ts'
import { signsDeliveryId } from '../../../src/webhooks/catalogue/door.ts'
import { WEBHOOK_DOORS } from '../../../src/webhooks/catalogue/index.ts'
import {
  TIMESTAMPED_HMAC,
  timestampedHmac,
  usualTimestampedHmac,
} from '../../../src/webhooks/catalogue/timestamped-hmac.ts'
import { schemeKeys } from '../../support/scheme-keys.ts'

/** One of each kind: a list with a time, form and address, several headers, a public key, a token, a JWT, a signature in the body. */
const DOORS = ['stripe', 'twilio', 'box', 'discord', 'gitlab', 'netlify', 'mailgun', TIMESTAMPED_HMAC]
const TIMESTAMPED = timestampedHmac({ ...usualTimestampedHmac('acme'), encoding: 'base64', tolerance: 60 })

function providerOf(door: WebhookDoor): HandlesWebhooks {
  const { signature, deliveryId, eventType } = door
  const read = (place: DeliveryPlace | undefined) => (request: WebhookRequest) => {
    const found = place === undefined ? null : readPlace(request, place)
    return found !== null && 'value' in found ? found.value : null
  }
  return {
    signature,
    deliveryIdSigned: signsDeliveryId(door),
    webhookDeliveryId: read(deliveryId),
    resolveWebhookEvent: read(eventType),
    handleWebhook: () => null,
  }
}

for (const name of DOORS) {
  const door = name === TIMESTAMPED_HMAC ? TIMESTAMPED : WEBHOOK_DOORS[name]
  if (door === undefined) throw new Error(`there is no door ${name}`)
  const { own, other } = schemeKeys(door.signature)
  describeProvider(
    name,
    () => providerOf(door),
    {
      credentials: { webhook_secret: own.secret },
      metadata: { ...door.sample.metadata, webhook_url: 'https://hooks.example.com/acme' },
      api: () => new Response(null, { status: 404 }),
      write: null,
      webhook: {
        body: door.sample.body,
        ...(door.sample.headers === undefined ? {} : { headers: door.sample.headers }),
        secret: own.secret,
        otherSecret: other.secret,
        signingKey: own.signWith,
        otherSigningKey: other.signWith,
      },
    },
    { describe, it, afterAll },
  )
}
