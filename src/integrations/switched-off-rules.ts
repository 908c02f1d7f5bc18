/**
 * Who keeps an integration from working. A person's switch and its health are two facts, and both may hold.
 *
 * The condition `acceptsWebhooks()` of integrations/queries.ts holds the same rule.
 * Rule: docs/behaviour/health.md, "On, off and health".
 */
import type { HealthStatus } from './health-rules.ts'

export interface OnOff {
  /** Whether anything scheduled starts: false where a person or its health has switched it off. */
  readonly isActive: boolean
  readonly healthStatus: HealthStatus
  /** When a person did; null: never. */
  readonly switchedOffAt: Date | string | null
}

/** A person's word comes first: it takes the deliveries away, too. Null: it is on. */
export function switchedOffBy(integration: OnOff): 'an operator' | 'its health' | null {
  if (isSwitchedOffByPerson(integration)) return 'an operator'
  return integration.healthStatus === 'disabled' ? 'its health' : null
}

/** For a person: whether it works, and who keeps it from that. */
export function activeText(integration: OnOff): string {
  const by = switchedOffBy(integration)
  return by === null ? 'yes' : `no: ${by}`
}

/** Also a row whose `is_active` a host has set to false by itself. */
export function isSwitchedOffByPerson({ isActive, healthStatus, switchedOffAt }: OnOff): boolean {
  return switchedOffAt !== null || (!isActive && healthStatus !== 'disabled')
}
