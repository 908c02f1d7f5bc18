/** sync, pause-sync, resume-sync, cancel-sync, sync-progress, and what is done with runs, items and cursors, on real rows. */
import { hostname, userInfo } from 'node:os'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { watchSync } from '../../src/commands/cli/watch-sync.ts'
import type { LogRow } from '../../src/db/schema/tables.ts'
import { BackendUnreachable, NoWorkerAnswered } from '../../src/framework/errors.ts'
import type { HandlesMissing, HasBackfill } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { ProcessSyncItemInput, SyncProgress } from '../../src/syncs/sync-jobs.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import type { Lists } from '../support/providers.ts'
import { SECRET, syncProvider, ThingSynced, TOKEN } from '../support/providers.ts'
import { itemOf, logsOf, makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import type { Ran, RunOptions } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const NEVER = '999999999'
const AT = new Date('2031-06-01T12:00:00.000Z')
const LATER = new Date('2031-06-02T12:00:00.000Z')
const byUser = `cli:${userInfo().username}`
const CURSOR = '2031-06-01T00:00:00Z'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let id: number
const gone: string[] = []
/** What the provider lists. */
const lists = vi.fn<Lists>()
/** What Temporal would answer. */
const dispatch = vi.fn()
const progress = vi.fn<() => Promise<SyncProgress | null>>()
const away = () => new BackendUnreachable('Temporal', '127.0.0.1:1', { remedy: 'Start it.' })

beforeAll(async () => {
  database = await createTestDatabase()
  const acme = syncProvider((session) => lists(session))
  const tidy: HandlesMissing = { ...acme, handleMissing: async (_integration, ids) => void gone.push(...ids) }
  const archive: HasBackfill = { ...acme, syncWindow: () => expect.unreachable('the workflow asks') }
  test = testIntegrations(database.url, { providers: { acme, archive, tidy, silent: {} } })
  const { processOneSyncItem } = test.activities
  let jobs = 0
  Object.assign(test.framework.workflows, {
    runDispatch: dispatch,
    syncProgress: progress,
    runProcessSyncItem: ({ itemId, tries = 1 }: ProcessSyncItemInput) => {
      jobs += 1
      return runActivity(processOneSyncItem, { itemId, claim: `retry-job-${jobs}:1`, attempt: 1, tries })
    },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  for (const mock of [lists, dispatch, progress]) mock.mockReset()
  progress.mockResolvedValue(null)
  integration = await makeIntegration(test, 'acme')
  id = integration.id
})

async function run(words: readonly (string | number)[], options?: RunOptions): Promise<Ran> {
  const ran = await runCommand(test.integrations, words.map(String), options)
  for (const secret of [TOKEN, SECRET]) expect(ran.out + ran.err).not.toContain(secret)
  return ran
}

const notes = async (of = id) =>
  (await logsOf(test, of, 'operator')).map(({ metadata }) => metadata as Record<string, unknown>)
const note = (action: string, target = `integration:${id}`) => ({ token: byUser, action, target, from: hostname() })
const errorOf = (ran: Ran): { code: string; message: string } => (ran.json() as { error: never }).error

const at = (values: Partial<SyncProgress> = {}): SyncProgress => ({
  phase: 'processing',
  isPaused: false,
  syncLogId: null,
  listed: 10,
  unchanged: 0,
  succeeded: 0,
  failed: 0,
  waiting: 0,
  nextAttemptAt: null,
  lastFailure: null,
  listingFailure: null,
  perSecond: null,
  secondsLeft: null,
  intakeFrom: null,
  startedAt: AT.toISOString(),
  ...values,
})

/** A run that has ended. */
const ended = (status: string, metadata: Record<string, unknown> = {}, values: Partial<LogRow> = {}) =>
  makeRun(
    test,
    id,
    {
      listed: 10,
      success_count: 9,
      failure_count: 1,
      skipped_count: 0,
      cursor_before: 'a',
      cursor_after: 'a',
      ...metadata,
    },
    { status, durationMs: 1_500, createdAt: AT, ...values },
  )

describe('sync', () => {
  const NOTHING = { due: 0, started: 0, alreadyRunning: 0, stale: [], recovered: [] }

  it.each([
    ['starts what is due', { ...NOTHING, due: 3, started: 2, alreadyRunning: 1 }, 'Started 2\n'],
    ['says when nothing was', NOTHING, 'Nothing was due.\n'],
    ['says when all run already', { ...NOTHING, due: 2, alreadyRunning: 2 }, 'Nothing to start: 2 run already.\n'],
  ])('%s', async (_, result, out) => {
    dispatch.mockResolvedValue(result)
    expect(await run(['sync'])).toMatchObject({ exitCode: 0, out, err: '' })
  })

  it('warns of each that became stale', async () => {
    dispatch.mockResolvedValue({
      ...NOTHING,
      stale: [
        { integrationId: 7, lastSyncedAt: AT.toISOString() },
        { integrationId: 8, lastSyncedAt: null },
      ],
      recovered: [9],
    })
    const ran = await run(['sync', '--json'])
    expect(ran.exitCode).toBe(0)
    expect(ran.json()).toEqual({
      due: 0,
      started: 0,
      already_running: 0,
      stale: [
        { integration_id: 7, last_synced_at: AT.toISOString() },
        { integration_id: 8, last_synced_at: null },
      ],
      recovered: [9],
    })
    expect(ran.err).toBe(
      `Integration 7 is stale: its last clean sync was ${AT.toISOString()}.\nIntegration 8 is stale: its last clean sync was never.\n`,
    )
  })

  it('ends with 2 where Temporal is not reached', async () => {
    dispatch.mockRejectedValue(away())
    const ran = await run(['sync', '--json'])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([2, 'backend_unreachable'])
  })
})

describe('sync --integration', () => {
  it('starts one now and writes it down; one that runs is no failure', async () => {
    const ran = await run(['sync', '--integration', id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      integration_id: id,
      stream: null,
      outcome: 'started',
      started: 1,
      already_running: false,
    })
    expect(await notes()).toEqual([note('sync')])
    test.starts.running.add(id)
    expect(await run(['sync', '--integration', id])).toMatchObject({
      exitCode: 0,
      out: 'Already running: will run again after the one that runs\n',
    })
    expect(await notes()).toHaveLength(2)
  })

  it('takes the id without the option, and not both', async () => {
    expect(await run(['sync', id])).toMatchObject({ exitCode: 0, out: 'Started 1\n' })
    const both = await run(['sync', id, '--integration', id, '--json'])
    expect(errorOf(both)).toEqual({
      code: 'usage',
      message: `Give the integration once: ${id} and --integration ${id} were given.`,
    })
    expect(await notes()).toEqual([note('sync')])
  })

  it('says that one is paused, and what goes on', async () => {
    test.starts.running.add(id)
    progress.mockResolvedValueOnce(at({ phase: 'held', isPaused: true }))
    expect(await run(['sync', id])).toMatchObject({
      exitCode: 0,
      out: `Paused: \`integrations resume-sync ${id}\` goes on; this run follows.\n`,
    })
    // What a worker would say is not known: the start is remembered all the same.
    for (const error of [away(), new NoWorkerAnswered(`sync:${id}`, 10)]) {
      progress.mockRejectedValueOnce(error)
      expect(await run(['sync', id])).toMatchObject({
        exitCode: 0,
        out: 'Already running: will run again after the one that runs\n',
      })
    }
    expect((await run(['sync', id, '--json'])).json()).toMatchObject({ outcome: 'remembered' })
  })

  it('is refused for one that is switched off, of a provider that can not, or not there', async () => {
    await setIntegration(test, id, { isActive: false })
    expect(errorOf(await run(['sync', '--integration', id, '--json'])).code).toBe('integration_inactive')
    const silent = await makeIntegration(test, 'silent')
    expect(errorOf(await run(['sync', '--integration', silent.id, '--json'])).code).toBe('unsupported_by_provider')
    expect(errorOf(await run(['sync', '--integration', NEVER, '--json'])).code).toBe('integration_not_found')
    expect(await notes()).toEqual([])
  })
})

describe('sync --watch', () => {
  it('shows a line for each change and ends with how the run ended', async () => {
    const { id: runId } = await ended('partial')
    progress
      .mockResolvedValueOnce(at({ phase: 'listing', syncLogId: runId, listed: null }))
      .mockResolvedValueOnce(at({ phase: 'done', syncLogId: runId }))
    const ran = await run(['sync', '--integration', id, '--watch'])
    expect(ran).toMatchObject({
      exitCode: 1,
      out: `Run ${runId}: partial, 10 listed, 9 succeeded, 1 failed, 0 skipped, in 1.5 s.\nThe cursor stays until a later run makes up for them, or they are skipped: mend what they failed of, and run it again. \`integrations list-failed-items --integration ${id}\` shows them.\n`,
      err: 'Started 1\nlisting\n',
    })
    expect(await notes()).toEqual([note('sync')])
  })

  it('joins a run, and with --json prints one document at its end and nothing before', async () => {
    const { id: runId } = await ended('success', { failure_count: 0, success_count: 10, cursor_after: 'b' })
    test.starts.running.add(id)
    progress.mockResolvedValueOnce(at({ phase: 'done', syncLogId: runId }))
    const ran = await run(['sync', '--integration', id, '--watch', '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      integration_id: id,
      stream: null,
      outcome: 'remembered',
      started: 0,
      already_running: true,
      run: {
        id: runId,
        integration_id: id,
        ...{ provider: 'acme', integration_name: 'of a test' },
        operation: 'sync',
        status: 'success',
        listed: 10,
        succeeded: 10,
        failed: 0,
        skipped: 0,
        error: null,
        duration_ms: 1_500,
        cursor_before: 'a',
        cursor_after: 'b',
        created_at: AT.toISOString(),
        updated_at: expect.any(String),
        ...{ summary: null, external_id: null, parent_id: null, origin: null, stream: null },
        metadata: expect.objectContaining({ cursor_before: 'a', cursor_after: 'b', listed: 10 }),
      },
    })
  })

  it.each(['failed', 'cancelled'])('ends with 1 for a run that is %s', async (status) => {
    const { id: runId } = await ended(status, {}, { error: `Error: of ${id} \u001b[31mred` })
    progress.mockResolvedValueOnce(at({ phase: 'done', syncLogId: runId }))
    const ran = await run(['sync', '--integration', id, '--watch'])
    expect(ran.exitCode).toBe(1)
    expect(ran.out).toContain(`Run ${runId}: ${status}`)
    expect(ran.out).toContain(`Error: of ${id} [31mred\n`)
  })

  it('finds the run that had ended before it was first asked', async () => {
    await ended('failed')
    let runId = 0
    progress.mockImplementationOnce(async () => {
      runId = (await ended('success')).id
      return null
    })
    expect((await run(['sync', '--integration', id, '--watch'])).out).toContain(`Run ${runId}: success`)
  })

  it('says when no run was opened', async () => {
    await ended('failed')
    expect(await run(['sync', '--integration', id, '--watch'])).toMatchObject({
      exitCode: 0,
      out: 'No run was opened: the log of the worker says why.\n',
    })
  })

  it('says that a run without a workflow is left', async () => {
    const { id: runId } = await makeRun(test, id)
    progress.mockResolvedValueOnce(at({ phase: 'done', syncLogId: runId }))
    const ran = await run(['sync', '--integration', id, '--watch'])
    expect(ran.exitCode).toBe(1)
    expect(ran.out).toContain('its workflow is gone')
  })
})

describe('the watching', () => {
  /** As a command does it, asking without a pause. */
  async function watch(
    { isInteractive = false, signal = new AbortController().signal } = {},
    { after = null }: { after?: number | null } = {},
  ) {
    let err = ''
    const write = (text: string): void => {
      err += text
    }
    const terminal = {
      out: () => expect.unreachable('the result is the caller’s'),
      err: write,
      isInteractive,
      columns: () => 60,
      prompts: {} as never,
      sources: { environment: {}, file: () => '', stdin: async () => '' },
    }
    const context = {
      integrations: test.integrations,
      terminal,
      json: false,
      by: byUser,
      from: undefined,
      limits: {},
      note: async () => expect.unreachable('nothing is done'),
      signal,
      progress: write,
      warn: (text: string) => write(`${text}\n`),
    }
    const run = await watchSync(context, { id, stream: undefined }, { after, everyMs: 1 }).catch(
      (error: Error) => error,
    )
    return { run, err }
  }

  it('prints a line only when the figures change', async () => {
    const { id: syncLogId } = await ended('success')
    for (const values of [
      { phase: 'listing', listed: null },
      { phase: 'listing', listed: null },
      { succeeded: 5, failed: 1, perSecond: 2.5 },
      { succeeded: 5, failed: 1, perSecond: 2.6 },
      { succeeded: 5, failed: 1, isPaused: true },
      { phase: 'done' },
    ] as const)
      progress.mockResolvedValueOnce(at({ syncLogId, ...values }))
    const { run, err } = await watch()
    expect(err).toBe('listing\n60 %  6 of 10  1 failed  2.5/s\npaused  60 %  6 of 10  1 failed\n')
    expect(run).toMatchObject({ id: syncLogId, status: 'success' })
  })

  it('redraws one line on a terminal, no longer than that is wide, and leaves it empty', async () => {
    const { id: syncLogId } = await ended('success')
    progress
      .mockResolvedValueOnce(at({ syncLogId, succeeded: 5, waiting: 3, perSecond: 410, secondsLeft: 9, failed: 2 }))
      .mockResolvedValueOnce(null)
    const { err } = await watch({ isInteractive: true })
    const shown = '[##############------] 70 %  7 of 10  2 failed  3 waiting  410/s  9 s left'
    expect(err).toBe(`\r\u001b[K${shown.slice(0, 59)}\r\u001b[K`)
  })

  it('goes on over an outage, which it says once', async () => {
    const { id: syncLogId } = await ended('success')
    progress
      .mockRejectedValueOnce(away())
      .mockRejectedValueOnce(away())
      .mockResolvedValueOnce(at({ syncLogId }))
      .mockRejectedValueOnce(away())
      .mockResolvedValueOnce(null)
    const { run, err } = await watch()
    const said = 'Temporal was not reached at 127.0.0.1:1. Start it. The run is asked again until it answers.\n'
    expect(err).toBe(`${said}0 %  0 of 10\n${said}`)
    expect(run).toMatchObject({ id: syncLogId })
  })

  it('ends with its own run when the next one has begun', async () => {
    const [first, next] = [await ended('partial'), await makeRun(test, id)]
    progress.mockResolvedValueOnce(at({ syncLogId: first.id })).mockResolvedValueOnce(at({ syncLogId: next.id }))
    expect((await watch()).run).toMatchObject({ id: first.id, status: 'partial' })
    expect(progress).toHaveBeenCalledTimes(2)
  })

  it('is ended by Ctrl-C, which leaves the run alone and says how to come back', async () => {
    const interrupt = new AbortController()
    progress.mockResolvedValueOnce(at()).mockImplementationOnce(async () => {
      interrupt.abort()
      return at({ succeeded: 1 })
    })
    const { run, err } = await watch({ signal: interrupt.signal })
    expect(run).toMatchObject({ code: 'interrupted' })
    expect(err).toBe(`0 %  0 of 10\nThe run goes on. \`integrations sync-progress ${id} --watch\` shows it again.\n`)
    expect(test.starts.cancelled).not.toContain(id)
  })

  it('through a command, too', async () => {
    const interrupt = new AbortController()
    progress.mockImplementation(async () => {
      interrupt.abort()
      return at()
    })
    const ran = await run(['sync', '--integration', id, '--watch'], { signal: interrupt.signal })
    expect(ran.exitCode).toBe(130)
    expect(ran.err).toContain(`\`integrations sync-progress ${id} --watch\` shows it again.`)
  })

  it('of an integration that is not there ends with 1', async () => {
    expect(errorOf(await run(['sync', '--integration', NEVER, '--watch', '--json'])).code).toBe('integration_not_found')
  })
})

describe('sync --dry-run', () => {
  it('shows what would be listed, and stores none of it', async () => {
    lists.mockImplementation(async (session) => {
      await session.dispatch(new ThingSynced(session.integration, { n: 1 }), 'c1', 'one \u001b[31mred')
      await session.dispatch(new ThingSynced(session.integration, { n: 2 }), { page: 2 })
      await session.dispatch(new ThingSynced(session.integration, { n: 3 }))
    })
    const words = ['sync', '--integration', id, '--dry-run', '--limit', 2]
    const ran = await run([...words, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: 'There are more than 2; --limit shows more, 100 at most.\n' })
    expect(ran.json()).toEqual({
      items: [
        {
          external_id: 'one \u001b[31mred',
          event_class: 'test.thing',
          checkpoint_value: 'c1',
          bytes: expect.any(Number),
        },
        { external_id: null, event_class: 'test.thing', checkpoint_value: { page: 2 }, bytes: expect.any(Number) },
      ],
      more: true,
      duplicates_dropped: 0,
    })
    const [head, first, second] = (await run(words)).out.split('\n')
    expect(head).toMatch(/^External ID +Event +Checkpoint +Bytes$/)
    expect(first).toMatch(/^one \[31mred +test\.thing +c1 +\d+$/)
    expect(second).toMatch(/^- +test\.thing +\{"page":2\} +\d+$/)
    expect(await logsOf(test, id, 'sync')).toEqual([])
    expect(await notes()).toEqual([])
  })

  it('says that nothing would be listed', async () => {
    expect(await run(['sync', '--integration', id, '--dry-run'])).toMatchObject({
      exitCode: 0,
      out: 'Nothing would be listed.\n',
      err: '',
    })
  })

  it('is refused where the provider can not', async () => {
    const silent = await makeIntegration(test, 'silent')
    expect(errorOf(await run(['sync', '--integration', silent.id, '--dry-run', '--json'])).code).toBe(
      'unsupported_by_provider',
    )
  })
})

describe('sync --from --to', () => {
  const WINDOW = ['--from', '2021-06-01T14:00:00+02:00', '--to', '2021-06-02T12:00:00Z']
  const window = { from: '2021-06-01T12:00:00.000Z', to: '2021-06-02T12:00:00.000Z' }

  beforeEach(async () => {
    test.starts.backfills.length = 0
    id = (await makeIntegration(test, 'archive')).id
  })

  it('starts a backfill, and writes it down', async () => {
    const ran = await run(['sync', '--integration', id, ...WINDOW])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.out).toBe(`Started 1\nIt is one run: \`integrations list-sync-runs --integration ${id}\` shows it.\n`)
    expect(test.starts.backfills).toEqual([{ integrationId: id, ...window }])
    expect(await notes()).toEqual([note(`backfill ${window.from} to ${window.to}`)])
  })

  it('says how many runs it makes', async () => {
    const ask = ['sync', '--integration', id, '--from', '2021-06-01T12:00:00Z', '--to', '2021-07-01T13:00:00Z']
    expect((await run(ask)).out).toBe(
      `Started 1\nIt makes 31 runs, one for each day: \`integrations list-sync-runs --integration ${id}\` shows them.\n`,
    )
    expect((await run([...ask, '--json'])).json()).toMatchObject({ started: 1, runs: 31 })
  })

  it('says when one runs already', async () => {
    const { workflows } = test.framework
    const { startBackfill } = workflows
    Object.assign(workflows, { startBackfill: async () => 'already running' })
    const ran = await run(['sync', '--integration', id, ...WINDOW, '--json'])
    Object.assign(workflows, { startBackfill })
    expect([ran.exitCode, ran.json()]).toEqual([
      0,
      { integration_id: id, stream: null, started: 0, already_running: true },
    ])
    expect(await notes()).toEqual([])
  })

  it('is refused where the provider can not', async () => {
    const { id: without } = integration
    const ran = await run(['sync', '--integration', without, ...WINDOW, '--json'])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, 'unsupported_by_provider'])
  })
})

describe('pause-sync, resume-sync and cancel-sync', () => {
  it('pauses, whether a run lives or not', async () => {
    const ran = await run(['pause-sync', id])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.out).toContain(`\`integrations resume-sync ${id}\` goes on`)
    expect((await run(['integrations:pause-sync', id, '--json'])).json()).toEqual({
      integration_id: id,
      stream: null,
      paused: true,
    })
    expect(test.starts.signals.filter(({ integrationId }) => integrationId === id)).toEqual([
      { signal: 'pause', integrationId: id },
      { signal: 'pause', integrationId: id },
    ])
    expect(await notes()).toEqual([note('pause'), note('pause')])
  })

  it('resumes; without a run there is nothing to do', async () => {
    expect(await run(['resume-sync', id])).toMatchObject({ exitCode: 0, out: 'Nothing to resume: no run lives.\n' })
    expect(await notes()).toEqual([])
    test.starts.running.add(id)
    expect((await run(['resume-sync', id, '--json'])).json()).toEqual({
      integration_id: id,
      stream: null,
      resumed: true,
    })
    expect(await notes()).toEqual([note('resume')])
  })

  it('cancels after a yes, and says when there is nothing to cancel', async () => {
    test.starts.running.add(id)
    const asked: string[] = []
    expect(await run(['cancel-sync', id], { answers: { 'Cancel the sync run': false }, asked })).toMatchObject({
      exitCode: 1,
      err: 'Nothing was changed.\n',
    })
    expect(asked[0]).toContain(`integration ${id} ("of a test", acme)`)
    expect(errorOf(await run(['cancel-sync', id, '--json'])).code).toBe('confirmation_needed')
    expect(test.starts.cancelled).not.toContain(id)
    expect(await notes()).toEqual([])
    expect(await run(['cancel-sync', id, '--yes'])).toMatchObject({ exitCode: 0, out: 'Cancelled\n' })
    expect(test.starts.cancelled).toContain(id)
    const again = await run(['cancel-sync', id, '--yes', '--json'])
    expect([again.exitCode, again.json()]).toEqual([
      0,
      { integration_id: id, stream: null, cancelled: false, forgot: false },
    ])
    expect(await notes()).toEqual([note('cancel')])
  })

  it('leaves what was asked for meanwhile, which show names, until it is told to forget', async () => {
    test.starts.running.add(id)
    await run(['sync', '--integration', id])
    await test.sql`update integration_sync_starts set later_at = ${LATER}, later_since = now() where integration_id = ${id}`
    expect((await run(['cancel-sync', id, '--yes', '--json'])).json()).toMatchObject({ cancelled: true, forgot: false })
    const shown = (await run(['show', id])).out
    expect(shown).toMatch(/will run again +after this run: asked at 20/)
    expect(shown).toMatch(new RegExp(`will run again +at ${LATER.toISOString()}`))
    const before = await notes()
    expect(await run(['cancel-sync', id, '--forget', '--yes'])).toMatchObject({
      exitCode: 0,
      out: 'Nothing to cancel: no run lives.\nForgotten: what was asked for and had not begun.\n',
    })
    expect((await run(['show', id, '--json'])).json()).toMatchObject({ remembered: [] })
    expect((await notes()).slice(before.length)).toEqual([note('forget-start')])
    const again = await run(['cancel-sync', id, '--forget', '--yes', '--json'])
    expect(again.json()).toEqual({ integration_id: id, stream: null, cancelled: false, forgot: false })
  })

  it.each([['pause-sync'], ['resume-sync'], ['cancel-sync', '--yes'], ['sync-progress'], ['sync-progress', '--watch']])(
    '%s of an integration that is not there ends with 1',
    async (...words) => {
      expect(errorOf(await run([...words, NEVER, '--json'])).code).toBe('integration_not_found')
    },
  )

  it('ends with 2 where Temporal is not reached', async () => {
    const { workflows } = test.framework
    const { pauseSync } = workflows
    Object.assign(workflows, { pauseSync: () => Promise.reject(away()) })
    const ran = await run(['pause-sync', id])
    Object.assign(workflows, { pauseSync })
    expect(ran.exitCode).toBe(2)
    expect(await notes()).toEqual([])
  })
})

