/** What a provider says about storing its calls' bodies. Rule: docs/behaviour/requests.md, "Redaction". */

import type { Framework } from '../framework/context.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import type { RedactionPath } from '../framework/redaction.ts'
import { parseRedactionPath } from '../framework/redaction.ts'
import type { Identity } from '../observability/spans.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { limitsRequestLogging, redactsRequestData } from '../providers/contracts.ts'
import type { CallPlan } from './call-options.ts'
import { isUnlogged } from './unlogged-rules.ts'

export interface LoggingRules {
  readonly request: BodyLogging
  readonly response: BodyLogging
}

interface BodyLogging {
  readonly paths: readonly RedactionPath[]
  readonly isUnlogged: boolean
}

/** Asked anew for each attempt: a provider may go by its own configuration. */
export function loggingRules(
  { logger }: Framework,
  provider: IntegrationProvider,
  { integration, plan, secrets }: { integration: Identity; plan: CallPlan; secrets: readonly string[] },
): LoggingRules {
  // A list that can't be had might name what must not be stored: then the body is not stored.
  const listed = (name: string, ask: () => unknown): readonly string[] | null => {
    try {
      const list = ask() ?? []
      if (Array.isArray(list) && list.every((entry) => typeof entry === 'string')) return list
      logger.warn(
        { event: 'request.body_rule_failed', integration: integration.id, provider: integration.provider },
        `${name}() gave no list of texts; the body is not stored`,
      )
    } catch (error) {
      logger.warn(
        {
          event: 'request.body_rule_failed',
          integration: integration.id,
          provider: integration.provider,
          error: redactedErrorLine(error, secrets, 500),
        },
        `${name}() threw; the body is not stored`,
      )
    }
    return null
  }
  const redacts = redactsRequestData(provider) ? provider : null
  const limits = limitsRequestLogging(provider) ? provider : null
  const request = listed('redactedRequestPaths', () => redacts?.redactedRequestPaths?.())
  const response = listed('redactedResponsePaths', () => redacts?.redactedResponsePaths?.())
  // Served again, or shown to whoever repeats the key: these are needed whole.
  const isNeeded = plan.cacheForMs !== null || plan.idempotencyKey !== null
  const unlogged = isNeeded ? [] : listed('unloggedResponses', () => limits?.unloggedResponses())
  return {
    request: bodyLogging(request, false),
    response: bodyLogging(
      response,
      unlogged === null || unlogged.some((pattern) => isUnlogged(pattern, plan.method, plan.endpoint)),
    ),
  }
}

function bodyLogging(paths: readonly string[] | null, isUnlogged: boolean): BodyLogging {
  return { paths: (paths ?? []).map(parseRedactionPath), isUnlogged: isUnlogged || paths === null }
}
