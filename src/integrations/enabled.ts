/** Switching an integration on and off. Rule: docs/behaviour/integrations.md, "On and off". */

import { eq } from 'drizzle-orm'
import type { CallEvent } from '../calls/admission/call-queries.ts'
import { announceChanges } from '../calls/call-events.ts'
import type { Transaction } from '../db/client.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationInactive, IntegrationNotFound } from '../framework/errors.ts'
import { closeIncidents } from '../incidents/queries.ts'
import type { Integration } from '../providers/integration.ts'
import { canSync } from '../providers/streams.ts'
import { noteSwitch } from '../subscriptions/switch.ts'
import { DUE_NOW, requireLocked, switchedOff, updateIntegration } from './queries.ts'
import { switchedOffBy } from './rules.ts'

/**
 * Active, healthy, no failures counted; a scheduled one is due at once. The circuit breaker stays as it is. A change of health
 * is announced as a call's would be, and closes an open incident if all else is well.
 *
 * @throws IntegrationNotFound
 */
export async function enableIntegration(framework: Framework, integration: Integration): Promise<void> {
  const { db, tables } = framework
  const enabled = await db.transaction(async (tx) => {
    return enableLocked(framework, tx, await requireLocked(tx, tables, integration.id))
  })
  await tellEnabled(framework, integration, enabled)
}

export interface Enabled {
  readonly row: IntegrationRow
  /** To be announced once the transaction is committed. */
  readonly events: readonly CallEvent[]
  /** Its webhook subscription is to be looked at then. */
  readonly hasSubscription: boolean
}

export async function enableLocked(framework: Framework, tx: Transaction, before: IntegrationRow): Promise<Enabled> {
  const { tables, providers } = framework
  const { id, healthStatus: previousStatus } = before
  const provider = providers.find(before.provider)
  const isScheduled = provider !== null && canSync(provider)
  const row = await updateIntegration(tx, tables, id, {
    isActive: true,
    switchedOffAt: null,
    healthStatus: 'healthy',
    consecutiveFailures: 0,
    ...(isScheduled ? DUE_NOW : {}),
  })
  if (row === null) throw new IntegrationNotFound(id)
  await tx.update(tables.streams).set(DUE_NOW).where(eq(tables.streams.integrationId, id))
  const hasSubscription = await noteSwitch(framework, tx, row)
  if (previousStatus === 'healthy') return { row, events: [], hasSubscription }
  await recordEvents(framework, tx, id, [
    { name: 'IntegrationHealthChanged', payload: { previousStatus, newStatus: 'healthy' } },
  ])
  const closed = await closeIncidents(framework, tx, [before.id])
  const healed: CallEvent = { at: 0, kind: 'health', previous: previousStatus, new: 'healthy' }
  return { row, events: [healed, ...(closed.get(id) ?? [])], hasSubscription }
}

export async function tellEnabled(
  framework: Framework,
  integration: Integration,
  { events, hasSubscription }: Pick<Enabled, 'events' | 'hasSubscription'>,
): Promise<void> {
  framework.integrationsChanged.set(integration.provider, performance.now())
  if (hasSubscription) framework.workflows.keepWebhookSubscription(integration.id)
  // Takes up the deliveries that came while its health had switched it off.
  framework.workflows.wakeInbox()
  await announceChanges(framework, integration, events)
}

/**
 * Nothing scheduled starts and no webhook is taken, until a person enables it again. Running work goes on. Health stays as it is.
 *
 * @throws IntegrationNotFound
 */
export async function disableIntegration(framework: Framework, id: number): Promise<void> {
  const { db, tables, workflows } = framework
  const { provider, hasSubscription } = await db.transaction(async (tx) => {
    const row = await updateIntegration(tx, tables, id, switchedOff(tables))
    if (row === null) throw new IntegrationNotFound(id)
    return { provider: row.provider, hasSubscription: await noteSwitch(framework, tx, row) }
  })
  framework.integrationsChanged.set(provider, performance.now())
  if (hasSubscription) workflows.keepWebhookSubscription(id)
}

/** @throws IntegrationInactive */
export function requireActive(row: IntegrationRow): void {
  const by = switchedOffBy(row)
  if (by !== null) throw new IntegrationInactive(row.id, by)
}
