/**
 * The framework in one process, for a host's tests: its real code and its real SQL on a Postgres in memory, a clock that a
 * test moves, and no Temporal, network or server.
 *
 * Rule: docs/testing.md.
 */
import { randomBytes } from 'node:crypto'
import { asc, eq } from 'drizzle-orm'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { drizzle } from 'drizzle-orm/postgres-js'
import type { Hono } from 'hono'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { createApi } from '../api/app.ts'
import type { CacheStore } from '../cache/store.ts'
import { methodNamed, planCall } from '../calls/call.ts'
import { refuseInsideTransaction } from '../calls/idempotency.ts'
import type { Integrations, IntegrationsOptions } from '../create-integrations.ts'
import { createIntegrations, partsOf } from '../create-integrations.ts'
import { migrate } from '../db/apply-migrations.ts'
import type { SyncItemRow } from '../db/schema/tables.ts'
import { createEgress } from '../egress/guarded-fetch.ts'
import type { SyncResult } from '../events/events.ts'
import type { Framework, RequestDoor } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import type { Clock } from '../framework/logger.ts'
import type { HasScheduledSync } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { canSync, declaredStream, streamMeant, syncSource } from '../providers/streams.ts'
import type { FakeReply } from './fake-requests.ts'
import { FakeRequests } from './fake-requests.ts'
import type { FakeSyncSessionOptions } from './fake-sync-session.ts'
import { FakeSyncSession } from './fake-sync-session.ts'
import type { DeliveredEvents, ProcessedWebhooks } from './jobs-in-process.ts'
import { deliverDueEvents, jobsInProcess, processPending, retryItem } from './jobs-in-process.ts'
import type { ManualClock } from './manual-clock.ts'
import { MovingClock } from './manual-clock.ts'
import { memoryCache } from './memory-cache.ts'
import type { InProcessPostgres, InProcessPostgresOptions } from './postgres/wire-postgres.ts'
import { startPostgres } from './postgres/wire-postgres.ts'
import { RecordedEvents } from './recorded-events.ts'
import type { LogLine } from './recorded-log.ts'
import { recordingLogger } from './recorded-log.ts'
import { runSync } from './sync-in-process.ts'
import { UnexpectedRequest } from './testing-errors.ts'
import type { Transport } from './transport.ts'
import { transportRoute } from './transport.ts'
import type { Started } from './without-temporal.ts'
import { LivingRuns, NO_TEMPORAL, recordingStarters } from './without-temporal.ts'

export interface TestIntegrationsOptions extends Omit<IntegrationsOptions, 'database' | 'temporal' | 'clock' | 'pool'> {
  /** Where the clock begins. Default: the machine's time. */
  readonly now?: Date | string
  /**
   * Stands in the place of the wire, below the guard of production: `context.fetch`, calls by URL and notifications end there.
   * Scripted, or played by a function.
   */
  readonly transport?: Transport
  /**
   * Lets what nothing fakes call out: `integration.request()`, notifications, messages to URLs of `handledBy`.
   * Default false: each fails as an UnexpectedRequest.
   */
  readonly allowRequests?: boolean
}

/** An item of a run, as its row says. */
export type SyncedItem = Pick<
  SyncItemRow,
  'id' | 'eventClass' | 'externalId' | 'status' | 'attempts' | 'error' | 'checkpointValue' | 'payload'
>

export interface TestSync {
  readonly syncLogId: number
  readonly result: SyncResult
  /** In the order of the listing. */
  readonly items: readonly SyncedItem[]
}

export interface TestIntegrations {
  readonly integrations: Integrations
  /** The framework, its SQL and the database's `now()` all go by it. */
  readonly clock: ManualClock
  /** A connection of the host's own to the same database: make your tables with it. */
  readonly sql: Sql
  /** The same for Drizzle. */
  readonly db: PostgresJsDatabase
  /** The routes of `createApi()`: `api.request(…)`. */
  readonly api: Hono
  readonly logs: readonly LogLine[]
  readonly events: RecordedEvents
  /** What would have been asked of Temporal. */
  readonly started: Started
  /** Sends a delivery to the webhook route, given an integration to its own. */
  deliver(request: Request, to?: Integration): Promise<Response>
  /** Runs the handlers of all webhooks that wait, once each, and the jobs of single ones that were started. */
  processWebhooks(): Promise<ProcessedWebhooks>
  /** Tells queued listeners, and notification targets over the `transport`, what waits for them. */
  deliverEvents(): Promise<DeliveredEvents>
  /**
   * A whole run: listing, items with their retries, finalisation. The clock is moved on over the waits. A run that was left
   * behind is adopted, and is the result.
   *
   * @throws SyncDidNotEnd when there was nothing to run, or the listing was given up
   */
  sync(integration: Integration, stream?: string): Promise<TestSync>
  /**
   * A session that stores nothing, with the item classes and models that are registered. Default: the integration's cursor; a
   * stream's is null.
   */
  syncSession(integration: Integration, cursor?: Json, of?: { readonly stream?: string }): FakeSyncSession
  /** From now on these answer in the provider's place, and a call that none of them matches throws. */
  fakeRequests(
    replies: Readonly<Record<string, FakeReply>>,
    scope?: { integration?: Integration | number },
  ): FakeRequests
  close(): Promise<void>
}

