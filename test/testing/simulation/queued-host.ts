/** A host that does its work in a queued listener: it counts the deliveries of a shop. */
import assert from 'node:assert/strict'
import type { SimulatedHost } from 'durable-integrations/testing'
import { defineScenario } from 'durable-integrations/testing'
import { Shop } from './shop.ts'
import { deliveringProvider, INTEGRATION } from './shop-provider.ts'

const TABLES = `
  create table heard (webhook_id int primary key);
  create table totals (what text primary key, n int not null)`

export type QueuedBug = 'counts twice in a queued listener' | 'a queued listener that always throws'

export function queuedHost(bug?: QueuedBug) {
  return defineScenario({
    integration: INTEGRATION,
    tables: TABLES,
    outside: (world) => new Shop(world, { sends: true }),
    host: () => ({ providers: { shop: deliveringProvider() } }),
    register({ integrations, sql }) {
      const count = async (on: SimulatedHost['sql']): Promise<void> =>
        void (await on`insert into totals values ('heard', 1) on conflict (what) do update set n = totals.n + 1`)
      const hear = async (on: SimulatedHost['sql'], webhookId: number): Promise<boolean> =>
        (await on`insert into heard values (${webhookId}) on conflict do nothing returning webhook_id`).length > 0
      integrations.on(
        'WebhookReceived',
        async function countDelivery({ webhookId }) {
          if (bug === 'a queued listener that always throws') throw new Error('a bug of the host')
          if (bug === 'counts twice in a queued listener') {
            await count(sql)
            await hear(sql, webhookId)
          } else
            await sql.begin(async (tx) => {
              const on = tx as unknown as SimulatedHost['sql']
              if (await hear(on, webhookId)) await count(on)
            })
        },
        { queued: true },
      )
    },
    invariants: {
      'each delivery is counted once': async ({ sql }) => {
        const [total] = await sql`select n from totals`
        const [received] = await sql`select count(*)::int as n from heard`
        assert.equal(total?.n ?? 0, received?.n)
      },
    },
  })
}
