/** All that a provider does, once: what the checks of its traces are made on. */

import type { HasOAuth2 } from '../../providers/contracts.ts'
import {
  handlesWebhooks,
  hasBackfill,
  hasHealthCheck,
  hasOAuth2,
  hasScheduledSync,
  identifiesAuthenticatedUser,
  reconcilesWebhooks,
} from '../../providers/contracts.ts'
import type { Integration } from '../../providers/integration.ts'
import { windowed } from './backfill-checks.ts'
import type { Bench } from './bench.ts'
import { delivery } from './deliveries.ts'
import { listed, sessionOf } from './listings.ts'
import { exchanged, hasRefreshToken } from './oauth.ts'
import { outcomeOf } from './outcome-checks.ts'
import { missed } from './reconciliation-checks.ts'
import { answerTo } from './webhook-conformance.ts'

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
  const { webhook, window, cursor = null } = subject.fixtures
  const steps: [string, () => unknown][] = []
  if (hasHealthCheck(provider)) steps.push(['healthCheck()', () => provider.healthCheck(integration)])
  if (hasHealthCheck(provider))
    steps.push(['integrations.admin.testCredentials()', () => kit.integrations.admin.testCredentials(integration.id)])
  if (identifiesAuthenticatedUser(provider))
    steps.push(['authenticatedUser()', () => provider.authenticatedUser(integration)])
  if (hasScheduledSync(provider)) {
    steps.push(['sync()', () => listed(bench, sessionOf(integration))])
    steps.push(['syncIncremental()', () => listed(bench, sessionOf(integration, cursor))])
    steps.push(['a run', () => kit.sync(integration)])
  }
  if (hasBackfill(provider) && window !== undefined)
    steps.push(['syncWindow()', () => windowed(bench, sessionOf(integration), window)])
  if (handlesWebhooks(provider) && webhook !== undefined)
    steps.push([
      'a webhook',
      async () => {
        await answerTo(bench, integration, delivery(webhook, { at: kit.clock.now() }))
        await kit.processWebhooks()
      },
    ])
  if (reconcilesWebhooks(provider)) steps.push(['missedWebhooks()', () => missed(bench, integration)])
  return hasOAuth2(provider) ? [...steps, ...oauthSteps(bench, provider, integration)] : steps
}

function oauthSteps(bench: Bench, provider: HasOAuth2, integration: Integration): [string, () => unknown][] {
  const refresh: [string, () => unknown] = ['refreshToken()', () => provider.refreshToken(integration)]
  return [
    ['exchangeCode()', () => exchanged(bench, integration)],
    ...(hasRefreshToken(bench.subject) ? [refresh] : []),
    ['revokeToken()', () => provider.revokeToken(integration)],
  ]
}
