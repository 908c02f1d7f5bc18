/**
 * The contracts of a provider. A class implements `IntegrationProvider` and the others that fit. The guard of a contract looks at
 * the members, never at the class.
 */
import type { z } from 'zod'
import type { FailureClass } from '../calls/failure-class-rules.ts'
import type { RateLimit } from '../calls/rate-limit-rules.ts'
import { UnsupportedByProvider } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import type { IntervalBounds } from '../syncs/adaptive-rules.ts'
import { CONTRACT_VALUES, isWrongValue } from './contract-values.ts'
import type { Credentials, Integration } from './integration.ts'
import type { SyncItemEventClass } from './provider-events.ts'
import type { SignatureScheme } from './signatures/scheme-rules.ts'
import type { SyncSession } from './sync-session.ts'
import type { ChallengeAnswer, WebhookDoor } from './webhook-door.ts'
import type { WebhookRequest } from './webhook-request.ts'

export type Maybe<T> = T | Promise<T>

/** Every provider. All members are optional: a bare object can be a provider. */
export interface IntegrationProvider {
  /** For people; default: the identifier. */
  readonly label?: string
  /** True: the provider answers and takes the credentials. */
  healthCheck?(integration: Integration): Maybe<boolean>
  /** Checks credentials at create, update, exchange and refresh. */
  readonly credentialsSchema?: z.ZodType
  readonly metadataSchema?: z.ZodType
  /**
   * The provider's own page of a record, to which the dashboard links: an https address. Null: there is none, or it can't be told. It
   * makes no call.
   */
  pageOf?(integration: Integration, record: ShownRecord): string | null
}

/** A record of ours that a person looks at. */
export interface ShownRecord {
  /** `delivery`: a webhook, `item`: a sync item, `mapping`: what an external id stands for. */
  readonly kind: 'delivery' | 'item' | 'mapping'
  /** The event type of a delivery, the event class of an item, the host's model of a mapping. */
  readonly type: string | null
  readonly externalId: string | null
  /** What was delivered or listed, where it is JSON; null of a mapping, and once it is erased. */
  readonly payload: Json
}

/** OAuth 2.0 authorization code flow (RFC 6749, section 4.1). */
export interface HasOAuth2 extends IntegrationProvider {
  authorizationUrl(
    integration: Integration,
    redirectUri: string,
    state: string,
    pkce?: { readonly codeChallenge: string; readonly codeChallengeMethod: 'S256' },
  ): Maybe<string>
  /** The returned keys are merged into the credentials. */
  exchangeCode(
    integration: Integration,
    code: string,
    redirectUri: string,
    pkce?: { readonly codeVerifier: string },
  ): Promise<Credentials>
  refreshToken(integration: Integration): Promise<Credentials>
  revokeToken(integration: Integration): Promise<void>
  /** Seconds before expiry at which a token is refreshed. */
  refreshThreshold(): number
  readonly pkce?: 'S256' | undefined
  /** RFC 9207: compared with the callback's `iss`. */
  readonly issuer?: string
  /** Seconds that a refresh token may lie unused; null: for ever. */
  refreshTokenMaxIdle?(): number | null
  /**
   * Whether this integration needs a person's authorization; default: true. False where its credentials hold another way in,
   * such as an API key. Asked often, so it looks at the integration alone. What throws counts as true.
   */
  needsAuthorization?(integration: Integration): boolean
  /**
   * Whether `refreshToken()` obtains the tokens of this integration without a person, such as by client credentials: then it is also
   * asked where there is no token yet, and a refusal opens an incident. Default: false.
   */
  obtainsTokens?(integration: Integration): boolean
  /**
   * For the doctor: whether our client has what it proves itself with, such as a secret from the environment. It asks no server.
   *
   * @throws InvalidArgumentException that names what is missing; anything else counts as nothing found
   */
  checkClient?(integration: Integration): Maybe<void>
}

/** Which attempt at which webhook a handler is called for. */
export interface WebhookContext {
  readonly webhookId: number
  readonly deliveryId: string
  readonly eventType: string | null
  /** From 1. */
  readonly attempt: number
  /** Aborted when `webhook.handler_timeout` is over: the attempt has failed, and its late result is dropped. */
  readonly signal: AbortSignal
  /** Whether it says only what we wrote ourselves. False, too, where the provider can't say. */
  readonly isOwn: boolean
}

