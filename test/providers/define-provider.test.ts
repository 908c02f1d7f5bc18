/** `defineProvider()` knows every member of every contract. */
import { expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import type * as contracts from '../../src/provider.ts'
import { contractsOf, defineProvider } from '../../src/provider.ts'
import type { AnyProvider } from '../../src/providers/registry.ts'
import { ProviderRegistry } from '../../src/providers/registry.ts'

/** Without a contract that is added, {@link MembersOfAll} does not compile. */
interface Interfaces {
  HasOAuth2: contracts.HasOAuth2
  HandlesWebhooks: contracts.HandlesWebhooks
  ReconcilesWebhooks: contracts.ReconcilesWebhooks
  ManagesWebhooks: contracts.ManagesWebhooks
  DeclaresRateLimit: contracts.DeclaresRateLimit
  SharesRateLimit: contracts.SharesRateLimit
  HasScheduledSync: contracts.HasScheduledSync
  HasIncrementalSync: contracts.HasIncrementalSync
  HasBackfill: contracts.HasBackfill
  HandlesMissing: contracts.HandlesMissing
  HasStreams: contracts.HasStreams
  ClassifiesFailures: contracts.ClassifiesFailures
  CustomizesRetry: contracts.CustomizesRetry
  SupportsIdempotency: contracts.SupportsIdempotency
  IdentifiesAuthenticatedUser: contracts.IdentifiesAuthenticatedUser
  RedactsRequestData: contracts.RedactsRequestData
  LimitsRequestLogging: contracts.LimitsRequestLogging
  RecognisesEchoes: contracts.RecognisesEchoes
}

type MembersOfAll = { [Name in contracts.Contract]: keyof Interfaces[Name] }[contracts.Contract]

it('has every member of every contract', () => {
  type Known = keyof contracts.ProviderDefinition<z.ZodType, z.ZodType>
  expectTypeOf<Exclude<MembersOfAll, Known>>().toEqualTypeOf<never>()
})

it('takes each contract alone as a provider', () => {
  // What TypeScript would refuse is an object that has no member in common with any kind of provider.
  const alone: Pick<contracts.RecognisesEchoes, 'toldRecord'> = { toldRecord: () => null }
  const provider: AnyProvider = alone
  new ProviderRegistry().register('echoes', provider)
  expect(contractsOf(provider as contracts.IntegrationProvider)).toEqual(['RecognisesEchoes'])
})

it('types the parameters of webhook subscriptions and of echoes, by the schemas of the provider', () => {
  const provider = defineProvider({
    credentialsSchema: z.object({ token: z.string() }),
    verifyWebhookSignature: () => true,
    handleWebhook: () => null,
    webhookSecretFrom: 'us',
    async createWebhookSubscription(integration, { url }) {
      expectTypeOf(integration.credentialsArray().token).toEqualTypeOf<string>()
      return { id: '1', url, expiresAt: null, isIntact: true }
    },
    async webhookSubscriptions(_, { signal }) {
      expectTypeOf(signal).toEqualTypeOf<AbortSignal>()
      return []
    },
    async renewWebhookSubscription(integration, subscription, wanted) {
      expectTypeOf(integration.credentialsArray().token).toEqualTypeOf<string>()
      return { ...subscription, url: wanted.url }
    },
    async removeWebhookSubscription(_, { id }) {
      expectTypeOf(id).toEqualTypeOf<string>()
    },
    toldRecord(told) {
      return told.kind === 'item' ? { key: told.eventClass, content: told.payload } : null
    },
  })
  expect(contractsOf(provider as contracts.IntegrationProvider)).toEqual([
    'HandlesWebhooks',
    'ManagesWebhooks',
    'RecognisesEchoes',
  ])
})
