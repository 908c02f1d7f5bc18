/**
 * The composition root: one object that a host makes once and gives to its API, its workers and the CLI alike. Each
 * method binds one operation; there is no logic here.
 */

import type { Client } from '@temporalio/client'
import { pino } from 'pino'
import type { Sql } from 'postgres'
import { postgresCache } from './cache/postgres.ts'
import { loadConfig } from './config/load.ts'
import type { Config, ConfigInput } from './config/schema.ts'
import { InvalidConfiguration } from './core/errors.ts'
import type { Clock, Logger } from './core/logger.ts'
import { systemClock } from './core/logger.ts'
import { checkConnection, connect } from './db/client.ts'
import { assertMigrated, migrate } from './db/migrate.ts'
import { createTables } from './db/schema/tables.ts'
import { createEncryption, parseKeyRing } from './encryption.ts'
import type { EventName, IntegrationEvents } from './events/events.ts'
import type { EventKey, Listener, ListenerOptions } from './events/listeners.ts'
import { Listeners } from './events/listeners.ts'
import type { Framework } from './framework.ts'
import { verifyKeys } from './operations/encryption-keys.ts'
import { getIntegration } from './operations/integration.ts'
import type { CreateIntegration, ListIntegrations, UpdateIntegration } from './operations/integrations.ts'
import {
  createIntegration,
  findIntegrationById,
  listIntegrations,
  updateIntegrationRow,
} from './operations/integrations.ts'
import { startSyncNow } from './operations/syncs.ts'
import type { Arrival, Delivery } from './operations/webhook-arrival.ts'
import { receiveDelivery, wakePendingInboxes } from './operations/webhook-arrival.ts'
import type { ProviderEvent, ProviderEventClass, SyncItemEvent, SyncItemEventClass } from './providers/events.ts'
import type { Integration } from './providers/integration.ts'
import type { MappedModel } from './providers/mapped-model.ts'
import { hasScheduledSync } from './providers/provider.ts'
import type { ProviderSource } from './providers/registry.ts'
import { ProviderRegistry } from './providers/registry.ts'
import type { TemporalOptions } from './temporal/connection.ts'
import { lazyClient } from './temporal/connection.ts'
import { temporalStarters } from './temporal/starters.ts'

export interface IntegrationsOptions {
  /** URL of a Postgres of 14 or newer, or a postgres.js client. Default: DATABASE_URL. */
  readonly database?: string | Sql | undefined
  readonly temporal?: TemporalOptions
  /** `kid:base64,…`, 32 bytes each; the first writes, all read. Default: INTEGRATIONS_ENCRYPTION_KEYS or …_FILE. */
  readonly encryptionKeys?: string | readonly string[] | undefined
  readonly config?: ConfigInput
  readonly providers?: Readonly<Record<string, ProviderSource>>
  /** The host's models by the name stored in `internal_type`. */
  // biome-ignore lint/suspicious/noExplicitAny: each model has row and attribute types of its own
  readonly models?: Readonly<Record<string, MappedModel<any, any>>>
  readonly logger?: Logger
  readonly clock?: Clock
  /** Connections of each of our two pools at most (default 10), and after how long an unused one is closed (default 60 s). */
  readonly pool?: { readonly max?: number; readonly idleSeconds?: number }
  /** Postgres schema of our tables. Default `public`. */
  readonly schema?: string
}

export interface Integrations {
  readonly config: Config
  create(integration: CreateIntegration): Promise<Integration>
  /** Null when there is none. */
  find(id: number): Promise<Integration | null>
  /** @throws IntegrationNotFound */
  get(id: number): Promise<Integration>
  list(filter?: ListIntegrations): AsyncIterable<Integration>
  update(id: number, patch: UpdateIntegration): Promise<Integration>
  register(key: string, provider: ProviderSource, options?: { replace?: boolean }): void

  on<Name extends EventName>(
    name: Name,
    listener: (payload: IntegrationEvents[Name]) => unknown,
    options?: ListenerOptions,
  ): void
  on<Event extends ProviderEvent>(
    eventClass: ProviderEventClass<Event>,
    listener: (event: Event) => unknown,
    options?: ListenerOptions,
  ): void
  on<Event extends SyncItemEvent<unknown>>(
    eventClass: SyncItemEventClass<Event>,
    listener: (event: Event) => unknown,
    options?: ListenerOptions,
  ): void
  off(key: EventKey, listener: Listener): void

  readonly webhooks: {
    /** What happens to a delivery before it is answered. The routes of `createApi()` use it. */
    receive(delivery: Delivery): Promise<Arrival>
    /** Wakes the inbox of every integration that has pending rows: done by each API process at its start. */
    wakePending(): Promise<number>
  }
  readonly syncs: {
    /**
     * Starts a run now, due or not. A run that has just noted its end may still be telling its listeners, and counts as
     * running until then.
     */
    start(integrationId: number): Promise<'started' | 'already running'>
  }