/** What a provider is asked about, for {@link RecognisesEchoes}. */
export type Told =
  /** The decoded answer of a call that said `writes`. */
  | { readonly kind: 'answer'; readonly body: Json }
  | { readonly kind: 'delivery'; readonly request: WebhookRequest }
  /** A sync item: the `type` of its event and its payload. */
  | { readonly kind: 'item'; readonly eventClass: string; readonly payload: Json }

/** A provider that knows a record again, so that what we wrote ourselves is told from news. Rule: docs/behaviour/echoes.md. */
export interface RecognisesEchoes extends IntegrationProvider {
  /**
   * The record that it tells of, and what it says about it; null: it tells of none, and is not judged.
   *
   * The content must hold everything that may matter to a host, and be the same whichever way it came; the record's version or the
   * time of its last change, too, if all ways tell it. Two equal contents of one record are taken for the same news. What throws
   * fails the attempt.
   */
  toldRecord(told: Told): { readonly key: string; readonly content: Json } | null
}

export type HandleWebhook = (
  integration: Integration,
  request: WebhookRequest,
  context: WebhookContext,
) => Maybe<unknown>

/**
 * The record that a payload is a version of; null: not judged. A version strictly below the highest one handled for the same key is
 * not handled: its webhook is `processed` with the result `stale`. An equal one runs.
 *
 * Instants (ISO 8601) are compared as instants, numbers as numbers, anything else by code unit.
 */
export type StaleGuard = (payload: Json) => { readonly key: string; readonly version: string | number } | null

/** A function, or the name of a workflow of the host's own that is started once per webhook. */
export type WebhookHandler =
  | HandleWebhook
  | ({ readonly handle: HandleWebhook } & WebhookHandlerOptions)
  | ({ readonly workflow: string; readonly taskQueue?: string } & WebhookHandlerOptions)

export interface WebhookHandlerOptions {
  readonly staleGuard?: StaleGuard
  /** A delivery that says only what we wrote ourselves is not handled: it is `processed` with the result `own`. Default false. */
  readonly skipOwn?: boolean
}

/** One event of a delivery that brings several. */
export interface WebhookPart {
  /** Its own id: the same id in another delivery is a repeat. Null: the delivery's id and its number. */
  readonly id: string | null
  readonly type: string | null
  /** What its handler gets as the body: text and bytes as they are, anything else as JSON. Not empty. */
  readonly payload: string | Uint8Array | Exclude<Json, string>
}

