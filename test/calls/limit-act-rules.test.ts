import { expect, it } from 'vitest'
import { actOfOverride, idleOverride } from '../../src/calls/limit-act-rules.ts'

it('an override is called by its limit, its time and what it is of', () => {
  expect(actOfOverride({ limit: 5, seconds: 10 }, 'fixed')).toBe('rate-limit set 5 in 10 s, fixed')
  expect(actOfOverride({ limit: 5, seconds: 10 }, 'shared')).toBe('rate-limit set 5 in 10 s, shared')
})

it('an override that nothing obeys names the setting', () => {
  expect(idleOverride('rate_limiting')).toBe(
    'The override is stored, and nothing obeys it: rate_limiting.overrides_enabled is false.',
  )
})
