/** Running, holding and ending syncs by hand. Rule: docs/behaviour/sync-scheduling.md, "By hand". */

import type { Framework } from '../framework/context.ts'
import { requireActive } from '../integrations/enabled.ts'
import { requireIntegration } from '../integrations/queries.ts'
import { hasScheduledSync, requireContract } from '../providers/contracts.ts'
import { endLivingRun } from './cut-short.ts'
import type { SyncProgress } from './sync-jobs.ts'

/**
 * Starts a run now, due or not. One that is running already goes on; one that has just noted its end may still be telling
 * its listeners, and counts as running until then.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, IntegrationInactive
 */
export async function startSyncNow(framework: Framework, id: number): Promise<'started' | 'already running'> {
  const row = await requireIntegration(framework, id)
  requireActive(row)
  requireContract(row.provider, framework.providers.get(row.provider), hasScheduledSync, 'HasScheduledSync')
  return framework.workflows.startSync(id, row.provider)
}

/**
 * Takes nothing new in; what runs goes on. Without a run it keeps one from starting.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, BackendUnreachable
 */
export async function pauseSync(framework: Framework, id: number): Promise<void> {
  const row = await requireIntegration(framework, id)
  requireContract(row.provider, framework.providers.get(row.provider), hasScheduledSync, 'HasScheduledSync')
  await framework.workflows.pauseSync(id, row.provider)
}

/** Ends a pause. @throws IntegrationNotFound, BackendUnreachable */
export async function resumeSync(framework: Framework, id: number): Promise<'resumed' | 'not running'> {
  await requireIntegration(framework, id)
  return (await framework.workflows.resumeSync(id)) ? 'resumed' : 'not running'
}

/** Ends the run and waits until it is over. @throws IntegrationNotFound, BackendUnreachable */
export async function cancelSyncNow(framework: Framework, id: number): Promise<'cancelled' | 'not running'> {
  await requireIntegration(framework, id)
  if (!(await framework.workflows.isSyncRunning(id))) return 'not running'
  await endLivingRun(framework, id)
  return 'cancelled'
}

/** How far the run is; null: none lives. @throws IntegrationNotFound, BackendUnreachable, also when no worker answers */
export async function progressOfSync(framework: Framework, id: number): Promise<SyncProgress | null> {
  await requireIntegration(framework, id)
  return framework.workflows.syncProgress(id)
}