export interface HandlesWebhooks extends IntegrationProvider {
  /** How its deliveries are signed. This, `verifyWebhookSignature()` or both. Rule: docs/behaviour/webhook-signatures.md, "Schemes". */
  readonly signature?: SignatureScheme
  /** The secrets in force, or public keys, that `signature` is checked by. Default: {@link activeWebhookSecrets} of the credentials. */
  webhookSecrets?(integration: Integration, request: WebhookRequest): readonly string[]
  /** A check of the provider's own, beside `signature` or in place of it. Only a returned `true` lets a delivery in; throwing counts as false. */
  verifyWebhookSignature?(integration: Integration, request: WebhookRequest): Maybe<boolean>
  /** Called when no handler is declared for the type. Its result is kept in the operation log. */
  handleWebhook(integration: Integration, request: WebhookRequest, context: WebhookContext): Maybe<unknown>
  resolveWebhookEvent?(request: WebhookRequest): string | null
  /** The provider's own id of a delivery, which makes repeats one row; null: the body's digest. */
  webhookDeliveryId?(request: WebhookRequest): string | null
  /**
   * Whether the signature covers the delivery id; default: true. False (the id is in an unsigned header): the same
   * signed bytes under another id are a repeat for `webhook.replay_window` seconds, so that a delivery can't be replayed by
   * renaming it.
   */
  readonly deliveryIdSigned?: boolean
  /**
   * Exactly what the signature covers; default: what `signature` says, or the raw body. For a provider with
   * `deliveryIdSigned = false` and a check of its own that covers more than the body (a time, the query) or less. Asked once the
   * signature has verified.
   */
  webhookSignedBytes?(request: WebhookRequest): Uint8Array | string
  /**
   * The events of a delivery that brings several: each is a webhook of its own, stored together with the others. An empty list:
   * there is nothing to store. Asked once the signature has verified; what throws leaves the delivery whole, so that none is lost.
   */
  splitWebhook?(request: WebhookRequest): readonly WebhookPart[]
  /**
   * Whether an event is wanted; default: each is. One that is not is answered as accepted, counted, and not stored. Asked for each part
   * of a delivery. What throws counts as true.
   */
  acceptsWebhook?(integration: Integration, request: WebhookRequest): boolean
  /**
   * Events of one integration and key are handled one after the other, in the order of arrival; null, the default: in any order. With
   * `coalesce` the newest of those that wait is handled, the others are settled without a run. Asked for each part of a delivery. What
   * throws counts as null.
   */
  orderingKey?(request: WebhookRequest): string | { readonly key: string; readonly coalesce: boolean } | null
  webhookHandlers?(): Record<string, WebhookHandler>
  /** The methods that the door takes, and what it answers. Default: GET and POST; 200 or 403, and JSON. */
  readonly webhookDoor?: WebhookDoor
  /**
   * Answers a request that asks whether the address is ours, before the signature is looked at; null: an ordinary delivery. The short
   * form of `webhookDoor.handshake()`, which is asked first.
   */
  answerWebhookChallenge?(integration: Integration, request: WebhookRequest): Maybe<ChallengeAnswer | null>
  /** Headers that the provider sends beside the signature, such as the event's type: for the dashboard's test console. */
  testWebhookHeaders?(delivery: TestWebhook): Readonly<Record<string, string>>
  /** Bodies to try it with in the test console. */
  sampleWebhooks?(): readonly WebhookSample[]
}

/** A delivery that an operator makes. */
export interface TestWebhook {
  /** Its type; null: not said. */
  readonly event: string | null
  /** A UUID of this delivery alone. */
  readonly deliveryId: string
}

export interface WebhookSample {
  /** As the console names it. */
  readonly name: string
  readonly event: string | null
  readonly body: Json
}

/** A delivery that the provider's API still knows. */
export interface MissedWebhook {
  /** The id that its delivery would have had: a delivery that has arrived is known by it. */
  readonly deliveryId: string
  readonly eventType: string | null
  /** Text or bytes as they would have been delivered; anything else is stored as JSON. */
  readonly payload: string | Uint8Array | Exclude<Json, string>
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  readonly occurredAt: Date
}

/** A delivery whose content costs a call of its own, which is only made for one that has not arrived. */
export interface ListedWebhook extends Omit<MissedWebhook, 'payload' | 'headers'> {
  /** Null: the provider's API has forgotten it meanwhile. */
  load(): Promise<Pick<MissedWebhook, 'payload' | 'headers'> | null>
}

/** A provider whose API lists what it has, or should have, delivered. */
export interface ReconcilesWebhooks extends HandlesWebhooks {
  /** Seconds back from now beyond which the API knows nothing. */
  readonly reconcileLookbackSeconds: number
  /**
   * Metadata key that names the webhook whose deliveries are listed. An integration with neither this key nor a registered webhook
   * (`ManagesWebhooks`) is skipped. Left out: the API lists deliveries of any webhook.
   */
  readonly reconcileWebhookKey?: string
  /** Oldest first, `since` inclusive, `until` exclusive. Its calls go through `integration.request()`. */
  missedWebhooks(
    integration: Integration,
    window: {
      readonly since: Date
      readonly until: Date
      /** The provider's id of the webhook that is registered for the integration (`ManagesWebhooks`); null or left out: none is. */
      readonly subscriptionId?: string | null
      readonly signal: AbortSignal
    },
  ): AsyncIterable<MissedWebhook | ListedWebhook>
}

/** What a provider delivers by: its own record of where deliveries go. */
export interface WebhookSubscription {
  readonly id: string
  /** Where it delivers. */
  readonly url: string
  /** When it ends unless it is renewed; null: never. Undefined: the answer does not say, and what was answered before counts. */
  readonly expiresAt?: Date | null | undefined
  /** False: it is switched off, or is not as the adapter wants it, such as for its types of events. Then it is renewed. Default true. */
  readonly isIntact?: boolean
}