describe('sync-progress', () => {
  it('shows how far the run is', async () => {
    const lastFailure = { itemId: 9, attempt: 2, error: 'TypeError: no table' }
    const waits = { waiting: 3, nextAttemptAt: LATER.toISOString(), lastFailure }
    progress.mockResolvedValue(
      at({ syncLogId: 41, unchanged: 2, succeeded: 6, isPaused: true, perSecond: 2.5, secondsLeft: 2, ...waits }),
    )
    const ran = await run(['sync-progress', id, '--json'])
    expect(ran.json()).toEqual({
      integration_id: id,
      stream: null,
      progress: {
        phase: 'processing',
        is_paused: true,
        sync_log_id: 41,
        listed: 10,
        unchanged: 2,
        succeeded: 6,
        failed: 0,
        waiting: 3,
        next_attempt_at: LATER.toISOString(),
        last_failure: { item_id: 9, attempt: 2, error: 'TypeError: no table' },
        listing_failure: null,
        per_second: 2.5,
        seconds_left: 2,
        intake_from: null,
        started_at: AT.toISOString(),
      },
    })
    expect((await run(['sync-progress', id])).out).toMatch(/^last_failure +item 9, attempt 2: TypeError: no table$/m)
  })

  it('shows why the listing fails, and when it is tried again', async () => {
    const listingFailure = {
      type: 'HttpError',
      error: 'HttpError: 502',
      attempt: 2,
      failedAt: AT.toISOString(),
      nextAttemptAt: LATER.toISOString(),
    }
    progress.mockResolvedValue(at({ phase: 'listing', listed: null, listingFailure }))
    expect((await run(['sync-progress', id, '--json'])).json()).toMatchObject({
      progress: {
        listing_failure: {
          ...{ type: 'HttpError', error: 'HttpError: 502', attempt: 2 },
          ...{ failed_at: AT.toISOString(), next_attempt_at: LATER.toISOString() },
        },
      },
    })
    expect((await run(['sync-progress', id])).out).toMatch(
      /^listing_failure +call 2: HttpError: 502; tried again at \d\d:\d\d:\d\dZ, failed at /m,
    )
  })

  it('says that it waits for the rate limit, and until when', async () => {
    progress.mockResolvedValue(at({ intakeFrom: LATER.toISOString() }))
    const { out } = await run(['sync-progress', id])
    expect(out).toMatch(/^waits for the rate limit until +2031-06-02T12:00:00.000Z$/m)
    expect(out).not.toContain('intake_from')
    progress.mockResolvedValue(at({}))
    expect((await run(['sync-progress', id])).out).not.toMatch(/rate limit|intake_from/)
  })

  it.each([[[]], [['--watch']]])('says that no run lives %j', async (words) => {
    expect(await run(['sync-progress', id, ...words])).toMatchObject({ exitCode: 0, out: 'No run lives.\n', err: '' })
  })

  it('watches to the end', async () => {
    const { id: syncLogId } = await ended('success')
    progress.mockResolvedValueOnce(at({ syncLogId })).mockResolvedValueOnce(at({ syncLogId, phase: 'done' }))
    const ran = await run(['sync-progress', id, '--watch', '--json'])
    expect([ran.exitCode, ran.json()]).toMatchObject([
      0,
      { integration_id: id, run: { id: syncLogId, status: 'success' } },
    ])
  })

  it.each([[[]], [['--watch']]])('ends with 2 when nobody answers %j', async (words) => {
    progress.mockRejectedValue(away())
    expect((await run(['sync-progress', id, ...words])).exitCode).toBe(2)
  })
})

