/** Overrides of single integrations' rate limits. Those of shared budgets: shared-limit-checks.ts. */
import type { LimitOfOne } from '../../calls/limit-overrides.ts'
import { overriddenLimits } from '../../calls/limit-overrides.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, MAX_LOOKED_AT, moment, warning } from './doctor-check.ts'

export const overriddenLimit: Check = {
  name: 'rate_limits.overridden',
  needs: ['database.migrations'],
  async look(framework) {
    const overridden = await overriddenLimits(framework, { limit: MAX_LOOKED_AT })
    return capped(overridden.map(about), 'The rate limit of no integration is overridden.')
  },
}

function about({
  integrationId,
  limit,
  windowSeconds,
  window,
  used,
  overrideUntil,
  setBy,
  setAt,
}: LimitOfOne): Observation {
  const setter =
    setBy === null || setAt === null
      ? "is overridden: the audit names no person, so it was a host's code or SQL, or the audit of that time is pruned"
      : `was overridden by ${setBy} at ${moment(setAt)}`
  const term = overrideUntil === null ? 'for good' : `until ${moment(overrideUntil)}`
  return warning(
    `The rate limit of integration ${integrationId} ${setter}: ${limit} calls in ${windowSeconds} s (${window}), ${term}; ${used} of ${limit} are used now.`,
    `integrations rate-limit ${integrationId} clear`,
    { integrationId, since: setAt },
  )
}
