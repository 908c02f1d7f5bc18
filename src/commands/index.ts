/** The table of commands. Made by `npm run docs` of the files of this folder. */
import { acknowledgeIncident } from './acknowledge-incident.ts'
import { annotateIncident } from './annotate-incident.ts'
import { audit } from './audit.ts'
import { circuit } from './circuit.ts'
import type { AnyCommand } from './command.ts'
import { createToken } from './create-token.ts'
import { deleteIntegration } from './delete.ts'
import { dismissWebhook } from './dismiss-webhook.ts'
import { evaluateFailures } from './evaluate-failures.ts'
import { events } from './events.ts'
import { findOrphans } from './find-orphans.ts'
import { forgetIdempotencyKey } from './forget-idempotency-key.ts'
import { forgetMapping } from './forget-mapping.ts'
import { idempotencyKeys } from './idempotency-keys.ts'
import { incidents } from './incidents.ts'
import { listTokens } from './list-tokens.ts'
import { listWebhooks } from './list-webhooks.ts'
import { logs } from './logs.ts'
import { mappings } from './mappings.ts'
import { notifications } from './notifications.ts'
import { oauthLink } from './oauth-link.ts'
import { oauthStatus } from './oauth-status.ts'
import { prune } from './prune.ts'
import { reconcileWebhooks } from './reconcile-webhooks.ts'
import { recoverWebhooks } from './recover-webhooks.ts'
import { refreshTokens } from './refresh-tokens.ts'
import { replayWebhook } from './replay-webhook.ts'
import { repointMapping } from './repoint-mapping.ts'
import { requests } from './requests.ts'
import { revokeOAuth } from './revoke-oauth.ts'
import { revokeToken } from './revoke-token.ts'
import { rotateWebhookSecret } from './rotate-webhook-secret.ts'
import { showWebhook } from './show-webhook.ts'
import { snoozeIncident } from './snooze-incident.ts'

export const TABLE: readonly AnyCommand[] = [
  acknowledgeIncident,
  annotateIncident,
  audit,
  circuit,
  createToken,
  deleteIntegration,
  dismissWebhook,
  evaluateFailures,
  events,
  findOrphans,
  forgetIdempotencyKey,
  forgetMapping,
  idempotencyKeys,
  incidents,
  listTokens,
  listWebhooks,
  logs,
  mappings,
  notifications,
  oauthLink,
  oauthStatus,
  prune,
  reconcileWebhooks,
  recoverWebhooks,
  refreshTokens,
  replayWebhook,
  repointMapping,
  requests,
  revokeOAuth,
  revokeToken,
  rotateWebhookSecret,
  showWebhook,
  snoozeIncident,
]
