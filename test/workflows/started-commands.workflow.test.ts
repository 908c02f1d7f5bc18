/** Commands as workflows, as a person starts them: by name, with JSON, over real rows. */
import { randomBytes } from 'node:crypto'
import type { WorkflowHandle } from '@temporalio/client'
import { ApplicationFailure, CancelledFailure, Client, WorkflowFailedError } from '@temporalio/client'
import { Worker } from '@temporalio/worker'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { commandActivities } from '../../src/activities/command-activities.ts'
import { databaseCheckActivities } from '../../src/activities/database-check.ts'
import { createActivities } from '../../src/activities/index.ts'
import { createCommandRunner } from '../../src/commands/cli/in-worker.ts'
import type { CommandRunner } from '../../src/commands/command-jobs.ts'
import { runCommand } from '../commands/cli/run.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun } from '../support/rows.ts'
import type { Stage } from './stage.ts'
import { openStage } from './stage.ts'

const prefix = `by-workflow-${randomBytes(4).toString('hex')}`

let stage: Stage
let database: TestDatabase
let test: TestIntegrations
let stopWorker: () => Promise<void>
let id: number
/** What runs the commands; a test may have another. */
let runner: CommandRunner
let real: CommandRunner
/** What the provider's health check says. */
let isWell: boolean | Error = true

beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
  const demo = {
    ...syncProvider(
      async (session) => {
        for (const n of [1, 2])
          await session.dispatch(new ThingSynced(session.integration, { n }), `2031-06-0${n}T00:00:00Z`, `thing-${n}`)
      },
      { defaultSyncInterval: () => null },
    ),
    healthCheck() {
      if (isWell instanceof Error) throw isWell
      return isWell
    },
  }
  test = testIntegrations(database.url, {
    recordStarts: false,
    temporal: { address: stage.env.address },
    providers: { demo },
    config: { cache_prefix: prefix, worker: { command_environment: ['TOKEN_OF_THIS_TEST'] } },
  })
  test.integrations.on(ThingSynced, () => {})
  real = createCommandRunner(test.integrations)
  const worker = await Worker.create({
    connection: stage.env.nativeConnection,
    taskQueue: `${prefix}-default`,
    workflowBundle: stage.bundle,
    activities: {
      ...createActivities(test.framework),
      ...commandActivities((call) => runner(call)),
      ...databaseCheckActivities(() => test.integrations.ready()),
    },
    // A cancellation reaches an activity with the answer to its sign of life.
    maxHeartbeatThrottleInterval: '100 milliseconds',
    shutdownGraceTime: 0,
    // A worker that stops waits for its long polls, which this server now and then lets run out: after a minute.
    shutdownForceTime: '80 seconds',
  })
  const running = worker.run()
  stopWorker = async () => {
    worker.shutdown()
    await running
  }
})

afterAll(async () => {
  await stopWorker?.()
  await test?.close()
  await stage?.close()
  await database?.drop()
}, 180_000)

beforeEach(async () => {
  runner = real
  isWell = true
  id = (await makeIntegration(test, 'demo')).id
})

let starts = 0
async function begun(command: string, ...input: unknown[]): Promise<WorkflowHandle> {
  starts += 1
  return stage.env.client.workflow.start(`integrations:${command}`, {
    taskQueue: `${prefix}-default`,
    workflowId: `${prefix}:${command}:${starts}`,
    args: input,
  })
}

const done = async (command: string, ...input: unknown[]): Promise<unknown> => (await begun(command, ...input)).result()

/** How it failed. */
async function refused(command: string, ...input: unknown[]) {
  const handle = await begun(command, ...input)
  const error = await handle.result().then(
    (result: unknown) => expect.fail(`${command} has a result: ${JSON.stringify(result)}`),
    (caught: unknown) => caught,
  )
  const failure = error instanceof WorkflowFailedError ? error.cause : error
  if (!(failure instanceof ApplicationFailure)) throw failure
  const { type, message, nonRetryable, details } = failure
  return { type, message, nonRetryable, details, history: historyText(await handle.fetchHistory()) }
}

