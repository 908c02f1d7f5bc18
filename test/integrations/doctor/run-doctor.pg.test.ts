import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseEnv, promisify } from 'node:util'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { askAside } from '../../../src/db/client.ts'
import type {
  Framework,
  PolledQueue,
  ScheduleState,
  TemporalInspection,
  WedgedWorkflow,
} from '../../../src/framework/context.ts'
import { BackendUnreachable, NoWorkerAnswered } from '../../../src/framework/errors.ts'
import type { DoctorProbes, Finding } from '../../../src/integrations/doctor/run-doctor.ts'
import { runDoctor } from '../../../src/integrations/doctor/run-doctor.ts'
import { mappedTable, reportUnfitModels } from '../../../src/mappings/mapped-table.ts'
import { noteTokenRefreshed, noteTokenRefreshFailed } from '../../../src/oauth/keep-alive.ts'
import { markReauthRequired } from '../../../src/oauth/reauth.ts'
import { tokensOf } from '../../../src/oauth/rules.ts'
import type { HasBackfill, HasOAuth2, HasStreams, ReconcilesWebhooks } from '../../../src/providers/contracts.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { MappedModel } from '../../../src/providers/mapped-model.ts'
import { OAuth2Provider } from '../../../src/providers/oauth2-provider.ts'
import type { RefusalReason } from '../../../src/providers/signatures/scheme-rules.ts'
import { eraseIntegration } from '../../../src/retention/erasure.ts'
import { advanceCursor } from '../../../src/syncs/by-hand.ts'
import type { SyncOf, SyncProgress } from '../../../src/syncs/sync-jobs.ts'
import { temporalUnreachable } from '../../../src/temporal/connection.ts'
import { temporalCommands } from '../../../src/temporal/inspection.ts'
import { ManualClock } from '../../../src/testing/manual-clock.ts'
import { SecretNotes } from '../../../src/webhooks/secrets.ts'
import { scriptedOAuth } from '../../oauth/scripted-oauth.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../../support/integrations.ts'
import { loadConfig } from '../../support/load-config.ts'
import { syncProvider, webhookProvider } from '../../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook, setIntegration } from '../../support/rows.ts'

const KEY = encryptionKey('test')
const HOUR_MS = 3_600_000
const IN_STEP: ScheduleState = {
  name: 'dispatch-syncs',
  id: 'integrations:schedule:dispatch-syncs',
  standing: 'in step',
  differences: [],
  isPaused: false,
  note: null,
  lastRunAt: null,
  nextRunAt: null,
}

const stream = { sync: async () => {}, reduceCheckpoints: () => null, everySeconds: 60 }
const crm: HasStreams = {
  defaultRateLimit: () => null,
  streams: { contacts: stream, deals: { ...stream, after: 'contacts' } },
}

const keyed: ReconcilesWebhooks = {
  ...webhookProvider(),
  reconcileLookbackSeconds: 86_400,
  reconcileWebhookKey: 'hook_id',
  async *missedWebhooks() {},
}

let database: TestDatabase
let test: TestIntegrations
/** How Temporal answers. */
let temporal: {
  schedules: ScheduleState[]
  workers: number
  queue: Partial<PolledQueue>
  wedged: readonly WedgedWorkflow[]
  inbox: boolean
  outbox: boolean
  followed: Set<number>
  unreachable: Error | null
  /** What the polls were compared with. */
  askedAt?: Date
}
let probes: DoctorProbes

const withWindow: HasBackfill = { ...syncProvider(() => {}), syncWindow: async () => {} }

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    encryptionKeys: KEY,
    config: { operator: { tokens: [{ name: 'test', sha256: 'a'.repeat(64), scopes: ['read'] }] } },
    providers: {
      hooks: webhookProvider(),
      own: webhookProvider({ verifyWebhookSignature: () => false }),
      things: withWindow,
      crm,
      keyed,
      byhand: syncProvider(() => {}, { defaultSyncInterval: () => null }),
    },
  })
  Object.assign(test.framework, { temporal: scriptedTemporal() })
})
afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  temporal = {
    schedules: [IN_STEP],
    workers: 1,
    queue: {},
    wedged: [],
    inbox: false,
    outbox: false,
    followed: new Set(),
    unreachable: null,
  }
  probes = {
    checkDatabase: async () => {},
    askAside: (question) => askAside(test.sql, question),
    pendingMigrations: async () => [],
    baseUrl: null,
    dev: false,
    local: null,
  }
  test.starts.running.clear()
  await test.sql`delete from integrations`
})

function scriptedTemporal(): TemporalInspection {
  const where = { address: 'temporal.example:7233', namespace: 'default' }
  const { config } = loadConfig({ config: {}, optionProviderKeys: [], middlewareNames: [] })
  return {
    ...where,
    commands: temporalCommands(config, where, false),
    async check() {
      if (temporal.unreachable !== null) throw temporal.unreachable
    },
    schedules: async () => temporal.schedules,
    dispatchPause: async () => null,
    applySchedules: async () => temporal.schedules,
    searchAttributes: async () => [],
    applySearchAttributes: async () => ({ states: [], added: [], problem: null }),
    async pollers(now) {
      temporal.askedAt = now
      return [
        {
          taskQueue: 'integrations-default',
          workers: temporal.workers,
          lastPoll: null,
          backlog: null,
          ...temporal.queue,
        },
      ]
    },
    wedged: async () => temporal.wedged,
    isInboxRunning: async () => temporal.inbox,
    isOutboxRunning: async () => temporal.outbox,
    isIncidentFollowed: async (id) => temporal.followed.has(id),
  }
}

async function wrong(): Promise<Finding[]> {
  const findings = await runDoctor(test.framework, probes)
  return findings.filter(({ status }) => status === 'fault' || status === 'warning')
}

/** What its remedy does, which is a line with psql. */
async function runInPsql(finding: Finding | undefined): Promise<void> {
  const [, statement] = /^psql "\$DATABASE_URL" -c '(.*)'$/s.exec(finding?.remedy ?? '') ?? []
  await test.sql.unsafe(statement as string)
}

const ago = (ms: number): Date => new Date(Date.now() - ms)

it('finds nothing on healthy rows, and looks at everything', async () => {
  const things = await makeIntegration(test, 'things')
  const hooks = await makeIntegration(test, 'hooks')
  await makeWebhook(test, hooks.id, { status: 'pending' })
  await makeWebhook(test, hooks.id, { status: 'processed', updatedAt: ago(HOUR_MS) })
  const run = await makeRun(test, things.id, {}, { status: 'success', createdAt: ago(HOUR_MS) })
  await makeItem(test, run, { status: 'failed', externalId: 'a' })
  await makeItem(test, run, { status: 'success', externalId: 'a' })
  const findings = await runDoctor(test.framework, probes)
  expect(findings.filter(({ status }) => status !== 'ok')).toEqual([])
  expect(findings.length).toBe(40)
  const page = await readFile(new URL('../../../docs/behaviour/doctor.md', import.meta.url), 'utf8')
  const named = [...page.matchAll(/^\| `([a-z_]+\.[a-z_]+)`/gm)].map(([, name]) => name)
  expect([...new Set(named)]).toEqual(findings.map(({ check }) => check))
})

describe('models of the host', () => {
  const issues = pgTable('doctor_issues', { id: integer().primaryKey(), title: text(), state: text() })

  it('whose table is missing, or lacks columns, are a fault each', async () => {
    const unreadable = {
      ...mappedTable(issues),
      problems: undefined,
      scan: () => Promise.reject(new Error('no route')),
    }
    const models = new Map<string, MappedModel>([
      ['issue', mappedTable(issues) as MappedModel],
      ['other', unreadable as unknown as MappedModel],
    ])
    const before = test.framework.models
    Object.assign(test.framework, { models })
    const messages = async () => (await wrong()).map(({ check, status, message }) => [check, status, message])
    try {
      expect(await messages()).toEqual([
        ['models.tables', 'fault', expect.stringContaining('the table "doctor_issues" does not exist')],
        [
          'models.tables',
          'fault',
          expect.stringContaining('"other" does not fit its table: it can\'t be read: Error: no route'),
        ],
      ])
      await test.sql`create table doctor_issues (id int primary key)`
      expect((await messages())[0]?.[2]).toContain('"doctor_issues" lacks the columns title, state')
      const logged = test.lines.length
      await reportUnfitModels(test.framework)
      expect(test.lines.slice(logged)).toMatchObject([
        { level: 'error', fields: { event: 'worker.model_unfit', model: 'issue' } },
        { level: 'error', fields: { event: 'worker.model_unfit', model: 'other' } },
      ])
      models.delete('other')
      await test.sql`alter table doctor_issues add title text, add state text`
      expect(await messages()).toEqual([])
    } finally {
      Object.assign(test.framework, { models: before })
    }
  })
})

