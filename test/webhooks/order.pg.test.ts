/** Webhooks of one ordering key, one after the other. */
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/postgres-js'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { webhookRecoveryActivities } from '../../src/activities/webhook-recovery.ts'
import type { Json } from '../../src/framework/json.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'
import { eraseIntegration } from '../../src/retention/erasure.ts'
import { dismissWebhook, dismissWebhooks } from '../../src/webhooks/dismissal.ts'
import { lockKeys, mendOrder } from '../../src/webhooks/order.ts'
import { claimWebhook } from '../../src/webhooks/queries.ts'
import { recoverWebhooks } from '../../src/webhooks/recovery.ts'
import { replayWebhooks, startReplay } from '../../src/webhooks/replay.ts'
import { wakePendingInbox } from '../../src/webhooks/wake.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { workOff } from '../support/work-off.ts'
import { splitProvider } from './split-provider.ts'

interface Told {
  readonly key: string | null
  readonly n: number
  readonly coalesce?: boolean
}

let database: TestDatabase
let test: TestIntegrations
let to: Integration
/** What the handlers were called with, in the order of their beginnings. */
let handled: string[]
let handle: (told: Told) => unknown
const running = new Set<string>()

beforeAll(async () => {
  database = await createTestDatabase()
  const told = (request: WebhookRequest) => request.json() as unknown as Told
  const acme = splitProvider({
    splitWebhook: (request) => {
      const body = request.json() as unknown as Told | Told[]
      const all = Array.isArray(body) ? body : [body]
      return all.map((each) => ({ id: null, type: 'told', payload: { ...each } as Json & object }))
    },
    orderingKey(request) {
      const { key, coalesce = false } = told(request)
      return key === null ? null : { key, coalesce }
    },
    async handleWebhook({ id }, request) {
      const each = told(request)
      const { key, n } = each
      handled.push(`${key}${n}`)
      const name = `${id}:${key ?? n}`
      if (running.has(name)) throw new Error('two of one key at once')
      running.add(name)
      try {
        return await handle(each)
      } finally {
        running.delete(name)
      }
    },
  })
  test = testIntegrations(database.url, {
    providers: {
      acme,
      guarded: {
        ...acme,
        webhookHandlers: () => ({
          told: {
            handle: (...given) => acme.handleWebhook(...given),
            staleGuard: (payload) => ({ key: 'all', version: (payload as unknown as Told).n }),
          },
        }),
      },
    },
    config: { webhook: { max_attempts: 2, retry_backoff: [0] } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  handled = []
  handle = () => null
  to = await makeIntegration(test, 'acme')
})

// What a test leaves is not the next one's.
afterEach(async () => {
  await test.sql`delete from integration_webhooks where integration_id = ${to.id}`
})

/** As the workflow of one row does. */
const processOne = (input: Parameters<TestIntegrations['activities']['processOneWebhook']>[0]) => {
  const surroundings = () => ({ cancellationSignal: new AbortController().signal, info: { attempt: 1 } })
  return webhookRecoveryActivities(test.framework, surroundings).processOneWebhook(input)
}

let sent = 0
async function deliver(...told: Told[]): Promise<number[]> {
  sent += 1
  const arrival = await test.integrations.webhooks.receive({
    provider: to.provider,
    integrationId: to.id,
    method: 'POST',
    path: '/',
    query: '',
    headers: new Headers({ 'x-delivery': `order-${sent}` }),
    readBody: async () => ({ kind: 'read', bytes: Buffer.from(JSON.stringify(told)) }),
  })
  if (arrival.kind !== 'queued') throw new Error(arrival.kind)
  return [...(arrival.parts?.stored ?? [arrival.webhookId])]
}

const many = (key: string, from: number, upto: number): Told[] =>
  Array.from({ length: upto - from + 1 }, (_, at) => ({ key, n: from + at }))
const work = () => workOff(test.framework)
const recover = () => recoverWebhooks(test.framework, new AbortController().signal)
const rows = () =>
  test.sql`select id, status, key_turn, attempts, ordering_key from integration_webhooks where integration_id = ${to.id} order by id`
const statuses = async () =>
  (await rows()).map(({ status, key_turn }) => `${status}${key_turn === null ? '' : ` ${key_turn}`}`)
const ofKey = (key: string) => handled.filter((each) => each.startsWith(key))

describe('webhooks of one key', () => {
  it('run one after the other in the order of arrival, while others go on', async () => {
    await deliver(...many('a', 1, 5), { key: null, n: 1 })
    await deliver(...many('b', 1, 3), ...many('a', 6, 8))
    expect((await rows()).filter(({ key_turn }) => key_turn === true)).toHaveLength(2)
    const first = occasion()
    const others = occasion()
    handle = async ({ key, n }) => {
      if (key === 'b' && n === 3) others.happen()
      if (key === 'a' && n === 1) await first.happened
    }
    const worked = work()
    await others.happened
    expect(ofKey('a')).toEqual(['a1'])
    first.happen()
    await worked
    expect(ofKey('a')).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8'])
    expect(ofKey('b')).toEqual(['b1', 'b2', 'b3'])
    expect(await statuses()).toEqual(Array(12).fill('processed'))
  })

  it('of two integrations do not wait for each other', async () => {
    await deliver(...many('a', 1, 2))
    const mine = to
    to = await makeIntegration(test, 'acme')
    await deliver(...many('a', 1, 2))
    expect((await rows()).map(({ key_turn }) => key_turn)).toEqual([true, false])
    await work()
    await test.sql`delete from integration_webhooks where integration_id = ${mine.id}`
  })

  it('wait for one that failed and is tried again, and go on when it is processed', async () => {
    await deliver(...many('a', 1, 3))
    handle = () => {
      throw new Error('not now')
    }
    await work()
    expect([handled, await statuses()]).toEqual([['a1'], ['failed true', 'pending false', 'pending false']])
    expect(await wakePendingInbox(test.framework)).toBe(0)
    handle = () => null
    expect(await recover()).toMatchObject({ failed: 1, pending: 0 })
    await work()
    expect([handled, await statuses()]).toEqual([['a1', 'a1', 'a2', 'a3'], Array(3).fill('processed')])
  })

  it('go on when it has used up its attempts', async () => {
    await deliver(...many('a', 1, 2))
    handle = ({ n }) => {
      if (n === 1) throw new Error('never')
    }
    await work()
    await recover()
    await work()
    expect([handled, await statuses()]).toEqual([
      ['a1', 'a1', 'a2'],
      ['failed', 'processed'],
    ])
  })

  it.each(['one', 'many'])('go on when it is dismissed (%s)', async (how) => {
    const [first = 0] = await deliver(...many('a', 1, 2))
    handle = ({ n }) => {
      if (n === 1) throw new Error('never')
    }
    await work()
    if (how === 'one') await dismissWebhook(test.framework, first)
    else await dismissWebhooks(test.framework, { integration: to.id })
    await work()
    expect([handled, await statuses()]).toEqual([
      ['a1', 'a2'],
      ['failed', 'processed'],
    ])
  })

  it('wait for one that comes back from its dismissal, or the other way round', async () => {
    const [first = 0] = await deliver(...many('a', 1, 3))
    handle = () => {
      throw new Error('not now')
    }
    await work()
    await dismissWebhook(test.framework, first)
    await dismissWebhook(test.framework, first, { undo: true })
    handle = () => null
    expect(await recover()).toMatchObject({ failed: 1 })
    expect(await statuses()).toEqual(['pending false', 'pending true', 'pending false'])
    await work()
    expect([handled, await statuses()]).toEqual([['a1', 'a2', 'a1', 'a3'], Array(3).fill('processed')])
  })

  it('keep waiting for one that was not dismissed when its dismissal is taken back', async () => {
    const [first = 0] = await deliver(...many('a', 1, 2))
    handle = () => {
      throw new Error('not now')
    }
    await work()
    await dismissWebhook(test.framework, first, { undo: true })
    expect(await statuses()).toEqual(['failed true', 'pending false'])
  })

  // More than a hundred are the inbox's.
  it.each([3, 101])('are tried again one after the other when more attempts are allowed: %i', async (count) => {
    await deliver(...many('a', 1, count))
    await test.sql`
      update integration_webhooks set status = 'failed', attempts = 1, key_turn = null, processed_at = 'epoch'
      where integration_id = ${to.id}`
    expect(await recover()).toMatchObject({ failed: count })
    expect(await statuses()).toEqual(['pending true', ...Array(count - 1).fill('pending false')])
    await work()
    expect(handled).toEqual(many('a', 1, count).map(({ n }) => `a${n}`))
  })

  it.each<[string, () => Promise<unknown>]>([
    [
      'is pruned',
      () => test.sql`delete from integration_webhooks where integration_id = ${to.id} and status = 'failed'`,
    ],
    [
      'may be tried no more',
      () =>
        test.sql`update integration_webhooks set attempts = 9 where integration_id = ${to.id} and status = 'failed'`,
    ],
  ])('go on after the next recovery when it %s', async (_, away) => {
    await deliver(...many('a', 1, 2))
    handle = ({ n }) => {
      if (n === 1) throw new Error('never')
    }
    await work()
    await away()
    await recover()
    await work()
    expect(handled).toEqual(['a1', 'a2'])
  })

  it('are looked at by recovery from key to key, however many wait behind one', async () => {
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers, ordering_key, key_turn)
      select ${to.id}, n, '{}', '{}', case when n <= 20000 then 'a' else 'b' || n % 20 end, n = 1
      from generate_series(1, 20040) n`
    await test.sql`analyze integration_webhooks`
    const asked: { text: string; parameters: unknown[] }[] = []
    const logQuery = (text: string, parameters: unknown[]): void => void asked.push({ text, parameters })
    await mendOrder({ ...test.framework, db: drizzle(test.sql, { logger: { logQuery } }) })
    expect((await rows()).filter(({ key_turn }) => key_turn === true)).toHaveLength(21)
    const query = asked.find(({ text }) => text.includes('recursive'))
    const [plan] = await test.sql.unsafe(
      `explain (analyze, buffers, format json) ${query?.text}`,
      query?.parameters as never[],
    )
    const top = plan?.['QUERY PLAN'][0].Plan
    expect(top['Actual Rows']).toBe(21)
    expect(top['Shared Hit Blocks'] + top['Shared Read Blocks']).toBeLessThan(300)
  })

  it('replayed take their places again, by their ids', async () => {
    await deliver(...many('a', 1, 3))
    await work()
    const held = occasion()
    const begun = occasion()
    handle = async ({ n }) => {
      if (n === 4) {
        begun.happen()
        await held.happened
      }
    }
    await deliver(...many('a', 4, 5))
    const worked = work()
    await begun.happened
    expect(await replayWebhooks(test.framework, { integration: to.id, status: 'processed' })).toMatchObject({
      replayed: 3,
    })
    const [, , third] = await rows()
    await expect(startReplay(test.framework, Number(third?.id), 'id')).rejects.toMatchObject({
      code: 'webhook_not_replayable',
      message: expect.stringContaining('pending'),
    })
    held.happen()
    await worked
    await work()
    expect(handled).toEqual(['a1', 'a2', 'a3', 'a4', 'a1', 'a2', 'a3', 'a5'])
  })

  it('are replayed alone when no other one has its turn', async () => {
    const [first = 0] = await deliver(...many('a', 1, 2))
    await work()
    expect(await processOne({ webhookId: first, replay: true, claim: 'one:1' })).toMatchObject({
      outcome: 'processed',
    })
    handle = () => {
      throw new Error('not now')
    }
    const [third = 0] = await deliver(...many('a', 3, 3))
    await work()
    await expect(startReplay(test.framework, first, 'id')).rejects.toMatchObject({ turnOf: third })
    expect(await processOne({ webhookId: first, replay: true, claim: 'two:1' })).toMatchObject({
      outcome: 'not claimed',
    })
  })

  it('are stored while a single replay takes the turn, and wait for it', async () => {
    const [first = 0] = await deliver(...many('a', 1, 1))
    await work()
    const { db, tables } = test.framework
    const { arriving } = await db.transaction(async (tx) => {
      const replay = { id: first, claim: 'one:1', from: { replay: true } } as const
      expect(await claimWebhook(tx as never, tables, replay)).toMatchObject({ keyTurn: true })
      const arriving = deliver(...many('a', 2, 2))
      await expect.poll(waitingForLocks, SOON).toBe(1)
      return { arriving }
    })
    expect(await arriving).toHaveLength(1)
    expect(await statuses()).toEqual(['processing true', 'pending false'])
  })

  it('have no order any more, and no key, once they are erased', async () => {
    await deliver(...many('a', 1, 2))
    await eraseIntegration(test.framework, to.id)
    expect(await rows()).toMatchObject([1, 2].map(() => ({ ordering_key: null, key_turn: null, status: 'failed' })))
  })

  it('that repeat a known delivery leave no turn behind', async () => {
    await deliver(...many('a', 1, 1))
    await work()
    sent -= 1
    await deliver(...many('a', 1, 3))
    expect((await rows()).map(({ key_turn }) => key_turn)).toEqual([null, true, false])
  })

  it('keep their order when they arrive and are worked off at the same time', { timeout: 60_000 }, async () => {
    const keys = ['a', 'b', 'c', 'd', 'e']
    const arriving = keys.map(async (key) => {
      for (let n = 1; n <= 30; n += 1) await deliver({ key, n })
    })
    let isOver = false
    const pumps = [1, 2].map(async () => {
      while (!isOver) await work()
    })
    await Promise.all(arriving)
    isOver = true
    await Promise.all(pumps)
    await work()
    expect(await statuses()).toEqual(Array(150).fill('processed'))
    for (const key of keys) expect(ofKey(key)).toEqual(many(key, 1, 30).map(({ n }) => `${key}${n}`))
  })

  it('get one turn when 40 arrive at once, from two processes', async () => {
    await Promise.all(Array.from({ length: 40 }, (_, n) => deliver({ key: 'a', n })))
    expect((await rows()).filter(({ key_turn }) => key_turn === true)).toHaveLength(1)
    await work()
    const ids = (await rows()).map(({ status }) => status)
    expect(ids).toEqual(Array(40).fill('processed'))
  })
})

describe('webhooks that coalesce', () => {
  const newest = (key: string, from: number, upto: number) =>
    many(key, from, upto).map((told) => ({ ...told, coalesce: true }))

  it('run the first, and the newest of those that waited; the others are settled with a note', async () => {
    await deliver(...newest('a', 1, 1))
    await deliver(...newest('a', 2, 4))
    await deliver(...newest('a', 5, 6))
    await work()
    expect([handled, await statuses()]).toEqual([['a1', 'a6'], Array(6).fill('processed')])
    expect((await rows()).map(({ attempts }) => attempts)).toEqual([1, 0, 0, 0, 0, 1])
    const logs = await test.sql`
      select result_data ->> 'status' as status from integration_logs where integration_id = ${to.id} and operation = 'webhook' order by id`
    expect(logs.map(({ status }) => status).filter(Boolean)).toEqual(Array(4).fill('coalesced'))
  })

  it('are settled a thousand in a transaction where more have waited, before the newest runs', async () => {
    await deliver(...newest('a', 1, 1), ...newest('b', 1, 1))
    // Each but the first waits.
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, event_type, payload, headers, part_of, part,
        ordering_key, key_turn, coalesces)
      select w.integration_id, 'copy-' || w.ordering_key || n, w.event_type,
        json_build_object('key', w.ordering_key, 'n', n, 'coalesce', true)::text, w.headers, w.part_of, w.part,
        w.ordering_key, false, true
      from integration_webhooks w, generate_series(2, case w.ordering_key when 'a' then 2500 else 3 end) n
      where w.integration_id = ${to.id} order by n`
    await work()
    expect(ofKey('a')).toEqual(['a1', 'a2500'])
    expect(ofKey('b')).toEqual(['b1', 'b3'])
    const chunks = await test.sql`
      select count(*)::int as rows from integration_webhooks
      where integration_id = ${to.id} and attempts = 0 and ordering_key = 'a' group by xmin::text order by 1 desc`
    expect(chunks.reduce((sum, { rows }) => sum + rows, 0)).toBe(2_498)
    expect(chunks[0]?.rows).toBeLessThanOrEqual(1_000)
    expect(new Set(await statuses())).toEqual(new Set(['processed']))
  })

  it('have a turn once they are stored, also where a delivery brings more than a call settles', async () => {
    await deliver(...newest('a', 1, 1_200), ...newest('b', 1, 1_200))
    expect((await rows()).filter(({ key_turn }) => key_turn === true)).toHaveLength(2)
    await work()
    expect(handled.toSorted()).toEqual(['a1200', 'b1200'])
  })

  it('do not where their handler has a stale guard: the newest arrival need not be the newest version', async () => {
    to = await makeIntegration(test, 'guarded')
    await deliver(...newest('a', 1, 1))
    await deliver(...newest('a', 3, 3))
    await deliver(...newest('a', 2, 2))
    await work()
    expect(handled).toEqual(['a1', 'a3'])
    expect((await rows()).map(({ attempts }) => attempts)).toEqual([1, 1, 1])
  })

  it('do not pass one of their key that does not', async () => {
    await deliver(...newest('a', 1, 3), ...many('a', 4, 4), ...newest('a', 5, 7))
    await work()
    expect(handled).toEqual(['a3', 'a4', 'a7'])
  })
})

describe('a webhook without a key', () => {
  it('has no turn, and waits for none', async () => {
    await deliver({ key: null, n: 1 }, { key: null, n: 2 })
    expect(await rows()).toMatchObject([1, 2].map(() => ({ ordering_key: null, key_turn: null })))
    await work()
    expect(await statuses()).toEqual(['processed', 'processed'])
  })

  it('is stored while others wait for the lock of their key', async () => {
    const release = await locked('a')
    // Two statements with keys may be under way, and the third waits behind them.
    const ordered = Promise.allSettled(many('a', 1, 3).map((told) => deliver(told)))
    await expect.poll(waitingForLocks, SOON).toBe(2)
    await deliver({ key: null, n: 1 })
    await release()
    await ordered
  })

  it('is settled while others wait for the lock of their key', async () => {
    await deliver({ key: null, n: 1 }, { key: 'a', n: 1 }, { key: null, n: 2 })
    const release = await locked('a')
    handle = async ({ key }) => {
      if (key === null) await expect.poll(waitingForLocks, SOON).toBe(1)
    }
    const worked = work()
    await expect.poll(statuses, SOON).toEqual(['processed', 'processing true', 'processed'])
    await release()
    await worked
    expect(await statuses()).toEqual(['processed', 'processed', 'processed'])
  })

  /** Holds the lock of a key, as a long statement of another process does. */
  async function locked(key: string): Promise<() => Promise<void>> {
    const [held, over] = [occasion(), occasion()]
    const { db, tables } = test.framework
    const session = db.transaction(async (tx) => {
      await lockKeys(tx, tables, [{ integrationId: to.id, key }])
      await tx.execute(sql`set local idle_in_transaction_session_timeout = 0`)
      held.happen()
      await over.happened
    })
    const release = async (): Promise<void> => {
      over.happen()
      await session
    }
    onTestFinished(release)
    await held.happened
    return release
  }
})

async function waitingForLocks(): Promise<number> {
  const [row] = await test.sql<{ waiting: number }[]>`
    select count(*)::int as waiting from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  return row?.waiting ?? -1
}
