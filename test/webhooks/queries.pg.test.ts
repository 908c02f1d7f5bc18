/** Claims: which rows they take, who gets a row when two connections ask, and what becomes of those of a dead pump. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ClaimRoom } from '../../src/claims/claimed-rows.ts'
import { handBack, idsHeldBy, takeUp } from '../../src/claims/claimed-rows.ts'
import { endClaim, keepClaim, pumpClaims, setApart } from '../../src/claims/lease-queries.ts'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { ClaimableFrom } from '../../src/webhooks/queries.ts'
import {
  claimedWebhooks,
  claimNextWebhooks,
  claimWebhook,
  leftApart,
  WEBHOOK_LOSS,
} from '../../src/webhooks/queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { isServed } from '../support/leases.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeWebhook, setIntegration, webhookOf } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let connections: [Connection, Connection]

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
  connections = [connect({ database: database.url }), connect({ database: database.url })]
})

afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.close()))
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  // A pump's claim is of all integrations.
  await test.sql`delete from integrations`
  integration = await makeIntegration(test, 'acme')
})

const PENDING = { status: 'pending' } as const
const STUCK = { status: 'processing', attempts: 2 } as const
const REPLAY = { replay: true } as const

describe('a claim of one row', () => {
  it.each<[string, ClaimableFrom, object, object]>([
    ['takes a pending one', PENDING, { attempts: 1 }, { attempts: 2, replayAttempt: null }],
    [
      'takes one whose worker is lost, and counts the loss',
      STUCK,
      { status: 'processing', attempts: 2, claim: 'old:1', lostWorkers: 1 },
      { attempts: 3, lostWorkers: 2 },
    ],
    ['replays a processed one', REPLAY, { status: 'processed', attempts: 1 }, { attempts: 2, replayAttempt: 2 }],
    [
      'replays a failed one',
      REPLAY,
      { status: 'failed', error: 'bad', attempts: 4 },
      { attempts: 5, replayAttempt: 5 },
    ],
    [
      'counts a replay of a replay as one of its own',
      REPLAY,
      { status: 'processed', attempts: 5, replayAttempt: 3 },
      { attempts: 6, replayAttempt: 6 },
    ],
    [
      'leaves the replay that an attempt belongs to',
      STUCK,
      { status: 'processing', attempts: 2, replayAttempt: 2, claim: 'old:1' },
      { attempts: 3, replayAttempt: 2 },
    ],
    [
      'replays a processed one with an empty body',
      REPLAY,
      { status: 'processed', payload: '', headers: { 'content-length': ['0'] } },
      { attempts: 1 },
    ],
  ])('%s', async (_, from, values, claimed) => {
    const row = await makeWebhook(test, integration.id, { processedAt: new Date(), ...values })
    expect(await claim(row.id, from)).toMatchObject({
      status: 'processing',
      claim: 'run:1',
      error: null,
      processedAt: null,
      payload: row.payload,
      ...claimed,
    })
  })

  it.each<[string, ClaimableFrom, object]>([
    ['a processed one as pending', PENDING, { status: 'processed' }],
    ['a processing one as pending', PENDING, { status: 'processing', attempts: 2 }],
    ['one that was claimed since', STUCK, { status: 'processing', attempts: 3 }],
    ['one that went back since', STUCK, { status: 'pending', attempts: 2 }],
    ['a pending one as a replay', REPLAY, { status: 'pending' }],
    ['a processing one as a replay', REPLAY, { status: 'processing', attempts: 1 }],
    ['one erased before it was handled', REPLAY, { status: 'failed', error: 'erased', payload: '', headers: {} }],
    ['one erased after it was handled', REPLAY, { status: 'processed', payload: '', headers: {} }],
  ])('does not take %s', async (_, from, values) => {
    const row = await makeWebhook(test, integration.id, values)
    expect(await claim(row.id, from)).toBeNull()
    expect(await webhookOf(test, row.id)).toEqual(row)
  })

  it('of an integration that its health disabled is made for a replay only', async () => {
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    const pending = await makeWebhook(test, integration.id)
    const stuck = await makeWebhook(test, integration.id, { status: 'processing', attempts: 2 })
    const failed = await makeWebhook(test, integration.id, { status: 'failed' })
    expect(await claim(pending.id, PENDING)).toBeNull()
    expect(await claim(stuck.id, STUCK)).toBeNull()
    expect(await claim(failed.id, REPLAY)).toMatchObject({ status: 'processing' })
  })

  it.each<[string, ClaimableFrom, object]>([
    ['pending', PENDING, {}],
    ['stuck', STUCK, { status: 'processing', attempts: 2 }],
    ['failed', REPLAY, { status: 'failed' }],
  ])('of a %s row has one winner of two connections', async (_, from, values) => {
    const row = await makeWebhook(test, integration.id, values)
    // Both statements are under way before either may take the row.
    const claims = await test.sql
      .begin(async (holder) => {
        await holder`select 1 from integration_webhooks where id = ${row.id} for update`
        const both = connections.map(({ db }, n) =>
          claimWebhook(db, test.framework.tables, { id: row.id, claim: `run:${n}`, from }),
        )
        const waiting = () =>
          test.sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
        await expect.poll(async () => (await waiting()).length).toBe(2)
        return both
      })
      .then((both) => Promise.all(both))
    const winners = claims.filter((claimed) => claimed !== null)
    expect(winners).toHaveLength(1)
    expect(await webhookOf(test, row.id)).toEqual(winners[0])
  })
})

it('no claim counts beyond what the column holds, so that a row replayed for ever can still be claimed', async () => {
  const full = { attempts: 32_767 }
  const pending = await makeWebhook(test, integration.id, full)
  const replayed = await makeWebhook(test, integration.id, { ...full, status: 'failed' })
  const held = await makeWebhook(test, integration.id, { ...full, status: 'processing', claim: 'run:1' })
  const { db, tables } = test.framework
  expect((await next()).rows).toEqual([expect.objectContaining({ id: pending.id, ...full })])
  expect(await claim(replayed.id, REPLAY)).toMatchObject({ ...full, replayAttempt: 32_767 })
  expect(await takeUp(db, claimedWebhooks(tables), held, WEBHOOK_LOSS)).toMatchObject({
    ...full,
    claim: 'run:1',
    lostWorkers: 1,
  })
})

describe('a claim of the next rows', () => {
  it('takes pending rows by id, counts the attempt, and takes back what an attempt before has left', async () => {
    const before = { attempts: 2, error: 'of before', processedAt: new Date() }
    const rows = [await pending(before), await pending()]
    for (const status of ['processing', 'processed', 'failed'] as const) await pending({ status })
    const { rows: taken } = await next({}, 'pump:a:1')
    expect(taken.map(({ id }) => id)).toEqual(rows.map(({ id }) => id))
    expect(taken[0]).toEqual({
      ...rows[0],
      status: 'processing',
      claim: 'pump:a:1',
      attempts: 3,
      error: null,
      processedAt: null,
      updatedAt: expect.any(Date),
    })
    expect(await webhookOf(test, rows[0]?.id ?? 0)).toEqual(taken[0])
    expect((await next()).rows).toEqual([])
  })

  it('takes of each integration what there is room for, the lowest ids', async () => {
    const [a, b, c] = [integration, await other(), await other()]
    for (const to of [a, b, c]) for (let n = 0; n < 4; n += 1) await makeWebhook(test, to.id)
    const { rows } = await next({ room: 2, rooms: { [b.id]: 3, [c.id]: 0 } })
    expect(countsOf(rows)).toEqual({ [a.id]: 2, [b.id]: 3 })
    const left = await test.sql<{ id: string }[]>`
      select id from integration_webhooks where status = 'pending' and integration_id = ${a.id} order by id`
    expect(Math.min(...left.map(({ id }) => Number(id)))).toBeGreaterThan(
      Math.max(...rows.filter(({ integrationId }) => integrationId === a.id).map(({ id }) => id)),
    )
  })

  it('lets one with a hundred rows hold up none with one', async () => {
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers)
      select ${integration.id}, 'many-' || n, '{}', '{}' from generate_series(1, 100) n`
    const quiet = [await other(), await other(), await other()]
    for (const to of quiet) await makeWebhook(test, to.id)
    const { rows } = await next({ rows: 13, room: 10 })
    expect(countsOf(rows)).toEqual({ [integration.id]: 10, ...Object.fromEntries(quiet.map(({ id }) => [id, 1])) })
  })

  it('takes no more rows than its limit, of no more integrations than its walk, whatever plan Postgres chooses', async () => {
    const all = [integration, await other(), await other()]
    for (const to of all) for (let n = 0; n < 3; n += 1) await makeWebhook(test, to.id)
    const [{ db }] = connections
    const taken = await db.transaction(async (tx) => {
      for (const plan of ['hashjoin', 'mergejoin', 'hashagg', 'material', 'sort', 'indexscan'])
        await tx.execute(`set local enable_${plan} = off`)
      return [
        await next({ rows: 4 }, 'pump:plan:1', tx as never),
        await next({ integrations: 1 }, 'pump:plan:2', tx as never),
      ]
    })
    // The first has taken all of one, and one of the next.
    expect(taken.map(({ rows }) => rows.length)).toEqual([4, 2])
  })

  it('that its limit of rows cuts has taken of the first integrations of its walk, wherever their rows stand', async () => {
    const all = [integration, await other(), await other(), await other()]
    for (const to of all) for (let n = 0; n < 2; n += 1) await makeWebhook(test, to.id)
    // Written again, they stand behind the others.
    for (const to of all.slice(0, 2)) await setIntegration(test, to.id, { name: 'written' })
    const [{ db }] = connections
    const { rows } = await db.transaction(async (tx) => {
      for (const plan of ['nestloop', 'indexscan', 'bitmapscan', 'mergejoin'])
        await tx.execute(`set local enable_${plan} = off`)
      return next({ rows: 3 }, 'pump:cut:1', tx as never)
    })
    expect(countsOf(rows)).toEqual({ [all[0]?.id ?? 0]: 2, [all[1]?.id ?? 0]: 1 })
  })

  it('walks on from where the last one ended, and says how far it came', async () => {
    const ids = [integration, await other(), await other(), await other(), await other()].map(({ id }) => id)
    for (const id of ids) await makeWebhook(test, id)
    const [first, second, third, fourth, fifth] = ids as [number, number, number, number, number]
    const one = await next({ integrations: 2 })
    expect([one.walked, one.upto, countsOf(one.rows)]).toEqual([2, second, { [first]: 1, [second]: 1 }])
    const two = await next({ integrations: 2, after: one.upto })
    expect([two.walked, two.upto, countsOf(two.rows)]).toEqual([2, fourth, { [third]: 1, [fourth]: 1 }])
    const three = await next({ integrations: 2, after: two.upto })
    expect([three.walked, three.upto, countsOf(three.rows)]).toEqual([1, fifth, { [fifth]: 1 }])
    expect(await next({ integrations: 2, after: three.upto })).toMatchObject({ rows: [], walked: 0, upto: 0 })
  })

  it('walks over what it does not take: its health disabled it, it has lost a worker, or there is no room', async () => {
    const [disabled, apart, full, off] = [integration, await other(), await other(), await other()]
    for (const to of [disabled, full, off]) await makeWebhook(test, to.id)
    const lost = await makeWebhook(test, apart.id, { lostWorkers: 1 })
    const fresh = await makeWebhook(test, apart.id)
    await setIntegration(test, disabled.id, { isActive: false, healthStatus: 'disabled' })
    // A person's word is for the handler: the row is failed, not left.
    await setIntegration(test, off.id, { isActive: false, switchedOffAt: new Date() })
    const { rows, walked, upto } = await next({ rooms: { [full.id]: 0 } })
    expect(countsOf(rows)).toEqual({ [off.id]: 1, [apart.id]: 1 })
    expect(rows.map(({ id }) => id)).toContain(fresh.id)
    expect([walked, upto]).toEqual([4, off.id])
    expect(await webhookOf(test, lost.id)).toEqual(lost)
  })

  it('says which version of each integration it saw: another one once the row is written', async () => {
    await pending()
    await pending()
    const first = await next({ rows: 1 })
    const same = await next({ rows: 1 })
    await pending()
    await setIntegration(test, integration.id, { name: 'another' })
    const changed = await next()
    const versions = [first, same, changed].map((claimed) => claimed.versions.get(integration.id))
    expect(versions[0]).toMatch(/^\d+$/)
    expect(versions[1]).toBe(versions[0])
    expect(versions[2]).not.toBe(versions[0])
  })

  it('takes nothing where there is no room at all', async () => {
    await pending()
    expect(await next({ rows: 0 })).toMatchObject({ rows: [], walked: 1, upto: integration.id })
  })

  it('and another one at the same moment share no row, and neither waits for the other', async () => {
    for (let n = 0; n < 40; n += 1) await pending()
    const [one, two] = connections
    const taken = await one.db.transaction(async (tx) => {
      const mine = await next({ rows: 15, room: 15 }, 'pump:a:1', tx as never)
      const theirs = await next({ rows: 100, room: 100 }, 'pump:b:1', two.db)
      return [mine, theirs]
    })
    expect(taken.map(({ rows }) => rows.length)).toEqual([15, 25])
    const ids = taken.flatMap(({ rows }) => rows.map(({ id }) => id))
    expect(new Set(ids).size).toBe(40)
  })
})

describe('the claim of a pump', () => {
  const lease = (claimText: string) => ({ prefix: 'leases', claim: claimText })
  const keep = (text: string, seconds: number) =>
    keepClaim(test.framework.db, test.framework.tables, lease(text), seconds)
  const lapse = (text: string) =>
    test.sql`update integration_cache set expires_at = clock_timestamp() - interval '1 s' where key = ${`leases:${text}`}`
  const served = (text: string) => isServed(test.framework, lease(text))
  const claims = async () =>
    (await pumpClaims(test.framework.db, test.framework.tables, claimedWebhooks(test.framework.tables), 'leases')).sort(
      (a, b) => a.claim.localeCompare(b.claim),
    )
  const apart = (text: string) =>
    setApart(test.framework.db, test.framework.tables, claimedWebhooks(test.framework.tables), lease(text))

  it('is kept from time to time; one that was not served until now is told so, once', async () => {
    expect(await served('pump:keep:1')).toBe(false)
    expect(await keep('pump:keep:1', 60)).toEqual({ hasLapsed: true })
    expect(await keep('pump:keep:1', 60)).toEqual({ hasLapsed: false })
    expect(await served('pump:keep:1')).toBe(true)
    await lapse('pump:keep:1')
    expect(await served('pump:keep:1')).toBe(false)
    expect(await keep('pump:keep:1', 60)).toEqual({ hasLapsed: true })
    expect(await keep('pump:keep:1', 60)).toEqual({ hasLapsed: false })
    // As pruning may take it away, too.
    await endClaim(test.framework.db, test.framework.tables, lease('pump:keep:1'))
    expect(await served('pump:keep:1')).toBe(false)
    expect(await keep('pump:keep:1', 60)).toEqual({ hasLapsed: true })
  })

  it('is among those that hold rows, with whether somebody serves it; claims of other kinds are not', async () => {
    for (const text of ['pump:alive:1', 'pump:alive:1', 'pump:dead:1', 'pump:silent:1', 'retry-x:1']) await held(text)
    await pending()
    await held('pump:gone:1', { status: 'processed', claim: null })
    await keep('pump:alive:1', 60)
    await keep('pump:silent:1', 60)
    await lapse('pump:silent:1')
    // Another deployment's.
    await keepClaim(test.framework.db, test.framework.tables, { prefix: 'another', claim: 'pump:dead:1' }, 60)
    expect(await claims()).toEqual([
      { claim: 'pump:alive:1', served: true },
      { claim: 'pump:dead:1', served: false },
      { claim: 'pump:silent:1', served: false },
    ])
  })

  it('is taken away from a dead pump: its rows are pending, each with a loss more, and no claim of next rows takes them', async () => {
    const rows = [
      await held('pump:dead:2', { attempts: 3 }),
      await held('pump:dead:2', { attempts: 1, lostWorkers: 2 }),
    ]
    const alive = await held('pump:alive:2')
    expect((await apart('pump:dead:2')).sort((a, b) => a - b)).toEqual(rows.map(({ id }) => id))
    expect(await webhookOf(test, rows[1]?.id ?? 0)).toMatchObject({ status: 'pending', lostWorkers: 3 })
    expect(await webhookOf(test, rows[0]?.id ?? 0)).toMatchObject({
      status: 'pending',
      claim: null,
      attempts: 3,
      lostWorkers: 1,
    })
    expect(await webhookOf(test, alive.id)).toEqual(alive)
    expect((await next()).rows).toEqual([])
    expect(await apart('pump:dead:2')).toEqual([])
  })

  it('is left alone while its pump lives', async () => {
    const row = await held('pump:alive:3')
    await keep('pump:alive:3', 60)
    expect(await apart('pump:alive:3')).toEqual([])
    expect(await webhookOf(test, row.id)).toEqual(row)
  })

  it('is kept or taken away where both come at the same moment, never both', async () => {
    const row = await held('pump:both:1')
    await keep('pump:both:1', 60)
    await lapse('pump:both:1')
    const [one, two] = connections
    const { tables } = test.framework
    // The holder speaks first.
    let taken: Promise<unknown> | undefined
    await one.db.transaction(async (tx) => {
      expect(await keepClaim(tx as never, tables, lease('pump:both:1'), 60)).toEqual({ hasLapsed: true })
      taken = setApart(two.db, tables, claimedWebhooks(tables), lease('pump:both:1'))
      await waitsForLock()
    })
    expect(await taken).toEqual([])
    expect(await webhookOf(test, row.id)).toEqual(row)
    // It speaks too late: what it looks at then is what is left to it.
    await lapse('pump:both:1')
    let kept: Promise<unknown> | undefined
    await one.db.transaction(async (tx) => {
      expect(await setApart(tx as never, tables, claimedWebhooks(tables), lease('pump:both:1'))).toHaveLength(1)
      kept = keepClaim(two.db, tables, lease('pump:both:1'), 60)
      await waitsForLock()
    })
    expect(await kept).toEqual({ hasLapsed: true })
    expect(await idsHeldBy(two.db, claimedWebhooks(tables), 'pump:both:1')).toEqual(new Set())
  })

  it('of rows that were taken away holds them no more: its late outcome and its handing back change nothing', async () => {
    const { id } = await pending()
    const kept = await pending()
    const { rows } = await next({}, 'pump:late:1')
    await test.sql`update integration_webhooks set claim = 'pump:x:1' where id = ${kept.id}`
    await apart('pump:late:1')
    const { db, tables } = test.framework
    expect(await idsHeldBy(db, claimedWebhooks(tables), 'pump:late:1')).toEqual(new Set())
    expect(await idsHeldBy(db, claimedWebhooks(tables), 'pump:x:1')).toEqual(new Set([kept.id]))
    expect(await handBack(db, claimedWebhooks(tables), rows)).toEqual(new Set())
    expect(await webhookOf(test, id)).toMatchObject({ status: 'pending', attempts: 1, lostWorkers: 1 })
  })

  it('leaves rows apart that are asked for again after a while, once each time, those of a disabled integration apart', async () => {
    const ago = new Date(Date.now() - 30_000)
    const [first, second, third] = [
      await pending({ lostWorkers: 1, updatedAt: ago }),
      await pending({ lostWorkers: 2, updatedAt: ago }),
      await pending({ lostWorkers: 1, updatedAt: ago }),
    ]
    await pending({ lostWorkers: 1 })
    await pending({ updatedAt: ago })
    await held('pump:x:1', { lostWorkers: 1, updatedAt: ago })
    const disabled = await other()
    await makeWebhook(test, disabled.id, { lostWorkers: 1, updatedAt: ago })
    await setIntegration(test, disabled.id, { isActive: false, healthStatus: 'disabled' })
    const { db, tables } = test.framework
    const ask = (limit: number) => leftApart(db, tables, { olderThanSeconds: 20, limit })
    expect((await ask(2)).sort((a, b) => a - b)).toEqual([first.id, second.id])
    expect(await ask(2)).toEqual([third.id])
    expect(await ask(2)).toEqual([])
    expect(await webhookOf(test, first.id)).toMatchObject({ status: 'pending', lostWorkers: 1 })
  })
})

/** Some statement waits for a row that another one has written. */
const waitsForLock = () =>
  vi.waitFor(async () => {
    const waiting =
      await test.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    expect(waiting).toHaveLength(1)
  }, SOON)
const other = () => makeIntegration(test, 'acme')
const pending = (values: Parameters<typeof makeWebhook>[2] = {}) => makeWebhook(test, integration.id, values)
const held = (text: string, values: Parameters<typeof makeWebhook>[2] = {}) =>
  pending({ status: 'processing', attempts: 1, claim: text, ...values })

function next(room: Partial<ClaimRoom> = {}, text = 'pump:run:2', db = test.framework.db) {
  return claimNextWebhooks(db, test.framework.tables, text, {
    after: 0,
    integrations: 300,
    rows: 400,
    room: 100,
    rooms: {},
    ...room,
  })
}

function countsOf(rows: readonly { integrationId: number }[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { integrationId } of rows) counts[integrationId] = (counts[integrationId] ?? 0) + 1
  return counts
}

function claim(id: number, from: ClaimableFrom) {
  return claimWebhook(test.framework.db, test.framework.tables, { id, claim: 'run:1', from })
}
