/**
 * What every operation and activity works with: its first argument. Made once by `createIntegrations()`.
 */
import type { CacheStore } from './cache/store.ts'
import type { Config } from './config/schema.ts'
import type { Clock, Logger } from './core/logger.ts'
import type { Database } from './db/client.ts'
import type { Tables } from './db/schema/tables.ts'
import type { Encryption } from './encryption.ts'
import type { Listeners } from './events/listeners.ts'
import type { MappedModel } from './providers/mapped-model.ts'
import type { ProviderRegistry } from './providers/registry.ts'

/** How operations reach Temporal; the only implementation that talks to a server is temporal/starters.ts. */
export interface WorkflowStarters {
  /**
   * Tells an integration's inbox that rows wait for it. Returns at once and never throws: the row is stored, so a wake-up
   * that fails is tried again in the background, and recovery sweeps what is left.
   */
  wakeInbox(integrationId: number): void
  /**
   * Starts a run, on the queue of its provider. Its id is the overlap lock: a second start is refused by the server.
   *
   * @throws BackendUnreachable when Temporal does not answer within 5 s
   */
  startSync(integrationId: number, provider: string): Promise<'started' | 'already running'>
  /** Starts a host's own workflow as the handler of one webhook; a second start of the same attempt does nothing. */
  startHandler(handler: { workflow: string; taskQueue?: string }, input: HandlerInput): Promise<void>
  close(): Promise<void>
}

/** What a host's workflow gets as its one argument. The payload stays in the row: read it in an activity. */
export interface HandlerInput {
  readonly webhookId: number
  readonly integrationId: number
  readonly eventType: string | null
}

export interface Framework {
  readonly config: Config
  readonly db: Database
  /** For the host's models and their mappings: a host's locked table must not hold up our own statements. */
  readonly modelDb: Database
  readonly tables: Tables
  readonly cache: CacheStore
  readonly encryption: Encryption
  readonly providers: ProviderRegistry
  readonly models: ReadonlyMap<string, MappedModel>
  readonly listeners: Listeners
  readonly workflows: WorkflowStarters
  readonly clock: Clock
  readonly logger: Logger
}
