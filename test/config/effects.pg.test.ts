/** What each configuration key changes, shown with two values of it. The table of all keys: effects.test.ts. */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { eq } from 'drizzle-orm'
import { bigint, pgTable, text } from 'drizzle-orm/pg-core'
import type { MiddlewareHandler } from 'hono'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import type { ItemBatchResult } from '../../src/activities/item-activities.ts'
import { createApi } from '../../src/api/app.ts'
import type { CacheStore } from '../../src/cache/store.ts'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { Config, ConfigInput } from '../../src/config/schema.ts'
import type { IntegrationsOptions } from '../../src/create-integrations.ts'
import type { IntegrationRow, LogRow, SyncItemRow, WebhookRow } from '../../src/db/schema/tables.ts'
import { hear } from '../../src/echoes/written-record-queries.ts'
import { evaluateFailureRates } from '../../src/incidents/anomalies.ts'
import { mappedTable } from '../../src/mappings/mapped-table.ts'
import type { RecognisesEchoes } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'
import { pruneRows } from '../../src/retention/pruning.ts'
import type { DeletingStep } from '../../src/retention/queries.ts'
import type { PruningStep } from '../../src/retention/rules.ts'
import { deliverDueEvents } from '../../src/testing/jobs-in-process.ts'
import { signedWebhook, standardWebhooksSigner } from '../../src/testing/signed-webhook.ts'
import { recoverWebhooks } from '../../src/webhooks/recovery.ts'
import { rotateWebhookSecret } from '../../src/webhooks/secrets.ts'
import type { Visit } from '../api/oauth-visit.ts'
import { Browser, oauthScript } from '../api/oauth-visit.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { startHttpServer } from '../support/http-server.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { sign, syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'
import {
  itemOf,
  logsOf,
  makeIntegration,
  makeItem,
  makeRun,
  makeWebhook,
  setIntegration,
  webhookOf,
} from '../support/rows.ts'
import { subscribingProvider } from '../support/subscribing-provider.ts'
import { workOff } from '../support/work-off.ts'
import { effect } from './effects-table.ts'

const INTERVAL_MINUTES = 10
const notes = pgTable('notes', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  text: text('text').notNull(),
})
const note = mappedTable(notes, { type: 'note' })
/** One ring for all, so that two deployments can work on one integration. */
const encryptionKeys = encryptionKey('effects')

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
  await withConfig(
    {},
    ({ sql }) => sql`create table notes (id bigint primary key generated always as identity, text text not null)`,
  )
})

afterAll(() => database.drop())

describe('names', () => {
  effect('table_prefix', 'names the tables', async () => {
    for (const prefix of ['acme', 'globex'])
      await withConfig({ table_prefix: prefix }, async (test) => {
        await test.integrations.migrate()
        await makeIntegration(test, 'acme')
        expect(await test.sql`select name from ${test.sql(`${prefix}s`)}`).toHaveLength(1)
      })
  })

  effect('cache_prefix', 'keeps the locks of two deployments apart', async () => {
    const upsertBeside = (prefix: string) =>
      withConfig({ cache_prefix: 'ours', mappings: { lock_wait: 0 } }, (first) =>
        withConfig({ cache_prefix: prefix, mappings: { lock_wait: 0 } }, async (second) => {
          const integration = await makeIntegration(first, 'acme')
          const { release } = await holdMapping(integration)
          const beside = await second.integrations.get(integration.id)
          return beside.upsertByExternalId('x', note, { text: 'beside' }).finally(release)
        }),
      )
    await expect(upsertBeside('ours')).rejects.toMatchObject({ code: 'lock_timeout' })
    await expect(upsertBeside('theirs')).resolves.toMatchObject({ text: 'beside' })
  })
})

