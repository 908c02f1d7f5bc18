/** Streams by the commands and by the operator API. Rule: docs/behaviour/sync-streams.md, "By hand". */
import type { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { HasStreams, SyncStream } from '../../src/providers/contracts.ts'
import type { SyncOf } from '../../src/syncs/sync-jobs.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { logsOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'
import { runCommand } from './cli/run.ts'

const AT = '2026-01-01T00:00:00.000Z'

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let id: number
/** What Temporal was asked, such as `pause contacts`. */
let asked: string[]

const stream = (more: Partial<SyncStream> = {}): SyncStream => ({
  sync: async (_, session) => session.dispatch(new ThingSynced(session.integration, { n: 1 }), AT, 'one'),
  syncWindow: async () => {},
  reduceCheckpoints: () => null,
  events: [ThingSynced],
  everySeconds: 60,
  ...more,
})
const crm: HasStreams = {
  defaultRateLimit: () => null,
  streams: { contacts: stream(), deals: stream({ everySeconds: 3_600, after: 'contacts' }) },
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { crm, plain: syncProvider(() => {}) },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  const noted = (act: string) => async (of: SyncOf) => {
    asked.push(`${act} ${of.stream}`)
    return true
  }
  Object.assign(test.framework.workflows, {
    pauseSync: noted('pause'),
    resumeSync: noted('resume'),
    isSyncRunning: noted('lives?'),
    cancelSync: noted('cancel'),
    async syncProgress(of: SyncOf) {
      asked.push(`progress ${of.stream}`)
      return null
    },
  })
  api = createApi(test.integrations)
})
afterAll(async () => {
  await test?.close()
  await database?.drop()
})
beforeEach(async () => {
  id = (await makeIntegration(test, 'crm')).id
  asked = []
  test.starts.running.clear()
  test.starts.backfills.length = 0
})

