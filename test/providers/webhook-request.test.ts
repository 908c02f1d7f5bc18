import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'
import {
  activeWebhookSecrets,
  deliveryIdOf,
  storedWebhookRequest,
  webhookRequest,
} from '../../src/providers/webhook-request.ts'
import { storeDelivery } from '../../src/webhooks/rules.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const AT = { receivedAt: new Date('2026-01-01T00:00:00Z'), toleranceSeconds: 300 }
const sha256Hex = (data: string): string => createHash('sha256').update(data).digest('hex')

function request(given: Partial<Parameters<typeof webhookRequest>[0]> = {}): WebhookRequest {
  return webhookRequest({
    method: 'POST',
    path: '/integrations/demo/webhook',
    query: '',
    headers: new Headers(),
    rawBody: bytes('{"a":1}'),
    ...AT,
    ...given,
  })
}

describe('a delivery', () => {
  it('has the path, and the query where there is one', () => {
    expect(request().url).toBe('/integrations/demo/webhook')
    const asked = request({ query: 'a=1&a=2&b=%20' })
    expect(asked.url).toBe('/integrations/demo/webhook?a=1&a=2&b=%20')
    expect(asked.query.getAll('a')).toEqual(['1', '2'])
    expect(asked.query.get('b')).toBe(' ')
  })

  it.each<[string, Uint8Array, unknown]>([
    ['an object', bytes('{"a":[1]}'), { a: [1] }],
    ['a scalar', bytes('7'), 7],
    ['null', bytes('null'), null],
    ['with a byte-order mark', bytes('\uFEFF{"a":1}'), { a: 1 }],
    ['broken', bytes('{"a":'), undefined],
    ['empty', bytes(''), undefined],
    ['a form', bytes('payload=%7B%7D'), undefined],
    ['no UTF-8', Uint8Array.of(0xff), undefined],
    ['two marks', bytes('\uFEFF\uFEFF{}'), undefined],
  ])('reads its JSON: %s', (_, rawBody, json) => {
    expect(request({ rawBody }).json()).toEqual(json)
  })

  it('parses its JSON once', () => {
    const delivery = request()
    expect(delivery.json()).toBe(delivery.json())
  })

  it.each<[string, Uint8Array, string]>([
    ['UTF-8', bytes('é😀'), 'é😀'],
    ['a byte-order mark', bytes('\uFEFFa'), '\uFEFFa'],
    ['other bytes replaced', Uint8Array.of(0x61, 0xff), 'a\ufffd'],
    ['other bytes replaced after a mark', Uint8Array.of(0xef, 0xbb, 0xbf, 0xff), '\uFEFF\ufffd'],
  ])('reads its text: %s', (_, rawBody, text) => {
    expect(request({ rawBody }).text()).toBe(text)
  })

  it.each<[string, string | null, Partial<Parameters<typeof webhookRequest>[0]>, string]>([
    ["the provider's id", 'evt_1', {}, 'evt_1'],
    ['the digest of the body', null, { query: 'a=1' }, sha256Hex('{"a":1}')],
    ['the digest of the query without a body', null, { query: 'a=1?b', rawBody: bytes('') }, sha256Hex('a=1?b')],
    ['the digest of nothing', null, { rawBody: bytes('') }, sha256Hex('')],
  ])('is known by %s', (_, fromProvider, given, id) => {
    expect(deliveryIdOf(request(given), fromProvider)).toBe(id)
  })
})

