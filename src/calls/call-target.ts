/** What the statements of admission and settlement need of an integration, its provider and the configuration. */
import { createHash } from 'node:crypto'
import { aroundIntegrationId, integrationKey } from '../cache/integration-keys.ts'
import { settlementEventNames } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'
import { declaresRateLimit, hasStreams, sharesRateLimit } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { CallRules, CallTarget } from './admission/call-queries.ts'
import type { Scope } from './admission/shared-budgets.ts'
import type { Limit } from './admission/state-rules.ts'

const CALLS = 'calls'

/** The key of the shared state in the cache table, around the integration's id: for statements about many. */
export function aroundCallStateId({ config }: Pick<Framework, 'config'>): readonly [before: string, after: string] {
  const [before, after] = aroundIntegrationId(CALLS)
  return [`${config.cache_prefix}:${before}`, after]
}

export function callTarget(
  framework: Framework,
  { id, provider }: Pick<Integration, 'id' | 'provider'>,
  limit: Limit | null = declaredLimit(framework, provider) ?? null,
): CallTarget {
  return {
    integrationId: id,
    key: `${framework.config.cache_prefix}:${integrationKey(id, CALLS)}`,
    rules: callRules(framework, limit),
    nowMs: givenNowMs(framework),
    eventNames: settlementEventNames(framework),
  }
}

/** The provider's own limit; null without one. Undefined when it gives something else, which the statement could not read. */
export function declaredLimit({ providers }: Framework, key: string): Limit | null | undefined {
  const provider = providers.find(key)
  return provider === null || !declaresRateLimit(provider) ? null : limitFrom(() => provider.defaultRateLimit())
}

/** The limit that all integrations of the provider share, in the same way. */
export function declaredQuota({ providers }: Pick<Framework, 'providers'>, key: string): Limit | null | undefined {
  const provider = providers.find(key)
  return provider === null || !hasStreams(provider) ? null : limitFrom(() => provider.syncQuota?.() ?? null)
}

/** The budget that the integration shares; null without one. Undefined when the provider gives something else. */
export function declaredScope({ providers, config }: Framework, integration: Integration): Scope | null | undefined {
  const provider = providers.find(integration.provider)
  if (provider === null || !sharesRateLimit(provider)) return null
  try {
    const given = provider.rateLimitScope(integration)
    if (given === null) return null
    const limit = limitFrom(() => given.limit)
    if (typeof given.key !== 'string' || given.key === '' || limit === null || limit === undefined) return undefined
    // The key may be an API key: nothing of it is stored or shown. Without a key of ours, since a rotation would begin a second budget.
    const digest = createHash('sha256').update(`${integration.provider}\n${given.key}`).digest('hex').slice(0, 32)
    const name = `${integration.provider}/${digest.slice(0, 8)}`
    return { key: `${config.cache_prefix}:shared:${digest}`, name, limit: limit.limit, seconds: limit.seconds }
  } catch {
    return undefined
  }
}

function limitFrom(declared: () => Limit | null): Limit | null | undefined {
  try {
    const given = declared()
    if (given === null) return null
    const { limit, seconds, window } = given
    const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 1
    const isLimit = isCount(limit) && isCount(seconds) && (window === 'fixed' || window === 'sliding')
    return isLimit ? { limit, seconds, window } : undefined
  } catch {
    return undefined
  }
}

function callRules({ config }: Framework, limit: Limit | null): CallRules {
  const { circuit_breaker: breaker, health } = config
  return {
    breaker: {
      enabled: breaker.enabled,
      strategy: breaker.strategy,
      windowSeconds: breaker.time_window,
      ratePercent: breaker.failure_rate_threshold,
      minimum: breaker.minimum_requests,
      threshold: breaker.threshold,
      cooldownSeconds: breaker.cooldown_seconds,
    },
    limit,
    circuitOverrides: breaker.overrides_enabled,
    limitOverrides: config.rate_limiting.overrides_enabled,
    health: {
      degradedAfter: health.degraded_after,
      failingAfter: health.failing_after,
      disabledAfter: health.disabled_after,
    },
    incidents: config.observability.incidents_enabled,
  }
}
