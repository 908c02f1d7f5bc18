/** What the audit says of an override of a rate limit: by it the person who set the one in force is found. */
import type { Limit } from './admission/state-rules.ts'

/** Of an override that is set. @param kind `shared`: of a budget of several integrations */
export function actOfOverride(
  { limit, seconds }: Pick<Limit, 'limit' | 'seconds'>,
  kind: Limit['window'] | 'shared',
): string {
  return `rate-limit set ${limit} in ${seconds} s, ${kind}`
}