describe('webhooks', () => {
  effect('webhook.prefix', 'moves the routes', async () => {
    await withConfig({ webhook: { prefix: 'hooks/v1' } }, async (test) => {
      expect((await deliver(test, { at: 'hooks/v1' })).status).toBe(200)
      expect((await deliver(test, { at: 'integrations' })).status).toBe(404)
    })
    await withConfig({}, async (test) => expect((await deliver(test, { at: 'integrations' })).status).toBe(200))
  })

  effect('webhook.generic_route', 'leaves the routes with an id alone', async () => {
    const statusesAt = (generic_route: boolean) =>
      withConfig({ webhook: { generic_route } }, async (test) => {
        const api = createApi(test.integrations)
        const { id } = await makeIntegration(test, 'acme')
        const paths = ['/integrations/acme/webhook', `/integrations/acme/${id}/webhook`]
        const answers = await Promise.all(paths.map(async (path) => api.request(path, { method: 'POST' })))
        return answers.map(({ status }) => status)
      })
    expect(await statusesAt(true)).toEqual([403, 403])
    expect(await statusesAt(false)).toEqual([404, 403])
  })

  effect('webhook.max_payload_bytes', 'refuses larger bodies', async () => {
    const body = '{"n":12345}'
    const statusAt = (max_payload_bytes: number) =>
      withConfig({ webhook: { max_payload_bytes } }, async (test) => (await deliver(test, { body })).status)
    expect(await statusAt(body.length - 1)).toBe(413)
    expect(await statusAt(body.length)).toBe(200)
  })

  effect('webhook.middleware', 'is asked before a delivery is taken', async () => {
    const closed: MiddlewareHandler = async (context) => context.text('Not from there.', 403)
    const statusAt = (middleware: string[]) =>
      withConfig({ webhook: { middleware } }, async (test) => (await deliver(test)).status, { middleware: { closed } })
    expect(await statusAt(['closed'])).toBe(403)
    expect(await statusAt([])).toBe(200)
  })

  effect('webhook.concurrency', 'bounds the handlers that run at once', async () => {
    const mostAt = async (concurrency: number) => {
      const crowd = crowdOf(concurrency)
      await handled({ webhook: { concurrency, handler_timeout: 45 } }, crowd.join, 8)
      return crowd.most()
    }
    expect([await mostAt(1), await mostAt(4)]).toEqual([1, 4])
  })

  effect('webhook.handler_timeout', 'ends the attempt of a handler that takes longer', async () => {
    const late = occasion()
    const handle = () => late.happened
    const patient = handled({ webhook: { handler_timeout: 45 } }, handle)
    const [timedOut] = await handled({ webhook: { handler_timeout: 1 } }, handle)
    late.happen()
    expect(timedOut).toMatchObject({ status: 'failed', error: expect.stringContaining('did not end within 1 s') })
    expect(await patient).toMatchObject([{ status: 'processed' }])
  })

  effect('webhook.replay_window', 'lets an equal body under another id in', async () => {
    const answersAt = (replay_window: number) =>
      withConfig(
        { webhook: { replay_window } },
        async (test) => {
          const { id } = await makeIntegration(test, 'acme')
          const first = await deliver(test, { id, headers: { 'x-id': 'first' } })
          const renamed = await deliver(test, { id, headers: { 'x-id': 'renamed' } })
          return [await first.json(), await renamed.json()]
        },
        { providers: { acme: webhookProvider({ ...namedByHeader, deliveryIdSigned: false }) } },
      )
    expect(await answersAt(300)).toEqual([{ status: 'queued' }, { status: 'duplicate' }])
    expect(await answersAt(0)).toEqual([{ status: 'queued' }, { status: 'queued' }])
  })

  effect('webhook.timestamp_tolerance', 'refuses an older signature', async () => {
    const secret = `whsec_${randomBytes(32).toString('base64')}`
    const signed = { signature: { scheme: 'standard-webhooks' }, webhookSecrets: () => [secret] } as const
    const statusAt = (timestamp_tolerance: number) =>
      withConfig(
        { webhook: { timestamp_tolerance } },
        async (test) => {
          const at = new Date(Date.now() - 60_000)
          const { headers } = signedWebhook(standardWebhooksSigner, '{}', { secret, at })
          return (await deliver(test, { headers: Object.fromEntries(headers) })).status
        },
        { providers: { acme: webhookProvider(signed) } },
      )
    expect(await statusAt(30)).toBe(403)
    expect(await statusAt(120)).toBe(200)
  })

  effect('webhook.subscribe', 'registers the webhook of each integration', async () => {
    const asked = (subscribe: boolean) =>
      withConfig(
        { webhook: { subscribe } },
        async (test) => {
          const { id } = await makeIntegration(test, 'acme')
          return test.starts.subscriptions.includes(id)
        },
        { providers: { acme: subscribingProvider() } },
      )
    expect(await asked(false)).toBe(false)
    expect(await asked(true)).toBe(true)
  })

  effect('webhook.subscription_check', 'looks at it more often', async () => {
    const subscription = { id: 's', url: 'https://h.example', expiresAt: null }
    const provider = subscribingProvider({
      createWebhookSubscription: async () => subscription,
      webhookSubscriptions: async () => null,
    })
    const now = new Date('2026-01-01T00:00:00Z')
    const nextCheckAt = (subscription_check: number) =>
      withConfig(
        { webhook: { subscription_check } },
        async (test) => {
          const { id } = await makeIntegration(test, 'acme')
          return (await test.integrations.webhooks.register(id)).nextCheckAt
        },
        { providers: { acme: provider }, baseUrl: 'https://h.example', clock: { now: () => now } },
      )
    expect(await nextCheckAt(60)).toEqual(new Date('2026-01-01T00:01:00Z'))
    expect(await nextCheckAt(3_600)).toEqual(new Date('2026-01-01T01:00:00Z'))
  })

  effect('webhook.secret_overlap', 'lets the old secret pass for longer', async () => {
    const now = new Date('2026-01-01T00:00:00Z')
    const oldValidUntil = (secret_overlap: number) =>
      withConfig(
        { webhook: { secret_overlap } },
        async (test) => {
          const { id } = await makeIntegration(test, 'acme')
          return (await rotateWebhookSecret(test.framework, id)).oldValidUntil
        },
        { clock: { now: () => now } },
      )
    expect(await oldValidUntil(60)).toEqual(new Date('2026-01-01T00:01:00Z'))
    expect(await oldValidUntil(3_600)).toEqual(new Date('2026-01-01T01:00:00Z'))
  })
})

describe('OAuth', () => {
  /** How far somebody gets who asks to authorize, with the operator's token. */
  const authorizing = (
    oauth: ConfigInput['oauth'],
    play: (visit: {
      readonly browser: Browser
      readonly id: number
      readonly authorize: (path: string) => Promise<Visit>
      readonly back: (state: string) => Promise<Visit>
    }) => Promise<unknown>,
    options: Options = {},
  ) =>
    withConfig(
      { oauth, operator: { tokens: TOKENS } },
      async (test) => {
        const { id } = await makeIntegration(test, 'oauth')
        const browser = new Browser(test)
        const authorize = (path: string) =>
          browser.open(path, { headers: { authorization: `Bearer ${OPERATE_TOKEN}` } })
        const back = (state: string) => browser.open(`/integrations/oauth/callback?code=a-code&state=${state}`)
        return play({ browser, id, authorize, back })
      },
      { baseUrl: BASE_URL, providers: { oauth: oauthScript().provider }, ...options },
    )
  const stateOf = ({ location }: Visit): string => location?.searchParams.get('state') ?? ''

  effect('oauth.route_prefix', 'moves the routes, and where the provider leads back', async () => {
    await authorizing({ route_prefix: 'connect/v1' }, async ({ id, authorize }) => {
      const { status, location } = await authorize(`/connect/v1/${id}/oauth/authorize`)
      expect([status, location?.searchParams.get('redirect_uri')]).toEqual([
        302,
        `${BASE_URL}/connect/v1/oauth/callback`,
      ])
      expect((await authorize(`/integrations/${id}/oauth/authorize`)).status).toBe(404)
    })
    await authorizing({}, async ({ id, authorize }) =>
      expect((await authorize(`/integrations/${id}/oauth/authorize`)).status).toBe(302),
    )
  })

  effect('oauth.middleware', 'is asked before an authorization begins', async () => {
    const statusAt = (middleware: string[]) =>
      authorizing(
        { middleware },
        async ({ browser, id }) => (await browser.open(`/integrations/${id}/oauth/authorize`)).status,
      )
    expect([await statusAt(['web']), await statusAt(['signed']), await statusAt([])]).toEqual([401, 403, 302])
  })

  effect('oauth.callback_middleware', 'asks for the cookie of the browser, or lets a stranger in', async () => {
    const statusAt = (callback_middleware: string[]) =>
      authorizing({ callback_middleware }, async ({ browser, id, authorize, back }) => {
        const state = stateOf(await authorize(`/integrations/${id}/oauth/authorize`))
        browser.cookies.clear()
        return (await back(state)).status
      })
    expect([await statusAt(['web']), await statusAt([])]).toEqual([400, 302])
  })

  effect('oauth.success_redirect', 'is where the browser ends', async () => {
    const endAt = (success_redirect: string) =>
      authorizing({ success_redirect }, async ({ id, authorize, back }) => {
        const state = stateOf(await authorize(`/integrations/${id}/oauth/authorize`))
        return (await back(state)).headers.get('location')
      })
    expect(await endAt('/done')).toBe('/done')
    expect(await endAt('https://app.example/done')).toBe('https://app.example/done')
  })

  effect('oauth.state_ttl', 'ends an authorization that takes longer', async () => {
    const statusAt = (state_ttl: number) => {
      let nowMs = Date.now()
      return authorizing(
        { state_ttl },
        async ({ id, authorize, back }) => {
          const state = stateOf(await authorize(`/integrations/${id}/oauth/authorize`))
          nowMs += 60_000
          return (await back(state)).status
        },
        { clock: { now: () => new Date(nowMs) } },
      )
    }
    expect([await statusAt(60), await statusAt(61)]).toEqual([400, 302])
  })

  /** Tokens that are over, so that whoever wants one asks for a refresh. */
  const expired = { access_token: 'access-of-the-tests', token_expires_at: '2000-01-01T00:00:00Z' }

  effect('oauth.refresh_lock_ttl', 'ends the wait for a refresh that hangs', async () => {
    const goOn = occasion()
    const refreshToken = async () => {
      await goOn.happened
      return { access_token: 'refreshed-of-the-tests' }
    }
    const tokenAt = (refresh_lock_ttl: number) =>
      withConfig(
        { oauth: { refresh_lock_ttl } },
        async (test) => (await makeIntegration(test, 'oauth', { credentials: expired })).getAccessToken(),
        { providers: { oauth: oauthScript(undefined, { refreshToken }).provider } },
      )
    const patient = tokenAt(30)
    await expect(tokenAt(1)).rejects.toMatchObject({ code: 'request_timeout' })
    goOn.happen()
    expect(await patient).toBe('refreshed-of-the-tests')
  })

  effect('oauth.refresh_lock_wait', 'is how long a refresh elsewhere is waited for', async () => {
    /** Two processes, and the first one's refresh under way. */
    const tokenAt = async (refresh_lock_wait: number) => {
      const [asked, goOn] = [occasion(), occasion()]
      const refreshToken = async () => {
        asked.happen()
        await goOn.happened
        return { access_token: 'refreshed-of-the-tests' }
      }
      const options = { providers: { oauth: oauthScript(undefined, { refreshToken }).provider } }
      return withConfig(
        {},
        (first) =>
          withConfig(
            { oauth: { refresh_lock_wait } },
            async (second) => {
              const integration = await makeIntegration(first, 'oauth', { credentials: expired })
              const refreshing = integration.getAccessToken()
              await asked.happened
              const refused = refusalOf(second.framework.cache)
              const waiting = (await second.integrations.get(integration.id)).getAccessToken()
              const outcome = waiting.then(String, ({ code }: { code: string }) => code)
              await refused
              // Whoever does not wait is told so before the first one ends.
              if (refresh_lock_wait === 0) await outcome
              goOn.happen()
              await refreshing
              return outcome
            },
            options,
          ),
        options,
      )
    }
    expect([await tokenAt(0), await tokenAt(30)]).toEqual(['lock_timeout', 'refreshed-of-the-tests'])
  })
})

