/** Switching an integration on and off. Rule: docs/behaviour/integrations.md, "On and off". */
import { IntegrationNotFound } from '../core/errors.ts'
import { findIntegration, updateIntegration } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'
import { hasScheduledSync } from '../providers/provider.ts'

/**
 * Active, healthy, no failures counted; a scheduled one is due at once. The circuit breaker stays as it is.
 *
 * @throws IntegrationNotFound
 */
export async function enableIntegration(framework: Framework, id: number): Promise<void> {
  const { db, tables, providers, clock, workflows } = framework
  const row = await findIntegration(db, tables, id)
  const provider = row === null ? null : providers.find(row.provider)
  const isScheduled = provider !== null && hasScheduledSync(provider)
  const changed = await updateIntegration(db, tables, id, {
    isActive: true,
    healthStatus: 'healthy',
    consecutiveFailures: 0,
    ...(isScheduled ? { nextSyncAt: clock.now() } : {}),
  })
  if (changed === null) throw new IntegrationNotFound(id)
  // Deliveries that came while its health had it switched off.
  workflows.wakeInbox(id)
}

/** Nothing scheduled starts and no webhook is taken; what runs goes on. @throws IntegrationNotFound */
export async function disableIntegration({ db, tables }: Framework, id: number): Promise<void> {
  if ((await updateIntegration(db, tables, id, { isActive: false })) === null) throw new IntegrationNotFound(id)
}
