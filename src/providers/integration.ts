/**
 * The handle of one integration: what providers, listeners and hosts work with.
 *
 * A handle is a snapshot of its row; shared state (cursor, counters, credentials) is decided in SQL, never from it.
 */
import type { z } from 'zod'
import type { CircuitOverride } from '../calls/admission/state-rules.ts'
import type { FailureClass } from '../calls/failure-class-rules.ts'
import type { RateLimit } from '../calls/rate-limit-rules.ts'
import type { Json } from '../framework/json.ts'
import type { HealthStatus } from '../integrations/rules.ts'
import type { AuthenticatedUser } from './contracts.ts'
import type { MappedModel, ModelRef } from './mapped-model.ts'
import type { ProviderEvent } from './provider-events.ts'

/** Provider credentials, decrypted. A plain object of at most 64 KiB. */
export type Credentials = Record<string, unknown>

export type ExternalId = string | number

export interface RequestOptions {
  /** What is sent; stored redacted in `request_data`. */
  readonly data?: Json | string | Uint8Array
  /** Attempts in all, 1 to 10. Default 3 for GET and HEAD, 1 for every other method. */
  readonly attempts?: number
  /** Serves a stored answer of the same call for this long: whole seconds of at least 1, or until a moment to come. */
  readonly cacheFor?: number | Date
  /** Serves a stored answer, however old, when the provider is away or asks for quiet. */
  readonly serveStale?: boolean
  /** Makes a write take effect at most once: 1 to 191 characters. Null and undefined: none. */
  readonly idempotencyKey?: string | null
  /** Id of the request row that this call repeats. */
  readonly retryOf?: number
  /** The host's record that the call is about. */
  readonly relatedTo?: { readonly type: string; readonly id: string | number }
  /**
   * The provider's record that the call writes, so that its echo is known; null: a new one, whose key the answer tells. For providers
   * with `toldRecord()`. `content`: what the record says afterwards, where the answer does not, such as of a deletion. `ifTold`: it is
   * left out with any other provider, which else refuses it: of a client that many providers share.
   */
  readonly writes?: { readonly record: string | null; readonly content?: Json; readonly ifTold?: true }
  /** Deadline of one attempt in milliseconds, 1 to 600,000. Default 30,000. */
  readonly timeoutMs?: number
  /** The caller's own reason to stop. */
  readonly signal?: AbortSignal
}

/** What a call learns about its attempt and may report about the answer. */
export interface RequestContext {
  /** To be sent to a provider that dedupes by it. */
  readonly idempotencyKey: string | null
  /** From 1. */
  readonly attempt: number
  /** Reaches public addresses only, and has the attempt's signal. */
  readonly fetch: typeof fetch
  /** As `fetch`, for bodies of up to `maxBytes` decoded bytes, 1 or more; `fetch` itself takes 10 MiB. */
  fetchUpTo(maxBytes: number): typeof fetch
  /** Aborted at the deadline and when the caller aborts: give it to the SDK or to `fetch`. */
  readonly signal: AbortSignal
  /** Says what can't be read off the returned value. A reported value wins; undefined never overwrites. */
  report(meta: {
    statusCode?: number | undefined
    providerRequestId?: string | undefined
    rateLimitRemaining?: number | undefined
    rateLimitResetAt?: Date | undefined
    retryAfterSeconds?: number | undefined
  }): void
}

/** The call itself: an SDK's method or a `fetch`. A returned `Response` is judged by its status and decoded. */
export type Call<T> = (context: RequestContext) => T | Promise<T>

/** What the caller of a call gets: what it returned; of a `Response` its body, JSON, text, or null for none. */
export type Decoded<T> = T extends Response ? Json : T

/**
 * A call step by step. Each step gives a new builder; the last one makes the call.
 *
 * @template Parsed what a schema makes of the answer; `undefined`: none was given
 */
