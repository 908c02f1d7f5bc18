/** A sync of the GitHub adapter against the sandbox, over HTTP: which pages are asked for, and what is logged. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { LoggedRequest } from '../../sandbox/github/request-log.ts'
import type { RunningSandbox } from '../../sandbox/github/server.ts'
import { SANDBOX_TOKEN, startGithubSandbox } from '../../sandbox/github/server.ts'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { itemsOf, makeIntegration, makeRun } from '../support/rows.ts'

const REPOSITORY = { owner: 'octo-sandbox', repo: 'widgets' }

let database: TestDatabase
let test: TestIntegrations
let sandbox: RunningSandbox | undefined

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { github: new GitHubProvider() },
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

async function against(options: { entries: number }, token = SANDBOX_TOKEN): Promise<Integration> {
  sandbox = await startGithubSandbox(options)
  return makeIntegration(test, 'github', { credentials: { token }, metadata: { ...REPOSITORY, base_url: sandbox.url } })
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
