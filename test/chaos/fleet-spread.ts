/** Gives the workers of a fleet something to do, and tells which of them did how much of it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SpreadStack } from './fleet-spread-stack.ts'

const POLL_MS = 50
const DONE_WITHIN_MS = 240_000

export interface Load {
  readonly of: 'items' | 'webhooks'
  /** 5 ms of a core, or 20 ms of waiting. */
  readonly work: 'computes' | 'waits'
  readonly integrations: number
  /** Of each integration. */
  readonly rows: number
}

export interface Spread {
  /** How many handlers or listeners ran, by worker; 0 for one that had none. */
  readonly shares: Readonly<Record<string, number>>
  /** From the first rows that were done to the last. */
  readonly seconds: number
}

export async function measureSpread(stack: SpreadStack, load: Load): Promise<Spread> {
  const { sql } = stack
  const ids = await create(stack, load)
  await start(stack, load, ids)
  const rows = load.integrations * load.rows
  const giveUpAt = performance.now() + DONE_WITHIN_MS
  for (;;) {
    const done = await sql<{ member: string; count: number; first: number; last: number }[]>`
      select member, sum(count)::int as count, extract(epoch from min(at))::float8 as first,
        extract(epoch from max(at))::float8 as last
      from ran where integration_id in ${sql(ids)} group by member`
    const count = done.reduce((sum, row) => sum + row.count, 0)
    if (count >= rows) {
      const shares = Object.fromEntries(stack.workers.map((name) => [name, 0]))
      for (const row of done) shares[row.member] = row.count
      const seconds = Math.max(...done.map(({ last }) => last)) - Math.min(...done.map(({ first }) => first))
      return { shares, seconds: Math.round(seconds * 10) / 10 }
    }
    if (performance.now() > giveUpAt) throw new Error(`${count} of ${rows} ${load.of} were done`)
    await sleep(POLL_MS)
  }
}

async function create({ integrations }: SpreadStack, { of, work, integrations: many, rows }: Load): Promise<number[]> {
  const provider = of === 'items' ? 'listed' : 'hooks'
  const metadata = { work, entries: rows }
  const ids: number[] = []
  for (let n = 1; n <= many; n += 1)
    ids.push((await integrations.create({ provider, name: `${of} ${work} ${n}`, credentials: {}, metadata })).id)
  return ids
}

/** Webhooks lie there before anybody is woken, as after a while without workers. */
async function start({ integrations, sql }: SpreadStack, { of, rows }: Load, ids: readonly number[]): Promise<void> {
  if (of === 'items') {
    for (const id of ids) await integrations.syncs.start(id)
    return
  }
  await sql`
    insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers)
    select id, id || '-' || n, 'thing.changed', '{}', '{"content-type": ["application/json"]}'
    from integrations, generate_series(1, ${rows}) as n where id in ${sql(ids)}`
  await integrations.webhooks.wakePending()
}