describe('pending webhooks', () => {
  it('are no fault before two minutes have passed, nor while the inbox lives', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    await makeWebhook(test, id, { updatedAt: ago(60_000) })
    expect(await wrong()).toEqual([])
    await makeWebhook(test, id, { updatedAt: ago(130_000) })
    expect(await wrong()).toMatchObject([{ check: 'webhooks.pending', status: 'fault' }])
    temporal.inbox = true
    expect(await wrong()).toEqual([])
  })

  it('are a warning when a living inbox has not got to them for webhook.pending_timeout', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    temporal.inbox = true
    await makeWebhook(test, id, { updatedAt: ago(HOUR_MS + 10_000) })
    expect(await wrong()).toMatchObject([
      { check: 'webhooks.pending', status: 'warning', remedy: expect.stringContaining('workflow query') },
    ])
  })

  it('of an integration that its health disabled wait on purpose', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    await makeWebhook(test, id, { updatedAt: ago(HOUR_MS) })
    await setIntegration(test, id, { healthStatus: 'disabled' })
    expect(await wrong()).toMatchObject([
      {
        check: 'integrations.disabled',
        message: expect.stringContaining('1 webhook wait'),
        remedy: `integrations enable ${id}`,
      },
    ])
  })

  it('are counted by integration, ten at most, with a word on the rest', async () => {
    for (let n = 0; n < 12; n++) {
      const { id } = await makeIntegration(test, 'hooks')
      await makeWebhook(test, id, { updatedAt: ago(HOUR_MS - n * 1_000) })
    }
    const found = await wrong()
    expect(found).toHaveLength(11)
    expect(found.at(-1)?.message).toContain('at least 2 more')
  })
})

describe('reconciliation', () => {
  const about = async () => (await wrong()).filter(({ check }) => check === 'webhooks.reconciliation')

  it('of an integration that receives deliveries and names no webhook to list is a warning, with the command', async () => {
    const { id } = await makeIntegration(test, 'keyed')
    const named = await makeIntegration(test, 'keyed', { metadata: { hook_id: 7 } })
    const registered = await makeIntegration(test, 'keyed')
    const off = await makeIntegration(test, 'keyed', { isActive: false })
    await test.sql`
      insert into integration_webhook_subscriptions (integration_id, is_wanted, subscription_id)
      values (${registered.id}, true, '12')`
    expect(await about()).toEqual([])
    for (const one of [id, named.id, registered.id, off.id])
      await makeWebhook(test, one, { status: 'processed', processedAt: ago(0) })
    const command = `integrations update ${id} --metadata hook_id=ID`
    expect(await about()).toEqual([
      expect.objectContaining({
        status: 'warning',
        integrationId: id,
        message: `Integration ${id}: reconciliation does not fetch the deliveries that it misses: no webhook to list; set metadata hook_id: ${command}`,
        remedy: command,
      }),
    ])
  })
})

describe('registered webhooks', () => {
  it('that cannot be kept come before late ones, however many those are, and say whose they are and since when', async () => {
    const late = ago(HOUR_MS)
    const { db, tables } = test.framework
    const insert = (integrationId: number, values: { nextCheckAt?: Date; alertedAt?: Date; lastError?: string }) =>
      db.insert(tables.webhookSubscriptions).values({ integrationId, isWanted: true, ...values })
    const ids: number[] = []
    for (let n = 0; n < 11; n += 1) ids.push((await makeIntegration(test, 'hooks')).id)
    for (const id of ids) await insert(id, { nextCheckAt: late })
    const kept = await makeIntegration(test, 'hooks')
    const alerted = ago(2 * HOUR_MS)
    await insert(kept.id, { alertedAt: alerted, lastError: 'no such hook' })
    const findings = await runDoctor({ ...test.framework, baseUrl: 'https://example.com' }, probes)
    const found = findings.filter(({ check }) => check === 'webhooks.subscriptions')
    expect(found).toHaveLength(11)
    expect(found[0]).toMatchObject({ status: 'fault', integrationId: kept.id, since: alerted })
    expect(found[1]).toMatchObject({ status: 'warning', integrationId: ids[0], since: late })
    expect(found.at(-1)).toMatchObject({ status: 'warning', message: expect.stringContaining('at least 2 more') })
  })
})

describe('workers', () => {
  const lastPoll = (secondsAgo: number, identity = '4711@worker-1') => ({ identity, at: ago(secondsAgo * 1_000) })

  it('that took no task since they came are a warning at once: their process may stand still', async () => {
    const last = lastPoll(40)
    temporal.queue = { lastPoll: last, backlog: { tasks: 3, seconds: 35, lastPoll: last } }
    const at = `${last.at.toISOString().slice(0, 19)}Z`
    expect(await wrong()).toEqual([
      {
        check: 'temporal.workers',
        status: 'warning',
        message: `3 tasks of integrations-default wait, the oldest for 35 s, though 1 worker polled it within two minutes; the last poll for them was by 4711@worker-1 at ${at}. Either all of its slots are taken, or it does not go on. If its process on worker-1 lives but stands (ps: state T): kill -CONT 4711, or kill -9 4711 and start another.`,
        remedy: 'ps -o pid,stat,etime,args -p 4711',
        integrationId: null,
        stream: null,
        since: last.at,
      },
    ])
  })

  it('are looked at by Postgres’ clock: that of this machine may be ahead of Temporal’s', async () => {
    const behind = 180_000
    // As Postgres answers whose clock agrees with Temporal's.
    const answered = (rows: unknown): unknown =>
      Array.isArray(rows) && rows[0]?.ms !== undefined ? [{ ms: rows[0].ms - behind }] : rows
    probes = { ...probes, askAside: async (question) => answered(await askAside(test.sql, question)) as never }
    temporal.queue = { lastPoll: lastPoll(181), backlog: { tasks: 900, seconds: 300, lastPoll: lastPoll(181) } }
    const found = await runDoctor(test.framework, probes)
    expect(found.find(({ check }) => check === 'temporal.workers')).toMatchObject({ status: 'ok' })
    expect(Date.now() - (temporal.askedAt?.getTime() ?? 0)).toBeGreaterThanOrEqual(behind)
  })

  it('that work a backlog off are well', async () => {
    temporal.queue = { lastPoll: lastPoll(1), backlog: { tasks: 900, seconds: 300, lastPoll: lastPoll(1) } }
    expect(await wrong()).toEqual([])
    temporal.queue = { lastPoll: lastPoll(50), backlog: { tasks: 1, seconds: 5, lastPoll: lastPoll(50) } }
    expect(await wrong()).toEqual([])
  })

  it('that are gone are a fault with the last one, and since when', async () => {
    temporal.workers = 0
    const last = lastPoll(170, 'named-by-hand')
    temporal.queue = { lastPoll: last, backlog: { tasks: 1, seconds: 170, lastPoll: last } }
    expect(await wrong()).toMatchObject([
      {
        status: 'fault',
        message: expect.stringMatching(
          /what waits there stays \(1 task\)\. The last was named-by-hand at \S+Z\. If its process/,
        ),
        since: last.at,
      },
    ])
    temporal.queue = {}
    expect(await wrong()).toMatchObject([{ message: expect.stringContaining('None did in the last five minutes.') }])
  })

  it('and all remedies are lines that run where npm start keeps everything up', async () => {
    const local = { integrations: 'npm run cli --', temporal: '/kept/temporal', psql: "PGPASSWORD=$(cat p) psql 'u'" }
    probes = { ...probes, local }
    temporal.workers = 0
    const last = lastPoll(170)
    temporal.queue = { lastPoll: last }
    temporal.schedules = [
      { ...IN_STEP, isPaused: true },
      { ...IN_STEP, standing: 'missing' },
    ]
    const { id } = await makeIntegration(test, 'hooks')
    await makeWebhook(test, id, { status: 'failed', processedAt: ago(1_000) })
    expect((await wrong()).map(({ check, remedy }) => [check, remedy])).toEqual([
      ['temporal.schedules', expect.stringMatching(/^\/kept\/temporal schedule toggle --address /)],
      ['temporal.schedules', 'npm run cli -- schedules --apply'],
      ['temporal.workers', 'kill -9 4711'],
      ['webhooks.failed', `npm run cli -- list-webhooks --integration ${id} --status failed --limit 20 --json`],
    ])
    expect((await wrong())[2]?.message).toContain('kill -9 4711; npm start starts another.')
    expect((await wrong())[3]?.message).toMatch(
      /`npm run cli -- replay-webhook ID`; to give one up, `npm run cli -- dismiss-webhook ID`\.$/,
    )
    temporal.queue = {}
    expect((await wrong())[2]?.remedy).toBe('npm start')
  })

  it('are named by the checks of webhooks that wait for them, with the count', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    await makeWebhook(test, id, { updatedAt: ago(20_000) })
    await makeWebhook(test, id, { updatedAt: ago(25_000) })
    await makeWebhook(test, id, { status: 'processing', claim: 'gone:1', updatedAt: ago(30_000) })
    temporal.inbox = true
    expect(await wrong()).toEqual([])
    temporal.workers = 0
    expect(await wrong()).toMatchObject([
      { check: 'temporal.workers', status: 'fault' },
      {
        check: 'webhooks.pending',
        status: 'warning',
        message: expect.stringMatching(
          /^2 webhooks of 1 integration stand, the oldest since \S+Z: see temporal\.workers\.$/,
        ),
        remedy: expect.stringContaining('worker'),
      },
      { check: 'webhooks.processing', message: expect.stringContaining('1 webhook of 1 integration stand') },
    ])
    temporal.workers = 1
    await makeWebhook(test, id, { updatedAt: ago(130_000) })
    const findings = await runDoctor(test.framework, probes)
    expect(findings.find(({ check }) => check === 'webhooks.pending')).toMatchObject({
      status: 'ok',
      message: expect.stringMatching(/^1 webhook pending for 120 s, the oldest since \S+Z; the inbox runs/),
    })
  })
})

