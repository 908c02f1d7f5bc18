import { expect, it } from 'vitest'
import { HandledVersions } from '../../src/webhooks/stale-guard.ts'

const of = (integrationId: number, version: number) => ({ integrationId, keyHash: 'the same', version })

it('knows the versions of each integration apart: their keys may be alike', () => {
  const handled = new HandledVersions()
  handled.note(of(1, 5), 5)
  expect(handled.isStale(of(1, 3))).toBe(true)
  expect(handled.isStale(of(2, 3))).toBe(false)
})

it('forgets the key that it has known for longest, past 10,000', () => {
  const handled = new HandledVersions()
  for (let id = 1; id <= 10_001; id += 1) handled.note(of(id, 5), 5)
  expect(handled.isStale(of(1, 3))).toBe(false)
  expect(handled.isStale(of(2, 3))).toBe(true)
})
