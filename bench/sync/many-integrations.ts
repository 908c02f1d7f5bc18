/** A thousand integrations that are due at the same moment. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Figure } from '../frame.ts'
import { PROVIDER } from './ours.ts'
import type { Stage } from './stage.ts'
import { createIntegration } from './stage.ts'

const INTEGRATIONS = 1_000
const ITEMS = 10
/** Integrations are created so many at a time. */
const CREATED_AT_ONCE = 10
const POLL_MS = 250
const PATIENCE_MS = 300_000

export interface ManyIntegrationsFigures {
  readonly started: Figure
  readonly finalised: Figure
}

export async function measureManyIntegrations(stage: Stage): Promise<ManyIntegrationsFigures> {
  const { integrations, tables } = stage
  const { sql } = tables
  stage.say(`${INTEGRATIONS} integrations with ${ITEMS} items each`)
  await tables.clear()
  // Switched off until all of them are there: the Schedule of the deployment dispatches once a minute.
  let created = 0
  const create = async () => {
    for (; created < INTEGRATIONS; ) {
      created += 1
      await createIntegration(integrations, PROVIDER.scheduled, ITEMS, { isActive: false })
    }
  }
  await Promise.all(Array.from({ length: CREATED_AT_ONCE }, create))
  await sql`analyze integrations`
  await sql`update integrations set is_active = true, switched_off_at = null where provider = ${PROVIDER.scheduled}`

  const startedAt = Date.now()
  await integrations.syncs.dispatch()
  const startedMs = Date.now() - startedAt
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const [row] = await sql<{ synced: number; lastAt: number | null }[]>`
      select count(last_synced_at)::int as synced, extract(epoch from max(last_synced_at))::float8 * 1000 as "lastAt"
      from integrations where provider = ${PROVIDER.scheduled}`
    if (row !== undefined && row.synced >= INTEGRATIONS) {
      await assertAllDone(stage)
      const figure = (name: string, ms: number): Figure => ({
        name: `${INTEGRATIONS} due integrations: ${name}`,
        value: ms / 1_000,
        unit: 's',
      })
      return {
        started: figure('all are started after', startedMs),
        finalised: figure('all are finalised after', (row.lastAt ?? Number.NaN) - startedAt),
      }
    }
    if (performance.now() > deadline)
      throw new Error(`${INTEGRATIONS} should be finalised; found ${JSON.stringify(row)}`)
    await sleep(POLL_MS)
  }
}

async function assertAllDone({ tables: { sql } }: Stage): Promise<void> {
  const [row] = await sql<{ runs: number; clean: number; items: number; done: number }[]>`
    select (select count(*)::int from integration_logs where operation = 'sync') as runs,
           (select count(*)::int from integration_logs where operation = 'sync' and status = 'success') as clean,
           (select count(*)::int from integration_sync_items) as items,
           (select count(*)::int from integration_sync_items where status = 'success') as done`
  const items = INTEGRATIONS * ITEMS
  if (row?.runs !== INTEGRATIONS || row.clean !== INTEGRATIONS || row.items !== items || row.done !== items)
    throw new Error(
      `${INTEGRATIONS} runs with ${ITEMS} items each should have ended well; found ${JSON.stringify(row)}`,
    )
}
