/** Starts that are remembered, over real rows. Rule: docs/behaviour/sync-scheduling.md, "Remembered starts". */
import { drizzle } from 'drizzle-orm/postgres-js'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { rememberedStarts, rememberStart, takeStarts } from '../../src/syncs/remembered-starts.ts'
import { startRun } from '../../src/syncs/start.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let id: number
/** What the workers' look has started, and how. */
let started: unknown[]
let look: (now: number) => Promise<void>

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: syncProvider(() => {}) } })
})
afterAll(async () => {
  await test.close()
  await database.drop()
})
beforeEach(async () => {
  await test.sql`truncate integration_sync_starts`
  integration = await makeIntegration(test, 'acme')
  id = integration.id
  started = []
  const before = test.framework.workflows.startSync
  vi.spyOn(test.framework.workflows, 'startSync').mockImplementation((...asked) => {
    started.push(asked)
    return before(...asked)
  })
  look = rememberedStarts(test.framework)
  return () => vi.restoreAllMocks()
})

const start = (...ask: [] | [Parameters<typeof test.integrations.syncs.start>[1]]) =>
  test.integrations.syncs.start(id, ...ask)

async function remembered(of = id) {
  const [row] = await test.sql<{ again: boolean; later: number | null; since: number | null }[]>`
    select again_at is not null as again, extract(epoch from later_at - now())::float8 as later,
           extract(epoch from now() - later_since)::float8 as since
    from integration_sync_starts where integration_id = ${of}`
  return row ?? null
}
/** As if all that was asked had been asked so long ago. */
const passes = (seconds: number) => test.sql`
  update integration_sync_starts set again_at = again_at - make_interval(secs => ${seconds}),
    later_at = later_at - make_interval(secs => ${seconds}), later_since = later_since - make_interval(secs => ${seconds})`
const open = (runId: string, only: { onlyIfAsked?: boolean; onlyIfDue?: boolean } = {}) =>
  startRun(test.framework, { integrationId: id }, { runId, ...only })

describe('while a run lives', () => {
  beforeEach(() => {
    test.starts.running.add(id)
  })

  it('fifty asks are one remembered start, which one run takes', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => start()))
    expect(answers).toEqual(Array.from({ length: 50 }, () => ({ kind: 'remembered' })))
    expect(await remembered()).toMatchObject({ again: true, later: null })
    expect(await open('first', { onlyIfAsked: true })).toMatchObject({ kind: 'open' })
    expect(await remembered()).toBeNull()
  })

  it('what is asked once the run has opened stays for the next one, also when its opening is tried again', async () => {
    await open('first')
    await start()
    expect(await open('first')).toMatchObject({ kind: 'open' })
    expect(await remembered()).toMatchObject({ again: true })
  })

  it('an integration that is deleted meanwhile is not found', async () => {
    vi.mocked(test.framework.workflows.startSync).mockImplementationOnce(async () => {
      await test.sql`delete from integrations where id = ${id}`
      return 'already running'
    })
    await expect(start()).rejects.toMatchObject({ code: 'integration_not_found' })
  })
})

it('a start that no run is in the way of is not remembered, and says which run it is', async () => {
  expect(await start()).toEqual({ kind: 'started', runId: expect.any(String) })
  expect(await remembered()).toBeNull()
})

it('an ask that comes while a run opens, after it has read what there is, stays', async () => {
  for (let round = 0; round < 20; round += 1) {
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
    let asked: Promise<void> | undefined
    await test.framework.db.transaction(async (tx) => {
      await takeStarts(tx, test.framework.tables, { integrationId: id })
      asked = rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
      await tx.execute('select pg_sleep(0.01)')
    })
    await asked
    expect(await remembered()).toMatchObject({ again: true })
  }
})

it('a run that finds nothing remembered does not open', async () => {
  expect(await open('late', { onlyIfAsked: true })).toEqual({
    kind: 'nothing to do',
    reason: 'another run has taken what was asked',
  })
})

it('a dispatch that comes too late for what was due leaves what was asked', async () => {
  await setIntegration(test, id, { nextSyncAt: new Date(Date.now() + 60_000) })
  test.starts.running.add(id)
  await start()
  expect(await open('dispatched', { onlyIfDue: true })).toMatchObject({ kind: 'nothing to do' })
  expect(await remembered()).toMatchObject({ again: true })
})

