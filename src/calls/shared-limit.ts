/** Looking at and overriding the budget that an integration shares. Rule: docs/behaviour/shared-budgets.md, "Looking and overriding". */
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { givenNowMs } from '../framework/logger.ts'
import type { Integration, SharedLimitView } from '../providers/integration.ts'
import type { Scope } from './admission/shared-budgets.ts'
import { overrideShared, sharedState, sharedUnits } from './admission/shared-queries.ts'
import type { Limit } from './admission/state-rules.ts'
import { declaredScope } from './call-target.ts'
import { storedLimit } from './limit-overrides.ts'
import { checkUntil } from './overrides.ts'

/** Null: it shares none. */
export async function sharedLimitView(framework: Framework, integration: Integration): Promise<SharedLimitView | null> {
  const scope = declaredScope(framework, integration) ?? null
  if (scope === null) return null
  const { db, tables, config } = framework
  const read = await sharedState(db, tables, scope.key)
  const nowMs = givenNowMs(framework) ?? read.nowMs
  const state = read.state ?? {}
  const { override = null, quietUntil = null, lines = {} } = state
  const isOver = override?.until != null && override.until <= nowMs
  const inForce = config.rate_limiting.overrides_enabled && !isOver ? override : null
  const { limit, seconds } = inForce ?? scope
  return {
    budget: scope.name,
    source: inForce === null ? 'provider' : 'override',
    limit,
    windowSeconds: seconds,
    used: sharedUnits(state, seconds, nowMs),
    waiting: new Set(Object.values(lines).flatMap(({ at, ids }) => (at + LINE_MS > nowMs ? ids : []))).size,
    overrideUntil: inForce?.until == null ? null : new Date(inForce.until),
    quietUntil: quietUntil !== null && quietUntil > nowMs ? new Date(quietUntil) : null,
  }
}

/** A process that lives tells its line more often. As in drizzle/functions/take_shared.sql. */
const LINE_MS = 2_000

/**
 * Puts a limit in the place of the one that the provider names for all who share it, or gives the provider's back.
 *
 * @throws InvalidArgumentException; then nothing has changed
 */
export async function overrideSharedLimit(
  framework: Framework,
  integration: Integration,
  limit: Limit | null,
  until?: Date,
): Promise<void> {
  const scope = sharedScope(framework, integration)
  const stored = limit === null ? null : storedLimit(limit)
  await checkUntil(framework, integration, limit, until)
  const override =
    stored === null
      ? null
      : { limit: stored.limit, seconds: stored.windowSeconds, until: until === undefined ? null : until.getTime() }
  await overrideShared(framework.db, framework.tables, scope.key, override)
}

function sharedScope(framework: Framework, integration: Integration): Scope {
  const scope = declaredScope(framework, integration) ?? null
  if (scope === null)
    throw new InvalidArgumentException(
      'shared rate limit',
      `integration ${integration.id} shares none: rateLimitScope() of its provider (${integration.provider}) gives no scope`,
    )
  return scope
}