describe('list-sync-runs and show-sync-run', () => {
  it('list the newest first, and warn when there are more', async () => {
    const [older, newer] = [
      await ended('failed', {}, { error: 'x'.repeat(100) }),
      await makeRun(test, id, { window: { from: CURSOR, to: CURSOR } }, { operation: 'backfill' }),
    ]
    const ran = await run(['list-sync-runs', '--integration', id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toMatchObject([
      { id: newer.id, operation: 'backfill', status: 'processing', listed: null, succeeded: null },
      { id: older.id, operation: 'sync', status: 'failed', listed: 10, succeeded: 9, failed: 1, skipped: 0 },
    ])
    const { out } = await run(['list-sync-runs', '--integration', id, '--status', 'failed'])
    expect(out.split('\n')[0]).toMatch(
      /^ *ID +Integration +Stream +Operation +Status +Listed +Succeeded +Failed +Skipped +ms +Error +Created$/,
    )
    expect(out).toMatch(/ x{59}… /)
    expect((await run(['list-sync-runs', '--integration', id])).out).toMatch(
      / backfill of 2031-06-01T00:00Z +processing /,
    )
    const first = await run(['list-sync-runs', '--integration', id, '--limit', 1, '--json'])
    expect(first.err).toBe(`There are more than 1; --limit shows more, --after ${newer.id} the next ones.\n`)
    const second = await run(['list-sync-runs', '--integration', id, '--after', newer.id, '--json'])
    expect(second.json()).toMatchObject([{ id: older.id }])
  })

  it.each<[readonly string[], readonly number[]]>([
    [['--since', '2031-06-02T12:00:00Z'], [1]],
    [['--until', '2031-06-02T14:00:00+02:00'], [0]],
  ])('%j', async (filter, expected) => {
    const rows = [await ended('success'), await ended('success', {}, { createdAt: LATER })]
    const ran = await run(['list-sync-runs', '--integration', id, ...filter, '--json'])
    expect((ran.json() as { id: number }[]).map((row) => row.id)).toEqual(expected.map((index) => rows[index]?.id))
  })

  it('say that there are none, and that there is no such integration or run', async () => {
    expect(await run(['list-sync-runs', '--integration', id])).toMatchObject({ exitCode: 0, out: 'No sync runs.\n' })
    expect(errorOf(await run(['list-sync-runs', '--integration', NEVER, '--json'])).code).toBe('integration_not_found')
    const ran = await run(['show-sync-run', NEVER, '--json'])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, 'sync_run_not_found'])
  })

  it('show one with its items by status', async () => {
    const row = await ended('partial')
    await makeItem(test, row, { status: 'failed' })
    const ran = await run(['show-sync-run', row.id, '--json'])
    expect(ran.json()).toMatchObject({
      id: row.id,
      status: 'partial',
      items: { pending: 0, processing: 0, success: 0, failed: 1, skipped: 0 },
      metadata: row.metadata,
    })
    expect((await run(['show-sync-run', row.id])).out).toMatch(/^items failed +1$/m)
  })
})

