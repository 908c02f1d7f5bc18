/** Starting a backfill. Rule: docs/behaviour/sync-backfills.md, "Backfills". */

import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException } from '../framework/errors.ts'
import { INSTANT, Instant } from '../framework/instant.ts'
import { requireActive } from '../integrations/enabled.ts'
import { findIntegration } from '../integrations/queries.ts'
import { hasBackfill, requireContract } from '../providers/contracts.ts'
import type { BackfillInput } from './sync-jobs.ts'

const DAY_MS = 86_400_000
/** Ten years, leap days included: a longer window is rather a slip of the pen than a wish. */
const MAX_DAYS = 3_660

/**
 * Starts the one backfill that an integration can have at a time; one that lives already goes on with its own window.
 *
 * @throws IntegrationNotFound, IntegrationInactive, UnknownProvider, UnsupportedByProvider, BackendUnreachable;
 *   InvalidArgumentException for a bad window
 */
export async function startBackfill(
  framework: Framework,
  { integrationId, from, to }: BackfillInput,
): Promise<'started' | 'already running'> {
  const { db, tables, providers, workflows } = framework
  const row = await findIntegration(db, tables, integrationId)
  if (row === null) throw new IntegrationNotFound(integrationId)
  requireContract(row.provider, providers.get(row.provider), hasBackfill, 'HasBackfill')
  requireActive(row)
  return workflows.startBackfill({ integrationId, ...checkedWindow(from, to) }, row.provider)
}

function checkedWindow(from: string, to: string): Pick<BackfillInput, 'from' | 'to'> {
  const [begin, end] = [momentOf('from', from), momentOf('to', to)]
  const days = (end.getTime() - begin.getTime()) / DAY_MS
  if (days <= 0)
    throw new InvalidArgumentException(
      'to',
      `a time after ${begin.toISOString()}, the beginning, is allowed; ${end.toISOString()} was given`,
    )
  if (days > MAX_DAYS)
    throw new InvalidArgumentException(
      'to',
      `at most ${MAX_DAYS} days after the beginning are allowed, ${Math.ceil(days)} were given`,
    )
  return { from: begin.toISOString(), to: end.toISOString() }
}

function momentOf(argument: string, text: unknown): Date {
  const moment = Instant.safeParse(text)
  if (moment.success) return moment.data
  throw new InvalidArgumentException(argument, `${INSTANT}, is allowed; ${JSON.stringify(text)} was given`)
}
