/** What a payload is found by. */
import { expect, it } from 'vitest'
import { holds, holdsWithin } from '../../src/explain/containment-rules.ts'

it.each([
  [{ a: 1, b: 2 }, { a: 1 }, true],
  [{ a: 1 }, { a: 1, b: 2 }, false],
  [{ a: { b: [1, 2, 3] } }, { a: { b: [3, 1] } }, true],
  [[1, 2], [1, 1], true],
  [[1, 2], [3], false],
  [[{ a: 1, b: 2 }], [{ b: 2 }], true],
  [{ a: null }, { a: null }, true],
  [{}, { a: null }, false],
  [{ a: '1' }, { a: 1 }, false],
  [{ a: [] }, { a: {} }, false],
  [{ a: {} }, { a: [] }, false],
  ['x', 'x', true],
  [{ a: 1 }, { toString: 1 }, false],
  [[1, 2], [1, 3], false],
  [[1, 2], [3, 1], false],
  [1, { a: 1 }, false],
  ['text', { length: 4 }, false],
  [null, { a: 1 }, false],
  [null, {}, false],
  [7, {}, false],
  [7, [], false],
  [null, [], false],
  [{ a: 1 }, null, false],
  [['a'], { 0: 'a' }, false],
])('%j holds %j: %s', (whole, part, expected) => {
  expect(holds(whole, part)).toBe(expected)
})

it('is found at any depth', () => {
  const payload = { data: { object: { id: 'in_1', lines: [{ price: 5 }] } } }
  expect([holds(payload, { price: 5 }), holdsWithin(payload, { price: 5 }), holdsWithin(payload, 'in_1')]).toEqual([
    false,
    true,
    true,
  ])
})

it.each([
  [{ a: [{ b: 7 }] }, 8],
  [{ a: null }, 'x'],
  [null, 'x'],
  ['text', 't'],
])('in %j is no %j', (whole, part) => {
  expect(holdsWithin(whole, part)).toBe(false)
})