describe('recovery of webhooks', () => {
  const secondsAgo = (seconds: number) => new Date(Date.now() - seconds * 1_000)

  effect('webhook.processing_timeout', 'takes up later what a worker has left', async () => {
    const row = { status: 'processing', attempts: 1, claim: 'gone', updatedAt: secondsAgo(120) } as const
    expect(await recovered({ processing_timeout: 60, handler_timeout: 30 }, row)).toMatchObject({ jobs: 1 })
    expect(await recovered({ processing_timeout: 240 }, row)).toMatchObject({ jobs: 0 })
  })

  effect('webhook.pending_timeout', 'takes up later what nothing has claimed', async () => {
    const row = { status: 'pending', updatedAt: secondsAgo(120) } as const
    expect(await recovered({ pending_timeout: 60 }, row)).toMatchObject({ jobs: 1 })
    expect(await recovered({ pending_timeout: 240 }, row)).toMatchObject({ jobs: 0 })
  })

  effect('webhook.max_attempts', 'tries a failed one again', async () => {
    const row = { status: 'failed', attempts: 1, error: 'Error: no', processedAt: secondsAgo(86_400) } as const
    expect(await recovered({ max_attempts: 1 }, row)).toEqual({ jobs: 0, status: 'failed' })
    expect(await recovered({ max_attempts: 2 }, row)).toEqual({ jobs: 1, status: 'pending' })
  })

  effect('webhook.retry_backoff', 'waits so long before it does', async () => {
    const row = { status: 'failed', attempts: 1, error: 'Error: no', processedAt: secondsAgo(120) } as const
    const max_attempts = 2
    expect(await recovered({ max_attempts, retry_backoff: [60] }, row)).toMatchObject({ jobs: 1 })
    expect(await recovered({ max_attempts, retry_backoff: [240] }, row)).toMatchObject({ jobs: 0 })
  })
})

