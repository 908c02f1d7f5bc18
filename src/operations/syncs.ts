/** Starting a run by hand. */
import { IntegrationNotFound, InvalidArgumentException } from '../core/errors.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'
import { hasScheduledSync, requireContract } from '../providers/provider.ts'

/**
 * Starts a run now, due or not. One that is running already goes on; one that has just noted its end may still be telling
 * its listeners, and counts as running until then.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider; InvalidArgumentException when it is switched off
 */
export async function startSyncNow(framework: Framework, id: number): Promise<'started' | 'already running'> {
  const row = await findIntegration(framework.db, framework.tables, id)
  if (row === null) throw new IntegrationNotFound(id)
  if (!row.isActive)
    throw new InvalidArgumentException('integration', `an active one is needed, ${id} is switched off; enable it first`)
  requireContract(row.provider, framework.providers.get(row.provider), hasScheduledSync, 'HasScheduledSync')
  return framework.workflows.startSync(id, row.provider)
}
