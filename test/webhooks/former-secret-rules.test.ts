/** Rule: docs/behaviour/webhook-signatures.md, "Rotation". */
import { expect, it } from 'vitest'
import { matchText } from '../../src/webhooks/rules.ts'

const AT = new Date('2031-06-01T12:00:00Z')

it.each([
  [AT, true, 'last matched at 2031-06-01T12:00:00.000Z'],
  [null, true, 'no delivery has matched it'],
  [null, false, 'whether it still matches is not known: its provider checks signatures itself'],
])('a match at %s (watched: %s) is told', (at, isWatched, text) => {
  expect(matchText(at, isWatched)).toBe(text)
})
