/**
 * The handle of one integration: what providers, listeners and hosts work with.
 *
 * A handle is a snapshot of its row; shared state (cursor, counters, credentials) is decided in SQL, never from it.
 */
import type { z } from 'zod'
import type { HealthStatus } from '../core/health.ts'
import type { Json } from '../core/json.ts'
import type { ProviderEvent } from './events.ts'
import type { MappedModel, ModelRef } from './mapped-model.ts'

/** Provider credentials, decrypted. A plain object of at most 64 KiB. */
export type Credentials = Record<string, unknown>

export type ExternalId = string | number

export interface RequestOptions {
  /** What is sent; stored redacted in `request_data`. */
  readonly data?: Json | string | Uint8Array
  /** Attempts in all, 1 to 10. Default 3 for GET and HEAD, 1 for every other method. */
  readonly attempts?: number
  /** Id of the request row that this call repeats. */
  readonly retryOf?: number
  /** The host's record that the call is about. */
  readonly relatedTo?: { readonly type: string; readonly id: string | number }
  /** Deadline of one attempt in milliseconds, 1 to 600,000. Default 30,000. */
  readonly timeoutMs?: number
  /** The caller's own reason to stop. */
  readonly signal?: AbortSignal
}

/** What a call learns about its attempt and may report about the answer. */
export interface RequestContext {
  /** From 1. */
  readonly attempt: number
  /** Aborted at the deadline and when the caller aborts: give it to the SDK or to `fetch`. */
  readonly signal: AbortSignal
  /** Says what can't be read off the returned value. A reported value wins; undefined never overwrites. */
  report(meta: {
    statusCode?: number | undefined
    providerRequestId?: string | undefined
    retryAfterSeconds?: number | undefined
  }): void
}

/** The call itself: an SDK's method or a `fetch`. A returned `Response` is judged by its status and decoded. */
export type Call<T> = (context: RequestContext) => T | Promise<T>

export interface Integration {
  readonly id: number
  readonly provider: string
  readonly name: string
  readonly metadata: Readonly<Record<string, Json>>
  readonly owner: { readonly type: string; readonly id: number } | null
  readonly isActive: boolean
  readonly healthStatus: HealthStatus
  readonly syncIntervalMinutes: number | null
  readonly syncCursor: Json
  readonly lastSyncedAt: Date | null
  readonly nextSyncAt: Date | null
  readonly createdAt: Date

  /**
   * The only door to the provider. Each attempt leaves one `integration_requests` row.
   *
   * @param endpoint logical name or URL path, as it is stored
   * @param method HTTP method or the SDK's word for it
   * @throws InvalidArgumentException before anything is sent; else the last attempt's error, unwrapped
   */
  request<T>(endpoint: string, method: string, call: Call<T>, options?: RequestOptions): Promise<T>
  /** As `request()`, the answer parsed by the schema. @throws SchemaDrift */
  requestAs<S extends z.ZodType>(
    schema: S,
    endpoint: string,
    method: string,
    call: Call<unknown>,
    options?: RequestOptions,
  ): Promise<z.output<S>>

  /** The decrypted credentials of this snapshot. @throws CredentialsUnreadable */
  credentialsArray(): Credentials
  /** Merges the patch into the stored credentials (null removes a key), or replaces them. */
  updateCredentials(patch: Credentials, options?: { replace?: boolean }): Promise<void>
  /** Sets the cursor. A run that began before it never touches the cursor again. */
  updateSyncCursor(value: Json): Promise<void>

  /** Maps an external id. The same model twice is fine. @throws MappingAlreadyClaimed */
  mapExternalId(externalId: ExternalId, model: ModelRef): Promise<void>
  /** Points an external id at this model, whoever held it. */
  remapExternalId(externalId: ExternalId, model: ModelRef): Promise<void>
  /** Creates or updates the model behind an external id, once however many do it at the same moment. */
  upsertByExternalId<Row, Attributes>(
    externalId: ExternalId,
    model: MappedModel<Row, Attributes>,
    attributes: Attributes | ((existing: Row | null) => Attributes | Promise<Attributes>),
  ): Promise<Row>
  /** The oldest external id of a model; null without one. */
  findExternalId(model: ModelRef): Promise<string | null>
  /** The model behind an external id; null when it is not mapped or its row is gone. */
  resolveMapping<Row, Attributes>(externalId: ExternalId, model: MappedModel<Row, Attributes>): Promise<Row | null>
  /** As `resolveMapping()` for many; every asked id is in the map. */
  resolveMappings<Row, Attributes>(
    externalIds: readonly ExternalId[],
    model: MappedModel<Row, Attributes>,
  ): Promise<Map<string, Row | null>>

  /** Tells the host something; its listeners are awaited in order. @throws what the first failing listener threw */
  emit(event: ProviderEvent): Promise<void>
  /** Switches it on: active, healthy, counters empty, due at once if it is scheduled. */
  enable(): Promise<void>
  /** Switches it off: no scheduled work, no webhooks. Nothing is deleted. */
  disable(): Promise<void>
  /** A new snapshot. @throws IntegrationNotFound */
  refresh(): Promise<Integration>
  /** Identity only: credentials are never part of it. */
  toJSON(): { id: number; provider: string; name: string }
}
