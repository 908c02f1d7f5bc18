/** Providers at the other end of a door: each does over HTTP what the provider's own page says that it does. */
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'

/** What came back: all of it, as it was sent. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

export async function ask(url: string, request: RequestInit): Promise<Answer> {
  const response = await fetch(url, { redirect: 'manual', ...request })
  return { status: response.status, headers: response.headers, body: await response.text() }
}

export const hmac = (hash: 'sha1' | 'sha256', secret: string, text: string) => createHmac(hash, secret).update(text)

/** https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks: a HEAD that is not 200 creates no webhook. */
export class Trello {
  constructor(
    readonly secret: string,
    readonly callbackUrl: string,
  ) {}

  async create(): Promise<'created' | string> {
    const { status, body } = await ask(this.callbackUrl, { method: 'HEAD' })
    return status === 200 && body === '' ? 'created' : `the URL answered ${status}`
  }

  /** Signed is the body with the callback URL behind it. */
  send(action: object): Promise<Answer> {
    const body = JSON.stringify({ action, model: { id: 'board' } })
    const signature = hmac('sha1', this.secret, body + this.callbackUrl).digest('base64')
    return ask(this.callbackUrl, { method: 'POST', headers: { 'X-Trello-Webhook': signature }, body })
  }
}

/**
 * https://learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema, and for CloudEvents
 * https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/http-webhook.md, section 4.
 */
export class EventGrid {
  static readonly ORIGIN = 'eventgrid.azure.net'
  constructor(readonly url: string) {}

  /** The endpoint must answer 200 with the code, within 30 s. */
  async validate(): Promise<'validated' | string> {
    const validationCode = crypto.randomUUID().toUpperCase()
    const event = {
      id: crypto.randomUUID(),
      eventType: 'Microsoft.EventGrid.SubscriptionValidationEvent',
      data: { validationCode, validationUrl: 'https://rp-eastus2.eventgrid.azure.net/eventsubscriptions/x/validate' },
    }
    const { status, body } = await this.#post('SubscriptionValidation', [event])
    const told = (JSON.parse(body) as { validationResponse?: unknown }).validationResponse
    return status === 200 && told === validationCode ? 'validated' : `${status} ${body}`
  }

  /** Permission is `WebHook-Allowed-Origin` with the origin or `*`. */
  async askForPermission(): Promise<'granted' | string> {
    const { status, headers } = await ask(this.url, {
      method: 'OPTIONS',
      headers: { 'WebHook-Request-Origin': EventGrid.ORIGIN, 'WebHook-Request-Rate': '120' },
    })
    const allowed = headers.get('webhook-allowed-origin')
    const isGranted = status === 200 && (allowed === EventGrid.ORIGIN || allowed === '*')
    return isGranted && Number(headers.get('webhook-allowed-rate')) > 0 ? 'granted' : `${status} ${allowed}`
  }

  send(events: readonly object[]): Promise<Answer> {
    return this.#post('Notification', events)
  }

  #post(type: string, events: readonly object[]): Promise<Answer> {
    const headers = { 'aeg-event-type': type, 'content-type': 'application/json' }
    return ask(this.url, { method: 'POST', headers, body: JSON.stringify(events) })
  }
}

/** https://developers.asana.com/docs/webhooks-guide: the handshake comes while the call that creates the webhook waits. */
export class Asana {
  readonly secret = hmac('sha256', crypto.randomUUID(), 'a webhook').digest('hex')
  constructor(readonly target: string) {}

  async create(): Promise<'created' | string> {
    const { status, headers } = await ask(this.target, { method: 'POST', headers: { 'X-Hook-Secret': this.secret } })
    const isConfirmed = [200, 204].includes(status) && headers.get('x-hook-secret') === this.secret
    return isConfirmed ? 'created' : `the target answered ${status}`
  }

  send(events: readonly object[]): Promise<Answer> {
    const body = JSON.stringify({ events })
    const signature = hmac('sha256', this.secret, body).digest('hex')
    return ask(this.target, { method: 'POST', headers: { 'X-Hook-Signature': signature }, body })
  }
}

/** https://developer.xero.com/documentation/guides/webhooks/configuring-your-server: 200 or 401, no body, no cookies. */
export class Xero {
  constructor(
    readonly key: string,
    readonly url: string,
  ) {}

  /** Several deliveries without events, some of them signed by another key. */
  async intentToReceive(): Promise<'ok' | string> {
    for (const key of [this.key, 'another key', this.key, '']) {
      const { status, headers, body } = await this.send([], key)
      if (status !== (key === this.key ? 200 : 401)) return `answered ${status}`
      if (body !== '' || headers.has('set-cookie')) return 'answered with a body or a cookie'
    }
    return 'ok'
  }

  send(events: readonly object[], key = this.key): Promise<Answer> {
    const entropy = crypto.randomUUID()
    const body = JSON.stringify({ events, firstEventSequence: 0, lastEventSequence: events.length, entropy })
    const signature = key === '' ? '' : hmac('sha256', key, body).digest('base64')
    return ask(this.url, { method: 'POST', headers: { 'x-xero-signature': signature }, body })
  }
}

/**
 * https://developer.salesforce.com/docs/atlas.en-us.api.meta/api/sforce_api_om_outboundmessaging_understanding.htm: a message is sent
 * again until its SOAP answer says `Ack` true.
 */