describe('syncs', () => {
  effect('sync.item_tries', 'ends an item after so many failed attempts', async () => {
    expect((await attempted({ sync: { item_tries: 1 } }, fails)).row.status).toBe('failed')
    expect((await attempted({ sync: { item_tries: 2 } }, fails)).row.status).toBe('processing')
  })

  effect('sync.item_backoff', 'is the wait before the next attempt', async () => {
    for (const seconds of [7, 70]) {
      const { row, result } = await attempted({ sync: { item_backoff: [seconds] } }, fails)
      expect(result.waiting).toEqual([{ id: row.id, seconds }])
    }
  })

  effect('sync.item_retry_window', 'ends an item that would wait past it', async () => {
    const createdAt = new Date(Date.now() - 100_000)
    const statusAt = async (item_retry_window: number) =>
      (await attempted({ sync: { item_retry_window, item_backoff: [10] } }, fails, { createdAt })).row.status
    expect([await statusAt(105), await statusAt(1_000)]).toEqual(['failed', 'processing'])
  })

  effect('sync.item_timeout', 'fails the attempt of listeners that take longer', async () => {
    const late = occasion()
    const listener = () => late.happened
    const patient = attempted({ sync: { item_timeout: 60 } }, listener)
    const impatient = await attempted({ sync: { item_timeout: 1 } }, listener)
    late.happen()
    expect(impatient.row.status).toBe('processing')
    expect(impatient.log?.error).toContain('ItemTimedOut')
    expect((await patient).row.status).toBe('success')
  })

  effect('sync.item_concurrency', 'bounds the items that run at once', async () => {
    const mostAt = async (item_concurrency: number) => {
      const crowd = crowdOf(item_concurrency)
      await attempted({ sync: { item_concurrency, item_timeout: 60 } }, crowd.join, {}, 8)
      return crowd.most()
    }
    expect([await mostAt(1), await mostAt(4)]).toEqual([1, 4])
  })

  effect('sync.max_items_per_batch', 'is the number of items beyond which a run warns, and goes on', async () => {
    const lists = syncProvider(async (session) => {
      for (const n of [1, 2, 3]) await session.dispatch(new ThingSynced(session.integration, { n }))
    })
    const listedAt = (max_items_per_batch: number) =>
      withConfig(
        { sync: { max_items_per_batch } },
        async (test) => {
          const run = await makeRun(test, (await makeIntegration(test, 'lists')).id, { enumerated: false })
          const input = { integrationId: run.integrationId, syncLogId: run.id, attempt: 1 }
          const listing = await runActivity(test.activities.listSyncItems, input)
          const warned = test.lines.some(({ message }) => message.includes('sync.max_items_per_batch'))
          return { ...listing, warned }
        },
        { providers: { lists } },
      )
    expect(await listedAt(2)).toEqual({ kind: 'listed', listed: 3, duplicatesDropped: 0, warned: true })
    expect(await listedAt(3)).toEqual({ kind: 'listed', listed: 3, duplicatesDropped: 0, warned: false })
  })

  effect('sync.failure_backoff_max_multiplier', 'bounds the wait after many failed runs', async () => {
    const minutesAt = (failure_backoff_max_multiplier: number) =>
      withConfig({ sync: { failure_backoff_max_multiplier } }, async (test) => {
        const { id } = await makeIntegration(test, 'things')
        await setIntegration(test, id, { consecutiveSyncFailures: 9 })
        const run = await makeRun(test, id)
        await makeItem(test, run, { status: 'failed' })
        await test.activities.finaliseSyncRun({ integrationId: id, syncLogId: run.id })
        const [row] = await test.sql`
          select extract(epoch from next_sync_at - now())::float8 / 60 as minutes from integrations where id = ${id}`
        return row?.minutes
      })
    expect(await minutesAt(2)).toBeCloseTo(2 * INTERVAL_MINUTES, 0)
    expect(await minutesAt(5)).toBeCloseTo(5 * INTERVAL_MINUTES, 0)
    expect(await minutesAt(2_147_483_647)).toBeCloseTo(2 ** 9 * INTERVAL_MINUTES, 0)
  })

  effect('sync.item_reclaim_after', 'fails what has been in flight for longer', async () => {
    const statusAt = (item_reclaim_after: number) =>
      withConfig({ sync: { item_reclaim_after, item_retry_window: 60 } }, async (test) => {
        const { id } = await makeIntegration(test, 'things')
        const held = { status: 'processing', createdAt: new Date(Date.now() - 10_000_000) } as const
        const item = await makeItem(test, await makeRun(test, id), held)
        await test.activities.openSyncRun({ integrationId: id, runId: 'the-next-one' })
        return (await itemOf(test, item.id)).status
      })
    expect([await statusAt(9_000), await statusAt(11_000)]).toEqual(['failed', 'processing'])
  })

  effect('sync.stuck_item_after_runs', 'is how many failed runs in a row make an item a stuck one', async () => {
    const stuckAt = (stuck_item_after_runs: number) =>
      withConfig({ sync: { stuck_item_after_runs } }, async (test) => {
        const runs: number[] = []
        test.integrations.on('SyncItemStuck', ({ consecutiveFailedRuns }) => void runs.push(consecutiveFailedRuns))
        const { id } = await makeIntegration(test, 'things')
        for (let failures = 0; failures < 3; failures += 1) {
          const run = { integrationId: id, syncLogId: (await makeRun(test, id)).id }
          await makeItem(test, { integrationId: id, id: run.syncLogId }, { status: 'failed', externalId: 'a' })
          await test.activities.finaliseSyncRun(run)
          await test.activities.announceSyncRun(run)
        }
        return runs
      })
    expect(await stuckAt(2)).toEqual([2, 3])
    expect(await stuckAt(3)).toEqual([3])
  })

  effect('sync.stale_after_intervals', 'is how many intervals without a clean run make a sync stale', async () => {
    const staleAt = (stale_after_intervals: number) =>
      dispatched({ sync: { stale_after_intervals } }, { lastSyncedAt: minutesAgo(45) })
    expect(await staleAt(4)).toMatchObject({ stale: 1 })
    expect(await staleAt(5)).toMatchObject({ stale: 0 })
  })

  effect('health.degraded_backoff', 'is how many intervals a degraded integration waits', async () => {
    const startsAt = async (degraded_backoff: number) => {
      const values = { healthStatus: 'degraded', lastSyncedAt: minutesAgo(45) } as const
      return (await dispatched({ health: { degraded_backoff } }, values)).started
    }
    expect([await startsAt(4), await startsAt(5)]).toEqual([1, 0])
  })

  effect('health.failing_backoff', 'is how many intervals a failing integration waits', async () => {
    const startsAt = async (failing_backoff: number) => {
      const values = { healthStatus: 'failing', lastSyncedAt: minutesAgo(45) } as const
      return (await dispatched({ health: { failing_backoff } }, values)).started
    }
    expect([await startsAt(4), await startsAt(5)]).toEqual([1, 0])
    expect(await startsAt(2_147_483_647)).toBe(0)
  })
})

describe('mappings', () => {
  effect('mappings.lock_wait', 'is how long a second writer waits for the first', async () => {
    await withConfig({ mappings: { lock_wait: 0 } }, async (test) => {
      const integration = await makeIntegration(test, 'acme')
      const { release } = await holdMapping(integration)
      const second = integration.upsertByExternalId('x', note, { text: 'second' })
      await expect(second.finally(release)).rejects.toMatchObject({ code: 'lock_timeout' })
    })
    await withConfig({ mappings: { lock_wait: 30 } }, async (test) => {
      const integration = await makeIntegration(test, 'acme')
      const { release } = await holdMapping(integration)
      const refused = refusalOf(test.framework.cache)
      const second = integration.upsertByExternalId('x', note, { text: 'second' })
      await refused
      await release()
      expect(await second).toMatchObject({ text: 'second' })
    })
  })

  effect('mappings.lock_ttl', 'is how long a writer that hangs holds up the next one', async () => {
    const beside = async (test: TestIntegrations) => {
      const integration = await makeIntegration(test, 'acme')
      const { release } = await holdMapping(integration)
      return { second: integration.upsertByExternalId('x', note, { text: 'second' }), release }
    }
    await withConfig({ mappings: { lock_ttl: 1, lock_wait: 30 } }, (short) =>
      withConfig({ mappings: { lock_ttl: 30, lock_wait: 30 } }, async (long) => {
        const waits = await beside(long)
        const passes = await beside(short)
        expect(
          await Promise.race([waits.second.then(() => 'held for 30 s'), passes.second.then(() => 'held for 1 s')]),
        ).toBe('held for 1 s')
        await Promise.all([passes.release(), waits.release(), waits.second])
      }),
    )
  })
})

