/** How long an override holds. Rule: docs/behaviour/requests.md, "Overrides". */
import { and, eq } from 'drizzle-orm'
import type { Database, Transaction } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import { InvalidArgumentException } from '../../framework/errors.ts'
import { isInstant } from '../../framework/instant.ts'
import type { Integration } from '../../providers/integration.ts'
import { callStates } from '../admission/state-queries.ts'
import { callTarget } from '../call-target.ts'

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
