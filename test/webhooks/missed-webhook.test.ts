import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { MissedWebhook } from '../../src/providers/contracts.ts'
import { foundDelivery } from '../../src/webhooks/missed-webhook.ts'
import type { StoredDelivery } from '../../src/webhooks/rules.ts'

const AT = new Date('2026-03-10T12:00:00Z')
const MAX_BYTES = 100

function missed(given: Partial<MissedWebhook> = {}): MissedWebhook {
  return { deliveryId: 'd-1', eventType: 'thing', payload: '{}', headers: {}, occurredAt: AT, ...given }
}

function storedOf(given: MissedWebhook): StoredDelivery | null {
  const { content } = foundDelivery(given, MAX_BYTES)
  if (content.kind === 'listed') throw new TypeError('its content is given')
  return content.delivery
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

describe('a missed delivery is stored as it would have arrived', () => {
  it.each<[string, MissedWebhook['payload'], string, string[] | undefined]>([
    ['text, as it is', '{ "a":1 }', '{ "a":1 }', undefined],
    ['text that is no JSON', 'payload=%7B%7D', 'payload=%7B%7D', undefined],
    ['bytes that are text', Buffer.from('\uFEFF{}'), '\uFEFF{}', undefined],
    ['bytes that are none', Buffer.from([0x7b, 0xff]), 'e/8=', ['base64']],
    ['an object', { a: ['é', 1, null] }, '{"a":["é",1,null]}', undefined],
    ['a number', 5, '5', undefined],
    ['null', null, 'null', undefined],
    ['no character', '', '', undefined],
  ])('%s', (_, payload, text, encoding) => {
    const stored = storedOf(missed({ payload }))
    expect(stored?.payload).toBe(text)
    expect(stored?.headers[':encoding']).toEqual(encoding)
  })

  it('with its headers in lower case, what authenticates left out, and marked as reconciled', () => {
    const headers = {
      'X-Event': 'a',
      'Set-Thing': ['1', '2'],
      Authorization: 'Bearer x',
      ':method': 'GET',
      ':source': 'me',
    }
    expect(storedOf(missed({ headers }))?.headers).toEqual({
      'x-event': ['a'],
      'set-thing': ['1', '2'],
      authorization: ['[REDACTED]'],
      ':source': ['reconcile'],
    })
  })

  it.each<[string, Partial<MissedWebhook>, { deliveryId: string; eventType: string | null }]>([
    ['id and type as given', {}, { deliveryId: 'd-1', eventType: 'thing' }],
    [
      'an id too long by its digest',
      { deliveryId: 'd'.repeat(256) },
      { deliveryId: sha256('d'.repeat(256)), eventType: 'thing' },
    ],
    ['a type too long by none', { eventType: 't'.repeat(256) }, { deliveryId: 'd-1', eventType: null }],
    ['no type', { eventType: null }, { deliveryId: 'd-1', eventType: null }],
    ['a type that is no text', { eventType: undefined as never }, { deliveryId: 'd-1', eventType: null }],
  ])('with %s', (_, given, expected) => {
    expect(foundDelivery(missed(given), MAX_BYTES)).toMatchObject(expected)
  })

  it.each([
    ['exactly the most allowed', 'x'.repeat(MAX_BYTES), true],
    ['one byte more', 'x'.repeat(MAX_BYTES + 1), false],
    ['fewer characters, but more bytes', '€'.repeat(34), false],
  ])('unless it is too large: %s', (_, payload, fits) => {
    expect(storedOf(missed({ payload })) !== null).toBe(fits)
  })
})

describe('a provider that lists what is no delivery is told', () => {
  it.each<[string, Record<string, unknown>, RegExp]>([
    ['without an id', { deliveryId: '' }, /deliveryId/],
    ['with an id that is no text', { deliveryId: 7 }, /deliveryId/],
    ['without a payload', { payload: undefined }, /payload/],
    ['without headers', { headers: undefined }, /headers.*undefined was given/],
    ['without a time', { occurredAt: undefined }, /occurredAt/],
    ['with a time that is none', { occurredAt: new Date('soon') }, /occurredAt/],
    ['with a time as text', { occurredAt: '2026-03-10T12:00:00Z' }, /occurredAt/],
  ])('%s', (_, given, message) => {
    expect(() => foundDelivery({ ...missed(), ...given } as MissedWebhook, MAX_BYTES)).toThrow(
      expect.objectContaining({ code: 'invalid_argument', message: expect.stringMatching(message) }),
    )
  })
})