describe('circuits', () => {
  const failing = () => Promise.reject(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }))

  it('that are open are shown, with the moment since and the command that tells more', async () => {
    const integration = await makeIntegration(test, 'hooks')
    for (let calls = 0; calls < 10; calls += 1)
      await expect(integration.request('things', 'GET', failing, { attempts: 1 })).rejects.toThrow('refused')
    const { openedAt } = await integration.circuit()
    expect(await wrong()).toEqual([
      {
        check: 'circuits.open',
        status: 'warning',
        message: expect.stringContaining(`is open since ${openedAt?.toISOString().slice(0, 19)}Z; the next probe`),
        remedy: `integrations circuit ${integration.id} status`,
        integrationId: integration.id,
        stream: null,
        since: openedAt,
      },
      expect.objectContaining({
        check: 'incidents.open',
        message: expect.stringContaining('The newest error: GET things failed (upstream): Error: refused'),
        integrationId: integration.id,
      }),
    ])
  })

  it.each([
    ['forced_open', 'forced its circuit open'],
    ['forced_closed', 'forced its circuit closed'],
    ['disabled', 'switched its circuit breaker off'],
  ] as const)('that an operator has overridden by %s are given back by a command', async (override, message) => {
    const integration = await makeIntegration(test, 'hooks')
    await integration.overrideCircuit(override, new Date('2099-01-01T00:00:00Z'))
    expect(await wrong()).toEqual([
      {
        check: 'circuits.open',
        status: 'warning',
        message: expect.stringMatching(new RegExp(`${message}.*until 2099-01-01T00:00:00Z`)),
        remedy: `integrations circuit ${integration.id} auto`,
        integrationId: integration.id,
        stream: null,
        since: null,
      },
    ])
    await integration.overrideCircuit(null)
    expect(await wrong()).toEqual([])
  })

  it('of an integration that a person has switched off are left out', async () => {
    const integration = await makeIntegration(test, 'hooks')
    await integration.overrideCircuit('forced_open', new Date('2099-01-01T00:00:00Z'))
    await test.integrations.disable(integration.id)
    expect(await wrong()).toEqual([])
  })
})

describe('rate limits', () => {
  it('that an operator has overridden are shown with their use, who set them and when, and given back by a command', async () => {
    const integration = await makeIntegration(test, 'hooks')
    await makeIntegration(test, 'hooks')
    await integration.overrideRateLimit({ limit: 5, seconds: 3_600, window: 'fixed' })
    await test.integrations.admin.operator.note(integration.id, {
      token: 'of anna',
      action: 'rate-limit set 5 in 3600 s, fixed',
      target: `integration:${integration.id}`,
      from: undefined,
    })
    for (let calls = 0; calls < 2; calls += 1) await integration.request('things', 'GET', async () => ({}))
    const { setAt } = await integration.rateLimit()
    expect(await wrong()).toEqual([
      {
        check: 'rate_limits.overridden',
        status: 'warning',
        message: `The rate limit of integration ${integration.id} was overridden by of anna at ${setAt?.toISOString().slice(0, 19)}Z: 5 calls in 3600 s (fixed), for good; 2 of 5 are used now.`,
        remedy: `integrations rate-limit ${integration.id} clear`,
        integrationId: integration.id,
        stream: null,
        since: setAt,
      },
    ])
    await integration.overrideRateLimit({ limit: 6, seconds: 60, window: 'sliding' }, new Date('2099-01-01T00:00:00Z'))
    expect(await wrong()).toMatchObject([
      {
        message: expect.stringMatching(
          /the audit names no person, so it was a host's code or SQL, or the audit of that time is pruned: 6 calls in 60 s \(sliding\), until 2099-01-01T00:00:00Z/,
        ),
        since: null,
      },
    ])
    await setIntegration(test, integration.id, { rateLimitOverrideUntil: ago(1_000) })
    expect(await wrong()).toEqual([])
    await integration.overrideRateLimit(null)
    expect(await wrong()).toEqual([])
  })
})

describe('processing webhooks', () => {
  it('are left alone until webhook.processing_timeout', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    await makeWebhook(test, id, { status: 'processing', claim: 'gone:1', updatedAt: ago(1_740_000) })
    expect(await wrong()).toEqual([])
    await makeWebhook(test, id, { status: 'processing', claim: 'gone:1', updatedAt: ago(1_810_000) })
    expect(await wrong()).toMatchObject([
      {
        check: 'webhooks.processing',
        status: 'fault',
        message: expect.stringContaining('1 webhook of integration'),
        remedy: 'integrations recover-webhooks',
      },
    ])
  })

  it('that a living inbox may hold are not to be put back by hand', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    temporal.inbox = true
    await makeWebhook(test, id, { status: 'processing', claim: 'slow:1', updatedAt: ago(HOUR_MS) })
    const [found] = await wrong()
    expect(found).toMatchObject({ check: 'webhooks.processing', status: 'warning' })
    expect(found?.remedy).toContain('workflow query')
  })
})

describe('refused deliveries', () => {
  async function refused(
    integration: Integration,
    minutesAgo: readonly number[],
    reason: RefusalReason = 'mismatch',
  ): Promise<void> {
    for (const minutes of minutesAgo) {
      const set = vi.spyOn(test.framework.cache, 'set')
      const clock = new ManualClock(ago(minutes * 60_000))
      new SecretNotes({ ...test.framework, clock }).refused(integration, reason)
      await expect.poll(() => set.mock.settledResults.length).toBe(1)
      set.mockRestore()
    }
  }

  it('for want of a secret are a warning, unless a person has switched the integration off', async () => {
    const integration = await makeIntegration(test, 'hooks', { credentials: {} })
    const { id } = integration
    expect(await wrong()).toEqual([])
    await refused(integration, [60])
    expect(await wrong()).toMatchObject([
      {
        check: 'webhooks.secret',
        status: 'warning',
        message: expect.stringContaining(`Integration ${id} has no webhook secret, so its deliveries are refused`),
        remedy: `integrations rotate-webhook-secret ${id}`,
        integrationId: id,
      },
    ])
    await setIntegration(test, id, { isActive: false, switchedOffAt: new Date() })
    expect(await wrong()).toEqual([])
  })

  it('that match no secret are a warning, with the last that was stored', async () => {
    const integration = await makeIntegration(test, 'hooks')
    const { id } = integration
    const createdAt = ago(2 * HOUR_MS)
    await makeWebhook(test, id, { status: 'processed', createdAt })
    await refused(integration, [60, 50, 40])
    const [found, ...others] = await wrong()
    expect(others).toEqual([])
    expect(found).toMatchObject({
      check: 'webhooks.secret',
      status: 'warning',
      remedy: `integrations rotate-webhook-secret ${id}`,
      integrationId: id,
      since: createdAt,
    })
    expect(found?.message).toContain(`Integration ${id} refuses all that it is sent: the last one at `)
    expect(found?.message).toContain(`the last one that was stored came at ${createdAt.toISOString().slice(0, 19)}Z`)
  })

  it.each<[string, RefusalReason]>([
    ['own', 'refused_by_provider'],
    ['hooks', 'time_off'],
  ])('of %s for %s are not mended by a new secret', async (provider, reason) => {
    const integration = await makeIntegration(test, provider)
    await refused(integration, [60, 50, 40], reason)
    expect(await wrong()).toMatchObject([
      {
        message: expect.stringContaining(
          `for the reason \`${reason}\`; none was stored lately. Its provider’s deliveries`,
        ),
        remedy: `integrations show ${integration.id}`,
      },
    ])
  })
})

describe('failed webhooks', () => {
  it('of the last 24 hours are a warning; what an erasure has blanked is none: nothing is left to read or try', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    await makeWebhook(test, id, { status: 'failed', processedAt: ago(25 * HOUR_MS) })
    expect(await wrong()).toEqual([])
    const { processedAt } = await makeWebhook(test, id, { status: 'failed', processedAt: ago(23 * HOUR_MS) })
    const since = `${processedAt?.toISOString().slice(0, 19)}Z`
    expect(await wrong()).toMatchObject([
      {
        check: 'webhooks.failed',
        status: 'warning',
        message: expect.stringMatching(new RegExp(`^1 webhook of integration ${id} .* the first at ${since}`)),
        remedy: `integrations list-webhooks --integration ${id} --status failed --limit 20 --json`,
      },
    ])
    await makeWebhook(test, id, { status: 'pending' })
    await eraseIntegration(test.framework, id)
    expect(await wrong()).toEqual([])
  })
})

