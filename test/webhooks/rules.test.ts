import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ALLOWED_WANTED_EVENTS,
  decodeUtf8,
  deliveryId,
  eventType,
  isListed,
  isWantedEvents,
  routeOf,
  storeDelivery,
  storedBody,
  WANTED_EVENTS,
  withoutSecrets,
} from '../../src/webhooks/rules.ts'

const sha256Hex = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex')
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const NUL = '\u0000'

function stored(delivery: Partial<Parameters<typeof storeDelivery>[0]> = {}) {
  return storeDelivery({ method: 'POST', query: '', headers: new Headers(), rawBody: bytes('{}'), ...delivery })
}

describe('the stored payload', () => {
  it.each<[string, Uint8Array, string]>([
    ['text', bytes('{"a":"é😀"}'), '{"a":"é😀"}'],
    ['an empty body', bytes(''), ''],
    ['a byte-order mark', bytes('\uFEFF{}'), '\uFEFF{}'],
    ['line breaks', bytes('a\r\nb\n'), 'a\r\nb\n'],
  ])('keeps %s as text', (_, rawBody, payload) => {
    expect(stored({ rawBody })).toEqual({ payload, headers: {} })
  })

  it.each<[string, Uint8Array]>([
    ['U+0000', bytes(`a${NUL}b`)],
    ['a byte that is no UTF-8', Uint8Array.of(0x61, 0xff)],
    ['a character cut in half', Uint8Array.of(0xf0, 0x9f, 0x98)],
    ['an overlong form', Uint8Array.of(0xc0, 0x80)],
    ['half a surrogate pair', Uint8Array.of(0xed, 0xa0, 0x80)],
    ['UTF-16', Uint8Array.of(0xff, 0xfe, 0x61, 0x00)],
  ])('keeps %s as base64, and says so', (_, rawBody) => {
    expect(stored({ rawBody })).toEqual({
      payload: Buffer.from(rawBody).toString('base64'),
      headers: { ':encoding': ['base64'] },
    })
  })

  it('is not transcoded by a charset parameter', () => {
    const headers = new Headers({ 'content-type': 'text/plain; charset=iso-8859-1' })
    expect(stored({ headers, rawBody: bytes('é') }).payload).toBe('é')
    expect(stored({ headers, rawBody: Uint8Array.of(0xe9) }).headers[':encoding']).toEqual(['base64'])
  })

  it('gives the very bytes back', () => {
    const anyBytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.string({ unit: 'binary', maxLength: 60 }).map(bytes),
      fc.json().map(bytes),
      fc.constantFrom('\uFEFF', `${NUL}`, '\uFEFF\uFEFF', '\r\n').map(bytes),
    )
    fc.assert(
      fc.property(anyBytes, (rawBody) => {
        // Through the columns, which hold JSON and text.
        const { payload, headers } = stored({ rawBody })
        expect(payload).not.toContain(NUL)
        const row = { payload: Buffer.from(payload).toString(), headers: JSON.parse(JSON.stringify(headers)) }
        expect(storedBody(row)).toEqual(rawBody)
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('the stored headers', () => {
  it('are lower-case names with lists of values', () => {
    const headers = new Headers({ 'X-GitHub-Event': 'issues', 'Content-Type': 'application/json' })
    expect(stored({ headers }).headers).toEqual({
      'content-type': ['application/json'],
      'x-github-event': ['issues'],
    })
  })

  it('keep repeats apart where the door does', () => {
    const headers = new Headers()
    headers.append('set-cookie', 'a=1')
    headers.append('set-cookie', 'b=2, c')
    expect(stored({ headers }).headers).toEqual({ 'set-cookie': ['a=1', 'b=2, c'] })
  })

  it.each(['Authorization', 'Proxy-Authorization', 'Cookie'])('never hold %s', (name) => {
    const { headers } = stored({ headers: new Headers({ [name]: 'open-sesame' }) })
    expect(headers).toEqual({ [name.toLowerCase()]: ['[REDACTED]'] })
  })

  it('hold method and query where they are not a plain POST', () => {
    expect(stored({ method: 'GET', query: 'a=1&a=%20' }).headers).toEqual({
      ':method': ['GET'],
      ':query': ['a=1&a=%20'],
    })
  })

  it('hold a header that is called __proto__ as any other', () => {
    const { headers } = stored({ headers: new Headers([['__proto__', 'x']]) })
    expect(Object.keys(headers)).toEqual(['__proto__'])
    expect(Object.entries(JSON.parse(JSON.stringify(headers)))).toEqual([['__proto__', ['x']]])
  })
})

describe('UTF-8', () => {
  it('is decoded with its byte-order mark, and only when it is whole', () => {
    expect(decodeUtf8(bytes('\uFEFFa'))).toBe('\uFEFFa')
    expect(decodeUtf8(Uint8Array.of(0xff))).toBe(null)
  })
})

describe('the delivery id', () => {
  const body = { rawBody: bytes('{"a":1}'), query: 'q=1' }
  const empty = { rawBody: bytes(''), query: 'q=1' }

  it.each<[string, string | null, typeof body, string]>([
    ["the provider's", 'evt_1', body, 'evt_1'],
    ['of 255 characters as it is', 'x'.repeat(255), body, 'x'.repeat(255)],
    ['of 255 characters beyond the BMP as it is', '😀'.repeat(255), body, '😀'.repeat(255)],
    ['of 256 characters by its digest', 'x'.repeat(256), body, sha256Hex('x'.repeat(256))],
    ['with half a surrogate pair as UTF-8 has it', 'evt\ud800', body, 'evt\ufffd'],
    ['with U+0000 by its digest', `evt${NUL}1`, body, sha256Hex(`evt${NUL}1`)],
    ["the body's digest without one", null, body, sha256Hex('{"a":1}')],
    ["the body's digest for an empty one", '', body, sha256Hex('{"a":1}')],
    ["the query's digest without a body", null, empty, sha256Hex('q=1')],
    ['the digest of nothing', null, { rawBody: bytes(''), query: '' }, sha256Hex('')],
  ])('is %s', (_, fromProvider, delivery, id) => {
    expect(deliveryId(fromProvider, delivery)).toBe(id)
  })

  it('always fits the column', () => {
    fc.assert(
      fc.property(fc.option(fc.string({ unit: 'binary', maxLength: 600 })), fc.uint8Array(), (given, rawBody) => {
        const id = deliveryId(given, { rawBody, query: '' })
        expect([...id].length).toBeLessThanOrEqual(255)
        expect(id).not.toBe('')
        expect(id).not.toContain(NUL)
      }),
    )
  })
})

describe('the event type', () => {
  it.each<[string, string | null, string | null]>([
    ['a type', 'issues.opened', 'issues.opened'],
    ['of 255 characters', 'é'.repeat(255), 'é'.repeat(255)],
    ['of 256 characters', 'é'.repeat(256), null],
    ['with U+0000', `a${NUL}`, null],
    ['empty', '', null],
    ['none', null, null],
  ])('%s', (_, given, type) => {
    expect(eventType(given)).toBe(type)
  })
})

describe('who handles a delivery', () => {
  const handlers = { issues: 'its handler', __proto__: null } as Record<string, unknown>
  const withOddKeys: Record<string, unknown> = JSON.parse('{"__proto__": 1, "constructor": 2}')

  it.each<[string, string | null, Record<string, unknown> | null, unknown]>([
    ['no type', null, handlers, 'provider'],
    ['no handlers', 'issues', null, 'provider'],
    ['a declared type', 'issues', handlers, 'its handler'],
    ['another type', 'push', handlers, 'ignored'],
    ['another spelling', 'Issues', handlers, 'ignored'],
    ['an empty map', 'issues', {}, 'ignored'],
    ['constructor', 'constructor', {}, 'ignored'],
    ['__proto__', '__proto__', {}, 'ignored'],
    ['toString', 'toString', {}, 'ignored'],
    ['hasOwnProperty', 'hasOwnProperty', {}, 'ignored'],
    ['constructor as an own key', 'constructor', withOddKeys, 2],
    ['__proto__ as an own key', '__proto__', withOddKeys, 1],
  ])('%s', (_, type, map, route) => {
    expect(routeOf(type, map)).toEqual(route)
  })
})

describe('the wanted events of an integration', () => {
  it('stand in its metadata under a name that hosts write', () => {
    expect(WANTED_EVENTS).toBe('webhook_events')
  })

  it('are said to be allowed as they are', () => {
    expect(ALLOWED_WANTED_EVENTS).toBe('a list of 1 to 200 different event types, each a text of 1 to 255 characters')
  })

  it.each<[string, unknown, boolean]>([
    ['one type', ['a'], true],
    ['200 types', Array.from({ length: 200 }, (_, n) => `type.${n}`), true],
    ['201 types', Array.from({ length: 201 }, (_, n) => `type.${n}`), false],
    ['none', [], false],
    ['a type twice', ['a', 'b', 'a'], false],
    ['a type of 255 characters', ['😀'.repeat(255)], true],
    ['a type of 256', ['x'.repeat(256)], false],
    ['an empty type beside another', ['a', ''], false],
    ['a number beside a type', ['a', 1], false],
    ['a text', 'a', false],
    ['what only looks like a list', { length: 1, 0: 'a' }, false],
    ['nothing', undefined, false],
  ])('may be %s', (_, listed, may) => {
    expect(isWantedEvents(listed)).toBe(may)
  })

  it.each<[unknown, boolean]>([
    [['made', 'gone'], true],
    [['gone'], false],
    [['gone', '*'], true],
    // No list that may be there: all are wanted.
    [[], true],
    [undefined, true],
    ['gone', true],
  ])('in %j include "made": %s', (listed, includes) => {
    expect(isListed(listed, 'made')).toBe(includes)
  })
})

it('headers and query are stored without secrets; what we have noted ourselves stays', () => {
  const headers = {
    'x-key': ['a', 'b'],
    ':query': ['key=a'],
    ':method': ['PUT'],
    ':encoding': ['base64'],
    ':source': ['c'],
  }
  expect(withoutSecrets(headers, (text) => text.replaceAll(/[a-z]/gi, '*'))).toEqual({
    'x-key': ['*', '*'],
    ':query': ['***=*'],
    ':method': ['PUT'],
    ':encoding': ['base64'],
    ':source': ['c'],
  })
})
