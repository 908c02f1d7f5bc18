import { secretsKnownTo } from '../framework/known-secrets.ts'
import { redactText } from '../framework/redaction.ts'
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

/** A delivery's headers and query as they are stored. Rule: docs/behaviour/webhooks.md, "What is stored". */
export function headersWithoutSecrets(
  headers: Readonly<Record<string, readonly string[]>>,
  integration: Integration,
): Record<string, string[]> {
  const secrets = secretsIn(integration)
  return withoutSecrets(headers, (value) => redactText(value, secrets))
}