/** What a subscription is to be like. */
export interface WantedSubscription {
  /** The address of this integration's door. */
  readonly url: string
  /** What the provider signs with; null unless `webhookSecretFrom` is `us`. */
  readonly secret: string | null
  readonly signal: AbortSignal
}

/**
 * A provider at which webhooks are registered by its API. Its calls go through `integration.request()`.
 *
 * Rule: docs/behaviour/webhook-subscriptions.md.
 */
export interface ManagesWebhooks extends HandlesWebhooks {
  /** Who makes the secret that deliveries are signed with. `provider`: `createWebhookSubscription()` returns it. `none`: there is no secret. */
  readonly webhookSecretFrom: 'us' | 'provider' | 'none'
  createWebhookSubscription(
    integration: Integration,
    wanted: WantedSubscription,
  ): Promise<WebhookSubscription & { readonly secret?: string }>
  /** All that the credentials show, those of others too: ours are known by their URL. Null: the API has no list. */
  webhookSubscriptions(
    integration: Integration,
    options: { readonly signal: AbortSignal },
  ): Promise<readonly WebhookSubscription[] | null>
  /**
   * Makes it as it is wanted, and last as long as it can. Null: it is gone, or can't be changed; then another one is created, and
   * this one removed.
   */
  renewWebhookSubscription(
    integration: Integration,
    subscription: WebhookSubscription,
    wanted: WantedSubscription,
  ): Promise<WebhookSubscription | null>
  /** One that is gone is no error. */
  removeWebhookSubscription(
    integration: Integration,
    subscription: WebhookSubscription,
    options: { readonly signal: AbortSignal },
  ): Promise<void>
}

export interface DeclaresRateLimit extends IntegrationProvider {
  /** Null: no limit. */
  defaultRateLimit(): RateLimit | null
}

/** A limit that several integrations share. */
export interface RateLimitScope {
  /**
   * What they share, such as `app:<client id>`: integrations of the provider with an equal key share the limit. Only its digest is
   * stored and shown, so it may be an API key.
   */
  readonly key: string
  /** Obeyed over any span of its length, whichever window it names. */
  readonly limit: RateLimit
}

/** A provider that limits an OAuth app or a key, whatever integrations use it. Rule: docs/behaviour/shared-budgets.md. */
export interface SharesRateLimit extends IntegrationProvider {
  /** Beside the integration's own limit; null: this one shares none. Asked before each call, so it looks at the integration alone. */
  rateLimitScope(integration: Integration): RateLimitScope | null
  /** Whether a `throttle` speaks of the shared limit: then it quiets all that share it. Default: this integration alone. */
  isSharedThrottle?(error: unknown): boolean
}

/**
 * Which records stay silent. `except`: dot paths of the payload that do not count, such as `stats.views`; `*` is any key or element.
 *
 * Rule: docs/behaviour/sync-changes.md.
 */
export type SkipUnchanged = true | { readonly except: readonly string[] }

export interface HasScheduledSync extends DeclaresRateLimit {
  /** Lists everything and hands each item to the session. */
  sync(integration: Integration, session: SyncSession): Promise<void>
  /** The next cursor out of finished items' checkpoints. Associative, idempotent, in any order. */
  reduceCheckpoints(checkpoints: readonly Json[]): Json
  /**
   * True: the API lists in the order of the checkpoints, and all of it in one list. So what changes meanwhile comes at the end or,
   * read backwards, at the beginning, and the cursor may pass the moment at which the listing began. Default: it never does,
   * where it is a time.
   */
  readonly listsByCheckpoint?: boolean
  /** Records whose payload is as it was handled last are counted, not run. Default: each listed item runs. */
  readonly skipUnchanged?: SkipUnchanged
  /**
   * Minutes from the end of a run to the next; null: only by hand. A run begins with the next dispatch, each minute, so 1 gives a run
   * every other minute.
   */
  defaultSyncInterval?(): number | null
  /** The event classes that `sync()` dispatches, so that another process can read stored items. */
  syncItemEvents?(): readonly SyncItemEventClass[]
}