describe('runs', () => {
  it('that live are no fault, nor is what an earlier one left open: the next one settles it', async () => {
    const { id } = await makeIntegration(test, 'things')
    await setIntegration(test, id, { nextSyncAt: new Date(Date.now() + HOUR_MS) })
    test.starts.running.add(id)
    const older = await makeRun(test, id, {}, { createdAt: ago(2 * HOUR_MS) })
    const newer = await makeRun(test, id, {}, { createdAt: ago(HOUR_MS) })
    expect(await wrong()).toEqual([])
    test.starts.running.delete(id)
    expect(await wrong()).toMatchObject(
      [older, newer].map((log) => ({
        check: 'sync.stuck',
        status: 'fault',
        message: expect.stringContaining(`log ${log.id},`),
        remedy: `integrations sync --integration ${id}`,
      })),
    )
  })

  it('of backfills whose workflow is gone are named, with what is left of the window', async () => {
    const { id } = await makeIntegration(test, 'things')
    await setIntegration(test, id, { nextSyncAt: new Date(Date.now() + HOUR_MS) })
    const slice = { from: '2031-01-02T00:00:00.000Z', to: '2031-01-03T00:00:00.000Z' }
    const window = { ...slice, until: '2031-02-01T00:00:00.000Z' }
    const { id: log } = await makeRun(test, id, { window }, { operation: 'backfill', createdAt: ago(HOUR_MS) })
    test.starts.runningBackfills.add(id)
    expect(await wrong()).toEqual([])
    test.starts.runningBackfills.delete(id)
    expect(await wrong()).toMatchObject([
      {
        check: 'sync.backfills',
        status: 'warning',
        message: expect.stringContaining(`log ${log},`),
        remedy: `integrations sync --integration ${id} --from ${window.from} --to ${window.until}`,
      },
    ])
    await setIntegration(test, id, { isActive: false })
    expect(await wrong()).toMatchObject([{ check: 'sync.backfills', remedy: `integrations enable ${id}` }])
  })

  it('whose workflow is gone are closed by hand where the integration is switched off: no run goes on with them', async () => {
    const { id } = await makeIntegration(test, 'things')
    const run = await makeRun(test, id, { enumerated: true }, { createdAt: ago(HOUR_MS) })
    await makeItem(test, run, { status: 'success', checkpointValue: 9 })
    await makeItem(test, run, { checkpointValue: 5 })
    await setIntegration(test, id, { isActive: false })
    const [stuck] = await wrong()
    expect(stuck).toMatchObject({ check: 'sync.stuck', remedy: expect.stringContaining('psql') })
    await runInPsql(stuck)
    // Its item of 5 is deleted, so no cursor may come of it.
    await advanceCursor(test.framework, { integrationId: id })
    const [row] = await test.sql`select sync_cursor from integrations where id = ${id}`
    expect(row).toEqual({ sync_cursor: null })
  })

  it('are overdue five minutes after their time, unless one lives or nobody plans them', async () => {
    const { id } = await makeIntegration(test, 'things')
    const byHand = await makeIntegration(test, 'byhand')
    await setIntegration(test, byHand.id, { nextSyncAt: ago(HOUR_MS) })
    await setIntegration(test, id, { nextSyncAt: ago(240_000) })
    expect(await wrong()).toEqual([])
    await setIntegration(test, id, { nextSyncAt: ago(310_000) })
    expect(await wrong()).toMatchObject([
      {
        check: 'sync.overdue',
        status: 'fault',
        remedy: expect.stringMatching(/schedule trigger .* --overlap-policy AllowAll$/),
      },
    ])
    await test.framework.cache.set('dispatch-full', true, 60)
    expect(await wrong()).toMatchObject([
      { check: 'sync.overdue', status: 'warning', message: expect.stringContaining('at its next times') },
    ])
    await test.framework.cache.delete('dispatch-full')
    test.starts.running.add(id)
    expect(await wrong()).toEqual([])
  })

  it('are not overdue while they wait for their health', async () => {
    const { id } = await makeIntegration(test, 'things')
    const health = { healthStatus: 'degraded', nextSyncAt: ago(HOUR_MS) } as const
    await setIntegration(test, id, { ...health, lastSyncedAt: ago(24 * 60_000) })
    expect(await wrong()).toEqual([])
    await setIntegration(test, id, { ...health, lastSyncedAt: ago(26 * 60_000) })
    expect(await wrong()).toMatchObject([{ check: 'sync.overdue' }])
  })

  it('that are due and paused are a warning, not overdue', async () => {
    const { id } = await makeIntegration(test, 'things')
    await setIntegration(test, id, { nextSyncAt: ago(HOUR_MS) })
    test.starts.running.add(id)
    const progress: SyncProgress = {
      phase: 'held',
      isPaused: true,
      syncLogId: null,
      listed: null,
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
      startedAt: ago(HOUR_MS).toISOString(),
    }
    const { workflows } = test.framework
    const before = workflows.syncProgress
    try {
      Object.assign(workflows, { syncProgress: async () => progress })
      expect(await wrong()).toMatchObject([
        { check: 'sync.paused', status: 'warning', remedy: `integrations resume-sync ${id}` },
      ])
      const silent = await makeIntegration(test, 'things')
      await setIntegration(test, silent.id, { nextSyncAt: ago(2 * HOUR_MS) })
      test.starts.running.add(silent.id)
      const unanswered = new NoWorkerAnswered(`integrations:sync:${silent.id}`, 5)
      Object.assign(workflows, {
        syncProgress: async (of: SyncOf) => (of.integrationId === silent.id ? Promise.reject(unanswered) : progress),
      })
      // It is not known to be paused, and hides none that is.
      expect(await wrong()).toMatchObject([
        { check: 'sync.paused', status: 'warning', remedy: `integrations resume-sync ${id}` },
      ])
      Object.assign(workflows, { syncProgress: async () => ({ ...progress, isPaused: false }) })
      expect(await wrong()).toEqual([])
    } finally {
      Object.assign(workflows, { syncProgress: before })
    }
  })

  it('that have not ended clean for too long are a warning, with the last clean one', async () => {
    const [clean, never, off] = [
      await makeIntegration(test, 'byhand'),
      await makeIntegration(test, 'byhand'),
      await makeIntegration(test, 'byhand'),
    ]
    const lastSyncedAt = ago(48 * HOUR_MS)
    await setIntegration(test, clean.id, { lastSyncedAt, syncStaleAlertedAt: ago(2 * HOUR_MS) })
    await setIntegration(test, never.id, { syncStaleAlertedAt: ago(HOUR_MS) })
    await setIntegration(test, off.id, { syncStaleAlertedAt: ago(HOUR_MS), isActive: false })
    expect(await wrong()).toMatchObject([
      {
        check: 'sync.stale',
        status: 'warning',
        message: expect.stringContaining(lastSyncedAt.toISOString().slice(0, 19)),
        remedy: `integrations list-sync-runs --integration ${clean.id}`,
      },
      { check: 'sync.stale', message: expect.stringContaining('never') },
    ])
  })

  it('of ours whose task fails again and again are a fault each, with the line that ends it', async () => {
    const inbox = { id: 'integrations:webhook-inbox', runId: 'r', type: 'webhookInbox', attempts: 7 } as const
    temporal.wedged = [{ ...inbox, queue: null }]
    expect(await wrong()).toMatchObject([
      {
        check: 'temporal.wedged',
        status: 'fault',
        message: expect.stringContaining('integrations:webhook-inbox has been tried 7 times'),
        remedy: expect.stringContaining('temporal workflow terminate'),
      },
    ])
    temporal.wedged = [{ ...inbox, id: 'integrations:backfill:7', type: 'backfillSync', queue: null }]
    expect(await wrong()).toMatchObject([{ message: expect.stringContaining('until a person ends it') }])
    temporal.wedged = [{ ...inbox, id: 'integrations:recover-webhooks-1', type: 'recoverWebhooks', queue: null }]
    expect(await wrong()).toMatchObject([{ message: expect.stringContaining('half an hour after its start') }])
    temporal.wedged = [{ ...inbox, attempts: 1, queue: 'integrations-old' }]
    expect(await wrong()).toMatchObject([
      {
        check: 'temporal.wedged',
        status: 'fault',
        message: expect.stringContaining('integrations:webhook-inbox is on the task queue integrations-old, which no'),
        remedy: expect.stringContaining('temporal workflow terminate'),
      },
    ])
  })

  it('that are overdue for want of a worker are the worker’s finding', async () => {
    const { id } = await makeIntegration(test, 'things')
    await setIntegration(test, id, { nextSyncAt: ago(HOUR_MS) })
    temporal.workers = 0
    expect((await wrong()).map(({ check }) => check)).toEqual(['temporal.workers'])
  })

  it('whose items wait for another try after errors are a warning, by run, with the error of most of them', async () => {
    const { id } = await makeIntegration(test, 'things')
    test.starts.running.add(id)
    const run = await makeRun(test, id)
    const waits = (error: string | null, values: Parameters<typeof makeItem>[2] = {}) =>
      makeItem(test, run, {
        ...{ status: 'processing', attempts: 2, lastError: error, nextAttemptAt: ago(-60_000) },
        ...{ createdAt: ago(240_000), ...values },
      })
    await waits('no order 1', { createdAt: ago(120_000) })
    await waits(null)
    await waits('not yet', { attempts: 0 })
    expect(await wrong()).toEqual([])
    const { createdAt } = await waits('no order 1', { createdAt: ago(250_000) })
    await waits('timeout')
    await waits('no order 22')
    await waits('no order 333')
    const backfill = await makeRun(test, id, {}, { operation: 'backfill' })
    const held = { status: 'processing', attempts: 1, lastError: 'x', createdAt: ago(HOUR_MS) } as const
    await makeItem(test, backfill, { ...held, nextAttemptAt: ago(0) })
    const since = `${createdAt.toISOString().slice(0, 19)}Z`
    expect(await wrong()).toEqual([
      {
        check: 'sync.waiting_items',
        status: 'warning',
        message: expect.stringMatching(
          new RegExp(
            `^4 items of run ${run.id} of integration ${id} failed, wait for their next try and hold its cursor; the oldest was listed at ${since}, the next try is due at \\S+Z\\. Most often: no order <n>\\. .* by \`integrations retry-sync-item ID\`\\.$`,
          ),
        ),
        remedy: `integrations list-failed-items --integration ${id} --waiting`,
        integrationId: id,
        stream: null,
        since: createdAt,
      },
    ])
  })

  it('with failed items that hold the cursor: another run for those with an external id, else letting go', async () => {
    const { id } = await makeIntegration(test, 'things')
    const run = await makeRun(test, id, {}, { status: 'partial' })
    const error = (id: number) => `PostgresError: no "${id}": violates check constraint "titles_length"`
    await makeItem(test, run, { status: 'failed', externalId: 'a', error: error(17) })
    await makeItem(test, run, { status: 'failed', externalId: 'b', error: error(18) })
    await makeItem(test, run, { status: 'failed', error: 'timed out' })
    expect(await wrong()).toMatchObject([
      {
        check: 'sync.failed_items',
        message: expect.stringMatching(
          /^2 items .* Most often: PostgresError: no <text>: violates check constraint "titles_length"\. Mend that;/,
        ),
        remedy: `integrations sync --integration ${id}`,
      },
      {
        check: 'sync.failed_items',
        message: expect.stringMatching(/^1 item without/),
        remedy: expect.stringContaining('psql'),
      },
    ])
    // No run would be allowed: enabling it brings the finding back.
    await setIntegration(test, id, { isActive: false })
    expect(await wrong()).toEqual([])
  })

  it('of a provider that this process does not know: it names no run, which it would refuse', async () => {
    const { id } = await makeIntegration(test, 'things')
    const run = await makeRun(test, id, {}, { createdAt: ago(HOUR_MS) })
    await makeItem(test, run, { status: 'failed', externalId: 'a' })
    const window = { from: '2031-01-02T00:00:00.000Z', to: '2031-01-03T00:00:00.000Z' }
    await makeRun(test, id, { window }, { operation: 'backfill', createdAt: ago(HOUR_MS) })
    await setIntegration(test, id, { provider: 'gone' })
    const remedy = 'integrations list --provider gone'
    const message = expect.stringContaining('does not know its provider "gone"')
    expect(await wrong()).toMatchObject([
      { check: 'providers.registered', remedy },
      { check: 'sync.stuck', message, remedy },
      { check: 'sync.backfills', message, remedy },
      { check: 'sync.failed_items', message, remedy },
    ])
  })
})

