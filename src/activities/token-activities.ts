/** Refreshes tokens that no call asks for. Rule: docs/behaviour/oauth.md, "Keep-alive". */

import type { Framework, TokenHolder } from '../framework/context.ts'
import { integrationLogger } from '../framework/logger.ts'
import { errorKind } from '../framework/thrown.ts'
import { getIntegration, integrationHandle } from '../integrations/handle.ts'
import { integrationPages } from '../integrations/list.ts'
import { warnOfUnregistered } from '../integrations/provider-list.ts'
import { keepAliveStates, tokenLifetimes } from '../oauth/keep-alive.ts'
import { NOTHING_KNOWN, refreshDueAt } from '../oauth/keep-alive-rules.ts'
import type { RefreshTokensInput, RefreshTokensResult } from '../oauth/oauth-jobs.ts'
import { doesWithoutAuthorization, obtainsTokens } from '../oauth/oauth-provider.ts'
import { reauthMark, reauthMarks } from '../oauth/reauth.ts'
import { tokensOf } from '../oauth/rules.ts'
import { refreshTokens } from '../oauth/tokens.ts'
import type { HasOAuth2 } from '../providers/contracts.ts'
import { hasOAuth2, requireContract } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Refreshes of one provider at once: one that hangs holds up a fifth of its provider's, and no other provider's. */
const LANES = 5

const NOTHING: RefreshTokensResult = { checked: 0, refreshed: 0, failed: 0, reauthRequired: 0 }
const CHECKED: RefreshTokensResult = { ...NOTHING, checked: 1 }
const FAILED: RefreshTokensResult = { ...CHECKED, failed: 1 }

export function tokenActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Refreshes all tokens that are due, or those of one integration. May be run twice: tokens that the first try refreshed are
     * no longer due, and its failures have their wait. The second try counts its own work.
     */
    async refreshTokensNow({ integrationId }: RefreshTokensInput): Promise<RefreshTokensResult> {
      if (integrationId !== undefined) return refreshNamed(framework, integrationId)
      await warnOfUnregistered(framework)
      const { cancellationSignal } = surroundings()
      const walks = framework.providers
        .entries()
        .flatMap(([key, provider]) =>
          hasOAuth2(provider) ? [keepAlive(framework, key, provider, cancellationSignal)] : [],
        )
      return added(await allOf(walks))
    },
  }
}

async function refreshNamed(framework: Framework, id: number): Promise<RefreshTokensResult> {
  const integration = await getIntegration(framework, id)
  const { provider: key } = integration
  const provider = requireContract(key, framework.providers.get(key), hasOAuth2, 'HasOAuth2')
  if (obtainsTokens(provider, integration)) return refreshed(framework, integration)
  if (doesWithoutAuthorization(provider, integration)) return NOTHING
  const { accessToken, refreshToken } = tokensOf(integration.credentialsArray())
  if (accessToken === null && refreshToken === null) return NOTHING
  // Without a refresh token nothing can be forced: a lasting access token would count as expired.
  return refreshed(framework, integration, { force: refreshToken !== null })
}

/** The active integrations of one provider, in order of their ids. */
async function keepAlive(
  framework: Framework,
  key: string,
  provider: HasOAuth2,
  signal: AbortSignal,
): Promise<RefreshTokensResult> {
  const results: RefreshTokensResult[] = []
  const waiting = looks(framework, key, provider)
  const lane = async (): Promise<void> => {
    for await (const look of waiting) {
      signal.throwIfAborted()
      results.push(await look())
    }
  }
  await allOf(Array.from({ length: LANES }, lane))
  return added(results)
}

/** The work for each integration; pages are read as the lanes need them. */
async function* looks(
  framework: Framework,
  key: string,
  provider: HasOAuth2,
): AsyncGenerator<() => Promise<RefreshTokensResult>> {
  for await (const rows of integrationPages(framework, { provider: key, active: true })) {
    const ids = rows.map((row) => row.id)
    const [states, marks] = await Promise.all([keepAliveStates(framework, ids), reauthMarks(framework, ids)])
    for (const row of rows) {
      const integration = integrationHandle(framework, row)
      yield async () => {
        try {
          const tokens = tokensOf(integration.credentialsArray())
          if (tokens.refreshToken === null || doesWithoutAuthorization(provider, integration)) return NOTHING
          if (marks.has(row.id)) return CHECKED
          const due = refreshDueAt(tokens, states.get(row.id) ?? NOTHING_KNOWN, tokenLifetimes(provider))
          if (due === null || due > framework.clock.now()) return CHECKED
        } catch (error) {
          // Credentials that can't be read, or the provider's own words about its tokens.
          return failed(framework, integration, error)
        }
        return refreshed(framework, integration)
      }
    }
  }
}

/** One refresh, which never throws; its length is bounded by the lock's. */
async function refreshed(
  framework: Framework,
  integration: Integration,
  { force }: { readonly force: boolean } = { force: true },
): Promise<RefreshTokensResult> {
  try {
    // By force: a rest that is over is no expiry. A faster refresh has changed the stored token, and is not repeated.
    const isNewer = await refreshTokens(framework, holderOf(integration), { force })
    return { ...CHECKED, refreshed: force || isNewer ? 1 : 0 }
  } catch (error) {
    return failed(framework, integration, error)
  }
}

async function failed(framework: Framework, integration: Integration, error: unknown): Promise<RefreshTokensResult> {
  const needsPerson = (await reauthMark(framework, integration.id)) !== null
  integrationLogger(framework, integration).warn(
    { event: 'tokens.refresh_failed', error: errorKind(error), reauth_required: needsPerson },
    needsPerson
      ? 'tokens can not be refreshed any more: somebody has to authorize the integration again'
      : 'tokens could not be refreshed; it is tried again',
  )
  return { ...FAILED, reauthRequired: needsPerson ? 1 : 0 }
}

function holderOf(integration: Integration): TokenHolder {
  let known = integration.credentialsArray()
  return {
    integration,
    credentials: () => known,
    adopt(newest) {
      known = newest
    },
  }
}

/** Waits for all, then throws the first error: no work goes on in the background. */
async function allOf<T>(work: readonly Promise<T>[]): Promise<T[]> {
  const ends = await Promise.allSettled(work)
  return ends.map((end) => {
    if (end.status === 'rejected') throw end.reason
    return end.value
  })
}

function added(results: readonly RefreshTokensResult[]): RefreshTokensResult {
  return results.reduce(
    (sum, one) => ({
      checked: sum.checked + one.checked,
      refreshed: sum.refreshed + one.refreshed,
      failed: sum.failed + one.failed,
      reauthRequired: sum.reauthRequired + one.reauthRequired,
    }),
    NOTHING,
  )
}
