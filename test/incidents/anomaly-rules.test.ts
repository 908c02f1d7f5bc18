import { describe, expect, it } from 'vitest'
import { failureRateVerdict } from '../../src/incidents/anomaly-rules.ts'

const NONE = { upstream: 0, throttle: 0, client: 0, unknown: 0 }
const RULE = { thresholdPercent: 25, minimumRequests: 20 }

describe('a failure rate', () => {
  it.each([
    ['at both bounds', 20, { upstream: 5 }, 25],
    ['above both', 40, { upstream: 30 }, 75],
    ['of nothing but failures', 20, { client: 20 }, 100],
    ['of all classes together', 20, { upstream: 2, throttle: 1, client: 1, unknown: 1 }, 25],
    ['that no float holds exactly', 700, { upstream: 203 }, 29],
  ])('%s is elevated', (_, requests, failures, failureRate) => {
    const verdict = failureRateVerdict({ requests, failures: { ...NONE, ...failures } }, RULE)
    expect(verdict).toMatchObject({ kind: 'elevated', failureRate })
  })

  it.each([
    ['just below the threshold', 21, { upstream: 5 }],
    ['of too few requests', 19, { upstream: 19 }],
    ['of no failures', 1_000, {}],
    ['of nothing', 0, {}],
  ])('%s is not', (_, requests, failures) => {
    expect(failureRateVerdict({ requests, failures: { ...NONE, ...failures } }, RULE)).toEqual({ kind: 'normal' })
  })

  it.each([
    [1, 100, 1],
    [29, 100, 29],
    [57, 100, 57],
    [100, 100, 100],
  ])(
    'fires at a threshold of %i percent exactly, and one failure below it does not',
    (thresholdPercent, requests, n) => {
      const at = (upstream: number) =>
        failureRateVerdict({ requests, failures: { ...NONE, upstream } }, { thresholdPercent, minimumRequests: 1 }).kind
      expect([at(n), at(n - 1)]).toEqual(['elevated', 'normal'])
    },
  )

  it('of no requests is not elevated, whatever the minimum', () => {
    expect(failureRateVerdict({ requests: 0, failures: NONE }, { thresholdPercent: 1, minimumRequests: 0 })).toEqual({
      kind: 'normal',
    })
  })
})

describe('the dominant class', () => {
  it.each([
    [{ upstream: 1, throttle: 2, client: 1, unknown: 1 }, 'throttle'],
    [{ upstream: 0, throttle: 0, client: 0, unknown: 5 }, 'unknown'],
    [{ upstream: 0, throttle: 0, client: 3, unknown: 3 }, 'client'],
    [{ upstream: 2, throttle: 2, client: 2, unknown: 2 }, 'upstream'],
  ])('of %j is %s', (failures, dominantClass) => {
    const rule = { thresholdPercent: 1, minimumRequests: 1 }
    expect(failureRateVerdict({ requests: 10, failures }, rule)).toMatchObject({ dominantClass })
  })
})
