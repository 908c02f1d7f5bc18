/** A sync of the GitHub adapter against the sandbox, over HTTP: which pages are asked for, and what is logged. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { LoggedRequest } from '../../sandbox/github/request-log.ts'
import type { RunningSandbox } from '../../sandbox/github/server.ts'
import { SANDBOX_TOKEN, startGithubSandbox } from '../../sandbox/github/server.ts'
import { GitHubIssueSynced, GitHubProvider } from '../../src/adapters/github/index.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { itemsOf, logOf, makeIntegration, makeRun } from '../support/rows.ts'

const REPOSITORY = { owner: 'octo-sandbox', repo: 'widgets' }

let database: TestDatabase
let test: TestIntegrations
let sandbox: RunningSandbox | undefined

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      github: new GitHubProvider(),
      quiet: class extends GitHubProvider {
        readonly skipUnchanged = { except: ['updated_at'] }
      },
    },
    egress: { allow: ['127.0.0.1'] },
  })
})

afterEach(async () => {
  await sandbox?.close()
  sandbox = undefined
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

describe('the pages of a listing', () => {
  // Every eighth entry of the sandbox is a pull request.
  it.each([
    ['less than a page', 99, 1],
    ['exactly a page: an empty one more', 100, 2],
    ['a page and one', 101, 2],
    ['an exact multiple of 100: an empty one more', 200, 3],
    ['four', 340, 4],
    ['none', 0, 1],
  ])('of %s', async (_, entries, pages) => {
    const integration = await against({ entries })
    const run = await list(integration)
    const asked = await requests()
    expect(asked.map(({ query }) => query.page)).toEqual(Array.from({ length: pages }, (_unused, n) => String(n + 1)))
    for (const { method, canonicalPath, query } of asked) {
      expect([method, canonicalPath]).toEqual(['GET', '/repos/octo-sandbox/widgets/issues'])
      expect(query).toMatchObject({
        state: 'all',
        sort: 'updated',
        direction: 'desc',
        per_page: '100',
        since: '1970-01-01T00:00:00Z',
      })
    }
    // The end is judged by what came, pull requests among it; they are dropped after that.
    const rows = await itemsOf(test, run)
    expect(rows).toHaveLength(entries - Math.floor(entries / 8))
    expect(rows.some((row) => Number(row.externalId) % 8 === 0)).toBe(false)
  })

  it('are followed by Link, on the API‘s own origin', async () => {
    await list(await against({ entries: 150 }))
    // The sandbox's links, as GitHub's, name the repository by id.
    expect((await requests()).map(({ path }) => path)).toEqual([
      '/repos/octo-sandbox/widgets/issues',
      expect.stringMatching(/^\/repositories\/\d+\/issues$/),
    ])
  })
})

describe('a listing', () => {
  it('hands in each issue: number as external id, updated_at as checkpoint, newest first', async () => {
    const run = await list(await against({ entries: 20 }))
    const rows = await itemsOf(test, run)
    const checkpoints = rows.map((row) => String(row.checkpointValue))
    expect(checkpoints).toEqual([...checkpoints].sort().reverse())
    for (const { eventClass, externalId, checkpointValue, payload } of rows) {
      const { data } = payload as { data: { number: number; updated_at: string } }
      expect([eventClass, externalId, checkpointValue]).toEqual([
        'github.issue_synced',
        String(data.number),
        data.updated_at,
      ])
      expect(data).not.toHaveProperty('original')
    }
  })

  it('asks from an hour before the cursor', async () => {
    const integration = await against({ entries: 50 })
    const run = await list(integration, '2020-06-01T05:00:00Z')
    const asked = await requests()
    expect(asked.map(({ canonicalPath, query }) => [canonicalPath.replace(/^.*widgets/, ''), query.since])).toEqual([
      ['/issues', '2020-06-01T04:00:00Z'],
      ['/issues/comments', '2020-06-01T04:00:00Z'],
    ])
    const checkpoints = (await itemsOf(test, run)).map((row) => String(row.checkpointValue))
    expect(checkpoints.every((at) => at >= '2020-06-01T04:00:00Z')).toBe(true)
    expect(checkpoints.length).toBeGreaterThan(0)
  })

  it('of a cursor that is no instant fails for good, nothing sent', async () => {
    const integration = await against({ entries: 5 })
    await expect(list(integration, 'yesterday')).rejects.toMatchObject({ nonRetryable: true, type: 'invalid_argument' })
    expect(await requests()).toEqual([])
  })
})

describe('runs that look back an hour, with skipUnchanged', () => {
  const heard: string[] = []
  beforeAll(() => {
    test.integrations.on(GitHubIssueSynced, ({ payload, change }) => void heard.push(`${payload.number} ${change}`))
  })

  it('tell exactly the issues that have changed', async () => {
    const { id: integrationId } = await against({ entries: 150 }, SANDBOX_TOKEN, 'quiet')
    const run = async () => {
      heard.length = 0
      const clock = new ManualClock(new Date().toISOString())
      const { metadata } = await logOf(test, await runSync(test.framework, clock, { integrationId }))
      const { listed, unchanged } = metadata as { listed: number; unchanged: number }
      return { listed, unchanged, heard: [...heard].sort() }
    }
    const first = await ledger()
    expect(await run()).toEqual({
      listed: first.size,
      unchanged: 0,
      heard: [...first.keys()].map((number) => `${number} added`).sort(),
    })
    // What lies within the hour is listed again.
    const again = await run()
    expect(again.listed).toBeGreaterThan(0)
    expect(again).toEqual({ listed: again.listed, unchanged: again.listed, heard: [] })

    let before = await ledger()
    for (const round of [1, 2, 3]) {
      for (const number of [round, 10 + round, 149]) await patch(number, { title: `Round ${round} of ${number}` })
      await control('issues', { count: 2 })
      await control('issues/touch', { count: 4 })
      const after = await ledger()
      const changed = [...after].flatMap(([number, issue]) =>
        issue === before.get(number) ? [] : [`${number} ${before.has(number) ? 'updated' : 'added'}`],
      )
      // Three that were edited, and at least one of the new ones: the other may be a pull request.
      expect(changed.length).toBeGreaterThanOrEqual(4)
      const told = await run()
      expect(told.heard).toEqual(changed.sort())
      expect(told.unchanged).toBe(told.listed - changed.length)
      before = after
    }
  })

  /** What the sandbox has, but for what does not count. */
  async function ledger(): Promise<Map<number, string>> {
    const issues: { number: number; pull_request?: object; updated_at: string }[] = []
    for (let page = 1, length = 100; length === 100; page += 1) {
      const query = `state=all&per_page=100&page=${page}`
      const entries = (await (await api(`issues?${query}`)).json()) as typeof issues
      issues.push(...entries)
      length = entries.length
    }
    return new Map(
      issues
        .filter((issue) => issue.pull_request === undefined)
        .map(({ updated_at: _at, ...issue }) => [issue.number, JSON.stringify(issue)]),
    )
  }

  async function patch(number: number, edit: object): Promise<void> {
    expect((await api(`issues/${number}`, { method: 'PATCH', body: JSON.stringify(edit) })).status).toBe(200)
  }

  function api(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${SANDBOX_TOKEN}`, accept: 'application/vnd.github.full+json' }
    return fetch(`${sandbox?.url}/repos/${REPOSITORY.owner}/${REPOSITORY.repo}/${path}`, { headers, ...init })
  }

  async function control(path: string, body: object): Promise<void> {
    const response = await fetch(`${sandbox?.url}/_sandbox/${path}`, { method: 'POST', body: JSON.stringify(body) })
    expect(response.ok).toBe(true)
  }
})

describe('each call', () => {
  it('leaves a row with GitHub‘s request id, and no token in it', async () => {
    const integration = await against({ entries: 150 })
    await list(integration)
    const rows = await rowsOf(integration)
    expect(rows.map((row) => [row.endpoint, row.method, row.status_code, row.failure_class])).toEqual([
      ['repos/octo-sandbox/widgets/issues?page=1', 'GET', 200, null],
      ['repos/octo-sandbox/widgets/issues?page=2', 'GET', 200, null],
    ])
    expect(rows.map((row) => row.provider_request_id)).toEqual((await requests()).map(({ requestId }) => requestId))
    expect(JSON.stringify(rows)).not.toContain(SANDBOX_TOKEN)
  })

  it('with a wrong token is a client failure, made once, and final for the listing', async () => {
    const integration = await against({ entries: 5 }, 'a-token-that-is-wrong')
    await expect(list(integration)).rejects.toMatchObject({ nonRetryable: true })
    expect((await rowsOf(integration)).map((row) => [row.status_code, row.failure_class])).toEqual([[401, 'client']])
    expect(await requests()).toHaveLength(1)
  })

  it.each([
    ['503', { status: 503, headers: { 'retry-after': '0' } }, 503, 'upstream'],
    [
      '403 with Retry-After',
      { status: 403, headers: { 'retry-after': '0' }, body: { message: 'slow down' } },
      403,
      'throttle',
    ],
    ['429', { status: 429, headers: { 'retry-after': '0' } }, 429, 'throttle'],
  ])('after %s is made again, each attempt with its row', async (_, trouble, status, failureClass) => {
    const integration = await against({ entries: 5 })
    await fault({ match: 'GET *', ...trouble })
    await list(integration)
    const rows = await rowsOf(integration)
    expect(rows.map((row) => [row.status_code, row.failure_class, row.retry_of])).toEqual([
      [status, failureClass, null],
      [200, null, rows[0]?.id],
    ])
    expect(rows.map((row) => row.provider_request_id)).toEqual((await requests()).map(({ requestId }) => requestId))
  })

  it('whose answer is no list of issues is drift: the listing fails, nothing is handed in', async () => {
    const integration = await against({ entries: 5 })
    await fault({
      match: 'GET *',
      status: 200,
      body: { message: 'not a list' },
      headers: { 'content-type': 'application/json' },
    })
    await expect(list(integration)).rejects.toMatchObject({ type: 'schema_drift' })
    expect((await rowsOf(integration)).map((row) => [row.status_code, row.failure_class])).toEqual([[200, 'unknown']])
  })
})

async function against(options: { entries: number }, token = SANDBOX_TOKEN, provider = 'github'): Promise<Integration> {
  sandbox = await startGithubSandbox(options)
  return makeIntegration(test, provider, { credentials: { token }, metadata: { ...REPOSITORY, base_url: sandbox.url } })
}

async function list(integration: Integration, cursor: string | null = null): Promise<number> {
  const run = await makeRun(test, integration.id, { enumerated: false, cursor_before: cursor })
  await runActivity(test.activities.listSyncItems, { integrationId: integration.id, syncLogId: run.id, attempt: 1 })
  return run.id
}

async function requests(): Promise<LoggedRequest[]> {
  const response = await fetch(`${sandbox?.url}/_sandbox/requests`)
  return ((await response.json()) as { requests: LoggedRequest[] }).requests
}

async function fault(given: Record<string, unknown>): Promise<void> {
  const response = await fetch(`${sandbox?.url}/_sandbox/faults`, { method: 'POST', body: JSON.stringify(given) })
  expect(response.status).toBe(201)
}

async function rowsOf({ id }: Integration) {
  return test.sql`select * from integration_requests where integration_id = ${id} order by id`
}
