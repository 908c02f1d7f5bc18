import { isIntegrationsError } from '../framework/errors.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { classifiesFailures } from '../providers/contracts.ts'
import { classifyFailure } from './failure-class-rules.ts'

/** Faults of ours that another attempt can't change. */
const FINAL_CODES: ReadonlySet<string> = new Set([
  'invalid_argument',
  'integration_inactive',
  'unknown_provider',
  'unsupported_by_provider',
  'sync_session_closed',
  'credentials_unreadable',
])

/**
 * Whether the same call would fail in the same way again: bad arguments, and what the provider blames on the caller.
 *
 * @param provider null: it is not known
 */
export function isFinalFault(error: unknown, provider: IntegrationProvider | null = null): boolean {
  if (isIntegrationsError(error) && FINAL_CODES.has(error.code)) return true
  const verdict = provider !== null && classifiesFailures(provider) ? provider.classifyFailure(error) : null
  return (verdict ?? classifyFailure({ error, callerAborted: false })) === 'client'
}