describe('finalise-sync-run', () => {
  it('finalises one that nobody finalised, which is written down, and else changes nothing', async () => {
    const row = await makeRun(test, id)
    await makeItem(test, row, { status: 'success', checkpointValue: CURSOR, completedAt: AT })
    const ran = await run(['finalise-sync-run', row.id])
    expect(ran).toMatchObject({ exitCode: 0, out: `Finalised, cursor null to "${CURSOR}"\n`, err: '' })
    expect(await notes()).toEqual([note('finalise', `sync-run:${row.id}`)])
    const again = await run(['finalise-sync-run', row.id, '--json'])
    expect([again.exitCode, again.json()]).toEqual([0, { runs: 0, from: CURSOR, to: CURSOR, reclaimed: 0 }])
    expect(await notes()).toHaveLength(1)
    expect(errorOf(await run(['finalise-sync-run', NEVER, '--json'])).code).toBe('sync_run_not_found')
  })
})

describe('confirm-missing', () => {
  it('says what was withheld, asks, tells the provider, and is written down', async () => {
    const of = await makeIntegration(test, 'tidy')
    await of.mapExternalId('gone', { type: 'note', id: '1' })
    const listing = { full_listing: { internal_type: null }, listed: 0 }
    const later = new Date(Date.now() + 1_000)
    await makeRun(test, of.id, listing, { status: 'success', createdAt: later })
    const withheld = { ...listing, missing_withheld: { missing: 1, mapped: 1 } }
    const row = await makeRun(test, of.id, withheld, { status: 'success', createdAt: later })
    const looked = await run(['confirm-missing', row.id, '--dry-run'])
    expect(looked).toMatchObject({ exitCode: 0, out: '1 of 1 mapped ids are missing (gone); 0 told.\n' })
    expect(errorOf(await run(['confirm-missing', row.id, '--json']))).toMatchObject({
      code: 'confirmation_needed',
      message: expect.stringContaining('Tell the provider that 1 of 1 mapped ids are gone (gone)?'),
    })
    expect([gone, await notes(of.id)]).toEqual([[], []])
    const ran = await run(['confirm-missing', row.id, '--yes', '--json'])
    expect(ran.json()).toEqual({ integration_id: of.id, missing: 1, mapped: 1, examples: ['gone'], told: 1 })
    expect(gone).toEqual(['gone'])
    expect(await notes(of.id)).toEqual([note('confirm-missing', `sync-run:${row.id}`)])
    expect(errorOf(await run(['confirm-missing', row.id, '--yes', '--json'])).code).toBe('missing_not_withheld')
  })
})