  /** Brings the tables up to this code. */
  migrate(): Promise<{ applied: string[] }>
  /**
   * Checks what a process needs before it starts: Postgres answers, the tables are up to date, the keys read what is
   * stored. @throws BackendUnreachable, SchemaBehind, EncryptionKeyMismatch
   */
  ready(): Promise<void>
  close(): Promise<void>
}

/**
 * @throws InvalidConfiguration with every fault at once; InvalidEncryptionKeys; InvalidProvider
 */
export function createIntegrations(options: IntegrationsOptions = {}): Integrations {
  const inConfig = (options.config?.providers ?? {}) as Record<string, ProviderSource>
  const { config, warnings } = loadConfig({
    config: options.config ?? {},
    providerKeys: Object.keys({ ...inConfig, ...options.providers }),
    optionProviderKeys: Object.keys(options.providers ?? {}),
    middlewareNames: [],
  })
  refuseMiddleware(config)
  const logger = options.logger ?? defaultLogger()
  for (const warning of warnings) logger.warn({}, warning)

  const encryption = createEncryption(parseKeyRing({ encryptionKeys: options.encryptionKeys }))
  const pool = {
    database: options.database ?? process.env.DATABASE_URL ?? '',
    ...(options.pool === undefined ? {} : { pool: options.pool }),
  }
  const connection = connect(pool)
  const modelConnection = connect(pool)
  const tables = createTables(config.table_prefix, options.schema)
  const listeners = new Listeners(logger)
  const providers = new ProviderRegistry()
  let client: Client | undefined
  const temporal = (): Client => {
    client ??= lazyClient(options.temporal ?? {})
    return client
  }

  const framework: Framework = {
    config,
    db: connection.db,
    modelDb: modelConnection.db,
    tables,
    cache: postgresCache(connection.db, tables, config.cache_prefix),
    encryption,
    providers,
    models: new Map(Object.entries(options.models ?? {})),
    listeners,
    workflows: temporalStarters(temporal, config, logger),
    clock: options.clock ?? systemClock,
    logger,
  }
  const register = (key: string, source: ProviderSource, registration?: { replace?: boolean }): void => {
    providers.register(key, source, registration)
    const provider = providers.get(key)
    if (hasScheduledSync(provider))
      for (const eventClass of provider.syncItemEvents?.() ?? []) listeners.registerItemClass(eventClass)
  }
  for (const [key, source] of Object.entries({ ...inConfig, ...options.providers })) register(key, source)
  const target = {
    sql: connection.sql,
    tablePrefix: config.table_prefix,
    ...(options.schema === undefined ? {} : { schema: options.schema }),
  }

  const integrations: Integrations = {
    config,
    create: (integration) => createIntegration(framework, integration),
    find: (id) => findIntegrationById(framework, id),
    get: (id) => getIntegration(framework, id),
    list: (filter) => listIntegrations(framework, filter),
    update: (id, patch) => updateIntegrationRow(framework, id, patch),
    register,
    on: (key: EventKey, listener: Listener, listenerOptions?: ListenerOptions) =>
      listeners.on(key, listener, listenerOptions),
    off: (key, listener) => listeners.off(key, listener),
    webhooks: {
      receive: (delivery) => receiveDelivery(framework, delivery),
      wakePending: () => wakePendingInboxes(framework),
    },
    syncs: { start: (integrationId) => startSyncNow(framework, integrationId) },
    migrate: () => migrate(target),
    async ready() {
      await checkConnection(connection)
      await assertMigrated(target)
      await verifyKeys(framework)
    },
    async close() {
      if (client !== undefined) await framework.workflows.close()
      await Promise.all([connection.close(), modelConnection.close()])
    },
  }
  PARTS.set(integrations, { framework, temporal: options.temporal ?? {}, client: temporal })
  return integrations
}

/** What a worker needs beyond the public object. */
export interface Parts {
  readonly framework: Framework
  readonly temporal: TemporalOptions
  readonly client: () => Client
}

const PARTS = new WeakMap<Integrations, Parts>()

/** For worker.ts: the object's inside. Not exported from the package. */
export function partsOf(integrations: Integrations): Parts {
  const parts = PARTS.get(integrations)
  if (parts === undefined) throw new TypeError('expected an object made by createIntegrations() of this very package')
  return parts
}

/** Nothing mounts middleware yet, and a route that looks protected must not be open. */
function refuseMiddleware({ webhook }: Config): void {
  if (webhook.middleware.length === 0) return
  throw new InvalidConfiguration([
    {
      key: 'webhook.middleware',
      expected: 'an empty list: this version mounts no middleware; put your own before createApi()',
      received: JSON.stringify(webhook.middleware),
    },
  ])
}

function defaultLogger(): Logger {
  return pino({ level: process.env.LOG_LEVEL ?? 'info', base: null, timestamp: pino.stdTimeFunctions.isoTime })
}