const run = (...words: (string | number)[]) => runCommand(test.integrations, words.map(String))
async function ask(method: string, path: string, body?: object) {
  const response = await api.request(`/operator/api/v1/integrations/${id}${path}`, {
    method,
    headers: { authorization: `Bearer ${OPERATE_TOKEN}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  return {
    status: response.status,
    location: response.headers.get('location'),
    body: (await response.json()) as Record<string, unknown>,
  }
}
const actions = async () => (await logsOf(test, id, 'operator')).map(({ summary }) => summary?.split(' by ')[0])

describe('a start', () => {
  it('is of all streams, each with its outcome, or of the one that is named', async () => {
    const all = await run('sync', '--integration', id, '--json')
    expect(all.json()).toEqual({
      integration_id: id,
      stream: null,
      outcome: 'started',
      started: 2,
      already_running: false,
      streams: ['contacts', 'deals'].map((name) => ({
        outcome: 'started',
        stream: name,
        run_id: expect.any(String),
      })),
    })
    const one = await run('sync', '--integration', id, '--stream', 'deals', '--json')
    expect(one.json()).toMatchObject({ stream: 'deals', started: 1 })
    expect((await run('sync', '--integration', id)).out).toBe('contacts: Started 1\ndeals: Started 1\n')
    expect(await actions()).toEqual(['sync', 'sync --stream deals', 'sync'])
  })

  it('over HTTP leads to the progress of its stream, and of all of them to the integration', async () => {
    const all = await ask('POST', '/sync')
    expect(all).toMatchObject({
      status: 202,
      body: { stream: null, streams: [{ stream: 'contacts' }, { stream: 'deals' }] },
    })
    expect(all.location).toBe(`/operator/api/v1/integrations/${id}`)
    const one = await ask('POST', '/sync', { stream: 'deals' })
    expect(one).toMatchObject({ status: 202, body: { stream: 'deals', outcome: 'started' } })
    expect(one.location).toBe(`/operator/api/v1/integrations/${id}/sync?stream=deals`)
    expect(await ask('POST', '/sync', { stream: 'invoices' })).toMatchObject({
      status: 422,
      body: { detail: expect.stringContaining('one of contacts, deals is allowed') },
    })
  })

  it('or a pause, or a resume, over HTTP leads to where it is seen', async () => {
    for (const act of ['/sync', '/pause', '/resume'])
      for (const body of [{}, { stream: 'deals' }]) {
        const { status, location } = await ask('POST', act, body)
        expect([act, status]).toEqual([act, 202])
        const seen = await ask('GET', `${location}`.replace(`/operator/api/v1/integrations/${id}`, ''))
        expect([act, body, seen.status]).toEqual([act, body, 200])
      }
  })

  it('that is watched is of one stream, and starts none before that is said', async () => {
    const ran = await run('sync', '--integration', id, '--watch')
    expect(ran).toMatchObject({ exitCode: 1, err: expect.stringContaining('one of contacts, deals') })
    expect(await actions()).toEqual([])
  })

  it('without an integration names no stream', async () => {
    expect((await run('sync', '--stream', 'deals')).err).toContain('--stream goes with --integration')
  })
})

describe('a stream that is named', () => {
  it.each([
    ['pause-sync', 'pause', 'pause'],
    ['resume-sync', 'resume', 'resume'],
    ['sync-progress', 'progress', null],
  ])('is all that %s is of', async (command, question, action) => {
    const ran = await run(command, id, '--stream', 'deals', '--json')
    expect(ran).toMatchObject({ exitCode: 0 })
    expect(ran.json()).toMatchObject({ integration_id: id, stream: 'deals' })
    expect(asked).toEqual([`${question} deals`])
    expect(await actions()).toEqual(action === null ? [] : [`${action} --stream deals`])
  })

  it.each([
    ['pause-sync', 'pause'],
    ['resume-sync', 'resume'],
    ['sync', 'sync'],
  ])('is noted of %s that was broken off behind it', async (command, action) => {
    const { workflows } = test.framework
    const { pauseSync, resumeSync, startSync } = workflows
    const lost = new BackendUnreachable('Temporal', '127.0.0.1:7233', { remedy: 'Start it.' })
    const fails = async (stream: string | null | undefined, work: () => Promise<unknown>): Promise<unknown> => {
      if (stream === 'deals') throw lost
      return work()
    }
    Object.assign(workflows, {
      pauseSync: (of: SyncOf) => fails(of.stream, async () => {}),
      resumeSync: (of: SyncOf) => fails(of.stream, async () => true),
      startSync: (_: number, __: string, of: { readonly stream?: string }) =>
        fails(of.stream, async () => ({ runId: 'run-1' })),
    })
    try {
      const ran = await run(command, id)
      expect(ran.exitCode).toBe(2)
    } finally {
      Object.assign(workflows, { pauseSync, resumeSync, startSync })
    }
    expect(await actions()).toEqual([`${action} --stream contacts`])
  })

  it('is all that cancel-sync asks for, and is of', async () => {
    const ran = await run('cancel-sync', id, '--stream', 'deals', '--yes', '--json')
    expect(ran.json()).toEqual({ integration_id: id, stream: 'deals', cancelled: true, forgot: false })
    expect(new Set(asked.map((each) => each.split(' ')[1]))).toEqual(new Set(['deals']))
  })

  it('may be one that a release has removed, for what is left of it; one that never was is refused', async () => {
    await test.sql`insert into integration_streams (integration_id, stream) values (${id}, 'gone')`
    expect((await run('resume-sync', id, '--stream', 'gone', '--json')).json()).toMatchObject({ resumed: true })
    expect((await run('cancel-sync', id, '--stream', 'gone', '--yes', '--json')).json()).toMatchObject({
      cancelled: true,
    })
    expect(new Set(asked)).toEqual(new Set(['resume gone', 'lives? gone', 'cancel gone']))
    asked = []
    await run('resume-sync', id)
    // The integration's own sync, too: an earlier release may have had no streams.
    expect(asked).toEqual(['resume contacts', 'resume deals', 'resume gone', 'resume null'])
    const never = await run('resume-sync', id, '--stream', 'invoices')
    expect(never).toMatchObject({ exitCode: 1, err: expect.stringContaining('one of contacts, deals is allowed') })
    const paused = await run('pause-sync', id, '--stream', 'gone')
    expect(paused).toMatchObject({ exitCode: 1, err: expect.stringContaining('one of contacts, deals is allowed') })
  })

  it('is where progress over HTTP is; without it the error lists them', async () => {
    expect((await ask('GET', '/sync?stream=contacts')).body).toMatchObject({ stream: 'contacts', progress: null })
    expect(await ask('GET', '/sync')).toMatchObject({
      status: 422,
      body: { detail: expect.stringContaining('one of contacts, deals is allowed') },
    })
  })

  it('gets its own cursor', async () => {
    Object.assign(test.framework.workflows, { isSyncRunning: async () => false })
    expect((await run('advance-cursor', id, '--stream', 'deals', '--to', '"c"', '--json')).json()).toEqual({
      integration_id: id,
      stream: 'deals',
      from: null,
      to: 'c',
    })
    expect((await ask('PUT', '/cursor', { stream: 'contacts', cursor: 'd' })).body).toMatchObject({ to: 'd' })
    expect((await ask('DELETE', '/cursor?stream=deals')).body).toMatchObject({ stream: 'deals', from: 'c', to: null })
    expect((await run('advance-cursor', id, '--stream', 'deals', '--json')).json()).toMatchObject({
      stream: 'deals',
      runs: 0,
    })
    expect((await run('advance-cursor', id)).err).toContain('one of contacts, deals')
  })

  it('is named by the command that moves its cursor, after a skip whose reduceCheckpoints() threw', async () => {
    const log = await makeRun(test, id, {}, { stream: 'deals', status: 'failed' })
    const item = await makeItem(test, log, { stream: 'deals', status: 'failed', checkpointValue: AT })
    const reduce = vi.spyOn(crm.streams.deals as SyncStream, 'reduceCheckpoints').mockImplementation(() => {
      throw new Error('no order')
    })
    try {
      const { out } = await run('skip-sync-item', item.id)
      expect(out).toContain(`\`integrations advance-cursor ${id} --stream deals\``)
    } finally {
      reduce.mockRestore()
    }
  })

  it('is sampled and listed again alone', async () => {
    expect((await ask('POST', '/sample', { stream: 'contacts' })).body).toMatchObject({
      items: [{ external_id: 'one' }],
    })
    const window = { from: AT, to: '2026-01-02T00:00:00.000Z' }
    expect((await ask('POST', '/backfill', { stream: 'deals', ...window })).body).toMatchObject({ stream: 'deals' })
    expect(test.starts.backfills).toEqual([{ integrationId: id, stream: 'deals', ...window }])
  })
})