describe('streams of one integration', () => {
  let id: number
  const place = (name: string, times: { next?: Date; ran?: Date; stale?: Date } = {}) =>
    test.sql`insert into integration_streams (integration_id, stream, next_sync_at, last_run_at, sync_stale_alerted_at)
      values (${id}, ${name}, ${times.next ?? null}, ${times.ran ?? null}, ${times.stale ?? null})`

  beforeEach(async () => {
    id = (await makeIntegration(test, 'crm')).id
  })

  it('are stuck each by its own workflow', async () => {
    const { workflows } = test.framework
    const before = workflows.isSyncRunning
    await place('contacts')
    await place('deals')
    await makeRun(test, id, {}, { createdAt: ago(HOUR_MS), stream: 'contacts' })
    await makeRun(test, id, {}, { createdAt: ago(HOUR_MS), stream: 'deals' })
    // So many that the last runs of the integration are all of the other one.
    for (let run = 0; run < 20; run += 1)
      await makeRun(test, id, {}, { createdAt: ago(HOUR_MS / 2), stream: 'contacts', status: 'success' })
    try {
      Object.assign(workflows, { isSyncRunning: async (of: SyncOf) => of.stream === 'contacts' })
      expect(await wrong()).toMatchObject([
        {
          check: 'sync.stuck',
          message: expect.stringContaining(`The run of the stream deals of integration ${id} with log`),
          remedy: `integrations sync --integration ${id} --stream deals`,
        },
      ])
    } finally {
      Object.assign(workflows, { isSyncRunning: before })
    }
  })

  it('are closed by hand where a release has removed them: no run comes', async () => {
    await place('gone')
    const { id: log } = await makeRun(test, id, {}, { createdAt: ago(HOUR_MS), stream: 'gone' })
    expect(await wrong()).toMatchObject([
      {
        check: 'sync.stuck',
        message: expect.stringContaining('Its provider no longer has this stream'),
        remedy: expect.stringContaining(`where id = ${log} and status`),
        stream: 'gone',
      },
    ])
  })

  it('have their backfill closed by hand where a release has removed them, or their backfills: no other one comes', async () => {
    const window = { from: '2031-01-02T00:00:00.000Z', to: '2031-01-03T00:00:00.000Z' }
    const about = async () => (await wrong()).filter(({ check }) => check === 'sync.backfills')
    await place('contacts')
    await place('gone')
    const of = { operation: 'backfill', createdAt: ago(HOUR_MS) } as const
    await makeRun(test, id, { window }, { ...of, stream: 'contacts' })
    const run = await makeRun(test, id, { window }, { ...of, stream: 'gone' })
    await makeItem(test, run)
    await makeItem(test, run, { status: 'processing', attempts: 1, nextAttemptAt: ago(0) })
    await makeItem(test, run, { status: 'processing', attempts: 1, claim: 'retry-1:waiting' })
    const found = await about()
    expect(found).toMatchObject([
      { stream: 'contacts', remedy: expect.stringContaining('psql') },
      { stream: 'gone', message: expect.stringContaining('no longer has a backfill of it') },
    ])
    for (const finding of found) await runInPsql(finding)
    expect(await about()).toEqual([])
    const items = await test.sql`
      select status, error, next_attempt_at from integration_sync_items where sync_log_id = ${run.id} order by id`
    expect(items).toEqual([
      { status: 'failed', error: 'abandoned', next_attempt_at: null },
      { status: 'processing', error: null, next_attempt_at: null },
    ])
  })

  it('are overdue each by its own time, and not while they wait for another one', async () => {
    await place('contacts', { next: ago(240_000) })
    await place('deals', { next: ago(HOUR_MS) })
    expect(await wrong()).toEqual([])
    await test.sql`update integration_streams set last_run_at = now() where stream = 'contacts'`
    expect(await wrong()).toMatchObject([
      {
        check: 'sync.overdue',
        message: expect.stringContaining(`the longest is the stream deals of integration ${id}`),
      },
    ])
  })

  it('are stale each since its own time; what the provider does not declare any more is none', async () => {
    await place('contacts', { next: new Date(Date.now() + HOUR_MS), stale: ago(HOUR_MS) })
    await place('deals', { next: new Date(Date.now() + HOUR_MS) })
    await place('old', { stale: ago(HOUR_MS) })
    await setIntegration(test, id, { syncStaleAlertedAt: ago(HOUR_MS) })
    expect(await wrong()).toMatchObject([
      {
        check: 'sync.stale',
        message: expect.stringContaining(`The stream contacts of integration ${id} is stale`),
        remedy: `integrations list-sync-runs --integration ${id} --stream contacts`,
      },
    ])
  })

  it('hold each its own cursor by failed items, which are let go of apart', async () => {
    for (const name of ['contacts', 'deals']) {
      const run = await makeRun(test, id, {}, { status: 'partial', stream: name })
      await makeItem(test, run, { status: 'failed', stream: name, ...(name === 'contacts' ? { externalId: 'a' } : {}) })
    }
    const [contacts, deals, ...others] = await wrong()
    expect(others).toEqual([])
    expect(contacts).toMatchObject({ remedy: `integrations sync --integration ${id} --stream contacts` })
    const [, statement = ''] = /-c '([^']+)'/.exec(deals?.remedy ?? '') ?? []
    await test.sql.unsafe(statement)
    expect(await test.sql`select stream, status from integration_sync_items order by stream`).toEqual([
      { stream: 'contacts', status: 'failed' },
      { stream: 'deals', status: 'skipped' },
    ])
  })

  it('that a release has removed leave failed items that no run takes again: they are let go of', async () => {
    for (const name of ['contacts', 'gone']) {
      const run = await makeRun(test, id, {}, { status: 'partial', stream: name })
      await makeItem(test, run, { status: 'failed', stream: name, externalId: 'a' })
    }
    const left = (await wrong()).find(({ stream: of }) => of === 'gone')
    expect(left).toMatchObject({
      check: 'sync.failed_items',
      message: expect.stringMatching(/^1 item .*Its provider no longer has this stream/),
    })
    const [, statement = ''] = /-c '([^']+)'/.exec(left?.remedy ?? '') ?? []
    await test.sql.unsafe(statement)
    expect(await test.sql`select stream, status from integration_sync_items order by stream`).toEqual([
      { stream: 'contacts', status: 'failed' },
      { stream: 'gone', status: 'skipped' },
    ])
  })
})

describe('failed items of a backfill', () => {
  it('hold no cursor, so they are no finding, and are not let go of with those that do', async () => {
    const { id } = await makeIntegration(test, 'things')
    const backfill = await makeRun(test, id, {}, { operation: 'backfill', status: 'partial' })
    await makeItem(test, backfill, { status: 'failed', externalId: 'a' })
    await makeItem(test, backfill, { status: 'failed' })
    expect(await wrong()).toEqual([])

    const run = await makeRun(test, id, {}, { status: 'partial' })
    const held = await makeItem(test, run, { status: 'failed' })
    // The log of its run has been pruned: nobody can say that it was a backfill's.
    const unknown = await makeItem(test, { id: backfill.id, integrationId: id }, { status: 'failed', syncLogId: null })
    const [finding, ...others] = await wrong()
    expect(others).toEqual([])
    expect(finding).toMatchObject({ check: 'sync.failed_items', message: expect.stringMatching(/^2 items without/) })
    const statement = /-c '(.*)'$/s.exec(finding?.remedy ?? '')?.[1] ?? ''
    await test.sql.unsafe(statement)
    const rows = await test.sql`select id::int, status from integration_sync_items where integration_id = ${id}`
    const skipped = rows.filter(({ status }) => status === 'skipped')
    expect(skipped.map((row) => row.id).sort((a, b) => a - b)).toEqual([held.id, unknown.id])
    expect(await wrong()).toEqual([])
  })
})

