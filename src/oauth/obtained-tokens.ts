/**
 * A token that is obtained without a person is good for the credentials and metadata that it was asked for with, and for no
 * others.
 * Rule: docs/behaviour/oauth.md, "Tokens without a person".
 */
import { createHash } from 'node:crypto'
import type { Transaction } from '../db/client.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { canonicalJson, jsonEquals } from '../framework/json.ts'
import { updateIntegration } from '../integrations/queries.ts'
import { hasOAuth2 } from '../providers/contracts.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import { obtainsTokens } from './oauth-provider.ts'
import { TOKEN_KEYS, tokensOf } from './rules.ts'
import { isInsideAdaptersTokenWork } from './token-work.ts'

/** What the server is asked with: the metadata, and the credentials without the tokens. */
function askedWith(metadata: unknown, credentials: Credentials): Json {
  const others = Object.entries(credentials).filter(([key]) => !TOKEN_KEYS.includes(key))
  return { metadata: (metadata ?? {}) as Json, credentials: Object.fromEntries(others) as Json }
}

/** Whether the row still has what the handle's token was asked for with. */
export function isAskedWithSame(
  integration: Integration,
  stored: { readonly metadata: unknown; readonly credentials: Credentials },
): boolean {
  const asked = askedWith(integration.metadata, integration.credentialsArray())
  return jsonEquals(asked, askedWith(stored.metadata, stored.credentials))
}

/** Tells apart what a token is asked for with, without showing it. */
export function askedWithDigest(integration: Integration): string {
  const asked = askedWith(integration.metadata, integration.credentialsArray())
  return createHash('sha256').update(canonicalJson(asked)).digest('hex')
}

/**
 * Removes the obtained token of a row whose credentials or metadata were just changed, in the transaction of the change.
 * The schema is not checked: a provider that obtains tokens begins without one.
 *
 * @param given the patch of the credentials: a token in it is good
 * @returns the row as it is stored now; null: nothing was removed
 */
export async function endObtainedToken(
  framework: Framework,
  tx: Transaction,
  { before, after, given }: { readonly before: Integration; readonly after: Integration; readonly given: Credentials },
): Promise<IntegrationRow | null> {
  const { tables, encryption } = framework
  // The adapter stores something beside the token that it is getting.
  if (given.access_token !== undefined || isInsideAdaptersTokenWork(framework, after.id)) return null
  if (!isEnded(framework, before, after)) return null
  const { access_token: _ended, token_expires_at: _end, ...kept } = after.credentialsArray()
  return updateIntegration(tx, tables, after.id, { credentials: encryption.encrypt(after.id, kept) })
}

function isEnded({ providers }: Framework, before: Integration, after: Integration): boolean {
  const provider = providers.find(after.provider)
  if (provider === null || !hasOAuth2(provider)) return false
  try {
    if (tokensOf(after.credentialsArray()).accessToken === null) return false
    const isObtained = obtainsTokens(provider, before) || obtainsTokens(provider, after)
    return isObtained && !isAskedWithSame(before, { metadata: after.metadata, credentials: after.credentialsArray() })
  } catch (error) {
    // A change of the metadata needs no readable credentials.
    if (isIntegrationsError(error, 'credentials_unreadable')) return false
    throw error
  }
}