export interface RequestBuilder<Parsed = undefined> {
  /** The answer is parsed by the schema. */
  as<S extends z.ZodType>(schema: S): RequestBuilder<{ readonly as: z.output<S> }>
  withCache(cacheFor: number | Date, options?: { serveStale?: boolean }): RequestBuilder<Parsed>
  withAttempts(attempts: number): RequestBuilder<Parsed>
  withData(data: NonNullable<RequestOptions['data']>): RequestBuilder<Parsed>
  relatedTo(type: string, id: string | number): RequestBuilder<Parsed>
  retryOf(requestId: number): RequestBuilder<Parsed>
  withIdempotencyKey(key: string | null): RequestBuilder<Parsed>
  writes(record: string | null): RequestBuilder<Parsed>
  withTimeout(timeoutMs: number): RequestBuilder<Parsed>
  /**
   * By a callback, or by a URL: then `data` is the query of GET, HEAD and DELETE, else the body. Without a target the endpoint is
   * the URL. The answer has the same type as that of `request()`.
   *
   * @example
   * const issue = await integration.at('https://api.acme.example/v1/issues/7').as(Issue).get()
   */
  readonly get: Send<Parsed>
  readonly post: Send<Parsed>
  readonly put: Send<Parsed>
  readonly patch: Send<Parsed>
  readonly delete: Send<Parsed>
  execute(method: string, target?: string | URL): Promise<Answered<Parsed, Response>>
  execute<R>(method: string, target: Call<R>): Promise<Answered<Parsed, R>>
}

/** The last step of a call. */
export interface Send<Parsed> {
  (target?: string | URL): Promise<Answered<Parsed, Response>>
  <R>(target: Call<R>): Promise<Answered<Parsed, R>>
}

/** A schema has the last word on the type, too. */
export type Answered<Parsed, R> = Parsed extends { readonly as: infer T } ? T : Decoded<R>

/** How the circuit breaker of an integration stands. */
export interface CircuitView {
  readonly override: CircuitOverride | null
  readonly overrideUntil: Date | null
  readonly state: 'closed' | 'open' | 'half_open'
  /** Upstream failures counted: in the window, or in a row. */
  readonly failures: number
  /** Percent of the window's outcomes; null without outcomes, and under the strategy `count`. */
  readonly failureRate: number | null
  readonly openedAt: Date | null
  /** When a probe may be made; null unless it is open. */
  readonly retryAt: Date | null
}

/** Which rate limit an integration is under, and how much of it is used. */
export interface RateLimitView {
  readonly source: 'override' | 'provider' | 'none'
  readonly limit: number | null
  readonly windowSeconds: number | null
  readonly window: 'fixed' | 'sliding' | null
  readonly used: number
  readonly overrideUntil: Date | null
  /** Who set the override, as the audit has it; null: no one did, or a host's code. */
  readonly setBy: string | null
  readonly setAt: Date | null
  readonly suppressedUntil: Date | null
  /** Null: it shares none. */
  readonly shared: SharedLimitView | null
}

/** The limit that an integration shares with others, and how much of it is used by all of them. */
export interface SharedLimitView {
  /** `<provider>/<digest of the key>` */
  readonly budget: string
  readonly source: 'override' | 'provider'
  readonly limit: number
  readonly windowSeconds: number
  /** Calls under way, and those that ended within the window. */
  readonly used: number
  /** Integrations whose callers wait for it. */
  readonly waiting: number
  readonly overrideUntil: Date | null
  readonly quietUntil: Date | null
}

/** What an idempotency key answered earlier. */
export interface PriorCall {
  readonly key: string
  /** `unknown`: in flight, crashed, or its effect is uncertain. */
  readonly priorState: 'recovered' | 'empty' | 'unparseable' | 'unknown'
  /** The stored body, redacted: parsed JSON; a text if it is not JSON; null if no body is stored. */
  readonly priorResponse: Json
  readonly priorRequestId: number | null
  readonly reservedAt: Date
}

/** An operation to be logged. */
export interface OperationInput {
  /** `import`, `export`, … */
  readonly operation: string
  readonly direction: 'inbound' | 'outbound'
  /** Default `processing`. */
  readonly status?: string
  /** At most 255 characters. */
  readonly summary?: string
  readonly externalId?: string
  readonly metadata?: Json
  /** What it has given, for one that has ended already. */
  readonly resultData?: Json
  /** What it has failed with, for one that has ended already. */
  readonly error?: string
  /** How long it took, for one that has ended already; else it is measured. */
  readonly durationMs?: number
  /** The log that it is a part of. Default: of the operation in whose `run()` it begins, else of the run whose item it belongs to. */
  readonly parentId?: number
}

