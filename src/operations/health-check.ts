/** Asks a provider whether it answers and takes the credentials. Rule: docs/commands.md, "install". */
import { secretsOf } from '../core/redaction.ts'
import type { Framework } from '../framework.ts'
import type { Integration } from '../providers/integration.ts'
import { hasHealthCheck } from '../providers/provider.ts'
import { getIntegration } from './integration.ts'
import { redactedErrorLine } from './redacted-error.ts'
import { withTimeLimit } from './time-limit.ts'

const HEALTH_CHECK_TIMEOUT_SECONDS = 30
const MAX_ERROR_LENGTH = 500

export interface HealthCheckResult {
  readonly ok: boolean
  readonly durationMs: number
  /** Why not, without secrets; null when it is. */
  readonly error: string | null
}

/**
 * Never throws for what the provider does: that is in the result. Null when the provider has no health check, or is not
 * registered here.
 *
 * @throws IntegrationNotFound
 */
export async function checkIntegrationHealth(framework: Framework, id: number): Promise<HealthCheckResult | null> {
  const integration = await getIntegration(framework, id)
  const provider = framework.providers.find(integration.provider)
  if (provider === null || !hasHealthCheck(provider)) return null
  const startedAt = performance.now()
  const result = (ok: boolean, error: string | null): HealthCheckResult => ({
    ok,
    durationMs: Math.round(performance.now() - startedAt),
    error,
  })
  const tooLate = new Error(`The health check did not end within ${HEALTH_CHECK_TIMEOUT_SECONDS} s.`)
  try {
    const answer = await withTimeLimit(HEALTH_CHECK_TIMEOUT_SECONDS, tooLate, async () =>
      provider.healthCheck(integration),
    )
    return answer === true ? result(true, null) : result(false, 'The health check did not answer true.')
  } catch (error) {
    return result(false, redactedErrorLine(error, secretsIn(integration), MAX_ERROR_LENGTH))
  }
}

/** Unreadable credentials are a reason to fail of their own, and have told nobody a secret. */
function secretsIn(integration: Integration): string[] {
  try {
    return secretsOf(integration.credentialsArray())
  } catch {
    return []
  }
}
