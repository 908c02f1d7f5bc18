/** Brings an integration to rest before its rows are taken away. Rule: docs/behaviour/integrations.md, "Deletion" and "Erasure". */
import { IntegrationBusy, IntegrationNotFound } from '../core/errors.ts'
import { findIntegration, switchedOff, updateIntegration } from '../db/queries/integrations.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'

/**
 * Switches it off, so that no delivery is taken and no run opens, and ends what runs. A run that begins between the
 * question and the switch was not there when the caller asked: it is ended, too.
 *
 * @param force ends a living run instead of refusing
 * @param more what changes in the row together with the switch
 * @throws IntegrationNotFound, IntegrationBusy; BackendUnreachable when Temporal can't say whether a run lives. Then
 *   nothing has changed
 */
export async function bringToRest(
  { db, tables, workflows }: Framework,
  id: number,
  { force, more = () => ({}) }: { force: boolean; more?: () => Partial<Pick<IntegrationRow, 'credentials'>> },
): Promise<IntegrationRow> {
  if ((await findIntegration(db, tables, id)) === null) throw new IntegrationNotFound(id)
  // Asked in any case: when Temporal is away, this must be known before anything changes.
  const isRunning = await workflows.isSyncRunning(id)
  if (isRunning && !force) throw new IntegrationBusy(id)
  const row = await updateIntegration(db, tables, id, { ...switchedOff(tables), ...more() })
  if (row === null) throw new IntegrationNotFound(id)
  await workflows.cancelSync(id)
  return row
}
