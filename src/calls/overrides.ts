/** Looking at and overriding the circuit breaker, and what it shares with overrides of the rate limit. Rule: docs/behaviour/requests.md, "Overrides". */
import { and, eq } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { despiteDeadlocks } from '../db/client.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { DurableEvent } from '../events/durable-events.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException } from '../framework/errors.ts'
import { isInstant } from '../framework/instant.ts'
import { integrationLogger } from '../framework/logger.ts'
import { closeIncidents } from '../incidents/queries.ts'
import { requireIntegration, updateIntegration } from '../integrations/queries.ts'
import type { CircuitView, Integration } from '../providers/integration.ts'
import type { CallTarget } from './admission/call-queries.ts'
import { endLease } from './admission/call-state.ts'
import type { StoredCallState } from './admission/state-queries.ts'
import { callStates, lockCallState, storeCallState } from './admission/state-queries.ts'
import type { BreakerState, CircuitOverride } from './admission/state-rules.ts'
import { CLOSED_BREAKER, failuresCounted, resetBreaker } from './admission/state-rules.ts'
import { announceChanges } from './call-events.ts'
import { callTarget } from './call-target.ts'

const OVERRIDES: readonly unknown[] = ['forced_open', 'forced_closed', 'disabled'] satisfies CircuitOverride[]

type CircuitColumns = Pick<IntegrationRow, 'id' | 'provider' | 'circuitOverride' | 'circuitOverrideUntil'>

/** Clears an override that is over. @throws IntegrationNotFound */
export async function circuitView(framework: Framework, integrationId: number): Promise<CircuitView> {
  const { row, target, state, now } = await currentState(framework, integrationId)
  const until = row.circuitOverrideUntil
  if (until === null || !isOver(until, now)) return circuitOf(row, target, state, now)
  await endOverride(framework, row, target, until)
  const { states } = await callStates(framework.db, framework.tables, [target.key])
  return circuitOf(row, target, states[target.key], now)
}

/** As the first admission after its end would: the columns are cleared, and the breaker is its own again, closed and empty. */
async function endOverride(
  { db, tables }: Framework,
  { id, circuitOverride }: CircuitColumns,
  { key, rules }: CallTarget,
  until: Date,
): Promise<void> {
  const wasObeyed = rules.circuitOverrides && OVERRIDES.includes(circuitOverride)
  await despiteDeadlocks(() =>
    db.transaction(async (tx) => {
      const state = await lockCallState(tx, tables, id, key)
      const isCleared = await clearExpiredOverride(tx, tables, 'circuit', id, until)
      if (state !== null && isCleared && wasObeyed)
        await storeCallState(tx, tables, key, { ...state, breaker: resetBreaker(breakerOf(state)) })
    }),
  )
}

/** How the breakers of these rows stand, by the integration's id: one question for all of them. */
export async function circuitsOf(
  framework: Framework,
  rows: readonly CircuitColumns[],
): Promise<Map<number, CircuitView>> {
  const standings = await callStandings(framework, rows)
  return new Map(standings.map(({ row, target, state, nowMs }) => [row.id, circuitOf(row, target, state, nowMs)]))
}

/** What the calls of these integrations share, read at once. */
export async function callStandings<Row extends Parameters<typeof callTarget>[1]>(
  framework: Framework,
  rows: readonly Row[],
) {
  const targets = rows.map((row) => ({ row, target: callTarget(framework, row) }))
  const { nowMs, states } = await callStates(
    framework.db,
    framework.tables,
    targets.map(({ target }) => target.key),
  )
  return targets.map(({ row, target }) => ({ row, target, state: states[target.key], nowMs: target.nowMs ?? nowMs }))
}

function circuitOf(
  row: CircuitColumns,
  { rules: { breaker: settings, circuitOverrides } }: CallTarget,
  state: StoredCallState | undefined,
  nowMs: number,
): CircuitView {
  const override = circuitOverrides ? circuitInForce(row, nowMs) : null
  const breaker = state?.breaker ?? CLOSED_BREAKER
  const isObeyed = override === null && settings.enabled
  const isOpen = isObeyed && breaker.state === 'open'
  const { failures, ratePercent } = failuresCounted(breaker, settings, nowMs)
  const openedAt = isObeyed ? breaker.openedAt : null
  return {
    override,
    overrideUntil: override === null ? null : row.circuitOverrideUntil,
    state: isObeyed ? breaker.state : override === 'forced_open' ? 'open' : 'closed',
    failures,
    failureRate: ratePercent,
    openedAt: openedAt === null ? null : new Date(openedAt),
    retryAt: isOpen ? new Date(probeMs(breaker.openedAt ?? nowMs, settings.cooldownSeconds * 1_000, nowMs)) : null,
  }
}

/** As admit_calls has it: at once where a clock that had jumped ahead has opened it. */
function probeMs(openedAt: number, cooldownMs: number, nowMs: number): number {
  return openedAt - nowMs >= cooldownMs ? nowMs : openedAt + cooldownMs
}

