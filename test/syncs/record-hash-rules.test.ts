import { describe, expect, it } from 'vitest'
import { recordHash } from '../../src/syncs/record-hash-rules.ts'

const hashed = (value: unknown, except?: readonly string[]): string =>
  recordHash(JSON.stringify(value), except === undefined ? true : ({ except } as never))

describe('the hash of a record', () => {
  it('is SHA-256 of its JSON with sorted keys', () => {
    // sha256 of {"a":[null,{"c":1,"d":2}],"b":"x"}
    expect(hashed({ b: 'x', a: [null, { d: 2, c: 1 }] })).toBe(hashed({ a: [null, { c: 1, d: 2 }], b: 'x' }))
    expect(hashed({})).toBe('44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a')
  })

  it.each([
    [{ a: 1 }, { a: 2 }],
    [{ a: 1 }, { b: 1 }],
    [{ a: [1, 2] }, { a: [2, 1] }],
    [{ a: [] }, { a: {} }],
    [{ a: null }, {}],
    [{ a: { b: 1 } }, { a: { b: 2 } }],
  ])('tells %j from %j', (one, other) => {
    expect(hashed(one)).not.toBe(hashed(other))
  })
})

it('tells records apart that differ in a key `__proto__` only', () => {
  const [one, other] = [1, 2].map((x) => recordHash(`{"data":{"a":1,"__proto__":{"x":${x}}}}`, true))
  expect(one).not.toBe(other)
  expect(one).not.toBe(recordHash('{"data":{"a":1}}', true))
})

describe('what is left out of it', () => {
  it.each<[string[], unknown, unknown]>([
    [['seen'], { seen: 1, id: 7 }, { seen: 2, id: 7 }],
    [['seen'], { seen: 1, id: 7 }, { id: 7 }],
    [['user.seen'], { user: { seen: 1, id: 7 } }, { user: { seen: 2, id: 7 } }],
    [['items.*.seen'], { items: [{ seen: 1, id: 7 }] }, { items: [{ seen: 2, id: 7 }] }],
    [['users.*.seen'], { users: { a: { seen: 1 }, b: {} } }, { users: { a: {}, b: { seen: 3 } } }],
    [['items.0'], { items: [1, 2] }, { items: [3, 2] }],
    [['items.*'], { items: [1, 2] }, { items: [3, 4] }],
    [['one', 'two'], { one: 1, two: 2 }, { one: 3, two: 4 }],
  ])('%j makes %j and %j the same', (except, one, other) => {
    expect(hashed({ data: one }, except)).toBe(hashed({ data: other }, except))
    expect(hashed({ data: one })).not.toBe(hashed({ data: other }))
  })

  it.each<[string[], unknown, unknown]>([
    [['seen'], { seen: 1, id: 7 }, { seen: 1, id: 8 }],
    [['seen'], { user: { seen: 1 } }, { user: { seen: 2 } }],
    [['user.seen'], { user: 1 }, { user: 2 }],
    [['user.seen'], { user: { id: 1 } }, { user: { id: 2 } }],
    [['user.seen'], { user: { seen: 1 } }, { user: 1 }],
    [['user.seen'], { user: null }, {}],
    [['items.0'], { items: [1, 2] }, { items: [1, 3] }],
    [['items.0'], { items: [1, 2] }, { items: [2] }],
    [['items.*'], { items: [1, 2] }, { items: [1] }],
    [['items.*.seen'], { items: [{ seen: 1, id: 7 }] }, { items: [{ seen: 1, id: 8 }] }],
  ])('%j leaves %j and %j apart', (except, one, other) => {
    expect(hashed({ data: one }, except)).not.toBe(hashed({ data: other }, except))
  })

  it('is of the data alone', () => {
    expect(hashed({ version: 1, data: {} }, ['version'])).not.toBe(hashed({ version: 2, data: {} }, ['version']))
  })
})
