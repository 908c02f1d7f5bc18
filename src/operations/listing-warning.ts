import type { Logger } from '../core/logger.ts'
import { redactText } from '../core/redaction.ts'
import type { Integration } from '../providers/integration.ts'
import type { SyncSession } from '../providers/sync-session.ts'
import { secretsIn } from './integration-secrets.ts'

/** A provider's warning about its listing. Rule: docs/behaviour/sync-listing.md, "The session". */
export function warnOfListing(
  logger: Logger,
  { integration, syncLogId }: { readonly integration: Integration; readonly syncLogId: number },
  ...[fields, message]: Parameters<SyncSession['warn']>
): void {
  const secrets = secretsIn(integration)
  const redacted = Object.entries(fields).map(([name, value]) => [
    name,
    typeof value === 'string' ? redactText(value, secrets) : value,
  ])
  logger.warn(
    {
      ...Object.fromEntries(redacted),
      event: 'sync.provider_warning',
      integration: integration.id,
      provider: integration.provider,
      sync_log: syncLogId,
    },
    redactText(message, secrets),
  )
}