/**
 * Forces the breaker, switches it off, or gives it back to itself; it is then closed and empty, also where an override ends by
 * itself. Calls under way no longer count. Where overrides are switched off, it is stored and has no effect.
 *
 * @throws InvalidArgumentException, IntegrationNotFound; then nothing has changed
 */
export async function overrideCircuit(
  framework: Framework,
  integration: Integration,
  to: CircuitOverride | null,
  until?: Date,
): Promise<void> {
  const { db, tables, config, listeners } = framework
  if (to !== null && !OVERRIDES.includes(to))
    throw new InvalidArgumentException(
      'circuit override',
      `${OVERRIDES.join(', ')} and null are allowed, ${String(to)} was given`,
    )
  const nowMs = await checkUntil(framework, integration, to, until)
  const { key } = callTarget(framework, integration)
  const isObeyed = config.circuit_breaker.overrides_enabled
  const closed = await despiteDeadlocks(() =>
    db.transaction(async (tx) => {
      const state = await lockCallState(tx, tables, integration.id, key)
      const patch = { circuitOverride: to, circuitOverrideUntil: until ?? null }
      if (state === null || (await updateIntegration(tx, tables, integration.id, patch)) === null)
        throw new IntegrationNotFound(integration.id)
      if (!isObeyed) return null
      await storeCallState(tx, tables, key, { ...state, breaker: resetBreaker(breakerOf(state)) })
      await recordEvents(framework, tx, integration.id, eventsOfOverride(to, nowMs))
      // The breaker is closed now, and no override holds it: nothing else might ever close the incident that it had opened.
      return to === null ? await closeIncidents(framework, tx, [integration.id]) : null
    }),
  )
  endLease(framework, integration.id)
  await announceChanges(framework, integration, closed?.get(integration.id) ?? [])
  if (!isObeyed) {
    if (to !== null)
      integrationLogger(framework, integration).warn(
        { event: 'circuit.override_idle', override: to },
        'circuit_breaker.overrides_enabled is false: the override is stored, and nothing obeys it',
      )
    return
  }
  if (to === 'forced_open')
    await listeners.emit('CircuitOpened', { integration, reason: to, openedAt: new Date(nowMs) })
  if (to === 'forced_closed') await listeners.emit('CircuitClosed', { integration, reason: to })
}

function eventsOfOverride(to: CircuitOverride | null, nowMs: number): DurableEvent[] {
  if (to === 'forced_open') return [{ name: 'CircuitOpened', payload: { reason: to, openedAt: new Date(nowMs) } }]
  if (to === 'forced_closed') return [{ name: 'CircuitClosed', payload: { reason: to } }]
  return []
}

function breakerOf({ breaker }: StoredCallState): BreakerState {
  return breaker ?? CLOSED_BREAKER
}

function circuitInForce(
  { circuitOverride, circuitOverrideUntil }: CircuitColumns,
  nowMs: number,
): CircuitOverride | null {
  const isKnown = OVERRIDES.includes(circuitOverride)
  return isKnown && !isOver(circuitOverrideUntil, nowMs) ? (circuitOverride as CircuitOverride) : null
}

/** The row, what the statements of calls need of it, and their shared state now. @throws IntegrationNotFound */
export async function currentState(framework: Framework, integrationId: number) {
  const row = await requireIntegration(framework, integrationId)
  const target = callTarget(framework, row)
  const { nowMs, states } = await callStates(framework.db, framework.tables, [target.key])
  return { row, target, state: states[target.key], now: target.nowMs ?? nowMs }
}

/** An override is in force before its end. Null: it has no end. */
export function isOver(until: Date | null, nowMs: number): boolean {
  return until !== null && nowMs >= until.getTime()
}

/**
 * The moment now, by the clock that judges overrides.
 *
 * @throws InvalidArgumentException unless the end, if there is one, lies ahead and ends something
 */
export async function checkUntil(
  framework: Framework,
  integration: Integration,
  override: unknown,
  until: Date | undefined,
): Promise<number> {
  const { nowMs } = callTarget(framework, integration)
  const now = nowMs ?? (await callStates(framework.db, framework.tables, [])).nowMs
  if (until === undefined) return now
  if (override === null)
    throw new InvalidArgumentException('until', 'an end goes with an override; there is none to end')
  if (!isInstant(until) || until.getTime() <= now)
    throw new InvalidArgumentException(
      'until',
      `a moment after ${new Date(now).toISOString()} and before the year 10000 is allowed, ${shown(until)} was given`,
    )
  return now
}

function shown(until: unknown): string {
  if (!(until instanceof Date)) return String(until)
  return Number.isNaN(until.getTime()) ? 'an invalid date' : until.toISOString()
}

/** Clears an override that is over. False: another one has been set since, or it was cleared. */
export async function clearExpiredOverride(
  db: Database | Transaction,
  { integrations }: Tables,
  what: 'circuit' | 'rateLimit',
  id: number,
  until: Date,
): Promise<boolean> {
  const cleared = await db
    .update(integrations)
    .set({ [`${what}Override`]: null, [`${what}OverrideUntil`]: null })
    .where(and(eq(integrations.id, id), eq(integrations[`${what}OverrideUntil`], until)))
    .returning({ id: integrations.id })
  return cleared.length > 0
}
