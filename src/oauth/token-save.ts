/** Stores what a refresh gave. Rule: docs/behaviour/oauth.md, "Refresh". */

import { keysOf, patchedCredentials } from '../credentials/credentials.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidCredentials, isIntegrationsError } from '../framework/errors.ts'
import { patiently } from '../framework/waiting.ts'
import { requireLocked, updateIntegration } from '../integrations/queries.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import { isAskedWithSame } from './obtained-tokens.ts'
import type { Tokens } from './rules.ts'
import { isSamePair, tokensOf } from './rules.ts'

/** The new refresh token exists here only, and the old one may be spent: a short outage of Postgres must not lose it. */
const PATIENCE_MS = 60_000

export interface SavedTokens {
  /** False: another pair was stored meanwhile, and stays; or the tokens were obtained with credentials that are no longer stored. */
  readonly isOurs: boolean
  /** As they are stored now. */
  readonly credentials: Credentials
}

/**
 * Merges the patch into the locked row if its pair of tokens is still the one that was sent.
 *
 * @param askedBy the handle that tokens without a person were obtained with; null: a person's
 * @throws InvalidCredentials where the result does not fit the provider's schema, IntegrationNotFound; Postgres' error after a
 *   minute of tries
 */
export async function saveTokens(
  framework: Framework,
  integrationId: number,
  sent: Tokens,
  patch: Credentials,
  askedBy: Integration | null = null,
): Promise<SavedTokens> {
  const { db, tables, encryption } = framework
  const save = (): Promise<SavedTokens> =>
    db.transaction(async (tx) => {
      const row = await requireLocked(tx, tables, integrationId)
      const stored = encryption.decrypt(row.id, row.credentials)
      // Ours when an earlier try was committed and its answer was lost.
      if (!isSamePair(tokensOf(stored), sent))
        return { isOurs: tokensOf(stored).accessToken === patch.access_token, credentials: stored }
      if (askedBy !== null && !isAskedWithSame(askedBy, { metadata: row.metadata, credentials: stored }))
        return { isOurs: false, credentials: stored }
      const text = patchedCredentials(framework, row, patch, { ofRefresh: true })
      const credentials = encryption.decrypt(row.id, text)
      refuseLost(row.provider, patch, credentials)
      await updateIntegration(tx, tables, integrationId, { credentials: text })
      await recordEvents(framework, tx, integrationId, [
        { name: 'CredentialsUpdated', payload: { keys: keysOf(patch) } },
      ])
      return { isOurs: true, credentials }
    })
  const saved = await patiently('the saving of refreshed tokens', () => save().catch(final), {
    signal: AbortSignal.timeout(PATIENCE_MS),
    logger: framework.logger,
  })
  if ('fault' in saved) throw saved.fault
  return saved
}

/** Our own errors come again with each try. */
function final(error: unknown): { fault: unknown } {
  if (isIntegrationsError(error)) return { fault: error }
  throw error
}

/** For a refresh an expiry is no reason to lose the tokens: the old ones may be used up. */
const NEEDED_KEYS = ['access_token', 'refresh_token'] as const

/** A schema that drops unknown keys would drop the tokens, which would show only at the next refresh. */
export function refuseLost(
  provider: string,
  patch: Credentials,
  credentials: Credentials,
  keys: readonly string[] = NEEDED_KEYS,
): void {
  const lost = keys.filter((key) => isLost(key, patch, credentials))
  if (lost.length === 0) return
  const message = 'the schema drops it; name it there, or make the schema a z.looseObject()'
  throw new InvalidCredentials(
    provider,
    'credentials',
    lost.map((path) => ({ path, message })),
  )
}

/** Whether the schema drops a key that was given. */
export function isLost(key: string, patch: Credentials, credentials: Credentials): boolean {
  return typeof patch[key] === 'string' && credentials[key] === undefined
}
