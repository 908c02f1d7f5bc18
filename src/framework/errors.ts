/**
 * The errors that a user of the framework can meet.
 *
 * Each is told apart by its `code`, also across Temporal and HTTP, never by `instanceof`. Each message says what was wrong,
 * what is allowed and what was given. No field holds a credential; an integration appears as `{id, provider, name}`.
 * Rule: docs/behaviour/errors.md.
 */

import { field, isError } from './thrown.ts'

/** How an integration appears in errors, events and logs. */
export interface IntegrationIdentity {
  readonly id: number
  readonly provider: string
  readonly name: string
}

/**
 * Marks our errors, also those of another copy of this package. Without it a provider's own `rate_limit_exceeded` (SDKs use
 * such codes) would be taken for ours, and neither classified nor retried.
 */
const OURS = Symbol.for('durable-integrations.error')

/** What every error of the framework has in common. */
export abstract class IntegrationsError extends Error {
  /** Stable, in snake_case. The way to tell errors apart. */
  abstract readonly code: string

  static {
    Object.defineProperty(IntegrationsError.prototype, OURS, { value: true })
  }

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = new.target.name
  }
}

/** Whether `error` is ours and, given a code, that very one. Works on errors of another copy of this package too. */
export function isIntegrationsError(error: unknown, code?: string): error is IntegrationsError {
  if (!isError(error) || !(OURS in error)) return false
  return code === undefined || field(error, 'code') === code
}

/** An argument broke a documented rule; nothing was sent or stored. */
export class InvalidArgumentException extends IntegrationsError {
  override readonly code = 'invalid_argument'
  constructor(
    readonly argument: string,
    readonly reason: string,
    options?: { cause?: unknown },
  ) {
    super(`Invalid ${argument}: ${reason}`, options)
  }
}

export interface ConfigurationProblem {
  readonly key: string
  /** What is allowed. */
  readonly expected: string
  /** What was given, secrets masked. */
  readonly received: string
}

/** Every fault of the configuration at once. API, worker and CLI refuse to start with it. */
export class InvalidConfiguration extends IntegrationsError {
  override readonly code = 'invalid_configuration'
  constructor(readonly problems: readonly ConfigurationProblem[]) {
    super(
      `The configuration has ${problems.length} ${problems.length === 1 ? 'problem' : 'problems'}:\n${problems
        .map((problem) => `  ${problem.key}: expected ${problem.expected}, received ${problem.received}`)
        .join('\n')}`,
    )
  }
}

/** No provider is registered under the identifier. */
export class UnknownProvider extends IntegrationsError {
  override readonly code = 'unknown_provider'
  constructor(
    readonly provider: string,
    readonly registered: readonly string[],
  ) {
    super(
      `No provider is registered as "${provider}". Registered: ${registered.length > 0 ? registered.join(', ') : 'none'}. Add it under \`providers\` or call register().`,
    )
  }
}

/** The provider lacks a contract that the operation needs. */
export class UnsupportedByProvider extends IntegrationsError {
  override readonly code = 'unsupported_by_provider'
  constructor(
    readonly provider: string,
    readonly contract: string,
  ) {
    super(`The provider "${provider}" does not implement ${contract}.`)
  }
}

/** A provider can't be registered: bad identifier, taken key, or a contract implemented by halves. */
export class InvalidProvider extends IntegrationsError {
  override readonly code = 'invalid_provider'
  constructor(
    readonly provider: string,
    readonly reason: string,
  ) {
    super(`The provider "${provider}" can't be registered: ${reason}`)
  }
}

export class IntegrationNotFound extends IntegrationsError {
  override readonly code = 'integration_not_found'
  constructor(readonly integrationId: number) {
    super(`There is no integration with id ${integrationId}.`)
  }
}

/** A run of the integration is active, or a paused one holds its place. The operation is refused until that run has ended. */
export class IntegrationBusy extends IntegrationsError {
  override readonly code = 'integration_busy'
  constructor(
    readonly integrationId: number,
    readonly busyWith: 'sync run' | 'backfill' = 'sync run',
  ) {
    super(
      busyWith === 'backfill'
        ? `A backfill of integration ${integrationId} lives. Wait for its end, or use \`force\` (\`--force\`): it ends the backfill first.`
        : `A sync run of integration ${integrationId} lives, or a pause keeps one from starting. Wait for the run's end, or use \`force\` (\`--force\`): it ends the run first, and a pause with it.`,
    )
  }
}

