/** A backlog of events of deliveries of many, and of events in order, beside the same backlog of single deliveries. */
import type { Contender, Figure } from '../frame.ts'
import { inTurn } from '../frame.ts'
import { BODY, EVENT_TYPE, ID_TOKEN } from './delivery.ts'
import type { Stage } from './stage.ts'
import { createIntegration, wallClock } from './stage.ts'
import { HEADERS } from './tables.ts'

/** Keys of the ordered backlog. */
const KEYS = 200

export interface PartsAndOrderFigures {
  readonly single: Figure
  readonly of1: Figure
  readonly of100: Figure
  readonly of1000: Figure
  readonly ordered: Figure
}

export async function measurePartsAndOrder({
  tables,
  integrations,
  lengths,
  say,
}: Omit<Stage, 'worker' | 'queues'>): Promise<PartsAndOrderFigures> {
  const { sql } = tables
  const { id } = await createIntegration(integrations)
  const drained = (name: string, fill: () => Promise<unknown>): Contender => ({
    name,
    async measure() {
      await tables.clear()
      await sql`truncate integration_deliveries cascade`
      await fill()
      await sql`analyze integration_webhooks, integration_deliveries`
      await sql`checkpoint`
      const startedAt = wallClock()
      await integrations.webhooks.wakePending()
      await tables.untilProcessed('ours', lengths.backlog)
      return lengths.backlog / (((await tables.lastProcessedAtMs('ours')) - startedAt) / 1_000)
    },
  })
  const parts = (size: number) => () =>
    sql`
    with whole as (
      insert into integration_deliveries (integration_id, delivery_id, payload, headers, parts)
      select ${id}, 'whole ' || n, '[]', ${sql.json(HEADERS)}, ${size}
      from generate_series(0, ${Math.ceil(lengths.backlog / size) - 1}) n returning id, delivery_id
    )
    insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers, part_of, part)
    select ${id}, name, ${EVENT_TYPE}, replace(${BODY}, ${ID_TOKEN}, name), '{}', whole.id, (n - 1) % ${size} + 1
    from generate_series(1, ${lengths.backlog}) n
    cross join lateral (select 'evt_' || lpad(n::text, ${ID_TOKEN.length - 4}, '0') as name) named
    join whole on whole.delivery_id = 'whole ' || (n - 1) / ${size}
    order by n`
  const contenders = [
    drained('single', () => tables.fill('ours', [id], lengths.backlog)),
    drained('of 1', parts(1)),
    drained('of 100', parts(100)),
    drained('of 1,000', parts(1_000)),
    drained(
      'in order',
      () => sql`
      insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers, ordering_key, coalesces, key_turn)
      select ${id}, name, ${EVENT_TYPE}, replace(${BODY}, ${ID_TOKEN}, name), ${sql.json(HEADERS)}, 'key ' || n % ${KEYS}, false, n <= ${KEYS}
      from generate_series(1, ${lengths.backlog}) n
      cross join lateral (select 'evt_' || lpad(n::text, ${ID_TOKEN.length - 4}, '0') as name) named
      order by n`,
    ),
  ]
  say(`backlog of ${lengths.backlog}: ${contenders.map(({ name }) => name).join(', ')}`)
  const medians = await inTurn(contenders, lengths.rounds)
  const figure = (name: string, contender: string): Figure => ({
    name: `process: ${name}`,
    value: medians.get(contender) as number,
    unit: 'webhooks/s',
  })
  return {
    single: figure('single deliveries', 'single'),
    of1: figure('events of deliveries of 1', 'of 1'),
    of100: figure('events of deliveries of 100', 'of 100'),
    of1000: figure('events of deliveries of 1,000', 'of 1,000'),
    ordered: figure(`in order, ${KEYS} keys`, 'in order'),
  }
}
