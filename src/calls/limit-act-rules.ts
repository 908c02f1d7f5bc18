/** Overrides of rate limits and breakers in words: what the audit says of one, which finds the person who set it, and one that is idle. */
import type { Limit } from './admission/state-rules.ts'

/** Of an override that is set. @param kind `shared`: of a budget of several integrations */
export function actOfOverride(
  { limit, seconds }: Pick<Limit, 'limit' | 'seconds'>,
  kind: Limit['window'] | 'shared',
): string {
  return `rate-limit set ${limit} in ${seconds} s, ${kind}`
}

/** Of an override that is stored while its section ignores overrides. */
export const idleOverride = (section: 'circuit_breaker' | 'rate_limiting'): string =>
  `The override is stored, and nothing obeys it: ${section}.overrides_enabled is false.`
