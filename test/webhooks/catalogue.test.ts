/** The doors of the catalogue: each can be registered, takes its own sample, and refuses it spoilt. */
import { describe, expect, it } from 'vitest'
import { ProviderRegistry } from '../../src/providers/registry.ts'
import { readPlace } from '../../src/providers/signatures/delivery-values.ts'
import { REFUSAL_REASONS } from '../../src/providers/signatures/scheme-rules.ts'
import type { SignedDeliveryParts } from '../../src/providers/signatures/sign-delivery.ts'
import { signDelivery } from '../../src/providers/signatures/sign-delivery.ts'
import { webhookRequest } from '../../src/providers/webhook-request.ts'
import type { WebhookDoor } from '../../src/webhooks/catalogue/door.ts'
import { WEBHOOK_DOORS } from '../../src/webhooks/catalogue/index.ts'
import type { SchemeKeys } from '../support/scheme-keys.ts'
import { schemeKeys } from '../support/scheme-keys.ts'
import { verdictOf } from '../support/signatures.ts'

const NOW = new Date('2026-03-10T12:00:00Z')
const BASE_URL = 'https://hooks.example.com'
const doors = Object.entries(WEBHOOK_DOORS)
/** By what they depend on: keys of RSA take a tenth of a second, and many doors have such keys. */
const kept = new Map<string, SchemeKeys>()

function keysOf({ signature }: WebhookDoor): SchemeKeys {
  const { key, algorithms, basic, certificate } = signature as unknown as Record<string, unknown>
  const kind = JSON.stringify([signature.scheme, key, algorithms, basic, certificate])
  const keys = kept.get(kind) ?? schemeKeys(signature)
  kept.set(kind, keys)
  return keys
}

function received({ method, url, headers, body }: SignedDeliveryParts) {
  const [path = '', query = ''] = url.split(/\?(.*)/s)
  const rawBody = new Uint8Array(body)
  return webhookRequest({
    method,
    path,
    query,
    headers: new Headers(headers),
    rawBody,
    receivedAt: NOW,
    toleranceSeconds: 300,
  })
}

function bench(door: WebhookDoor) {
  const { signature, sample } = door
  const { own, other, fetched, keyId } = keysOf(door)
  const metadata = sample.metadata ?? {}
  return {
    signed: (by = own) =>
      signDelivery(
        signature,
        {
          url: '/integrations/acme/7/webhook',
          headers: { 'content-type': 'application/json', ...sample.headers },
          body: sample.body,
        },
        { key: by.signWith, at: NOW, deliveryId: 'msg_2Lml', metadata, baseUrl: BASE_URL, keyId },
      ),
    judge: (delivery: SignedDeliveryParts, secrets = [own.secret]) =>
      verdictOf(signature, received(delivery), secrets, { metadata, baseUrl: BASE_URL, fetched }),
    own,
    other,
  }
}

describe('the catalogue', () => {
  it('has forty doors and more', () => {
    expect(doors.length).toBeGreaterThanOrEqual(40)
  })

  it.each(doors)('%s can be registered', (name, { signature }) => {
    const provider = { signature, handleWebhook: () => null }
    expect(() => new ProviderRegistry().register(name, provider)).not.toThrow()
  })

  it.each(doors)('%s takes its own sample, and says which of the secrets has signed it', async (_, door) => {
    const { signed, judge, own, other } = bench(door)
    // A key that the provider publishes does not stand among the integration's secrets.
    const { publicKeys, jwks, certificate } = { publicKeys: null, jwks: null, certificate: null, ...door.signature }
    const isPublished = publicKeys !== null || jwks !== null || certificate !== null
    const by = (secret: number) => ({ kind: 'verified', secret: isPublished ? null : secret })
    expect(await judge(signed())).toEqual(by(0))
    expect(await judge(signed(), [other.secret, own.secret])).toEqual(by(1))
  })

  it.each(doors)('%s refuses its sample by another key, and without its signature', async (_, door) => {
    const { signed, judge, other } = bench(door)
    const byOther = await judge(signed(other))
    expect(byOther).toMatchObject({ kind: 'refused' })
    expect(REFUSAL_REASONS).toContain((byOther as { reason: string }).reason)
    const bare = { ...signed(), headers: door.sample.headers ?? {}, url: '/', body: Buffer.from(door.sample.body) }
    expect(await judge(bare)).toMatchObject({ kind: 'refused' })
  })

  it.each(doors.filter(([, { batch }]) => batch !== undefined))(
    '%s splits its sample into events, which have the ids and types that it says',
    (_, { batch = '', batchEvent = {}, sample }) => {
      const at = (value: unknown, path: string) =>
        path === '' ? value : path.split('.').reduce((found, key) => (found as Record<string, unknown>)?.[key], value)
      const events = at(JSON.parse(sample.body), batch)
      expect(events).toEqual(expect.arrayContaining([expect.anything()]))
      for (const event of events as unknown[])
        for (const path of Object.values(batchEvent)) expect(String(at(event, path))).toMatch(/^(?!undefined)./)
    },
  )

  it.each(doors)('%s names the id and the type of its sample, where it has them', (_, door) => {
    const request = received(bench(door).signed())
    for (const place of [door.deliveryId, door.eventType])
      if (place !== undefined) expect(readPlace(request, place)).toHaveProperty('value')
  })
})
