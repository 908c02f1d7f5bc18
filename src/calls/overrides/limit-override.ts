/** Looking at and overriding the rate limit. Rule: docs/behaviour/requests.md, "Overrides". */
import { z } from 'zod'
import type { IntegrationRow } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException } from '../../framework/errors.ts'
import { integrationLogger } from '../../framework/logger.ts'
import { findIntegration, updateIntegration } from '../../integrations/queries.ts'
import type { Integration, RateLimitView } from '../../providers/integration.ts'
import { endLease } from '../admission/call-state.ts'
import { callStates } from '../admission/state-queries.ts'
import type { Limit } from '../admission/state-rules.ts'
import { unitsUsed } from '../admission/state-rules.ts'
import { callTarget } from '../call-target.ts'
import { checkUntil, clearExpiredOverride, isOver } from './override-term.ts'

/** The greatest number of the configuration's whole numbers. */
const MAX = 2_147_483_647

/** The column, as the admission statement reads it. */
const StoredLimit = z.object({
  limit: z.int().min(1).max(9_999_999_999),
  windowSeconds: z.int().min(1).max(9_999_999_999),
  window: z.enum(['fixed', 'sliding']),
})

/** @throws IntegrationNotFound */
export async function rateLimitView(framework: Framework, integrationId: number): Promise<RateLimitView> {
  const { db, tables } = framework
  const row = await findIntegration(db, tables, integrationId)
  if (row === null) throw new IntegrationNotFound(integrationId)
  const target = callTarget(framework, row)
  const { nowMs, states } = await callStates(db, tables, [target.key])
  const now = target.nowMs ?? nowMs
  const until = row.rateLimitOverrideUntil
  if (until !== null && isOver(until, now)) await clearExpiredOverride(db, tables, 'rateLimit', integrationId, until)

  const { limit: providers, limitOverrides } = target.rules
  const override = limitOverrides ? overrideInForce(row, now) : null
  const limit = override ?? providers
  const state = states[target.key]
  const suppressedUntil = state?.suppressedUntil ?? null
  return {
    source: override !== null ? 'override' : providers !== null ? 'provider' : 'none',
    limit: limit?.limit ?? null,
    windowSeconds: limit?.seconds ?? null,
    window: limit?.window ?? null,
    used: limit === null ? 0 : unitsUsed(state?.window ?? null, limit, now),
    overrideUntil: override === null ? null : until,
    suppressedUntil: suppressedUntil !== null && suppressedUntil > now ? new Date(suppressedUntil) : null,
  }
}

/**
 * Puts a limit in the provider's place, or gives the provider's back.
 *
 * @throws InvalidArgumentException, IntegrationNotFound; then nothing has changed
 */
export async function overrideRateLimit(
  framework: Framework,
  integration: Integration,
  limit: Limit | null,
  until?: Date,
): Promise<void> {
  const { db, tables, config } = framework
  const stored = limit === null ? null : storedLimit(limit)
  await checkUntil(framework, integration, limit, until)
  const patch = { rateLimitOverride: stored, rateLimitOverrideUntil: until ?? null }
  if ((await updateIntegration(db, tables, integration.id, patch)) === null)
    throw new IntegrationNotFound(integration.id)
  endLease(framework, integration.id)
  if (stored !== null && !config.rate_limiting.overrides_enabled)
    integrationLogger(framework, integration).warn(
      { event: 'rate_limit.override_idle' },
      'rate_limiting.overrides_enabled is false: the override is stored, and nothing obeys it',
    )
}

/** Judged by its fields: a limit of another copy of this package is as good. */
function storedLimit(limit: Limit): z.output<typeof StoredLimit> {
  const { limit: calls, seconds, window } = Object(limit) as Partial<Limit>
  const isCount = (value: unknown): boolean => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX
  if (!isCount(calls) || !isCount(seconds) || (window !== 'fixed' && window !== 'sliding'))
    throw new InvalidArgumentException(
      'rate limit',
      `a RateLimit of 1 to ${MAX} calls in 1 to ${MAX} seconds is allowed, ${JSON.stringify(limit)} was given`,
    )
  return { limit: Number(calls), windowSeconds: Number(seconds), window }
}

function overrideInForce({ rateLimitOverride, rateLimitOverrideUntil }: IntegrationRow, nowMs: number): Limit | null {
  if (isOver(rateLimitOverrideUntil, nowMs)) return null
  const { success, data } = StoredLimit.safeParse(rateLimitOverride)
  return success ? { limit: data.limit, seconds: data.windowSeconds, window: data.window } : null
}
