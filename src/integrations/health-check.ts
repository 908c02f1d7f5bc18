/** Asks a provider whether it answers and takes the credentials. Rule: docs/behaviour/requests.md, "Health checks". */

import { providerVerdict } from '../calls/attempt.ts'
import { recordOutcome } from '../calls/call-events.ts'
import type { FailureClass } from '../calls/failure-class-rules.ts'
import { classifyFailure } from '../calls/failure-class-rules.ts'
import { storedError } from '../calls/outcome.ts'
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { Framework } from '../framework/context.ts'
import { withTimeLimit } from '../framework/waiting.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { hasHealthCheck } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { integrationHandle } from './handle.ts'
import { requireIntegration } from './queries.ts'

const HEALTH_CHECK_TIMEOUT_SECONDS = 30
const MAX_ERROR_LENGTH = 500

export interface HealthCheckResult {
  readonly ok: boolean
  readonly durationMs: number
  /** Why not, without secrets; null when it is. */
  readonly error: string | null
}

/**
 * A failure of the provider is in the result and never thrown. Null when the provider has no health check.
 *
 * Its requests count for health as any others do. A check without requests counts itself: as a success, or by the class of its
 * error.
 *
 * @throws IntegrationNotFound, UnknownProvider
 */
export async function checkIntegrationHealth(framework: Framework, id: number): Promise<HealthCheckResult | null> {
  const row = await requireIntegration(framework, id)
  const provider = framework.providers.get(row.provider)
  if (!hasHealthCheck(provider)) return null

  let calls = 0
  let failure: string | null = null
  const watching: Framework = {
    ...framework,
    request: async (_, outbound) => {
      calls += 1
      try {
        return await framework.request(framework, outbound)
      } catch (error) {
        // Here it is still known whether this was a call for tokens.
        failure = storedError(framework, outbound.integration, error, secretsIn(outbound.integration))
        throw error
      }
    },
  }
  const integration = integrationHandle(watching, row)
  const { failureClass, ...result } = await ask(framework, provider, integration, () => failure)
  if (calls === 0) await recordOutcome(framework, integration, failureClass)
  return result
}

async function ask(
  framework: Framework,
  provider: Required<Pick<IntegrationProvider, 'healthCheck'>>,
  integration: Integration,
  /** Error of its latest failed request: most checks only answer false, and an operator wants to know why. */
  lastFailure: () => string | null,
): Promise<HealthCheckResult & { readonly failureClass: FailureClass | null }> {
  const startedAt = performance.now()
  const result = (failureClass: FailureClass | null, error: string | null) => ({
    ok: error === null,
    durationMs: Math.round(performance.now() - startedAt),
    error,
    failureClass,
  })
  const tooLate = new Error(`The health check did not end within ${HEALTH_CHECK_TIMEOUT_SECONDS} s.`)
  // Classifiers know a deadline by this name.
  tooLate.name = 'TimeoutError'
  try {
    const answer = await withTimeLimit(
      HEALTH_CHECK_TIMEOUT_SECONDS,
      () => tooLate,
      async () => provider.healthCheck(integration),
    )
    if (answer === true) return result(null, null)
    const failed = lastFailure()
    const why = failed === null ? '' : ` What failed last: ${failed.slice(0, MAX_ERROR_LENGTH - 100)}`
    return result('unknown', `The health check did not answer true.${why}`)
  } catch (error) {
    const secrets = secretsIn(integration)
    // Only the secrets are looked at. Unreadable credentials must not hide why the check failed.
    const failureClass = classifyFailure({
      error,
      callerAborted: false,
      providerVerdict: providerVerdict({ framework, provider, integration, secrets: () => secrets }, error),
    })
    return result(failureClass, storedError(framework, integration, error, secrets).slice(0, MAX_ERROR_LENGTH))
  }
}
