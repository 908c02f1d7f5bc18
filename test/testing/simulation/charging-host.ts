/** A host that charges each order of a shop, counts them, and knows the shop's customers by its own. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { IdempotencyConflict } from 'durable-integrations'
import type { SimulatedHost, SimulationEnd } from 'durable-integrations/testing'
import { defineScenario } from 'durable-integrations/testing'
import { z } from 'zod'
import { Shop } from './shop.ts'
import { deliveringProvider, INTEGRATION, OrderChanged, post } from './shop-provider.ts'

const TABLES = `
  create table charges (order_id text primary key, charge_id text not null);
  create table counted (order_id text primary key);
  create table totals (what text primary key, n int not null);
  create table customers (id text primary key, name text not null, external_id text);
  create table parcels (order_id text primary key);
  create table parcel_lines (order_id text primary key, title text not null)`

const Made = z.object({ id: z.string() })

export type ChargingBug =
  | 'write without a key'
  | 'another key each time'
  | 'counts twice'
  | 'two writes without a transaction'
  | 'mapped after the call'

export function chargingHost(bug?: ChargingBug) {
  return defineScenario({
    integration: INTEGRATION,
    tables: TABLES,
    outside: (world) => new Shop(world, { sends: true }),
    host: () => ({ providers: { shop: deliveringProvider() } }),
    register(host) {
      host.integrations.on(OrderChanged, async ({ integration, order, change }) => {
        if (change !== 'order.placed') return
        await charge(host, integration, order.id)
        await count(host, order.id)
        await pack(host, order.id, order.title)
        await nameCustomer(host, integration, order.id)
      })
    },
    invariants: {
      'each order is charged once': ({ outside }) => {
        const charged = outside.charges.map(({ order }) => order).sort()
        assert.deepEqual(charged, [...outside.orders.keys()].sort())
      },
      'the total is the number of orders': async ({ outside, sql }) => {
        const [total] = await sql`select n from totals where what = 'orders'`
        assert.equal(total?.n ?? 0, outside.orders.size)
      },
      'each parcel has its line': async ({ sql }) => {
        const bare = await sql`select order_id from parcels where order_id not in (select order_id from parcel_lines)`
        assert.deepEqual([...bare], [])
      },
      'each customer is there once': ({ outside }) => customersOnce(outside),
    },
  })

  async function charge({ sql }: SimulatedHost, integration: OrderChanged['integration'], id: string): Promise<void> {
    const key = bug === 'write without a key' ? null : bug === 'another key each time' ? randomUUID() : `charge-${id}`
    const { id: chargeId } = await write(integration, 'charges', { order: id }, key)
    await sql`insert into charges ${sql({ order_id: id, charge_id: chargeId })} on conflict do nothing`
  }

  async function count({ sql }: SimulatedHost, id: string): Promise<void> {
    const add = (on: SimulatedHost['sql']) =>
      on`insert into totals values ('orders', 1) on conflict (what) do update set n = totals.n + 1`
    if (bug === 'counts twice') await add(sql)
    else
      await sql.begin(async (tx) => {
        const [isNew] = await tx`insert into counted values (${id}) on conflict do nothing returning order_id`
        if (isNew !== undefined) await add(tx as unknown as SimulatedHost['sql'])
      })
  }

  async function pack({ sql }: SimulatedHost, id: string, title: string): Promise<void> {
    const put = async (on: SimulatedHost['sql']): Promise<void> => {
      const [isNew] = await on`insert into parcels values (${id}) on conflict do nothing returning order_id`
      if (isNew !== undefined) await on`insert into parcel_lines values (${id}, ${title})`
    }
    if (bug === 'two writes without a transaction') await put(sql)
    else await sql.begin((tx) => put(tx as unknown as SimulatedHost['sql']))
  }

  /** A customer of the shop for each of ours: the id that it gets there is noted. */
  async function nameCustomer({ sql }: SimulatedHost, integration: OrderChanged['integration'], id: string) {
    const name = `buyer of ${id}`
    await sql`insert into customers ${sql({ id, name })} on conflict do nothing`
    const [known] = await sql`select external_id from customers where id = ${id}`
    if (known?.external_id != null) return
    // The id of ours is the key, so that the same customer is made once, whenever its id is noted.
    const key = bug === 'mapped after the call' ? null : `customer-${id}`
    const made = await write(integration, 'customers', { name }, key)
    await sql`update customers set external_id = ${made.id} where id = ${id}`
  }
}

/** A write with a key has its answer, also where this process, or one before it, died before it could note it. */
async function write(
  integration: OrderChanged['integration'],
  path: string,
  data: Record<string, string>,
  key: string | null,
): Promise<z.infer<typeof Made>> {
  try {
    return await post(integration, Made, path, data, key)
  } catch (error) {
    if (key === null || !(error instanceof IdempotencyConflict) || error.priorState === 'unknown') throw error
    if (error.priorState === 'recovered') return Made.parse(error.priorResponse)
    // The body of the answer was lost. The shop knows the key, and gives it again.
    await integration.forgetIdempotencyKey(key)
    return post(integration, Made, path, data, key)
  }
}

function customersOnce(outside: SimulationEnd<Shop>['outside']): void {
  const names = outside.customers.map(({ name }) => name)
  assert.deepEqual(names, [...new Set(names)])
}