it('a start that goes on with a run which listed before is remembered', async () => {
  const run = await makeRun(test, id, { metadata: { run_id: 'dead', enumerated: true } })
  await makeItem(test, run, { status: 'pending' })
  expect(await open('adopts')).toMatchObject({ kind: 'adopted', syncLogId: run.id })
  expect(await remembered()).toMatchObject({ again: true })
})

it.each([{ onlyIfAsked: true }, { onlyIfDue: true }])(
  'a start with %o that goes on with such a run asks for nothing: what was forgotten meanwhile stays so',
  async (only) => {
    const run = await makeRun(test, id, { metadata: { run_id: 'dead', enumerated: true } })
    await makeItem(test, run, { status: 'pending' })
    expect(await open('adopts', only)).toMatchObject({ kind: 'adopted', syncLogId: run.id })
    expect(await remembered()).toBeNull()
  },
)

it('a remembered start that goes on with such a run stays remembered', async () => {
  const run = await makeRun(test, id, { metadata: { run_id: 'dead', enumerated: true } })
  await makeItem(test, run, { status: 'pending' })
  await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
  expect(await open('adopts', { onlyIfAsked: true })).toMatchObject({ kind: 'adopted', syncLogId: run.id })
  expect(await remembered()).toMatchObject({ again: true })
})

describe('later', () => {
  it('waits for its moment, and says when that is', async () => {
    const notBefore = new Date(Date.now() + 90_000)
    expect(await start({ notBefore })).toEqual({ kind: 'later', at: notBefore })
    await look(0)
    expect(started).toEqual([])
    await passes(91)
    await look(1_000)
    expect(started).toEqual([[id, 'acme', { onlyIfAsked: true }]])
  })

  it('keeps one wait, of which the latest moment counts', async () => {
    const [early, late] = [new Date(Date.now() + 60_000), new Date(Date.now() + 120_000)]
    await start({ notBefore: late })
    expect(await start({ notBefore: early })).toEqual({ kind: 'later', at: late })
    expect(await start({ debounceSeconds: 5 })).toEqual({ kind: 'later', at: late })
    expect(await test.sql`select from integration_sync_starts`).toHaveLength(1)
  })

  it('is pushed back by each ask, and never beyond ten times the debounce after the first', async () => {
    await start({ debounceSeconds: 10 })
    expect((await remembered())?.later).toBeCloseTo(10, 0)
    await passes(6)
    expect((await remembered())?.later).toBeCloseTo(4, 0)
    await start({ debounceSeconds: 10 })
    expect(await remembered()).toMatchObject({ later: expect.closeTo(10, 0), since: expect.closeTo(6, 0) })
    await passes(89)
    await start({ debounceSeconds: 10 })
    // 95 s after the first ask.
    expect((await remembered())?.later).toBeCloseTo(5, 0)
    await passes(4)
    await start({ debounceSeconds: 10 })
    expect((await remembered())?.later).toBeCloseTo(1, 0)
  })

  it('stays when a run opens before its moment, and is taken by one that opens after it', async () => {
    await start({ debounceSeconds: 60 })
    test.starts.running.add(id)
    await start()
    await open('first')
    expect(await remembered()).toMatchObject({ again: false, later: expect.closeTo(60, 0) })
    await passes(61)
    await test.sql`update integration_logs set status = 'success' where integration_id = ${id}`
    await open('second')
    expect(await remembered()).toBeNull()
  })
})

