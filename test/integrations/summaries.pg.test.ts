/** The list of integrations as an operator sees it. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { IntegrationSummary } from '../../src/integrations/list.ts'
import { clearReauthMark, markReauthRequired } from '../../src/oauth/reauth.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration, makeRun, setIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {}, many: {} } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

async function summaries(filter: Parameters<TestIntegrations['integrations']['admin']['summaries']>[0]) {
  const found: IntegrationSummary[] = []
  for await (const each of test.integrations.admin.summaries(filter)) found.push(each)
  return found
}

/** Each stream has its row before its first run opens. */
async function streamsOf(integrationId: number, ...streams: readonly string[]): Promise<void> {
  const { db, tables } = test.framework
  await db.insert(tables.streams).values(streams.map((stream) => ({ integrationId, stream })))
}

async function calls(id: number, count: number, failureClass: string | null, hoursAgo = 1): Promise<void> {
  await test.sql`
    insert into integration_requests (integration_id, endpoint, method, failure_class, created_at)
    select ${id}, 'users', 'GET', ${failureClass}, now() - make_interval(mins => ${Math.round(hoursAgo * 60)}::int)
    from generate_series(1, ${count}::int)`
}

describe('a summary', () => {
  it('says what the row says, and the traffic of the last 24 hours', async () => {
    const owner = { type: 'team', id: 1 }
    const { id } = await makeIntegration(test, 'plain', { owner })
    const lastSyncedAt = new Date('2031-01-01')
    await setIntegration(test, id, { healthStatus: 'degraded', lastSyncedAt, syncStaleAlertedAt: new Date() })
    await calls(id, 5, null)
    for (const failureClass of ['upstream', 'throttle', 'client', 'unknown']) await calls(id, 1, failureClass)
    await calls(id, 100, null, 24.1)
    await calls(id, 100, 'upstream', 24.1)
    expect(await summaries({ owner })).toEqual([
      {
        id,
        name: 'of a test',
        provider: 'plain',
        registered: true,
        healthStatus: 'degraded',
        isActive: true,
        switchedOffAt: null,
        circuit: 'closed',
        stale: true,
        reauthRequired: false,
        lastSyncedAt,
        failedItems: 0,
        waitingItems: 0,
        lastRun: null,
        openRun: null,
        pause: null,
        requests24h: 9,
        errorRate24h: 44.4,
      },
    ])
  })

  it('names the run that is under way beside the last one that ended, of several streams the first', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await streamsOf(id, 'deals')
    const runs = async () => (await summaries({ after: id - 1, limit: 1 }))[0]
    const ended = await makeRun(test, id, {}, { status: 'success' })
    expect(await runs()).toMatchObject({ lastRun: { id: ended.id }, openRun: null })
    // Its workflow was lost, and a later run of the same stream has ended.
    await makeRun(test, id, {}, { stream: 'deals' })
    await makeRun(test, id, {}, { stream: 'deals', status: 'failed' })
    const since = new Date('2031-01-01T12:00:00.250Z')
    const open = await makeRun(test, id, {}, { createdAt: since })
    await makeRun(test, id, {}, { stream: 'deals' })
    await makeRun(test, id, {}, { operation: 'backfill' })
    expect(await runs()).toMatchObject({ openRun: { id: open.id, stream: null, since } })
    await test.sql`update integration_logs set status = 'success' where id = ${open.id}`
    expect(await runs()).toMatchObject({ lastRun: { id: open.id }, openRun: { stream: 'deals' } })
  })

  it('names the long run of one stream behind however many runs of a quick one', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await streamsOf(id, 'archive', 'deals')
    const open = await makeRun(test, id, {}, { stream: 'archive' })
    for (let n = 0; n < 21; n += 1) await makeRun(test, id, {}, { stream: 'deals', status: 'success' })
    expect((await summaries({ after: id - 1, limit: 1 }))[0]).toMatchObject({
      openRun: { id: open.id, stream: 'archive' },
    })
  })

  it.each([
    ['no traffic', 0, 0, null],
    ['no failure', 7, 0, 0],
    ['nothing but failures', 0, 3, 100],
    ['one of three', 2, 1, 33.3],
    ['two of three', 1, 2, 66.7],
  ])('with %s', async (_, good, bad, rate) => {
    const { id } = await makeIntegration(test, 'plain')
    await calls(id, good, null)
    await calls(id, bad, 'upstream')
    expect((await summaries({ after: id - 1, limit: 1 }))[0]).toMatchObject({
      id,
      requests24h: good + bad,
      errorRate24h: rate,
    })
  })

  it('counts a row with an error and no class as a failure', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await calls(id, 3, null)
    await test.sql`
      insert into integration_requests (integration_id, endpoint, method, error) values (${id}, 'users', 'GET', 'Error: written by hand')`
    expect((await summaries({ after: id - 1, limit: 1 }))[0]).toMatchObject({ requests24h: 4, errorRate24h: 25 })
  })

  it('is there for a row of an unregistered provider whose credentials can not be read', async () => {
    const { id } = await makeIntegration(test, 'plain')
    await setIntegration(test, id, { provider: 'gone', credentials: 'plain text' })
    expect(await summaries({ provider: 'gone' })).toMatchObject([{ id, provider: 'gone', registered: false }])
  })

  it('says who waits for a person to authorize it again', async () => {
    const [first, second] = [await makeIntegration(test, 'plain'), await makeIntegration(test, 'plain')]
    await markReauthRequired(test.framework, second, 'invalid_grant')
    const marked = async () => (await summaries({ after: first.id - 1 })).map(({ reauthRequired }) => reauthRequired)
    expect(await marked()).toEqual([false, true])
    await clearReauthMark(test.framework, second.id)
    expect(await marked()).toEqual([false, false])
  })

  it('asks for the traffic, the marks, the breakers and the pauses of a whole page at once', async () => {
    const ids: number[] = []
    for (let n = 0; n < 101; n += 1) ids.push((await makeIntegration(test, 'many')).id)
    await calls(ids[100] as number, 2, null)
    await calls(ids[0] as number, 1, 'client')
    await (await test.integrations.get(ids[100] as number)).overrideCircuit('forced_open')
    const statements = vi.spyOn(test.framework.db, 'execute')
    const marks = vi.spyOn(test.framework.cache, 'getMany')
    const found = await summaries({ provider: 'many' })
    expect(statements).toHaveBeenCalledTimes(8)
    expect(marks.mock.calls.map(([keys]) => keys.length)).toEqual([100, 1])
    expect(found.map(({ id }) => id)).toEqual(ids)
    expect(found[100]).toMatchObject({ requests24h: 2, errorRate24h: 0, circuit: 'forced_open' })
    expect(found[0]).toMatchObject({ requests24h: 1, errorRate24h: 100, circuit: 'closed' })
    expect((await summaries({ provider: 'many', limit: 3 })).length).toBe(3)
  })
})