/** With the payloads in plain text. */
function historyText(history: unknown): string {
  return JSON.stringify(history, (_, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString() : value,
  )
}

const byCommandLine = (...words: (string | number)[]) => runCommand(test.integrations, [...words.map(String), '--json'])

describe('a command that the program runs', () => {
  it.each([
    ['list', { provider: 'demo', limit: 1 }, ['list', '--provider', 'demo', '--limit', '1']],
    ['config', { key: 'webhook.max_attempts' }, ['config', 'webhook.max_attempts']],
    ['stats', undefined, ['stats']],
    ['incidents', {}, ['incidents']],
    ['keys', { action: 'status' }, ['keys', 'status']],
  ])('%s %j has the result of the command line', async (command, input, words) => {
    expect(await done(command, ...(input === undefined ? [] : [input]))).toEqual((await byCommandLine(...words)).json())
  })

  it('changes what it says, in the name of the workflow', async () => {
    const handle = await begun('circuit', { id, action: 'open' })
    expect(await handle.result()).toMatchObject({ integration_id: id, override: 'forced_open' })
    expect((await byCommandLine('circuit', id, 'status')).json()).toMatchObject({ override: 'forced_open' })
    expect(await test.sql`select summary from integration_logs where integration_id = ${id}`).toEqual([
      { summary: `circuit open by workflow:${handle.workflowId}` },
    ])
  })

  it('leaves the worker’s connections open: the next one has them', async () => {
    expect(await done('disable', { id })).toMatchObject({ id, is_active: false })
    expect(await done('enable', { id })).toMatchObject({ id, is_active: true })
    expect(await done('delete', { id, yes: true })).toMatchObject({ id })
    expect(await refused('show', { id })).toMatchObject({ type: 'integration_not_found', nonRetryable: true })
  })

  it('runs beside others', async () => {
    const handles = await Promise.all(Array.from({ length: 8 }, () => begun('show', { id })))
    // Asked for by a client that skips no time: of several at once this server may skip past the end of one.
    const { workflow } = new Client({ connection: stage.env.connection })
    const all = await Promise.all(handles.map(({ workflowId }) => workflow.getHandle(workflowId).result()))
    expect(new Set(all.map((document) => JSON.stringify(document))).size).toBe(1)
    expect(all[0]).toMatchObject({ id, provider: 'demo' })
  })

  it('has in its details what a terminal would be warned of', async () => {
    await makeIntegration(test, 'demo')
    const handle = await begun('list', { limit: 1 })
    expect(await handle.result()).toHaveLength(1)
    expect(JSON.stringify(await handle.query('__temporal_workflow_metadata'))).toContain('There are more than 1')
  })

  it('fails with the code, the words and the document where the command line ends with 1', async () => {
    const words = (await byCommandLine('show', 987654)).json() as { error: { code: string; message: string } }
    expect(await refused('show', { id: 987654 })).toMatchObject({
      type: words.error.code,
      message: words.error.message,
      nonRetryable: true,
      details: [words],
    })
  })

  it('fails as a part where a part failed, with the whole result', async () => {
    isWell = false
    const failed = await refused('test', { id })
    expect(failed).toMatchObject({ type: 'part_failed', nonRetryable: true, details: [[{ id, ok: false }]] })
    expect(failed.message).toContain(
      'test is done, and a part of it failed: the details of this failure hold its result',
    )
  })

  it.each([
    ['circuit', { id: 7, action: 'open', foo: 1 }, 'usage', 'circuit takes id, action, until; "foo" was given.'],
    [
      'circuit',
      { id: 7, action: 'opne' },
      'usage',
      'one of open, close, disable, auto, status is allowed, "opne" was given',
    ],
    ['circuit', { id: 'seven', action: 'open' }, 'usage', 'an id is a positive whole number'],
    ['rate-limit', { id: 7, action: 'set' }, 'usage', 'rate-limit set needs --limit (calls) and --window (seconds)'],
    ['list', { limit: -1 }, 'usage', 'a whole number of at least 1 is allowed, -1 was given'],
    ['list', 'github', 'usage', 'The input is one JSON object, such as {"id":7}; a string was given.'],
    ['list', [7], 'usage', 'a list was given'],
    ['sync-progress', { id: 7, watch: true }, 'usage', '"watch" is for terminals'],
    [
      'delete',
      undefined,
      'usage',
      'id: an id is a positive whole number of at most 9007199254740991, nothing was given.',
    ],
    ['keys', { action: 'generate' }, 'usage', 'A new key is a secret'],
    ['install', { provider: 'demo', metadata: { key: 'env:HOME' } }, 'usage', 'a workflow takes the value itself'],
    [
      'install',
      { provider: 'demo', metadata: { key: '@/etc/hostname' } },
      'usage',
      'a workflow takes the value itself',
    ],
  ])('%s %j is refused', async (command, input, type, message) => {
    const failed = await refused(command, ...(input === undefined ? [] : [input]))
    expect(failed).toMatchObject({ type, nonRetryable: true, message: expect.stringContaining(message) })
  })

  it('asks nobody: what needs a yes says so', async () => {
    expect(await refused('delete', { id })).toMatchObject({ type: 'confirmation_needed' })
    expect(await done('show', { id })).toMatchObject({ id })
  })

  it.each(['s3cret-value-of-mine', '@/run/secrets/token', '-'])(
    'install takes no credential %s, and stores nothing',
    async (token) => {
      const failed = await refused('install', { provider: 'demo', name: `By ${token}`, credential: { token } })
      expect(failed).toMatchObject({ type: 'usage', message: expect.stringContaining('only as env:NAME') })
      expect(failed.message).not.toContain('s3cret')
      const listed = (await byCommandLine('list', '--limit', 1_000)).json() as { name: string }[]
      expect(listed.map(({ name }) => name)).not.toContain(`By ${token}`)
    },
  )

  it('install reads a credential out of the worker’s environment; no history has it', async () => {
    vi.stubEnv('TOKEN_OF_THIS_TEST', 'a-very-secret-token')
    const input = { provider: 'demo', name: 'By reference', credential: { token: 'env:TOKEN_OF_THIS_TEST' } }
    const handle = await begun('install', input)
    const document = (await handle.result()) as { id: number }
    expect(document).toMatchObject({ name: 'By reference', created: true, check: { ok: true } })
    expect((await test.integrations.get(document.id)).credentialsArray()).toEqual({ token: 'a-very-secret-token' })
    expect(historyText(await handle.fetchHistory())).not.toContain('a-very-secret-token')

    isWell = new Error('401 for a-very-secret-token')
    const failed = await refused('install', { ...input, name: 'Unwell' })
    expect(failed.type).toBe('health_check_failed')
    expect(failed.history).not.toContain('a-very-secret-token')
  })
})

describe('a command whose worker is in trouble', () => {
  it('is tried again for some 20 s while a backend is away: the waits between its tries', async () => {
    const handle = await begun('show', { id })
    await handle.result()
    const { events } = await handle.fetchHistory()
    const policies = events?.flatMap((event) => event.activityTaskScheduledEventAttributes?.retryPolicy ?? [])
    expect(policies).toMatchObject([
      { initialInterval: { seconds: { low: 1 } }, backoffCoefficient: 2, maximumInterval: { seconds: { low: 5 } } },
    ])
    // 1, 2, 4, 5 and 5 s.
    expect(policies?.[0]?.maximumAttempts).toBe(6)
  })

  it('is done once the backend is back', async () => {
    let tries = 0
    runner = async (call) => {
      tries += 1
      if (tries > 2) return real(call)
      const error = { code: 'backend_unreachable', message: 'Postgres was not reached.' }
      return { exitCode: 2, document: { error }, notes: [] }
    }
    expect(await done('show', { id })).toMatchObject({ id })
  })

  it('really says that Postgres is away, by the code of the command line', async () => {
    const away = testIntegrations('postgres://nobody@127.0.0.1:1/nothing', { recordStarts: false })
    const answer = await createCommandRunner(away.integrations)({
      command: 'list',
      input: {},
      by: 'workflow:test',
      signal: new AbortController().signal,
    })
    expect(answer).toMatchObject({ exitCode: 2, document: { error: { code: 'backend_unreachable' } } })
    await away.close()
  })

  it('is cancelled as Ctrl-C does it', async () => {
    let isRunning = (): void => {}
    const running = new Promise<void>((resolve) => {
      isRunning = resolve
    })
    runner = ({ signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () =>
          resolve({ exitCode: 130, document: { error: { code: 'interrupted', message: 'Interrupted.' } }, notes: [] }),
        )
        isRunning()
      })
    const handle = await begun('test', { id })
    await running
    await handle.cancel()
    const error = await handle.result().catch((caught: unknown) => caught)
    expect(error instanceof WorkflowFailedError && error.cause).toBeInstanceOf(CancelledFailure)
    expect((await handle.describe()).status.name).toBe('CANCELLED')
  })

  it('has ended before its workflow has: what it had under way when it was cancelled is waited for', async () => {
    let isRunning = (): void => {}
    const running = new Promise<void>((resolve) => {
      isRunning = resolve
    })
    runner = (call) => {
      const erase = async () => {
        isRunning()
        await new Promise((resolve) => call.signal.addEventListener('abort', resolve))
        // Longer than a terminal waits at Ctrl-C, which is not at all.
        await new Promise((resolve) => setTimeout(resolve, 100))
        return { requests: 3 }
      }
      return createCommandRunner({
        ...test.integrations,
        admin: { ...test.integrations.admin, erase: erase as never },
      })(call)
    }
    const handle = await begun('erase', { id, yes: true })
    await running
    await handle.cancel()
    expect(await handle.result()).toEqual({ id, erased: { requests: 3 } })
  })

  it('has a result that a history takes, or says how to ask for less', async () => {
    runner = async () => ({ exitCode: 0, document: ['x'.repeat(1_000_000)], notes: [] })
    const failed = await refused('list')
    expect(failed).toMatchObject({ type: 'result_too_large', nonRetryable: true })
    expect(failed.message).toContain(
      'The result of list has 1000004 bytes; a workflow\'s has at most 1000000. Ask for less, by "limit"',
    )
    runner = async () => ({ exitCode: 0, document: ['x'.repeat(999_000)], notes: [] })
    expect(await done('list')).toEqual(['x'.repeat(999_000)])
  })

  it('fails as a part of it with a result of the size that is taken, too', async () => {
    runner = async () => ({ exitCode: 1, document: ['x'.repeat(999_000)], notes: ['one is unwell'] })
    expect(await refused('test')).toMatchObject({ type: 'part_failed', details: [['x'.repeat(999_000)]] })
    runner = async () => ({ exitCode: 1, document: ['x'.repeat(1_100_000)], notes: ['one is unwell'] })
    expect(await refused('test')).toMatchObject({
      type: 'part_failed',
      message: expect.stringMatching(/larger than a history takes.*\none is unwell/),
    })
  })
})

