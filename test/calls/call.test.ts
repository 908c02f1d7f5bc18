/** What a call asks for is checked before anything is sent or stored. */
import { describe, expect, it } from 'vitest'
import { callPlan } from '../../src/calls/call.ts'
import type { RequestOptions } from '../../src/providers/integration.ts'

const NOW = new Date('2026-01-31T12:00:00Z')

describe('options that are refused', () => {
  it.each<[string, unknown, string]>([
    ['attempts 0', { attempts: 0 }, 'attempts'],
    ['attempts 11', { attempts: 11 }, 'attempts'],
    ['attempts 1.5', { attempts: 1.5 }, 'attempts'],
    ['attempts "3"', { attempts: '3' }, 'attempts'],
    ['attempts null', { attempts: null }, 'attempts'],
    ['timeoutMs 0', { timeoutMs: 0 }, 'timeoutMs'],
    ['timeoutMs 600,001', { timeoutMs: 600_001 }, 'timeoutMs'],
    ['timeoutMs NaN', { timeoutMs: Number.NaN }, 'timeoutMs'],
    ['an empty key', { idempotencyKey: '' }, 'idempotencyKey'],
    ['a blank key', { idempotencyKey: ' \t' }, 'idempotencyKey'],
    ['a key of 192 characters', { idempotencyKey: 'k'.repeat(192) }, 'idempotencyKey'],
    ['a key that is a number', { idempotencyKey: 7 }, 'idempotencyKey'],
    ['a key with U+0000', { idempotencyKey: 'a\0' }, 'idempotencyKey'],
    ['a key with half a pair', { idempotencyKey: 'a\ud83d' }, 'idempotencyKey'],
    ['cacheFor 0', { cacheFor: 0 }, 'cacheFor'],
    ['cacheFor -1', { cacheFor: -1 }, 'cacheFor'],
    ['cacheFor 1.5', { cacheFor: 1.5 }, 'cacheFor'],
    ['cacheFor NaN', { cacheFor: Number.NaN }, 'cacheFor'],
    ['cacheFor now', { cacheFor: NOW }, 'cacheFor'],
    ['cacheFor a moment that is none', { cacheFor: new Date(Number.NaN) }, 'cacheFor'],
    ['cacheFor with a key', { cacheFor: 60, idempotencyKey: 'k' }, 'cacheFor'],
    ['serveStale with a key', { serveStale: true, idempotencyKey: 'k' }, 'serveStale'],
    ['retryOf 0', { retryOf: 0 }, 'retryOf'],
    ['retryOf 1.5', { retryOf: 1.5 }, 'retryOf'],
    ['a related id that is no number', { relatedTo: { type: 'issue', id: 'abc' } }, 'relatedTo.id'],
    ['a related id beyond exact numbers', { relatedTo: { type: 'issue', id: '9007199254740993' } }, 'relatedTo.id'],
    ['a blank related type', { relatedTo: { type: ' ', id: 1 } }, 'relatedTo.type'],
    ['a related type of 256 characters', { relatedTo: { type: 'x'.repeat(256), id: 1 } }, 'relatedTo.type'],
  ])('%s', (_, options, argument) => {
    expect(() => plan(options as RequestOptions)).toThrow(
      expect.objectContaining({ code: 'invalid_argument', argument }),
    )
  })

  it.each([
    ['endpoint', ' ', 'GET'],
    ['method', 'a', ' '],
    ['method', 'a', 'x'.repeat(256)],
  ])('a %s that is none', (argument, endpoint, method) => {
    expect(() => callPlan({ endpoint, method, options: {} }, NOW)).toThrow(expect.objectContaining({ argument }))
  })
})