export interface Operation {
  readonly id: number
  /**
   * @param outcome.result the same as `resultData`
   * @throws TypeError when it has ended already
   */
  succeed(outcome?: { summary?: string; metadata?: Json; resultData?: Json; result?: Json }): Promise<void>
  fail(error: unknown, outcome?: { summary?: string; metadata?: Json; resultData?: Json }): Promise<void>
  /** Work whose own operations become children of this one. */
  run<T>(work: () => Promise<T>): Promise<T>
}

export interface Integration {
  /** The id of its row. */
  readonly id: number
  /** The identifier of its provider. */
  readonly provider: string
  /** Its name, for people. */
  readonly name: string
  /** What the host keeps about it; never a secret. */
  readonly metadata: Readonly<Record<string, Json>>
  /** Whose it is, in the host's own words. */
  readonly owner: { readonly type: string; readonly id: number } | null
  /** The owner's type, as in `owner`; null: it has none. */
  readonly ownerType: string | null
  /** The owner's id, as in `owner`; null: it has none. */
  readonly ownerId: number | null
  /** False where a person or its health has switched it off. */
  readonly isActive: boolean
  /** When a person did; null: never. */
  readonly switchedOffAt: Date | null
  /** How its calls go. */
  readonly healthStatus: HealthStatus
  /** Failures of class `upstream` since the last success. */
  readonly consecutiveFailures: number
  /** When a call last failed so; null: never. */
  readonly lastErrorAt: Date | null
  /** Since when too many of its calls fail; null: the rate is not elevated. */
  readonly anomalyAlertedAt: Date | null
  /** Minutes between runs; null: the provider's own. */
  readonly syncIntervalMinutes: number | null
  /** Where the next incremental run begins; null: at the beginning. */
  readonly syncCursor: Json
  /** When the last clean run ended; null: never. */
  readonly lastSyncedAt: Date | null
  /** When the next run is due; null: none is. */
  readonly nextSyncAt: Date | null
  /** Runs that ended with failures since the last clean one. */
  readonly consecutiveSyncFailures: number
  /** Since when its syncs count as stale; null: they do not. */
  readonly syncStaleAlertedAt: Date | null
  /** As `overrideCircuit()` has set it; `circuit()` says what is in force. */
  readonly circuitOverride: string | null
  /** Until when; null: until it is taken away. */
  readonly circuitOverrideUntil: Date | null
  /** As `overrideRateLimit()` has stored it; `rateLimit()` says what is in force. */
  readonly rateLimitOverride: Json
  /** Until when; null: until it is taken away. */
  readonly rateLimitOverrideUntil: Date | null
  /** When it was stored. */
  readonly createdAt: Date
  /** When its row was last changed. */
  readonly updatedAt: Date

  /**
   * The framework's clock: it judges moments such as `token_expires_at`. In a test it is the kit's, which stands still.
   *
   * @example
   * const token_expires_at = new Date(integration.now().getTime() + expires_in * 1_000).toISOString()
   */
  now(): Date
  /**
   * The only door to the provider. Each attempt leaves one `integration_requests` row.
   *
   * @param endpoint logical name or URL path, as it is stored
   * @param method HTTP method or the SDK's word for it
   * @throws InvalidArgumentException before anything is sent; else the last attempt's error, unwrapped
   *
   * @example
   * const me = await integration.request('v1/me', 'GET', ({ fetch }) => fetch('https://api.acme.example/v1/me'))
   */
  request(endpoint: string, method: string, call: Call<Response>, options?: RequestOptions): Promise<Json>
  request<T>(endpoint: string, method: string, call: Call<T>, options?: RequestOptions): Promise<T>
  /**
   * As `request()`, the answer parsed by the schema.
   *
   * @throws SchemaDrift
   *
   * @example
   * const me = await integration.requestAs(Me, 'v1/me', 'GET', ({ fetch }) => fetch('https://api.acme.example/v1/me'))
   */
  requestAs<S extends z.ZodType>(
    schema: S,
    endpoint: string,
    method: string,
    call: Call<unknown>,
    options?: RequestOptions,
  ): Promise<z.output<S>>

