/** `durable-integrations/testing`: what a host needs to test its provider, listeners and handlers without servers. */

export type { HandlerInput, HandlerRun } from '../framework/context.ts'
export type { ListedItem, NewSyncItem } from '../syncs/listing/listing-queries.ts'
export type { FullListing } from '../syncs/listing/listing-session.ts'
export {
  type BackfillWindow,
  describeProvider,
  type KeyedWrite,
  type ListingFixtures,
  type ProviderFixtures,
  type SuiteRunner,
  type WebhookFixture,
} from './conformance.ts'
export type { FakeSequence } from './fake-requests.ts'
export { type FakedCall, type FakeReply, type FakeRequests, sequence } from './fake-requests.ts'
export { type DispatchedItem, FakeSyncSession, type FakeSyncSessionOptions } from './fake-sync-session.ts'
export type { DeliveredEvents, ProcessedWebhooks } from './jobs-in-process.ts'
export { type Duration, ManualClock } from './manual-clock.ts'
export { type PlayedApi, playedTransport } from './played-transport.ts'
export type { RecordedEvent, RecordedEvents } from './recorded-events.ts'
export type { LogLine } from './recorded-log.ts'
export {
  type ScriptedAnswer,
  type ScriptedReply,
  type ScriptedTransport,
  scriptedTransport,
} from './scripted-transport.ts'
export type { DeliveryToSign } from './signed-webhook.ts'
export {
  gitHubSigner,
  hmacSigner,
  type SignedWebhookOptions,
  type SigningProvider,
  signedWebhook,
  signerOf,
  standardWebhooksSigner,
  stripeSigner,
  type WebhookSigner,
} from './signed-webhook.ts'
export type {
  CallFault,
  Change,
  ChangeStep,
  Fault,
  FaultKind,
  Passing,
  Plan,
  RunStep,
  Step,
} from './simulation/plan.ts'
export type { BrokenInvariant, Played } from './simulation/plan-player.ts'
export type { Random } from './simulation/random.ts'
export {
  defineScenario,
  type HostOptions,
  type Outside,
  type Scenario,
  type SimulatedHost,
  type SimulationEnd,
  type World,
} from './simulation/scenario.ts'
export { type FoundFailure, replay, type Simulated, type SimulateOptions, simulate } from './simulation/seed-search.ts'
export {
  createTestIntegrations,
  type SyncedItem,
  type TestIntegrations,
  type TestIntegrationsOptions,
  type TestSync,
} from './test-integrations.ts'
export {
  EmbeddedDatabaseMissing,
  RepliesUsedUp,
  SimulationFailed,
  SimulationStuck,
  SyncDidNotEnd,
  UnexpectedRequest,
} from './testing-errors.ts'
export type { SentRequest, Transport } from './transport.ts'
export type { Started, StartedSync, StartedWorkflow } from './without-temporal.ts'
