import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import type { HealthState } from './health-transition.ts'
import { healthAfter, isWorse } from './health-transition.ts'

const DEFAULTS = { degradedAfter: 5, failingAfter: 20, disabledAfter: 50 }

describe('health after an outcome', () => {
  it.each<[HealthState['status'], number, FailureClass | null, HealthState['status'], number]>([
    // From, failures so far, outcome, to, failures then.
    ['healthy', 3, 'upstream', 'healthy', 4],
    ['healthy', 4, 'upstream', 'degraded', 5],
    ['degraded', 18, 'upstream', 'degraded', 19],
    ['degraded', 19, 'upstream', 'failing', 20],
    ['failing', 48, 'upstream', 'failing', 49],
    ['failing', 49, 'upstream', 'disabled', 50],
    ['disabled', 50, 'upstream', 'disabled', 51],
    // Never milder by a failure: an operator may have set the counter back.
    ['failing', 0, 'upstream', 'failing', 1],
    ['disabled', 0, 'upstream', 'disabled', 1],
    // The highest threshold that is reached.
    ['healthy', 19, 'upstream', 'failing', 20],
    ['healthy', 49, 'upstream', 'disabled', 50],
    ['degraded', 49, 'upstream', 'disabled', 50],
    // What was switched on again with its counter at 0 begins again.
    ['healthy', 0, 'upstream', 'healthy', 1],
    // A success heals at once, all but what is disabled.
    ['healthy', 4, null, 'healthy', 0],
    ['degraded', 19, null, 'healthy', 0],
    ['failing', 49, null, 'healthy', 0],
    ['disabled', 51, null, 'disabled', 0],
    ['healthy', 0, null, 'healthy', 0],
    // No other class says anything, in any status, also one failure before a threshold.
    ['healthy', 4, 'throttle', 'healthy', 4],
    ['healthy', 4, 'client', 'healthy', 4],
    ['healthy', 4, 'unknown', 'healthy', 4],
    ['degraded', 19, 'throttle', 'degraded', 19],
    ['degraded', 19, 'client', 'degraded', 19],
    ['degraded', 19, 'unknown', 'degraded', 19],
    ['failing', 49, 'throttle', 'failing', 49],
    ['failing', 49, 'client', 'failing', 49],
    ['failing', 49, 'unknown', 'failing', 49],
    ['disabled', 50, 'throttle', 'disabled', 50],
    ['disabled', 50, 'client', 'disabled', 50],
    ['disabled', 50, 'unknown', 'disabled', 50],
  ])('%s, %i failures, then %s: %s, %i', (status, consecutiveFailures, outcome, to, failures) => {
    const after = healthAfter({ status, consecutiveFailures }, outcome, DEFAULTS)
    expect(after).toEqual({ status: to, consecutiveFailures: failures })
  })

  it('is never disabled without a threshold for it', () => {
    const after = healthAfter({ status: 'failing', consecutiveFailures: 9_999 }, 'upstream', {
      ...DEFAULTS,
      disabledAfter: null,
    })
    expect(after).toEqual({ status: 'failing', consecutiveFailures: 10_000 })
  })

  it.each([
    [{ failingAfter: 5 }, 5, 'failing'],
    [{ disabledAfter: 20 }, 20, 'disabled'],
    [{ failingAfter: 5, disabledAfter: 5 }, 5, 'disabled'],
  ] as const)('skips the milder of two equal thresholds: %j', (thresholds, failures, status) => {
    const before: HealthState = { status: 'healthy', consecutiveFailures: failures - 1 }
    expect(healthAfter(before, 'upstream', { ...DEFAULTS, ...thresholds }).status).toBe(status)
  })

  it('gets worse by upstream failures only, and better by a success only', () => {
    const outcomes = fc.array(
      fc.constantFrom<(FailureClass | null)[]>(null, 'upstream', 'throttle', 'client', 'unknown'),
    )
    fc.assert(
      fc.property(outcomes, (history) => {
        let health: HealthState = { status: 'healthy', consecutiveFailures: 0 }
        for (const outcome of history) {
          const after = healthAfter(health, outcome, { degradedAfter: 2, failingAfter: 3, disabledAfter: 5 })
          if (isWorse(after.status, health.status)) expect(outcome).toBe('upstream')
          if (isWorse(health.status, after.status)) expect([outcome, after.status]).toEqual([null, 'healthy'])
          health = after
        }
      }),
    )
  })
})