describe('the interval of a stream', () => {
  it('is set in seconds, from 10 on, and left to its provider again', async () => {
    const set = await run('sync-interval', id, '--stream', 'deals', '--seconds', 10)
    expect(set.out).toMatch(/streams\.deals +every 10 s/)
    const reset = await ask('DELETE', '/interval?stream=deals')
    expect(reset.body.streams).toMatchObject([
      {},
      { stream: 'deals', interval: expect.objectContaining({ seconds: 3_600 }), sync_interval_seconds: null },
    ])
    expect((await ask('PUT', '/interval', { stream: 'deals', seconds: 9 })).status).toBe(422)
    await expect(test.integrations.syncs.setInterval(id, 9, { stream: 'deals' })).rejects.toThrow('from 10 to')
    const plain = await makeIntegration(test, 'plain')
    await expect(test.integrations.syncs.setInterval(plain.id, 60, { stream: 'deals' })).rejects.toThrow(
      'has no streams',
    )
    expect(await actions()).toEqual(['interval set --stream deals', 'interval reset --stream deals'])
  })

  it.each([
    [['--stream', 'deals', '5'], 'give seconds'],
    [['--stream', 'deals'], 'Give either seconds or --reset'],
    [['--seconds', '30'], 'give minutes'],
  ])('is refused as %j', async (words, message) => {
    expect((await run('sync-interval', id, ...words)).err).toContain(message)
  })

  it('over HTTP needs one of the two', async () => {
    expect(await ask('PUT', '/interval', {})).toMatchObject({
      status: 422,
      body: { detail: expect.stringContaining('minutes') },
    })
    expect((await ask('PUT', '/interval', { minutes: 5 })).body).toMatchObject({ sync_interval_minutes: 5 })
  })
})