describe('sync items of any status', () => {
  it('are listed, the newest first, by what is asked of them', async () => {
    const row = await ended('partial')
    const failed = { status: 'failed', attempts: 1, error: 'Error: no', completedAt: AT } as const
    const old = await makeItem(test, row, { ...failed, externalId: 'one', createdAt: AT })
    const newer = await makeItem(test, row, { status: 'success', externalId: 'one', createdAt: LATER })
    const wait = { status: 'processing', attempts: 1, nextAttemptAt: LATER, createdAt: LATER } as const
    const waits = await makeItem(test, row, wait)
    const listed = async (...words: (string | number)[]) => {
      const ran = await run(['list-sync-items', ...words, '--json'])
      expect(ran.exitCode).toBe(0)
      return (ran.json() as { id: number }[]).map((item) => item.id)
    }
    expect(await listed('--integration', id)).toEqual([waits.id, newer.id, old.id])
    expect(await listed('--run', row.id, '--external-id', 'one')).toEqual([newer.id, old.id])
    expect(await listed('--run', row.id, '--waiting', 'true')).toEqual([waits.id])
    expect(await listed('--run', row.id, '--made-up-for', 'false')).toEqual([])
    expect(await listed('--run', row.id, '--made-up-for', 'true', '--owner', 'team:7')).toEqual([])
    expect(await listed('--run', row.id, '--until', LATER.toISOString(), '--provider', 'acme')).toEqual([old.id])
    const { out } = await run(['list-sync-items', '--run', row.id, '--status', 'failed'])
    expect(out).toMatch(/^ *ID +Integration +Stream +Run +Event +External ID +Status +Attempts +Error +Created\n/)
    expect(out).toMatch(
      new RegExp(`${old.id} +${id} +- +${row.id} +test\\.thing +one +failed +1 +Error: no +${AT.toISOString()}`),
    )
    expect(errorOf(await run(['list-sync-items', '--external-id', 'one', '--json'])).code).toBe('usage')
  })

  it('are shown, with what was listed only on request, and without secrets', async () => {
    const item = await makeItem(test, await ended('partial'), { payload: { v: 1, data: { token: TOKEN, n: 1 } } })
    const shown = (await run(['show-sync-item', item.id, '--json'])).json()
    expect(shown).toMatchObject({ id: item.id, status: 'pending', holds_cursor: true })
    expect(shown).not.toHaveProperty('payload')
    const whole = (await run(['show-sync-item', item.id, '--payload', '--json'])).json()
    expect(whole).toMatchObject({ payload: { v: 1, data: { token: '[REDACTED]', n: 1 } }, checkpoint_value: null })
    expect(errorOf(await run(['show-sync-item', NEVER, '--json'])).code).toBe('sync_item_not_found')
  })
})