  /**
   * A call step by step.
   *
   * @example
   * const ticket = await integration.at('https://api.acme.example/v1/tickets/7').as(Ticket).get()
   */
  at(endpoint: string): RequestBuilder
  /**
   * Counts a failure of a call made elsewhere; only `upstream` degrades health.
   *
   * @example
   * await integration.recordFailure('upstream')
   */
  recordFailure(failureClass: FailureClass): Promise<void>
  /**
   * Counts a success of a call made elsewhere.
   *
   * @example
   * await integration.recordSuccess()
   */
  recordSuccess(): Promise<void>
  /**
   * How the circuit breaker stands.
   *
   * @example
   * const { state, retryAt } = await integration.circuit()
   */
  circuit(): Promise<CircuitView>
  /**
   * Which rate limit counts, and how much of it is used.
   *
   * @example
   * const { limit, used } = await integration.rateLimit()
   */
  rateLimit(): Promise<RateLimitView>
  /**
   * Overrides the circuit breaker, until it is given back or until a moment.
   * Null gives the breaker back to itself: closed and empty.
   *
   * @example
   * await integration.overrideCircuit('forced_open', new Date('2031-06-01T12:00:00Z'))
   */
  overrideCircuit(to: CircuitOverride | null, until?: Date): Promise<void>
  /**
   * Overrides the rate limit, until it is given back or until a moment.
   * Null gives the provider's limit back.
   *
   * @example
   * await integration.overrideRateLimit(RateLimit.perMinute(10))
   */
  overrideRateLimit(limit: Pick<RateLimit, 'limit' | 'seconds' | 'window'> | null, until?: Date): Promise<void>
  /**
   * Overrides the limit that this integration shares, for all that share it.
   * Null gives the provider's limit back.
   *
   * @throws InvalidArgumentException when it shares none
   *
   * @example
   * await integration.overrideSharedRateLimit(RateLimit.perMinute(1_000))
   */
  overrideSharedRateLimit(limit: Pick<RateLimit, 'limit' | 'seconds' | 'window'> | null, until?: Date): Promise<void>
  /**
   * Logs work of the host's own, with its end.
   *
   * @example
   * const operation = await integration.startOperation({ operation: 'export', direction: 'outbound' })
   * await operation.succeed()
   */
  startOperation(operation: OperationInput): Promise<Operation>
  /**
   * What a key answered; null when it was never used.
   *
   * @example
   * const prior = await integration.idempotencyRecord('invoice-17')
   */
  idempotencyRecord(key: string): Promise<PriorCall | null>
  /**
   * The operator's way out: the key may be used again. False when there was none.
   *
   * @example
   * await integration.forgetIdempotencyKey('invoice-17')
   */
  forgetIdempotencyKey(key: string): Promise<boolean>

  /**
   * The decrypted credentials of this snapshot, with what came by way of this handle since: after a refresh or
   * `updateCredentials()` the next attempt finds the new ones.
   *
   * @throws CredentialsUnreadable
   *
   * @example
   * const { token } = integration.credentialsArray()
   */
  credentialsArray(): Credentials
  /**
   * An access token that is good for a while: refreshed first when it expires within the provider's `refreshThreshold()`,
   * once however many ask. Null: there is none.
   *
   * @throws ReauthRequiredException; else what the refresh threw, when the present token is over
   *
   * @example
   * const token = await integration.getAccessToken()
   */
  getAccessToken(): Promise<string | null>
  /**
   * Whether this snapshot's token expires within `refreshThreshold()`. No expiry: never.
   *
   * @example
   * if (integration.tokenExpiresSoon()) await integration.refreshTokenIfNeeded()
   */
  tokenExpiresSoon(): boolean
  /**
   * Refreshes if `tokenExpiresSoon()` of the stored one. True: this handle has a newer token than before.
   *
   * @example
   * const isNewer = await integration.refreshTokenIfNeeded()
   */
  refreshTokenIfNeeded(): Promise<boolean>

