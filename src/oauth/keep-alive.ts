/** The history of an integration's refreshes, which sets the time of the next one. Rule: docs/behaviour/oauth.md, "Keep-alive". */
import { integrationKey } from '../cache/integration-keys.ts'
import type { Framework } from '../framework/context.ts'
import { errorKind } from '../framework/thrown.ts'
import type { HasOAuth2 } from '../providers/contracts.ts'
import { hasOAuth2 } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { KeepAliveState, TokenLifetimes } from './keep-alive-rules.ts'
import { afterFailure, afterSuccess, hasFailedForGood, NOTHING_KNOWN } from './keep-alive-rules.ts'
import { obtainsTokens } from './oauth-provider.ts'
import { clearReauthMark, markPair } from './reauth.ts'
import { forgetRefusal, noteRefusalOver } from './refused-tokens.ts'
import type { Tokens } from './rules.ts'
import { afterTokenWork } from './token-work.ts'

/** As the cache holds it. */
type StoredState = ReturnType<typeof stored>

function keepAliveKey(integrationId: number): string {
  return integrationKey(integrationId, 'token-keep-alive')
}

/** A refresh or an authorization gave new tokens. */
export async function noteTokenRefreshed({ cache, clock }: Framework, integrationId: number): Promise<void> {
  await cache.set(keepAliveKey(integrationId), stored(afterSuccess(clock.now())), null)
}

/**
 * A refresh failed. After four days of failures a person is needed. Nothing is noted if the pair that was sent has been replaced: the
 * lock's time may be over, and another refresh, or a late answer, have been quicker.
 *
 * @param sent the pair of tokens
 * @returns announces the outcome: to be called once the lock is released
 */
export async function noteTokenRefreshFailed(
  framework: Framework,
  integration: Integration,
  sent: Tokens,
  error: unknown,
): Promise<() => Promise<void>> {
  const announce = await markPair(framework, integration, sent, async (tx) => {
    const cache = framework.cache.within(tx)
    const before = await keepAliveState({ ...framework, cache }, integration.id)
    const state = afterFailure(before, framework.clock.now())
    await cache.set(keepAliveKey(integration.id), stored(state), null)
    return hasFailedForGood(state) ? reasonOf(state, error) : null
  })
  return announce ?? (async () => {})
}

/** The tokens are gone, and their history with them. */
export async function forgetKeepAlive({ cache }: Framework, integrationId: number): Promise<void> {
  await cache.delete(keepAliveKey(integrationId))
}

/**
 * Credentials were entered by hand. Nothing is known of new tokens: neither that a person is needed, nor how long they have been
 * unused.
 *
 * @param integration with the new credentials
 * @param keys those that were given, or removed; none where the metadata alone were changed
 */
export async function noteCredentialsGiven(
  framework: Framework,
  integration: Integration,
  keys: readonly string[],
): Promise<void> {
  const { id: integrationId } = integration
  const provider = framework.providers.find(integration.provider)
  const mayObtain = provider === null || (hasOAuth2(provider) && obtainsTokens(provider, integration))
  // With an API key in the place of tokens, or without OAuth, no token will ever be obtained.
  if (mayObtain) await forgetRefusal(framework, integrationId)
  else await (await noteRefusalOver(framework, integration))()
  if (!keys.some((key) => key === 'access_token' || key === 'refresh_token')) return
  await afterTokenWork(framework, integrationId, async () => {
    await clearReauthMark(framework, integrationId)
    await forgetKeepAlive(framework, integrationId)
  })
}

export async function keepAliveState(framework: Framework, integrationId: number): Promise<KeepAliveState> {
  return (await keepAliveStates(framework, [integrationId])).get(integrationId) ?? NOTHING_KNOWN
}

/** The states of these integrations, as far as known, in one query. */
export async function keepAliveStates(
  { cache }: Framework,
  integrationIds: readonly number[],
): Promise<Map<number, KeepAliveState>> {
  const found = await cache.getMany(integrationIds.map(keepAliveKey))
  return new Map(
    integrationIds.flatMap((id) => {
      const state = found.get(keepAliveKey(id)) as StoredState | undefined
      return state === undefined ? [] : [[id, restored(state)]]
    }),
  )
}

export function tokenLifetimes(provider: HasOAuth2): TokenLifetimes {
  const maxIdleSeconds = provider.refreshTokenMaxIdle?.() ?? null
  const isLength = maxIdleSeconds !== null && Number.isFinite(maxIdleSeconds) && maxIdleSeconds > 0
  return { thresholdSeconds: provider.refreshThreshold(), maxIdleSeconds: isLength ? maxIdleSeconds : null }
}

/** For a person; only the kind of the last error. */
function reasonOf({ firstFailedAt, failures }: KeepAliveState, error: unknown): string {
  return `every refresh since ${firstFailedAt?.toISOString()} failed, ${failures} in all; the last: ${errorKind(error)}`
}

function stored(state: KeepAliveState) {
  return {
    succeeded_at: text(state.succeededAt),
    failures: state.failures,
    first_failed_at: text(state.firstFailedAt),
    failed_at: text(state.failedAt),
    waits: state.waits,
    retry_at: text(state.retryAt),
  }
}

function restored(state: StoredState): KeepAliveState {
  return {
    succeededAt: time(state.succeeded_at),
    failures: state.failures,
    firstFailedAt: time(state.first_failed_at),
    failedAt: time(state.failed_at),
    waits: state.waits,
    retryAt: time(state.retry_at),
  }
}

const text = (at: Date | null): string | null => at?.toISOString() ?? null
const time = (at: string | null): Date | null => (at === null ? null : new Date(at))