describe('a command with a workflow of its own', () => {
  it.each([
    ['prune', { older: 1 }, 'This command takes no input; older was given.'],
    ['evaluate-failures', 'now', 'The input is one JSON object; a string was given.'],
    ['recover-webhooks', { id: 7 }, 'takes no input'],
    [
      'refresh-tokens',
      { integrationId: 'seven' },
      '"integrationId": a whole number of at least 1 is allowed, a string was given',
    ],
    ['refresh-tokens', { id: 7 }, 'Allowed are integrationId; id was given.'],
    ['find-orphans', {}, `"model": a model's name is allowed`],
    ['find-orphans', { model: 'contact', limit: 0 }, '"limit"'],
    ['list-failed-items', { since: 'yesterday' }, '"since"'],
    ['list-failed-items', { limit: '10' }, '"limit": a whole number of at least 1 is allowed, a string was given'],
    ['skip-sync-item', undefined, '"itemId": a whole number of at least 1 is allowed, nothing was given'],
    ['retry-sync-item', undefined, '"itemId"'],
    ['retry-sync-item', { itemId: 7, tries: 'many' }, '"tries"'],
    [
      'advance-cursor',
      { integrationId: 7, to: null },
      'Allowed are integrationId, stream, reclaimStale, limit; to was given.',
    ],
    ['advance-cursor', {}, '"integrationId"'],
    ['replay-webhook', {}, '"webhookId"'],
    ['replay-webhook', { webhookId: 7, replay: 'yes' }, '"replay"'],
    ['reconcile-webhooks', { integrationId: 7, since: 5 }, '"since"'],
    ['reconcile-webhooks', { dryRun: 'yes' }, '"dryRun"'],
    ['sync', { id: 7 }, 'Allowed are integrationId, stream, dryRun, limit, from, to; id was given.'],
    ['sync', 7, 'The input is one JSON object of integrationId'],
    ['sync', { integrationId: '7' }, '"integrationId": a whole number of at least 1 is allowed, a string was given'],
    ['sync', { integrationId: 0 }, '"integrationId": a whole number of at least 1 is allowed, 0 was given'],
    ['sync', { dryRun: true }, '"integrationId": a whole number of at least 1 is allowed, nothing was given'],
  ])('%s %j is refused', async (command, input, message) => {
    const failed = await refused(command, ...(input === undefined ? [] : [input]))
    expect([failed.type, failed.nonRetryable, failed.message]).toEqual([
      'invalid_argument',
      true,
      expect.stringContaining(message),
    ])
    // A history is read by people: no stack is in it.
    expect(failed.history).not.toMatch(/"stackTrace":"[^"]/)
  })

  it.each([
    [{ webhookId: 12 }, true],
    [{ webhookId: 12, replay: false }, false],
  ])('replay-webhook %j replays: %s', async (input, replay) => {
    const asked: unknown[] = []
    const activities = {
      readWebhookState: async () => ({ status: 'failed', attempts: 2 }) as const,
      processOneWebhook: async (one: { webhookId: number }) => {
        asked.push(one)
        return { webhookId: one.webhookId, outcome: 'processed', status: 'processed', attempts: 3 } as const
      },
    }
    await stage.play(activities, async ({ client, taskQueue, workflowId }) => {
      const handle = await client.start('integrations:replay-webhook', { taskQueue, workflowId, args: [input] })
      expect(await handle.result()).toMatchObject({ webhookId: 12, outcome: 'processed' })
    })
    expect(asked).toMatchObject([{ webhookId: 12, replay }])
  })

  it('says by its code what forbids it', async () => {
    expect(await refused('skip-sync-item', { itemId: 987654 })).toMatchObject({ type: 'sync_item_not_found' })
    expect(await refused('advance-cursor', { integrationId: 987654 })).toMatchObject({ type: 'integration_not_found' })
  })

  it('ends by its code where the provider’s own code refuses, too', async () => {
    const broken = syncProvider(() => {}, {
      defaultSyncInterval: () => null,
      reduceCheckpoints: () => {
        throw new RangeError('no such checkpoint')
      },
    })
    test.integrations.register('broken', broken, { replace: true })
    const { id: integrationId } = await makeIntegration(test, 'broken')
    const run = await makeRun(test, integrationId)
    await makeItem(test, run, { status: 'success', checkpointValue: '2031-06-01T00:00:00Z', completedAt: new Date() })
    expect(await refused('advance-cursor', { integrationId })).toMatchObject({
      type: 'checkpoints_not_reduced',
      nonRetryable: true,
    })
  })

  it('sync starts what is due, or a run of one integration', async () => {
    expect(await done('sync')).toMatchObject({ due: 0, started: 0 })
    expect(await done('sync', { integrationId: id })).toEqual({
      integration_id: id,
      stream: null,
      started: 1,
      outcome: 'started',
      already_running: false,
    })
    const runs = async () => (await byCommandLine('list-sync-runs', '--integration', id)).json()
    await vi.waitFor(async () => expect(await runs()).toMatchObject([{ status: 'success', listed: 2 }]), 20_000)
    expect(await done('sync', { integrationId: id, dryRun: true, limit: 1 })).toMatchObject({ more: true })
    expect(await refused('sync', { integrationId: id, from: '2031-01-01T00:00:00Z' })).toMatchObject({
      type: 'usage',
      message: '--from and --to go together; only --from was given.',
    })
    expect(await refused('sync', { integrationId: 987654 })).toMatchObject({ type: 'integration_not_found' })
  })
})