describe('a plan', () => {
  it.each([
    ['GET', 3],
    ['head', 3],
    ['POST', 1],
    ['PUT', 1],
    ['PATCH', 1],
    ['DELETE', 1],
    ['customers.list', 1],
  ])('of %s has %i attempts, keyed or not', (method, attempts) => {
    for (const idempotencyKey of [null, 'k'])
      expect(callPlan({ endpoint: 'a', method, options: { idempotencyKey } }, NOW)).toMatchObject({ attempts })
  })

  it.each([
    ['get', 'GET'],
    ['Patch', 'PATCH'],
    ['trace', 'TRACE'],
    ['customers.create', 'customers.create'],
    ['listIssues', 'listIssues'],
    ['CUSTOMERS.CREATE', 'CUSTOMERS.CREATE'],
  ])('of %s has the method %s: HTTP’s are in capital letters, the operation of an SDK as given', (given, method) => {
    expect(callPlan({ endpoint: 'a', method: given, options: {} }, NOW).method).toBe(method)
  })

  it('has the bounds, too: 1 and 10 attempts, 600 s, a key of 191 code points', () => {
    for (const attempts of [1, 10]) expect(plan({ attempts }).attempts).toBe(attempts)
    expect(plan({ timeoutMs: 600_000 }).timeoutMs).toBe(600_000)
    const key = '😀'.repeat(191)
    expect(plan({ idempotencyKey: key }).idempotencyKey).toBe(key)
  })

  it('takes a lifetime as seconds or as a moment', () => {
    expect(plan({ cacheFor: 1 }).cacheForMs).toBe(1_000)
    expect(plan({ cacheFor: new Date(NOW.getTime() + 1) }).cacheForMs).toBe(1)
    expect(plan({}).cacheForMs).toBeNull()
  })
})

describe('two calls are the same for the cache', () => {
  const same = (a: RequestOptions['data'], b: RequestOptions['data']): boolean => hash(a) === hash(b)

  it('whatever the order of keys, at any depth', () => {
    expect(same({ a: 1, b: { c: 1, d: 2 } }, { b: { d: 2, c: 1 }, a: 1 })).toBe(true)
  })

  it.each<[string, RequestOptions['data'], RequestOptions['data']]>([
    ['the order of a list differs', [1, 2], [2, 1]],
    ['one is absent, the other null', {}, { a: null }],
    ['one is null, the other empty', { a: null }, { a: '' }],
    ['one has no data, the other an empty object', undefined, {}],
    ['one has no data, the other null', undefined, null],
    ['a number is a text in the other', { a: 1 }, { a: '1' }],
    ['one is text, the other the same JSON', '{"a":1}', { a: 1 }],
    ['one is text, the other its bytes', 'ab', new TextEncoder().encode('ab')],
  ])('not when %s', (_, a, b) => {
    expect(same(a, b)).toBe(false)
  })

  it('not when method, endpoint or URL differ', () => {
    const hashes = [
      hashOf({}),
      hashOf({ method: 'POST' }),
      hashOf({ endpoint: 'b' }),
      hashOf({ url: 'https://a.example/?page=1' }),
      hashOf({ url: 'https://a.example/?page=2' }),
    ]
    expect(new Set(hashes).size).toBe(hashes.length)
  })

  it('never, if the data is no JSON: such a call is not cached', () => {
    expect(plan({ cacheFor: 60, serveStale: true, data: { n: 1n } as never })).toMatchObject({
      requestHash: null,
      cacheForMs: null,
      serveStale: false,
    })
  })

  it('is not asked of a call that wants no cache', () => {
    expect(plan({ data: { a: 1 } }).requestHash).toBeNull()
  })
})

function plan(options: RequestOptions) {
  return callPlan({ endpoint: 'a', method: 'GET', options }, NOW)
}

function hash(data: RequestOptions['data']): string | null {
  return plan({ cacheFor: 60, ...(data !== undefined && { data }) }).requestHash
}

function hashOf(given: { method?: string; endpoint?: string; url?: string }): string | null {
  return callPlan({ endpoint: 'a', method: 'GET', options: { cacheFor: 60 }, ...given }, NOW).requestHash
}
