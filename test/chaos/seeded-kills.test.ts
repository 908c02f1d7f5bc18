import { describe, expect, it } from 'vitest'
import { drawKills, seeded, seedOfRun } from './seeded-kills.ts'
import { TARGETS } from './targets.ts'

describe('the plan of kills', () => {
  it('is the same for the same seed, and another for another', () => {
    const plan = (seed: number) => drawKills(seeded(seed), { targets: TARGETS, each: 6, meanGapMs: 8_000 })
    expect(plan(1)).toEqual(plan(1))
    expect(plan(1)).not.toEqual(plan(2))
  })

  it.each([0, 1, 4_294_967_295])('of seed %i kills each part as often, with waits around the mean', (seed) => {
    const kills = drawKills(seeded(seed), { targets: TARGETS, each: 50, meanGapMs: 1_000 })
    for (const target of TARGETS) expect(kills.filter((kill) => kill.target === target)).toHaveLength(50)
    const waits = kills.map(({ afterMs }) => afterMs)
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...waits)).toBeLessThanOrEqual(2_000)
    // 200 draws: the mean is within four standard errors (41 ms each).
    expect(Math.abs(waits.reduce((sum, wait) => sum + wait, 0) / waits.length - 1_000)).toBeLessThan(164)
  })

  it('takes its seed from CHAOS_SEED', () => {
    expect(seedOfRun({ CHAOS_SEED: '7' })).toBe(7)
  })

  it('draws one when there is none', () => {
    expect(seedOfRun({})).toBeGreaterThanOrEqual(0)
    expect(seedOfRun({ CHAOS_SEED: '' })).toBeLessThan(2 ** 32)
  })

  it.each(['-1', '1.5', '4294967296', 'abc'])('refuses the seed %s', (given) => {
    expect(() => seedOfRun({ CHAOS_SEED: given })).toThrow(
      `CHAOS_SEED: expected an integer from 0 to 4294967295, received "${given}"`,
    )
  })
})