export interface HasIncrementalSync extends HasScheduledSync {
  /** Lists what changed since `session.cursor()`. */
  syncIncremental(integration: Integration, session: SyncSession): Promise<void>
}

/** A provider that can list a window of the past, apart from its cursor. */
export interface HasBackfill extends HasScheduledSync {
  /** Lists what changed at or after `from` and before `to`. */
  syncWindow(
    integration: Integration,
    session: SyncSession,
    window: { readonly from: Date; readonly to: Date },
  ): Promise<void>
}

/** A provider whose full listings show which records are gone. */
export interface HandlesMissing extends HasScheduledSync {
  /** Called with mapped external ids that two full listings in a row did not name, 500 at a time. Must be idempotent. */
  handleMissing(integration: Integration, externalIds: readonly string[]): Promise<void>
}

/**
 * One of several things that a provider syncs, such as its contacts: with a cursor, a schedule, runs and failures of its own.
 *
 * Rule: docs/behaviour/sync-streams.md.
 */
export interface SyncStream {
  /** As of {@link HasScheduledSync}, for this stream alone. */
  sync(integration: Integration, session: SyncSession): Promise<void>
  reduceCheckpoints(checkpoints: readonly Json[]): Json
  readonly listsByCheckpoint?: boolean
  readonly skipUnchanged?: SkipUnchanged
  /** Lists what changed since `session.cursor()`. */
  syncIncremental?(integration: Integration, session: SyncSession): Promise<void>
  /** As of {@link HasBackfill}. */
  syncWindow?(
    integration: Integration,
    session: SyncSession,
    window: { readonly from: Date; readonly to: Date },
  ): Promise<void>
  /** As of {@link HandlesMissing}. */
  handleMissing?(integration: Integration, externalIds: readonly string[]): Promise<void>
  /** The event classes that the stream dispatches. */
  readonly events?: readonly SyncItemEventClass[]
  /**
   * Seconds between full listings, at least 10, of a stream that has `syncIncremental()` and `model`: such a run calls `sync()`
   * without a cursor, and finds what is gone. Default: none.
   */
  readonly fullEvery?: number
  /** The host's model that the stream is mapped to: what `session.fullListing()` speaks for. */
  readonly model?: string
  /**
   * Seconds between runs, at least 10; null, the default: only by hand. With bounds the interval follows how often the stream
   * changes, and what the limits leave. Rule: docs/behaviour/sync-adaptive.md.
   */
  readonly everySeconds?: number | IntervalBounds | null
  /** Another stream of the provider, whose first run ends before this one's begins. */
  readonly after?: string
  /** `session.cursor()` lies this many seconds before the stored one, in each ISO 8601 time with a zone. Default 0. */
  readonly overlapSeconds?: number
  /** Items at once in a batch of this stream; default: `sync.item_concurrency`. */
  readonly itemConcurrency?: number
  /** Without a clean run for this long the stream is stale; default: `sync.stale_after_intervals` of its interval. */
  readonly staleAfterSeconds?: number
}

/** A provider with several streams, in place of one `sync()`. */
export interface HasStreams extends DeclaresRateLimit {
  /** By name: a letter, then letters, digits, `_` and `-`; at most 60 of them. */
  readonly streams: Readonly<Record<string, SyncStream>>
  /**
   * Calls that the syncs of all integrations together may make, less than what the provider allows: adaptive intervals share it,
   * and nothing else obeys it. Null, the default: each integration has its own limit alone.
   */
  syncQuota?(): RateLimit | null
}

/** A provider that knows its failures better than the default classifier. */
export interface ClassifiesFailures extends IntegrationProvider {
  /** Null defers. */
  classifyFailure(error: unknown): FailureClass | null
}

export interface RetryWait {
  /** By the framework's clock. */
  readonly now: Date
  /** `retry.retry_after_max_seconds`: no attempt waits for longer, whatever the provider asks for. */
  readonly longestSeconds: number
}

/** A provider that knows which of its errors are worth another attempt. At least one member. */
export interface CustomizesRetry extends IntegrationProvider {
  /** @param wait the wait before the next attempt: a provider that asks for a longer one may say no */
  isRetryable?(error: unknown, wait: RetryWait): boolean | null
  /**
   * @param attempt the one that failed, from 1
   * @param now by the framework's clock, for a provider that names a moment
   */
  retryDelayMs?(error: unknown, attempt: number, now: Date): number | null
}