describe('operators', () => {
  effect('operator.tokens', 'says who may call; without one there is only health', async () => {
    const token = {
      name: 'ops',
      sha256: createHash('sha256').update('of-ops').digest('hex'),
      scopes: ['read'] as const,
    }
    const statusesAt = (tokens: Config['operator']['tokens']) =>
      withConfig({ operator: { tokens } }, async ({ integrations }) => {
        const paths = ['/operator/api/v1/healthz', '/operator/api/v1/integrations']
        const asked = (bearer: string) =>
          paths.map(async (path) => {
            const headers = { authorization: `Bearer ${bearer}` }
            return (await createApi(integrations).request(path, { headers })).status
          })
        return { ops: await Promise.all(asked('of-ops')), nobody: await Promise.all(asked('of-nobody')) }
      })
    expect(await statusesAt([])).toEqual({ ops: [200, 404], nobody: [200, 404] })
    expect(await statusesAt([token])).toEqual({ ops: [200, 200], nobody: [200, 401] })
  })

  effect('operator.temporal_ui', 'is where the dashboard links to workflows', async () => {
    const linkAt = (temporal_ui: string | null) =>
      withConfig({ operator: { temporal_ui } }, async ({ integrations }) =>
        integrations.admin.links.workflow({ kind: 'webhook', id: 7 }),
      )
    expect(await linkAt('http://127.0.0.1:8233')).toBe(
      'http://127.0.0.1:8233/namespaces/default/workflows/integrations%3Awebhook%3A7',
    )
    expect(await linkAt(null)).toBeNull()
  })

  effect('operator.trace_url', 'is where the dashboard links to traces', async () => {
    const linkAt = (trace_url: string | null) =>
      withConfig({ operator: { trace_url } }, async ({ integrations }) =>
        integrations.admin.links.trace(`00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`),
      )
    expect(await linkAt('https://traces.example.com/{trace_id}')).toBe(`https://traces.example.com/${'a'.repeat(32)}`)
    expect(await linkAt(null)).toBeNull()
  })

  effect('operator.oidc', 'has people sign in at an OpenID provider', async () => {
    const pageAt = (oidc: Config['operator']['oidc']) =>
      withConfig({ operator: { oidc } }, async ({ integrations }) =>
        (await createApi(integrations).request('/operator/login')).text(),
      )
    expect(await pageAt({ issuer: 'https://id.example.com', client_id: 'us' })).toContain('Sign in with id.example.com')
    expect(await pageAt(null)).toContain('There is no such route')
  })
})

describe('outbound calls', () => {
  effect('retry.retry_after_max_seconds', 'caps what a Retry-After asks for', async () => {
    const callAt = (seconds: number, signal?: AbortSignal) =>
      withConfig({ retry: { retry_after_max_seconds: seconds } }, async (test) => {
        const integration = await makeIntegration(test, 'acme')
        const call = ({ attempt }: { attempt: number }) =>
          attempt > 1 ? `attempt ${attempt}` : new Response('', { status: 503, headers: { 'Retry-After': '3600' } })
        return integration.request('things', 'GET', call, signal === undefined ? {} : { signal })
      })
    const waiting = new AbortController()
    const long = callAt(3_600, waiting.signal)
    expect(await callAt(1)).toBe('attempt 2')
    waiting.abort()
    await expect(long).rejects.toMatchObject({ code: 'http_error', status: 503 })
  })

  effect('logging.max_response_bytes', 'cuts the stored body', async () => {
    const storedAt = (max_response_bytes: number | null) =>
      withConfig({ logging: { max_response_bytes } }, async (test) => {
        const integration = await makeIntegration(test, 'acme')
        await integration.request('things', 'GET', () => 'x'.repeat(3_000))
        const [row] = await test.sql`
          select length(response_data) as bytes from integration_requests where integration_id = ${integration.id}`
        return row?.bytes
      })
    expect([await storedAt(null), await storedAt(2_000), await storedAt(1_024)]).toEqual([3_000, 2_000, 1_024])
  })
})

describe('rate limits', () => {
  effect('rate_limiting.max_wait_seconds', 'is how long a call waits for capacity', async () => {
    const twoAt = (max_wait_seconds: number) =>
      withConfig({ rate_limiting: { max_wait_seconds } }, (test) => {
        const limited = makeIntegration(test, 'limited')
        return Promise.all([limited.then((it) => calling(it, 200)), limited.then((it) => calling(it, 200))])
      })
    expect((await twoAt(0)).sort()).toEqual(['made', 'rate_limit_exceeded'])
    expect(await twoAt(60)).toEqual(['made', 'made'])
  })

  effect('rate_limiting.overrides_enabled', 'says whether an override counts', async () => {
    const twoAt = (overrides_enabled: boolean) =>
      withConfig({ rate_limiting: { overrides_enabled, max_wait_seconds: 0 } }, async (test) => {
        const integration = await makeIntegration(test, 'acme')
        await integration.overrideRateLimit(RateLimit.perDay(1).sliding())
        return [await calling(integration, 200), await calling(integration, 200)]
      })
    expect(await twoAt(true)).toEqual(['made', 'rate_limit_exceeded'])
    expect(await twoAt(false)).toEqual(['made', 'made'])
  })
})

describe('circuit breakers', () => {
  effect('circuit_breaker.enabled', 'is the master switch', async () => {
    const thirdAt = (enabled: boolean) => lastCall({ enabled, minimum_requests: 2 }, [503, 503, 200])
    expect([await thirdAt(true), await thirdAt(false)]).toEqual(['circuit_open', 'made'])
  })

  effect('circuit_breaker.strategy', 'counts failures in a row, or their share', async () => {
    const statuses = [503, 200, 503, 200]
    const lastAt = (strategy: 'rate' | 'count') => lastCall({ strategy, minimum_requests: 3, threshold: 2 }, statuses)
    expect([await lastAt('rate'), await lastAt('count')]).toEqual(['circuit_open', 'made'])
  })

  effect('circuit_breaker.time_window', 'is how long an outcome counts', async () => {
    const lastAt = (time_window: number) =>
      lastCall({ time_window, minimum_requests: 2 }, [503, 503, 200], { secondsBetween: 20 })
    expect([await lastAt(60), await lastAt(10)]).toEqual(['circuit_open', 'made'])
  })

  effect('circuit_breaker.failure_rate_threshold', 'is the share that opens it', async () => {
    const lastAt = (failure_rate_threshold: number) =>
      lastCall({ failure_rate_threshold, minimum_requests: 4 }, [200, 200, 503, 503, 200])
    expect([await lastAt(50), await lastAt(51)]).toEqual(['circuit_open', 'made'])
  })

  effect('circuit_breaker.minimum_requests', 'is how many outcomes there must be', async () => {
    const lastAt = (minimum_requests: number) => lastCall({ minimum_requests }, [503, 503, 200])
    expect([await lastAt(2), await lastAt(3)]).toEqual(['circuit_open', 'made'])
  })

  effect('circuit_breaker.threshold', 'is how many failures in a row open it', async () => {
    const lastAt = (threshold: number) => lastCall({ strategy: 'count', threshold }, [503, 503, 200])
    expect([await lastAt(2), await lastAt(3)]).toEqual(['circuit_open', 'made'])
  })

  effect('circuit_breaker.cooldown_seconds', 'is how long it stays open', async () => {
    const lastAt = (cooldown_seconds: number) =>
      lastCall({ cooldown_seconds, minimum_requests: 2 }, [503, 503, 200], { secondsBetween: 20 })
    expect([await lastAt(21), await lastAt(20)]).toEqual(['circuit_open', 'made'])
  })

  effect('circuit_breaker.overrides_enabled', 'says whether an override counts', async () => {
    const callAt = (overrides_enabled: boolean) =>
      withConfig({ circuit_breaker: { overrides_enabled } }, async (test) => {
        const integration = await makeIntegration(test, 'acme')
        await integration.overrideCircuit('forced_open')
        return calling(integration, 200)
      })
    expect([await callAt(true), await callAt(false)]).toEqual(['circuit_open', 'made'])
  })

  /** What becomes of the last of these calls. */
  function lastCall(
    circuit_breaker: ConfigInput['circuit_breaker'],
    statuses: readonly number[],
    { secondsBetween = 1 } = {},
  ): Promise<string | undefined> {
    let now = Date.parse('2031-06-01T12:00:00Z')
    const clock = { now: () => new Date(now) }
    return withConfig(
      { circuit_breaker },
      async (test) => {
        const integration = await makeIntegration(test, 'acme')
        const became: string[] = []
        for (const status of statuses) {
          became.push(await calling(integration, status))
          now += secondsBetween * 1_000
        }
        return became.at(-1)
      },
      { clock },
    )
  }
})

