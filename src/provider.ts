/** All that the author of a provider imports: the contracts, their guards, and what helps to keep them. */

export type { CircuitOverride } from './calls/admission/state-rules.ts'
export { classOfStatus, FailureClass, statusOf } from './calls/failure-class-rules.ts'
export { RateLimit } from './calls/rate-limit-rules.ts'
export { retryAfterSeconds } from './calls/retry-rules.ts'
export {
  EgressRefused,
  HttpError,
  IntegrationsError,
  InvalidArgumentException,
  isIntegrationsError,
  NonRetryable,
  NotYet,
  PaginationFailed,
  type PaginationFault,
  RateLimitExceededException,
  ReauthRequiredException,
  RetryableError,
  SchemaDrift,
} from './framework/errors.ts'
export type { Json } from './framework/json.ts'
export { HealthStatus } from './integrations/rules.ts'
export type { AuthenticatedUser } from './providers/contracts.ts'
export * from './providers/contracts.ts'
export { defineProvider, type IntegrationWith, type ProviderDefinition } from './providers/define-provider.ts'
export type {
  Answered,
  Call,
  CircuitView,
  Credentials,
  Decoded,
  ExternalId,
  Integration,
  Operation,
  OperationInput,
  PriorCall,
  RateLimitView,
  RequestBuilder,
  RequestContext,
  RequestOptions,
  Send,
  SharedLimitView,
} from './providers/integration.ts'
export type { MappedModel, ModelRef } from './providers/mapped-model.ts'
export type {
  OAuth2Assertion,
  OAuth2Grant,
  OAuth2PrivateKey,
  OAuth2SigningAlgorithm,
} from './providers/oauth2-grants.ts'
export {
  type OAuth2Answer,
  type OAuth2Client,
  type OAuth2ClientAuthentication,
  OAuth2Provider,
  type OAuth2TokenRequest,
} from './providers/oauth2-provider.ts'
export type { OAuth2Discovery, OAuth2Endpoints, OAuth2Server } from './providers/oauth2-server.ts'
export { eachPage, type PagedList } from './providers/pagination/each-page.ts'
export { linkTo } from './providers/pagination/link-header.ts'
export {
  type At,
  byKeyset,
  nextByCursor,
  nextByLink,
  nextByOffset,
  nextByPage,
  type Paging,
  type PagingSteps,
  type Place,
  type SeenPage,
} from './providers/pagination/next-page.ts'
export { type PagedListing, paginate, requestWithLink } from './providers/pagination/paginate.ts'
export { byTimeWindows, type TimeWindow } from './providers/pagination/time-windows.ts'
export {
  ProviderEvent,
  type ProviderEventClass,
  type RecordChange,
  SyncItemEvent,
  type SyncItemEventClass,
} from './providers/provider-events.ts'
export { isTimely, type SignedTimeOptions, soleHeader } from './providers/signatures/delivery-values.ts'
export { verifyHmacSignature } from './providers/signatures/hmac.ts'
export {
  type CertificateSource,
  type DeliveryPlace,
  type DigestEncoding,
  type EcdsaScheme,
  type Ed25519Scheme,
  type HashName,
  type HmacScheme,
  type JwtScheme,
  type KeyFormat,
  type RsaScheme,
  type SignatureScheme,
  type SignedPart,
  type SignedTime,
  type StandardWebhooksScheme,
  signedPart,
  type TokenScheme,
} from './providers/signatures/scheme-rules.ts'
export { verifyStandardWebhook } from './providers/signatures/standard-webhooks.ts'
export type { SyncSession } from './providers/sync-session.ts'
export { type CurrentSyncItem, currentSyncItem } from './providers/sync-session.ts'
export type {
  ChallengeAnswer,
  DoorAnswer,
  DoorMethod,
  HandshakeAnswer,
  SentAnswer,
  WebhookDoor,
} from './providers/webhook-door.ts'
export {
  activeWebhookSecrets,
  type DeliveryTime,
  type DeliveryToCheck,
  type WebhookRequest,
  webhookSecretsOf,
} from './providers/webhook-request.ts'
export type { IntervalBounds } from './syncs/adaptive-rules.ts'
export { reduceCheckpointsByMax, reduceCheckpointsByMax as ReducesCheckpointsByMax } from './syncs/checkpoint-rules.ts'