/** What was asked for needs an integration that is switched on. */
export class IntegrationInactive extends IntegrationsError {
  override readonly code = 'integration_inactive'
  constructor(
    readonly integrationId: number,
    readonly by: 'its health' | 'an operator',
  ) {
    super(
      `An active integration is needed, ${integrationId} is ${by === 'its health' ? 'disabled by its health' : 'switched off'}; enable it first.`,
    )
  }
}

/** The server refuses the tokens that need no person: what the client proves itself with has to be put right. */
export class TokensRefused extends IntegrationsError {
  override readonly code = 'tokens_refused'
  constructor(
    readonly integrationId: number,
    /** The server's error code, or a sentence without a credential. */
    readonly reason: string,
    options?: { cause?: unknown },
  ) {
    super(
      `The authorization server refuses tokens to integration ${integrationId} (${reason}). Put right what the client proves itself with; it is asked again after a minute, or at once when the credentials change.`,
      options,
    )
  }
}

/** The authorization is no longer good. A person has to give it again; nothing is refreshed until then. */
export class ReauthRequiredException extends IntegrationsError {
  override readonly code = 'reauth_required'
  constructor(
    readonly integrationId: number,
    /** In a word or a sentence, without a credential; `invalid_grant` where the provider said only that. */
    readonly reason: string,
    options?: { cause?: unknown },
  ) {
    super(
      `Integration ${integrationId} has to be authorized again (${reason}). \`integrations oauth-link ${integrationId}\` prints a link for that.`,
      options,
    )
  }
}

/** How an authorization can fail, as the OAuth routes name it. */
export type OAuthFailureCode =
  | 'oauth_unsupported'
  | 'authorization_url_failed'
  | 'invalid_state'
  | 'authorization_denied'
  | 'authorization_failed'
  | 'invalid_issuer'
  | 'invalid_callback'
  | 'missing_code'
  | 'code_exchange_failed'
  | 'revoke_failed'
  | 'revoke_superseded'

/** A step of an authorization failed; nothing was stored. */
export class OAuthFailure extends IntegrationsError {
  constructor(
    override readonly code: OAuthFailureCode,
    message: string,
    /** The provider's own error code (RFC 6749, 4.1.2.1), of at most 64 of `[\w.-]`; null where it gave none. */
    readonly providerError: string | null = null,
    /** Null where the state did not tell whose it was. */
    readonly integrationId: number | null = null,
    options?: { cause?: unknown },
  ) {
    super(message, options)
  }
}

/** A link needs to know where the API is reached from outside. */
export class BaseUrlMissing extends IntegrationsError {
  override readonly code = 'base_url_missing'
  constructor(what = 'no link can be made') {
    super(
      `No base URL is configured, so ${what}. Give one such as "https://api.example.com" as the option baseUrl, or by INTEGRATIONS_BASE_URL.`,
    )
  }
}

/** The provider was asked to register, compare or remove the webhook of an integration, and that failed. */
export class WebhookSubscriptionFailed extends IntegrationsError {
  override readonly code = 'webhook_subscription_failed'
  constructor(
    readonly integrationId: number,
    readonly reason: string,
    options?: { cause?: unknown },
  ) {
    super(`The webhook subscription of integration ${integrationId} could not be looked after: ${reason}`, options)
  }
}

/** The stored credentials can't be read: unknown key, another row's text, a damaged or plain text. Never read as empty. */
export class CredentialsUnreadable extends IntegrationsError {
  override readonly code = 'credentials_unreadable'
  constructor(
    readonly integrationId: number,
    /** Id of the key that wrote them; null when the text is no envelope of ours. */
    readonly kid: string | null,
    readonly reason: string,
  ) {
    super(
      `The credentials of integration ${integrationId} can't be read${kid === null ? '' : ` with key "${kid}"`}: ${reason}`,
    )
  }
}

/** The key ring can't read what the database holds. The process refuses to start. */
export class EncryptionKeyMismatch extends IntegrationsError {
  override readonly code = 'encryption_key_mismatch'
  constructor(
    /** Keys whose canary does not decrypt: same id, other bytes. */
    readonly wrongKids: readonly string[],
    /** Keys that rows were written with and that the ring lacks. */
    readonly missingKids: readonly string[],
  ) {
    super(
      [
        'The encryption keys do not match this database.',
        wrongKids.length > 0 ? `Other bytes under the same id: ${wrongKids.join(', ')}.` : '',
        missingKids.length > 0 ? `Rows are written with keys that the ring lacks: ${missingKids.join(', ')}.` : '',
        'Give the keys that wrote it (encryptionKeys, INTEGRATIONS_ENCRYPTION_KEYS or INTEGRATIONS_ENCRYPTION_KEYS_FILE).',
      ]
        .filter((line) => line !== '')
        .join(' '),
    )
  }
}

