import { signedPart } from '../../providers/signatures/scheme-rules.ts'
import type { WebhookDoor } from './door.ts'
import { hmac, json, seen } from './door.ts'

const { body, timestamp, method } = signedPart

export const COMMERCE_AND_SALES_DOORS = {
  shopify: {
    label: 'Shopify',
    signature: hmac('x-shopify-hmac-sha256', { encoding: 'base64' }),
    secret: 'the client secret, of the app',
    deliveryId: { header: 'x-shopify-webhook-id' },
    eventType: { header: 'x-shopify-topic' },
    badSignatureStatus: 401,
    sample: {
      headers: {
        'x-shopify-topic': 'orders/create',
        'x-shopify-webhook-id': 'b54557e4',
        'x-shopify-shop-domain': 'acme.myshopify.com',
        'x-shopify-api-version': '2026-10',
      },
      body: json({ id: '820982911946154508' }),
    },
    checkedBy: { package: '@shopify/shopify-api', version: '12.3.0' },
  },
  woocommerce: {
    label: 'WooCommerce',
    signature: hmac('x-wc-webhook-signature', { encoding: 'base64' }),
    secret: 'the secret of the webhook',
    deliveryId: { header: 'x-wc-webhook-delivery-id' },
    eventType: { header: 'x-wc-webhook-topic' },
    sample: {
      headers: { 'x-wc-webhook-topic': 'order.created', 'x-wc-webhook-delivery-id': '137f2a98' },
      body: json({ id: 727 }),
    },
  },
  hubspot: {
    label: 'HubSpot',
    signature: hmac('x-hubspot-signature-v3', {
      encoding: 'base64',
      timestamp: { header: 'x-hubspot-request-timestamp', unit: 'milliseconds' },
      signed: [method, { part: 'url', decoded: ":/?@!$'()*,;" }, body, timestamp],
    }),
    secret: 'the client secret, of the app',
    batch: '',
    batchEvent: { type: 'subscriptionType' },
    sample: { body: json([{ eventId: 1, subscriptionType: 'contact.creation' }]) },
    checkedBy: { package: '@hubspot/api-client', version: '13.5.0' },
  },
  pipedrive: {
    label: 'Pipedrive',
    signature: { scheme: 'token', basic: true },
    secret: 'user:password of HTTP Basic, as given with the webhook',
    deliveryId: { json: 'meta.id' },
    eventType: { json: 'meta.action' },
    sample: { body: json({ meta: { id: 'd2a', action: 'change' } }) },
  },
  intercom: {
    label: 'Intercom',
    signature: hmac('x-hub-signature', { hash: 'sha1', prefix: 'sha1=' }),
    secret: 'the client secret, of the app',
    deliveryId: { json: 'id' },
    eventType: { json: 'topic' },
    handshake: { kind: 'head' },
    sample: { body: json({ id: 'notif_1', topic: 'conversation.user.created' }) },
  },
  zendesk: {
    label: 'Zendesk',
    signature: hmac('x-zendesk-webhook-signature', {
      encoding: 'base64',
      timestamp: { header: 'x-zendesk-webhook-signature-timestamp', unit: 'iso' },
      signed: [timestamp, body],
    }),
    secret: 'the signing secret of the webhook; the whole text is the key',
    deliveryId: { json: 'id' },
    eventType: { json: 'type' },
    sample: { body: json({ id: '2b24ef10', type: 'zen:event-type:ticket.created' }) },
    source: seen('https://developer.zendesk.com/documentation/webhooks/verifying/'),
  },
  calendly: {
    label: 'Calendly',
    signature: hmac('calendly-webhook-signature', {
      fields: { separator: ',', signature: 'v1' },
      timestamp: { field: 't' },
      signed: [timestamp, '.', body],
    }),
    secret: 'the signing key of the webhook subscription',
    eventType: { json: 'event' },
    sample: { body: json({ event: 'invitee.created' }) },
  },
  typeform: {
    label: 'Typeform',
    signature: hmac('typeform-signature', { prefix: 'sha256=', encoding: 'base64' }),
    secret: 'the secret of the webhook',
    deliveryId: { json: 'event_id' },
    eventType: { json: 'event_type' },
    sample: { body: json({ event_id: '01G', event_type: 'form_response' }) },
    source: seen('https://www.typeform.com/developers/webhooks/secure-your-webhooks/'),
  },
  docusign: {
    label: 'Docusign Connect',
    signature: hmac('', {
      header: ['x-docusign-signature-1', 'x-docusign-signature-2', 'x-docusign-signature-3'],
      encoding: 'base64',
    }),
    secret: 'a Connect key of the account; the whole text is the key',
    eventType: { json: 'event' },
    sample: { body: json({ event: 'envelope-completed' }) },
    source: seen(
      'https://www.docusign.com/blog/developers/manually-authenticating-hmac-signatures-docusign-connect-webhook-configurations',
    ),
  },
  segment: {
    label: 'Segment',
    signature: hmac('x-signature', { hash: 'sha1' }),
    secret: 'the shared secret of the destination',
    deliveryId: { json: 'messageId' },
    eventType: { json: 'type' },
    sample: { body: json({ messageId: 'ajs-1', type: 'track' }) },
  },
  'customer-io': {
    label: 'Customer.io',
    signature: hmac('x-cio-signature', {
      timestamp: { header: 'x-cio-timestamp' },
      signed: ['v0:', timestamp, ':', body],
    }),
    secret: 'the signing key of the reporting webhook',
    deliveryId: { json: 'event_id' },
    eventType: { json: 'metric' },
    sample: { body: json({ event_id: '01E', metric: 'delivered' }) },
  },
} as const satisfies Record<string, WebhookDoor>