describe('what is shown', () => {
  it('has each stream: cursor, times, failures, and what it waits for', async () => {
    const lately = await makeRun(test, id, {}, { stream: 'contacts', status: 'partial' })
    await makeItem(test, lately, { stream: 'contacts', status: 'failed' })
    await test.sql`insert into integration_streams (integration_id, stream, sync_cursor, consecutive_sync_failures, sync_stale_alerted_at)
      values (${id}, 'contacts', '"c"', 2, ${AT})`
    const { streams } = (await run('show', id, '--json')).json() as { streams: unknown }
    const none = {
      last_synced_at: null,
      last_run_at: null,
      next_sync_at: null,
      sync_interval_seconds: null,
      waiting_items: 0,
      pause: null,
    }
    expect(streams).toEqual([
      {
        ...none,
        stream: 'contacts',
        sync_cursor: 'c',
        consecutive_sync_failures: 2,
        stale_since: AT,
        interval: {
          seconds: 60,
          least: 60,
          most: 60,
          reason: 'set',
          age: 'data is at most 3 minutes old; for 2 minutes you need 2 times the calls',
        },
        waits_for: null,
        failed_items: 1,
      },
      {
        ...none,
        stream: 'deals',
        sync_cursor: null,
        consecutive_sync_failures: 0,
        stale_since: null,
        interval: expect.objectContaining({ seconds: 3_600 }),
        waits_for: 'contacts',
        failed_items: 0,
      },
    ])
    expect((await ask('GET', '')).body.streams).toEqual(streams)
    expect((await ask('GET', '/health')).body.streams).toEqual(streams)
    for (const command of ['show', 'health'])
      expect((await run(command, id)).out).toMatch(
        /streams\.deals +every 3600 s: .*waits for the first run of contacts/,
      )
    await test.sql`update integration_streams set last_run_at = now() where integration_id = ${id}`
    expect((await run('show', id)).out).not.toContain('waits for')
  })

  it('has who has paused a stream, or all of them', async () => {
    const { note } = test.integrations.admin.operator
    const act = { token: 'mara', target: `integration:${id}` }
    await note(Number(id), { ...act, action: 'pause --stream deals' })
    const { out } = await run('show', id)
    expect(out).toMatch(/streams\.deals +.*paused by mara since \d{4}-/)
    expect(out).not.toMatch(/streams\.contacts +.*paused/)
    expect(out).not.toMatch(/^paused +by/m)
    await note(Number(id), { ...act, action: 'pause' })
    const shown = await run('show', id)
    expect(shown.out).toMatch(/streams\.contacts +.*paused by mara since \d{4}-/)
    expect(shown.out).toMatch(/^paused +by mara since \d{4}-/m)
    const pause = { by: 'mara', since: expect.stringMatching(/^\d{4}-/) }
    expect((await run('list', '--json')).json()).toContainEqual(expect.objectContaining({ id: Number(id), pause }))
    await note(Number(id), { ...act, action: 'resume' })
    expect((await run('show', id)).out).not.toContain('paused by')
    await note(Number(id), { ...act, action: 'pause' })
    await note(Number(id), { ...act, action: 'resume --stream contacts' })
    await makeRun(test, id, {}, { stream: 'contacts' })
    // Deals are held on, behind however many other acts.
    for (let item = 0; item < 201; item += 1)
      await note(Number(id), { token: 'mara', target: `sync-item:${item}`, action: 'retry' })
    const held = (await run('show', id)).out
    expect(held).toMatch(/streams\.deals +.*paused by mara since \d{4}-/)
    expect(held).not.toMatch(/streams\.contacts +.*paused by/)
    expect(held).not.toMatch(/^paused +by/m)
    await note(Number(id), { ...act, action: 'cursor reset' })
    expect((await run('show', id)).out).not.toContain('paused by')
  })

  it('are the runs and the items of a stream', async () => {
    const ids: Record<string, number> = {}
    for (const name of ['contacts', 'deals']) {
      const made = await makeRun(test, id, {}, { stream: name, status: 'partial' })
      ids[name] = (await makeItem(test, made, { stream: name, status: 'failed' })).id
    }
    for (const command of ['list-sync-runs', 'list-sync-items', 'list-failed-items']) {
      const listed = (await run(command, '--integration', id, '--stream', 'deals', '--json')).json()
      expect(listed).toEqual([expect.objectContaining({ stream: 'deals' })])
    }
    expect((await run('list-failed-items', '--integration', id, '--stream', 'deals', '--json')).json()).toMatchObject([
      { id: ids.deals },
    ])
  })

  it('is nothing of streams where the provider has one sync()', async () => {
    id = (await makeIntegration(test, 'plain')).id
    expect((await ask('GET', '')).body.streams).toEqual([])
    expect((await run('show', id)).out).not.toContain('streams')
  })
})

it('a stream that went stale is named by the dispatch', async () => {
  vi.spyOn(test.framework.workflows, 'runDispatch').mockResolvedValueOnce({
    ...{ due: 0, started: 0, alreadyRunning: 0, recovered: [] },
    stale: [{ integrationId: 7, stream: 'deals', lastSyncedAt: null }],
  })
  const ran = await run('sync')
  expect(ran.err).toContain('Integration 7, stream deals, is stale: its last clean sync was never.')
})
