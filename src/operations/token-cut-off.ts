/**
 * That a refresh has begun, kept until its tokens are stored. A process that dies in between leaves a refresh token that the
 * provider may have replaced already; when the provider refuses it, this says why.
 *
 * Rule: docs/behaviour/oauth.md, "A refresh that is cut off".
 */
import { integrationKey } from '../cache/integration-keys.ts'
import type { Tokens } from '../core/oauth-token.ts'
import { tokenDigest } from '../core/oauth-token.ts'
import type { Framework } from '../framework.ts'

/** As the cache holds it. */
interface StoredBeginning {
  readonly started_at: string
  /** SHA-256 of the token that was sent. */
  readonly token: string
}

export interface Beginning {
  /** When an earlier refresh by the same token began that came to no end; null: there was none. */
  readonly cutOffAt: string | null
}

function beginningKey(integrationId: number): string {
  return integrationKey(integrationId, 'token-refresh')
}

/** Before the provider is asked: if it can't be stored, the provider is not asked. */
export async function noteRefreshBegun(
  { cache, clock }: Framework,
  integrationId: number,
  sent: Tokens,
): Promise<Beginning> {
  const token = tokenDigest(sent)
  const earlier = (await cache.get(beginningKey(integrationId))) as StoredBeginning | undefined
  if (earlier?.token === token) return { cutOffAt: earlier.started_at }
  const own = { started_at: clock.now().toISOString(), token } satisfies StoredBeginning
  await cache.set(beginningKey(integrationId), own, null)
  return { cutOffAt: null }
}

export async function forgetRefreshBegun({ cache }: Framework, integrationId: number): Promise<void> {
  await cache.delete(beginningKey(integrationId))
}
