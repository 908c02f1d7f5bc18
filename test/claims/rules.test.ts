import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  afterLoss,
  claimAndItsLosses,
  claimOf,
  isOfRetry,
  lossesOf,
  MAX_LOST_WORKERS,
  pumpClaimOf,
  whileWaiting,
} from '../../src/claims/rules.ts'

const RUN = '0199a1b2-0000-7000-8000-000000000001'

describe('a claim', () => {
  it('names the run and the batch', () => {
    expect(claimOf(RUN, 7)).toBe(`${RUN}:7`)
  })

  it('counts the workers that died with it', () => {
    const claim = claimOf(RUN, 7)
    expect(lossesOf(claim, claim)).toBe(0)
    expect(afterLoss(claim, 2)).toBe(`${RUN}:7:2`)
    expect(lossesOf(`${RUN}:7:2`, claim)).toBe(2)
  })

  it('reads back every loss that it wrote', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.nat(), fc.integer({ min: 1, max: 99 }), (run, batch, losses) => {
        const claim = claimOf(run, batch)
        expect(lossesOf(afterLoss(claim, losses), claim)).toBe(losses)
      }),
    )
  })

  it('has six texts, one for each loss until the row is given up', () => {
    expect(MAX_LOST_WORKERS).toBe(5)
    expect(claimAndItsLosses('r:1')).toEqual(['r:1', 'r:1:1', 'r:1:2', 'r:1:3', 'r:1:4', 'r:1:5'])
  })

  it('shares no text with another batch of its run', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.nat(), fc.nat(), (run, one, other) => {
        fc.pre(one !== other)
        const texts = new Set(claimAndItsLosses(claimOf(run, one)))
        expect(claimAndItsLosses(claimOf(run, other)).filter((text) => texts.has(text))).toEqual([])
      }),
    )
  })
})

it('a pump has a claim that queries find by its beginning', () => {
  expect(pumpClaimOf(RUN, 3)).toBe(`pump:${RUN}:3`)
})

describe('the claim of a retry by hand', () => {
  it("is told from a run's by its beginning", () => {
    expect([claimOf(`retry-${RUN}`, 1), whileWaiting(`retry-${RUN}:1`)].map(isOfRetry)).toEqual([true, true])
    expect(isOfRetry(claimOf(RUN, 1))).toBe(false)
  })

  it('while it waits is that of no attempt', () => {
    const claim = `retry-${RUN}:2`
    expect(whileWaiting(claim)).toBe(`retry-${RUN}:waiting`)
    expect(claimAndItsLosses(claim)).not.toContain(whileWaiting(claim))
  })
})
