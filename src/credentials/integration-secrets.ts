import type { Framework } from '../framework/context.ts'
import { secretsKnownTo } from '../framework/known-secrets.ts'
import { redactText, secretsOf } from '../framework/redaction.ts'
import { findIntegration } from '../integrations/queries.ts'
import type { Integration } from '../providers/integration.ts'
import { withoutSecrets } from '../webhooks/rules.ts'

/** Secrets that must not be stored or shown. Credentials that can't be read hold no known one. */
export function secretsIn(integration: Integration): readonly string[] {
  try {
    return secretsKnownTo(integration)
  } catch {
    return []
  }
}

/** Secrets of the stored credentials. Null: they cannot be read, so nothing that may hold one is shown. */
export async function storedSecrets(
  { db, tables, encryption }: Framework,
  integrationId: number,
): Promise<string[] | null> {
  const row = await findIntegration(db, tables, integrationId)
  try {
    return row === null ? null : secretsOf(encryption.decrypt(row.id, row.credentials))
  } catch {
    return null
  }
}

/** A delivery's headers and query as they are stored. Rule: docs/behaviour/webhooks.md, "What is stored". */
export function headersWithoutSecrets(
  headers: Readonly<Record<string, readonly string[]>>,
  integration: Integration,
): Record<string, string[]> {
  const secrets = secretsIn(integration)
  return withoutSecrets(headers, (value) => redactText(value, secrets))
}
