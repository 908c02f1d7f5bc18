import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ScheduleClient } from '@temporalio/client'
import { Client, Connection, ServiceError } from '@temporalio/client'
import { integer, pgTable } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Config, ConfigInput } from '../../src/config/schema.ts'
import { partsOf } from '../../src/create-integrations.ts'
import { createWorkers } from '../../src/create-workers.ts'
import { createIntegrations, mappedTable } from '../../src/index.ts'
import type { ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import { findSchedulePause, noteSchedulePause } from '../../src/syncs/standing-queries.ts'
import { temporalInspection } from '../../src/temporal/inspection.ts'
import type { ScheduleNeeds } from '../../src/temporal/keep-schedules.ts'
import {
  deploymentId,
  ensureSchedules,
  ensureSchedulesAtStart,
  scheduleDifferences,
  wantedSchedules,
} from '../../src/temporal/keep-schedules.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { memoryCache } from '../../src/testing/memory-cache.ts'
import { scheduleId, WORKFLOW, workflowId } from '../../src/workflows/ids.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import { createTestDatabase } from '../support/database.ts'
import type { SharedServer } from '../support/dev-server.ts'
import { shareOwnDevServer } from '../support/dev-server.ts'
import { installedBundle } from '../support/installed-script.ts'
import { encryptionKey } from '../support/integrations.ts'
import { loadConfig } from '../support/load-config.ts'
import { webhookProvider } from '../support/providers.ts'
import { silenceTemporal } from '../workflows/stage.ts'

let server: SharedServer
let client: Client

beforeAll(async () => {
  silenceTemporal()
  server = await shareOwnDevServer()
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
})
afterAll(async () => {
  await client?.connection.close()
  await server?.release()
})

/** A deployment of its own on the shared server. */
function deployment(config: ConfigInput = {}): { prefix: string; config: Config; input: ConfigInput } {
  const prefix = `test-${randomBytes(4).toString('hex')}`
  const input = { ...config, cache_prefix: prefix }
  const loaded = loadConfig({ config: input, optionProviderKeys: [], middlewareNames: [] })
  return { prefix, config: loaded.config, input }
}

const scheduleOf = (prefix: string, name: string) => client.schedule.getHandle(scheduleId(prefix, name))
const dispatchOf = (prefix: string) => scheduleOf(prefix, 'dispatch-syncs')
const DOES_NOT = { canReconcile: () => false, canRefreshTokens: () => false, syncsWithinMinute: () => false }
/** Whatever is registered. */
const ALWAYS = ['dispatch-syncs', 'evaluate-failures', 'recover-webhooks', 'prune']
const RECONCILES = { ...DOES_NOT, canReconcile: () => true }
const REFRESHES = { ...DOES_NOT, canRefreshTokens: () => true }

/** The deadline of the question runs meanwhile. */
function slowToDescribe(schedules: ScheduleClient, delayMs: number): ScheduleClient {
  return new Proxy(schedules, {
    get: (real, name) => {
      if (name !== 'getHandle') return Reflect.get(real, name).bind(real)
      return (id: string) => ({ describe: () => sleep(delayMs).then(() => real.getHandle(id).describe()) })
    },
  })
}

describe('the Schedules', () => {
  it('start `dispatchSyncs` every minute, one at a time', async () => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config, DOES_NOT)
    const { spec, action, policies, state } = await dispatchOf(prefix).describe()
    expect(spec.intervals).toMatchObject([{ every: 60_000 }])
    expect(action).toMatchObject({
      workflowType: WORKFLOW.dispatchSyncs,
      workflowId: workflowId.dispatchSyncs(prefix),
      taskQueue: `${prefix}-default`,
    })
    expect(policies).toMatchObject({ overlap: 'SKIP', catchupWindow: 60_000 })
    expect(state.paused).toBe(false)
  })

  it.each([
    { unanswered: 3, code: 4, is: 'are put again, as of a server that has just come back' },
    { unanswered: 4, code: 4, is: 'end the start if that lasts' },
    { unanswered: 1, code: 7, is: 'end the start at once if they were refused' },
  ])('are made as a worker starts: questions without an answer $is', async ({ unanswered, code }) => {
    const { prefix, config } = deployment()
    let left = unanswered
    const failing = new Proxy(client.schedule, {
      get: (real, name) => {
        if (name !== 'create' || left === 0) return Reflect.get(real, name).bind(real)
        left -= 1
        return () =>
          Promise.reject(new ServiceError('Failed to create schedule', { cause: Object.assign(new Error(), { code }) }))
      },
    })
    const asked = Object.create(client, { schedule: { value: failing } }) as Client
    const begun = ensureSchedulesAtStart(asked, config, DOES_NOT)
    if (unanswered < 4 && code === 4) {
      await begun
      expect((await dispatchOf(prefix).describe()).spec.intervals).toMatchObject([{ every: 60_000 }])
    } else await expect(begun).rejects.toMatchObject({ cause: { code } })
    expect(left).toBe(0)
  })

  it('start it every 10 seconds where a provider declares a stream below a minute, and every minute again without one', async () => {
    const { prefix, input } = deployment({ schedules: { enabled: true } })
    const stream = { sync: async () => {}, reduceCheckpoints: () => null }
    const everySeconds = async (seconds: number) => {
      const crm = { defaultRateLimit: () => null, streams: { contacts: { ...stream, everySeconds: seconds } } }
      const integrations = createIntegrations({
        config: input,
        encryptionKeys: encryptionKey('test'),
        database: 'postgres://nobody@127.0.0.1:1/none',
        temporal: { address: server.address },
        providers: { crm },
      })
      try {
        await integrations.admin.schedules.applySchedules()
      } finally {
        await integrations.close()
      }
      return (await dispatchOf(prefix).describe()).spec.intervals?.map(({ every }) => every)
    }
    expect(await everySeconds(60)).toEqual([60_000])
    expect(await everySeconds(10)).toEqual([10_000])
    expect(await everySeconds(60)).toEqual([60_000])
  })

  it('start `evaluateFailures` every minute, while failure rates are watched', async () => {
    const { prefix, config } = deployment({ sync: { queue: 'syncs' } })
    await ensureSchedules(client, config, DOES_NOT)
    const evaluation = await scheduleOf(prefix, 'evaluate-failures').describe()
    expect(evaluation.spec.intervals).toMatchObject([{ every: 60_000 }])
    expect(evaluation.action).toMatchObject({
      workflowType: WORKFLOW.evaluateFailures,
      workflowId: workflowId.evaluateFailures(prefix),
      taskQueue: `${prefix}-syncs`,
    })
    expect(evaluation.policies).toMatchObject({ overlap: 'SKIP', catchupWindow: 60_000 })
    expect(scheduleDifferences(config, DOES_NOT, 'evaluate-failures', evaluation)).toEqual([])
    const unwatched = { ...config, observability: { ...config.observability, anomaly_enabled: false } }
    expect(wantedSchedules(unwatched, DOES_NOT)).toEqual(['dispatch-syncs', 'recover-webhooks', 'prune'])
    await ensureSchedules(client, unwatched, DOES_NOT)
    await expect(scheduleOf(prefix, 'evaluate-failures').describe()).rejects.toThrow(/not found/i)
  })

  it('say so where another deployment with the same cache_prefix has written them', async () => {
    const { config } = deployment()
    const cache = memoryCache(new ManualClock(new Date()))
    // A look makes none.
    expect(await deploymentId(cache, false)).toBeUndefined()
    const id = await deploymentId(cache, true)
    expect(id).toMatch(/^[0-9a-f-]{36}$/)
    // A restored copy of the database has the id, too.
    expect(await deploymentId(cache, false)).toBe(id)
    const ours = { ...DOES_NOT, deployment: (make: boolean) => deploymentId(cache, make) }
    const theirs = {
      ...DOES_NOT,
      deployment: (make: boolean) => deploymentId(memoryCache(new ManualClock(new Date())), make),
    }
    const away = { ...cache, get: () => Promise.reject(new Error('no Postgres')) }
    const where = { address: server.address, namespace: 'default' }
    const seenBy = async (needs: ScheduleNeeds) =>
      (await temporalInspection(() => client, config, where, needs).schedules()).map(({ differences }) => differences)
    const inStep = ALWAYS.map(() => [])
    const written = ALWAYS.map(() => [expect.stringMatching(/^another deployment with the same cache_prefix/)])
    await ensureSchedules(client, config, DOES_NOT)
    expect(await seenBy(ours), 'of an earlier release').toEqual(inStep)
    await ensureSchedules(client, config, theirs)
    expect(await seenBy(ours)).toEqual(written)
    expect(await seenBy({ ...DOES_NOT, deployment: (make) => deploymentId(away, make) })).toEqual(inStep)
    await ensureSchedules(client, config, ours)
    expect(await seenBy(ours)).toEqual(inStep)
  })

  it('are seen, all at once, also when the server takes 5 s over each: it asks a cache first that has dropped them', async () => {
    const { config } = deployment()
    await ensureSchedules(client, config, DOES_NOT)
    const slow = new Proxy(client, {
      get: (real, name) => (name === 'schedule' ? slowToDescribe(real.schedule, 5_200) : Reflect.get(real, name)),
    })
    const where = { address: server.address, namespace: 'default' }
    const startedAt = performance.now()
    const states = await temporalInspection(() => slow, config, where, DOES_NOT).schedules()
    expect(performance.now() - startedAt).toBeGreaterThan(5_000)
    expect(states.map(({ name, standing }) => [name, standing])).toEqual(ALWAYS.map((name) => [name, 'in step']))
  })

  it('prune at three in the morning, UTC, within ten minutes, or up to six hours late', async () => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config, DOES_NOT)
    const handle = scheduleOf(prefix, 'prune')
    const pruning = await handle.describe()
    expect(pruning.action).toMatchObject({
      workflowType: WORKFLOW.prune,
      workflowId: workflowId.prune(prefix),
      taskQueue: `${prefix}-default`,
    })
    expect(pruning.spec).toMatchObject({ jitter: 600_000, intervals: [] })
    expect(pruning.policies).toMatchObject({ overlap: 'SKIP', catchupWindow: 6 * 3_600_000 })
    expect(pruning.info.nextActionTimes.length).toBeGreaterThan(1)
    for (const time of pruning.info.nextActionTimes) {
      const minutes = time.getUTCHours() * 60 + time.getUTCMinutes()
      expect(minutes).toBeGreaterThanOrEqual(180)
      expect(minutes).toBeLessThanOrEqual(190)
    }
    const [first, second] = pruning.info.nextActionTimes.map((time) => time.toISOString().slice(0, 10))
    expect(Date.parse(second as string) - Date.parse(first as string)).toBe(86_400_000)
    expect(scheduleDifferences(config, DOES_NOT, 'prune', pruning)).toEqual([])
  })

  it.each([
    ['another hour', { calendars: [{ hour: 4 }] }, ['calendar daily at 04:00 UTC instead of daily at 03:00 UTC']],
    ['two hours', { calendars: [{ hour: [3, 5] }] }, ['calendar another one instead of daily at 03:00 UTC']],
    [
      'every third hour from then',
      { calendars: [{ hour: { start: 3, end: 23, step: 3 } }] },
      [/^calendar another one/],
    ],
    ['weekdays only', { calendars: [{ hour: 3, dayOfWeek: 'MONDAY' as const }] }, [/^calendar another one/]],
    ['a quarter past', { calendars: [{ hour: 3, minute: 15 }] }, [/^calendar another one/]],
    ['another time zone', { calendars: [{ hour: 3 }], timezone: 'Europe/Vienna' }, [/the time zone Europe\/Vienna/]],
    ['another jitter', { calendars: [{ hour: 3 }], jitter: 5_000 }, ['jitter 5 s instead of 600 s']],
    [
      'an interval',
      { intervals: [{ every: 86_400_000 }] },
      ['interval 86400 s instead of none', 'calendar none instead of daily at 03:00 UTC'],
    ],
  ])('of pruning differs with %s, and is set right', async (_, spec, words) => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config, DOES_NOT)
    const handle = scheduleOf(prefix, 'prune')
    await handle.update((previous) => ({ ...previous, spec: { jitter: 600_000, ...spec } }))
    const differences = scheduleDifferences(config, DOES_NOT, 'prune', await handle.describe())
    expect(differences).toEqual(words.map((text) => (typeof text === 'string' ? text : expect.stringMatching(text))))
    await ensureSchedules(client, config, DOES_NOT)
    expect(scheduleDifferences(config, DOES_NOT, 'prune', await handle.describe())).toEqual([])
  })

  it('start recovery every 5 minutes and reconciliation every hour, on the queue of webhooks', async () => {
    const { prefix, config } = deployment({ webhook: { queue: 'hooks' } })
    await ensureSchedules(client, config, RECONCILES)
    const recovery = await scheduleOf(prefix, 'recover-webhooks').describe()
    expect(recovery.spec.intervals).toMatchObject([{ every: 300_000 }])
    expect(recovery.action).toMatchObject({
      workflowType: WORKFLOW.recoverWebhooks,
      workflowId: workflowId.recoverWebhooks(prefix),
      taskQueue: `${prefix}-hooks`,
    })
    const reconciliation = await scheduleOf(prefix, 'reconcile').describe()
    expect(reconciliation.spec.intervals).toMatchObject([{ every: 3_600_000 }])
    expect(reconciliation.action).toMatchObject({
      workflowType: WORKFLOW.reconcileWebhooks,
      workflowId: workflowId.reconcileWebhooks(prefix),
      taskQueue: `${prefix}-hooks`,
      args: [{}],
    })
    for (const found of [recovery, reconciliation])
      expect(found.policies).toMatchObject({ overlap: 'SKIP', catchupWindow: 60_000 })
    expect(scheduleDifferences(config, RECONCILES, 'recover-webhooks', recovery)).toEqual([])
    expect(scheduleDifferences(config, RECONCILES, 'reconcile', reconciliation)).toEqual([])
  })

  it('end a recovery after half an hour: one on a queue that no worker polls would hold up its Schedule for ever', async () => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config, RECONCILES)
    const handle = scheduleOf(prefix, 'recover-webhooks')
    expect((await handle.describe()).action.workflowExecutionTimeout).toBe(1_800_000)
    await handle.update(({ action: { workflowExecutionTimeout: _, ...action }, ...previous }) => ({
      ...previous,
      action,
    }))
    const differences = async () => scheduleDifferences(config, RECONCILES, 'recover-webhooks', await handle.describe())
    expect(await differences()).toEqual(['time limit none instead of 1800 s'])
    await ensureSchedules(client, config, RECONCILES)
    expect(await differences()).toEqual([])
    const reconciliation = await scheduleOf(prefix, 'reconcile').describe()
    expect(reconciliation.action.workflowExecutionTimeout ?? 0).toBe(0)
  })

  it('do without reconciliation while no provider can list what never arrived', async () => {
    const { prefix, config } = deployment()
    expect(wantedSchedules(config, DOES_NOT)).toEqual(ALWAYS)
    await ensureSchedules(client, config, DOES_NOT)
    await expect(scheduleOf(prefix, 'reconcile').describe()).rejects.toThrow(/not found/i)
    await ensureSchedules(client, config, RECONCILES)
    await scheduleOf(prefix, 'reconcile').describe()
  })

  it('stay where a worker has no provider for them, which may be an older one that starts again; --apply removes them', async () => {
    const { prefix, config } = deployment()
    const names = ['refresh-tokens', 'reconcile']
    const both = { ...REFRESHES, canReconcile: () => true }
    await ensureSchedules(client, config, both)
    await ensureSchedules(client, config, DOES_NOT)
    for (const name of names) await scheduleOf(prefix, name).describe()
    const where = { address: server.address, namespace: 'default' }
    const isThere = (name: string) =>
      scheduleOf(prefix, name)
        .describe()
        .then(() => true)
        .catch(() => false)
    const left = async () => {
      await temporalInspection(() => client, config, where, DOES_NOT).applySchedules()
      return Promise.all(names.map(isThere))
    }
    // The server lists with a delay.
    await expect.poll(left, { timeout: 20_000 }).toEqual([false, false])
    await ensureSchedules(client, config, both)
    await ensureSchedules(client, { ...config, schedules: { ...config.schedules, enabled: false } }, both)
    for (const name of names) await expect(scheduleOf(prefix, name).describe()).rejects.toThrow(/not found/i)
  })

  it('start the refresh of tokens every 10 minutes, while a provider is registered that has tokens', async () => {
    const { prefix, config } = deployment({ sync: { queue: 'syncs' } })
    expect(wantedSchedules(config, REFRESHES)).toEqual([
      'dispatch-syncs',
      'evaluate-failures',
      'recover-webhooks',
      'refresh-tokens',
      'prune',
    ])
    await ensureSchedules(client, config, REFRESHES)
    const refresh = await scheduleOf(prefix, 'refresh-tokens').describe()
    expect(refresh.spec.intervals).toMatchObject([{ every: 600_000 }])
    expect(refresh.action).toMatchObject({
      workflowType: WORKFLOW.refreshTokens,
      workflowId: workflowId.refreshTokens(prefix),
      taskQueue: `${prefix}-syncs`,
    })
    expect(refresh.policies).toMatchObject({ overlap: 'SKIP', catchupWindow: 60_000 })
    expect(scheduleDifferences(config, REFRESHES, 'refresh-tokens', refresh)).toEqual([])
  })

  it('follow a changed configuration and keep an operator’s pause and note', async () => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config, DOES_NOT)
    await dispatchOf(prefix).pause('maintenance until noon')

    await ensureSchedules(client, { ...config, sync: { ...config.sync, queue: 'syncs' } }, DOES_NOT)
    const { action, state } = await dispatchOf(prefix).describe()
    expect(action).toMatchObject({ taskQueue: `${prefix}-syncs` })
    expect(state).toMatchObject({ paused: true, note: 'maintenance until noon' })
  })

  it('are made once by several workers that start at the same moment', async () => {
    const { prefix, config } = deployment()
    await Promise.all(Array.from({ length: 5 }, () => ensureSchedules(client, config, DOES_NOT)))
    await Promise.all(Array.from({ length: 5 }, () => ensureSchedules(client, config, DOES_NOT)))
    expect((await dispatchOf(prefix).describe()).state.paused).toBe(false)
  })

  it('are not made when the host keeps the timing itself', async () => {
    const { prefix, config } = deployment({ schedules: { enabled: false } })
    await ensureSchedules(client, config, DOES_NOT)
    await expect(dispatchOf(prefix).describe()).rejects.toThrow(/not found/i)
  })

  it('are removed when the host takes the timing over, paused or not', async () => {
    const { prefix, config } = deployment()
    await ensureSchedules(client, config, DOES_NOT)
    await dispatchOf(prefix).pause('maintenance until noon')
    const { config: without } = deployment({ schedules: { enabled: false } })
    await ensureSchedules(client, { ...without, cache_prefix: prefix }, DOES_NOT)
    await expect(dispatchOf(prefix).describe()).rejects.toThrow(/not found/i)
  })

  it('have reconciliation and the refresh of tokens once a provider is registered for it', async () => {
    const { input } = deployment()
    const integrations = createIntegrations({
      database: 'postgres://nobody@127.0.0.1:1/none',
      temporal: { address: server.address },
      encryptionKeys: `test:${Buffer.alloc(32, 1).toString('base64')}`,
      config: input,
    })
    try {
      const { framework, needs } = partsOf(integrations)
      const applied = async () => (await framework.temporal.applySchedules()).map(({ name }) => name)
      expect([await applied(), needs.canReconcile()]).toEqual([ALWAYS, false])
      const lists: ReconcilesWebhooks = {
        ...webhookProvider(),
        reconcileLookbackSeconds: 60,
        async *missedWebhooks() {},
      }
      integrations.register('acme', lists)
      expect([await applied(), needs.canReconcile()]).toEqual([
        ['dispatch-syncs', 'evaluate-failures', 'recover-webhooks', 'reconcile', 'prune'],
        true,
      ])
      expect(needs.canRefreshTokens()).toBe(false)
      integrations.register(
        'oauth',
        scriptedOAuth(() => ({})),
      )
      expect([await applied(), needs.canRefreshTokens()]).toEqual([
        ['dispatch-syncs', 'evaluate-failures', 'recover-webhooks', 'refresh-tokens', 'reconcile', 'prune'],
        true,
      ])
    } finally {
      await integrations.close()
    }
  })

  it('tell a pause that was made in Temporal, with its note; its moment stays that of the first look', async () => {
    const { prefix, config, input } = deployment()
    await ensureSchedules(client, config, DOES_NOT)
    const database = await createTestDatabase()
    const clock = new ManualClock('2031-06-01T12:00:00Z')
    const integrations = createIntegrations({
      ...{ database: database.url, temporal: { address: server.address }, config: input, clock },
      encryptionKeys: encryptionKey('test'),
    })
    try {
      const { framework } = partsOf(integrations)
      const look = async () => {
        await noteSchedulePause(framework)
        return findSchedulePause(framework)
      }
      expect(await look()).toBeNull()
      await dispatchOf(prefix).pause('maintenance until noon')
      const id = scheduleId(prefix, 'dispatch-syncs')
      const paused = { id, note: 'maintenance until noon', since: clock.now() }
      expect(await look()).toEqual(paused)
      clock.advance({ hours: 1 })
      expect(await look()).toEqual(paused)
      await dispatchOf(prefix).unpause()
      expect(await look()).toBeNull()
    } finally {
      await integrations.close()
      await database.drop()
    }
  })

  it('are made by a worker, and start what the worker runs', async () => {
    const { prefix, input } = deployment()
    const database = await createTestDatabase()
    const errors: object[] = []
    const integrations = createIntegrations({
      database: database.url,
      temporal: { address: server.address },
      encryptionKeys: `test:${Buffer.alloc(32, 1).toString('base64')}`,
      config: input,
      models: { not_migrated: mappedTable(pgTable('not_migrated', { id: integer().primaryKey() })) },
      logger: { debug() {}, info() {}, warn() {}, error: (fields) => void errors.push(fields) },
    })
    const workers = await createWorkers(integrations, {
      workflowBundlePath: installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE,
    })
    expect(errors).toMatchObject([{ event: 'worker.model_unfit', model: 'not_migrated' }])
    await dispatchOf(prefix).pause('until it is seen')
    const running = workers.run()
    try {
      const noted = () => findSchedulePause(partsOf(integrations).framework)
      await expect.poll(noted, { timeout: 20_000 }).toMatchObject({ note: 'until it is seen' })
      await dispatchOf(prefix).unpause()
      await dispatchOf(prefix).trigger()
      const started = async () => (await dispatchOf(prefix).describe()).info.recentActions[0]?.action.workflow
      await expect.poll(started, { timeout: 20_000 }).toBeDefined()
      const workflow = await started()
      expect(workflow?.workflowId).toContain(workflowId.dispatchSyncs(prefix))
      const handle = client.workflow.getHandle(workflow?.workflowId as string)
      expect(await handle.result()).toEqual({ due: 0, started: 0, alreadyRunning: 0, stale: [], recovered: [] })
      // A command joins what a Schedule may have started, or starts it, by the same id.
      expect(await integrations.admin.evaluateFailures()).toEqual({
        enabled: true,
        checked: 0,
        elevated: [],
        recovered: [],
      })
    } finally {
      workers.shutdown()
      await running
      await integrations.close()
      await database.drop()
      for (const name of ALWAYS) await scheduleOf(prefix, name).delete()
    }
  })
})