/** Two, so that a statement that waits for an open transaction reaches the database, which says so. */
const CONNECTIONS = 2

/** @throws EmbeddedDatabaseMissing; what `createIntegrations()` throws */
export async function createTestIntegrations(options: TestIntegrationsOptions = {}): Promise<TestIntegrations> {
  const { now, ...rest } = options
  const clock = new MovingClock(now)
  let started: Promise<InProcessPostgres> | undefined
  const connect = async (): Promise<unknown> => (await (started as Promise<InProcessPostgres>)).connect()
  const kit = kitOver({ clock, connect }, rest)
  started = startMigrated(clock, { prefix: kit.integrations.config.table_prefix, schema: options.schema ?? 'public' })
  const database = await started
  return {
    ...kit,
    async close() {
      await kit.close()
      await database.close()
    },
  }
}

/** A database that is migrated. */
export function startMigrated(
  clock: Clock,
  place: Pick<InProcessPostgresOptions, 'prefix' | 'schema' | 'around'>,
): Promise<InProcessPostgres> {
  return startPostgres({ clock, ...place }, async (database) => {
    const client = clientOf(async () => database.connect())
    await migrate({ sql: client, tablePrefix: place.prefix, schema: place.schema })
    await client.end()
  })
}

export interface KitPlace {
  readonly clock: ManualClock
  /** A connection to the database, for the framework or for the host's own tables. */
  connect(whose: 'framework' | 'host'): Promise<unknown>
  /** One that outlives this process. Default: its own. */
  readonly cache?: CacheStore
  /** Those that outlive this process. Default: its own. */
  readonly runs?: LivingRuns
}

/** The framework of one process over a database that others have started, and that `close()` leaves open. */
export function kitOver(
  { clock, connect, cache = memoryCache(clock), runs = new LivingRuns() }: KitPlace,
  options: Omit<TestIntegrationsOptions, 'now'>,
): TestIntegrations {
  const { transport, allowRequests = false, ...rest } = options
  transport?.useClock(clock)
  const logs: LogLine[] = []
  const sql = clientOf(() => connect('host'))
  const integrations = createIntegrations({
    ...rest,
    encryptionKeys: options.encryptionKeys ?? `kit:${randomBytes(32).toString('base64')}`,
    // Of a client only the settings are taken: the framework's connections are its own.
    database: clientOf(() => connect('framework')),
    pool: { max: CONNECTIONS },
    clock,
    logger: recordingLogger(logs, options.logger),
  })
  const { framework } = partsOf(integrations)
  const starts: Started = {
    wokenInbox: 0,
    startedSyncs: [],
    startedWorkflows: [],
    handedOver: [],
    startedWebhookJobs: [],
  }
  const fakes = new FakeRequests()
  const real = framework.request
  const wire = transport ?? (allowRequests ? null : NO_WIRE)
  Object.assign(framework, {
    cache: withCallState(cache, framework.cache),
    workflows: recordingStarters(starts, runs, jobsInProcess(framework), (input) => retryItem(framework, clock, input)),
    temporal: NO_TEMPORAL,
    egress:
      wire === null
        ? framework.egress
        : createEgress(options.egress, { openRoute: (rules) => transportRoute(rules, wire) }),
    request: requestDoor(fakes, allowRequests || transport !== undefined ? real : null),
  } satisfies Partial<Framework>)
  const events = new RecordedEvents(framework.listeners)
  const api = createApi(integrations)
  const drizzleClient = clientOf(() => connect('host'))

  return {
    integrations,
    clock,
    sql,
    db: drizzle(drizzleClient),
    api,
    logs,
    events,
    started: starts,
    async deliver(request, to) {
      return api.request(to === undefined ? request : await redirected(request, webhookUrl(integrations, to)))
    },
    processWebhooks: () => processPending(framework, starts.startedWebhookJobs),
    deliverEvents: () => deliverDueEvents(framework),
    async sync({ id, provider }, stream) {
      const named = streamMeant(provider, framework.providers.get(provider), stream)
      const of = { integrationId: id, ...(named === null ? {} : { stream: named }) }
      // The run that was asked for is this one. What is asked for from now on follows it.
      await framework.workflows.cancelSync(of)
      const syncLogId = await runs.during(of, () => runSync(framework, clock, of))
      const result = events.of('SyncCompleted').findLast(({ integration }) => integration.id === id)
        ?.result as SyncResult
      const { syncItems } = framework.tables
      const ofRun = eq(syncItems.syncLogId, syncLogId)
      return {
        syncLogId,
        result,
        items: await framework.db.select().from(syncItems).where(ofRun).orderBy(asc(syncItems.id)),
      }
    },
    syncSession(integration, cursor = integration.syncCursor, { stream } = {}) {
      const provider = framework.providers.find(integration.provider)
      const named = provider === null || !canSync(provider) ? null : streamMeant(integration.provider, provider, stream)
      const source = provider === null ? null : syncSource(provider, named)
      const { listeners, logger, models } = framework
      const reducing = source === null ? {} : reducerOf(source)
      const { model } = (provider === null ? null : declaredStream(provider, named)) ?? {}
      const of = { integration, stream: named ?? undefined, model }
      return new FakeSyncSession(cursor, { ...of, listeners, logger, models, ...reducing })
    },
    fakeRequests: (replies, scope) => fakes.add(replies, scope),
    async close() {
      await integrations.close()
      await Promise.all([sql.end({ timeout: 1 }), drizzleClient.end({ timeout: 1 })])
    },
  }
}

