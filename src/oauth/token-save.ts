/** Stores what a refresh gave. Rule: docs/behaviour/oauth.md, "Refresh". */

import { keysOf, patchedCredentials } from '../credentials/credentials.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidCredentials, isIntegrationsError } from '../framework/errors.ts'
import { patiently } from '../framework/waiting.ts'
import { lockIntegration, updateIntegration } from '../integrations/queries.ts'
import type { Credentials } from '../providers/integration.ts'
import type { Tokens } from './token-rules.ts'
import { isSamePair, tokensOf } from './token-rules.ts'

/** Nobody else has the new refresh token, and the old one may be spent: that Postgres is away for a moment must not cost it. */
const PATIENCE_MS = 60_000

export interface SavedTokens {
  /** False: the stored pair was not the one sent any more, and has stayed. */
  readonly isOurs: boolean
  /** As they are stored now. */
  readonly credentials: Credentials
}

/**
 * Merges the patch into the locked row if its pair of tokens is still the one that was sent.
 *
 * @throws InvalidCredentials where the result does not fit the provider's schema, IntegrationNotFound; Postgres' error after a
 *   minute of tries
 */
export async function saveTokens(
  framework: Framework,
  integrationId: number,
  sent: Tokens,
  patch: Credentials,
): Promise<SavedTokens> {
  const { db, tables, encryption } = framework
  const save = (): Promise<SavedTokens> =>
    db.transaction(async (tx) => {
      const row = await lockIntegration(tx, tables, integrationId)
      if (row === null) throw new IntegrationNotFound(integrationId)
      const stored = encryption.decrypt(row.id, row.credentials)
      // Ours where the commit was made and its answer was lost.
      if (!isSamePair(tokensOf(stored), sent))
        return { isOurs: tokensOf(stored).accessToken === patch.access_token, credentials: stored }
      const text = patchedCredentials(framework, row, patch)
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

/** Our own errors come again however often it is tried. */
function final(error: unknown): { fault: unknown } {
  if (isIntegrationsError(error)) return { fault: error }
  throw error
}

/** A schema that drops what it does not name would drop the tokens, and nobody would notice before the next refresh. */
export function refuseLost(provider: string, patch: Credentials, credentials: Credentials): void {
  const lost = ['access_token', 'refresh_token'].filter(
    (key) => typeof patch[key] === 'string' && credentials[key] === undefined,
  )
  if (lost.length === 0) return
  const message = 'the schema drops it; name it there, or make the schema a z.looseObject()'
  throw new InvalidCredentials(
    provider,
    'credentials',
    lost.map((path) => ({ path, message })),
  )
}