describe('incidents', () => {
  const acknowledged = { acknowledgedAt: ago(HOUR_MS), acknowledgedBy: 'ada' }
  const unseen = (id: number, values: Parameters<typeof makeIncident>[2] = {}) =>
    makeIncident(test, id, { openedAt: ago(HOUR_MS), updatedAt: ago(310_000), ...acknowledged, ...values })

  it('that are open are a warning with cause and newest error, until a person acknowledges or snoozes them', async () => {
    const hooks = await makeIntegration(test, 'hooks')
    const things = await makeIntegration(test, 'things')
    const incident = await makeIncident(test, hooks.id, {
      openedAt: ago(2 * HOUR_MS),
      reason: 'threshold_reached',
      source: 'circuit',
      peakSeverity: 'failing',
    })
    await makeIncident(test, things.id, { openedAt: ago(HOUR_MS), snoozedUntil: ago(1_000), snoozedBy: 'ada' })
    const run = await makeRun(test, hooks.id, {}, { status: 'failed', error: 'the older', createdAt: ago(2 * HOUR_MS) })
    await makeItem(test, run, { status: 'skipped', externalId: 'a' })
    await makeRun(test, hooks.id, {}, { status: 'failed', error: 'no route to the provider', createdAt: ago(HOUR_MS) })
    expect(await wrong()).toMatchObject([
      {
        check: 'incidents.open',
        status: 'warning',
        message: expect.stringMatching(
          new RegExp(
            `^Incident ${incident.id} of integration ${hooks.id} is open since \\S+Z: too many calls failed, and its circuit opened \\(threshold_reached, by circuit\\); at worst failing\\. The newest error: run \\d+: .*no route to the provider\\. Once `,
          ),
        ),
        remedy: `integrations explain incident:${incident.id}`,
        integrationId: hooks.id,
        since: incident.openedAt,
      },
      {
        check: 'incidents.open',
        message: expect.stringMatching(
          /: calls failed, and its health became degraded \(.*\); at worst degraded\. Once /,
        ),
        integrationId: things.id,
      },
    ])
    await test.sql`
      update integration_incidents set acknowledged_at = now(), acknowledged_by = 'ada' where id = ${incident.id}`
    await test.sql`
      update integration_incidents set snoozed_until = now() + interval '1 hour' where integration_id = ${things.id}`
    const attended = await runDoctor(test.framework, probes)
    expect(attended.filter(({ check }) => check === 'incidents.open')).toMatchObject([
      { status: 'ok', message: '2 open, each acknowledged or snoozed by a person.' },
    ])
    expect(await wrong()).toEqual([])
  })

  it('are left alone for five minutes, and while their workflow has seen them', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    await unseen(id, { updatedAt: ago(240_000) })
    // One time for both: two readings of the clock may be a millisecond apart, and then it would not have seen it.
    const change = ago(310_000)
    await unseen((await makeIntegration(test, 'hooks')).id, { updatedAt: change, followedAt: change })
    expect(await wrong()).toEqual([])
  })

  it('that changed without their workflow having seen it are a warning, with what wakes it or asks it', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    const incident = await unseen(id, { followedAt: ago(HOUR_MS) })
    const [gone, ...others] = await wrong()
    expect(others).toEqual([])
    expect(gone).toMatchObject({
      check: 'incidents.unseen',
      status: 'warning',
      message: expect.stringContaining(
        `Incident ${incident.id} of integration ${id}, open since ${incident.openedAt.toISOString().slice(0, 19)}Z`,
      ),
    })
    expect(gone?.message).toContain('which is gone')
    expect(gone?.remedy).toContain(`--workflow-id integrations:incident:${id} --type incident`)
    expect(gone?.remedy).toContain('--signal-name escalate')
    temporal.followed.add(id)
    expect(await wrong()).toMatchObject([
      { check: 'incidents.unseen', status: 'warning', remedy: expect.stringContaining('workflow query') },
    ])
  })

  it('that nobody has looked at for more than a day are found while they are open', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    const quiet = { openedAt: ago(90 * HOUR_MS), updatedAt: ago(90 * HOUR_MS) }
    await makeIncident(test, id, { ...quiet, followedAt: ago(28 * HOUR_MS), status: 'closed', closedAt: ago(HOUR_MS) })
    const open = await makeIncident(test, id, { ...quiet, ...acknowledged, followedAt: ago(26 * HOUR_MS) })
    expect(await wrong()).toEqual([])
    await test.sql`update integration_incidents set followed_at = ${ago(28 * HOUR_MS)} where id = ${open.id}`
    expect(await wrong()).toMatchObject([
      { check: 'incidents.unseen', message: expect.stringContaining(`Incident ${open.id} `) },
    ])
  })
})

describe('events', () => {
  const GIVEN_UP = { status: 'given_up', attempts: 10, error: '503', at: new Date().toISOString() }
  const DELIVERED = { status: 'delivered', attempts: 1, at: new Date().toISOString() }
  const plant = async (values: Partial<Framework['tables']['events']['$inferInsert']>): Promise<void> => {
    const { id } = await makeIntegration(test, 'hooks')
    const { db, tables } = test.framework
    await db.insert(tables.events).values({ integrationId: id, name: 'IntegrationDisabled', payload: {}, ...values })
  }

  it('that wait on purpose, or not for long, are no finding', async () => {
    await plant({ dueAt: new Date(Date.now() + HOUR_MS), attempts: 1 })
    await plant({ dueAt: ago(60_000) })
    await plant({ dueAt: ago(HOUR_MS), claim: 'pump:living:1:1', updatedAt: ago(3 * 60_000) })
    await plant({ dueAt: ago(HOUR_MS), deliveredAt: new Date() })
    expect(await wrong()).toEqual([])
  })

  it('that nobody takes up are a fault, and a warning when a living outbox has not got to them', async () => {
    await plant({ dueAt: ago(130_000) })
    await plant({ dueAt: ago(180_000) })
    expect(await wrong()).toMatchObject([
      {
        check: 'events.waiting',
        status: 'fault',
        message: expect.stringMatching(/^2 events wait .*the outbox does not run/),
        remedy: expect.stringContaining('--workflow-id integrations:event-outbox --type eventOutbox'),
      },
    ])
    temporal.outbox = true
    expect(await wrong()).toEqual([])
    await plant({ dueAt: ago(HOUR_MS) })
    expect(await wrong()).toMatchObject([
      {
        check: 'events.waiting',
        status: 'warning',
        message: expect.stringMatching(/^3 events /),
        remedy: expect.stringContaining('workflow query'),
      },
    ])
  })

  it('that a claim holds whose workflow is gone are a fault', async () => {
    await plant({ dueAt: ago(HOUR_MS), claim: 'pump:gone:1:1', updatedAt: ago(4 * 60_000) })
    expect(await wrong()).toMatchObject([
      { check: 'events.waiting', status: 'fault', message: expect.stringMatching(/^1 event waits /) },
    ])
  })

  it('that were given up are told by listener, with why', async () => {
    await plant({ deliveredAt: new Date(), outcomes: { 'target:aaaaaaaaaaaa': GIVEN_UP, 'listener:page': DELIVERED } })
    await plant({ deliveredAt: new Date(), outcomes: { 'target:aaaaaaaaaaaa': GIVEN_UP, 'listener:page': GIVEN_UP } })
    await plant({ deliveredAt: new Date(), outcomes: { 'listener:page': DELIVERED } })
    const found = await wrong()
    expect(found).toHaveLength(2)
    for (const finding of found)
      expect(finding).toMatchObject({
        check: 'events.given_up',
        status: 'warning',
        message: expect.stringContaining('failed with: 503'),
        remedy: 'integrations notifications retry',
      })
    expect(found.find(({ message }) => message.includes('target:aaaaaaaaaaaa'))?.message).toMatch(/^2 events /)
    expect(found.find(({ message }) => message.includes('listener:page'))?.message).toMatch(/^1 event /)
  })

  it('are not looked at while no worker is there to tell them', async () => {
    await plant({ dueAt: ago(HOUR_MS) })
    temporal.workers = 0
    expect((await wrong()).map(({ check }) => check)).toEqual(['temporal.workers'])
  })
})

