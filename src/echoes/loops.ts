/** Opens and closes the incidents of loops. Rule: docs/behaviour/echoes.md, "Loops". */
import { announceChanges } from '../calls/call-events.ts'
import type { Framework } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import type { IncidentCause } from '../incidents/queries.ts'
import { closeIncidents, openIncidents } from '../incidents/queries.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { integrationsById, lockIntegration } from '../integrations/queries.ts'
import type { Integration } from '../providers/integration.ts'
import type { LoopRule } from './written-record-queries.ts'
import { markLoop, unmarkLoops } from './written-record-queries.ts'

const ECHO_LOOP: IncidentCause = { source: 'echo', reason: 'echo_loop', severity: 'degraded' }
/** Of one evaluation: the next one, a minute later, takes the rest. */
const MAX_ENDED = 1_000

export function loopRule({ config: { observability } }: Framework): LoopRule {
  return { writes: observability.echo_loop_writes, windowSeconds: observability.echo_loop_window }
}

/** Marks the record and opens the incident, in one transaction. Of several processes one does. */
export async function openLoop(framework: Framework, integration: Integration, key: string): Promise<void> {
  const { db, tables } = framework
  const events = await db.transaction(async (tx) => {
    const row = await lockIntegration(tx, tables, integration.id)
    if (row === null || !(await markLoop(tx, tables, integration.id, key))) return null
    return (await openIncidents(framework, tx, ECHO_LOOP, [row])).get(integration.id) ?? []
  })
  if (events === null) return
  const { writes, windowSeconds } = loopRule(framework)
  integrationLogger(framework, integration).warn(
    { event: 'echo.loop', record: key, writes, window_seconds: windowSeconds },
    'a record is written again and again, each time in answer to a change of the same record',
  )
  await announceChanges(framework, integration, events)
}

/** Takes the marks from loops that have ended, and closes incidents that nothing else keeps open. Harmless to repeat. */
export async function closeEndedLoops(framework: Framework): Promise<number> {
  const { db, tables } = framework
  const closed = await db.transaction(async (tx) => {
    const ids = await unmarkLoops(tx, tables, loopRule(framework), MAX_ENDED)
    return { ids, events: await closeIncidents(framework, tx, ids) }
  })
  const rows = await integrationsById(db, tables, closed.ids)
  for (const [id, row] of rows) {
    integrationLogger(framework, row).info(
      { event: 'echo.loop_ended' },
      'a record is no longer written again and again',
    )
    await announceChanges(framework, integrationHandle(framework, row), closed.events.get(id) ?? [])
  }
  return closed.ids.length
}
