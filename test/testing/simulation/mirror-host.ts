/** Hosts that keep the orders of a shop: by syncs alone, by deliveries alone, and by both. */
import assert from 'node:assert/strict'
import type { SimulatedHost, SimulationEnd } from 'durable-integrations/testing'
import { defineScenario } from 'durable-integrations/testing'
import { Shop } from './shop.ts'
import type { ListedOrder, ListingBug } from './shop-provider.ts'
import {
  deliveringProvider,
  get,
  INTEGRATION,
  listingProvider,
  mirroredProvider,
  Order,
  OrderChanged,
  OrderSynced,
} from './shop-provider.ts'

const TABLES = `
  create table orders (id text primary key, title text not null, version int not null, is_deleted boolean not null);
  create table runs (name text primary key)`

async function mirrorEqualsShop({ outside, sql }: SimulationEnd<Shop>): Promise<void> {
  const mirror = await sql`select id, title from orders where not is_deleted order by id`
  assert.deepEqual([...mirror], outside.present)
}

async function store({ sql }: SimulatedHost, { id, title, version, is_deleted }: ListedOrder): Promise<void> {
  await sql`insert into orders ${sql({ id, title, version, is_deleted })}
    on conflict (id) do update set title = excluded.title, version = excluded.version, is_deleted = excluded.is_deleted
    where orders.version <= excluded.version`
}

export type SyncedBug = ListingBug | 'swallowed error' | 'resumed deletes'

export function syncedMirror(bug?: SyncedBug) {
  return defineScenario({
    integration: INTEGRATION,
    tables: TABLES,
    outside: (world) => new Shop(world),
    host: () => ({
      providers: { shop: listingProvider(bug === 'swallowed error' || bug === 'resumed deletes' ? undefined : bug) },
    }),
    register(host) {
      const seen: string[] = []
      host.integrations.on(OrderSynced, async ({ integration, payload }) => {
        seen.push(payload.id)
        if (bug !== 'swallowed error') return store(host, payload)
        try {
          await store(host, await get(integration, Order, `orders/${payload.id}`))
        } catch {
          // The next sync brings it.
        }
      })
      if (bug === 'resumed deletes') host.integrations.on('SyncCompleted', () => deleteStrangers(host, seen))
    },
    invariants: { 'the mirror equals the shop': mirrorEqualsShop },
  })
}

/** The first run names all orders that there are. Those that an earlier process of the same run has seen are not in its memory. */
async function deleteStrangers({ sql }: SimulatedHost, seen: string[]): Promise<void> {
  const [isFirst] = await sql`insert into runs values ('first') on conflict do nothing returning name`
  if (isFirst !== undefined)
    await sql`delete from orders where id not in (select jsonb_array_elements_text(${sql.json(seen)}))`
}

export type DeliveredBug = 'older overwrites newer' | 'a deletion is forgotten' | 'changed before placed'

export function deliveredMirror(bug?: DeliveredBug) {
  return defineScenario({
    integration: INTEGRATION,
    tables: TABLES,
    outside: (world) => new Shop(world, { sends: true }),
    host: () => ({ providers: { shop: deliveringProvider() } }),
    register(host) {
      const { sql } = host
      host.integrations.on(OrderChanged, async ({ order, change }) => {
        const { id, title, version } = order
        if (bug === 'older overwrites newer') {
          const row = { id, title, version, is_deleted: order.is_deleted }
          await sql`insert into orders ${sql(row)} on conflict (id) do update
            set title = excluded.title, version = excluded.version, is_deleted = excluded.is_deleted`
        } else if (bug === 'a deletion is forgotten' && order.is_deleted) {
          await sql`delete from orders where id = ${id} and version <= ${version}`
        } else if (bug === 'changed before placed' && change === 'order.changed') {
          await sql`update orders set title = ${title}, version = ${version} where id = ${id} and version <= ${version}`
        } else await store(host, order)
      })
    },
    invariants: { 'the mirror equals the shop': mirrorEqualsShop },
  })
}

export type MirroredBug = 'an item brings back the deleted'

/** A sync brings what is there; what is gone is known by its delivery. */
export function mirrored(bug?: MirroredBug) {
  return defineScenario({
    integration: INTEGRATION,
    tables: TABLES,
    outside: (world) => new Shop(world, { sends: true }),
    host: () => ({ providers: { shop: mirroredProvider() } }),
    register(host) {
      host.integrations.on(OrderSynced, ({ payload }) => (payload.is_deleted ? undefined : store(host, payload)))
      host.integrations.on(OrderChanged, async ({ order }) => {
        if (bug === undefined || !order.is_deleted) return store(host, order)
        await host.sql`delete from orders where id = ${order.id}`
      })
    },
    // Nothing else brings the bug out: deliveries are handled once, in order.
    faults: ['throttle', 'error', 'cut', 'slow', 'skew'],
    invariants: { 'the mirror equals the shop': mirrorEqualsShop },
  })
}
