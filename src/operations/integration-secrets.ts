import { secretsOf } from '../core/redaction.ts'
import type { Integration } from '../providers/integration.ts'

/** What must not be stored or shown. Credentials that can't be read have told nobody a secret. */
export function secretsIn(integration: Integration): string[] {
  try {
    return secretsOf(integration.credentialsArray())
  } catch {
    return []
  }
}