/** A key ring that can't be used: none given, malformed, duplicates. Names key ids only, never key bytes. */
export class InvalidEncryptionKeys extends IntegrationsError {
  override readonly code = 'invalid_encryption_keys'
  constructor(readonly reason: string) {
    super(
      `The encryption keys can't be used: ${reason} Expected "kid:base64[,kid:base64...]", 32 bytes each, the first one writes. A new one: node -e "console.log('k1:' + require('crypto').randomBytes(32).toString('base64'))"`,
    )
  }
}

/** Credentials or metadata do not fit what the provider declares. Names paths, never values. */
export class InvalidCredentials extends IntegrationsError {
  override readonly code = 'invalid_credentials'
  constructor(
    readonly provider: string,
    readonly field: 'credentials' | 'metadata',
    readonly issues: readonly { path: string; message: string }[],
  ) {
    super(
      `The ${field} do not fit what the provider "${provider}" declares: ${issues.map((issue) => `${issue.path}: ${issue.message}`).join('; ')}`,
    )
  }
}

/** A provider answered with a status of 400 or more. Its cause, if any, says why the body could not be read. */
export class HttpError extends IntegrationsError {
  override readonly code = 'http_error'
  constructor(
    readonly status: number,
    readonly headers: Headers,
    readonly body: unknown,
    { hint, ...options }: { cause?: unknown; hint?: string } = {},
  ) {
    super(`The provider answered ${status}.${hint === undefined ? '' : ` ${hint}`}`, options)
  }
}

/** An answer did not fit the schema given to `requestAs()`. */
export class SchemaDrift extends IntegrationsError {
  override readonly code = 'schema_drift'
  constructor(
    readonly endpoint: string,
    readonly issues: readonly { path: string; message: string }[],
  ) {
    super(
      `The answer of ${endpoint} does not fit the expected schema: ${issues.map((issue) => `${issue.path}: ${issue.message}`).join('; ')}`,
    )
  }
}

/** A call did not end within its `timeoutMs`. */
export class RequestTimeout extends IntegrationsError {
  override readonly code = 'request_timeout'
  constructor(
    readonly endpoint: string,
    readonly timeoutMs: number,
  ) {
    super(`${endpoint} did not answer within ${timeoutMs} ms.`)
    // Classifiers know a deadline by this word, whatever set it.
    this.name = 'TimeoutError'
  }
}

/** No capacity within `rate_limiting.max_wait_seconds`. Inside a sync the work is deferred, not failed. */
export class RateLimitExceededException extends IntegrationsError {
  override readonly code = 'rate_limit_exceeded'
  /** By the budget that the integration shares with others, not by its own limit. */
  readonly isShared: boolean
  constructor(
    readonly integration: IntegrationIdentity,
    readonly retryAfterSeconds: number,
    /** Null when the provider's own limit (suppression) holds the calls back. */
    readonly rateLimit: { limit: number; seconds: number; window: 'fixed' | 'sliding' } | null,
    { isShared = false, ...options }: { cause?: unknown; isShared?: boolean } = {},
  ) {
    super(
      `The ${isShared ? 'rate limit that others share with' : 'rate limit of'} integration ${integration.id} (${integration.provider}) is exhausted; capacity returns in ${retryAfterSeconds} s.`,
      options,
    )
    this.isShared = isShared
  }
}

/** The circuit breaker lets no call through. */
export class CircuitOpenException extends IntegrationsError {
  override readonly code = 'circuit_open'
  constructor(
    readonly integration: IntegrationIdentity,
    /** Null when an operator forced it open. */
    readonly openedAt: Date | null,
    readonly cooldownSeconds: number,
    /** Null when it is not known: forced open, or a probe is under way. */
    readonly retryAfterSeconds: number | null,
  ) {
    super(
      `The circuit of integration ${integration.id} (${integration.provider}) is open${retryAfterSeconds === null ? '' : `; a probe may be made in ${retryAfterSeconds} s`}.`,
    )
  }
}

