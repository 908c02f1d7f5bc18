/** The contracts of a provider, as commands and a dashboard show them. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import type { IntegrationProvider } from '../../src/providers/contracts.ts'
import type { TestIntegrations } from '../../src/testing/index.ts'
import { createTestIntegrations } from '../../src/testing/index.ts'

const nothing = async () => {}
/** Every member of every contract. */
const able: IntegrationProvider & Record<string, unknown> = {
  healthCheck: async () => true,
  authorizationUrl: () => 'https://login.example',
  exchangeCode: async () => ({}),
  refreshToken: async () => ({}),
  revokeToken: nothing,
  refreshThreshold: () => 300,
  verifyWebhookSignature: () => true,
  handleWebhook: nothing,
  missedWebhooks: async function* () {},
  reconcileLookbackSeconds: 60,
  defaultRateLimit: () => null,
  sync: nothing,
  reduceCheckpoints: () => null,
  syncIncremental: nothing,
  syncWindow: nothing,
  handleMissing: nothing,
  classifyFailure: () => null,
  isRetryable: () => null,
  supportsIdempotency: true,
  idempotencyWindowSeconds: 60,
  authenticatedUser: async () => ({ id: '1', name: null, email: null, username: null }),
  redactedResponsePaths: () => [],
  unloggedResponses: () => [],
}

let kit: TestIntegrations
beforeAll(async () => {
  kit = await createTestIntegrations({ providers: { able, plain: {}, github: new GitHubProvider() } })
}, 60_000)
afterAll(() => kit.close())

const contractsOf = (key: string) =>
  kit.integrations.admin.providers().find((provider) => provider.key === key)?.contracts

it('names every contract that is implemented', () => {
  expect(contractsOf('able')).toEqual([
    'HasOAuth2',
    'HandlesWebhooks',
    'ReconcilesWebhooks',
    'DeclaresRateLimit',
    'HasScheduledSync',
    'HasIncrementalSync',
    'HasBackfill',
    'HandlesMissing',
    'ClassifiesFailures',
    'CustomizesRetry',
    'SupportsIdempotency',
    'IdentifiesAuthenticatedUser',
    'RedactsRequestData',
    'LimitsRequestLogging',
  ])
  expect(contractsOf('plain')).toEqual([])
})

it('names those of GitHub', () => {
  expect(contractsOf('github')).toEqual([
    'HandlesWebhooks',
    'ReconcilesWebhooks',
    'ManagesWebhooks',
    'DeclaresRateLimit',
    'HasScheduledSync',
    'HasIncrementalSync',
    'HasBackfill',
    'ClassifiesFailures',
    'CustomizesRetry',
    'IdentifiesAuthenticatedUser',
    'RedactsRequestData',
    'RecognisesEchoes',
  ])
})