describe('pruning', () => {
  const DAY_MS = 86_400_000
  const AGES = [20, 40]
  /** Each step of its own, since the rows of all tests of this file are in one database. */
  const keptBy = (
    key: keyof Config['pruning'],
    step: Exclude<DeletingStep, 'written_records' | 'rollups' | 'deliveries'>,
    table: 'requests' | 'logs' | 'idempotencyKeys' | 'syncItems' | 'audit' | 'incidents' | 'webhooks',
    row: (at: Date) => object,
  ) => {
    const agesAt = (days: number | null) =>
      withConfig({ pruning: { [key]: days } }, async (test) => {
        const { db, tables } = test.framework
        const { id: integrationId } = await makeIntegration(test, 'acme')
        const of = tables[table as 'logs']
        const ids: number[] = []
        for (const age of AGES) {
          const values = { integrationId, ...row(new Date(Date.now() - age * DAY_MS)) }
          const [made] = await db
            .insert(of)
            .values(values as never)
            .returning({ id: of.id })
          ids.push(made?.id ?? 0)
        }
        await pruneNow(test, step)
        const left = await db.select({ id: of.id }).from(of).where(eq(of.integrationId, integrationId)).orderBy(of.id)
        return left.map(({ id }) => AGES[ids.indexOf(id)])
      })
    return async () => {
      expect(await agesAt(30)).toEqual([20])
      expect(await agesAt(50)).toEqual([20, 40])
      if (key === 'webhooks_days' || key === 'audit_days') expect(await agesAt(null)).toEqual([20, 40])
    }
  }
  const pruneNow = (test: TestIntegrations, step: PruningStep, onProgress?: (rows: number) => void) =>
    pruneRows(
      test.framework,
      { step, runId: randomUUID() },
      { signal: new AbortController().signal, ...(onProgress === undefined ? {} : { onProgress }) },
    )

  effect(
    'pruning.requests_days',
    'is how long requests are kept',
    keptBy('requests_days', 'requests', 'requests', (createdAt) => ({ endpoint: '/', method: 'GET', createdAt })),
  )
  effect(
    'pruning.logs_days',
    'is how long logs are kept',
    keptBy('logs_days', 'logs', 'logs', (createdAt) => ({
      operation: 'import',
      direction: 'inbound',
      status: 'success',
      createdAt,
    })),
  )
  effect(
    'pruning.idempotency_keys_days',
    'is how long idempotency keys are kept',
    keptBy('idempotency_keys_days', 'idempotency_keys', 'idempotencyKeys', (createdAt) => ({
      key: createdAt.toISOString(),
      createdAt,
    })),
  )
  effect(
    'pruning.sync_items_days',
    'is how long completed items are kept',
    keptBy('sync_items_days', 'sync_items', 'syncItems', (completedAt) => ({
      eventClass: 'test.thing',
      status: 'success',
      completedAt,
    })),
  )
  effect(
    'pruning.incidents_days',
    'is how long closed incidents are kept',
    keptBy('incidents_days', 'incidents', 'incidents', (closedAt) => ({
      status: 'closed',
      source: 'health',
      reason: 'health_degraded',
      peakSeverity: 'degraded',
      openedAt: closedAt,
      closedAt,
    })),
  )
  effect(
    'pruning.webhooks_days',
    'is how long settled webhooks are kept; null: for ever',
    keptBy('webhooks_days', 'webhooks', 'webhooks', (processedAt) => ({
      deliveryId: processedAt.toISOString(),
      payload: '',
      headers: {},
      status: 'processed',
      createdAt: processedAt,
      processedAt,
    })),
  )
  effect(
    'pruning.webhook_payloads_days',
    'is how long payloads of settled webhooks are kept; null: as their rows',
    async () => {
      const payloadsAt = (days: number | null) =>
        withConfig({ pruning: { webhook_payloads_days: days } }, async (test) => {
          const { id } = await makeIntegration(test, 'acme')
          // Younger than what the other tests of this file delete meanwhile.
          for (const age of [5, 15]) {
            const at = new Date(Date.now() - age * DAY_MS)
            await makeWebhook(test, id, { status: 'processed', createdAt: at, processedAt: at })
          }
          await pruneNow(test, 'webhooks')
          const { db, tables } = test.framework
          const { webhooks } = tables
          const rows = await db
            .select({ payload: webhooks.payload })
            .from(webhooks)
            .where(eq(webhooks.integrationId, id))
            .orderBy(webhooks.id)
          return rows.map(({ payload }) => payload)
        })
      expect(await payloadsAt(10)).toEqual(['{}', ''])
      expect(await payloadsAt(null)).toEqual(['{}', '{}'])
    },
  )
  effect(
    'pruning.audit_days',
    'is how long the audit is kept; null: for ever',
    keptBy('audit_days', 'audit', 'audit', (createdAt) => ({
      by: 'ada',
      action: 'sync',
      target: 'integration:1',
      createdAt,
    })),
  )

  effect('pruning.rollups_days', 'is how long the daily sums behind the charts are kept', async () => {
    const daysLeftAt = (rollups_days: number) =>
      withConfig({ pruning: { rollups_days } }, async (test) => {
        const { db, tables } = test.framework
        const { id: integrationId } = await makeIntegration(test, 'acme')
        const row = { integrationId, calls: 1, failures: 0, counters: [0], counts: [1] }
        for (const days of [40, 100])
          for (const seconds of [21_600, 86_400])
            await db.insert(tables.rollups).values({ ...row, seconds, startsAt: new Date(Date.now() - days * DAY_MS) })
        await pruneNow(test, 'cache')
        const left = await db.select().from(tables.rollups).where(eq(tables.rollups.integrationId, integrationId))
        return left.map(
          ({ seconds, startsAt }) => `${seconds} s, ${Math.round((Date.now() - startsAt.getTime()) / DAY_MS)} days`,
        )
      })
    expect((await daysLeftAt(60)).sort()).toEqual(['21600 s, 100 days', '21600 s, 40 days', '86400 s, 40 days'])
    expect(await daysLeftAt(120)).toHaveLength(4)
  })

  effect('pruning.incidents_stale_after_days', 'closes incidents that have stayed open for longer', async () => {
    const statusAt = (incidents_stale_after_days: number) =>
      withConfig({ pruning: { incidents_stale_after_days } }, async (test) => {
        const { db, tables } = test.framework
        const { id: integrationId } = await makeIntegration(test, 'acme')
        await db.insert(tables.incidents).values({
          integrationId,
          source: 'health',
          reason: 'health_degraded',
          peakSeverity: 'degraded',
          openedAt: new Date(Date.now() - 5 * DAY_MS),
        })
        await pruneNow(test, 'incidents_closed')
        const [row] = await db
          .select({ status: tables.incidents.status })
          .from(tables.incidents)
          .where(eq(tables.incidents.integrationId, integrationId))
        return row?.status
      })
    expect([await statusAt(6), await statusAt(4)]).toEqual(['open', 'closed'])
  })

  effect('pruning.chunk_size', 'is how many rows go at once', async () => {
    const stepsAt = (chunk_size: number) =>
      withConfig({ pruning: { chunk_size } }, async (test) => {
        const { db, tables } = test.framework
        const { id: integrationId } = await makeIntegration(test, 'acme')
        const deliveredAt = new Date(Date.now() - 8 * DAY_MS)
        const rows = Array.from({ length: 5 }, () => ({
          integrationId,
          name: 'CircuitOpened',
          payload: {},
          deliveredAt,
        }))
        await db.insert(tables.events).values(rows)
        const steps: number[] = []
        await pruneNow(test, 'events', (done) => void steps.push(done))
        return steps
      })
    expect([await stepsAt(2), await stepsAt(10)]).toEqual([[2, 4, 5], [5]])
  })
})