/** The provider de-duplicates writes by a key header. */
export interface SupportsIdempotency extends IntegrationProvider {
  readonly supportsIdempotency: true
  readonly idempotencyHeader?: string
  readonly idempotencyWindowSeconds: number
}

export interface IdentifiesAuthenticatedUser extends IntegrationProvider {
  authenticatedUser(integration: Integration): Promise<AuthenticatedUser>
}

/** Dot paths whose values are never stored. At least one member. */
export interface RedactsRequestData extends IntegrationProvider {
  redactedRequestPaths?(): string[]
  redactedResponsePaths?(): string[]
}

/** Answers that are stored as a size note: `[METHOD:]path/*`, `*` within one segment. */
export interface LimitsRequestLogging extends IntegrationProvider {
  unloggedResponses(): string[]
}

interface ContractMembers {
  /** Members that stand for the contract: a provider with one of them must have all, the shared ones too. */
  readonly own: readonly string[]
  /** Required members of a contract that this one extends. */
  readonly shared?: readonly string[]
  /** One of its own members is enough. */
  readonly any?: boolean
}

const WEBHOOK_MEMBERS = ['signature or verifyWebhookSignature', 'handleWebhook']
const SYNC_MEMBERS = ['sync', 'reduceCheckpoints', 'defaultRateLimit']

const CONTRACTS = {
  HasOAuth2: { own: ['authorizationUrl', 'exchangeCode', 'refreshToken', 'revokeToken', 'refreshThreshold'] },
  HandlesWebhooks: { own: WEBHOOK_MEMBERS },
  ReconcilesWebhooks: { own: ['missedWebhooks', 'reconcileLookbackSeconds'], shared: WEBHOOK_MEMBERS },
  ManagesWebhooks: {
    own: [
      'webhookSecretFrom',
      'createWebhookSubscription',
      'webhookSubscriptions',
      'renewWebhookSubscription',
      'removeWebhookSubscription',
    ],
    shared: WEBHOOK_MEMBERS,
  },
  DeclaresRateLimit: { own: ['defaultRateLimit'] },
  SharesRateLimit: { own: ['rateLimitScope'] },
  HasScheduledSync: { own: ['sync', 'reduceCheckpoints'], shared: ['defaultRateLimit'] },
  HasIncrementalSync: { own: ['syncIncremental'], shared: SYNC_MEMBERS },
  HasBackfill: { own: ['syncWindow'], shared: SYNC_MEMBERS },
  HandlesMissing: { own: ['handleMissing'], shared: SYNC_MEMBERS },
  HasStreams: { own: ['streams'], shared: ['defaultRateLimit'] },
  ClassifiesFailures: { own: ['classifyFailure'] },
  CustomizesRetry: { own: ['isRetryable', 'retryDelayMs'], any: true },
  SupportsIdempotency: { own: ['supportsIdempotency', 'idempotencyWindowSeconds'] },
  IdentifiesAuthenticatedUser: { own: ['authenticatedUser'] },
  RedactsRequestData: { own: ['redactedRequestPaths', 'redactedResponsePaths'], any: true },
  LimitsRequestLogging: { own: ['unloggedResponses'] },
  RecognisesEchoes: { own: ['toldRecord'] },
} as const satisfies Record<string, ContractMembers>

/** The name of a contract, such as `HandlesWebhooks`. */
export type Contract = keyof typeof CONTRACTS

/** Names of the contracts that the provider implements. */
export function contractsOf(provider: IntegrationProvider): string[] {
  return Object.entries(CONTRACTS).flatMap(([contract, members]) =>
    implementsAll(provider, members) ? [contract] : [],
  )
}

/** Contracts that the provider implements by halves, with the members that are missing. Not those of a wrong value, which {@link wrongValues} names. */
export function incompleteContracts(provider: object): { contract: string; missing: string[] }[] {
  const isThere = (member: string): boolean =>
    has(provider, member) || member.split(' or ').some((either) => isWrongValue(provider, either))
  return Object.entries<ContractMembers>(CONTRACTS).flatMap(([contract, { own, shared = [], any = false }]) => {
    if (any || !own.some(isThere)) return []
    const missing = [...own, ...shared].filter((member) => !isThere(member))
    return missing.length > 0 ? [{ contract, missing }] : []
  })
}

