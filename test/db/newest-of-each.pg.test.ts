/** Lists of the rows of few integrations, beside many rows of others. Rule: docs/behaviour/operations.md, "Looking". */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { searchPayloads } from '../../src/explain/payload-search.ts'
import type { Framework } from '../../src/framework/context.ts'
import { listSyncItems } from '../../src/syncs/items/item-list.ts'
import { listSyncRuns } from '../../src/syncs/run-list.ts'
import { listWebhooks } from '../../src/webhooks/list.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { rowsRead } from '../support/plans.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const OTHERS = 10
const ROWS = 30_000
const DAYS = 10
const NOW = Date.now()
/** They have rows side by side. */
const OWNER = { type: 'team', id: 1 }
/** Ten rows, which are the oldest. */
const QUIET = { type: 'team', id: 2 }
/** None. */
const NEW = { type: 'team', id: 3 }
/** Many rows, all of them older than a day. */
const ENDED = { type: 'team', id: 4 }

let database: TestDatabase
let test: TestIntegrations
const ids: Record<'first' | 'second' | 'quiet' | 'new' | 'ended', number> = {
  first: 0,
  second: 0,
  quiet: 0,
  new: 0,
  ended: 0,
}

beforeAll(async () => {
  database = await createTestDatabase()
  const acme = syncProvider(() => {})
  test = testIntegrations(database.url, { providers: { acme, other: acme } })
  const of = async (owner?: typeof OWNER) =>
    (await makeIntegration(test, owner === undefined ? 'other' : 'acme', owner === undefined ? {} : { owner })).id
  for (let n = 0; n < OTHERS; n += 1) await of()
  ids.first = await of(OWNER)
  ids.second = await of(OWNER)
  ids.quiet = await of(QUIET)
  ids.new = await of(NEW)
  ids.ended = await of(ENDED)
  const integration = test.sql`case when n <= 10 then ${ids.quiet}::bigint when n <= 5000 then ${ids.ended}::bigint
    when n % 100 = 0 then ${ids.first}::bigint when n % 100 < 3 then ${ids.second}::bigint
    else (select min(id) from integrations) + n % ${OTHERS} end`
  const at = test.sql`now() - interval '1 day' * ${DAYS} * (1 - n / ${ROWS}::float8)`
  const status = test.sql`case when n % 7 = 0 then 'failed' else`
  await test.sql`
    insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers, status, dismissed_at, created_at)
    select ${integration}, n, 'type-' || n % 3, '{"number":17}', '{}', ${status} 'processed' end,
           case when n % 14 = 0 then now() end, ${at}
    from generate_series(1, ${ROWS}) n order by n`
  await test.sql`
    insert into integration_sync_items (integration_id, stream, event_class, external_id, status, created_at, payload)
    select ${integration}, 'stream-' || n % 2, 'type-' || n % 3, 'x' || n % 5, ${status} 'success' end, ${at}, '{"v":1,"data":{"number":17}}'
    from generate_series(1, ${ROWS}) n order by n`
  await test.sql`
    insert into integration_logs (integration_id, stream, operation, direction, status, created_at)
    select ${integration}, 'stream-' || n % 2, (array['sync', 'backfill', 'webhook'])[1 + n % 3], 'inbound',
           ${status} 'success' end, ${at}
    from generate_series(1, ${ROWS}) n order by n`
  await test.sql`vacuum analyze`
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

type Ask = (framework: Framework, filter: Record<string, unknown>) => AsyncIterable<{ readonly id: number }>

interface List {
  readonly ask: Ask
  readonly table: string
  readonly one: 'integration' | 'integrationId'
  /** Rows that the list may have, without any filter. */
  readonly shown: string
  /** Filters, each with what its rows have. */
  readonly filters: Readonly<Record<string, { readonly filter: Record<string, unknown>; readonly where: string }>>
}

const daysAgo = (days: number): Date => new Date(NOW - days * 86_400_000)
const sinceDays = { filter: { since: daysAgo(3) }, where: `created_at >= '${daysAgo(3).toISOString()}'` }
const untilDays = { filter: { until: daysAgo(8) }, where: `created_at < '${daysAgo(8).toISOString()}'` }
const all = { filter: {}, where: 'true' }
const failed = { filter: { status: 'failed' }, where: `status = 'failed'` }

const LISTS: Readonly<Record<string, List>> = {
  webhooks: {
    ask: listWebhooks,
    table: 'integration_webhooks',
    one: 'integration',
    shown: 'dismissed_at is null',
    filters: {
      all,
      failed,
      processed: { filter: { status: 'processed' }, where: `status = 'processed'` },
      event: {
        filter: { event: 'type-1', ...sinceDays.filter },
        where: `event_type = 'type-1' and ${sinceDays.where}`,
      },
      sinceDays,
      untilDays,
    },
  },
  'dismissed webhooks': {
    ask: (framework, filter) => listWebhooks(framework, { ...filter, dismissed: true }),
    table: 'integration_webhooks',
    one: 'integration',
    shown: 'dismissed_at is not null',
    filters: { all, untilDays },
  },
  'sync items': {
    ask: listSyncItems,
    table: 'integration_sync_items',
    one: 'integrationId',
    shown: 'true',
    filters: {
      all,
      failed,
      'not made up for': {
        filter: { madeUpFor: false },
        where: `status = 'failed' and not exists (select from integration_sync_items l where l.integration_id = r.integration_id
          and l.external_id = r.external_id and l.event_class = r.event_class and l.id > r.id
          and l.status = 'success')`,
      },
      stream: {
        filter: { stream: 'stream-1', ...sinceDays.filter },
        where: `stream = 'stream-1' and ${sinceDays.where}`,
      },
      'failed of a stream': {
        filter: { stream: 'stream-1', status: 'failed' },
        where: `stream = 'stream-1' and ${failed.where}`,
      },
      untilDays,
    },
  },
  'sync runs': {
    ask: listSyncRuns,
    table: 'integration_logs',
    one: 'integrationId',
    shown: `operation in ('sync', 'backfill')`,
    filters: {
      all,
      failed,
      stream: { filter: { stream: 'stream-1' }, where: `stream = 'stream-1'` },
      sinceDays,
      untilDays,
    },
  },
}

const CASES = Object.entries(LISTS).flatMap(([list, { filters }]) =>
  Object.keys(filters).map((filter): [string, string] => [list, filter]),
)

describe.each(CASES)('%s: %s', (name, which) => {
  const { ask, table, one, shown, filters } = LISTS[name] as List
  const { filter, where } = filters[which] as List['filters'][string]

  async function listed(more: Record<string, unknown>): Promise<number[]> {
    const found: number[] = []
    for await (const { id } of ask(test.framework, { ...filter, ...more })) found.push(id)
    return found
  }

  async function expected(of: readonly number[]): Promise<number[]> {
    const rows = await test.sql.unsafe<{ id: string }[]>(
      `select id from ${table} r where integration_id in (${of.join()}) and ${shown} and ${where} order by id desc`,
    )
    return rows.map(({ id }) => Number(id))
  }

  it.each<[string, () => Record<string, unknown>, () => number[]]>([
    ['an owner', () => ({ owner: OWNER }), () => [ids.first, ids.second]],
    ['an integration', () => ({ [one]: ids.second }), () => [ids.second]],
    ['an integration of another owner', () => ({ [one]: ids.second, owner: QUIET }), () => [0]],
    ['a provider', () => ({ provider: 'acme' }), () => Object.values(ids)],
    ['a quiet owner', () => ({ owner: QUIET }), () => [ids.quiet]],
    ['an owner without rows', () => ({ owner: NEW }), () => [ids.new]],
  ])('of %s are all, newest first, and go on where a page ended', async (_, of, owned) => {
    const wanted = await expected(owned())
    expect(await listed(of())).toEqual(wanted)
    const middle = Math.floor(wanted.length / 2)
    const after = wanted[middle - 1]
    if (after !== undefined)
      expect(await listed({ ...of(), after, limit: 7 })).toEqual(wanted.slice(middle, middle + 7))
  })

  it.each([
    ['an owner', OWNER],
    ['a quiet owner', QUIET],
    ['an owner without rows', NEW],
  ])('of %s are read alone', async (_, owner) => {
    const read = await rowsRead(database.url, async (db) => {
      for await (const _row of ask({ ...test.framework, db }, { ...filter, owner, limit: 10 }));
    })
    expect(read).toBeLessThan(ROWS / 30)
  })
})

describe.each(['webhook', 'item'] as const)('a search through the payloads of every %s', (kind) => {
  const searched = (of: Record<string, unknown>, { db } = test.framework, now = NOW) =>
    searchPayloads(
      { ...test.framework, db, clock: { ...test.framework.clock, now: () => new Date(now) } },
      { contains: { number: 17 }, kind, hours: 24, limit: 5_000, ...of },
    )

  it.each<[string, () => Record<string, unknown>]>([
    ['an owner', () => ({ owner: OWNER })],
    ['an integration', () => ({ integrationId: ids.first })],
    ['all', () => ({})],
  ])('of %s finds the rows of its hours, the newest first', async (_, of) => {
    const { owner, integrationId } = of()
    const rows = await test.sql.unsafe<{ id: string }[]>(`
      select id from ${kind === 'webhook' ? 'integration_webhooks' : 'integration_sync_items'}
      where created_at >= '${daysAgo(1).toISOString()}' ${
        owner === undefined
          ? integrationId === undefined
            ? ''
            : `and integration_id = ${integrationId}`
          : `and integration_id in (${ids.first}, ${ids.second})`
      } order by id desc`)
    const { data, cut } = await searched(of())
    expect(data.map(({ id }) => id)).toEqual(rows.map(({ id }) => Number(id)))
    expect(cut).toBeNull()
  })

  it.each([
    ['whose rows are older', ENDED],
    ['that has few, and old ones', QUIET],
    ['without rows', NEW],
  ])('of an owner %s reads none of any other, and none from before its hours', async (_, owner) => {
    const read = await rowsRead(database.url, async (db) => {
      const found = await searched({ owner }, { ...test.framework, db })
      expect(found).toMatchObject({ data: [], searched: 0, cut: null })
    })
    expect(read).toBeLessThan(50)
  })

  it('ends at once where no row is of its hours', async () => {
    const read = await rowsRead(database.url, async (db) => {
      const found = await searched({}, { ...test.framework, db }, NOW + 3 * 86_400_000)
      expect(found).toMatchObject({ data: [], searched: 0, cut: null })
    })
    expect(read).toBeLessThan(50)
  })
})
