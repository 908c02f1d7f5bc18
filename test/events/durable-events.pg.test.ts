/**
 * Every event that can be told later is a row of the transaction of what it tells of: of both or of neither, once, and only
 * where somebody is told later. Rule: docs/behaviour/events.md, "Durable events".
 */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { DurableEventName } from '../../src/events/durable-event-rules.ts'
import { DURABLE_EVENTS } from '../../src/events/durable-event-rules.ts'
import { recordEvents, recordOwnedEvents, settlementEventNames } from '../../src/events/durable-events.ts'
import { decodeEvent } from '../../src/events/event-payloads.ts'
import { evaluateFailureRates } from '../../src/incidents/anomalies.ts'
import type { HasOAuth2, HasScheduledSync, ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { announceRun } from '../../src/syncs/announcement.ts'
import { finaliseRun } from '../../src/syncs/finalisation.ts'
import { evaluateStaleSyncs } from '../../src/syncs/staleness.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { receiveDelivery } from '../../src/webhooks/arrival.ts'
import { reconcilable, reconcileIntegrationWebhooks } from '../../src/webhooks/reconciliation.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { BASE_URL } from '../support/operators.ts'
import { CREDENTIALS, sign, syncProvider, ThingSynced, TOKEN, webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun, setIntegration } from '../support/rows.ts'

const COOLDOWN_SECONDS = 30
const TOKENS = { access_token: 'access-of-the-tests', refresh_token: 'refresh-of-the-tests' }
const DAY_MS = 86_400_000

interface Case {
  readonly name: DurableEventName
  readonly by: string
  /** What has happened before. */
  readonly before?: (integration: Integration) => Promise<unknown>
  readonly cause: (integration: Integration) => Promise<unknown>
  /** Tells those who listen in the process, where the cause does not. */
  readonly tell?: (integration: Integration) => Promise<unknown>
  /** One value in a row of its own, that the cause changes. `$1` is the integration's id. */
  readonly change: string
  /** When to refuse the change: at the commit of such a write. */
  readonly write: readonly [operation: 'insert' | 'update', table: string, when: string]
  /** Whoever makes the change makes it again. */
  readonly isRetried?: true
  /**
   * A transaction of one statement. It is refused by the statement: of a refusal at its commit the driver (3.4) tells whoever
   * asks next on that connection.
   */
  readonly isOneStatement?: true
}

const CREDENTIALS_CHANGE = {
  change: 'select credentials from integrations where id = $1',
  write: ['update', 'integrations', 'new.credentials is distinct from old.credentials'],
} as const
const HEALTH_CHANGE = {
  change: 'select health_status from integrations where id = $1',
  write: ['update', 'integrations', 'new.health_status is distinct from old.health_status'],
} as const
const STALE_CHANGE = {
  change: 'select sync_stale_alerted_at is null from integrations where id = $1',
  write: ['update', 'integrations', '(new.sync_stale_alerted_at is null) <> (old.sync_stale_alerted_at is null)'],
} as const
const RATE_CHANGE = {
  change: 'select anomaly_alerted_at is null from integrations where id = $1',
  write: ['update', 'integrations', '(new.anomaly_alerted_at is null) <> (old.anomaly_alerted_at is null)'],
} as const
const OVERRIDE_CHANGE = {
  change: 'select circuit_override from integrations where id = $1',
  write: ['update', 'integrations', 'new.circuit_override is distinct from old.circuit_override'],
} as const
const INCIDENT_CHANGE =
  "select string_agg(status || peak_severity, ',') from integration_incidents where integration_id = $1"
const INCIDENT_OPENED = {
  change: INCIDENT_CHANGE,
  write: ['insert', 'integration_incidents', 'true'],
} as const
const INCIDENT_CHANGED = {
  change: INCIDENT_CHANGE,
  write: ['update', 'integration_incidents', 'new.status <> old.status or new.peak_severity <> old.peak_severity'],
} as const
const BREAKER =
  "select value #>> '{breaker,state}' from integration_cache where key = 'integrations:integration:' || $1 || ':calls'"
const breakerBecomes = (state: string) =>
  `new.value #>> '{breaker,state}' = '${state}' and old.value #>> '{breaker,state}' <> '${state}'`
const DELIVERY_CHANGE = {
  change: 'select count(*) from integration_webhooks where integration_id = $1',
  write: ['insert', 'integration_webhooks', 'true'],
} as const
const RUN_CHANGE = {
  change: 'select status from integration_logs where integration_id = $1 order by id desc limit 1',
  write: ['update', 'integration_logs', "new.operation = 'sync' and new.status <> old.status"],
} as const
const ITEM_CHANGE = {
  change: 'select status from integration_sync_items where integration_id = $1',
  write: ['update', 'integration_sync_items', "new.status = 'failed'"],
} as const

const fail = (times: number) => async (integration: Integration) => {
  for (let n = 0; n < times; n += 1) await integration.recordFailure('upstream')
}
const failCall = (integration: Integration) =>
  expect(
    integration.request('things', 'GET', () => Promise.reject(Object.assign(new Error('no'), { status: 503 })), {
      attempts: 1,
    }),
  ).rejects.toMatchObject({ status: 503 })
const trip = async (integration: Integration) => {
  for (let n = 0; n < 3; n += 1) await failCall(integration)
}

const CASES: readonly Case[] = [
  {
    name: 'IntegrationCreated',
    by: 'create()',
    cause: () => makeIntegration(test, 'acme', { name: 'made by the cause' }),
    change: "select count(*) from integrations where name = 'made by the cause' and $1::bigint > 0",
    write: ['insert', 'integrations', "new.name = 'made by the cause'"],
  },
  {
    name: 'CredentialsUpdated',
    by: 'updateCredentials()',
    cause: (integration) => integration.updateCredentials({ token: 'another token' }),
    ...CREDENTIALS_CHANGE,
  },
  {
    name: 'CredentialsUpdated',
    by: 'update()',
    cause: ({ id }) => test.integrations.update(id, { credentials: { token: 'another token' } }),
    ...CREDENTIALS_CHANGE,
  },
  {
    name: 'CredentialsUpdated',
    by: 'a new webhook secret',
    cause: ({ id }) => test.integrations.webhooks.rotateSecret(id),
    ...CREDENTIALS_CHANGE,
  },
  {
    name: 'CredentialsUpdated',
    by: 'a refresh of the tokens',
    cause: (integration) => integration.refreshTokenIfNeeded(),
    ...CREDENTIALS_CHANGE,
    isRetried: true,
  },
  { name: 'CredentialsUpdated', by: 'an authorization', cause: authorize, ...CREDENTIALS_CHANGE },
  {
    name: 'CredentialsUpdated',
    by: 'a revocation',
    cause: ({ id }) => test.integrations.oauth.revoke(id),
    ...CREDENTIALS_CHANGE,
  },
  { name: 'OAuthCompleted', by: 'an authorization', cause: authorize, ...CREDENTIALS_CHANGE },
  {
    name: 'OAuthRevoked',
    by: 'a revocation',
    cause: ({ id }) => test.integrations.oauth.revoke(id),
    ...CREDENTIALS_CHANGE,
  },
  {
    name: 'ReauthRequired',
    by: 'a refresh that the provider refuses',
    before: async () => {
      refresh = async () => {
        throw Object.assign(new Error('no'), { status: 400, error: 'invalid_grant' })
      }
    },
    cause: (integration) => integration.refreshTokenIfNeeded().catch(() => {}),
    change: "select count(*) from integration_cache where key like '%:integration:' || $1 || ':reauth-required'",
    write: ['insert', 'integration_cache', "new.key like '%:reauth-required'"],
  },
  {
    name: 'IntegrationHealthChanged',
    by: 'a failure',
    before: fail(1),
    cause: fail(1),
    ...HEALTH_CHANGE,
    isOneStatement: true,
  },
  {
    name: 'IntegrationHealthChanged',
    by: 'enable()',
    before: fail(2),
    cause: (integration) => integration.enable(),
    ...HEALTH_CHANGE,
  },
  {
    name: 'IntegrationDisabled',
    by: 'a failure',
    before: fail(3),
    cause: fail(1),
    ...HEALTH_CHANGE,
    isOneStatement: true,
  },
  {
    name: 'IncidentOpened',
    by: 'health that gets worse',
    before: fail(1),
    cause: fail(1),
    ...INCIDENT_OPENED,
    isOneStatement: true,
  },
  { name: 'IncidentOpened', by: 'a sync that became stale', before: late, cause: evaluate, ...INCIDENT_OPENED },
  {
    name: 'IncidentEscalated',
    by: 'health that gets worse',
    before: fail(2),
    cause: fail(1),
    ...INCIDENT_CHANGED,
    isOneStatement: true,
  },
  {
    name: 'IncidentClosed',
    by: 'a success',
    before: fail(2),
    cause: (integration) => integration.recordSuccess(),
    ...INCIDENT_CHANGED,
    isOneStatement: true,
  },
  {
    name: 'IncidentClosed',
    by: 'enable()',
    before: fail(2),
    cause: (integration) => integration.enable(),
    ...INCIDENT_CHANGED,
  },
  {
    name: 'IncidentClosed',
    by: 'the clean run of a stale sync',
    before: async (integration) => {
      await late(integration)
      await evaluate()
      await endedRun(integration, ['success'])
    },
    cause: finalise,
    tell: announce,
    ...INCIDENT_CHANGED,
  },
  {
    name: 'CircuitOpened',
    by: 'failures',
    before: trippable,
    cause: failCall,
    change: BREAKER,
    write: ['update', 'integration_cache', breakerBecomes('open')],
    isRetried: true,
    isOneStatement: true,
  },
  {
    name: 'CircuitOpened',
    by: 'force',
    cause: (integration) => integration.overrideCircuit('forced_open'),
    ...OVERRIDE_CHANGE,
  },
  {
    name: 'CircuitClosed',
    by: 'a probe',
    before: async (integration) => {
      await trip(integration)
      clock.advance(COOLDOWN_SECONDS)
    },
    cause: (integration) => integration.request('things', 'GET', () => 'fine'),
    change: BREAKER,
    write: ['update', 'integration_cache', breakerBecomes('closed')],
    isRetried: true,
    isOneStatement: true,
  },
  {
    name: 'CircuitClosed',
    by: 'force',
    cause: (integration) => integration.overrideCircuit('forced_closed'),
    ...OVERRIDE_CHANGE,
  },
  { name: 'WebhookReceived', by: 'a delivery', cause: deliver, ...DELIVERY_CHANGE, isOneStatement: true },
  {
    name: 'WebhookReceived',
    by: 'reconciliation',
    cause: async ({ id }) =>
      reconcileIntegrationWebhooks(
        test.framework,
        await reconcilable(test.framework, id),
        {},
        new AbortController().signal,
      ),
    ...DELIVERY_CHANGE,
    isOneStatement: true,
  },
  {
    name: 'SyncCompleted',
    by: 'the end of a run',
    before: (integration) => endedRun(integration, ['success', 'failed', 'skipped']),
    cause: finalise,
    tell: announce,
    ...RUN_CHANGE,
  },
  {
    name: 'SyncCompleted',
    by: 'the end of a clean run',
    before: (integration) => endedRun(integration, ['success']),
    cause: finalise,
    tell: announce,
    ...RUN_CHANGE,
  },
  {
    name: 'SyncItemStuck',
    by: 'the end of a run',
    before: async (integration) => {
      await endedRun(integration, ['failed'], 'x')
      await finalise(integration)
      await endedRun(integration, ['failed'], 'x')
    },
    cause: finalise,
    tell: announce,
    ...RUN_CHANGE,
  },
  {
    name: 'SyncStalenessRecovered',
    by: 'the end of a clean run',
    before: async (integration) => {
      await setIntegration(test, integration.id, { syncStaleAlertedAt: new Date() })
      await endedRun(integration, ['success'])
    },
    cause: finalise,
    tell: announce,
    ...RUN_CHANGE,
  },
  {
    name: 'SyncItemFailed',
    by: 'a last attempt',
    before: async (integration) => {
      await makeItem(test, await makeRun(test, integration.id))
      listen(test, ThingSynced, () => {
        throw new TypeError(`no luck with ${TOKEN}`)
      })
    },
    cause: processItems,
    ...ITEM_CHANGE,
    isRetried: true,
  },
  {
    name: 'SyncItemFailed',
    by: 'a claim that refuses it',
    before: async (integration) => {
      await makeItem(test, await makeRun(test, integration.id))
      listen(test, ThingSynced, () => {}, { queued: true })
    },
    cause: processItems,
    ...ITEM_CHANGE,
  },
  {
    name: 'SyncBecameStale',
    by: 'a dispatch',
    before: late,
    cause: evaluate,
    ...STALE_CHANGE,
  },
  {
    name: 'SyncStalenessRecovered',
    by: 'a dispatch',
    before: (integration) => setIntegration(test, integration.id, { syncStaleAlertedAt: new Date() }),
    cause: evaluate,
    ...STALE_CHANGE,
  },
  {
    name: 'ElevatedFailureRate',
    by: 'the evaluation',
    before: manyFailures,
    cause: () => evaluateFailureRates(test.framework),
    ...RATE_CHANGE,
  },
  {
    name: 'FailureRateRecovered',
    by: 'the evaluation',
    before: (integration) => setIntegration(test, integration.id, { anomalyAlertedAt: new Date() }),
    cause: () => evaluateFailureRates(test.framework),
    ...RATE_CHANGE,
  },
]
const NAMED = CASES.map((each) => [each.name, each.by, each] as const)

let database: TestDatabase
let test: TestIntegrations
let clock: ManualClock
let refresh: () => Promise<Record<string, unknown>>

beforeAll(async () => {
  database = await createTestDatabase()
  clock = new ManualClock()
  const acme: HasScheduledSync & HasOAuth2 & ReconcilesWebhooks = {
    ...webhookProvider(),
    ...syncProvider(() => {}),
    ...scriptedOAuth(() => refresh(), { exchangeCode: async () => ({ access_token: 'exchanged-of-the-tests' }) }),
    // Calls come one after the other, none is to wait.
    defaultRateLimit: () => null as never,
    reconcileLookbackSeconds: 86_400,
    async *missedWebhooks() {
      const occurredAt = new Date(clock.now().getTime() - 3_600_000)
      yield { deliveryId: 'missed', eventType: null, payload: {}, headers: {}, occurredAt }
    },
  }
  test = testIntegrations(database.url, {
    clock,
    baseUrl: BASE_URL,
    providers: { acme },
    config: {
      health: { degraded_after: 2, failing_after: 3, disabled_after: 4 },
      circuit_breaker: { strategy: 'count', threshold: 3, cooldown_seconds: COOLDOWN_SECONDS },
      sync: { stuck_item_after_runs: 2, item_tries: 1 },
      observability: { anomaly_minimum_requests: 4, anomaly_failure_rate_threshold: 50 },
    },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  clock.set(new Date())
  refresh = async () => ({ access_token: 'refreshed-of-the-tests' })
})

it('the table of causes has every event that can be told later', () => {
  expect(new Set(CASES.map(({ name }) => name))).toEqual(new Set(DURABLE_EVENTS))
})

describe('with somebody who is told later', () => {
  it.each(NAMED)('%s by %s is one row, which says what listeners are told at once', async (name, _, each) => {
    const integration = await begin(each)
    const told: unknown[] = []
    listen(test, name, ({ integration: { id }, ...rest }: { integration: Integration }) => void told.push([id, rest]))
    toldLater(name)
    const before = await changeOf(each, integration)
    await each.cause(integration)
    expect(await changeOf(each, integration)).not.toEqual(before)
    const rows = await rowsOf(name)
    expect(rows).toHaveLength(1)
    await each.tell?.(integration)
    expect(await rowsOf(name)).toHaveLength(1)
    expect(rows.map(({ integrationId, payload }) => [integrationId, decodeEvent(name, payload)])).toEqual(
      told.map((one) => redacted(one)),
    )
    expect(test.starts.outboxWakes.count).toBeGreaterThan(0)
  })

  it.each(NAMED)('%s by %s: where the row can not be written, nothing is changed', async (name, _, each) => {
    const integration = await begin(each)
    toldLater(name)
    await refusedOnce(each, 'insert', 'integration_events', `new.name = '${name}'`)
    await expectAllOrNothing(each, integration)
  })

  it.each(NAMED)('%s by %s: where the change is rolled back, there is no row', async (name, _, each) => {
    const integration = await begin(each)
    toldLater(name)
    await refusedOnce(each, ...each.write)
    await expectAllOrNothing(each, integration)
  })
})

it.each(NAMED)('%s by %s is no row where nobody is told later', async (name, _, each) => {
  const integration = await begin(each)
  listen(test, name, () => {})
  await each.cause(integration)
  await each.tell?.(integration)
  expect(await test.sql`select * from integration_events`).toHaveLength(0)
})

describe('writing down', () => {
  it('passes over events of which nobody is told later', async () => {
    const { id } = await makeIntegration(test, 'acme')
    toldLater('OAuthRevoked')
    await recordEvents(test.framework, test.framework.db, id, [
      { name: 'OAuthCompleted', payload: {} },
      { name: 'OAuthRevoked', payload: {} },
    ])
    expect(await rowsOf('OAuthCompleted')).toHaveLength(0)
    expect(await rowsOf('OAuthRevoked')).toHaveLength(1)
  })

  it('takes as many events as there are, in their order', async () => {
    const { id } = await makeIntegration(test, 'acme')
    toldLater('ReauthRequired')
    const reasons = Array.from({ length: 5_000 }, (_, n) => `reason ${n}`)
    const events = reasons.map((reason) => ({
      integrationId: id,
      name: 'ReauthRequired' as const,
      payload: { reason },
    }))
    await recordOwnedEvents(test.framework, test.framework.db, events)
    const [row] = await test.sql`
      select array_to_json(array_agg(payload ->> 'reason' order by id)) as reasons from integration_events`
    expect(row?.reasons).toEqual(reasons)
  })

  it('stores a row that is due at once, with nothing decided', async () => {
    const { id } = await makeIntegration(test, 'acme')
    toldLater('OAuthRevoked')
    await recordEvents(test.framework, test.framework.db, id, [{ name: 'OAuthRevoked', payload: {} }])
    const [row] =
      await test.sql`select *, due_at <= clock_timestamp()::timestamptz(3) as is_due from integration_events`
    expect(row).toMatchObject({ claim: null, attempts: 0, outcomes: {}, delivered_at: null, is_due: true })
  })
})

describe('a settlement', () => {
  it('is told no names where nobody is told later of what it can change', () => {
    expect(settlementEventNames(test.framework)).toBeNull()
    toldLater('SyncCompleted')
    expect(settlementEventNames(test.framework)).toBeNull()
  })

  it('is told the names of what somebody is told later', () => {
    toldLater('IncidentOpened')
    toldLater('IntegrationHealthChanged')
    expect(settlementEventNames(test.framework)).toEqual({
      health: 'IntegrationHealthChanged',
      incident_opened: 'IncidentOpened',
    })
  })
})

async function begin(each: Case): Promise<Integration> {
  const credentials = { ...CREDENTIALS, ...TOKENS, token_expires_at: '2000-01-01T00:00:00Z' }
  const integration = await makeIntegration(test, 'acme', { credentials })
  await each.before?.(integration)
  test.starts.outboxWakes.count = 0
  return integration
}

function toldLater(name: DurableEventName): void {
  listen(test, name, () => {}, { queued: true, name: 'later' })
}

/** Until the test ends, the first transaction that writes so is refused. */
async function refusedOnce({ isOneStatement }: Case, ...[operation, table, when]: Case['write']): Promise<void> {
  // What a sequence has given is not taken back with its transaction.
  await test.sql.unsafe(`
    create sequence refusals;
    create function refuse_once() returns trigger language plpgsql as $$
    begin
      if nextval('refusals') = 1 then raise exception 'refused by the test'; end if;
      return null;
    end $$;
    create constraint trigger refuse_once after ${operation} on ${table} ${isOneStatement ? '' : 'deferrable initially deferred'}
      for each row when (${when}) execute function refuse_once()`)
  onTestFinished(async () => {
    await test.sql.unsafe(`drop trigger refuse_once on ${table}; drop function refuse_once(); drop sequence refusals`)
  })
}

/** Neither the change nor its row; of a cause that is tried again, both once. */
async function expectAllOrNothing(each: Case, integration: Integration): Promise<void> {
  const before = await changeOf(each, integration)
  await Promise.allSettled([each.cause(integration)])
  const [refusals] = await test.sql`select is_called from refusals`
  expect(refusals).toEqual({ is_called: true })
  const after = await changeOf(each, integration)
  if (each.isRetried) expect(after).not.toEqual(before)
  else expect(after).toEqual(before)
  expect(await rowsOf(each.name)).toHaveLength(each.isRetried ? 1 : 0)
}

async function changeOf({ change }: Case, { id }: Integration): Promise<unknown> {
  const [row] = await test.sql.unsafe(change, [id])
  return row === undefined ? null : Object.values(row)[0]
}

async function rowsOf(name: DurableEventName): Promise<{ integrationId: number; payload: unknown }[]> {
  const rows = await test.sql`select integration_id, payload from integration_events where name = ${name}`
  return rows.map((row) => ({ integrationId: Number(row.integration_id), payload: row.payload }))
}

/** What was told in the process, without the secret that an error quotes: a row never holds one. */
function redacted(told: unknown): unknown {
  const [id, payload] = told as [number, { error?: unknown }]
  if (!(payload.error instanceof Error)) return told
  const error = Object.assign(new Error(payload.error.message.replace(TOKEN, '[REDACTED]')), {
    name: payload.error.name,
  })
  return [id, { ...payload, error }]
}

async function authorize({ id }: Integration): Promise<void> {
  const { state } = await test.integrations.oauth.start(id)
  const query = new URLSearchParams({ state, code: 'a-code-of-the-tests' })
  await test.integrations.oauth.complete({ query, cookie: () => undefined })
}

async function deliver({ id }: Integration): Promise<void> {
  const bytes = Buffer.from('{"n":1}')
  const headers = new Headers({ 'x-signature': sign(bytes), 'x-delivery': randomUUID(), 'x-event': 'thing.made' })
  await receiveDelivery(test.framework, {
    provider: 'acme',
    integrationId: id,
    method: 'POST',
    path: '/webhook',
    query: '',
    headers,
    readBody: async () => ({ kind: 'read', bytes }),
  })
}

/** Two calls of three have failed. */
async function trippable(integration: Integration): Promise<void> {
  await failCall(integration)
  await failCall(integration)
}

async function late({ id }: Integration): Promise<void> {
  await setIntegration(test, id, { lastSyncedAt: new Date(Date.now() - 30 * DAY_MS) })
}

async function evaluate(): Promise<unknown> {
  return evaluateStaleSyncs(test.framework)
}

async function endedRun(
  { id }: Integration,
  items: readonly ('success' | 'failed' | 'skipped')[],
  externalId: string | null = null,
): Promise<void> {
  const run = await makeRun(test, id)
  for (const [at, status] of items.entries())
    await makeItem(test, run, {
      status,
      externalId,
      checkpointValue: at,
      error: status === 'failed' ? 'no luck' : null,
    })
}

async function newestRun({ id }: Integration): Promise<{ integrationId: number; syncLogId: number }> {
  const [row] = await test.sql`select max(id) as id from integration_logs where integration_id = ${id}`
  return { integrationId: id, syncLogId: Number(row?.id) }
}

async function finalise(integration: Integration): Promise<void> {
  await finaliseRun(test.framework, await newestRun(integration))
}

async function announce(integration: Integration): Promise<void> {
  expect(await announceRun(test.framework, await newestRun(integration))).toBe('announced')
}

async function processItems(integration: Integration): Promise<void> {
  const { syncLogId } = await newestRun(integration)
  const take = { kind: 'pending', limit: 10 } as const
  await runActivity(test.activities.processSyncItems, { syncLogId, claim: 'run:1', take })
}

/** At the rate of which it is told, and in the window. */
async function manyFailures({ id }: Integration): Promise<void> {
  const { db, tables } = test.framework
  const failed = {
    integrationId: id,
    endpoint: 'things',
    method: 'GET',
    failureClass: 'upstream',
    durationMs: 1,
  } as const
  await db.insert(tables.requests).values(Array.from({ length: 5 }, () => failed))
}
