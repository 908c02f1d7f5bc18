/**
 * A model of health: what one outcome does to it. The product decides in SQL (drizzle/functions/settle_calls.sql);
 * call-state.pg.test.ts compares the two.
 *
 * Rule: docs/behaviour/requests.md, "Health".
 */
import type { FailureClass } from '../../src/calls/failure-class-rules.ts'
import type { HealthStatus, HealthThresholds } from '../../src/integrations/rules.ts'

export interface HealthState {
  readonly status: HealthStatus
  readonly consecutiveFailures: number
}

const SEVERITY: Readonly<Record<HealthStatus, number>> = { healthy: 0, degraded: 1, failing: 2, disabled: 3 }

/** Only upstream failures degrade, and never to something milder; a success heals all but `disabled`. */
export function healthAfter(
  health: HealthState,
  failureClass: FailureClass | null,
  thresholds: HealthThresholds,
): HealthState {
  if (failureClass === null)
    return { status: health.status === 'disabled' ? 'disabled' : 'healthy', consecutiveFailures: 0 }
  if (failureClass !== 'upstream') return health
  const consecutiveFailures = health.consecutiveFailures + 1
  const reached = reachedBy(consecutiveFailures, thresholds)
  const status = SEVERITY[reached] > SEVERITY[health.status] ? reached : health.status
  return { status, consecutiveFailures }
}

export function isWorse(status: HealthStatus, than: HealthStatus): boolean {
  return SEVERITY[status] > SEVERITY[than]
}

function reachedBy(failures: number, { degradedAfter, failingAfter, disabledAfter }: HealthThresholds): HealthStatus {
  if (disabledAfter !== null && failures >= disabledAfter) return 'disabled'
  if (failures >= failingAfter) return 'failing'
  return failures >= degradedAfter ? 'degraded' : 'healthy'
}