/** The idempotency key is spent. What it answered, if that is known, is in `priorResponse`. */
export class IdempotencyConflict extends IntegrationsError {
  override readonly code = 'idempotency_conflict'
  readonly integrationId: number
  readonly key: string
  readonly priorState: 'recovered' | 'empty' | 'unparseable' | 'unknown'
  /** As stored, redacted. */
  readonly priorResponse: unknown
  readonly priorRequestId: number | null
  readonly reservedAt: Date
  constructor(conflict: {
    integrationId: number
    key: string
    priorState: 'recovered' | 'empty' | 'unparseable' | 'unknown'
    priorResponse: unknown
    priorRequestId: number | null
    reservedAt: Date
    /** For the message: the provider knows the key, so the same call may be made again. */
    isRepeatable?: boolean
    /** For the message: until when another call with the key may be under way. */
    underWayUntil?: Date | null
  }) {
    super(
      `The idempotency key "${conflict.key}" of integration ${conflict.integrationId} was used at ${conflict.reservedAt.toISOString()}: ${
        conflict.priorState === 'unknown'
          ? adviceOnUnknown(conflict)
          : `request ${conflict.priorRequestId} has its answer`
      }.`,
    )
    this.integrationId = conflict.integrationId
    this.key = conflict.key
    this.priorState = conflict.priorState
    this.priorResponse = conflict.priorResponse
    this.priorRequestId = conflict.priorRequestId
    this.reservedAt = conflict.reservedAt
  }
}

/** To free a key while its call is under way lets the write happen twice; where the call can be repeated there is no need to. */
function adviceOnUnknown({
  isRepeatable = false,
  underWayUntil = null,
}: {
  readonly isRepeatable?: boolean
  readonly underWayUntil?: Date | null
}): string {
  const until = underWayUntil?.toISOString()
  if (isRepeatable && until !== undefined)
    return `another call with it may be under way until ${until}. Call again with the same key then`
  if (isRepeatable) return 'whether it took effect is not known. Call again with the same key'
  return until === undefined
    ? 'whether it took effect is not known. Ask the provider; forgetIdempotencyKey() frees it'
    : `its call may be under way until ${until}. If its effect is not known then, ask the provider; forgetIdempotencyKey() frees it`
}

/** A keyed write inside an open transaction: a rollback would forget what the provider has done. */
export class IdempotencyInsideTransaction extends IntegrationsError {
  override readonly code = 'idempotency_inside_transaction'
  constructor(readonly key: string) {
    super(`The call with the idempotency key "${key}" is made inside an open transaction. Make it after the commit.`)
  }
}

/** A URL that must not be reached. */
export class EgressRefused extends IntegrationsError {
  override readonly code = 'egress_refused'
  constructor(
    readonly host: string,
    readonly reason: string,
    options?: { cause?: unknown },
  ) {
    super(`The host "${host}" is not reached: ${reason}.`, options)
  }
}

/** A body that is larger, decoded, than the call takes. What came of it is dropped. */
export class ResponseTooLarge extends IntegrationsError {
  override readonly code = 'response_too_large'
  constructor(readonly maxBytes: number) {
    super(`The answer's body has more than ${maxBytes} bytes, which is all that is read.`)
  }
}

/** Thrown by a call, or found among its causes: asks for another attempt, whatever the error's class. */
export class RetryableError extends IntegrationsError {
  override readonly code = 'retryable'
  constructor(
    message: string,
    readonly options: {
      readonly retryAfterSeconds?: number
      /** Only lowers the call's own number. */
      readonly maxAttempts?: number
      readonly cause?: unknown
    } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
  }
}

/** Thrown by an item's listener, or found among its causes: another attempt would end alike, so the item fails at once. */
export class NonRetryable extends IntegrationsError {
  override readonly code = 'non_retryable'
}

/** The host's own door did not take a message. Rule: docs/behaviour/forwarding.md. */
export class ForwardFailed extends IntegrationsError {
  override readonly code = 'forward_failed'
  constructor(
    /** Of the URL. */
    readonly host: string,
    why: string,
    /** As its answer says; null: it says nothing. */
    readonly retryAfterSeconds: number | null,
    options?: { cause?: unknown },
  ) {
    super(`A message could not be handed over: ${host} ${why}.`, options)
  }
}