function reducerOf(provider: HasScheduledSync): Pick<FakeSyncSessionOptions, 'reduceCheckpoints'> {
  return { reduceCheckpoints: (checkpoints) => provider.reduceCheckpoints(checkpoints) }
}

/** The state of calls is in the table, as in production: what removes the entries of an integration removes it, too. */
function withCallState(memory: CacheStore, table: CacheStore): CacheStore {
  return {
    ...memory,
    async deleteOf(keyPrefix, { limit, keepLocks }) {
      const inMemory = await memory.deleteOf(keyPrefix, { limit, keepLocks })
      if (inMemory >= limit) return inMemory
      return inMemory + (await table.deleteOf(keyPrefix, { limit: limit - inMemory, keepLocks }))
    },
    within: (tx) => withCallState(memory, table.within(tx)),
  }
}

/** A client whose connections are streams in memory. */
export function clientOf(socket: () => Promise<unknown>): Sql {
  return postgres({
    host: 'memory',
    database: 'postgres',
    user: 'postgres',
    max: CONNECTIONS,
    fetch_types: false,
    onnotice: () => {},
    // An option that the driver's types lack: https://github.com/porsager/postgres#connection-details
    ...({ socket } as object),
  })
}

/** What goes past `integration.request()`, such as a message to a door of `handledBy`, must not leave a test either. */
const NO_WIRE: Pick<Transport, 'fetch'> = {
  async fetch(input, init) {
    // The rest of a URL may be a secret.
    const { origin } = new URL(input instanceof Request ? input.url : input)
    throw new UnexpectedRequest(
      init?.method ?? 'GET',
      origin,
      'Give createTestIntegrations() a `transport`, or `allowRequests: true` to call out.',
    )
  },
}

function requestDoor(fakes: FakeRequests, real: RequestDoor | null): RequestDoor {
  return async (framework, outbound) => {
    if (fakes.isActive) {
      // A call that is refused before it is sent is refused here, too.
      const { idempotencyKey } = planCall(framework, outbound)
      if (idempotencyKey !== null) refuseInsideTransaction(idempotencyKey)
      return (await fakes.answer(outbound)) as never
    }
    if (real !== null) return real(framework, outbound)
    throw new UnexpectedRequest(
      methodNamed(outbound.method),
      outbound.endpoint,
      'Answer it with kit.fakeRequests(), or give createTestIntegrations() a `transport`, or `allowRequests: true` to call out.',
    )
  }
}

function webhookUrl({ config }: Integrations, { provider, id }: Integration): string {
  return `http://localhost/${config.webhook.prefix}/${provider}/${id}/webhook`
}

async function redirected(request: Request, url: string): Promise<Request> {
  const { method, headers } = request
  const body = method === 'GET' || method === 'HEAD' ? null : await request.arrayBuffer()
  return new Request(url + new URL(request.url).search, { method, headers, body })
}