describe('sync-interval', () => {
  it('is set, and given back to the provider', async () => {
    const set = await run(['sync-interval', id, 15])
    expect(set).toMatchObject({ exitCode: 0, err: '' })
    expect(set.out).toContain(
      `Integration ${id} is synced 15 minutes after the end of a run, with the next dispatch. The next run is due at `,
    )
    expect((await test.integrations.get(id)).syncIntervalMinutes).toBe(15)
    const reset = (await run(['sync-interval', id, '--reset', '--json'])).json()
    expect(reset).toMatchObject({ id, sync_interval_minutes: null })
    expect(await notes()).toEqual([note('interval set'), note('interval reset')])
  })

  it.each([[[]], [[15, '--reset']], [[0]]])('%j is refused', async (words) => {
    expect(errorOf(await run(['sync-interval', id, ...words, '--json'])).code).toBe('usage')
    expect(await notes()).toEqual([])
  })
})

describe('failed items', () => {
  let row: LogRow
  const failed = (values: Parameters<typeof makeItem>[2] = {}) =>
    makeItem(test, row, {
      status: 'failed',
      attempts: 3,
      error: 'Error: no',
      completedAt: AT,
      createdAt: AT,
      ...values,
    })

  beforeEach(async () => {
    row = await ended('partial')
  })

  it('are listed, the newest first', async () => {
    const first = await failed({ externalId: 'one' })
    const second = await failed({ error: `Error: \u001b[31m${'x'.repeat(100)}`, createdAt: LATER })
    await makeItem(test, row, { status: 'success' })
    const ran = await run(['list-failed-items', '--integration', id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    const held = { holds_cursor: true, made_up_for_by: null, next_attempt_at: null }
    const common = { integration_id: id, stream: null, event_class: 'test.thing', attempts: 3, ...held }
    expect(ran.json()).toEqual([
      { ...common, id: second.id, external_id: null, error: second.error, created_at: LATER.toISOString() },
      { ...common, id: first.id, external_id: 'one', error: 'Error: no', created_at: AT.toISOString() },
    ])
    const [head, line] = (await run(['list-failed-items', '--integration', id])).out.split('\n')
    expect(head).toMatch(/^ *ID +Integration +Event +External ID +Error +Attempts +Created$/)
    expect(line).toMatch(
      new RegExp(`^ *${second.id} +${id} +test\\.thing +- +Error: \\[31mx{47}… +3 +${LATER.toISOString()}$`),
    )
    const since = await run(['list-failed-items', '--integration', id, '--since', LATER.toISOString(), '--json'])
    expect(since.json()).toMatchObject([{ id: second.id }])
    const limited = await run(['list-failed-items', '--integration', id, '--limit', 1, '--json'])
    expect(limited.err).toBe('There are more than 1; --limit shows more.\n')
    expect(limited.json()).toMatchObject([{ id: second.id }])
  })

  it('are none', async () => {
    expect(await run(['list-failed-items', '--integration', id])).toMatchObject({
      exitCode: 0,
      out: 'No failed items.\n',
    })
    expect(errorOf(await run(['list-failed-items', '--integration', NEVER, '--json'])).code).toBe(
      'integration_not_found',
    )
  })

  it('are skipped, and the cursor goes on', async () => {
    await makeItem(test, row, { status: 'success', checkpointValue: CURSOR })
    const item = await failed()
    const ran = await run(['skip-sync-item', item.id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      item_id: item.id,
      integration_id: id,
      stream: null,
      cursor_moved: true,
      reducer_threw: null,
    })
    expect(await itemOf(test, item.id)).toMatchObject({ status: 'skipped', error: 'Error: no' })
    expect((await test.integrations.get(id)).syncCursor).toBe(CURSOR)
    expect(await notes()).toEqual([note('skip', `sync-item:${item.id}`)])
  })

  it('that a later run made up for are neither listed nor retried, unless all are meant', async () => {
    const old = await failed({ externalId: 'one' })
    const newer = await makeItem(test, row, { status: 'success', externalId: 'one' })
    expect((await run(['list-failed-items', '--integration', id])).out).toBe('No failed items.\n')
    expect((await run(['list-failed-items', '--integration', id, '--all', '--json'])).json()).toMatchObject([
      { id: old.id, made_up_for_by: newer.id, holds_cursor: false },
    ])
    const [head, line] = (await run(['list-failed-items', '--integration', id, '--all'])).out.split('\n')
    expect(head).toMatch(/ Created +Made up for by$/)
    expect(line).toMatch(new RegExp(` ${newer.id}$`))
    const refused = await run(['retry-sync-item', old.id])
    expect(refused).toMatchObject({ exitCode: 1, out: expect.stringContaining('older data over newer') })
    expect(await run(['retry-sync-item', '--run', row.id])).toMatchObject({
      out: 'Nothing to retry.\n',
      err: expect.stringContaining('1 are left out: a later run made up for them'),
    })
    const asked: unknown[] = []
    const { runProcessSyncItem } = test.framework.workflows
    const succeeds: typeof runProcessSyncItem = async (input) => {
      asked.push(input)
      return { itemId: input.itemId, outcome: 'success', status: 'success', attempts: 4, error: null }
    }
    Object.assign(test.framework.workflows, { runProcessSyncItem: succeeds })
    try {
      expect((await run(['retry-sync-item', old.id, '--force'])).exitCode).toBe(0)
    } finally {
      Object.assign(test.framework.workflows, { runProcessSyncItem })
    }
    expect(asked).toEqual([{ itemId: old.id, tries: 1, force: true }])
  })

  it('are not none while items wait: it says so', async () => {
    const waits = await makeItem(test, row, {
      status: 'processing',
      attempts: 1,
      lastError: 'Error: no table',
      nextAttemptAt: LATER,
    })
    expect(await run(['list-failed-items', '--integration', id])).toMatchObject({
      out: 'No failed items.\n',
      err: 'Items wait for another attempt; --waiting shows them, with what they failed of.\n',
    })
    const listed = (await run(['list-failed-items', '--integration', id, '--waiting'])).out
    expect(listed).toMatch(/ Created +Next attempt\n/)
    expect(listed).toMatch(new RegExp(`${waits.id} .*Error: no table +1 .* ${LATER.toISOString()}\n`))
    const ofRun = (await run(['show-sync-run', row.id])).out
    expect(ofRun).toMatch(/^error 1 +1 x Error: no table$/m)
    expect(ofRun).toMatch(/^items waiting +1$/m)
    expect(ofRun).toMatch(/^items processing +0$/m)
    expect((await run(['show-sync-item', waits.id])).out).toMatch(/^status +waiting$/m)
    expect((await run(['list-sync-items', '--run', row.id])).out).toMatch(/ waiting +1 +Error: no table /)
    expect((await run(['show-sync-item', waits.id, '--json'])).json()).toMatchObject({ status: 'processing' })
  })

  it('that wait are tried now by the run that has them', async () => {
    const waits = await makeItem(test, row, { status: 'processing', attempts: 1, nextAttemptAt: LATER })
    expect((await run(['retry-sync-item', waits.id])).exitCode).toBe(1)
    test.starts.running.add(id)
    const ran = await run(['retry-sync-item', waits.id])
    test.starts.running.delete(id)
    expect(ran).toMatchObject({ exitCode: 0, out: expect.stringContaining('which begins now') })
    expect(test.starts.triedNow.at(-1)).toEqual({ itemId: waits.id, integrationId: id, waitsIn: 'run' })
  })

  it('of a run that wait are tried now beside those that failed, the oldest first', async () => {
    const waiting = { status: 'processing', attempts: 1, nextAttemptAt: LATER } as const
    const [first, second, third] = [
      await makeItem(test, row, waiting),
      await failed(),
      await makeItem(test, row, waiting),
    ]
    await makeItem(test, row, { status: 'processing' })
    await makeItem(test, await ended('partial'), waiting)
    test.starts.running.add(id)
    const ran = await run(['retry-sync-item', '--run', row.id, '--json'])
    test.starts.running.delete(id)
    expect([ran.exitCode, ran.json()]).toMatchObject([
      0,
      [
        { item_id: first.id, outcome: 'tried now', status: 'processing', attempts: 1 },
        { item_id: second.id, outcome: 'success', attempts: 4 },
        { item_id: third.id, outcome: 'tried now' },
      ],
    ])
    expect(test.starts.triedNow.slice(-2).map(({ itemId }) => itemId)).toEqual([first.id, third.id])
  })

  it('are skipped one by one, and the others still hold the cursor', async () => {
    const [item] = [await failed(), await failed()]
    expect((await run(['skip-sync-item', item?.id ?? 0])).out).toBe(
      `Skipped sync item ${item?.id}; the cursor stays: others hold it, or there is nothing to move it to.\n`,
    )
  })

  it.each(['pending', 'processing', 'success', 'skipped'] as const)('are not what is %s', async (status) => {
    const item = await makeItem(test, row, { status })
    const ran = await run(['skip-sync-item', item.id, '--json'])
    expect([ran.exitCode, errorOf(ran)]).toMatchObject([
      1,
      { code: 'sync_item_not_failed', message: expect.stringContaining(`is ${status};`) },
    ])
    const retried = await run(['retry-sync-item', item.id, '--json'])
    expect([retried.exitCode, retried.json()]).toEqual([
      1,
      [{ item_id: item.id, outcome: null, status, attempts: null, error: expect.stringContaining(`is ${status};`) }],
    ])
    expect(await itemOf(test, item.id)).toEqual(item)
    expect(await notes()).toEqual([])
  })

  it('are retried one after the other, and one that can not be keeps none of the others from it', async () => {
    const [good, bad] = [
      await failed({ payload: { v: 1, data: { n: 1 } } }),
      await failed({ payload: { v: 1, data: { n: 2 } } }),
    ]
    listen(test, ThingSynced, (event: ThingSynced) => {
      if (event.payload.n === 2) throw new Error('no again')
    })
    const ran = await run(['retry-sync-item', bad.id, NEVER, good.id])
    expect(ran.exitCode).toBe(1)
    expect(ran.out).toBe(
      [
        `Sync item ${bad.id}: failed again, in attempt 4: Error: no again`,
        `Sync item ${NEVER}: not retried. There is no sync item with id ${NEVER}.`,
        `Sync item ${good.id}: success, in attempt 4.`,
        '',
      ].join('\n'),
    )
    expect(await notes()).toEqual([note('retry', `sync-item:${bad.id}`), note('retry', `sync-item:${good.id}`)])
  })

  it('of a run are retried all, the oldest first', async () => {
    const items = [await failed(), await failed()]
    const other = await makeItem(test, await ended('partial'), { status: 'failed' })
    const ran = await run(['retry-sync-item', '--run', row.id, '--json'])
    expect([ran.exitCode, ran.json()]).toEqual([
      0,
      items.map((item) => ({ item_id: item.id, outcome: 'success', status: 'success', attempts: 4, error: null })),
    ])
    expect(await itemOf(test, other.id)).toMatchObject({ status: 'failed' })
    expect(await run(['retry-sync-item', '--run', row.id])).toMatchObject({ exitCode: 0, out: 'Nothing to retry.\n' })
    expect(errorOf(await run(['retry-sync-item', '--run', NEVER, '--json'])).code).toBe('sync_run_not_found')
  })

  it('get as many tries as they are given, and an id named twice is one', async () => {
    const item = await failed()
    const { workflows } = test.framework
    const { runProcessSyncItem } = workflows
    const job = vi
      .fn()
      .mockResolvedValue({ itemId: item.id, outcome: 'success', status: 'success', attempts: 5, error: null })
    Object.assign(workflows, { runProcessSyncItem: job })
    await run(['retry-sync-item', item.id, item.id, '--tries', 3])
    Object.assign(workflows, { runProcessSyncItem })
    expect(job.mock.calls).toEqual([
      [
        { itemId: item.id, tries: 3 },
        { integrationId: item.integrationId, provider: 'acme' },
      ],
    ])
  })

  it('that were done before an outage are told', async () => {
    const items = [await failed(), await failed()]
    const { workflows } = test.framework
    const { runProcessSyncItem } = workflows
    const job = vi.fn(runProcessSyncItem).mockImplementationOnce(runProcessSyncItem).mockRejectedValueOnce(away())
    Object.assign(workflows, { runProcessSyncItem: job })
    const ran = await run(['retry-sync-item', ...items.map((item) => item.id)])
    Object.assign(workflows, { runProcessSyncItem })
    expect(ran.exitCode).toBe(2)
    expect(ran.err).toContain(`Until then:\nSync item ${items[0]?.id}: success, in attempt 4.\n`)
  })

  it('that were done before Ctrl-C are told, and the one under way is written down', async () => {
    const items = [await failed(), await failed(), await failed()]
    const interrupt = new AbortController()
    const { workflows } = test.framework
    const { runProcessSyncItem } = workflows
    const job = vi
      .fn(runProcessSyncItem)
      .mockImplementationOnce(runProcessSyncItem)
      .mockImplementationOnce(() => {
        interrupt.abort()
        return new Promise(() => {})
      })
    Object.assign(workflows, { runProcessSyncItem: job })
    const ran = await run(['retry-sync-item', ...items.map((item) => item.id)], { signal: interrupt.signal })
    Object.assign(workflows, { runProcessSyncItem })
    expect(ran.exitCode).toBe(130)
    expect(ran.err).toContain(`Until then:\nSync item ${items[0]?.id}: success, in attempt 4.\n`)
    expect(await notes()).toEqual(items.slice(0, 2).map((item) => note('retry', `sync-item:${item.id}`)))
    expect(job).toHaveBeenCalledTimes(2)
  })

  it('after Ctrl-C are not begun', async () => {
    const items = [await failed(), await failed()]
    const interrupt = new AbortController()
    listen(test, ThingSynced, () => interrupt.abort())
    const ran = await run(['retry-sync-item', ...items.map((item) => item.id)], { signal: interrupt.signal })
    expect(ran.exitCode).toBe(130)
    // The one under way goes on, and is written down; by the time that another command has done its own, so would the next.
    expect(await notes()).toEqual([note('retry', `sync-item:${items[0]?.id}`)])
    expect((await run(['retry-sync-item', (await failed()).id])).exitCode).toBe(0)
    const first = () => itemOf(test, items[0]?.id ?? 0)
    await vi.waitFor(async () => expect(await first()).toMatchObject({ status: 'success' }), SOON)
    expect(await itemOf(test, items[1]?.id ?? 0)).toMatchObject({ status: 'failed', attempts: 3 })
  })
})

describe('advance-cursor', () => {
  it('finalises what nobody finalised', async () => {
    const row = await makeRun(test, id)
    await makeItem(test, row, { status: 'success', checkpointValue: CURSOR, completedAt: AT })
    expect(await run(['advance-cursor', id])).toMatchObject({
      exitCode: 0,
      out: `1 run, cursor null to "${CURSOR}"\n`,
      err: '',
    })
    expect(await notes()).toEqual([note('advance-cursor')])
    expect((await run(['advance-cursor', id, '--limit', 5, '--json'])).json()).toEqual({
      integration_id: id,
      stream: null,
      runs: 0,
      from: CURSOR,
      to: CURSOR,
      reclaimed: 0,
    })
    expect(await notes()).toHaveLength(1)
  })

  it('sets and resets it, and says what it was', async () => {
    const set = await run(['advance-cursor', id, '--to', `"${CURSOR}"`])
    expect(set).toMatchObject({ exitCode: 0, out: `Cursor null to "${CURSOR}"\n`, err: '' })
    expect((await test.integrations.get(id)).syncCursor).toBe(CURSOR)
    const reset = await run(['advance-cursor', id, '--reset', '--json'])
    expect(reset.json()).toEqual({ integration_id: id, stream: null, from: CURSOR, to: null })
    expect((await run(['advance-cursor', id, '--to', '{"page":[1]}'])).out).toBe('Cursor null to {"page":[1]}\n')
    expect((await run(['advance-cursor', id, '--to', 'null'])).out).toBe('Cursor {"page":[1]} to null\n')
    expect(await notes()).toEqual(
      ['cursor set', 'cursor reset', 'cursor set', 'cursor reset'].map((action) => note(action)),
    )
  })

  it('is refused while a run lives, unless forced', async () => {
    test.starts.running.add(id)
    const refused = await run(['advance-cursor', id, '--reset', '--json'])
    expect([refused.exitCode, errorOf(refused).code]).toEqual([1, 'integration_busy'])
    expect(await notes()).toEqual([])
    expect((await run(['advance-cursor', id, '--reset', '--force'])).exitCode).toBe(0)
    expect(test.starts.cancelled).toContain(id)
  })

  it('fails first what was in flight for too long, when asked to', async () => {
    const row = await makeRun(test, id)
    const old = new Date(Date.now() - 30 * 86_400_000)
    const item = await makeItem(test, row, { status: 'processing', attempts: 1, claim: 'gone:1', createdAt: old })
    const ran = await run(['advance-cursor', id, '--reclaim-stale'])
    expect(ran).toMatchObject({ exitCode: 0 })
    expect(ran.out).toBe('Failed 1 item as abandoned.\n1 run, cursor null to null\n')
    expect(await itemOf(test, item.id)).toMatchObject({ status: 'failed' })
  })

  it('of an integration that is not there, or of a provider that can not', async () => {
    expect(errorOf(await run(['advance-cursor', NEVER, '--json'])).code).toBe('integration_not_found')
    expect(errorOf(await run(['advance-cursor', NEVER, '--reset', '--json'])).code).toBe('integration_not_found')
    const silent = await makeIntegration(test, 'silent')
    expect(errorOf(await run(['advance-cursor', silent.id, '--json'])).code).toBe('unsupported_by_provider')
  })
})