/**
 * Thrown by an item's listener, or found among its causes: what the item refers to is not there yet. It is tried again soon,
 * which counts as no failure, up to a limit.
 */
export class NotYet extends IntegrationsError {
  override readonly code = 'not_yet'
  /** At least 1. */
  readonly retryAfterSeconds: number
  constructor(
    message: string,
    { retryAfterSeconds = NOT_YET_SECONDS, ...options }: { retryAfterSeconds?: number; cause?: unknown } = {},
  ) {
    super(message, options)
    this.retryAfterSeconds = retryAfterSeconds
  }
}

const NOT_YET_SECONDS = 15

/** A session was used after the provider's `sync()` had returned. Await every `dispatch()`. */
export class SyncSessionClosed extends IntegrationsError {
  override readonly code = 'sync_session_closed'
  constructor() {
    super('The sync session is closed: await every dispatch() before sync() returns.')
  }
}

/** Why `paginate()` goes no further. Rule: docs/behaviour/sync-listing.md, "Lists of pages". */
export type PaginationFault =
  | 'loop'
  | 'repeated'
  | 'too_many_pages'
  | 'other_origin'
  | 'tied'
  | 'unsorted'
  | 'window_full'
  | 'unreadable'

/** A list repeats, loops, has no end, or can't be listed without losing rows. The bookmark stays at the page before. */
export class PaginationFailed extends IntegrationsError {
  override readonly code = 'pagination_failed'
  constructor(
    readonly fault: PaginationFault,
    reason: string,
  ) {
    super(`The list can't be listed to its end: ${reason}.`)
  }
}

/** A later try of the listing has begun: what this one still has to say is not wanted any more. */
export class ListingSuperseded extends IntegrationsError {
  override readonly code = 'listing_superseded'
  constructor(readonly syncLogId: number) {
    super(
      `A later try of the listing of sync run ${syncLogId} has begun, or the run is over; this one stores nothing more.`,
    )
  }
}

export class SyncItemNotFound extends IntegrationsError {
  override readonly code = 'sync_item_not_found'
  constructor(readonly id: number) {
    super(`There is no sync item with id ${id}.`)
  }
}

export class SyncRunNotFound extends IntegrationsError {
  override readonly code = 'sync_run_not_found'
  constructor(readonly id: number) {
    super(`There is no sync run with id ${id}.`)
  }
}

/** There is nothing to confirm of what a full listing did not name. */
export class MissingNotWithheld extends IntegrationsError {
  override readonly code = 'missing_not_withheld'
  constructor(
    readonly syncLogId: number,
    reason: string,
  ) {
    super(
      `Of run ${syncLogId} there is nothing to confirm: ${reason}. A run whose metadata has \`missing_withheld\`, the newest full listing, is allowed.`,
    )
  }
}

/** Only a failed item is retried or skipped, and a retry needs its payload. */
export class SyncItemNotFailed extends IntegrationsError {
  override readonly code = 'sync_item_not_failed'
  constructor(
    readonly id: number,
    readonly status: string,
    /** Its payload has been erased. */
    readonly isErased = false,
  ) {
    super(
      isErased
        ? `Sync item ${id} has been erased: there is nothing left to retry. It can be skipped.`
        : `Sync item ${id} is ${status}; only one that is failed can be retried or skipped.`,
    )
  }
}

/**
 * The retry of an item that has a newer copy in a later run: it would write older data over newer. `force` retries it all the
 * same.
 */
export class SyncItemOutdated extends IntegrationsError {
  override readonly code = 'sync_item_outdated'
  constructor(
    readonly id: number,
    /** The later item. */
    readonly by: number,
    /** Its status. */
    readonly byStatus: string,
  ) {
    super(
      `Sync item ${id} is not retried: item ${by} of a later run has the same external id and is ${byStatus}, and a retry could write older data over newer. Nothing is to be done, or give it up with skip; force retries it all the same.`,
    )
  }
}

/** The provider's `reduceCheckpoints()` threw, so the cursor of a run can't be told. Nothing was changed. */
export class CheckpointsNotReduced extends IntegrationsError {
  override readonly code = 'checkpoints_not_reduced'
  constructor(
    readonly syncLogId: number,
    readonly reason: string,
  ) {
    super(`reduceCheckpoints() of the provider threw for sync run ${syncLogId}; mend it and advance again. ${reason}`)
  }
}

