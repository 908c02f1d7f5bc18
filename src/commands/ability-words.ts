/** What a provider can do, in words: what a person reads in the place of the names of contracts. */
import type { Contract } from '../providers/contracts.ts'

/** After "it can"; what matters most to an operator first. */
const WORDS = {
  HandlesWebhooks: 'receive webhooks',
  ReconcilesWebhooks: 'ask for missed webhooks',
  ManagesWebhooks: 'register its webhook',
  HasScheduledSync: 'sync on a schedule',
  HasIncrementalSync: 'sync only what has changed',
  HasStreams: 'sync several streams',
  HasBackfill: 'backfill a period',
  HandlesMissing: 'act on records that are gone',
  HasOAuth2: 'connect by OAuth',
  IdentifiesAuthenticatedUser: 'say whose account it is',
  SupportsIdempotency: 'take idempotency keys',
  RecognisesEchoes: 'recognise our own writes',
  DeclaresRateLimit: 'state its rate limit',
  SharesRateLimit: 'share a rate limit between integrations',
  ClassifiesFailures: 'classify its failures',
  CustomizesRetry: 'decide about retries',
  RedactsRequestData: 'redact values of its own',
  LimitsRequestLogging: 'keep large answers out of the log',
} as const satisfies Record<Contract, string>

/** `receive webhooks, sync on a schedule`. @param contracts their names */
export function abilityWords(contracts: readonly string[]): string {
  return Object.entries(WORDS)
    .flatMap(([contract, words]) => (contracts.includes(contract) ? [words] : []))
    .join(', ')
}