describe('rows that should have been pruned', () => {
  const DAY_MS = 24 * HOUR_MS
  type Plant = (integration: number, age: (days: number) => Date) => Promise<unknown>
  const into = <Name extends keyof Framework['tables']>(name: Name) =>
    test.framework.db.insert(test.framework.tables[name])

  it.each<[string, Plant]>([
    [
      'requests since',
      (integrationId, age) =>
        into('requests').values({
          integrationId,
          endpoint: '/things',
          method: 'GET',
          createdAt: age(90),
        }),
    ],
    [
      'logs since',
      (integrationId, age) =>
        into('logs').values({
          integrationId,
          operation: 'sync',
          direction: 'inbound',
          status: 'success',
          createdAt: age(365),
        }),
    ],
    [
      'idempotency keys since',
      (integrationId, age) => into('idempotencyKeys').values({ integrationId, key: 'k', createdAt: age(90) }),
    ],
    [
      'completed items since',
      (integrationId, age) =>
        into('syncItems').values({
          integrationId,
          eventClass: 'test.thing',
          payload: {},
          status: 'skipped',
          completedAt: age(30),
        }),
    ],
    [
      'closed incidents since',
      (integrationId, age) =>
        into('incidents').values({
          integrationId,
          status: 'closed',
          source: 'sync',
          reason: 'sync_stale',
          peakSeverity: 'failing',
          openedAt: age(400),
          closedAt: age(365),
          updatedAt: age(365),
          followedAt: age(365),
        }),
    ],
    ['expired cache rows since', (_, age) => into('cache').values({ key: 'of-the-test', value: 1, expiresAt: age(0) })],
    [
      'delivered events since',
      (integrationId, age) =>
        into('events').values({
          integrationId,
          name: 'IntegrationDisabled',
          payload: {},
          deliveredAt: age(7),
        }),
    ],
  ])('%s: two days are allowed', async (words, plant) => {
    const { id } = await makeIntegration(test, 'hooks')
    await plant(id, (days) => ago((days + 2) * DAY_MS - 60_000))
    expect(await wrong()).toEqual([])
    await test.sql`delete from integrations`
    await test.sql`delete from integration_cache where key = 'of-the-test'`
    const other = await makeIntegration(test, 'hooks')
    await plant(other.id, (days) => ago((days + 2) * DAY_MS + 60_000))
    try {
      expect(await wrong()).toMatchObject([
        {
          check: 'pruning.overdue',
          status: 'warning',
          message: expect.stringContaining(words),
          remedy: 'integrations prune',
        },
      ])
    } finally {
      await test.sql`delete from integration_cache where key = 'of-the-test'`
    }
  })

  it('but that pruning keeps are no finding', async () => {
    const { id } = await makeIntegration(test, 'things')
    const old = { createdAt: ago(400 * DAY_MS), updatedAt: ago(400 * DAY_MS) }
    const run = await makeRun(test, id, {}, { status: 'partial', ...old })
    await makeItem(test, run, { status: 'failed', externalId: 'a', ...old })
    await makeItem(test, run, { status: 'success', externalId: 'a' })
    const acknowledged = { acknowledgedAt: ago(DAY_MS), acknowledgedBy: 'ada' }
    await makeIncident(test, id, { openedAt: ago(400 * DAY_MS), ...acknowledged })
    const hooks = await makeIntegration(test, 'hooks')
    await makeWebhook(test, hooks.id, { status: 'processed', processedAt: ago(400 * DAY_MS), ...old })
    expect(await wrong()).toEqual([])
  })

  it('are none where the retention goes back to before all dates', async () => {
    const { config } = test.framework
    const pruning = { ...config.pruning, requests_days: 2_147_483_647 }
    const findings = await runDoctor({ ...test.framework, config: { ...config, pruning } }, probes)
    expect(findings.find(({ check }) => check === 'pruning.overdue')).toMatchObject({ status: 'ok' })
  })

  it('webhooks among them, once webhook retention is set', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    const at = ago(400 * DAY_MS)
    await makeWebhook(test, id, { status: 'processed', processedAt: at, createdAt: at, updatedAt: at })
    const { config } = test.framework
    const pruning = { ...config.pruning, webhooks_days: 30 }
    const findings = await runDoctor({ ...test.framework, config: { ...config, pruning } }, probes)
    expect(findings.find(({ check }) => check === 'pruning.overdue')).toMatchObject({
      status: 'warning',
      message: expect.stringContaining('webhooks since'),
    })
  })
})

describe('a table that grows for ever', () => {
  const grown = async (table: string, rows: number) =>
    test.sql`update pg_class set reltuples = ${rows} where oid = ${table}::regclass`
  const found = async (pruning: Partial<typeof test.framework.config.pruning> = {}) => {
    const { config } = test.framework
    const findings = await runDoctor(
      { ...test.framework, config: { ...config, pruning: { ...config.pruning, ...pruning } } },
      probes,
    )
    return findings.filter(({ check }) => check === 'pruning.unbounded')
  }
  afterEach(async () => {
    for (const table of ['integration_webhooks', 'integration_audit']) await grown(table, -1)
  })

  it('is a warning with the key that bounds it, from 100,000 rows on', async () => {
    await grown('integration_webhooks', 99_999)
    expect(await found()).toMatchObject([{ status: 'ok' }])
    await grown('integration_webhooks', 100_000)
    expect(await found()).toMatchObject([
      {
        status: 'warning',
        message: expect.stringContaining(
          'About 100000 webhooks are stored, and none is ever pruned: pruning.webhooks_days',
        ),
        remedy: 'integrations prune --dry-run',
      },
    ])
  })

  it('is no longer a warning once its key is set; the audit has one by default', async () => {
    await grown('integration_webhooks', 500_000)
    await grown('integration_audit', 500_000)
    expect(await found({ webhooks_days: 30 })).toMatchObject([{ status: 'ok' }])
    expect(await found({ webhooks_days: 30, audit_days: null })).toMatchObject([
      { status: 'warning', message: expect.stringContaining('pruning.audit_days') },
    ])
  })
})

describe('this process', () => {
  it('whose clock is off by more than 5 s', async () => {
    const at = (ms: number) => ({ ...test.framework, clock: { now: () => new Date(Date.now() + ms) } })
    const status = async (ms: number) => (await runDoctor(at(ms), probes)).find(({ check }) => check === 'clock.skew')
    expect(await status(4_000)).toMatchObject({ status: 'ok' })
    // How long the answer takes is in doubt for either clock, and taken off.
    const message = (word: string) => expect.stringMatching(new RegExp(`clock is ([3-5]\\d|60) s ${word} Postgres'`))
    expect(await status(60_000)).toMatchObject({ status: 'warning', message: message('ahead of') })
    expect(await status(-60_000)).toMatchObject({ status: 'warning', message: message('behind') })
  })

  it('that has no operator token, with the command of docs/behaviour/access.md, which prints the variable', async () => {
    const without = testIntegrations(database.url, { encryptionKeys: KEY, config: {} })
    const findings = await runDoctor({ ...test.framework, config: without.framework.config }, probes)
    await without.close()
    const { status, remedy } = findings.find(({ check }) => check === 'access.tokens') ?? {}
    expect(status).toBe('warning')
    const page = await readFile(new URL('../../../docs/behaviour/access.md', import.meta.url), 'utf8')
    expect(page).toContain(`\n${remedy}\n`)
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', String(remedy)])
    const [, token, variable] = /^# token: (\S+)\nexport (.*)\n$/.exec(stdout) ?? []
    const { config } = loadConfig({ environment: parseEnv(String(variable)) })
    const sha256 = createHash('sha256').update(String(token)).digest('hex')
    expect(config.operator.tokens).toEqual([{ name: 'me', sha256, scopes: ['operate'] }])
  })

  it('that has an OAuth provider and no base URL', async () => {
    const oauth: HasOAuth2 = {
      authorizationUrl: () => 'https://provider.example/authorize',
      exchangeCode: async () => ({ access_token: 'x' }),
      refreshToken: async () => ({ access_token: 'x' }),
      revokeToken: async () => {},
      refreshThreshold: () => 300,
    }
    const with_ = testIntegrations(database.url, { encryptionKeys: KEY, providers: { oauth } })
    const look = async (given: DoctorProbes) =>
      (await runDoctor({ ...test.framework, providers: with_.framework.providers }, given)).find(
        ({ check }) => check === 'access.base_url',
      )
    expect(await look(probes)).toMatchObject({
      status: 'warning',
      remedy: expect.stringContaining('INTEGRATIONS_BASE_URL='),
    })
    expect(await look({ ...probes, baseUrl: 'https://api.example' })).toMatchObject({ status: 'ok' })
    expect(await look({ ...probes, baseUrl: 'http://localhost:3000' })).toMatchObject({ status: 'ok' })
    expect(await look({ ...probes, baseUrl: 'http://[::1]:3000/api' })).toMatchObject({ status: 'ok' })
    expect(await look({ ...probes, baseUrl: 'http://localhost.example' })).toMatchObject({
      status: 'warning',
      message: expect.stringContaining('without TLS'),
      remedy: expect.stringContaining('INTEGRATIONS_BASE_URL=https:'),
    })
    await with_.close()
  })

  it('with the wrong ring leaves no trace of it in an empty database', async () => {
    await test.sql`delete from integration_cache`
    expect(await wrong()).toEqual([])
    expect(await test.sql`select key from integration_cache where key like '%canary%'`).toEqual([])
  })
})