function implementsAll(provider: object, { own, shared = [], any = false }: ContractMembers): boolean {
  if (any) return own.some((member) => has(provider, member))
  return [...own, ...shared].every((member) => has(provider, member))
}

type Guarded = IntegrationProvider

export const hasOAuth2 = (p: Guarded): p is HasOAuth2 => implementsAll(p, CONTRACTS.HasOAuth2)
export const handlesWebhooks = (p: Guarded): p is HandlesWebhooks => implementsAll(p, CONTRACTS.HandlesWebhooks)
export const reconcilesWebhooks = (p: Guarded): p is ReconcilesWebhooks =>
  implementsAll(p, CONTRACTS.ReconcilesWebhooks)
export const managesWebhooks = (p: Guarded): p is ManagesWebhooks => implementsAll(p, CONTRACTS.ManagesWebhooks)
export const declaresRateLimit = (p: Guarded): p is DeclaresRateLimit => implementsAll(p, CONTRACTS.DeclaresRateLimit)
export const sharesRateLimit = (p: Guarded): p is SharesRateLimit => implementsAll(p, CONTRACTS.SharesRateLimit)
export const hasScheduledSync = (p: Guarded): p is HasScheduledSync => implementsAll(p, CONTRACTS.HasScheduledSync)
export const hasIncrementalSync = (p: Guarded): p is HasIncrementalSync =>
  implementsAll(p, CONTRACTS.HasIncrementalSync)
export const hasBackfill = (p: Guarded): p is HasBackfill => implementsAll(p, CONTRACTS.HasBackfill)
export const handlesMissing = (p: Guarded): p is HandlesMissing => implementsAll(p, CONTRACTS.HandlesMissing)
export const hasStreams = (p: Guarded): p is HasStreams => implementsAll(p, CONTRACTS.HasStreams)
export const classifiesFailures = (p: Guarded): p is ClassifiesFailures =>
  implementsAll(p, CONTRACTS.ClassifiesFailures)
export const customizesRetry = (p: Guarded): p is CustomizesRetry => implementsAll(p, CONTRACTS.CustomizesRetry)
export const supportsIdempotency = (p: Guarded): p is SupportsIdempotency =>
  implementsAll(p, CONTRACTS.SupportsIdempotency)
export const identifiesAuthenticatedUser = (p: Guarded): p is IdentifiesAuthenticatedUser =>
  implementsAll(p, CONTRACTS.IdentifiesAuthenticatedUser)
export const redactsRequestData = (p: Guarded): p is RedactsRequestData =>
  implementsAll(p, CONTRACTS.RedactsRequestData)
export const limitsRequestLogging = (p: Guarded): p is LimitsRequestLogging =>
  implementsAll(p, CONTRACTS.LimitsRequestLogging)
export const recognisesEchoes = (p: Guarded): p is RecognisesEchoes => implementsAll(p, CONTRACTS.RecognisesEchoes)
export const hasHealthCheck = (p: Guarded): p is Guarded & Required<Pick<Guarded, 'healthCheck'>> =>
  has(p, 'healthCheck')

/**
 * The provider as the contract asked for.
 *
 * @throws UnsupportedByProvider naming the contract
 */
export function requireContract<P extends IntegrationProvider>(
  key: string,
  provider: IntegrationProvider,
  guard: (provider: IntegrationProvider) => provider is P,
  contract: string,
): P {
  if (!guard(provider)) throw new UnsupportedByProvider(key, contract)
  return provider
}

/** @param member `a or b`: either will do */
function has(provider: object, member: string): boolean {
  if (member.includes(' or ')) return member.split(' or ').some((either) => has(provider, either))
  const value = (provider as Record<string, unknown>)[member]
  return CONTRACT_VALUES[member]?.isAllowed(value) ?? typeof value === 'function'
}

/** Who the credentials belong to, as the provider says. */
export interface AuthenticatedUser {
  readonly id: string
  readonly name: string | null
  readonly email: string | null
  readonly username: string | null
  readonly raw?: Json
}
