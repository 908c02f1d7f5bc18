import { expect, it } from 'vitest'
import { seeded } from '../seeded-kills.ts'
import { budgetOverruns } from './budget.ts'
import { drawCampaign, FAULT_KINDS } from './faults.ts'
import { BUDGET } from './world.ts'

const PLAN = { count: 60, seconds: 240, kinds: FAULT_KINDS, hasPooler: true }

it('draws the same faults for the same seed', () => {
  expect(drawCampaign(seeded(4), PLAN)).toEqual(drawCampaign(seeded(4), PLAN))
  expect(drawCampaign(seeded(4), PLAN)).not.toEqual(drawCampaign(seeded(5), PLAN))
})

it('draws each kind, of each backend, before any has come much more often', () => {
  const { faults } = drawCampaign(seeded(4), PLAN)
  const seen = new Set(faults.map(({ kind, target }) => (target === 'pgbouncer' ? 'pooler' : kind)))
  expect([...seen].sort()).toEqual(['cut', 'fill', 'freeze', 'hold up', 'jump', 'kill', 'pooler', 'slow down'])
  for (const target of ['postgres', 'temporal', 'pgbouncer'])
    expect(faults.some((fault) => fault.kind === 'kill' && fault.target === target)).toBe(true)
})

it('draws nothing but what is asked for', () => {
  const { faults } = drawCampaign(seeded(4), { ...PLAN, kinds: ['stop'], hasPooler: false })
  expect(new Set(faults.map(({ kind }) => kind))).toEqual(new Set(['freeze']))
  expect(faults.some(({ target }) => target === 'pgbouncer')).toBe(false)
})

it('finds a budget that is overrun by one call, wherever the window lies', () => {
  const windowMs = BUDGET.seconds * 1_000
  const full = Array.from({ length: BUDGET.calls }, (_, index) => 700 + index)
  expect(budgetOverruns([...full, 700 + windowMs], [])).toEqual({ most: BUDGET.calls, excused: 0, overruns: [] })
  const early = 700 + windowMs - 1
  expect(budgetOverruns([early, ...full], []).overruns).toHaveLength(1)
  // Right after a process that was silent for so long that it was taken for dead.
  const freeze = {
    fault: { kind: 'freeze' as const, target: 'worker', seconds: 20 },
    fromMs: early - 20_000,
    untilMs: early,
  }
  expect(budgetOverruns([early, ...full], [freeze])).toMatchObject({ excused: 1, overruns: [] })
})