describe('the look of a worker', () => {
  /** What its statement finds, and how many buffers that reads. */
  async function due() {
    const asked: { text: string; parameters: unknown[] }[] = []
    const logQuery = (text: string, parameters: unknown[]): void => void asked.push({ text, parameters })
    await rememberedStarts({ ...test.framework, db: drizzle(test.sql, { logger: { logQuery } }) })(0)
    const query = asked.find(({ text }) => text.includes('isOpen'))
    const parameters = query?.parameters as never[]
    const rows = await test.sql.unsafe(String(query?.text), parameters)
    const [plan] = await test.sql.unsafe(`explain (analyze, buffers, format json) ${query?.text}`, parameters)
    const top = plan?.['QUERY PLAN'][0].Plan
    return { rows, buffers: top['Shared Hit Blocks'] + top['Shared Read Blocks'] }
  }

  const twoStarts = [
    [expect.any(Number), 'acme', { onlyIfAsked: true }],
    [expect.any(Number), 'acme', { onlyIfAsked: true }],
  ]

  it('starts each once, those first that were asked first, and tries in vain ever more seldom', async () => {
    const other = await makeIntegration(test, 'acme')
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: other.id })
    await passes(5)
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
    await look(0)
    expect(started).toEqual(twoStarts)
    expect((started as number[][]).map(([of]) => of)).toEqual([other.id, id])
    await look(500)
    expect(started).toHaveLength(2)
    await look(1_000)
    expect(started).toHaveLength(4)
    await look(2_000)
    expect(started).toHaveLength(4)
  })

  it('leaves one beside its open run, and takes it once that has ended', async () => {
    const run = await makeRun(test, id)
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
    await look(0)
    await look(1_000)
    expect(started).toEqual([])
    await test.sql`update integration_logs set status = 'failed' where id = ${run.id}`
    await look(2_000)
    expect(started).toHaveLength(1)
  })

  it('forgets what was asked of one that is switched off, with a line, and keeps the others', async () => {
    const healthy = await makeIntegration(test, 'acme')
    const broken = await makeIntegration(test, 'acme')
    for (const { id: of } of [integration, healthy, broken])
      await rememberStart(test.framework.db, test.framework.tables, { integrationId: of })
    await integration.disable()
    await setIntegration(test, broken.id, { healthStatus: 'disabled' })
    await look(0)
    expect(started).toEqual([[healthy.id, 'acme', { onlyIfAsked: true }]])
    expect(await remembered()).toBeNull()
    expect(await remembered(broken.id)).toBeNull()
    expect(await remembered(healthy.id)).not.toBeNull()
    const told = test.lines.filter(({ fields }) => fields.event === 'sync.start_forgotten')
    expect(told.map(({ fields }) => fields.integration).sort()).toEqual([id, broken.id].sort())
    await expect(start({ debounceSeconds: 5 })).rejects.toMatchObject({ code: 'integration_inactive' })
  })

  it('goes on after one that is refused, and ends where Temporal is away: nothing is lost', async () => {
    const other = await makeIntegration(test, 'acme')
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: other.id })
    vi.mocked(test.framework.workflows.startSync).mockRejectedValueOnce(new Error('no such queue'))
    await look(0)
    expect(started).toEqual([[other.id, 'acme', { onlyIfAsked: true }]])
    vi.mocked(test.framework.workflows.startSync).mockRejectedValue(
      new BackendUnreachable('Temporal', 'localhost', { remedy: 'Wait.' }),
    )
    await expect(look(60_000)).rejects.toMatchObject({ code: 'backend_unreachable' })
    expect(test.framework.workflows.startSync).toHaveBeenCalledTimes(3)
    expect(await test.sql`select from integration_sync_starts`).toHaveLength(2)
  })

  it('knows an open run of one stream from those of another', async () => {
    await makeRun(test, id, {}, { stream: 'archive' })
    await makeRun(test, id, {}, { stream: 'deals', status: 'success' })
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: id, stream: 'archive' })
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: id, stream: 'deals' })
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
    // Asked for in one millisecond, they have no order.
    const open = async () => Object.fromEntries((await due()).rows.map(({ stream, isOpen }) => [stream, isOpen]))
    expect(await open()).toEqual({ archive: true, deals: false, '': false })
    await makeRun(test, id)
    expect(await open()).toEqual({ archive: true, deals: false, '': true })
  })

  it('reads a few rows, however many runs of other streams there are', async () => {
    await test.sql`
      insert into integrations (provider, name, credentials)
      select 'acme', 'one of many', 'sealed' from generate_series(1, 50)`
    await test.sql`
      insert into integration_logs (integration_id, operation, direction, status, stream)
      select i.id, 'sync', 'inbound', 'success', 'stream-' || n % 4
      from integrations i cross join generate_series(1, 20000) n
      where i.id = ${id} or (i.name = 'one of many' and n <= 200)`
    await test.sql`vacuum analyze integration_logs`
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: id, stream: 'archive' })
    expect((await due()).buffers).toBeLessThan(100)
  })

  describe('behind thousands that can not begin', () => {
    const alreadyRunning = async (...asked: unknown[]) => {
      started.push(asked)
      return 'already running' as const
    }
    const isTried = () => started.some((asked) => (asked as [number])[0] === id)

    /** Remembered an hour ago. */
    async function hold(count: number, provider: string): Promise<void> {
      await test.sql`
        with held as (
          insert into integrations (provider, name, credentials)
          select ${provider}::text, 'held', 'sealed' from generate_series(1, ${count}::int)
          returning id)
        insert into integration_sync_starts (integration_id, stream, again_at)
        select id, '', now() - interval '1 hour' from held`
    }

    it('tries a later one before they are tried again', async () => {
      vi.mocked(test.framework.workflows.startSync).mockImplementation(alreadyRunning)
      await hold(3_100, 'acme')
      for (let second = 0; second < 40; second += 1) await look(second * 1_000)
      expect(started).toHaveLength(4_000)
      await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
      await look(40_000)
      expect(isTried()).toBe(true)
      expect(started).toHaveLength(4_100)
    })

    it('tries each of them about as often as the others', async () => {
      vi.mocked(test.framework.workflows.startSync).mockImplementation(alreadyRunning)
      await hold(250, 'acme')
      for (let second = 0; second < 10; second += 1) await look(second * 1_000)
      const tries = new Map<unknown, number>()
      for (const asked of started) {
        const [of] = asked as [number]
        tries.set(of, (tries.get(of) ?? 0) + 1)
      }
      expect(tries.size).toBe(250)
      expect(Math.max(...tries.values()) - Math.min(...tries.values())).toBeLessThanOrEqual(1)
    })

    it('gives its turn to one that has been held for longer than they', async () => {
      await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
      vi.mocked(test.framework.workflows.startSync).mockImplementation(alreadyRunning)
      for (let minute = 0; minute < 20; minute += 1) await look(minute * 60_000)
      await hold(3_100, 'acme')
      for (let second = 0; second < 31; second += 1) await look(1_200_000 + second * 1_000)
      started.length = 0
      for (let second = 31; second < 62; second += 1) await look(1_200_000 + second * 1_000)
      expect(isTried()).toBe(true)
    })

    it.each([
      ['another process knows the provider of', 'elsewhere', 1],
      ['a pause holds', 'acme', 2],
    ])('looks at a later one behind more than one look reads, which %s', async (_, provider, looks) => {
      vi.mocked(test.framework.workflows.startSync).mockImplementation(alreadyRunning)
      await hold(5_050, provider)
      await rememberStart(test.framework.db, test.framework.tables, { integrationId: id })
      for (let second = 0; second < looks; second += 1) {
        expect(isTried()).toBe(false)
        await look(second * 1_000)
      }
      expect(isTried()).toBe(true)
    })
  })

  it('leaves one whose provider this process does not know', async () => {
    const stranger = await makeIntegration(test, 'acme')
    await test.sql`update integrations set provider = 'elsewhere' where id = ${stranger.id}`
    await rememberStart(test.framework.db, test.framework.tables, { integrationId: stranger.id })
    await look(0)
    expect(started).toEqual([])
    expect(await remembered(stranger.id)).not.toBeNull()
  })
})

