import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/framework/json.ts'
import { canonicalJson, isJson, jsonEquals, lossInParsing, withoutNul } from '../../src/framework/json.ts'

const json = fc.jsonValue({ stringUnit: 'binary' }).map((value) => value as Json)

/** What takes some milliseconds has this long on a machine that stands still. In quadratic time it would take 17 s. */
const LINEAR_MS = 4_000

class Issue {
  readonly number = 1
}

function cyclic(): unknown {
  const list: unknown[] = [{}]
  list.push(list)
  return { list }
}

describe('what JSON can hold', () => {
  it.each<[string, unknown]>([
    ['null', null],
    ['true', true],
    ['a number', -1.5],
    ['a text', 'a\u0000b'],
    ['a list', [1, [null]]],
    ['an object', { a: { b: [] } }],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 })],
  ])('%s', (_, value) => {
    expect(isJson(value)).toBe(true)
  })

  const shared = { a: 1 }
  it('a value that stands at two places', () => {
    expect(isJson([shared, { shared }])).toBe(true)
  })

  it.each<[string, unknown]>([
    ['undefined', undefined],
    ['NaN', Number.NaN],
    ['infinity', Number.POSITIVE_INFINITY],
    ['a bigint', 1n],
    ['a symbol', Symbol('x')],
    ['a function', () => 1],
    ['a date', new Date(0)],
    ['a map', new Map()],
    ['bytes', new Uint8Array(1)],
    ['a class instance', new Issue()],
    ['undefined in an object', { a: undefined }],
    ['undefined in a list', [undefined]],
    ['a hole in a list', new Array(1)],
    ['a date far down', { a: [{ b: new Date(0) }] }],
    ['a cycle', cyclic()],
    ['more than 500 levels', JSON.parse('['.repeat(501) + ']'.repeat(501))],
    ['30,000 levels', JSON.parse('['.repeat(30_000) + ']'.repeat(30_000))],
  ])('not %s', (_, value) => {
    expect(isJson(value)).toBe(false)
  })

  it('whatever JSON.parse gives', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(isJson(value)).toBe(true)
      }),
    )
  })

  it('nothing that JSON would change', () => {
    fc.assert(
      fc.property(fc.anything({ withDate: true, withSparseArray: true, withNullPrototype: true }), (value) => {
        fc.pre(isJson(value))
        // -0 is written as 0; the two are equal.
        expect(canonicalJson(JSON.parse(JSON.stringify(value)))).toBe(canonicalJson(value))
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('canonical JSON', () => {
  it.each<[Json, string]>([
    [null, 'null'],
    ['a"b', '"a\\"b"'],
    [[2, 1], '[2,1]'],
    [{ b: 1, a: { d: [], c: null } }, '{"a":{"c":null,"d":[]},"b":1}'],
    [{ '': 1, é: 2, z: 3 }, '{"":1,"z":3,"é":2}'],
  ])('of %j', (value, text) => {
    expect(canonicalJson(value)).toBe(text)
  })

  it('does not depend on the order of keys, and keeps the value', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(canonicalJson(turnedAround(value))).toBe(canonicalJson(value))
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  it.each<[Json, Json, boolean]>([
    [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
    [[1, 2], [2, 1], false],
    [{ a: null }, {}, false],
    ['1', 1, false],
    ['', null, false],
    [{ a: { b: [{ d: 1, c: 2 }] } }, { a: { b: [{ c: 2, d: 1 }] } }, true],
  ])('%j equals %j: %s', (a, b, equal) => {
    expect(jsonEquals(a, b)).toBe(equal)
  })
})

describe('without U+0000', () => {
  it('keeps all else, in keys and values', () => {
    expect(withoutNul({ 'k\u0000': ['a\u0000b', 1, null, true] })).toEqual({ k: ['ab', 1, null, true] })
  })

  it('leaves none, and what had none untouched', () => {
    const withNul = fc.jsonValue({ stringUnit: fc.constantFrom('a', '\u0000', 'é') }).map((value) => value as Json)
    fc.assert(
      fc.property(fc.oneof(json, withNul), (value) => {
        const stored = withoutNul(value)
        expect(JSON.stringify(stored)).not.toContain('\\u0000')
        if (!JSON.stringify(value).includes('\\u0000')) expect(stored).toEqual(value)
      }),
    )
  })
})

function turnedAround(value: Json): Json {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(turnedAround)
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, turnedAround(inner)]),
  )
}

describe('what parsing a JSON text loses', () => {
  const nested = (levels: number, inner: string) => '['.repeat(levels) + inner + ']'.repeat(levels)

  it.each<[string, string]>([
    ['whole numbers up to 2^53', '[9007199254740991, -0, 1e3, 0.1]'],
    ['digits, brackets and quotes in a text', String.raw`{"1e999": "\\", "a": "\"[{9007199254740993"}`],
    ['500 levels', nested(500, '1')],
    ['a long text of escapes', JSON.stringify('"\\'.repeat(1_000_000))],
  ])('nothing: %s', (_, text) => {
    expect(lossInParsing(text)).toBeNull()
  })

  it.each(['9007199254740993', '[1, {"a": 0.1234567890123456789}]', '1e999'])('digits of a number: %s', (text) => {
    expect(lossInParsing(text)).toBe('a number in it is not held exactly')
  })

  it('digits of a number, in no time that grows with the square of its zeros', () => {
    const startedAt = performance.now()
    expect(lossInParsing(`1.${'0'.repeat(200_000)}1`)).toBe('a number in it is not held exactly')
    expect(performance.now() - startedAt).toBeLessThan(LINEAR_MS)
  })

  it.each(['1', '""', '{}'])('its depth, with %s inside of 501 lists', (inner) => {
    expect(lossInParsing(nested(501, inner))).toBe('it is nested too deep')
  })
})
