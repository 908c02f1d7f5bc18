import { expect, it } from 'vitest'
import { compareVersions } from '../../src/webhooks/stale-rules.ts'

it.each([
  ['numbers as numbers', 9, 10, -1],
  ['equal numbers', 10, 10, 0],
  ['numbers below zero', -1, -2, 1],
  ['instants of different zones', '2026-11-21T12:00:00+02:00', '2026-11-21T10:30:00Z', -1],
  ['one instant, written in two zones', '2026-11-21T12:00:00+02:00', '2026-11-21T10:00:00Z', 0],
  ['an instant with and without its fraction', '2026-11-21T10:00:00Z', '2026-11-21T10:00:00.000Z', 0],
  ['instants a microsecond apart', '2026-11-21T10:00:00.000001Z', '2026-11-21T10:00:00.000002Z', -1],
  ['a fraction with zeros at its end', '2026-11-21T10:00:00.1234500Z', '2026-11-21T10:00:00.12345Z', 0],
  ['fractions of different lengths', '2026-11-21T10:00:00.12309Z', '2026-11-21T10:00:00.1231Z', -1],
  ['an instant with a space and a small z', '2026-11-21 10:00:00z', '2026-11-21T10:00:01Z', -1],
  ['a later instant with a space and a small z', '2026-11-21 10:00:02z', '2026-11-21T10:00:01Z', 1],
  ['an instant beside another text by code unit', '2026-11-21T10:00:00Z', 'v1', -1],
  ['times without a zone, which are no instants', '2026-11-21T10:00:00', '2026-11-21T09:00:00', 1],
  ['a 32nd of May, which is none either', '2026-05-32T00:00:00+02:00', '2026-05-32T00:00:00Z', -1],
  ['instants without seconds', '2026-11-21T12:00+02:00', '2026-11-21T11:00Z', -1],
  ['an instant whose zone has no colon', '2026-11-21T12:00:00+0200', '2026-11-21T10:30:00Z', -1],
  ['a text that ends with an instant by code unit', 'at  2026-11-21 10:00:00Z', '2026-11-21T10:30:00Z', 1],
  ['a text that begins with an instant by code unit', '2026-11-21T10:00:00Z (late)', '2026-11-21T10:00:00.5Z', 1],
  ['a year with a sign, which is no instant', '+002026-11-21T10:00:00Z', '2026-11-21T09:00:00Z', -1],
  ['digits in texts by code unit', '10', '9', -1],
  ['other texts by code unit', 'Z', 'a', -1],
  ['a number beside a text as its text', 10, '9', -1],
  ['equal texts', 'v1', 'v1', 0],
] as const)('compares %s', (_, a, b, expected) => {
  expect(Math.sign(compareVersions(a, b))).toBe(expected)
  expect(Math.sign(compareVersions(b, a))).toBe(expected === 0 ? 0 : -expected)
})

it('compares fractions of any length in no time that grows with the square of their zeros', () => {
  const later = (end: number) => `2026-11-21T10:00:00.${'0'.repeat(200_000)}${end}Z`
  const startedAt = performance.now()
  expect(compareVersions(later(1), later(2))).toBeLessThan(0)
  // Some milliseconds. In quadratic time it would take half a minute.
  expect(performance.now() - startedAt).toBeLessThan(4_000)
})