describe('authorizations', () => {
  const TOKENS = { access_token: 'a', refresh_token: 'r' }
  let host: TestIntegrations
  beforeAll(() => {
    host = testIntegrations(database.url, { encryptionKeys: KEY, providers: { oauth: scriptedOAuth(() => ({})) } })
    Object.assign(host.framework, { temporal: test.framework.temporal })
  })
  afterAll(() => host?.close())
  const found = async (name: string) =>
    (await runDoctor(host.framework, probes)).filter(({ check, status }) => check === name && status !== 'ok')

  it('that only a person can give anew are a fault each, with the link', async () => {
    const { id } = await makeIntegration(host, 'oauth', { credentials: TOKENS })
    const off = await makeIntegration(host, 'oauth', { credentials: TOKENS, isActive: false })
    const failed = await makeIntegration(host, 'oauth', { credentials: TOKENS })
    await setIntegration(host, failed.id, { isActive: false, healthStatus: 'disabled' })
    for (const each of [id, off.id, failed.id])
      await markReauthRequired(host.framework, await host.integrations.get(each), 'invalid_grant')
    const seen = await found('oauth.reauthorization')
    expect(seen).toMatchObject([
      {
        status: 'fault',
        message: expect.stringMatching(
          new RegExp(`^Integration ${id} has had no valid authorization since .*Z [(]invalid_grant[)]: a person`),
        ),
        remedy: `integrations oauth-link ${id}`,
      },
      { remedy: `integrations oauth-link ${failed.id}` },
    ])
  })

  it('whose refreshes have failed for an hour are a warning, unless a person is waited for', async () => {
    const [young, old, marked] = await Promise.all(
      [0, 0, 0].map(() => makeIntegration(host, 'oauth', { credentials: TOKENS })),
    )
    if (young === undefined || old === undefined || marked === undefined) return expect.unreachable()
    const failedAgo = (integration: Integration, ms: number) =>
      noteTokenRefreshFailed(
        { ...host.framework, clock: { now: () => ago(ms) } },
        integration,
        tokensOf(integration.credentialsArray()),
        new Error('down'),
      )
    await failedAgo(young, HOUR_MS - 60_000)
    for (const each of [old, marked]) await failedAgo(each, HOUR_MS + 10_000)
    await markReauthRequired(host.framework, marked, 'invalid_grant')
    const seen = await found('oauth.refreshes')
    expect(seen).toMatchObject([
      {
        status: 'warning',
        message: expect.stringMatching(
          new RegExp(
            `^The tokens of integration ${old.id} could not be refreshed since .*Z, 1 failed in all; the next`,
          ),
        ),
        remedy: `integrations refresh-tokens ${old.id}`,
      },
    ])
    await noteTokenRefreshed(host.framework, old.id)
    expect(await found('oauth.refreshes')).toEqual([])
  })

  it('whose client lacks its secret are a warning, where tokens are refreshed with it', async () => {
    class Client extends OAuth2Provider {
      protected override readonly endpoints = { authorization: 'https://id.example/a', token: 'https://id.example/t' }
      protected override client() {
        return { id: 'us', secret: process.env.DOCTOR_CLIENT_SECRET }
      }
      defaultRateLimit() {
        return null
      }
    }
    class PublicClient extends Client {
      protected override readonly clientAuthentication = 'none'
    }
    class OwnRefresh extends Client {
      override async refreshToken() {
        return {}
      }
    }
    const own = testIntegrations(database.url, {
      encryptionKeys: KEY,
      providers: { client: new Client(), public: new PublicClient(), own: new OwnRefresh() },
    })
    Object.assign(own.framework, { temporal: test.framework.temporal })
    const look = async () =>
      (await runDoctor(own.framework, probes)).filter(
        ({ check, status }) => check === 'oauth.refreshes' && status !== 'ok',
      )
    for (const provider of ['public', 'own']) await makeIntegration(own, provider, { credentials: TOKENS })
    await makeIntegration(own, 'client', { credentials: TOKENS, isActive: false })
    // Not connected yet; and a token that lasts.
    for (const credentials of [{}, { access_token: 'a' }]) await makeIntegration(own, 'client', { credentials })
    expect(await look()).toEqual([])
    const first = await makeIntegration(own, 'client', { credentials: TOKENS })
    await makeIntegration(own, 'client', { credentials: TOKENS })
    expect(await look()).toMatchObject([
      {
        status: 'warning',
        message: expect.stringMatching(
          new RegExp(
            `^In this process the OAuth client of the provider "client" .*Invalid client secret: client_secret_basic needs one.* 2 integrations \\(the first is ${first.id}\\)`,
          ),
        ),
        remedy: `integrations refresh-tokens ${first.id}`,
      },
    ])
    vi.stubEnv('DOCTOR_CLIENT_SECRET', 'there')
    expect(await look()).toEqual([])
    vi.unstubAllEnvs()
    await own.close()
  })

  it('of many pages are found, and ten are named', async () => {
    const first = await makeIntegration(host, 'oauth', { credentials: TOKENS })
    await test.sql`
      insert into integrations (provider, name, credentials)
      select provider, name, credentials from integrations, generate_series(1, 1010) where id = ${first.id}`
    const ids = await test.sql<{ id: string }[]>`select id from integrations order by id desc limit 12`
    for (const { id } of ids)
      await markReauthRequired(host.framework, await host.integrations.get(Number(id)), 'invalid_grant')
    const seen = await found('oauth.reauthorization')
    expect(seen.length).toBe(11)
    expect(seen.at(-1)?.message).toBe('And at least 2 more such. Mend these first.')
  })
})

describe('what can’t be looked at', () => {
  it('names the root, however far away', async () => {
    const refused = new BackendUnreachable('Postgres', 'db.example:5432', { remedy: 'Check it.' })
    probes = { ...probes, checkDatabase: () => Promise.reject(refused) }
    const findings = await runDoctor(test.framework, probes)
    expect(findings.filter(({ status }) => status === 'fault').map(({ check }) => check)).toEqual([
      'database.reachable',
    ])
    expect(findings.find(({ check }) => check === 'keys.readable')?.message).toBe(
      'Not looked at: see database.reachable.',
    )
  })

  it('takes no time from what can: Temporal may be slow while Postgres is away', async () => {
    probes = {
      ...probes,
      checkDatabase: () =>
        Promise.reject(new BackendUnreachable('Postgres', 'db.example:5432', { remedy: 'Check it.' })),
    }
    const before = test.framework.temporal
    const schedules = () => sleep(4_000, [])
    Object.assign(test.framework, { temporal: { ...before, schedules } })
    try {
      expect(await wrong()).toMatchObject([{ check: 'database.reachable' }])
    } finally {
      Object.assign(test.framework, { temporal: before })
    }
  })

  it.each([
    [
      'has ended',
      -1,
      true,
      'fault',
      /refused.* The client certificate that this process read when it started ended at /,
    ],
    [
      'ends within 14 days',
      14 * 24 * HOUR_MS,
      false,
      'warning',
      /^The client certificate .* started ends at \S+Z\. Renew its file/,
    ],
    ['ends later', 14 * 24 * HOUR_MS + 60_000, false, null, null],
  ])('of the client certificate for Temporal, which %s', async (_, leftMs, isRefused, status, message) => {
    const before = test.framework.temporal
    if (isRefused)
      temporal.unreachable = new BackendUnreachable('Temporal', 'temporal.example:7233', { remedy: 'It is refused.' })
    const certificateEndsAt = new Date(test.framework.clock.now().getTime() + leftMs)
    Object.assign(test.framework, { temporal: { ...before, certificateEndsAt } })
    try {
      expect(await wrong()).toMatchObject(
        status === null
          ? []
          : [
              {
                ...{ check: 'temporal.reachable', status, message: expect.stringMatching(message) },
                remedy: 'openssl x509 -noout -enddate -in "$TEMPORAL_TLS_CLIENT_CERT_PATH"',
              },
            ],
      )
    } finally {
      Object.assign(test.framework, { temporal: before })
    }
  })

  it('for want of Temporal is not told as a fault of its own', async () => {
    const { id } = await makeIntegration(test, 'hooks')
    await makeWebhook(test, id, { updatedAt: ago(HOUR_MS) })
    temporal.unreachable = new BackendUnreachable('Temporal', 'temporal.example:7233', { remedy: 'Check it.' })
    expect(await wrong()).toMatchObject([
      { check: 'temporal.reachable', remedy: expect.stringContaining('cluster health') },
    ])
  })

  it.each([
    ['localhost:7233', true, 'temporal server start-dev --port 7233 --namespace default --db-filename temporal.db'],
    ['[::1]:7300', true, 'temporal server start-dev --port 7300 --namespace default --db-filename temporal.db'],
    // In production a server for development would take the place of the one that holds the workflows.
    ['localhost:7233', false, 'temporal operator cluster health --address localhost:7233'],
    ['temporal.example:7233', true, 'temporal operator cluster health --address temporal.example:7233'],
  ])('of Temporal at %s (development: %s) has the remedy for that place', async (address, isDevelopment, remedy) => {
    const { config } = loadConfig({ config: {}, optionProviderKeys: [], middlewareNames: [] })
    const where = { address, namespace: 'default' }
    temporal.unreachable = temporalUnreachable(where, new Error('connection refused'))
    const before = test.framework.temporal
    Object.assign(test.framework, {
      temporal: { ...before, commands: temporalCommands(config, where, isDevelopment) },
    })
    try {
      expect(await wrong()).toMatchObject([
        {
          ...{ check: 'temporal.reachable', remedy },
          message: expect.stringMatching(
            new RegExp(`at ${address.replace(/[[\]]/g, '.')}\\. .*that TEMPORAL_ADDRESS is right.*TLS.*firewall`),
          ),
        },
      ])
    } finally {
      Object.assign(test.framework, { temporal: before })
    }
  })

  it('since the check itself fails is a fault, and the other checks go on', async () => {
    probes = { ...probes, pendingMigrations: () => Promise.reject(new Error('permission denied for table')) }
    const findings = await runDoctor(test.framework, probes)
    expect(findings.find(({ check }) => check === 'database.migrations')).toMatchObject({
      status: 'fault',
      message: expect.stringContaining('permission denied for table'),
      remedy: null,
    })
    expect(findings.find(({ check }) => check === 'access.tokens')).toMatchObject({ status: 'ok' })
  })
})