/** A listener of a sync item event is marked `queued: true`; it must run in the item's own job. */
export class SyncListenerMustNotBeQueuedException extends IntegrationsError {
  override readonly code = 'sync_listener_must_not_be_queued'
  constructor(readonly eventClass: string) {
    super(
      `A listener of ${eventClass} is registered with {queued: true}. Listeners of sync item events run inside the item's job; register it without.`,
    )
  }
}

/** A webhook handler ran longer than `webhook.handler_timeout`. */
export class HandlerTimedOut extends IntegrationsError {
  override readonly code = 'handler_timed_out'
  constructor(readonly timeoutSeconds: number) {
    super(`The handler did not end within ${timeoutSeconds} s (webhook.handler_timeout).`)
  }
}

/** A listener of a sync item ran longer than `sync.item_timeout`. */
export class ItemTimedOut extends IntegrationsError {
  override readonly code = 'item_timed_out'
  constructor(readonly timeoutSeconds: number) {
    super(`The item's listeners did not end within ${timeoutSeconds} s (sync.item_timeout).`)
  }
}

/** The external id belongs to another model of the same type. Re-point on purpose with `remapExternalId()`. */
export class MappingAlreadyClaimed extends IntegrationsError {
  override readonly code = 'mapping_already_claimed'
  readonly integrationId: number
  readonly externalId: string
  readonly internalType: string
  readonly claimedBy: string
  readonly requestedBy: string
  readonly holderExists: boolean
  constructor(claim: {
    integrationId: number
    externalId: string
    internalType: string
    claimedBy: string
    requestedBy: string
    holderExists: boolean
  }) {
    super(
      `External id "${claim.externalId}" of integration ${claim.integrationId} is mapped to ${claim.internalType} ${claim.claimedBy}${claim.holderExists ? '' : ' (which no longer exists)'}, not to ${claim.requestedBy}. Re-point it on purpose with remapExternalId().`,
    )
    this.integrationId = claim.integrationId
    this.externalId = claim.externalId
    this.internalType = claim.internalType
    this.claimedBy = claim.claimedBy
    this.requestedBy = claim.requestedBy
    this.holderExists = claim.holderExists
  }
}

export class WebhookNotFound extends IntegrationsError {
  override readonly code = 'webhook_not_found'
  constructor(readonly id: number) {
    super(`There is no webhook with id ${id}.`)
  }
}

export class RequestNotFound extends IntegrationsError {
  override readonly code = 'request_not_found'
  constructor(readonly id: number) {
    super(`There is no request with id ${id}.`)
  }
}

export class LogNotFound extends IntegrationsError {
  override readonly code = 'log_not_found'
  constructor(readonly id: number) {
    super(`There is no operation log with id ${id}.`)
  }
}

export class StoredEventNotFound extends IntegrationsError {
  override readonly code = 'stored_event_not_found'
  constructor(readonly id: number) {
    super(`There is no stored event with id ${id}.`)
  }
}

export class MappingNotFound extends IntegrationsError {
  override readonly code = 'mapping_not_found'
  constructor(readonly id: number) {
    super(`There is no mapping with id ${id}.`)
  }
}

/** A mapping is to point at a row that the model does not have. */
export class MappedRowNotFound extends IntegrationsError {
  override readonly code = 'mapped_row_not_found'
  constructor(
    readonly model: string,
    readonly internalId: string,
  ) {
    super(`The model "${model}" has no row "${internalId}", so no external id can stand for it.`)
  }
}

export class IdempotencyKeyNotFound extends IntegrationsError {
  override readonly code = 'idempotency_key_not_found'
  constructor(readonly id: number) {
    super(`There is no spent idempotency key with id ${id}.`)
  }
}

/** A call with the key may still be under way: freed now, the write could happen twice. */
export class IdempotencyKeyInUse extends IntegrationsError {
  override readonly code = 'idempotency_key_in_use'
  constructor(
    readonly id: number,
    /** From then on no call with it can be under way, unless another one begins. */
    readonly until: Date,
  ) {
    super(
      `A call with the idempotency key ${id} may still be under way. It can be forgotten from ${until.toISOString()} on, or with force.`,
    )
  }
}

export class IncidentNotFound extends IntegrationsError {
  override readonly code = 'incident_not_found'
  constructor(readonly id: number) {
    super(`There is no incident with id ${id}.`)
  }
}

/** Only an open incident can be acknowledged or snoozed. */
export class IncidentNotOpen extends IntegrationsError {
  override readonly code = 'incident_not_open'
  constructor(readonly id: number) {
    super(`Incident ${id} is closed: only an open one can be acknowledged or snoozed.`)
  }
}