describe('health', () => {
  effect('health.degraded_after', 'is the failures in a row that degrade it', async () => {
    const statusAt = (degraded_after: number) => healthAfter(2, { degraded_after })
    expect([await statusAt(2), await statusAt(3)]).toEqual(['degraded', 'healthy'])
  })

  effect('health.failing_after', 'is the failures in a row that make it failing', async () => {
    const statusAt = (failing_after: number) => healthAfter(2, { degraded_after: 1, failing_after })
    expect([await statusAt(2), await statusAt(3)]).toEqual(['failing', 'degraded'])
  })

  effect('health.disabled_after', 'is the failures in a row that switch it off; null: none do', async () => {
    const statusAt = (disabled_after: number | null) =>
      healthAfter(3, { degraded_after: 1, failing_after: 2, disabled_after })
    expect([await statusAt(3), await statusAt(4), await statusAt(null)]).toEqual(['disabled', 'failing', 'failing'])
  })

  effect('observability.incidents_enabled', 'says whether trouble is kept as an incident', async () => {
    const incidentsAt = (incidents_enabled: boolean) =>
      withConfig({ observability: { incidents_enabled }, health: { degraded_after: 1 } }, async (test) => {
        const integration = await makeIntegration(test, 'acme')
        await calling(integration, 503)
        return test.sql`select source, reason from integration_incidents where integration_id = ${integration.id}`
      })
    expect(await incidentsAt(true)).toEqual([{ source: 'health', reason: 'health_degraded' }])
    expect(await incidentsAt(false)).toEqual([])
  })

  const loopsAt = (echo_loop_writes: number, echo_loop_window: number, pauseMs = 0) => {
    const mirrored: RecognisesEchoes = { toldRecord: () => ({ key: 'a', content: null }) }
    return withConfig(
      { observability: { echo_loop_writes, echo_loop_window } },
      async (test) => {
        const { id, request } = await makeIntegration(test, 'mirrored')
        for (let nth = 0; nth < 4; nth += 1) {
          await request('things', 'PUT', () => ({}), { writes: { record: 'a' } })
          await hear(test.framework.db, test.framework.tables, id, { key: 'a', hash: `${nth}` }, true)
          if (nth === 2) await sleep(pauseMs)
        }
        return (await test.sql`select reason from integration_incidents where integration_id = ${id}`).length
      },
      { providers: { mirrored } },
    )
  }

  effect('observability.echo_loop_writes', 'is how many answering writes are a loop', async () => {
    expect([await loopsAt(3, 60), await loopsAt(4, 60)]).toEqual([1, 0])
  })

  effect('observability.echo_loop_window', 'is within how long they come', async () => {
    expect([await loopsAt(3, 60, 1_100), await loopsAt(3, 1, 1_100)]).toEqual([1, 0])
  })

  effect('notifications.targets', 'says who is told of trouble, and of which', async () => {
    const receiver = await startHttpServer()
    const target = {
      url: `${receiver.url}/ops`,
      secret: `whsec_${randomBytes(32).toString('base64')}`,
      allow_private: true,
    }
    const toldBy = (targets: (typeof target & { types?: ['incident.closed'] })[]) =>
      withOwnRows({ notifications: { targets }, health: { degraded_after: 1 } }, async (test) => {
        await calling(await makeIntegration(test, 'acme'), 503)
        await deliverDueEvents(test.framework)
        return receiver.received.splice(0).map(({ url, body }) => [url, JSON.parse(body).type])
      })
    expect(await toldBy([])).toEqual([])
    expect(await toldBy([target])).toEqual([['/ops', 'incident.opened']])
    expect(await toldBy([{ ...target, types: ['incident.closed'] }])).toEqual([])
    await receiver.close()
  })

  effect('observability.anomaly_enabled', 'says whether failure rates are watched', async () => {
    expect(await elevatedAt({ anomaly_enabled: true })).toEqual([true, 1])
    expect(await elevatedAt({ anomaly_enabled: false })).toEqual([false, 0])
  })

  effect('observability.anomaly_window_minutes', 'is how far back requests count', async () => {
    // The failures are of ten minutes ago.
    expect(await elevatedAt({ anomaly_window_minutes: 11 })).toEqual([true, 1])
    expect(await elevatedAt({ anomaly_window_minutes: 9 })).toEqual([true, 0])
  })

  effect(
    'observability.anomaly_failure_rate_threshold',
    'is the share of failures that counts as elevated',
    async () => {
      expect(await elevatedAt({ anomaly_failure_rate_threshold: 50 })).toEqual([true, 1])
      expect(await elevatedAt({ anomaly_failure_rate_threshold: 51 })).toEqual([true, 0])
    },
  )

  effect('observability.anomaly_minimum_requests', 'is how few requests say nothing', async () => {
    expect(await elevatedAt({ anomaly_minimum_requests: 40 })).toEqual([true, 1])
    expect(await elevatedAt({ anomaly_minimum_requests: 41 })).toEqual([true, 0])
  })

  /** Twenty of forty requests have failed, ten minutes ago. Whether rates were watched, and how many were found elevated. */
  function elevatedAt(observability: ConfigInput['observability']): Promise<[boolean, number]> {
    return withOwnRows({ observability }, async (test) => {
      const { id } = await makeIntegration(test, 'acme')
      const values = { integrationId: id, endpoint: 'things', method: 'GET', createdAt: minutesAgo(10) }
      const rows = Array.from({ length: 40 }, (_, n) => ({
        ...values,
        ...(n < 20 ? { failureClass: 'upstream' as const, error: 'Error: away' } : {}),
      }))
      await test.framework.db.insert(test.framework.tables.requests).values(rows)
      const { enabled, elevated } = await evaluateFailureRates(test.framework)
      return [enabled, elevated.length]
    })
  }

  function healthAfter(failures: number, health: ConfigInput['health']): Promise<string | undefined> {
    return withConfig({ health }, async (test) => {
      const integration = await makeIntegration(test, 'acme')
      for (let calls = 0; calls < failures; calls += 1) await calling(integration, 503)
      return (await integration.refresh()).healthStatus
    })
  }
})

