/** Promises that hold at every moment: looked at while the campaign is at work, in one statement each. */
import { setTimeout as sleep } from 'node:timers/promises'
import { checkpointOf } from '../sync-plan.ts'
import type { CampaignStack } from './stack.ts'

const LOOK_EVERY_MS = 2_000

export interface Watched {
  looks: number
  /** Deliveries of many with a part missing. */
  readonly torn: Set<string>
  /** Cursors that have passed an entry without its effect. */
  readonly passed: Set<string>
}

export async function watch(stack: CampaignStack, watched: Watched, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    // Postgres may be away.
    await lookOnce(stack, watched).catch(() => {})
    await sleep(LOOK_EVERY_MS)
  }
}

export async function lookOnce({ sql }: Pick<CampaignStack, 'sql'>, watched: Watched): Promise<void> {
  const torn = await sql<{ delivery_id: string; parts: number; there: number }[]>`
    select d.delivery_id, d.parts, count(w.id)::int as there
    from integration_deliveries d left join integration_webhooks w on w.part_of = d.id
    group by d.id having count(w.id) <> d.parts`
  for (const row of torn) watched.torn.add(`${row.delivery_id}: ${row.there} of ${row.parts} are there`)
  const passed = await sql<{ integration: number; stream: string; cursor: string; done: number; entries: number }[]>`
    select * from (
      select s.integration_id::int as integration, s.stream, s.sync_cursor #>> '{}' as cursor, e.done,
        extract(epoch from (s.sync_cursor #>> '{}')::timestamptz - ${checkpointOf(0)}::timestamptz)::int as entries
      from integration_streams s, lateral (
        select count(*)::int as done from entry_effects e
        where e.integration = s.integration_id and e.stream = s.stream
          and e.n <= extract(epoch from (s.sync_cursor #>> '{}')::timestamptz - ${checkpointOf(0)}::timestamptz)) e
      where s.sync_cursor is not null and s.sync_cursor <> 'null') looked
    where done <> entries`
  for (const row of passed) watched.passed.add(JSON.stringify(row))
  watched.looks += 1
}
