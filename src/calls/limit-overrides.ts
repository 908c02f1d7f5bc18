/** Looking at and overriding the rate limit of an integration. Rule: docs/behaviour/requests.md, "Overrides". */
import { and, asc, gt, isNotNull, isNull, or } from 'drizzle-orm'
import { z } from 'zod'
import { MAX_INTEGER } from '../db/schema/columns.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException } from '../framework/errors.ts'
import { integrationLogger } from '../framework/logger.ts'
import { updateIntegration } from '../integrations/queries.ts'
import { lastActs } from '../observability/audit.ts'
import type { Integration, RateLimitView } from '../providers/integration.ts'
import type { CallTarget } from './admission/call-queries.ts'
import { endLease } from './admission/call-state.ts'
import type { StoredCallState } from './admission/state-queries.ts'
import type { Limit } from './admission/state-rules.ts'
import { unitsUsed } from './admission/state-rules.ts'
import { callTarget } from './call-target.ts'
import { nowOf } from './idempotency.ts'
import { actOfOverride } from './limit-act-rules.ts'
import { callStandings, checkUntil, clearExpiredOverride, currentState, isOver } from './overrides.ts'

/** The column, as the admission statement reads it. */
const StoredLimit = z.object({
  limit: z.int().min(1).max(9_999_999_999),
  windowSeconds: z.int().min(1).max(9_999_999_999),
  window: z.enum(['fixed', 'sliding']),
})

/** The integration's own limit; what it shares with others is another view. */
export type OwnLimitView = Omit<RateLimitView, 'shared'>
export type LimitOfOne = OwnLimitView & { readonly integrationId: number }

/** @throws IntegrationNotFound */
export async function rateLimitView(framework: Framework, integrationId: number): Promise<OwnLimitView> {
  const { db, tables } = framework
  const { row, target, state, now } = await currentState(framework, integrationId)
  const until = row.rateLimitOverrideUntil
  if (until !== null && isOver(until, now)) await clearExpiredOverride(db, tables, 'rateLimit', integrationId, until)
  const view = limitOf(row, target, state, now)
  if (view.source !== 'override') return view
  return { ...view, ...(await settersOf(framework, [{ integrationId, ...view }])).get(integrationId) }
}

/** The limits of these integrations that an operator has overridden, by ascending id. Ends no override that is over. */
export async function overriddenLimits(
  framework: Framework,
  { limit }: { readonly limit: number },
): Promise<LimitOfOne[]> {
  const { db, tables } = framework
  if (!framework.config.rate_limiting.overrides_enabled) return []
  const { integrations } = tables
  const { id, provider, rateLimitOverride, rateLimitOverrideUntil } = integrations
  const rows = await db
    .select({ id, provider, rateLimitOverride, rateLimitOverrideUntil })
    .from(integrations)
    .where(
      and(
        isNotNull(rateLimitOverride),
        or(isNull(rateLimitOverrideUntil), gt(rateLimitOverrideUntil, nowOf(framework))),
      ),
    )
    .orderBy(asc(id))
    .limit(limit)
  const standings = await callStandings(framework, rows)
  const views = standings
    .map(({ row, target, state, nowMs }) => ({ integrationId: row.id, ...limitOf(row, target, state, nowMs) }))
    .filter(({ source }) => source === 'override')
  const setters = await settersOf(framework, views)
  return views.map((view) => ({ ...view, ...setters.get(view.integrationId) }))
}

type LimitColumns = Pick<IntegrationRow, 'id' | 'provider' | 'rateLimitOverride' | 'rateLimitOverrideUntil'>

function limitOf(
  row: LimitColumns,
  { rules: { limit: providers, limitOverrides } }: CallTarget,
  state: StoredCallState | undefined,
  nowMs: number,
): OwnLimitView {
  const override = limitOverrides ? limitInForce(row, nowMs) : null
  const limit = override ?? providers
  const suppressedUntil = state?.suppressedUntil ?? null
  return {
    source: override !== null ? 'override' : providers !== null ? 'provider' : 'none',
    limit: limit?.limit ?? null,
    windowSeconds: limit?.seconds ?? null,
    window: limit?.window ?? null,
    used: limit === null ? 0 : unitsUsed(state?.window ?? null, limit, nowMs),
    overrideUntil: override === null ? null : row.rateLimitOverrideUntil,
    setBy: null,
    setAt: null,
    suppressedUntil: suppressedUntil !== null && suppressedUntil > nowMs ? new Date(suppressedUntil) : null,
  }
}

/** Who has set these overrides, and when. An integration is left out where its last act is of another limit: a host's code has set it. */
async function settersOf(
  { db, tables }: Framework,
  views: readonly LimitOfOne[],
): Promise<Map<number, Pick<OwnLimitView, 'setBy' | 'setAt'>>> {
  const ids = views.map(({ integrationId }) => integrationId)
  const acts = await lastActs(db, tables, ids, { kind: 'rate-limit', leftOut: 'shared' })
  return new Map(
    views.flatMap(({ integrationId, limit, windowSeconds, window }) => {
      const act = acts.get(integrationId)
      const isOfIt =
        limit !== null &&
        windowSeconds !== null &&
        window !== null &&
        act?.action === actOfOverride({ limit, seconds: windowSeconds }, window)
      return isOfIt ? [[integrationId, { setBy: act.by, setAt: act.at }] as const] : []
    }),
  )
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
export function storedLimit(limit: Limit): z.output<typeof StoredLimit> {
  const { limit: calls, seconds, window } = Object(limit) as Partial<Limit>
  const isCount = (value: unknown): boolean =>
    Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_INTEGER
  if (!isCount(calls) || !isCount(seconds) || (window !== 'fixed' && window !== 'sliding'))
    throw new InvalidArgumentException(
      'rate limit',
      `a RateLimit of 1 to ${MAX_INTEGER} calls in 1 to ${MAX_INTEGER} seconds is allowed, ${JSON.stringify(limit)} was given`,
    )
  return { limit: Number(calls), windowSeconds: Number(seconds), window }
}

/** The limit that the calls of an integration obey now; null: no limit. */
export function limitNow(framework: Framework, row: IntegrationRow): Limit | null {
  const { limit, limitOverrides } = callTarget(framework, row).rules
  return (limitOverrides ? limitInForce(row, framework.clock.now().getTime()) : null) ?? limit
}

function limitInForce({ rateLimitOverride, rateLimitOverrideUntil }: LimitColumns, nowMs: number): Limit | null {
  if (isOver(rateLimitOverrideUntil, nowMs)) return null
  const { success, data } = StoredLimit.safeParse(rateLimitOverride)
  return success ? { limit: data.limit, seconds: data.windowSeconds, window: data.window } : null
}
