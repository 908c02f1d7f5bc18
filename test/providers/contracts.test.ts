import { describe, expect, it } from 'vitest'
import type { IntegrationProvider } from '../../src/providers/contracts.ts'
import * as contracts from '../../src/providers/contracts.ts'

const method = () => null
const OAUTH = ['authorizationUrl', 'exchangeCode', 'refreshToken', 'revokeToken', 'refreshThreshold']
const SYNC = ['sync', 'reduceCheckpoints', 'defaultRateLimit']

/** Guard, and the members without any of which it says no. */
const GUARDS: [name: string, guard: (provider: IntegrationProvider) => boolean, members: string[]][] = [
  ['hasOAuth2', contracts.hasOAuth2, OAUTH],
  ['handlesWebhooks', contracts.handlesWebhooks, ['verifyWebhookSignature', 'handleWebhook']],
  [
    'reconcilesWebhooks',
    contracts.reconcilesWebhooks,
    ['verifyWebhookSignature', 'handleWebhook', 'missedWebhooks', 'reconcileLookbackSeconds'],
  ],
  ['declaresRateLimit', contracts.declaresRateLimit, ['defaultRateLimit']],
  ['sharesRateLimit', contracts.sharesRateLimit, ['rateLimitScope']],
  ['hasScheduledSync', contracts.hasScheduledSync, SYNC],
  ['hasIncrementalSync', contracts.hasIncrementalSync, [...SYNC, 'syncIncremental']],
  ['hasBackfill', contracts.hasBackfill, [...SYNC, 'syncWindow']],
  ['handlesMissing', contracts.handlesMissing, [...SYNC, 'handleMissing']],
  ['hasStreams', contracts.hasStreams, ['streams', 'defaultRateLimit']],
  ['classifiesFailures', contracts.classifiesFailures, ['classifyFailure']],
  ['supportsIdempotency', contracts.supportsIdempotency, ['supportsIdempotency', 'idempotencyWindowSeconds']],
  ['identifiesAuthenticatedUser', contracts.identifiesAuthenticatedUser, ['authenticatedUser']],
  ['limitsRequestLogging', contracts.limitsRequestLogging, ['unloggedResponses']],
  ['recognisesEchoes', contracts.recognisesEchoes, ['toldRecord']],
  [
    'managesWebhooks',
    contracts.managesWebhooks,
    [
      'verifyWebhookSignature',
      'handleWebhook',
      'webhookSecretFrom',
      'createWebhookSubscription',
      'webhookSubscriptions',
      'renewWebhookSubscription',
      'removeWebhookSubscription',
    ],
  ],
  ['hasHealthCheck', contracts.hasHealthCheck, ['healthCheck']],
]
const VALUES: Record<string, unknown> = {
  supportsIdempotency: true,
  idempotencyWindowSeconds: 86_400,
  reconcileLookbackSeconds: 86_400,
  streams: {},
  webhookSecretFrom: 'us',
}

function providerWith(members: readonly string[]): IntegrationProvider {
  return Object.fromEntries(members.map((member) => [member, VALUES[member] ?? method]))
}

describe('the guard of a contract', () => {
  it.each(GUARDS)('%s wants all of its members', (_, guard, members) => {
    expect(guard(providerWith(members))).toBe(true)
    expect(guard({})).toBe(false)
    for (const missing of members)
      expect(guard(providerWith(members.filter((member) => member !== missing)))).toBe(false)
  })

  it.each(GUARDS)('%s looks at the members, not at the class', (_, guard, members) => {
    class Provider {}
    Object.assign(Provider.prototype, providerWith(members))
    expect(guard(new Provider())).toBe(true)
  })

  it.each(GUARDS)('%s is not deceived by members that are no such thing', (_, guard, members) => {
    for (const nothing of [undefined, null, 'yes'])
      expect(guard(Object.fromEntries(members.map((member) => [member, nothing])) as IntegrationProvider)).toBe(false)
  })

  it.each([
    ['customizesRetry', contracts.customizesRetry, ['isRetryable', 'retryDelayMs']],
    ['redactsRequestData', contracts.redactsRequestData, ['redactedRequestPaths', 'redactedResponsePaths']],
  ] as const)('%s wants any of its members', (_, guard, members) => {
    expect(guard({})).toBe(false)
    for (const member of members) expect(guard(providerWith([member]))).toBe(true)
    expect(guard(providerWith(members))).toBe(true)
  })

  it('supportsIdempotency takes a false at its word', () => {
    const provider = { supportsIdempotency: false, idempotencyWindowSeconds: 60 } as IntegrationProvider
    expect(contracts.supportsIdempotency(provider)).toBe(false)
  })

  it('exists for every contract', () => {
    const guards = Object.keys(contracts).filter(
      (name) => !['requireContract', 'incompleteContracts', 'contractsOf'].includes(name),
    )
    const tested = [...GUARDS.map(([name]) => name), 'customizesRetry', 'redactsRequestData']
    expect(guards.sort()).toEqual(tested.sort())
  })
})

describe('asking for a contract', () => {
  it('gives the provider back, or names the contract that it lacks', () => {
    const provider = providerWith(SYNC)
    expect(contracts.requireContract('demo', provider, contracts.hasScheduledSync, 'HasScheduledSync')).toBe(provider)
    expect(() => contracts.requireContract('demo', {}, contracts.hasScheduledSync, 'HasScheduledSync')).toThrow(
      expect.objectContaining({
        code: 'unsupported_by_provider',
        provider: 'demo',
        contract: 'HasScheduledSync',
        message: 'The provider "demo" does not implement HasScheduledSync.',
      }),
    )
  })
})
