/** All that a provider does, once: what the checks of its traces are made on. */
import { randomUUID } from 'node:crypto'
import type { HasOAuth2 } from '../../../providers/contracts.ts'
import {
  handlesWebhooks,
  hasBackfill,
  hasHealthCheck,
  hasOAuth2,
  identifiesAuthenticatedUser,
  reconcilesWebhooks,
} from '../../../providers/contracts.ts'
import type { Integration } from '../../../providers/integration.ts'
import { streamsOf } from '../../../providers/streams.ts'
import { windowed } from '../backfill-checks.ts'
import type { Bench } from '../bench.ts'
import { delivery, signedFixture } from '../deliveries.ts'
import { listed, sessionOf } from '../listings.ts'
import { exchanged, hasRefreshToken } from '../oauth.ts'
import { outcomeOf } from '../outcome-checks.ts'
import { missed } from '../reconciliation-checks.ts'
import { answerTo } from '../webhook-conformance.ts'

export interface Thrown {
  readonly by: string
  readonly error: unknown
}

/** @returns what was thrown on the way */
export async function round(bench: Bench, integration: Integration): Promise<Thrown[]> {
  const thrown: Thrown[] = []
  for (const [by, work] of stepsOf(bench, integration)) {
    const outcome = await outcomeOf<unknown>(work)
    if (outcome.kind === 'threw') thrown.push({ by, error: outcome.error })
  }
  return thrown
}

function stepsOf(bench: Bench, integration: Integration): [by: string, work: () => unknown][] {
  const { provider, kit, subject } = bench
  const { webhook, write, metadata = {} } = subject.fixtures
  const steps: [string, () => unknown][] = []
  if (hasHealthCheck(provider)) steps.push(['healthCheck()', () => provider.healthCheck(integration)])
  if (hasHealthCheck(provider))
    steps.push(['integrations.admin.testCredentials()', () => kit.integrations.admin.testCredentials(integration.id)])
  if (identifiesAuthenticatedUser(provider))
    steps.push(['authenticatedUser()', () => provider.authenticatedUser(integration)])
  if (write) steps.push(['`write`', () => write(integration, randomUUID())])
  for (const stream of streamsOf(provider)) steps.push(...listingSteps(bench.ofStream(stream), integration))
  if (handlesWebhooks(provider) && webhook !== undefined)
    steps.push([
      'a webhook',
      async () => {
        const fixture = signedFixture(provider, webhook, metadata)
        await answerTo(bench, integration, delivery(fixture, { at: kit.clock.now() }))
        await kit.processWebhooks()
      },
    ])
  if (reconcilesWebhooks(provider)) steps.push(['missedWebhooks()', () => missed(bench, integration)])
  return hasOAuth2(provider) ? [...steps, ...oauthSteps(bench, provider, integration)] : steps
}

function listingSteps(bench: Bench, integration: Integration): [string, () => unknown][] {
  const { cursor = null, window } = bench.subject.fixtures
  const of = bench.stream === null ? '' : ` of ${bench.stream}`
  return [
    [`sync()${of}`, () => listed(bench, sessionOf(bench, integration))],
    [`syncIncremental()${of}`, () => listed(bench, sessionOf(bench, integration, cursor))],
    [`a run${of}`, () => bench.sync(integration)],
    ...(hasBackfill(bench.provider) && window !== undefined
      ? [[`syncWindow()${of}`, () => windowed(bench, sessionOf(bench, integration), window)] as [string, () => unknown]]
      : []),
  ]
}

function oauthSteps(bench: Bench, provider: HasOAuth2, integration: Integration): [string, () => unknown][] {
  const refresh: [string, () => unknown] = ['refreshToken()', () => provider.refreshToken(integration)]
  return [
    ['exchangeCode()', () => exchanged(bench, integration)],
    ...(hasRefreshToken(bench.subject) ? [refresh] : []),
    ['revokeToken()', () => provider.revokeToken(integration)],
  ]
}