  /**
   * Who the credentials belong to, as the provider says.
   *
   * @param cacheFor whole seconds of at least 1; without it the provider is asked, and nothing is kept
   * @throws UnsupportedByProvider, InvalidArgumentException
   *
   * @example
   * const { id, name } = await integration.authenticatedUser(3_600)
   */
  authenticatedUser(cacheFor?: number): Promise<AuthenticatedUser>
  /**
   * Whether the provider says who the credentials belong to.
   *
   * @example
   * if (integration.supportsAuthenticatedUser()) await integration.authenticatedUser()
   */
  supportsAuthenticatedUser(): boolean
  /**
   * Drops what `authenticatedUser()` has kept.
   *
   * @example
   * await integration.forgetAuthenticatedUser()
   */
  forgetAuthenticatedUser(): Promise<void>
  /**
   * What the provider gives out for a while, such as the token of an app's installation: kept encrypted, for every process, until
   * five minutes before its end, and obtained once however many ask at the same time. Changed credentials forget it. It is redacted
   * as the credentials are.
   *
   * @param name which one: 1 to 64 letters, digits, `_`, `-`, `.`
   * @throws InvalidArgumentException for another name, SchemaDrift for an answer of another shape; what `obtain()` threw
   *
   * @example
   * const token = await integration.cachedSecret('installation', async () => {
   *   const { token: value, expires_at } = await newToken(integration)
   *   return { value, expiresAt: new Date(expires_at) }
   * })
   */
  cachedSecret(name: string, obtain: () => Promise<{ value: string; expiresAt: Date }>): Promise<string>
  /**
   * Drops it everywhere: the provider has refused it.
   *
   * @example
   * await integration.forgetCachedSecret('installation')
   */
  forgetCachedSecret(name: string): Promise<void>
  /**
   * Merges the patch into the stored credentials (null removes a key), or replaces them. This handle has the new ones at once.
   *
   * @example
   * await integration.updateCredentials({ token, old_token: null })
   */
  updateCredentials(patch: Credentials, options?: { replace?: boolean }): Promise<void>
  /**
   * Sets the cursor. A run that began before it never touches the cursor again.
   *
   * @example
   * await integration.updateSyncCursor('2031-06-01T12:00:00Z')
   */
  updateSyncCursor(value: Json): Promise<void>

  /**
   * Maps an external id. The same model twice is fine.
   *
   * @throws MappingAlreadyClaimed
   *
   * @example
   * await integration.mapExternalId('tk_17', { type: 'ticket', id: '4' })
   */
  mapExternalId(externalId: ExternalId, model: ModelRef): Promise<void>
  /**
   * Points an external id at this model, also when another holds it.
   *
   * @example
   * await integration.remapExternalId('tk_17', { type: 'ticket', id: '5' })
   */
  remapExternalId(externalId: ExternalId, model: ModelRef): Promise<void>
  /**
   * Creates or updates the model behind an external id, once however many do it at the same moment.
   *
   * @example
   * const row = await integration.upsertByExternalId('tk_17', tickets, { title })
   */
  upsertByExternalId<Row, Attributes>(
    externalId: ExternalId,
    model: MappedModel<Row, Attributes>,
    attributes: Attributes | ((existing: Row | null) => Attributes | Promise<Attributes>),
  ): Promise<Row>
  /**
   * The oldest external id of a model; null without one.
   *
   * @example
   * const externalId = await integration.findExternalId({ type: 'ticket', id: '4' })
   */
  findExternalId(model: ModelRef): Promise<string | null>
  /**
   * The model behind an external id; null when it is not mapped or its row is gone.
   *
   * @example
   * const row = await integration.resolveMapping('tk_17', tickets)
   */
  resolveMapping<Row, Attributes>(externalId: ExternalId, model: MappedModel<Row, Attributes>): Promise<Row | null>
  /**
   * As `resolveMapping()` for many; every asked id is in the map.
   *
   * @example
   * const rows = await integration.resolveMappings(['tk_17', 'tk_18'], tickets)
   * rows.get('tk_17')
   */
  resolveMappings<Row, Attributes>(
    externalIds: readonly ExternalId[],
    model: MappedModel<Row, Attributes>,
  ): Promise<Map<string, Row | null>>

  /**
   * Tells the host something; its listeners are awaited in order.
   *
   * @throws what the first failing listener threw
   *
   * @example
   * await integration.emit(new TicketClosed(integration, ticket))
   */
  emit(event: ProviderEvent): Promise<void>
  /**
   * Switches it on: active, healthy, counters empty, due at once if it is scheduled.
   *
   * @example
   * await integration.enable()
   */
  enable(): Promise<void>
  /**
   * Switches it off: no scheduled work, no webhooks. Nothing is deleted.
   *
   * @example
   * await integration.disable()
   */
  disable(): Promise<void>
  /**
   * A new snapshot.
   *
   * @throws IntegrationNotFound
   *
   * @example
   * const now = await integration.refresh()
   */
  refresh(): Promise<Integration>
  /**
   * Identity only: credentials are never part of it.
   *
   * @example
   * JSON.stringify(integration) // {"id":7,"provider":"github","name":"Ours"}
   */
  toJSON(): { id: number; provider: string; name: string }
}
