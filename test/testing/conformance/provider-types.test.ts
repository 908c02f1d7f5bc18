/** Which classes TypeScript takes for a provider: those with one contract and no member of another, too. */
import { expect, it } from 'vitest'
import { FailureClass, RateLimit, reduceCheckpointsByMax } from '../../../src/provider.ts'
import type { ProviderSource } from '../../../src/providers/registry.ts'
import type { ProviderFixtures, SuiteRunner } from '../../../src/testing/index.ts'
import { describeProvider } from '../../../src/testing/index.ts'

type Factory = Parameters<typeof describeProvider>[1]

/** As an author writes it who says nothing of the interfaces: it shares no member with `IntegrationProvider`. */
class OnlySyncs {
  async sync(): Promise<void> {}
  reduceCheckpoints = reduceCheckpointsByMax
  defaultRateLimit = () => null
}

class OnlyTakesWebhooks {
  verifyWebhookSignature = () => false
  handleWebhook = () => null
}

class OnlyAuthorizes {
  authorizationUrl = () => 'https://provider.example/authorize'
  exchangeCode = async () => ({ access_token: 'a' })
  refreshToken = async () => ({ access_token: 'b' })
  revokeToken = async () => {}
  refreshThreshold = () => 60
}

class OnlyLimits {
  defaultRateLimit = () => RateLimit.perMinute(60)
}

class OnlyClassifies {
  classifyFailure = () => FailureClass.Client
}

class OnlyRetries {
  isRetryable = () => true
}

class OnlyRedacts {
  redactedResponsePaths = () => ['token']
}

class OnlyIdentifies {
  authenticatedUser = async () => ({ id: '7', name: null, email: null, username: null })
}

class OnlyChecks {
  healthCheck = () => true
}

// `tsc` is half of this test: each line has to compile.
const FACTORIES: readonly Factory[] = [
  () => new OnlySyncs(),
  () => new OnlyTakesWebhooks(),
  () => new OnlyAuthorizes(),
  () => new OnlyLimits(),
  () => new OnlyClassifies(),
  () => new OnlyRetries(),
  () => new OnlyRedacts(),
  () => new OnlyIdentifies(),
  () => new OnlyChecks(),
]
const SOURCES: readonly ProviderSource[] = [OnlySyncs, OnlyRetries, OnlyRedacts, () => new OnlySyncs()]

// What a class without any contract is taken for stays a mistake.
class Nothing {
  unrelated = 7
}
// @ts-expect-error -- it shares no member with any contract
const MISTAKE: Factory = () => new Nothing()

it.each(FACTORIES)('the suite takes a provider with one contract: %#', (factory) => {
  const described: string[] = []
  describeProvider('one', factory, FIXTURES, recorder(described))
  expect(described[0]).toBe('the provider one')
  expect(described.length).toBeGreaterThan(1)
})

it('the same goes where providers are registered', () => {
  expect(SOURCES).toHaveLength(4)
  expect(MISTAKE()).toBeInstanceOf(Nothing)
})

const FIXTURES: ProviderFixtures = { credentials: { token: 'made-up' }, api: () => new Response('{}') }

/** Notes what is declared, and runs nothing. */
function recorder(described: string[]): SuiteRunner {
  return {
    describe(name, body) {
      described.push(name)
      body()
    },
    it: () => {},
    afterAll: () => {},
  }
}
