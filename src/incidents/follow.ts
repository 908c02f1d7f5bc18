/** What an incident's workflow and pruning do with it. Rule: docs/behaviour/incidents.md. */

import { announceChanges } from '../calls/call-events.ts'
import type { Transaction } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { findIntegration } from '../integrations/queries.ts'
import type { IncidentSight } from './incident-jobs.ts'
import { closeIncidents, seeIncident, unfollowedIncidents } from './queries.ts'

const DAY_SECONDS = 86_400
/** Its workflow looks at an open incident at least once a day; two hours later it must have been lost. */
const LOST_AFTER_SECONDS = 26 * 3_600
/** At once: the next dispatch, a minute later, takes the rest. */
const MAX_REWOKEN = 1_000

/**
 * Closes the open incident of an integration if it is older than `pruning.incidents_stale_after_days` and all is well: for its
 * workflow's timer and for pruning alike. Of two at once one closes it and tells.
 *
 * @param also what belongs to the closing, in its transaction
 * @returns whether it closed one
 */
export async function autoCloseIncident(
  framework: Framework,
  integrationId: number,
  also: (tx: Transaction) => Promise<void> = async () => {},
): Promise<boolean> {
  const { db, tables } = framework
  const row = await findIntegration(db, tables, integrationId)
  if (row === null) return false
  const closed = await db.transaction(async (tx) => {
    const changes = await closeIncidents(framework, tx, [integrationId], autoCloseSeconds(framework))
    if (changes.size > 0) await also(tx)
    return changes
  })
  const events = closed.get(integrationId)
  if (events === undefined) return false
  await announceChanges(framework, integrationHandle(framework, row), events)
  return true
}

/** The newest incident of an integration, noted as seen by its workflow; null: there is none. */
export async function lookAtIncident(framework: Framework, integrationId: number): Promise<IncidentSight | null> {
  return seeIncident(framework.db, framework.tables, integrationId, {
    autoCloseSeconds: autoCloseSeconds(framework),
    nowMs: givenNowMs(framework),
  })
}

/** Signals the workflows of incidents whose change they have not seen: the process that made it died before its signal. */
export async function rewakeIncidents(framework: Framework): Promise<number> {
  const { db, tables, workflows } = framework
  const lost = await unfollowedIncidents(db, tables, {
    sinceSeconds: LOST_AFTER_SECONDS,
    limit: MAX_REWOKEN,
    nowMs: givenNowMs(framework),
  })
  for (const { integrationId, isOpen } of lost)
    workflows.followIncident(integrationId, isOpen ? 'escalate' : 'recovered')
  return lost.length
}

function autoCloseSeconds({ config }: Framework): number {
  return config.pruning.incidents_stale_after_days * DAY_SECONDS
}
