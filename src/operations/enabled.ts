/** Switching an integration on and off. Rule: docs/behaviour/integrations.md, "On and off". */
import { IntegrationNotFound } from '../core/errors.ts'
import type { CallEvent } from '../db/queries/calls.ts'
import { lockIntegration, updateIntegration } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'
import type { Integration } from '../providers/integration.ts'
import { hasScheduledSync } from '../providers/provider.ts'
import { recordEvents } from './durable-events.ts'
import { closeIncidents } from './incident-closing.ts'
import { announceChanges } from './request/events.ts'

/**
 * Active, healthy, no failures counted; a scheduled one is due at once. The circuit breaker stays as it is. Health that
 * becomes so is told as a call's would be, and closes an open incident if all else is well.
 *
 * @throws IntegrationNotFound
 */
export async function enableIntegration(framework: Framework, integration: Integration): Promise<void> {
  const { db, tables, providers, clock, workflows } = framework
  const { id } = integration
  const events = await db.transaction(async (tx): Promise<CallEvent[]> => {
    const row = await lockIntegration(tx, tables, id)
    if (row === null) throw new IntegrationNotFound(id)
    const provider = providers.find(row.provider)
    const isScheduled = provider !== null && hasScheduledSync(provider)
    await updateIntegration(tx, tables, id, {
      isActive: true,
      healthStatus: 'healthy',
      consecutiveFailures: 0,
      ...(isScheduled ? { nextSyncAt: clock.now() } : {}),
    })
    const previousStatus = row.healthStatus
    if (previousStatus === 'healthy') return []
    await recordEvents(framework, tx, id, [
      { name: 'IntegrationHealthChanged', payload: { previousStatus, newStatus: 'healthy' } },
    ])
    const closed = await closeIncidents(framework, tx, [row])
    return [{ at: 0, kind: 'health', previous: previousStatus, new: 'healthy' }, ...(closed.get(id) ?? [])]
  })
  // Deliveries that came while its health had it switched off.
  workflows.wakeInbox(id)
  await announceChanges(framework, integration, events)
}

/** Nothing scheduled starts and no webhook is taken; what runs goes on. @throws IntegrationNotFound */
export async function disableIntegration({ db, tables }: Framework, id: number): Promise<void> {
  if ((await updateIntegration(db, tables, id, { isActive: false })) === null) throw new IntegrationNotFound(id)
}