describe('of a stream that a release has removed', () => {
  const streamsAsked = async () => {
    const rows = await test.sql`select stream from integration_sync_starts where integration_id = ${id}`
    return rows.map(({ stream }) => stream)
  }
  beforeEach(() => rememberStart(test.framework.db, test.framework.tables, { integrationId: id, stream: 'gone' }))

  it('is forgotten a day after it was due, with a line: a worker of another release may know it', async () => {
    await passes(86_000)
    await look(0)
    expect(await streamsAsked()).toEqual(['gone'])
    await passes(500)
    await look(1_000)
    expect(await streamsAsked()).toEqual([])
    expect(started).toEqual([])
    const lines = test.lines.filter(({ fields }) => fields.event === 'sync.start_forgotten')
    const told = lines.filter(({ fields }) => fields.integration === id)
    expect(told).toMatchObject([{ level: 'info', fields: { stream: 'gone' } }])
  })

  const ways = [{ forget: true }, { forget: true, stream: 'gone' }]
  it.each(ways)('is forgotten by a cancellation with %o', async (how) => {
    await test.integrations.syncs.cancel(id, how)
    expect(await streamsAsked()).toEqual([])
  })
})

it('a cancellation keeps what is remembered, unless it is to be forgotten', async () => {
  test.starts.running.add(id)
  await start()
  await start({ debounceSeconds: 60 })
  await test.integrations.syncs.cancel(id)
  expect(await remembered()).toMatchObject({ again: true, later: expect.closeTo(60, 0) })
  await test.integrations.syncs.cancel(id, { forget: true })
  expect(await remembered()).toBeNull()
})