/** One attempt; what became of it: `made`, or the error's code. */
function calling(integration: Integration, status: number): Promise<string> {
  const answer = () => new Response('', { status })
  return integration.request('things', 'GET', answer, { attempts: 1 }).then(
    () => 'made',
    (error: { code: string }) => error.code,
  )
}

type Options = Pick<IntegrationsOptions, 'providers' | 'middleware' | 'clock' | 'baseUrl'>

/** A deployment of this configuration on a database of its own: for what is about all rows. */
async function withOwnRows<Result>(
  config: ConfigInput,
  play: (test: TestIntegrations) => PromiseLike<Result>,
  options: Options = {},
): Promise<Result> {
  const { url, drop } = await createTestDatabase()
  try {
    return await withConfig(config, play, options, url)
  } finally {
    await drop()
  }
}

/** A deployment of this configuration on the file's database, or another one. */
async function withConfig<Result>(
  config: ConfigInput,
  play: (test: TestIntegrations) => PromiseLike<Result>,
  { providers, ...options }: Options = {},
  url = database.url,
): Promise<Result> {
  const limited = { defaultRateLimit: () => RateLimit.per(1, 6).sliding() }
  const things = syncProvider(() => {}, { defaultSyncInterval: () => INTERVAL_MINUTES })
  const test = testIntegrations(url, {
    ...options,
    encryptionKeys,
    config,
    providers: { acme: webhookProvider(), things, limited, ...providers },
  })
  try {
    return await play(test)
  } finally {
    await test.close()
  }
}

interface Delivered {
  readonly at?: string
  readonly body?: string
  /** Default: an integration of its own. */
  readonly id?: number
  readonly headers?: Record<string, string>
}

async function deliver(
  test: TestIntegrations,
  { at = 'integrations', body = '{}', ...given }: Delivered = {},
): Promise<Response> {
  const id = given.id ?? (await makeIntegration(test, 'acme')).id
  const headers = { 'x-signature': sign(body), ...given.headers }
  return createApi(test.integrations).request(`/${at}/acme/${id}/webhook`, { method: 'POST', headers, body })
}

const namedByHeader = {
  webhookDeliveryId: (request: WebhookRequest) => request.headers.get('x-id'),
}

/** What recovery does with one row. */
function recovered(
  webhook: ConfigInput['webhook'],
  values: Partial<WebhookRow>,
): Promise<{ jobs: number; status: string }> {
  return withOwnRows({ webhook }, async (test) => {
    const { id } = await makeWebhook(test, (await makeIntegration(test, 'acme')).id, values)
    await recoverWebhooks(test.framework, new AbortController().signal)
    return { jobs: test.starts.webhookJobs.length, status: (await webhookOf(test, id)).status }
  })
}

const minutesAgo = (minutes: number): Date => new Date(Date.now() - minutes * 60_000)

/** What a dispatch does with one integration. */
function dispatched(config: ConfigInput, values: Partial<IntegrationRow>): Promise<{ started: number; stale: number }> {
  return withOwnRows(config, async (test) => {
    await setIntegration(test, (await makeIntegration(test, 'things')).id, values)
    const { started } = await runActivity(() => test.activities.startDueSyncs(), undefined)
    const { stale } = await test.activities.evaluateStaleness()
    return { started, stale: stale.length }
  })
}

/** What became of so many webhooks. */
function handled(config: ConfigInput, handle: () => unknown, count = 1): Promise<WebhookRow[]> {
  const acme = webhookProvider({ handleWebhook: handle })
  return withOwnRows(
    config,
    async (test) => {
      const { id } = await makeIntegration(test, 'acme')
      const rows = await Promise.all(Array.from({ length: count }, () => makeWebhook(test, id)))
      await workOff(test.framework)
      return Promise.all(rows.map((row) => webhookOf(test, row.id)))
    },
    { providers: { acme } },
  )
}

interface Attempted {
  /** The first item, after the attempt. */
  readonly row: SyncItemRow
  readonly result: ItemBatchResult
  /** Of the failed attempt. */
  readonly log: LogRow | undefined
}

/** What became of items of a run in one batch. */
function attempted(
  config: ConfigInput,
  listener: () => unknown,
  values: Partial<SyncItemRow> = {},
  count = 1,
): Promise<Attempted> {
  return withConfig(config, async (test) => {
    test.integrations.on(ThingSynced, listener)
    const run = await makeRun(test, (await makeIntegration(test, 'things')).id)
    const [first] = await Promise.all(Array.from({ length: count }, () => makeItem(test, run, values)))
    const input = { syncLogId: run.id, claim: `effects:${run.id}`, take: { kind: 'pending', limit: 100 } as const }
    const result = await runActivity(test.activities.processSyncItems, input)
    const [log] = await logsOf(test, run.integrationId, 'sync_item')
    return { row: await itemOf(test, first?.id ?? 0), result, log }
  })
}

function fails(): never {
  throw new Error('not today')
}

/** Each who joins waits until so many are there; then they leave one turn of the event loop later. */
function crowdOf(size: number): { join(): Promise<void>; most(): number } {
  const full = occasion()
  let present = 0
  let most = 0
  return {
    async join() {
      present += 1
      most = Math.max(most, present)
      if (present === size) full.happen()
      await full.happened
      await new Promise((resolve) => setImmediate(resolve))
      present -= 1
    },
    most: () => most,
  }
}

/** A writer of the external id `x` that stands still with the lock in its hand. */
async function holdMapping(integration: Integration): Promise<{ release(): Promise<void> }> {
  const [held, released] = [occasion(), occasion()]
  const holder = integration.upsertByExternalId('x', note, async () => {
    held.happen()
    await released.happened
    return { text: 'first' }
  })
  await held.happened
  return {
    async release() {
      released.happen()
      await holder
    },
  }
}

/** The moment at which somebody finds a lock taken. */
function refusalOf(cache: CacheStore): Promise<void> {
  const { acquire } = cache
  const refused = occasion()
  cache.acquire = async (...lock) => {
    const isTaken = !(await acquire(...lock))
    if (isTaken) refused.happen()
    return !isTaken
  }
  return refused.happened
}
