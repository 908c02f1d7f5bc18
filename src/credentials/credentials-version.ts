/** Compares credentials that no one may see. Rule: docs/behaviour/operator-api.md, "OpenAPI". */
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { requireIntegration } from '../integrations/queries.ts'
import { TOKEN_KEYS } from '../oauth/rules.ts'
import { hasOAuth2 } from '../providers/contracts.ts'

/**
 * A keyed digest of the credentials: another one after each change by a person, the same after a refresh of OAuth tokens that
 * stores nothing else. It also changes with the key that writes. Null: the credentials can't be read.
 *
 * @throws IntegrationNotFound
 */
export async function credentialsVersion(framework: Framework, id: number): Promise<string | null> {
  const { encryption, providers } = framework
  const row = await requireIntegration(framework, id)
  const provider = providers.find(row.provider)
  const refreshed = provider !== null && hasOAuth2(provider) ? TOKEN_KEYS : []
  try {
    const kept = Object.entries(encryption.decrypt(id, row.credentials)).filter(([key]) => !refreshed.includes(key))
    return encryption.sign(`credentials-version/${id}`, JSON.stringify(kept.sort(([a], [b]) => (a < b ? -1 : 1))))
  } catch (error) {
    if (!isIntegrationsError(error, 'credentials_unreadable')) throw error
    return null
  }
}