export class Salesforce {
  constructor(
    readonly organizationId: string,
    readonly url: string,
  ) {}

  async send(id: string): Promise<'acknowledged' | string> {
    const body = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><notifications xmlns="http://soap.sforce.com/2005/09/outbound"><OrganizationId>${this.organizationId}</OrganizationId><Notification><Id>${id}</Id><sObject xmlns:sf="urn:sobject.enterprise.soap.sforce.com"><sf:Id>0015e00000</sf:Id></sObject></Notification></notifications></soapenv:Body></soapenv:Envelope>`
    const headers = { 'content-type': 'text/xml; charset=utf-8', SOAPAction: '""' }
    const answer = await ask(this.url, { method: 'POST', headers, body })
    const isXml = answer.headers.get('content-type')?.startsWith('text/xml') === true
    const isAck = /<(\w+:)?Envelope[\s\S]*<(\w+:)?Ack>true<\/(\w+:)?Ack>[\s\S]*<\/(\w+:)?Envelope>/.test(answer.body)
    return answer.status === 200 && isXml && isAck ? 'acknowledged' : `${answer.status} ${answer.body}`
  }
}

/** https://docs.adyen.com/development-resources/webhooks/: accepted is a 2xx, of classic ones with `[accepted]` in the body. */
export class Adyen {
  constructor(
    readonly keyInHex: string,
    readonly url: string,
  ) {}

  async send(items: readonly AdyenItem[]): Promise<'accepted' | string> {
    const notificationItems = items.map((item) => ({
      NotificationRequestItem: { ...item, additionalData: { hmacSignature: adyenSignature(item, this.keyInHex) } },
    }))
    const body = JSON.stringify({ live: 'false', notificationItems })
    const answer = await ask(this.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    return answer.status === 200 && answer.body.includes('[accepted]') ? 'accepted' : `${answer.status} ${answer.body}`
  }
}

export interface AdyenItem {
  readonly pspReference: string
  readonly originalReference?: string
  readonly merchantAccountCode: string
  readonly merchantReference: string
  readonly amount: { readonly value: number; readonly currency: string }
  readonly eventCode: string
  readonly success: string
}

/** https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures */
export function adyenSignature(item: AdyenItem, keyInHex: string): string {
  const { pspReference, originalReference = '', merchantAccountCode, merchantReference, amount, eventCode } = item
  const signed = [pspReference, originalReference, merchantAccountCode, merchantReference, amount.value]
  const text = [...signed, amount.currency, eventCode, item.success].join(':')
  return createHmac('sha256', Buffer.from(keyInHex, 'hex')).update(text).digest('base64')
}

/** https://developers.hubspot.com/docs/api/webhooks/validating-requests, v3: method, URL, body and time are signed. */
export class HubSpot {
  constructor(
    readonly clientSecret: string,
    readonly url: string,
  ) {}

  send(events: readonly object[]): Promise<Answer> {
    const body = JSON.stringify(events)
    const time = String(Date.now())
    const signature = hmac('sha256', this.clientSecret, `POST${this.url}${body}${time}`).digest('base64')
    const headers = { 'X-HubSpot-Signature-v3': signature, 'X-HubSpot-Request-Timestamp': time }
    return ask(this.url, { method: 'POST', headers, body })
  }
}

export function hubspotSignature(
  secret: string,
  { method, url, headers, text }: { method: string; url: string; headers: Headers; text(): string },
  baseUrl: string,
): string {
  const time = headers.get('x-hubspot-request-timestamp') ?? ''
  return hmac('sha256', secret, `${method}${baseUrl}${url}${text()}${time}`).digest('base64')
}

/** https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features */
export class SendGrid {
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  readonly publicKey = this.#keys.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')

  send(url: string, events: readonly object[]): Promise<Answer> {
    const body = JSON.stringify(events)
    const time = String(Math.floor(Date.now() / 1_000))
    const signature = sign('sha256', Buffer.from(time + body), this.#keys.privateKey).toString('base64')
    const headers = {
      'X-Twilio-Email-Event-Webhook-Signature': signature,
      'X-Twilio-Email-Event-Webhook-Timestamp': time,
    }
    return ask(url, { method: 'POST', headers, body })
  }
}

/** https://learn.microsoft.com/graph/change-notifications-delivery-webhooks: the decoded token, in plain text, within 10 s; 202 after it. */
export class Graph {
  constructor(
    readonly clientState: string,
    readonly url: string,
  ) {}

  async subscribe(): Promise<'created' | string> {
    const token = `Validation: Testing client application reachability for subscription Request-Id: ${crypto.randomUUID()}`
    const headers = { 'content-type': 'text/plain; charset=utf-8' }
    const answer = await ask(`${this.url}?validationToken=${encodeURIComponent(token)}`, { method: 'POST', headers })
    const isPlain = answer.headers.get('content-type')?.startsWith('text/plain') === true
    return answer.status === 200 && isPlain && answer.body === token ? 'created' : `${answer.status} ${answer.body}`
  }

  send(value: readonly object[]): Promise<Answer> {
    const body = JSON.stringify({ value: value.map((event) => ({ ...event, clientState: this.clientState })) })
    return ask(this.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  }
}
