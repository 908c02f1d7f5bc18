/**
 * Whether an integration's failure rate is elevated.
 *
 * Rule: docs/behaviour/failure-rates.md.
 */
import { FailureClass } from '../calls/failure-class-rules.ts'

/** An integration's requests in the window, retries included. */
export interface ObservedRequests {
  readonly requests: number
  readonly failures: Readonly<Record<FailureClass, number>>
}

export interface AnomalyRule {
  /** 1 to 100; at or above. */
  readonly thresholdPercent: number
  /** Fewer requests than that say nothing. */
  readonly minimumRequests: number
}

export type FailureRateVerdict =
  | { readonly kind: 'elevated'; readonly failureRate: number; readonly dominantClass: FailureClass }
  | { readonly kind: 'normal' }

/** Rate and number of requests must both be at or above their bound. */
export function failureRateVerdict({ requests, failures }: ObservedRequests, rule: AnomalyRule): FailureRateVerdict {
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0)
  // Multiplied out: 7 of 25 is 28 percent, and 7 / 25 * 100 is 28.000000000000004.
  const isElevated =
    requests > 0 && requests >= rule.minimumRequests && failed * 100 >= rule.thresholdPercent * requests
  if (!isElevated) return { kind: 'normal' }
  return { kind: 'elevated', failureRate: (failed * 100) / requests, dominantClass: dominantClass(failures) }
}

/** The one with the most failures; of several, the first in the order of {@link FailureClass}. */
function dominantClass(failures: ObservedRequests['failures']): FailureClass {
  const classes = Object.values(FailureClass)
  return classes.reduce((most, each) => (failures[each] > failures[most] ? each : most))
}
