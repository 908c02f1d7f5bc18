/** A thousand integrations that are due at the same moment, with one stream each or with several. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Figure } from '../frame.ts'
import type { ProviderKey } from './ours.ts'
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

/** @param streams of the provider, each with its own items */
export async function measureManyIntegrations(
  stage: Stage,
  provider: ProviderKey = PROVIDER.scheduled,
  streams = 1,
): Promise<ManyIntegrationsFigures> {
  const { integrations, tables } = stage
  const { sql } = tables
  const runs = INTEGRATIONS * streams
  stage.say(`${INTEGRATIONS} integrations with ${streams} x ${ITEMS} items each`)
  await tables.clear()
  // Those of an earlier turn would be due again.
  await sql`truncate integrations cascade`
  // Switched off until all of them are there: the Schedule of the deployment dispatches once a minute.
  let created = 0
  const create = async () => {
    for (; created < INTEGRATIONS; ) {
      created += 1
      await createIntegration(integrations, provider, ITEMS, { isActive: false })
    }
  }
  await Promise.all(Array.from({ length: CREATED_AT_ONCE }, create))
  await sql`analyze integrations`
  await sql`update integrations set is_active = true, switched_off_at = null where provider = ${provider}`

  const streamsOf = sql`integration_streams where integration_id in (select id from integrations where provider = ${provider})`
  const startedAt = Date.now()
  await integrations.syncs.dispatch()
  const startedMs = Date.now() - startedAt
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const [row] = await sql<{ synced: number; lastAt: number | null }[]>`
      select count(last_synced_at)::int as synced, extract(epoch from max(last_synced_at))::float8 * 1000 as "lastAt"
      from ${streams === 1 ? sql`integrations where provider = ${provider}` : streamsOf}`
    if (row !== undefined && row.synced >= runs) {
      await assertAllDone(stage, runs)
      const figure = (name: string, ms: number): Figure => ({
        name: `${INTEGRATIONS} due integrations${streams === 1 ? '' : ` with ${streams} streams`}: ${name}`,
        value: ms / 1_000,
        unit: 's',
      })
      return {
        started: figure('all are started after', startedMs),
        finalised: figure('all are finalised after', (row.lastAt ?? Number.NaN) - startedAt),
      }
    }
    if (performance.now() > deadline) throw new Error(`${runs} should be finalised; found ${JSON.stringify(row)}`)
    await sleep(POLL_MS)
  }
}

async function assertAllDone({ tables: { sql } }: Stage, runs: number): Promise<void> {
  const [row] = await sql<{ runs: number; clean: number; items: number; done: number }[]>`
    select (select count(*)::int from integration_logs where operation = 'sync') as runs,
           (select count(*)::int from integration_logs where operation = 'sync' and status = 'success') as clean,
           (select count(*)::int from integration_sync_items) as items,
           (select count(*)::int from integration_sync_items where status = 'success') as done`
  const items = runs * ITEMS
  if (row?.runs !== runs || row.clean !== runs || row.items !== items || row.done !== items)
    throw new Error(`${runs} runs with ${ITEMS} items each should have ended well; found ${JSON.stringify(row)}`)
}
