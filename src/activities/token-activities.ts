/** Refreshing tokens that nobody asks for. Rule: docs/behaviour/oauth.md, "Keep-alive". */

import type { Framework, TokenHolder } from '../framework/context.ts'
import { UnsupportedByProvider } from '../framework/errors.ts'
import { errorKind } from '../framework/thrown.ts'
import { getIntegration, integrationHandle } from '../integrations/handle.ts'
import { integrationPages } from '../integrations/list.ts'
import { warnOfUnregistered } from '../integrations/unregistered-providers.ts'
import { keepAliveStates, tokenLifetimes } from '../oauth/keep-alive.ts'
import { NOTHING_KNOWN, refreshDueAt } from '../oauth/keep-alive-rules.ts'
import type { RefreshTokensInput, RefreshTokensResult } from '../oauth/oauth-jobs.ts'
import { doesWithoutAuthorization } from '../oauth/oauth-provider.ts'
import { reauthMark, reauthMarks } from '../oauth/reauth.ts'
import { tokensOf } from '../oauth/token-rules.ts'
import { refreshTokens } from '../oauth/tokens.ts'
import type { HasOAuth2 } from '../providers/contracts.ts'
import { hasOAuth2 } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { temporalSurroundings } from './surroundings.ts'

/** Refreshes of one provider under way at once: one that hangs holds up a fifth of its provider's, and nobody else's. */
const LANES = 5

const NOTHING: RefreshTokensResult = { checked: 0, refreshed: 0, failed: 0, reauthRequired: 0 }
const CHECKED: RefreshTokensResult = { ...NOTHING, checked: 1 }
const FAILED: RefreshTokensResult = { ...CHECKED, failed: 1 }

export function tokenActivities(framework: Framework, surroundings = temporalSurroundings) {
  return {
    /**
     * Refreshes what is due, or the one that is named. May be run twice: what the first try refreshed is not due any
     * more, and what failed in it has its wait before it; the second counts what it does itself.
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
  const provider = framework.providers.get(integration.provider)
  if (!hasOAuth2(provider)) throw new UnsupportedByProvider(integration.provider, 'HasOAuth2')
  if (doesWithoutAuthorization(provider, integration)) return NOTHING
  const { accessToken, refreshToken } = tokensOf(integration.credentialsArray())
  if (accessToken === null && refreshToken === null) return NOTHING
  // Without a refresh token there is nothing to force: an access token that does not end would be taken for one that is over.
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

/** What there is to do for each integration; the pages are read as the lanes get on. */
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

/** One refresh, whatever becomes of it; its length is bounded by the lock's. */
async function refreshed(
  framework: Framework,
  integration: Integration,
  { force }: { readonly force: boolean } = { force: true },
): Promise<RefreshTokensResult> {
  try {
    // By force: a rest that is over is no expiry. Whoever was faster has changed the stored token, and is not repeated.
    const isNewer = await refreshTokens(framework, holderOf(integration), { force })
    return { ...CHECKED, refreshed: force || isNewer ? 1 : 0 }
  } catch (error) {
    return failed(framework, integration, error)
  }
}

async function failed(
  framework: Framework,
  { id, provider }: Integration,
  error: unknown,
): Promise<RefreshTokensResult> {
  const needsPerson = (await reauthMark(framework, id)) !== null
  framework.logger.warn(
    {
      event: 'tokens.refresh_failed',
      integration: id,
      provider,
      error: errorKind(error),
      reauth_required: needsPerson,
    },
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

/** Waits for all, then throws what the first one threw: nothing goes on behind whoever waits. */
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
