import { secretsKnownTo } from '../core/known-secrets.ts'
import type { Integration } from '../providers/integration.ts'

/** What must not be stored or shown. Credentials that can't be read have told nobody a secret. */
export function secretsIn(integration: Integration): readonly string[] {
  try {
    return secretsKnownTo(integration)
  } catch {
    return []
  }
}