describe('a stored delivery', () => {
  it('comes back with what its pseudo-headers say, and only real headers', () => {
    const headers = new Headers({ 'X-Event': 'issues', Authorization: 'Bearer open-sesame' })
    const stored = storeDelivery({ method: 'GET', query: 'a=1&b', headers, rawBody: Uint8Array.of(0xff, 0x00) })
    const again = storedWebhookRequest({ ...stored, ...AT })
    expect(again.method).toBe('GET')
    expect(again.query.get('a')).toBe('1')
    expect(again.rawBody).toEqual(Uint8Array.of(0xff, 0x00))
    expect([...again.headers]).toEqual([
      ['authorization', '[REDACTED]'],
      ['x-event', 'issues'],
    ])
  })

  it('has the time that it came in, and the tolerance of its signature', () => {
    const again = storedWebhookRequest({ payload: '', headers: {}, ...AT })
    expect([again.receivedAt, again.toleranceSeconds]).toEqual([AT.receivedAt, 300])
  })

  it('without pseudo-headers was a POST without a query', () => {
    const again = storedWebhookRequest({ payload: '{"a":1}', headers: {}, ...AT })
    expect({ method: again.method, query: String(again.query), json: again.json() }).toEqual({
      method: 'POST',
      query: '',
      json: { a: 1 },
    })
  })

  it('has its repeated headers, all of them', () => {
    const again = storedWebhookRequest({ payload: '', headers: { 'x-a': ['1', '2'], 'set-cookie': ['a', 'b'] }, ...AT })
    expect(again.headers.get('x-a')).toBe('1, 2')
    expect(again.headers.getSetCookie()).toEqual(['a', 'b'])
  })

  it('marked as reconciled reads as any other', () => {
    const again = storedWebhookRequest({ payload: '{}', headers: { ':source': ['reconcile'] }, ...AT })
    expect([...again.headers]).toEqual([])
    expect(again.json()).toEqual({})
  })

  it('has the method, query, body and delivery id that it had', () => {
    const delivery = fc.record({
      method: fc.constantFrom('POST', 'GET'),
      query: fc.webQueryParameters(),
      rawBody: fc.uint8Array({ maxLength: 100 }),
    })
    fc.assert(
      fc.property(delivery, (given) => {
        const first = request(given)
        const again = storedWebhookRequest({ ...storeDelivery({ ...given, headers: new Headers() }), ...AT })
        expect(again.method).toBe(first.method)
        expect(String(again.query)).toBe(String(first.query))
        expect(again.rawBody).toEqual(first.rawBody)
        expect(again.text()).toBe(first.text())
        expect(deliveryIdOf(again, null)).toBe(deliveryIdOf(first, null))
      }),
    )
  })
})

describe('the webhook secrets in force', () => {
  const now = new Date('2026-01-01T00:00:00Z')
  const rotated = (...expiries: unknown[]) =>
    expiries.map((expires_at, index) => ({ secret: `old-${index + 1}`, expires_at }))

  it.each<[string, Record<string, unknown>, string[]]>([
    ['none', {}, []],
    ['the one', { webhook_secret: 'new' }, ['new']],
    ['the one before the others', { webhook_secrets: [{ secret: 'old' }], webhook_secret: 'new' }, ['new', 'old']],
    ['one that never expires', { webhook_secrets: rotated(null) }, ['old-1']],
    ['one that expires later', { webhook_secrets: rotated('2026-01-01T00:00:00.001Z') }, ['old-1']],
    ['not one that expires now', { webhook_secrets: rotated('2026-01-01T00:00:00Z') }, []],
    ['not one that has expired', { webhook_secrets: rotated('2025-12-31T23:59:59Z', null) }, ['old-2']],
    [
      'one whose end is in another zone',
      { webhook_secrets: rotated('2026-01-01T01:00:00+02:00', '2025-12-31T23:30:00-01:00') },
      ['old-2'],
    ],
    ['not one whose end is no time', { webhook_secrets: rotated('soon', '', 0, {}) }, []],
    ['not one whose end is a number', { webhook_secrets: rotated('3600', '86400', 4_102_444_800, '01/02/2099') }, []],
    [
      'five at most',
      { webhook_secret: 'new', webhook_secrets: rotated(...Array(6).fill(null)) },
      ['new', 'old-1', 'old-2', 'old-3', 'old-4'],
    ],
    [
      'five that are active, expired ones not counted',
      { webhook_secrets: rotated('2020-01-01T00:00:00Z', ...Array(5).fill(null)) },
      ['old-2', 'old-3', 'old-4', 'old-5', 'old-6'],
    ],
    ['no empty one', { webhook_secret: '', webhook_secrets: [{ secret: '' }] }, []],
    ['nothing that is no text', { webhook_secret: 7, webhook_secrets: [null, 'old', { secret: 7 }, {}] }, []],
    ['no list, no others', { webhook_secret: 'new', webhook_secrets: { secret: 'old' } }, ['new']],
  ])('%s', (_, credentials, secrets) => {
    expect(activeWebhookSecrets(credentials, now)).toEqual(secrets)
  })
})