/** No record that the caller may know of has this reference. */
export class RecordNotFound extends IntegrationsError {
  override readonly code = 'record_not_found'
  constructor(
    /** As it was given, in quotes, cut to 100 characters. */
    readonly reference: string,
    allowed: string,
  ) {
    super(`There is no record ${reference}. Allowed are ${allowed}.`)
  }
}

export class TokenNotFound extends IntegrationsError {
  override readonly code = 'token_not_found'
  constructor(readonly id: number) {
    super(`There is no operator token with id ${id}.`)
  }
}

/** Only what has failed can be dismissed, or its dismissal be taken back. */
export class WebhookNotFailed extends IntegrationsError {
  override readonly code = 'webhook_not_failed'
  constructor(
    readonly id: number,
    readonly status: string,
  ) {
    super(`Webhook ${id} is ${status}; only one that is failed can be dismissed, and its dismissal be taken back.`)
  }
}

/** Only what has been settled can be replayed, and only while its payload is there. */
export class WebhookNotReplayable extends IntegrationsError {
  override readonly code = 'webhook_not_replayable'
  readonly isErased: boolean
  readonly turnOf: number | null
  constructor(
    readonly id: number,
    readonly status: string,
    /** `isErased`: its payload is gone. `turnOf`: another webhook of its ordering key has its turn, and is not settled. */
    { isErased = false, turnOf = null }: { readonly isErased?: boolean; readonly turnOf?: number | null } = {},
  ) {
    super(
      isErased
        ? `Webhook ${id} has no payload any more, since it was erased or pruned: there is nothing left to replay.`
        : turnOf !== null
          ? `Webhook ${id} runs in order, and it is the turn of webhook ${turnOf}: settle or dismiss that one first, or replay many, which wait for their turn.`
          : `Webhook ${id} is ${status}; only one that is processed or failed can be replayed.`,
    )
    this.isErased = isErased
    this.turnOf = turnOf
  }
}

/** A lock stayed with another holder for the whole wait. */
export class LockTimeoutException extends IntegrationsError {
  override readonly code = 'lock_timeout'
  constructor(
    readonly lock: string,
    readonly waitedSeconds: number,
  ) {
    super(`The lock "${lock}" was not free within ${waitedSeconds} s.`)
  }
}

/** The database's tables are missing or older than this code. */
export class SchemaBehind extends IntegrationsError {
  override readonly code = 'schema_behind'
  constructor(
    readonly applied: number,
    readonly known: number,
  ) {
    super(
      `The database has ${applied} of ${known} migrations. Run \`integrations migrate\` (or call integrations.migrate()) before starting.`,
    )
  }
}

/** Postgres or Temporal was not reached, or is not there for us: Temporal without our namespace. */
export class BackendUnreachable extends IntegrationsError {
  override readonly code = 'backend_unreachable'
  constructor(
    readonly backend: 'Postgres' | 'Temporal',
    /** Host and port, no password. */
    readonly address: string,
    {
      trouble = `${backend} was not reached at ${address}`,
      remedy,
      cause,
    }: { cause?: unknown; trouble?: string; remedy: string },
  ) {
    super(`${trouble}. ${remedy}`, { cause })
  }
}

/** Temporal answers, but gives a query to a worker, and no worker took it in time. */
export class NoWorkerAnswered extends IntegrationsError {
  override readonly code = 'no_worker_answered'
  constructor(
    readonly workflowId: string,
    readonly waitedSeconds: number,
    options: { cause?: unknown } = {},
  ) {
    super(
      `Temporal answers, but no worker answered for the workflow ${workflowId} within ${waitedSeconds} s. \`integrations doctor\` says whether workers are there: see temporal.workers.`,
      options,
    )
  }
}

/** A workflow that was waited for has failed; with the code of what it failed of, where that is ours. */
export class WorkflowFailed extends IntegrationsError {
  override readonly code: string
  constructor(
    readonly workflowId: string,
    /** Its failure's type, as Temporal has it. */
    type: string | null,
    words: string,
    options: { cause?: unknown },
  ) {
    super(`The workflow ${workflowId} has no result: ${words}`, options)
    this.code = type !== null && /^[a-z]+(_[a-z]+)+$/.test(type) ? type : 'workflow_failed'
  }
}
